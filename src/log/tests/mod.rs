//! What publishers and groups of one partition may rely on. Time is the manual clock's.
#![forbid(unsafe_code)]

mod age;
mod ends;
mod naive;
mod room;

use super::{AppendCtl, AppendError, Limiting, Log, LogConfig, Retain};
use crate::{
    ring::{Gate, Peek, Producers},
    seq::Capacity,
    sync::{
        Arc,
        thread::{self, JoinHandle},
    },
    time::{Deadline, ManualClock},
    wait::WaitPolicy,
};
use std::time::Duration;

/// A value without `Debug`, `Clone` or anything else.
struct Plain(u64);

struct Bench {
    log: Arc<Log<Plain>>,
    clock: Arc<ManualClock>,
}

/// Producers that do not spin, so that "blocked" is "asleep".
const PARK: AppendCtl<'static> = AppendCtl { cancel: None, refuse: None, quiet: false, wait: WaitPolicy::Park };

fn bench_with(capacity: usize, retain: Retain, producers: Producers) -> Bench {
    let clock = Arc::new(ManualClock::new());
    let capacity = Capacity::new(capacity).unwrap();
    let config = LogConfig::new(capacity, producers, retain);
    Bench { log: Log::new(config, clock.clone()).unwrap(), clock }
}

fn bench(capacity: usize, retain: Retain) -> Bench {
    bench_with(capacity, retain, Producers::Shared)
}

type Outcome = Result<u64, AppendError<Plain>>;

impl Bench {
    fn fill(&self, count: u64) {
        for n in 0..count {
            self.log.try_append(Plain(n)).unwrap();
        }
    }

    /// A thread that appends `value` and waits for room until `deadline`.
    fn appender(&self, value: u64, deadline: Deadline) -> JoinHandle<Outcome> {
        let log = self.log.clone();
        thread::spawn(move || log.append(Plain(value), deadline, &PARK).map(|stored| stored.offset.get()))
    }

    fn commit(&self, gate: &Gate, count: u64) {
        let (at, epoch) = gate.snapshot();
        self.log.commit(gate, epoch, at, at.plus(count)).unwrap();
    }

    /// Reads and commits all there is.
    fn drain(&self, gate: &Gate) -> Vec<u64> {
        let (from, epoch) = gate.snapshot();
        let mut reader = self.log.reader(from);
        let mut read = Vec::new();
        loop {
            let to = match reader.peek(usize::MAX) {
                Peek::Pending => break,
                Peek::Lapped { earliest } => panic!("lapped: {earliest}"),
                Peek::Ready(run) => {
                    read.extend(run.iter().map(|plain| plain.0));
                    run.first().plus(run.len() as u64)
                }
            };
            reader.advance(to);
        }
        self.log.commit(gate, epoch, from, reader.position()).unwrap();
        read
    }
}

fn full(outcome: Outcome) -> (u64, Option<Limiting>, Duration) {
    match outcome {
        Err(AppendError::Full { value, limiting, waited }) => (value.0, limiting, waited),
        other => panic!("{other:?}"),
    }
}
