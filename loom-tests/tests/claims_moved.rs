//! Members that compete for the records of one partition, while the cursor is moved, or nearly: what was done before a move
//! comes before whoever has the record next, what is found to be all done has been counted, and a move that is refused
//! leaves no record that is done before the cursor.
#![cfg(ringlog_loom)]

mod queue;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom_tests::{Model, must_fail};
use queue::{Lane, full, lane, spawn};
use ringlog::internals::seq::Seq;
use std::sync::atomic::AtomicBool;

/// What a handler does with a record, which is one thread's at a time: loom's cell fails the model if it is not.
struct Effect(UnsafeCell<u64>);

impl Effect {
    fn touch(&self) {
        // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
        self.0.with_mut(|cell| unsafe { *cell += 1 });
    }
}

// A record is done ahead of the cursor, which goes back, and another member has it: what the first one did comes before.
#[test]
fn what_was_done_before_a_move_comes_before_whoever_has_the_record_next() {
    let outcomes = &["again", "done after the move, so not at all", "claimed before the move", "nothing to claim"];
    Model::new("effects, seek back").at_least(50).run(outcomes, |tally| {
        let (lane, _pen) = full(4);
        let mut reader = lane.ring.reader(Seq::ZERO);
        let [passed, _held, ahead] = [0, 1, 2].map(|_| lane.claim(&mut reader, 1).unwrap());
        lane.done(passed);
        let effect = Arc::new(Effect(UnsafeCell::new(0)));
        let member = {
            let effect = effect.clone();
            spawn(&lane, move |lane| {
                effect.touch();
                lane.claims.settle(ahead, |_| ());
            })
        };
        // Not loom's: who claims afterwards knows of it, and that orders nothing.
        let found = Arc::new(AtomicBool::new(false));
        let seen = found.clone();
        let mover = spawn(&lane, move |lane| {
            let closed = lane.claims.close();
            let moved = lane.ring.seek(&lane.gate, Seq::ZERO);
            let reset = lane.claims.reset(closed, moved.from, moved.to);
            seen.store(reset.forgotten == 1, std::sync::atomic::Ordering::Relaxed);
            lane.claims.advance();
        });
        let tally = tally.clone();
        let second = spawn(&lane, move |lane| {
            // Without a reader: the fence in that would do for this too, in loom.
            let claim = lane.claims.upcoming().and_then(|place| lane.claims.claim(place, 4));
            tally.saw(match claim {
                None => "nothing to claim",
                Some(claim) if claim.epoch() == ahead.epoch() => "claimed before the move",
                Some(claim) => {
                    assert!(claim.first() == Seq::ZERO && claim.end() == Seq::new(4), "{claim:?}");
                    if found.load(std::sync::atomic::Ordering::Relaxed) {
                        effect.touch();
                        "again"
                    } else {
                        "done after the move, so not at all"
                    }
                }
            });
        });
        member.join().unwrap();
        mover.join().unwrap();
        second.join().unwrap();
    });
}

// Who finds nothing pending finds that all has been counted, also if somebody else took the cursor over it before that.
#[test]
fn what_is_not_pending_has_been_counted() {
    Model::new("books").at_least(50).run(&["all done", "pending"], |tally| {
        let (lane, _pen) = full(1);
        let claim = lane.claim(&mut lane.ring.reader(Seq::ZERO), 1).unwrap();
        let acked = Arc::new(AtomicU64::new(0));
        let counts = acked.clone();
        let member = spawn(&lane, move |lane| lane.claims.settle(claim, |done| _ = counts.fetch_add(done, Relaxed)));
        let other = spawn(&lane, |lane| _ = lane.claims.advance());
        let seen = tally.clone();
        let looks = spawn(&lane, move |lane| {
            if lane.claims.pending(Seq::new(1)) == 0 {
                assert_eq!(acked.load(Relaxed), 1, "the books");
                seen.saw("all done");
            } else {
                seen.saw("pending");
            }
        });
        assert_eq!(member.join().unwrap(), 1);
        other.join().unwrap();
        looks.join().unwrap();
    });
}

/// A member is done while a move of the cursor is refused, because it was expected elsewhere.
fn refused(saw: impl Fn(&'static str), looks: fn(&Lane) -> bool) {
    let (lane, _pen) = full(1);
    let claim = lane.claim(&mut lane.ring.reader(Seq::ZERO), 1).unwrap();
    let member = spawn(&lane, move |lane| assert_eq!(lane.done(claim), 1));
    let mover = spawn(&lane, move |lane| {
        let closed = lane.claims.close();
        lane.claims.reopen(closed);
        looks(lane)
    });
    member.join().unwrap();
    saw(if mover.join().unwrap() { "by who was refused" } else { "by the member" });
    assert_eq!(lane.gate.position(), Seq::new(1), "a done record was left");
    let next = lane.claims.upcoming().expect("it is open again");
    assert_eq!((next.at(), lane.claims.pending(Seq::new(1))), (Seq::new(1), 0));
}

#[test]
fn a_move_that_is_refused_leaves_nothing_behind() {
    let outcomes = &["by who was refused", "by the member"];
    Model::new("claims, reopened").at_least(50).run(outcomes, |tally| {
        refused(|outcome| tally.saw(outcome), |lane| lane.claims.advance().is_some());
    });
}

#[test]
fn who_is_refused_and_does_not_look_leaves_a_done_record() {
    must_fail("who_is_refused_and_does_not_look_leaves_a_done_record", 2, "a done record was left", |_| {
        refused(|_| (), |_| false);
    });
}

// A move that is refused beside one that claims: it claims before, or afterwards, or finds it closed; nothing is lost.
#[test]
fn a_claim_beside_a_move_that_is_refused() {
    let outcomes = &["claimed", "closed"];
    Model::new("claim, reopened").at_least(20).run(outcomes, |tally| {
        let lane = lane();
        let seen = tally.clone();
        let member = spawn(&lane, move |lane| {
            let claim = lane.claim(&mut lane.ring.reader(Seq::ZERO), 1);
            seen.saw(if claim.is_some() { "claimed" } else { "closed" });
            claim.map_or(0, |claim| lane.done(claim))
        });
        let mover = spawn(&lane, |lane| {
            let closed = lane.claims.close();
            lane.claims.reopen(closed);
            lane.claims.advance();
        });
        mover.join().unwrap();
        assert_eq!(member.join().unwrap() + lane.finish(), 2);
    });
}
