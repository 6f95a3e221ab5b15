//! Appends that sleep for a mailbox that lets so many records wait: batches, and a cursor that is moved meanwhile. Nobody sleeps
//! beside room, and no more wait than may.
#![cfg(ringlog_loom)]

mod clock;

use clock::handle;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::log::{AppendCtl, Log, LogConfig, Retain};
use ringlog::internals::ring::{Gate, Gating, Producers, Start};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::time::{Deadline, ManualClock};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

struct Mailbox {
    log: Arc<Log<u32>>,
    gate: Arc<Gate>,
    /// Raised before the taking is known to anybody. Not loom's: it is to say what is so, and order nothing.
    taken: Arc<AtomicU64>,
    most: u64,
}

/// A mailbox that lets `most` wait, and as many do.
fn full(most: u64) -> Mailbox {
    let config = LogConfig::new(Capacity::new(8).unwrap(), Producers::Shared, Retain::Recent);
    let log = Log::new(config, handle(&Arc::new(ManualClock::new()))).unwrap();
    log.ring().share();
    let gate = log.admit(Start::Earliest, 1, Some(Gating::Waiting(NonZeroU64::new(most).unwrap())));
    (0..most).for_each(|n| _ = log.try_append(n as u32).unwrap());
    Mailbox { log, gate, taken: Arc::new(AtomicU64::new(0)), most }
}

impl Mailbox {
    /// So many records, all or none of them.
    fn append(&self, count: u64) -> thread::JoinHandle<Seq> {
        let (log, taken, most) = (self.log.clone(), self.taken.clone(), self.most);
        thread::spawn(move || {
            let (deadline, ctl) = (Deadline::Never, AppendCtl::default());
            let stored = match count {
                1 => log.append(7, deadline, &ctl).unwrap().offset,
                _ => log.append_all(&mut vec![7; count as usize], deadline, &ctl).unwrap().offsets.start,
            };
            assert!(stored.get() + count <= taken.load(SeqCst) + most, "more wait than may");
            stored
        })
    }

    fn say(&self, tally: &Tally) {
        tally.saw(["none waited", "one waited", "both waited"][self.log.counts().blocked as usize]);
        assert_eq!(self.log.not_full().waiting(), 0);
    }
}

// C-11, C-36: the room for one is too little for a batch, which hands on what woke it.
#[test]
fn a_record_that_sleeps_for_a_mailbox_beside_a_batch_gets_the_room_that_is_too_little_for_that() {
    let outcomes = &["none waited", "one waited", "both waited"];
    Model::new("a batch against takes").preemptions(1).at_least(200).run(outcomes, |tally| {
        let mailbox = full(3);
        let (batch, record) = (mailbox.append(2), mailbox.append(1));
        let take = |range: std::ops::RangeInclusive<u64>| {
            let (log, gate, taken) = (mailbox.log.clone(), mailbox.gate.clone(), mailbox.taken.clone());
            thread::spawn(move || {
                for to in range {
                    taken.store(to, SeqCst);
                    gate.take(Seq::new(to), 0);
                    log.not_full().notify();
                }
            })
        };
        let one = take(1..=1);
        assert_eq!(record.join().unwrap(), Seq::new(3));
        one.join().unwrap();
        let more = take(2..=3);
        assert_eq!(batch.join().unwrap(), Seq::new(4));
        more.join().unwrap();
        mailbox.say(tally);
    });
}

// C-36, Q-16: the cursor goes over what waits.
#[test]
fn an_append_that_sleeps_for_a_mailbox_is_woken_by_a_seek_over_what_waits() {
    Model::new("append against a seek on").run(&["none waited", "one waited"], |tally| {
        let mailbox = full(1);
        let append = mailbox.append(1);
        let seek = {
            let (log, gate, taken) = (mailbox.log.clone(), mailbox.gate.clone(), mailbox.taken.clone());
            thread::spawn(move || {
                taken.store(1, SeqCst);
                log.seek(&gate, Seq::new(1))
            })
        };
        assert_eq!(append.join().unwrap(), Seq::new(1));
        seek.join().unwrap();
        mailbox.say(tally);
    });
}

// C-36: a seek back takes the room away again that a take had made; it is there once more when the lane has got that far.
#[test]
fn an_append_that_sleeps_for_a_mailbox_outlasts_a_seek_back() {
    let outcomes = &["none waited", "one waited", "moved in its hand", "moved before", "not moved"];
    Model::new("append against a seek back").preemptions(1).at_least(500).run(outcomes, |tally| {
        let mailbox = full(2);
        let (log, gate) = (&mailbox.log, &mailbox.gate);
        mailbox.taken.store(1, SeqCst);
        gate.take(Seq::new(1), 0);
        log.commit(gate, 0, Seq::ZERO, Seq::new(1)).unwrap();
        log.try_append(2).unwrap();
        // Two wait behind the cursor, which is at 1: full.
        let append = mailbox.append(1);
        let seek = {
            let (log, gate) = (log.clone(), gate.clone());
            thread::spawn(move || log.seek(&gate, Seq::ZERO))
        };
        let lane = {
            let (log, gate, taken, tally) = (log.clone(), gate.clone(), mailbox.taken.clone(), tally.clone());
            thread::spawn(move || {
                let (mut refused, mut epoch) = (false, 0);
                while gate.position().precedes(Seq::new(2)) {
                    let at;
                    (at, epoch) = gate.snapshot();
                    taken.fetch_max(at.get() + 1, SeqCst);
                    gate.take(at.plus(1), epoch);
                    log.not_full().notify();
                    refused |= log.commit(&gate, epoch, at, at.plus(1)).is_err();
                }
                tally.saw(match (refused, epoch) {
                    (true, _) => "moved in its hand",
                    (false, 0) => "not moved",
                    (false, _) => "moved before",
                });
            })
        };
        lane.join().unwrap();
        seek.join().unwrap();
        // Where it was moved back behind that, the lane comes once more.
        let again = {
            let (log, gate) = (log.clone(), gate.clone());
            thread::spawn(move || {
                for to in gate.position().get()..2 {
                    gate.take(Seq::new(to + 1), gate.epoch());
                    log.not_full().notify();
                }
            })
        };
        assert_eq!(append.join().unwrap(), Seq::new(3));
        again.join().unwrap();
        mailbox.say(tally);
    });
}
