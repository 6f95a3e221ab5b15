//! Batches that are built in place.
#![forbid(unsafe_code)]

use super::{FIRSTS, Peek, ring_at};
use crate::ring::{Exclusive, Producers, Reader, Ring, Start, Why};
use crate::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

/// A value that counts how many of its kind are alive.
struct Counted(u64, Arc<AtomicIsize>);

impl Counted {
    fn new(value: u64, alive: &Arc<AtomicIsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(value, alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

fn alive(count: &AtomicIsize) -> isize {
    count.load(Ordering::Relaxed)
}

fn pen(ring: &Ring<Counted>) -> Exclusive<Counted> {
    ring.exclusive().expect("asked once")
}

fn read(reader: &mut Reader<Counted>, values: &mut Vec<u64>) {
    loop {
        let to = match reader.peek(usize::MAX) {
            Peek::Ready(run) => {
                values.extend(run.iter().map(|value| value.0));
                run.first().plus(run.len() as u64)
            }
            Peek::Pending => return,
            Peek::Lapped { earliest } => panic!("read at once, and lapped before {}", earliest.get()),
        };
        reader.advance(to);
    }
}

#[test]
fn what_is_staged_is_seen_all_at_once_or_never_and_dropped_once() {
    for first in FIRSTS {
        for capacity in [1, 2, 3, 4, 8, 64, 2_048] {
            let (count, ring) = (Arc::default(), ring_at(capacity, Producers::Exclusive, *first));
            let (mut one, mut reader) = (pen(&ring), ring.reader(ring.end()));
            let (mut expected, mut seen, mut back) = (Vec::new(), Vec::new(), Vec::new());
            let most = (capacity / 8).max(1);
            let under_miri = if capacity > 8 { 12 } else { 24 };
            for round in 0..if cfg!(miri) { under_miri } else { 400_u64 } {
                let batch = 1 + round as usize % most;
                for i in 0..batch {
                    assert!(one.stage(Counted::new(round * 1_000 + i as u64, &count)).is_ok());
                }
                read(&mut reader, &mut seen);
                assert_eq!(seen, expected, "staged, and already seen");
                match round % 4 {
                    1 => {
                        one.unstage(&mut back);
                        assert!(back.iter().map(|value| value.0).eq((0..batch as u64).map(|i| round * 1_000 + i)));
                        back.clear();
                    }
                    3 => one.abandon(),
                    _ => {
                        assert_eq!(one.publish_staged().unwrap().start.lag_behind(ring.end()), 0);
                        expected.extend((0..batch as u64).map(|i| round * 1_000 + i));
                    }
                }
                assert_eq!(one.staged(), 0);
                // The other ways to publish go on where this one left off.
                assert!(one.try_push(Counted::new(round, &count)).is_ok());
                let mut more = (0..round % capacity as u64).map(|i| Counted::new(i, &count)).collect();
                one.try_push_all(&mut more).unwrap();
                expected.extend([round].into_iter().chain(0..round % capacity as u64));
                read(&mut reader, &mut seen);
                assert_eq!(seen, expected);
            }
            assert!(one.try_push(Counted::new(7, &count)).is_ok());
            drop((reader, one, ring));
            assert_eq!(alive(&count), 0, "capacity {capacity}, from {first}");
        }
    }
}

#[test]
fn no_more_is_staged_than_an_eighth_so_that_a_batch_given_up_costs_readers_no_more_than_a_promise() {
    let count = Arc::default();
    for (capacity, most) in [(1, 1), (8, 1), (16, 2), (64, 8)] {
        let ring = ring_at(capacity, Producers::Exclusive, 0);
        let mut one = pen(&ring);
        for n in 0..3 * capacity as u64 {
            assert!(one.try_push(Counted::new(n, &count)).is_ok());
        }
        (0..most).for_each(|n| assert!(one.stage(Counted::new(n, &count)).is_ok()));
        assert!(
            one.stage(Counted::new(9, &count)).is_err_and(|refused| refused.why == Why::Full && refused.value.0 == 9)
        );
        one.abandon();
        assert!(ring.end().lag_behind(ring.earliest()) >= capacity as u64 - most);
    }
}

#[test]
fn a_gate_holds_back_what_is_staged_and_a_seal_what_would_be_published() {
    let (count, ring) = (Arc::default(), ring_at(64, Producers::Exclusive, 0));
    let (mut one, gate) = (pen(&ring), ring.join(Start::Earliest, 0));
    for n in 0..60 {
        assert!(one.try_push(Counted::new(n, &count)).is_ok());
    }
    (60..64).for_each(|n| assert!(one.stage(Counted::new(n, &count)).is_ok()));
    assert!(one.stage(Counted::new(64, &count)).is_err(), "64 records are not committed");
    ring.seal();
    assert_eq!(one.publish_staged(), Err(Why::Sealed));
    let mut back = Vec::new();
    one.unstage(&mut back);
    assert_eq!(back.iter().map(|value| value.0).collect::<Vec<_>>(), [60, 61, 62, 63]);
    assert_eq!((ring.end().get(), gate.position().get()), (60, 0));
    drop((back, one, ring));
    assert_eq!(alive(&count), 0);
}

#[test]
fn nothing_is_published_around_what_is_staged() {
    let count = Arc::default();
    let around: [fn(&mut Exclusive<Counted>, Counted) -> bool; 4] = [
        |one, value| one.try_push(value).is_ok(),
        |one, value| one.try_push_from(&mut Some(value)).is_ok(),
        |one, value| one.try_push_with(|| value, |_| ()).is_ok(),
        |one, value| one.try_push_all(&mut vec![value]).is_ok(),
    ];
    // What is staged, an eighth at most, goes over a page border.
    let (capacity, before, stages) = if cfg!(miri) { (64, 60, [1, 6, 8]) } else { (2_048, 200, [1, 100, 256]) };
    for publish in around {
        for staged in stages {
            let ring = ring_at(capacity, Producers::Exclusive, 0);
            let mut one = pen(&ring);
            (0..before).for_each(|n| assert!(one.try_push(Counted::new(n, &count)).is_ok()));
            (0..staged).for_each(|n| assert!(one.stage(Counted::new(n, &count)).is_ok()));
            let value = Counted::new(7, &count);
            let attempt = std::panic::AssertUnwindSafe(|| publish(&mut one, value));
            assert!(std::panic::catch_unwind(attempt).is_err());
            assert_eq!(one.publish_staged().unwrap().end.get(), before + staged);
            assert!(publish(&mut one, Counted::new(8, &count)));
            drop((one, ring));
            assert_eq!(alive(&count), 0);
        }
    }
}
