//! A lane under a lease: an ack against the expiry against the redelivery, and a seizure beside letting go and the end.
#![cfg(ringlog_loom)]

mod lane;

use lane::{Held, Lane, lane, member, spawn};
use loom_tests::{Model, Tally, must_fail};
use ringlog::internals::{group::word::MemberId, seq::Seq};

impl Lane {
    /// As a task hands over a record under a lease; `None`: the lane was seized. Otherwise whether it was in time.
    fn deliver_leased(&self, me: MemberId, held: &mut Held) -> Option<bool> {
        if !self.watch.begin(&self.word, me, held.next, held.epoch) {
            return None;
        }
        // SAFETY: loom's cell, as in `deliver`; the handler.
        held.calls.with_mut(|calls| unsafe { *calls += 1 });
        let in_time = self.watch.end(me);
        if !in_time {
            *self.hung.lock().unwrap() = false;
        }
        let to = held.next.plus(1);
        assert_eq!(self.gate.commit(held.epoch, held.next, to).is_ok(), in_time, "an ack that lies");
        if !in_time && !self.word.load().is_held_by(me) {
            return None;
        }
        (held.next, held.epoch) = self.gate.snapshot();
        Some(in_time)
    }

    /// As the timer: ends what is in hand, and seizes the lane for member 2 from a holder that still hangs.
    fn expire(&self) -> bool {
        let hangs = {
            let mut hung = self.hung.lock().unwrap();
            *hung = self.watch.lapse().is_some();
            *hung
        };
        let hung = self.hung.lock().unwrap();
        hangs && *hung && self.seize(member(1), member(2))
    }

    /// As one that ends nothing.
    fn expire_nothing(&self) -> bool {
        self.seize_anyway(member(1), member(2))
    }
}

/// Counts what a model saw; a twin that must fail counts nothing.
struct Seen(Option<Tally>);

impl Seen {
    fn saw(&self, outcome: &'static str) {
        if let Some(tally) = &self.0 {
            tally.saw(outcome);
        }
    }
}

/// Member 1 at work under a lease that may run out, and member 2, who takes over if the lane is seized.
fn leased(tally: Option<&Tally>, expire: fn(&Lane) -> bool) {
    let lane = lane();
    let seen = Seen(tally.cloned());
    let server = spawn(&lane, move |lane| {
        let Some((_, mut held)) = lane.take(member(1)) else { unreachable!("nobody has seized it before") };
        let kept = lane.deliver_leased(member(1), &mut held);
        seen.saw(match kept {
            Some(true) => "in time",
            Some(false) => "late, and tries again",
            None => "late, and seized from",
        });
        assert_eq!(lane.let_go(member(1), held), kept.is_some());
    });
    let seen = Seen(tally.cloned());
    let timer = spawn(&lane, move |lane| {
        let before = lane.gate.position();
        let seized = expire(lane);
        if let Some((_, mut held)) = lane.take(member(2)) {
            assert_eq!(held.next, before, "an ack that lies: after the expiry");
            assert_eq!(lane.deliver_leased(member(2), &mut held), Some(true));
            assert!(lane.let_go(member(2), held));
            seen.saw("taken over");
        } else {
            assert!(!seized);
        }
    });
    server.join().unwrap();
    timer.join().unwrap();
    assert!(lane.parked.lock().unwrap().is_some() && !lane.word.load().is_held());
    let owner = lane.word.load().owner();
    let (_, mut held) = lane.take(owner).expect("free and somebody's");
    while held.next.precedes(Seq::new(2)) {
        assert!(lane.deliver(&mut held));
    }
}

// B-8, X9, X36: of an ack and an expiry one comes about, the late ack changes nothing, and the record is handed over again by
// exactly one of the two members.
#[test]
fn an_ack_against_an_expiry_against_a_redelivery() {
    let outcomes = &["in time", "late, and tries again", "late, and seized from", "taken over"];
    Model::new("ack, expiry, redelivery").at_least(50).run(outcomes, |tally| leased(Some(tally), Lane::expire));
}

#[test]
fn an_expiry_that_fences_nobody_fails() {
    must_fail("an_expiry_that_fences_nobody_fails", 2, "an ack that lies", |_| leased(None, Lane::expire_nothing));
}

// Of letting go and seizing one comes about, and what is parked is the state that belongs to the word.
fn let_go_against_seize(tally: Option<&Tally>, let_go: fn(&Lane, Box<Held>)) {
    let lane = lane();
    let server = spawn(&lane, move |lane| {
        let Some((_, held)) = lane.take(member(1)) else { unreachable!("nobody else wants it") };
        let_go(lane, held);
    });
    let seen = Seen(tally.cloned());
    let seizer = spawn(&lane, move |lane| {
        let seized = lane.seize(member(1), member(2));
        seen.saw(if seized { "seized" } else { "let go, or not taken" });
        if seized {
            assert_eq!(lane.take(member(2)).map(|(_, held)| lane.let_go(member(2), held)), Some(true));
        }
    });
    server.join().unwrap();
    seizer.join().unwrap();
    assert!(!lane.word.load().is_held() && lane.parked.lock().unwrap().is_some());
}

#[test]
fn letting_go_beside_a_seizure() {
    Model::new("let go against seize").at_least(20).run(&["seized", "let go, or not taken"], |tally| {
        let_go_against_seize(Some(tally), |lane, held| _ = lane.let_go(member(1), held));
    });
}

#[test]
fn a_state_that_is_parked_before_the_word_says_so_fails() {
    must_fail("a_state_that_is_parked_before_the_word_says_so_fails", 2, "panicked", |_| {
        let_go_against_seize(None, |lane, held| {
            *lane.parked.lock().unwrap() = Some(held);
            let _seized = lane.word.let_go(member(1));
        });
    });
}

#[test]
fn a_seizure_beside_an_end() {
    Model::new("seize against end").at_least(20).run(&["seized", "not seized"], |tally| {
        let lane = lane();
        let (_, held) = lane.take(member(1)).unwrap();
        let seen = tally.clone();
        let seizer = spawn(&lane, move |lane| {
            let seized = lane.seize(member(1), member(2));
            seen.saw(if seized { "seized" } else { "not seized" });
        });
        let ender = spawn(&lane, |lane| {
            assert!(lane.word.end());
            if !lane.word.load().is_held() {
                drop(lane.parked.lock().unwrap().take());
            }
        });
        seizer.join().unwrap();
        ender.join().unwrap();
        lane.let_go(member(1), held);
        assert!(lane.parked.lock().unwrap().is_none() && !lane.word.load().is_held());
    });
}
