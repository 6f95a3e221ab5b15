//! What is published, and what a handler notes of it when the dice decide what goes wrong.

use crate::checker::{Ended, Handled, Verdict};
use crate::dice::Dice;
use ringlog::{Failure, Outcome, Record};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes as long as this; whoever does hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The payloads made and dropped.
#[derive(Debug, Default)]
pub(crate) struct Count {
    made: AtomicU64,
    dropped: AtomicU64,
}

impl Count {
    /// All that was made has been dropped, once the threads that ran handlers have ended.
    pub(crate) fn settle(&self) -> Verdict {
        let made = self.made.load(Ordering::Relaxed);
        let dropped = || self.dropped.load(Ordering::Relaxed);
        await_that(|| dropped() >= made);
        if dropped() == made { Ok(()) } else { Err(format!("{made} payloads made, {} dropped", dropped())) }
    }
}

/// Threads that nobody can join end soon after they were told to.
pub(crate) fn await_that(done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE / 4;
    while !done() && Instant::now() < deadline {
        thread::yield_now();
    }
    done()
}

#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) producer: u32,
    pub(crate) n: u64,
    /// A function of the two, so that a torn or stale record shows.
    sum: u64,
    count: Arc<Count>,
}

impl Payload {
    pub(crate) fn new(producer: u32, n: u64, count: &Arc<Count>) -> Self {
        count.made.fetch_add(1, Ordering::Relaxed);
        Self { producer, n, sum: sum(producer, n), count: count.clone() }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        assert_eq!(self.sum, sum(self.producer, self.n), "dropped what is no payload");
        self.sum = 0;
        self.count.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn sum(producer: u32, n: u64) -> u64 {
    (n ^ u64::from(producer).rotate_left(40)).wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// What one handler saw; handed over when the library drops the handler, so that noting orders no threads.
pub(crate) struct Notes {
    pub(crate) calls: Vec<Handled>,
    pub(crate) into: Arc<Mutex<Vec<Handled>>>,
    pub(crate) dice: Dice,
    /// Whoever waits for all notes to be handed over sees this one go.
    pub(crate) _open: Arc<()>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.into.lock().expect("nobody panics with it").append(&mut self.calls);
    }
}

impl Notes {
    pub(crate) fn handle(&mut self, record: &Record<'_, Payload>) -> Outcome {
        let begun = Instant::now();
        let Payload { producer, n, sum: seen, .. } = **record;
        assert_eq!(seen, sum(producer, n), "a torn record at {}", record.offset());
        let (ended, panics) = match self.dice.roll(64) {
            0 => (Ended::Rejected, false),
            1..4 => (Ended::Failed, false),
            4 => (Ended::Failed, true),
            _ => (Ended::Acked, false),
        };
        // Now and then a handler takes its time, so that controls come while it runs.
        if self.dice.roll(12) == 0 {
            (0..self.dice.roll(8)).for_each(|_| thread::yield_now());
        }
        let (partition, offset, attempt) = (record.partition(), record.offset(), record.attempt());
        let done = Instant::now();
        self.calls.push(Handled { partition, offset, attempt, producer, n, ended, begun, done });
        if panics {
            std::panic::resume_unwind(Box::new("as planned"));
        }
        match ended {
            Ended::Acked => Outcome::Ack,
            Ended::Failed => Outcome::Retry(Failure::new("planned")),
            Ended::Rejected => Outcome::Reject(Failure::new("planned")),
        }
    }
}
