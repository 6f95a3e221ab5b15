//! What settling does, record by record.

use super::lab::{Inbox, Lab};
use super::{SECOND, drain, figures, filled, peek, queue, values};
use ringlog::{Failure, GroupConfig, Order, Record, Retain, Retry, SettleError, Standing, TopicConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

// A-E6
#[test]
fn consumers_share_a_partition_and_an_ack_is_of_its_own_records_alone() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 6);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    let first = one.try_poll(2).unwrap();
    let second = two.try_poll(2).unwrap();
    assert_eq!((values(&first), values(&second)), (vec![0, 1], vec![2, 3]));
    assert_eq!(figures(&group), (0, 4, 0, 6));
    second.ack().unwrap();
    assert_eq!(figures(&group), (0, 2, 2, 4), "the cursor waits for who was first");
    first.ack().unwrap();
    assert_eq!(figures(&group), (4, 0, 4, 2));
    assert_eq!(drain(&mut one), [(4, 1), (5, 1)]);
    assert!(lab.broker.drain(Duration::ZERO).is_ok());
}

#[test]
fn a_poll_leaves_to_others_their_share_and_never_gives_more_than_was_asked_for() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 9);
    let mut all: Vec<_> = (0..3).map(|name| group.consumer(&name.to_string()).unwrap()).collect();
    let receipts: Vec<_> = all.iter_mut().map(|one| one.try_poll(100).unwrap().detach()).collect();
    assert_eq!(receipts.iter().map(|receipt| receipt.offsets()).collect::<Vec<_>>(), [0..3, 3..5, 5..6]);
    let more = all[0].try_poll(2).unwrap();
    assert_eq!(more.len(), 1, "of three that are left, for three");
    drop((more, receipts));
    assert_eq!(figures(&group), (0, 0, 0, 9));
}

// B-31, X8
#[test]
fn receipts_of_one_consumer_are_settled_in_any_order_by_any_thread() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 6);
    let mut consumer = group.consumer("c").unwrap();
    let mut receipts: Vec<_> = (0..3).map(|_| consumer.try_poll(2).unwrap().detach()).collect();
    assert_eq!(figures(&group), (0, 6, 0, 6));
    receipts.rotate_left(1);
    for (at, receipt) in receipts.into_iter().enumerate() {
        thread::spawn(move || receipt.ack()).join().unwrap().unwrap();
        assert_eq!(figures(&group).2, 2 * (at as u64 + 1));
    }
    assert_eq!(figures(&group), (6, 0, 6, 0));
}

#[test]
fn ack_through_leaves_the_rest_in_flight_and_names_only_its_own() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 6);
    let mut consumer = group.consumer("c").unwrap();
    let other = consumer.try_poll(2).unwrap().detach();
    let mut batch = consumer.try_poll(3).unwrap();
    batch.ack_through(3).unwrap();
    assert_eq!(figures(&group), (0, 3, 2, 4));
    for offset in [1, 3, 5] {
        let refused = batch.ack_through(offset).unwrap_err();
        assert!(
            matches!(refused, SettleError::NotInFlight { in_flight: Some(ref left), .. } if *left == (4..5)),
            "{refused}"
        );
    }
    assert_eq!(values(&batch), [2, 3, 4], "what is in hand stays readable");
    drop(batch);
    other.ack().unwrap();
    assert_eq!(figures(&group), (4, 0, 4, 2));
    assert_eq!(drain(&mut consumer), [(4, 1), (5, 1)], "what was released counts as no attempt");
}

#[test]
fn a_nack_counts_for_each_record_and_nack_from_for_one() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 5);
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(2).unwrap().nack(Failure::new("no")).unwrap();
    assert_eq!((figures(&group), group.stats().retried()), ((0, 0, 0, 5), 2));
    let mut fresh = consumer.try_poll(9).unwrap();
    while values(&fresh).len() < 3 {
        drop(fresh.detach()); // those that failed come one by one, by turns with fresh ones
        fresh = consumer.try_poll(9).unwrap();
    }
    assert_eq!(values(&fresh), [2, 3, 4]);
    fresh.nack_from(3, Failure::new("this one")).unwrap();
    drop(fresh);
    assert_eq!((figures(&group), group.stats().retried()), ((0, 0, 1, 4), 3));
    assert_eq!(drain(&mut consumer), [(0, 2), (1, 2), (3, 2), (4, 1)]);
    assert_eq!(figures(&group), (5, 0, 5, 0));
}

#[test]
fn a_dropped_batch_goes_back_uncounted_also_after_a_panic_and_to_others() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 2);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _batch = one.try_poll(1).unwrap();
        panic!("at work");
    }));
    assert!(panicked.is_err());
    drop(one.try_poll(1).unwrap().detach());
    assert_eq!((drain(&mut two), group.stats().retried()), (vec![(0, 1), (1, 1)], 0));
}

#[test]
fn a_pause_is_of_its_record_alone() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().retry(Retry::linear(9, SECOND)), 3);
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    assert_eq!(drain(&mut consumer), [(1, 1), (2, 1)]);
    assert_eq!(figures(&group), (0, 0, 2, 1));
    lab.clock.advance(SECOND - Duration::from_nanos(1));
    assert!(peek(&mut consumer).is_empty());
    lab.clock.advance(Duration::from_nanos(1));
    assert_eq!(drain(&mut consumer), [(0, 2)]);
}

#[test]
fn a_record_whose_attempts_are_used_up_has_a_letter_and_was_alone() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().order(Order::Shared).retry(Retry::constant(2, Duration::ZERO));
    let (_topic, group) = filled(&lab, config, 4);
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(3).unwrap().nack(Failure::new("first")).unwrap();
    let alone = consumer.try_poll(9).unwrap();
    let at = alone.offsets().start;
    assert_eq!((alone.len(), alone.get(0).unwrap().attempt()), (1, 2));
    alone.nack(Failure::of_kind("Poison", "again")).unwrap();
    let letter = &group.letters()[0];
    assert_eq!((letter.offset(), letter.attempts(), letter.kind()), (at, 2, "Poison"));
    let receipt = loop {
        let receipt = consumer.try_poll(9).unwrap().detach();
        if receipt.offsets() != (3..4) {
            break receipt; // without the record in hand
        }
        receipt.ack().unwrap();
    };
    receipt.nack(Failure::new("too")).unwrap();
    assert_eq!(group.stats().dead(), 2);
    assert_eq!(drain(&mut consumer), [(2, 2)]);
    assert_eq!(figures(&group).0, 4);
}

#[test]
fn without_attempts_every_record_is_alone() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().retry(Retry::never()), 3);
    let mut consumer = group.consumer("c").unwrap();
    let all: Vec<_> = (0..3).map(|_| consumer.try_poll(9).unwrap().detach()).collect();
    assert_eq!(all.iter().map(|one| one.offsets()).collect::<Vec<_>>(), [0..1, 1..2, 2..3]);
    let [a, b, c] = <[_; 3]>::try_from(all).unwrap();
    b.nack(Failure::new("no")).unwrap();
    assert_eq!((figures(&group), group.stats().dead()), ((0, 2, 0, 2), 1));
    a.ack().unwrap();
    drop(c);
    assert_eq!(figures(&group), (2, 0, 1, 1));
}

#[test]
fn by_partition_all_of_the_consumer_s_own_is_settled() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 8);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    one.try_poll(2).unwrap().detach().leave_in_flight();
    let theirs = two.try_poll(2).unwrap().detach();
    one.try_poll(2).unwrap().detach().leave_in_flight();
    let refused = one.ack_through(0, 2).unwrap_err();
    assert!(
        matches!(refused, SettleError::NotInFlight { in_flight: Some(ref hull), .. } if *hull == (0..6)),
        "{refused}"
    );
    one.ack_through(0, 4).unwrap();
    assert_eq!(figures(&group), (2, 3, 3, 5), "0, 1 and 4");
    assert!(one.nack(0));
    assert!(!one.nack(0) && !one.nack(7));
    assert_eq!((figures(&group), group.stats().retried()), ((2, 2, 3, 5), 1));
    theirs.ack().unwrap();
    assert_eq!(drain(&mut two), [(5, 2), (6, 1), (7, 1)]);
}

#[test]
fn handlers_and_consumers_share_a_partition() {
    let lab = Lab::new(1);
    let (topic, group) = filled(&lab, queue(), 4);
    let mut consumer = group.consumer("c").unwrap();
    let held = consumer.try_poll(2).unwrap().detach();
    let inbox = Inbox::default();
    let seen = inbox.clone();
    group.member("h").run(&lab.manual).subscribe(move |record: &Record<'_, u64>| seen.note(record)).unwrap();
    lab.settle();
    assert_eq!(inbox.offsets(0), [2, 3]);
    assert_eq!(group.standing(0), Ok(Standing::InFlight { member: "c".into(), records: 2 }));
    assert!(matches!(lab.broker.drain(Duration::ZERO), Err(ringlog::DrainError::TimedOut { .. })));
    held.nack(Failure::new("yours")).unwrap();
    lab.settle();
    assert_eq!(inbox.take().last(), Some(&(0, 1, 2)));
    let _ = topic.publish(9).unwrap();
    assert_eq!(peek(&mut consumer), [(9, 1)]);
    assert_eq!(figures(&group), (4, 0, 4, 1));
}

#[test]
fn what_is_done_is_dropped_at_once_where_nothing_is_kept_but_not_what_is_in_hand() {
    let lab = Lab::new(1);
    let config = TopicConfig::new().capacity(8).retain(Retain::Unacked);
    let topic = lab.broker.create_topic("t", config).unwrap();
    let group = topic.group("g", GroupConfig::earliest().order(Order::Shared)).unwrap();
    let payloads: Vec<_> = (0..6).map(Arc::new).collect();
    payloads.iter().for_each(|one| assert!(topic.publish(one.clone()).is_ok()));
    let kept = || payloads.iter().map(|one| Arc::strong_count(one) - 1).collect::<Vec<_>>();
    let mut consumer = group.consumer("c").unwrap();
    let first = consumer.try_poll(2).unwrap().detach();
    let mut second = consumer.try_poll(2).unwrap();
    second.ack_through(3).unwrap();
    assert_eq!(kept(), [1; 6]);
    first.ack().unwrap();
    assert_eq!((second.get(0).map(|record| **record), kept()[3]), (Some(2), 1));
    drop(second);
    assert_eq!(kept(), [0, 0, 0, 0, 1, 1]);
    consumer.try_poll(9).unwrap().ack().unwrap();
    assert_eq!(kept(), [0; 6]);
}
