//! The ring of pages alone: publish, read in place, commit. No keys, no groups, no handlers, no waking.
use std::sync::Arc;

use ringlog::internals::ring::{Exclusive, Gate, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::time::{Ticks, ticks, ticks_in};
use ringlog::internals::wait::WaitPolicy;

use crate::event::Event;
use crate::exchange::{Receive, Transmit};
use crate::machine;

/// Records lent at once.
const RUN: usize = 256;

/// One exclusive producer and a reader that paces itself as the balanced policy does.
pub fn exclusive(capacity: usize) -> (ExclusiveTx, RingRx) {
    let (ring, rx) = open(capacity, Producers::Exclusive);
    (ExclusiveTx { producer: ring.exclusive().expect("asked once") }, rx)
}

/// Shared producers (clone the first) and such a reader.
pub fn shared(capacity: usize) -> (SharedTx, RingRx) {
    let (ring, rx) = open(capacity, Producers::Shared);
    (SharedTx { ring, batch: Vec::with_capacity(64) }, rx)
}

fn open(capacity: usize, producers: Producers) -> (Arc<Ring<Event>>, RingRx) {
    let capacity = Capacity::new(capacity).expect("a capacity within bounds");
    let options = Options { prefault: true, ..Options::new(capacity, producers) };
    let ring = Ring::new(options).expect("memory for the ring");
    let gate = ring.join(Start::Earliest, 0);
    let reader = ring.reader(gate.position());
    (ring, RingRx { epoch: gate.epoch(), gate, reader, pace: ticks_in(WaitPolicy::Balanced.pace()), leave_until: 0 })
}

/// The exclusive producer.
#[derive(Debug)]
pub struct ExclusiveTx {
    producer: Exclusive<Event>,
}

impl Transmit for ExclusiveTx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        while self.producer.try_push(event).is_err() {
            machine::stuck();
        }
    }

    #[inline(always)]
    fn send_batch(&mut self, first: u64, n: u64) {
        for id in first..first + n {
            while self.producer.stage(Event::new(id)).is_err() {
                machine::stuck();
            }
        }
        self.producer.publish_staged().expect("the ring is open");
    }
}

/// A shared producer.
#[derive(Clone, Debug)]
pub struct SharedTx {
    ring: Arc<Ring<Event>>,
    batch: Vec<Event>,
}

impl Transmit for SharedTx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        let mut event = Some(event);
        while self.ring.try_push_from(&mut event).is_err() {
            machine::stuck();
        }
    }

    #[inline(always)]
    fn send_batch(&mut self, first: u64, n: u64) {
        self.batch.extend((first..first + n).map(Event::new));
        while self.ring.try_push_all(&mut self.batch).is_err() {
            machine::stuck();
        }
    }
}

/// A reader with a gate.
#[derive(Debug)]
pub struct RingRx {
    reader: Reader<Event>,
    gate: Arc<Gate>,
    epoch: u32,
    pace: Ticks,
    leave_until: Ticks,
}

impl RingRx {
    /// The same reader, looking again at once: the latency policy.
    pub fn eager(self) -> Self {
        RingRx { pace: 0, ..self }
    }
}

impl Receive for RingRx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
        if self.leave_until > 0 {
            if ticks() < self.leave_until {
                machine::make_way();
                return 0;
            }
            self.leave_until = 0;
        }
        let mut seen = 0;
        while let Peek::Ready(run) = self.reader.peek(RUN) {
            let (from, len) = (run.first(), run.len());
            run.iter().for_each(&mut see);
            let to = from.plus(len as u64);
            self.reader.advance(to);
            self.gate.commit(self.epoch, from, to).expect("nobody moves the gate");
            seen += len;
            if self.reader.caught_up() && self.pace > 0 {
                // The line that is being written is left alone, for as long as the wait policy says.
                self.leave_until = ticks() + self.pace;
                break;
            }
        }
        seen
    }
}
