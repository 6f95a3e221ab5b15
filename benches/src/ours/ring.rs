//! The ring of pages alone: publish, read in place, commit. No keys, no groups, no handlers, no waking.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

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

/// A ring that sheds its oldest records: an exclusive producer, and a reader that it does not wait for.
pub fn lossy_exclusive(capacity: usize) -> (ExclusiveTx, LossyRx) {
    let ring = make(capacity, Producers::Exclusive, true);
    let rx = LossyRx::new(&ring);
    (ExclusiveTx { producer: ring.exclusive().expect("asked once") }, rx)
}

/// The same for shared producers; `crowd` takes it from the one that would have it to itself.
pub fn lossy_shared(capacity: usize, crowd: bool) -> (SharedTx, LossyRx) {
    let ring = make(capacity, Producers::Shared, true);
    if crowd {
        ring.share();
    }
    let rx = LossyRx::new(&ring);
    (SharedTx { ring, batch: Vec::new() }, rx)
}

fn make(capacity: usize, producers: Producers, lossy: bool) -> Ring<Event> {
    let capacity = Capacity::new(capacity).expect("a capacity within bounds");
    Ring::new(Options { prefault: true, lossy, ..Options::new(capacity, producers) }).expect("memory for the ring")
}

fn open(capacity: usize, producers: Producers) -> (Ring<Event>, RingRx) {
    let ring = make(capacity, producers, false);
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
    ring: Ring<Event>,
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

/// A reader that nobody waits for. What it lost it makes up, message by message, so that count and sum have to hold.
#[derive(Debug)]
pub struct LossyRx {
    reader: Reader<Event>,
    pace: Ticks,
    leave_until: Ticks,
}

impl LossyRx {
    fn new(ring: &Ring<Event>) -> Self {
        let (reader, pace) = (ring.reader(Seq::ZERO), ticks_in(WaitPolicy::Balanced.pace()));
        LossyRx { reader, pace, leave_until: 0 }
    }

    /// What was lost up to `earliest`, made up.
    #[inline(always)]
    fn skip(&mut self, earliest: Seq, mut see: impl FnMut(&Event)) {
        let at = self.reader.position();
        (at.get()..earliest.get()).for_each(|id| see(&Event { id, ..Event::default() }));
        self.reader.jump(earliest);
    }
}

impl Receive for LossyRx {
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
        loop {
            let at = self.reader.position();
            match self.reader.peek(RUN) {
                Peek::Ready(run) => {
                    let to = at.plus(run.len() as u64);
                    run.iter().for_each(&mut see);
                    self.reader.advance(to);
                    seen += to.since(at) as usize;
                }
                Peek::Lapped { earliest } => {
                    self.skip(earliest, &mut see);
                    seen += earliest.since(at) as usize;
                }
                Peek::Pending => return seen,
            }
            if self.reader.caught_up() && self.pace > 0 {
                self.leave_until = ticks() + self.pace;
                return seen;
            }
        }
    }

    fn sit(&mut self, mut see: impl FnMut(&Event), ready: &Barrier, sent: &AtomicBool) {
        if let Peek::Lapped { earliest } = self.reader.peek(RUN) {
            self.skip(earliest, &mut see);
        }
        let Peek::Ready(run) = self.reader.peek(RUN) else { panic!("nobody sends, so nothing is lost") };
        ready.wait();
        while !sent.load(Ordering::Acquire) {
            machine::spin(16);
        }
        let whole = run.iter().zip(run.first().get()..).all(|(event, id)| *event == Event::new(id));
        assert!(whole, "what was in hand has changed");
        run.iter().for_each(see);
        let to = run.first().plus(run.len() as u64);
        self.reader.advance(to);
    }
}
