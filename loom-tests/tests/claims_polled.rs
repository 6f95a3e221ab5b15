//! What consumers of a work queue have in hand: beside a move of the cursor, which empties the hands of before it and no other, and
//! beside each other and a deadline, of whom one has it.
#![cfg(ringlog_loom)]

mod queue;

use loom::sync::{Arc, Mutex};
use loom_tests::{Model, Tally};
use queue::{Lane, lane, spawn};
use ringlog::internals::{
    group::{
        claims::{Claim, Stand},
        shared::handed::Handed,
        word::MemberId,
    },
    seq::Seq,
};

fn hand() -> Arc<Handed> {
    Arc::new(Handed::new(MemberId::new(1).unwrap()).of_a_batch())
}

/// As a receipt: all of it or nothing, with the control lock. `None`: refused.
fn settle(lane: &Lane, hand: &Handed, control: &Mutex<()>) -> Option<u64> {
    let claim = hand.settles()?;
    let settled = {
        let _control = control.lock().unwrap();
        (claim.epoch() == lane.gate.epoch()).then(|| lane.done(claim))
    };
    hand.put_down();
    if let Some(done) = settled {
        assert_eq!(done, claim.len() as u64, "all of it or nothing");
    }
    settled
}

/// A consumer polls and settles while the cursor is moved to where it stands, so that all is to be had again.
fn moved(tally: &Tally) {
    let (lane, hand, control) = (lane(), hand(), Arc::new(Mutex::new(())));
    let before = lane.gate.epoch();
    let consumer = {
        let (hand, control, tally) = (hand.clone(), control.clone(), tally.clone());
        spawn(&lane, move |lane| {
            assert!(hand.reach(|| true));
            let Some(claim) = lane.claim(&mut lane.ring.reader(Seq::ZERO), 2) else {
                hand.put_down();
                tally.saw("nothing to claim");
                return 0;
            };
            hand.take(claim);
            let settled = settle(lane, &hand, &control);
            let is_of_now = claim.epoch() != before;
            assert!(settled.is_some() || !is_of_now, "taken from its hand by a move that came before it");
            tally.saw(match settled {
                Some(_) if is_of_now => "claimed behind it",
                Some(_) => "done before it",
                None => "void",
            });
            // What was done before the move comes again.
            settled.filter(|_| is_of_now).unwrap_or(0)
        })
    };
    let mover = {
        let (hand, control) = (hand.clone(), control.clone());
        spawn(&lane, move |lane| {
            let _control = control.lock().unwrap();
            let closed = lane.claims.close();
            let moved = lane.ring.seek(&lane.gate, Seq::ZERO);
            lane.claims.reset(closed, moved.from, moved.to);
            hand.drop_void(lane.claims.epoch());
        })
    };
    mover.join().unwrap();
    let done = consumer.join().unwrap();
    assert!(hand.is_empty(), "what is void is in nobody's hands");
    assert_eq!(done + lane.finish(), 2);
}

#[test]
fn a_move_empties_the_hands_of_before_it_and_no_other() {
    let outcomes = &["nothing to claim", "claimed behind it", "done before it", "void"];
    Model::new("polled, moved").at_least(50).run(outcomes, moved);
}

/// What a consumer has is settled by two, one of them record by record, while its time runs out.
fn settled_by_two(tally: &Tally) {
    let (lane, hand) = (lane(), hand());
    assert!(hand.reach(|| true));
    let claim = lane.claim(&mut lane.ring.reader(Seq::ZERO), 2).unwrap();
    hand.take(claim);
    let first = {
        let (hand, tally) = (hand.clone(), tally.clone());
        spawn(&lane, move |lane| {
            let Some(mine) = hand.settles() else { return 0 };
            let done = lane.done(mine.head(1));
            hand.resumes(mine.behind(1));
            tally.saw("the first of it");
            done
        })
    };
    let second = {
        let (hand, tally) = (hand.clone(), tally.clone());
        spawn(&lane, move |lane| {
            let Some(mine) = hand.settles() else { return 0 };
            let done = lane.done(mine);
            hand.put_down();
            tally.saw(if mine.len() == 2 { "all of it" } else { "the rest of it" });
            done
        })
    };
    let timer = {
        let (hand, tally) = (hand.clone(), tally.clone());
        spawn(&lane, move |lane| {
            let Some(over) = hand.end(claim.ticket()) else { return 0 };
            over.records().for_each(|at| assert!(lane.claims.give_back(over, at), "{at} was another's"));
            tally.saw(if over.len() == 2 { "over, all of it" } else { "over, the rest of it" });
            over.len() as u64
        })
    };
    let done = first.join().unwrap() + second.join().unwrap();
    let over = timer.join().unwrap();
    let pooled = [0, 1].map(|at| lane.claims.stand(Seq::new(at)) == Stand::Pooled);
    assert_eq!(pooled.iter().filter(|pooled| **pooled).count() as u64, over);
    // Nobody may have come for it in time, who was there while the first one settled.
    let left: Option<Claim> = hand.settles();
    let done = done + left.map_or(0, |left| lane.done(left));
    assert_eq!(done + over, 2, "each is done or given back");
    assert_eq!(done + lane.finish(), 2);
}

#[test]
fn of_two_who_settle_and_a_deadline_one_has_each_record() {
    let outcomes = &["the first of it", "the rest of it", "all of it", "over, all of it", "over, the rest of it"];
    Model::new("polled, settled by two").at_least(50).run(outcomes, settled_by_two);
}
