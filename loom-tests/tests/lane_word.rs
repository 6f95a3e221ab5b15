//! A lane on its way from member to member, beside a seek, a pause and its end: one member at a time has its state, who
//! finds the word changed finds what changed it, and nothing is acknowledged once the lane is over.
#![cfg(ringlog_loom)]

mod lane;

use lane::{Lane, lane, member, spawn};
use loom::sync::{Arc, Mutex};
use loom_tests::{Model, Tally};
use ringlog::internals::{
    group::word::{MemberId, PauseReason},
    seq::Seq,
};

/// A member: takes the lane if it may, delivers what there is, and lets go as soon as it is told to.
fn serve(lane: &Lane, me: MemberId, tally: &Tally, moved: &'static str) {
    let Some((seen, mut held)) = lane.take(me) else { return };
    while held.next.precedes(Seq::new(2)) && !lane.word.differs(seen) {
        assert!(lane.deliver(&mut held));
    }
    if lane.word.differs(seen) {
        tally.saw(moved);
    }
    lane.let_go(me, held);
}

// The new owner is rung when the old one lets go; here it looks once it has been told, and again at the end.
#[test]
fn a_lane_moves_while_it_is_served() {
    let outcomes = &["told in hand", "done by one", "done by both", "done by the second"];
    Model::new("lane moves").at_least(50).run(outcomes, |tally| {
        let lane = lane();
        let (one, two) = (tally.clone(), tally.clone());
        let first = spawn(&lane, move |lane| {
            serve(lane, member(1), &one, "told in hand");
            lane.gate.position()
        });
        let second = spawn(&lane, move |lane| {
            lane.word.retarget(member(2)).unwrap();
            let before = lane.gate.position();
            serve(lane, member(2), &two, "told in hand");
            before
        });
        let (by_first, _) = (first.join().unwrap(), second.join().unwrap());
        tally.saw(match by_first.get() {
            0 => "done by the second",
            1 => "done by both",
            _ => "done by one",
        });
        serve(&lane, member(2), tally, "told in hand");
        assert_eq!(lane.gate.position(), Seq::new(2));
        assert!(lane.parked.lock().unwrap().is_some() && !lane.word.load().is_held());
    });
}

#[test]
fn nothing_is_acknowledged_once_the_lane_is_over() {
    Model::new("end against take").at_least(50).run(&["before", "refused", "too late"], |tally| {
        let lane = lane();
        let seen = tally.clone();
        let server = spawn(&lane, move |lane| {
            let Some((_, mut held)) = lane.take(member(1)) else { return seen.saw("too late") };
            seen.saw(if lane.deliver(&mut held) { "before" } else { "refused" });
            lane.let_go(member(1), held);
        });
        let ender = spawn(&lane, |lane| {
            assert!(lane.word.end());
            lane.gate.bump();
            let last = lane.gate.position();
            if !lane.word.load().is_held() {
                drop(lane.parked.lock().unwrap().take());
            }
            last
        });
        server.join().unwrap();
        let last = ender.join().unwrap();
        assert_eq!(lane.gate.position(), last, "the cursor moved after the end");
        assert!(lane.parked.lock().unwrap().is_none(), "whoever came last dropped the state");
    });
}

// The order that the seek stored and the nudge show: who finds the word changed finds the cursor moved.
#[test]
fn who_sees_the_nudge_sees_the_seek() {
    Model::new("seek against service").at_least(20).run(&["unseen", "seen", "refused"], |tally| {
        let lane = lane();
        let seen = tally.clone();
        let server = spawn(&lane, move |lane| {
            let Some((word, mut held)) = lane.take(member(1)) else { unreachable!("nobody else wants it") };
            let epoch = held.epoch;
            let now = lane.word.load();
            if now != word {
                assert_eq!(lane.gate.epoch(), 1, "a nudge without its seek");
                seen.saw("seen");
            } else if !lane.deliver(&mut held) {
                assert_eq!(epoch, 0);
                seen.saw("refused");
            } else {
                seen.saw("unseen");
            }
            lane.let_go(member(1), held);
        });
        let seeker = spawn(&lane, |lane| {
            lane.ring.seek(&lane.gate, Seq::new(2));
            lane.word.nudge();
        });
        server.join().unwrap();
        seeker.join().unwrap();
        assert_eq!(lane.gate.epoch(), 1);
    });
}

#[test]
fn a_pause_and_a_resume_beside_a_take_leave_the_lane_to_be_taken() {
    Model::new("pause against take").at_least(20).run(&["taken", "paused"], |tally| {
        let lane = lane();
        let seen = tally.clone();
        let server = spawn(&lane, move |lane| match lane.take(member(1)) {
            Some((_, held)) => {
                seen.saw("taken");
                lane.let_go(member(1), held);
            }
            None => seen.saw("paused"),
        });
        let pauser = spawn(&lane, |lane| {
            lane.word.pause(PauseReason::Group);
            lane.word.resume(PauseReason::Group);
        });
        server.join().unwrap();
        pauser.join().unwrap();
        assert!(lane.take(member(1)).is_some());
    });
}

// The queue and the bit that says that something is in it change under the queue's lock: neither is there without the other.
#[test]
fn a_letter_that_is_queued_beside_a_member_at_work_shows_in_the_word() {
    Model::new("redrive against service").at_least(20).run(&["emptied", "more behind"], |tally| {
        let (lane, queue) = (lane(), Arc::new(Mutex::new(1)));
        lane.word.redrive(); // one is there already
        let (letters, seen) = (queue.clone(), tally.clone());
        let server = spawn(&lane, move |lane| {
            let Some((word, held)) = lane.take(member(1)) else { unreachable!("nobody else wants it") };
            assert!(word.redrives());
            let mut letters = letters.lock().unwrap();
            *letters -= 1;
            if *letters == 0 {
                lane.word.redriven();
            }
            seen.saw(if *letters == 0 { "emptied" } else { "more behind" });
            drop(letters);
            lane.let_go(member(1), held);
        });
        let letters = queue.clone();
        let queuer = spawn(&lane, move |lane| {
            let mut letters = letters.lock().unwrap();
            *letters += 1;
            lane.word.redrive();
        });
        server.join().unwrap();
        queuer.join().unwrap();
        assert_eq!(*queue.lock().unwrap(), 1);
        assert!(lane.word.load().redrives(), "a letter that nobody is shown");
    });
}
