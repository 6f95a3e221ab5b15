//! What a member of a work queue has in hand: others take what its handler has not begun, and whoever told it to leave and
//! finds its hand empty sees it take nothing more.
#![cfg(ringlog_loom)]

mod queue;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use loom::thread;
use loom_tests::{Model, Tally};
use queue::{Lane, lane};
use ringlog::internals::{
    group::{
        claims::{Claim, Stand},
        shared::handed::{Cut, Handed},
        word::MemberId,
    },
    seq::Seq,
};

/// What handlers do with a record: one at a time, and each sees what the one before did.
struct Effects([UnsafeCell<u64>; 2]);

impl Effects {
    fn none() -> Arc<Self> {
        Arc::new(Effects([UnsafeCell::new(0), UnsafeCell::new(0)]))
    }

    fn touch(&self, at: u64) {
        // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
        self.0[at as usize].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn of(&self, at: u64) -> u64 {
        // SAFETY: as above.
        self.0[at as usize].with(|cell| unsafe { *cell })
    }
}

fn one() -> MemberId {
    MemberId::new(1).unwrap()
}

fn give_back(lane: &Lane, claim: Claim) {
    claim.records().for_each(|at| assert!(lane.claims.give_back(claim, at), "nobody else may"));
}

/// As `hand_over` does for a handler of single records that succeeds.
fn serve(lane: &Lane, hand: &Handed, claim: Claim, effects: &Effects) {
    let mut done = 0;
    for at in claim.records() {
        if !hand.begins(at.get()) {
            break;
        }
        effects.touch(at.get());
        done += 1;
    }
    let given = hand.settles().expect("nobody ends it");
    let in_its_place = given.first().lag_behind(claim.first()) as usize;
    let its = given.head(done - in_its_place.min(done));
    assert_eq!(lane.done(its), its.len() as u64, "what it has not lost counts");
    give_back(lane, given.behind(its.len()));
    hand.put_down();
}

/// A handler at a run of two, and somebody who has nothing to do and takes what it has not begun.
fn cut(tally: &Tally) {
    let (lane, effects, hand) = (lane(), Effects::none(), Arc::new(Handed::new(one())));
    assert!(hand.reach(|| true));
    let claim = lane.claim(&mut lane.ring.reader(Seq::ZERO), 2).unwrap();
    hand.take(claim);
    let member = {
        let (lane, effects, hand) = (lane.clone(), effects.clone(), hand.clone());
        thread::spawn(move || serve(&lane, &hand, claim, &effects))
    };
    let other = {
        let (lane, effects, tally) = (lane.clone(), effects.clone(), tally.clone());
        thread::spawn(move || {
            let Some(Cut { done, behind }) = hand.cut() else { return tally.saw("too late") };
            // In its place, so after what it did.
            done.records().for_each(|at| assert_eq!(effects.of(at.get()), 1));
            assert_eq!(lane.done(done), done.len() as u64);
            give_back(&lane, behind);
            for at in behind.records() {
                let again = lane.claims.take_again(at, behind.epoch()).expect("nobody else wants it");
                effects.touch(at.get());
                assert_eq!(lane.done(again), 1);
            }
            tally.saw(if behind.is_empty() { "at the second" } else { "at the first" });
        })
    };
    member.join().unwrap();
    other.join().unwrap();
    // Both found the other there: the handler has not begun it, and gave it back.
    for at in [0, 1] {
        if lane.claims.stand(Seq::new(at)) == Stand::Pooled {
            effects.touch(at);
            tally.saw("at what it had not quite begun");
        }
    }
    lane.finish();
    assert_eq!([0, 1].map(|at| effects.of(at)), [1, 1], "handled once each");
}

#[test]
fn what_a_handler_has_not_begun_is_begun_by_one() {
    let outcomes = &["too late", "at the first", "at the second", "at what it had not quite begun"];
    Model::new("cut").at_least(50).run(outcomes, cut);
}

// Whoever told it to leave, and finds that it has nothing in hand, is right for good: what handlers did comes before.
#[test]
fn who_was_told_to_leave_and_has_nothing_in_hand_takes_nothing_more() {
    let outcomes = &["quiet before it", "quiet after it", "in hand"];
    Model::new("leave against reach").at_least(20).run(outcomes, |tally| {
        let (lane, effects, hand) = (lane(), Effects::none(), Arc::new(Handed::new(one())));
        let left = Arc::new(AtomicBool::new(false));
        let member = {
            let (lane, effects, hand, left) = (lane.clone(), effects.clone(), hand.clone(), left.clone());
            thread::spawn(move || {
                // As `ShareTask::has_left`.
                if !hand.reach(|| !left.load(Acquire)) {
                    return;
                }
                let claim = lane.claim(&mut lane.ring.reader(Seq::ZERO), 1).expect("nobody else is there");
                hand.take(claim);
                serve(&lane, &hand, claim, &effects);
            })
        };
        let leaver = {
            let (effects, tally) = (effects.clone(), tally.clone());
            thread::spawn(move || {
                left.store(true, Release);
                if hand.is_empty() {
                    tally.saw(if effects.of(0) == 0 { "quiet before it" } else { "quiet after it" });
                } else {
                    tally.saw("in hand");
                }
            })
        };
        member.join().unwrap();
        leaver.join().unwrap();
    });
}
