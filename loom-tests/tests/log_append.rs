//! A publisher blocked at capacity 1 against a commit, against closing, and against both: it stores or gets its value
//! back, and never sleeps beside room.
#![cfg(ringlog_loom)]

mod clock;

use clock::handle;
use loom::{sync::Arc, thread};
use loom_tests::Model;
use ringlog::internals::{
    log::{AppendCtl, AppendError, Log, LogConfig, Retain},
    ring::{Gate, Gating, Producers, Start},
    seq::{Capacity, Seq},
    time::{Deadline, ManualClock, Time},
};
use std::time::Duration;

struct Full {
    log: Arc<Log<u32>>,
    gate: Arc<Gate>,
    clock: Arc<ManualClock>,
}

/// A partition of one record, which is there; a group at its start.
fn full() -> Full {
    let clock = Arc::new(ManualClock::new());
    let capacity = Capacity::new(1).unwrap();
    let config = LogConfig::new(capacity, Producers::Shared, Retain::Recent);
    let log = Log::new(config, handle(&clock)).unwrap();
    // Claimed by exchange from the start: `ring_bias` is about what comes before.
    log.ring().share();
    let gate = log.join(Start::Earliest, 1);
    log.try_append(0).unwrap();
    Full { log, gate, clock }
}

impl Full {
    fn commit(&self) -> thread::JoinHandle<()> {
        let (log, gate) = (self.log.clone(), self.gate.clone());
        thread::spawn(move || log.commit(&gate, gate.epoch(), Seq::ZERO, Seq::new(1)).unwrap())
    }

    fn close(&self) -> thread::JoinHandle<()> {
        let log = self.log.clone();
        thread::spawn(move || {
            log.close();
        })
    }

    fn append(&self, deadline: Deadline) -> thread::JoinHandle<&'static str> {
        let log = self.log.clone();
        thread::spawn(move || match log.append(7, deadline, &AppendCtl::default()) {
            Ok(stored) => {
                assert_eq!(stored.offset, Seq::new(1));
                "stored"
            }
            Err(AppendError::Closed(7)) => "closed",
            Err(AppendError::Full { value: 7, .. }) => "full",
            Err(other) => panic!("{other:?}"),
        })
    }
}

#[test]
fn a_blocked_append_is_woken_by_the_commit_that_makes_room() {
    Model::new("append against commit").run(&["stored"], |tally| {
        let full = full();
        let (append, commit) = (full.append(Deadline::Never), full.commit());
        tally.saw(append.join().unwrap());
        commit.join().unwrap();
        assert_eq!(full.log.end(), Seq::new(2));
    });
}

#[test]
fn a_blocked_append_is_woken_by_closing_and_gets_its_value_back() {
    Model::new("append against close").run(&["closed"], |tally| {
        let full = full();
        let (append, close) = (full.append(Deadline::Never), full.close());
        tally.saw(append.join().unwrap());
        close.join().unwrap();
        assert_eq!(full.log.end(), Seq::new(1));
    });
}

#[test]
fn a_blocked_append_stores_before_the_seal_or_not_at_all() {
    Model::new("append against commit and close").run(&["stored", "closed"], |tally| {
        let full = full();
        let (append, commit, close) = (full.append(Deadline::Never), full.commit(), full.close());
        let outcome = append.join().unwrap();
        commit.join().unwrap();
        close.join().unwrap();
        assert_eq!(full.log.end(), Seq::new(if outcome == "stored" { 2 } else { 1 }));
        tally.saw(outcome);
    });
}

#[test]
fn a_blocked_append_times_out_or_stores_and_leaves_nobody_registered() {
    Model::new("append against a deadline").run(&["stored", "full"], |tally| {
        let full = full();
        let (append, commit) = (full.append(Deadline::At(Time::from_nanos(1))), full.commit());
        let timer = thread::spawn({
            let clock = full.clock.clone();
            move || clock.advance(Duration::from_nanos(1))
        });
        tally.saw(append.join().unwrap());
        commit.join().unwrap();
        timer.join().unwrap();
        assert_eq!(full.log.not_full().waiting(), 0);
    });
}

// What a mailbox does that lets one record wait: it says that it has taken the next, then that there is room.
#[test]
fn an_append_that_sleeps_for_a_mailbox_is_woken_by_the_taking_of_the_next() {
    Model::new("append against take").run(&["stored", "waited", "at once"], |tally| {
        let clock = Arc::new(ManualClock::new());
        let config = LogConfig::new(Capacity::new(8).unwrap(), Producers::Shared, Retain::Recent);
        let log = Log::new(config, handle(&clock)).unwrap();
        log.ring().share();
        let gate = log.admit(Start::Earliest, 1, Some(Gating::Waiting(std::num::NonZeroU64::MIN)));
        log.try_append(0).unwrap();
        let append = || {
            let (log, tally) = (log.clone(), tally.clone());
            thread::spawn(move || {
                log.append(7, Deadline::Never, &AppendCtl::default()).unwrap();
                tally.saw("stored");
            })
        };
        let append = append();
        let taker = {
            let (log, gate) = (log.clone(), gate.clone());
            thread::spawn(move || {
                gate.take(Seq::new(1), 0);
                log.not_full().notify();
            })
        };
        append.join().unwrap();
        taker.join().unwrap();
        assert_eq!((log.end(), log.not_full().waiting()), (Seq::new(2), 0));
        tally.saw(if log.counts().blocked > 0 { "waited" } else { "at once" });
    });
}
