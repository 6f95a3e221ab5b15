//! A lane that a consumer polls: receipts that are settled on other threads, beside each other, an expiry, a seek and a delete.
#![cfg(ringlog_loom)]

use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally, must_fail};
use ringlog::internals::{
    group::{
        FencedBy,
        pulled::{Pulled, Slip},
        word::MemberId,
    },
    ring::{Options, Producers, Ring, Start},
    seq::{Capacity, Seq},
};

/// A lane over two records, both there.
fn lane() -> Arc<Pulled> {
    let ring = Ring::with_spares(Options::new(Capacity::new(2).unwrap(), Producers::Exclusive), 0).unwrap();
    let gate = ring.join(Start::Earliest, 1);
    let mut pen = ring.exclusive().unwrap();
    (0..2).for_each(|n| pen.try_push(n).map(drop).unwrap());
    Arc::new(Pulled::new(ring, gate, MemberId::new(1).unwrap()))
}

fn spawn<R: 'static>(lane: &Arc<Pulled>, actor: impl FnOnce(&Pulled) -> R + 'static) -> thread::JoinHandle<R> {
    let lane = lane.clone();
    thread::spawn(move || actor(&lane))
}

/// Does all that is left, as the only one; how many records that were.
fn finish(lane: &Pulled) -> u64 {
    // What is in flight, and nobody has a receipt for: comes again.
    lane.expire();
    let before = lane.acked();
    while let Some(slip) = lane.poll() {
        lane.ack(slip).expect("nobody else is there");
    }
    assert_eq!(lane.position(), Seq::new(2), "a record was left");
    lane.acked() - before
}

/// A receipt is used while its lease ends, and somebody polls on.
fn ack_expire_poll(saw: impl Fn(&'static str), expire: fn(&Pulled) -> std::ops::Range<u64>) {
    let lane = lane();
    let slip = lane.poll().unwrap();
    let member = spawn(&lane, move |lane| lane.ack(slip));
    let timer = spawn(&lane, expire);
    let poller = spawn(&lane, |lane| lane.poll().map(Slip::offset));
    let (acked, expired, polled) = (member.join().unwrap(), timer.join().unwrap(), poller.join().unwrap());
    saw(match (acked, polled) {
        (Ok(()), Some(1)) => "in time",
        (Err(FencedBy::Expired), Some(0)) => "too late, and handed out again",
        (Err(FencedBy::Expired), Some(1)) => "too late, and polled before",
        other => panic!("an ack that lies: {other:?}"),
    });
    assert!(acked.is_ok() != expired.contains(&0), "an ack that lies: {acked:?}, and {expired:?} expired");
    let done = u64::from(acked.is_ok());
    assert_eq!((lane.acked(), done + finish(&lane)), (done, 2), "an ack that lies");
}

// B-8, X36: of an ack and an expiry one comes about, and the late ack of what is handed out again is refused.
#[test]
fn a_receipt_against_an_expiry_against_a_poll() {
    let outcomes = &["in time", "too late, and handed out again", "too late, and polled before"];
    Model::new("receipt, expiry, poll").at_least(50).run(outcomes, |tally| {
        ack_expire_poll(|outcome| tally.saw(outcome), Pulled::expire);
    });
}

#[test]
fn an_expiry_in_the_same_epoch_fails() {
    must_fail("an_expiry_in_the_same_epoch_fails", 2, "an ack that lies", |_| {
        ack_expire_poll(|_| (), Pulled::expire_in_the_same_epoch);
    });
}

/// A receipt is used while the cursor is moved.
fn seek_to(to: u64, tally: &Tally) {
    let lane = lane();
    let slip = lane.poll().unwrap();
    let seen = tally.clone();
    let member = spawn(&lane, move |lane| {
        let acked = lane.ack(slip);
        seen.saw(match acked {
            Ok(()) => "in time",
            Err(FencedBy::Seeked) => "too late",
            Err(other) => panic!("{other}"),
        });
        u64::from(acked.is_ok())
    });
    let mover = spawn(&lane, move |lane| lane.seek(Seq::new(to)).get());
    let (done, from) = (member.join().unwrap(), mover.join().unwrap());
    assert_eq!(from, done, "who was in time was so before the move");
    let (again, over) = (from.saturating_sub(to), to.saturating_sub(from));
    assert_eq!(done + finish(&lane) + over, 2 + again, "the books");
}

#[test]
fn a_receipt_against_a_seek_back() {
    Model::new("receipt, seek back").at_least(10).run(&["in time", "too late"], |tally| seek_to(0, tally));
}

#[test]
fn a_receipt_against_a_seek_over_what_is_in_flight() {
    Model::new("receipt, seek forwards").at_least(10).run(&["in time", "too late"], |tally| seek_to(2, tally));
}

// What the account of a delete says is all there is: the delete waits for no lock.
#[test]
fn a_receipt_against_a_delete() {
    Model::new("receipt, delete").at_least(10).run(&["in time", "too late"], |tally| {
        let lane = lane();
        let slip = lane.poll().unwrap();
        let member = spawn(&lane, move |lane| lane.ack(slip));
        let deleter = spawn(&lane, |lane| lane.end());
        let (acked, stands) = (member.join().unwrap(), deleter.join().unwrap());
        tally.saw(if acked.is_ok() { "in time" } else { "too late" });
        assert_eq!((stands.get(), lane.position()), (u64::from(acked.is_ok()), stands), "after the account");
        assert_eq!(lane.acked(), stands.get());
    });
}

// Of two batches in flight the later one's ack covers the earlier one, and each record counts once.
#[test]
fn two_receipts_of_one_partition() {
    let outcomes = &["one after the other", "covered"];
    Model::new("two receipts").at_least(10).run(outcomes, |tally| {
        let lane = lane();
        let members = [0, 1].map(|_| lane.poll().unwrap()).map(|slip| spawn(&lane, move |lane| lane.ack(slip)));
        let [first, second] = members.map(|member| member.join().unwrap());
        tally.saw(match (first, second) {
            (Ok(()), Ok(())) => "one after the other",
            (Err(FencedBy::AlreadyAcked), Ok(())) => "covered",
            other => panic!("{other:?}"),
        });
        assert_eq!((lane.acked(), lane.position()), (2, Seq::new(2)));
    });
}

// The earlier one is released: the later one comes again too, and is acknowledged before that or not at all.
#[test]
fn a_receipt_against_the_release_of_an_earlier_one() {
    let outcomes = &["in time", "too late"];
    Model::new("receipt, release").at_least(10).run(outcomes, |tally| {
        let lane = lane();
        let [first, second] = [0, 1].map(|_| lane.poll().unwrap());
        let releaser = spawn(&lane, move |lane| lane.release(first));
        let member = spawn(&lane, move |lane| lane.ack(second));
        releaser.join().unwrap();
        let done = match member.join().unwrap() {
            Ok(()) => 2,
            Err(FencedBy::Rewound) => 0,
            Err(other) => panic!("{other}"),
        };
        tally.saw(if done == 2 { "in time" } else { "too late" });
        assert_eq!(done + finish(&lane), 2);
    });
}

// Two acknowledge, and their time runs out: what was in time stays done, the later one covers the earlier, and what is refused
// comes again.
#[test]
fn two_receipts_against_an_expiry() {
    let outcomes = &["both", "by the later one", "the earlier one", "none"];
    Model::new("two receipts, expiry").at_least(50).run(outcomes, |tally| {
        let lane = lane();
        let [first, second] = [0, 1].map(|_| lane.poll().unwrap());
        let members = [first, second].map(|slip| spawn(&lane, move |lane| lane.ack(slip)));
        let timer = spawn(&lane, Pulled::expire);
        let [first, second] = members.map(|member| member.join().unwrap());
        let expired = timer.join().unwrap();
        let (outcome, done) = match (first, second) {
            (Ok(()), Ok(())) => ("both", 2),
            (Err(FencedBy::AlreadyAcked), Ok(())) => ("by the later one", 2),
            (Ok(()), Err(FencedBy::Expired)) => ("the earlier one", 1),
            (Err(FencedBy::Expired), Err(FencedBy::Expired)) => ("none", 0),
            other => panic!("an ack that lies: {other:?}"),
        };
        tally.saw(outcome);
        assert_eq!((lane.acked(), expired.end - expired.start), (done, 2 - done), "an ack that lies");
        assert_eq!(done + finish(&lane), 2);
    });
}
