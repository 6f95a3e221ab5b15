//! Messages that own memory: strings, on our ring and through `rtrb`.
use std::sync::{Arc, Barrier};
use std::time::Instant;

use ringlog::internals::ring::{Exclusive, Gate, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::Capacity;
use ringlog::internals::time::{Ticks, ticks, ticks_in};
use ringlog::internals::wait::WaitPolicy;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::exchange::{Load, per_message};
use crate::machine;

/// Records lent at once.
const RUN: usize = 256;
/// What each message begins with; its number follows in eight letters.
const TEXT: &str = "a message that is long enough to live on the heap: ";

/// Writes message `id` behind what is in `text`.
#[inline(always)]
fn write(text: &mut String, id: u64) {
    text.push_str(TEXT);
    (0..8).for_each(|n| text.push((b'a' + (id >> (4 * n) & 15) as u8) as char));
}

#[inline(always)]
fn fresh(id: u64) -> String {
    let mut text = String::with_capacity(TEXT.len() + 8);
    write(&mut text, id);
    text
}

/// The number of a message.
#[inline(always)]
fn read(text: &str) -> u64 {
    let letters = text.as_bytes().last_chunk::<8>().expect("messages are long enough");
    letters.iter().enumerate().fold(0, |id, (n, letter)| id | u64::from(letter - b'a') << (4 * n))
}

trait SendText {
    fn send(&mut self, id: u64);
}

trait ReceiveText {
    fn drain(&mut self, see: impl FnMut(&str)) -> usize;
}

/// How a ring gets its strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strings {
    /// A new one for each message; the one that lay in its place is dropped.
    Dropped,
    /// The one that lies there already is written again.
    Reused,
}

struct RingTx(Exclusive<String>, Strings);

impl SendText for RingTx {
    #[inline(always)]
    fn send(&mut self, id: u64) {
        match self.1 {
            Strings::Dropped => {
                let mut text = Some(fresh(id));
                while self.0.try_push_from(&mut text).is_err() {
                    machine::stuck();
                }
            }
            Strings::Reused => {
                let again = |text: &mut String| {
                    text.clear();
                    write(text, id);
                };
                while self.0.try_push_with(|| String::with_capacity(TEXT.len() + 8), again).is_err() {
                    machine::stuck();
                }
            }
        }
    }
}

struct RingRx {
    reader: Reader<String>,
    gate: Arc<Gate>,
    epoch: u32,
    pace: Ticks,
    leave_until: Ticks,
}

impl ReceiveText for RingRx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&str)) -> usize {
        if self.leave_until > 0 {
            if ticks() < self.leave_until {
                return 0;
            }
            self.leave_until = 0;
        }
        let mut seen = 0;
        while let Peek::Ready(run) = self.reader.peek(RUN) {
            let (from, len) = (run.first(), run.len());
            run.iter().for_each(|text| see(text));
            let to = from.plus(len as u64);
            self.reader.advance(to);
            self.gate.commit(self.epoch, from, to).expect("nobody moves the gate");
            seen += len;
            if self.reader.caught_up() {
                self.leave_until = ticks() + self.pace;
                break;
            }
        }
        seen
    }
}

/// Through our ring.
pub fn ours(load: &Load, strings: Strings) -> f64 {
    let capacity = Capacity::new(load.capacity).expect("a capacity within bounds");
    let options = Options { prefault: true, ..Options::new(capacity, Producers::Exclusive) };
    let ring = Ring::new(options).expect("memory for the ring");
    let gate = ring.join(Start::Earliest, 0);
    let (reader, epoch, pace) = (ring.reader(gate.position()), gate.epoch(), ticks_in(WaitPolicy::Balanced.pace()));
    let tx = RingTx(ring.exclusive().expect("asked once"), strings);
    exchange(load, tx, RingRx { reader, gate, epoch, pace, leave_until: 0 })
}

struct PeerTx(Producer<String>);

impl SendText for PeerTx {
    #[inline(always)]
    fn send(&mut self, id: u64) {
        let mut text = fresh(id);
        while let Err(PushError::Full(back)) = self.0.push(text) {
            text = back;
            machine::stuck();
        }
    }
}

struct PeerRx(Consumer<String>);

impl ReceiveText for PeerRx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&str)) -> usize {
        let there = self.0.slots();
        if let Ok(chunk) = self.0.read_chunk(there) {
            chunk.into_iter().for_each(|text| see(&text));
        }
        there
    }
}

/// Through `rtrb`, whose consumer owns what it gets and drops it.
pub fn rtrb(load: &Load) -> f64 {
    let (tx, rx) = RingBuffer::new(load.capacity);
    exchange(load, PeerTx(tx), PeerRx(rx))
}

fn exchange(load: &Load, mut tx: impl SendText + Send, mut rx: impl ReceiveText + Send) -> f64 {
    let gate = Barrier::new(2);
    let producer = || {
        (0..load.warm()).for_each(|id| tx.send(id));
        gate.wait();
        let start = Instant::now();
        (load.warm()..load.total()).for_each(|id| tx.send(id));
        start
    };
    let consumer = || {
        let (mut count, mut sum) = (0, 0_u64);
        let mut until = |end: u64| {
            while count < end {
                let see = |text: &str| (count, sum) = (count + 1, sum.wrapping_add(read(text)));
                if rx.drain(see) == 0 {
                    machine::make_way();
                    machine::spin(load.pause);
                }
            }
        };
        until(load.warm());
        gate.wait();
        until(load.total());
        (Instant::now(), sum)
    };
    let (start, (end, sum)) = machine::pair(producer, consumer);
    let total = u128::from(load.total());
    assert_eq!(u128::from(sum), total * (total - 1) / 2, "messages were lost, doubled or changed");
    per_message(start, end, load.messages)
}
