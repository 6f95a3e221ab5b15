//! What consumers have in hand, one step after the other.
#![forbid(unsafe_code)]

use super::Shared;
use super::failed::Deal;
use super::hand::{Hand, InHand, Settles};
use super::settle::Given;
use crate::group::context::Id;
use crate::group::lease::Order;
use crate::group::word::MemberId;
use crate::ring::{Gate, Options, Producers, Ring, Start};
use crate::seq::{Capacity, Seq};
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::time::Time;
use std::time::Duration;

const DEADLINE: Time = Time::from_nanos(10);

struct Lane {
    shared: Shared,
    gate: Arc<Gate>,
    ring: Ring<u64>,
}

/// A lane over four records.
fn lane(order: Order) -> Lane {
    let ring = Ring::new(Options::new(Capacity::new(4).unwrap(), Producers::Shared)).unwrap();
    let gate = ring.join(Start::Earliest, 1);
    (0..4).for_each(|n| ring.try_push(n).map(drop).unwrap());
    Lane { shared: Shared::new(order, 4, gate.clone()).unwrap(), gate, ring }
}

impl Lane {
    /// A batch of one record in a consumer's hand.
    fn polls(&self) -> Arc<Hand> {
        let standing = Hand::new(MemberId::NOBODY, "c".into(), Arc::new(AtomicBool::new(false)), Id::fresh());
        let hand = standing.of_a_batch();
        hand.reach();
        self.shared.join(&hand);
        let claim = self.shared.claims.claim(self.shared.claims.upcoming().unwrap(), 1).unwrap();
        let given = Given { claim, failures: 0, again: false };
        let (since, deadline, limit) = (Time::ZERO, Some(DEADLINE), Some(DEADLINE));
        hand.take(InHand { given, singly: false, since, deadline, limit, over: false, settling: false });
        hand
    }
}

// The mover is halted between opening claims in the new epoch and emptying the hands of the one before.
#[test]
fn what_a_consumer_claimed_behind_a_move_of_the_cursor_stays_in_its_hand() {
    let lane = lane(Order::Shared);
    let Lane { shared, gate, ring } = &lane;
    let before = lane.polls();
    let closed = shared.claims.close();
    let moved = ring.seek(gate, Seq::new(2));
    shared.failed.reset(|| shared.claims.reset(closed, moved.from, moved.to));
    let since = lane.polls();
    shared.void_polled(shared.claims.epoch());
    assert!(before.held().is_none() && before.is_empty(), "void");
    assert_eq!(since.in_force().map(|held| held.claim().first()), Some(Seq::new(2)));
    assert!(matches!(since.settles(None), Settles::Counts(_)));
}

#[test]
fn whoever_finds_that_time_is_up_leaves_alone_what_is_being_settled() {
    let lane = lane(Order::Shared);
    let hand = lane.polls();
    let before = Time::from_nanos(DEADLINE.as_nanos() - 1);
    assert_eq!(hand.extend(DEADLINE, Duration::ZERO, None), Some(Err(())), "its time is up");
    assert!(matches!(hand.settles(Some(before)), Settles::Counts(_)), "another has looked at the time before");
    assert!(hand.end_own().is_none(), "it is being settled");
    assert_eq!((hand.in_force().map(|held| held.settling), hand.fate()), (Some(true), None));
}

#[test]
fn what_is_parked_behind_a_record_in_hand_does_not_hide_another_that_has_failed() {
    let lane = lane(Order::Key);
    let Shared { claims, failed, .. } = &lane.shared;
    let learned = Some((Seq::ZERO, [7, 7, 8, 9].as_slice()));
    let Deal::Hand(_in_hand) = failed.deal(claims, 1, learned) else { panic!("nothing was dealt") };
    let Deal::Hand(fails) = failed.deal(claims, 1, None) else { panic!("nothing was dealt") };
    assert_eq!(fails.first(), Seq::new(2), "the second is of the key that is in hand");
    assert!(failed.put(claims, fails, fails.first(), 3, DEADLINE));
    assert_eq!(failed.first(), Some((3, DEADLINE)));
}

// The learner is halted between reading the records and saying their keys, while the cursor is moved and others go on.
#[test]
fn what_an_extractor_says_the_second_time_changes_no_key_that_is_in_hand() {
    let lane = lane(Order::Key);
    let Shared { claims, failed, .. } = &lane.shared;
    let closed = claims.close();
    let moved = lane.ring.seek(&lane.gate, Seq::new(2));
    failed.reset(|| claims.reset(closed, moved.from, moved.to));
    let learned = Some((Seq::new(2), [7, 7].as_slice()));
    let Deal::Hand(in_hand) = failed.deal(claims, 1, learned) else { panic!("nothing was dealt") };
    let otherwise = Some((Seq::ZERO, [9, 9, 5, 9].as_slice()));
    assert_eq!(failed.deal(claims, 1, otherwise), Deal::Unknown(Seq::new(4)), "the other of its key is parked");
    assert_eq!(failed.settle(claims, in_hand, |_| ()).done, 1);
    let next = failed.take(claims, DEADLINE).map(|(claim, failures)| (claim.first(), failures));
    assert_eq!(next, Some((Seq::new(3), 0)));
}
