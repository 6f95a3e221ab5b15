//! Who owns a ring, step by step.
#![forbid(unsafe_code)]

use super::{Bias, EXCLUDED, HANDS, Hand, SHARED, Stand, WORTH};
use crate::ring::Producers;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::hint::barrier_is_asymmetric;
use crate::sync::thread;

/// One publish: as the owner of which hand, or by exchange.
fn publish(bias: &Bias) -> Option<usize> {
    loop {
        match bias.stand() {
            Stand::Shared => return None,
            Stand::Owner(hand) if bias.enter(hand) => {
                bias.leave(hand);
                return Some(hand.nth());
            }
            Stand::Owner(_) => {}
        }
    }
}

fn elsewhere(bias: &Bias) -> Option<usize> {
    thread::scope(|scope| scope.spawn(|| publish(bias)).join().unwrap())
}

#[test]
fn a_thread_alone_keeps_its_first_hand_where_the_barrier_is_free() {
    let bias = Bias::new(Producers::Shared);
    let first = barrier_is_asymmetric().then_some(0);
    (0..100).for_each(|_| assert_eq!(publish(&bias), first));
}

#[test]
fn a_ring_is_settled_once_enough_was_published_and_stays_so_for_who_takes_it() {
    if !barrier_is_asymmetric() {
        return;
    }
    let (bias, settled) = (Bias::new(Producers::Shared), |bias: &Bias| Hand(bias.owner.load(Relaxed)).is_settled());
    (1..WORTH).for_each(|_| assert_eq!((publish(&bias), settled(&bias)), (Some(0), false)));
    assert_eq!((publish(&bias), settled(&bias)), (Some(0), true));
    assert_eq!((publish(&bias), settled(&bias)), (Some(0), true), "it is the same hand");
    assert_eq!((elsewhere(&bias), settled(&bias)), (Some(1), true));

    let young = Bias::new(Producers::Shared);
    assert_eq!((publish(&young), elsewhere(&young), settled(&young)), (Some(0), Some(1), false));
}

#[test]
fn every_hand_is_dealt_once_and_then_the_ring_is_everybodys() {
    if !barrier_is_asymmetric() {
        return;
    }
    let bias = Bias::new(Producers::Shared);
    for nth in 0..HANDS {
        // From one thread to another and back again: it is a new hand each time.
        let hand = if nth % 2 == 0 { publish(&bias) } else { elsewhere(&bias) };
        assert_eq!(hand, Some(nth));
    }
    assert_eq!((publish(&bias), elsewhere(&bias), publish(&bias)), (None, None, None));
    assert_eq!(bias.owner.load(Relaxed), SHARED);
}

#[test]
fn who_lost_its_hand_is_not_let_in_any_more() {
    if !barrier_is_asymmetric() {
        return;
    }
    let bias = Bias::new(Producers::Shared);
    let Stand::Owner(first) = bias.stand() else { panic!("nobody owned it before") };
    assert_eq!(elsewhere(&bias), Some(1));
    assert!(!bias.enter(first));
    assert!(bias.busy.iter().all(|busy| !busy.load(Relaxed)));
}

#[test]
fn who_does_not_get_a_hand_leaves_its_flag_alone() {
    if !barrier_is_asymmetric() {
        return;
    }
    let bias = Bias::new(Producers::Shared);
    let late = Hand(bias.owner.load(Relaxed));
    let Stand::Owner(hand) = bias.stand() else { panic!("nobody owned it before") };
    assert!(bias.enter(hand));
    let lost =
        thread::scope(|scope| scope.spawn(|| bias.take_over(crate::sync::thread_number(), late)).join().unwrap());
    assert_eq!(lost, None);
    assert!(bias.busy[0].load(Relaxed));
    bias.leave(hand);
}

#[test]
fn sharing_twice_is_sharing_once_and_changes_no_exclusive_ring() {
    let (shared, exclusive) = (Bias::new(Producers::Shared), Bias::new(Producers::Exclusive));
    for _ in 0..2 {
        shared.share();
        exclusive.share();
        assert_eq!((shared.owner.load(Relaxed), publish(&shared)), (SHARED, None));
        assert_eq!(exclusive.owner.load(Relaxed), EXCLUDED);
    }
}

#[test]
#[should_panic(expected = "this ring has one exclusive producer: publish through it")]
fn the_shared_face_of_an_exclusive_ring_panics() {
    let _ = Bias::new(Producers::Exclusive).stand();
}
