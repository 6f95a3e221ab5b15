//! What a ring promises, without threads where none are needed.
#![forbid(unsafe_code)]

mod gates;
mod lossy;
mod memory;
mod readers;
mod records;
mod release;
mod release_storm;
mod seal;
mod staging;
mod storm;
mod times;

use super::{Exclusive, Options, Peek, Producers, Reader, Refused, Ring, Why};
use crate::seq::{Capacity, Seq};

/// Where logs begin: at zero, and just before each border that a number in the ring could wrap at.
const FIRSTS: &[u64] = if cfg!(miri) {
    &[u64::MAX - 3]
} else {
    &[0, (1 << 32) - 10, (1 << 40) - 10, (1 << 48) - 10, u64::MAX / 2 - 9, u64::MAX - 10]
};
const BOTH: [Producers; 2] = [Producers::Exclusive, Producers::Shared];

fn ring_at<T: Send + Sync + 'static>(capacity: usize, producers: Producers, first: u64) -> Ring<T> {
    let capacity = Capacity::new(capacity).unwrap();
    Ring::new(Options { first: Seq::new(first), ..Options::new(capacity, producers) }).unwrap()
}

fn ring<T: Send + Sync + 'static>(capacity: usize, producers: Producers) -> Ring<T> {
    ring_at(capacity, producers, 0)
}

/// Both kinds of producers, at every wrap.
fn everywhere() -> impl Iterator<Item = (Producers, u64)> {
    BOTH.iter().flat_map(|producers| FIRSTS.iter().map(|first| (*producers, *first)))
}

/// The same face for both kinds of producers.
enum Pen<T: Send + Sync + 'static> {
    One(Exclusive<T>),
    Many(Ring<T>),
}

impl<T: Send + Sync + 'static> Pen<T> {
    fn of(ring: &Ring<T>) -> Self {
        ring.exclusive().map_or_else(|| Self::Many(ring.clone()), Self::One)
    }

    fn push(&mut self, value: T) -> Result<Seq, Refused<T>> {
        match self {
            Self::One(one) => one.try_push(value),
            Self::Many(ring) => ring.try_push(value),
        }
    }

    fn push_all(&mut self, values: &mut Vec<T>) -> Result<std::ops::Range<Seq>, Why> {
        match self {
            Self::One(one) => one.try_push_all(values),
            Self::Many(ring) => ring.try_push_all(values),
        }
    }
}

/// Everything that is there, and on past it.
fn drain<T: Clone + Send + Sync + 'static>(reader: &mut Reader<T>) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        match reader.peek(usize::MAX) {
            Peek::Ready(run) => {
                all.extend(run.iter().cloned());
                let to = run.first().plus(run.len() as u64);
                reader.advance(to);
            }
            Peek::Pending => return all,
            Peek::Lapped { earliest } => reader.jump(earliest),
        }
    }
}
