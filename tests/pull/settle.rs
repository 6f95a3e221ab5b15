//! What is in flight, and what acks, nacks and releases make of it.

use super::lab::Lab;
use super::{SECOND, drained, figures, forever, group, peek, values};
use ringlog::{Consumer, Failure, FencedBy, Group, GroupConfig, Receipt, SeekTo, SettleError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

fn fenced(settled: Result<(), SettleError>) -> FencedBy {
    match settled {
        Err(SettleError::Fenced { reason, .. }) => reason,
        other => panic!("not fenced: {other:?}"),
    }
}

// A-E6, B-3, B-5, B-33
#[test]
fn a_poll_gives_what_is_there_at_most_what_was_asked_for_and_goes_on_behind_it() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    let mut consumer = group.consumer("c").unwrap();
    assert!(consumer.try_poll(3).unwrap().is_empty());
    topic.publish_batch(0..5).unwrap();
    let one = consumer.poll(3, SECOND).unwrap();
    assert_eq!((values(&one), one.offsets(), one.partition()), (vec![0, 1, 2], 0..3, Some(0)));
    let one = one.detach();
    let two = consumer.poll(3, SECOND).unwrap();
    assert_eq!(values(&two), [3, 4], "there is no waiting for a full batch");
    assert_eq!(figures(&group), (0, 5, 0));
    two.ack().unwrap();
    assert_eq!(figures(&group), (5, 0, 5), "what came before is done too");
    assert_eq!(fenced(one.ack()), FencedBy::AlreadyAcked);
    assert!(consumer.try_poll(0).unwrap().is_empty());
    assert!(drained(&lab.broker));
}

// what was handed out is not done before it is acknowledged; B-6, B-31, X8
#[test]
fn an_ack_covers_everything_before_it_frees_room_and_lets_a_drain_through() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 4, forever());
    topic.publish_batch(0..4).unwrap();
    assert!(topic.try_publish(4).is_err());
    let mut consumer = group.consumer("c").unwrap();
    let mut taken = 0;
    while taken < 4 {
        let batch = consumer.try_poll(2).unwrap();
        taken += batch.len();
        std::mem::forget(batch.detach());
    }
    assert_eq!(figures(&group), (0, 4, 0));
    consumer.ack_through(0, 1).unwrap();
    assert_eq!(figures(&group), (2, 2, 2));
    topic.publish_batch(4..6).unwrap();
    assert!(topic.try_publish(6).is_err() && !drained(&lab.broker));
    consumer.ack_through(0, 3).unwrap();
    let batch = consumer.try_poll(9).unwrap();
    assert_eq!(batch.get(0).map(|record| *record), Some(4));
    batch.ack().unwrap();
    while !drained(&lab.broker) {
        consumer.try_poll(9).unwrap().ack().unwrap();
    }
}

// B-16
#[test]
fn acknowledging_what_is_not_in_flight_is_refused_with_what_is() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..6).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let text = |refused: Result<(), SettleError>| refused.unwrap_err().to_string();
    assert_eq!(text(consumer.ack_through(0, 7)), "offset 7 is not in flight for g (nothing is)");
    assert_eq!(text(consumer.ack_through(9, 0)), "offset 0 is not in flight for g (nothing is)", "no such partition");
    let mut receipt = consumer.try_poll(4).unwrap().detach();
    consumer.ack_through(0, 0).unwrap();
    assert_eq!(text(consumer.ack_through(0, 7)), "offset 7 is not in flight for g (1..3 are)");
    assert_eq!(text(consumer.ack_through(0, 0)), "offset 0 is not in flight for g (1..3 are)");
    assert_eq!(text(receipt.ack_through(4)), "offset 4 is not in flight for g (1..3 are)", "of another batch");
    assert_eq!(text(receipt.nack_from(4, Failure::new("no"))), "offset 4 is not in flight for g (1..3 are)");
    assert_eq!(figures(&group), (1, 3, 1), "nothing has changed");
    receipt.ack_through(2).unwrap();
    assert_eq!(text(consumer.ack_through(0, u64::MAX)), format!("offset {} is not in flight for g (3 is)", u64::MAX));
    receipt.ack().unwrap();
}

// B-7
#[test]
fn a_nack_hands_everything_in_flight_out_again_at_once_and_nothing_if_nothing_is() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    let mut consumer = group.consumer("c").unwrap();
    assert!(!consumer.nack(0) && !consumer.nack(9), "also of a partition that there is not");
    topic.publish_batch(0..3).unwrap();
    assert!(!consumer.nack(0));
    assert_eq!(group.stats().retried(), 0, "nothing was in flight");
    let receipt = consumer.try_poll(2).unwrap().detach();
    std::mem::forget(consumer.try_poll(2).unwrap().detach());
    assert!(consumer.nack(0));
    assert_eq!((figures(&group), group.stats().retried()), ((0, 0, 0), 3));
    assert_eq!(fenced(receipt.ack()), FencedBy::Rewound);
    let again = consumer.try_poll(9).unwrap();
    let attempts: Vec<u32> = again.iter().map(|record| record.attempt()).collect();
    assert_eq!((values(&again), attempts), (vec![0, 1, 2], vec![2, 2, 2]));
    again.ack().unwrap();
    assert_eq!(group.stats().refused(), 2, "the late ack, by records");
}

// As many records as were not acknowledged in time, whatever ends the rest.
#[test]
fn of_a_batch_that_was_acknowledged_in_part_the_rest_is_refused_later() {
    type End = fn(&Lab, &Group<u64>, Consumer<u64>);
    let ends: [(End, FencedBy); 4] = [
        (|lab, _, _| lab.clock.advance(LEASE), FencedBy::Expired),
        (|_, group, _| _ = group.seek(0, SeekTo::Offset(1)).unwrap(), FencedBy::Seeked),
        (|_, group, _| assert!(group.delete()), FencedBy::Deleted),
        (|_, _, consumer| drop(consumer), FencedBy::Moved),
    ];
    for (end, why) in ends {
        let lab = Lab::new(1);
        let (topic, group) = group(&lab, 100, forever().lease(LEASE));
        topic.publish_batch(0..8).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        let [first, mut last] = [(); 2].map(|()| consumer.try_poll(4).unwrap().detach());
        last.ack_through(5).unwrap();
        assert_eq!((fenced(first.ack()), group.stats().refused()), (FencedBy::AlreadyAcked, 0));
        end(&lab, &group, consumer);
        assert_eq!((fenced(last.ack_through(6)), group.stats().refused()), (why, 1));
        assert_eq!((fenced(last.ack()), group.stats().refused()), (why, 3), "6, then 6 and 7");
        assert_eq!(group.stats().acked(), 6);
    }
}

#[test]
fn a_dropped_batch_is_handed_out_again_uncounted_also_after_a_panic() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..3).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    drop(consumer.try_poll(3).unwrap());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _batch = consumer.try_poll(3).unwrap();
        panic!("as planned");
    }));
    assert!(panicked.is_err());
    drop(consumer.try_poll(2).unwrap().detach());
    let batch = consumer.try_poll(3).unwrap();
    assert_eq!((values(&batch), batch.get(0).map(|record| record.attempt())), (vec![0, 1, 2], Some(1)));
    drop(batch);
    assert_eq!((group.stats().retried(), figures(&group)), (0, (0, 0, 0)));
}

#[test]
fn an_earlier_batch_that_is_released_takes_the_later_ones_back_with_it() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..6).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let [one, two, three]: [Receipt; 3] = std::array::from_fn(|_| consumer.try_poll(2).unwrap().detach());
    drop(three); // the last one: nothing else is touched
    assert_eq!(figures(&group), (0, 4, 0));
    drop(one);
    assert_eq!(figures(&group), (0, 0, 0));
    assert_eq!(peek(&mut consumer), [0, 1, 2, 3, 4, 5]);
    let all = consumer.try_poll(9).unwrap().detach();
    assert_eq!(fenced(two.ack()), FencedBy::Rewound, "also when they have been handed out again");
    all.ack().unwrap();
}

#[test]
fn batches_released_in_whatever_order_are_all_handed_out_again() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let lab = Lab::new(1);
        let (topic, group) = group(&lab, 100, forever());
        topic.publish_batch(0..6).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        let mut receipts: [Option<Receipt>; 3] = std::array::from_fn(|_| Some(consumer.try_poll(2).unwrap().detach()));
        order.into_iter().for_each(|one| drop(receipts[one].take()));
        assert_eq!(figures(&group), (0, 0, 0), "{order:?}");
        assert_eq!(peek(&mut consumer), [0, 1, 2, 3, 4, 5], "{order:?}");
    }
}

#[test]
fn nack_from_splits_a_batch_into_done_failed_and_released() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let mut batch = consumer.try_poll(4).unwrap();
    batch.nack_from(2, Failure::new("no")).unwrap();
    assert!(batch.is_empty());
    drop(batch);
    assert_eq!((figures(&group), group.stats().retried()), ((2, 0, 2), 1));
    let rest = consumer.try_poll(4).unwrap();
    let attempts: Vec<(u64, u32)> = rest.iter().map(|record| (*record, record.attempt())).collect();
    assert_eq!(attempts, [(2, 2), (3, 1)]);
    rest.nack(Failure::new("both")).unwrap();
    let mut receipt = consumer.try_poll(4).unwrap().detach();
    receipt.nack_from(3, Failure::new("the last")).unwrap();
    assert_eq!(figures(&group), (3, 0, 3));
    assert_eq!(consumer.try_poll(4).unwrap().get(0).map(|record| (record.offset(), record.attempt())), Some((3, 3)));
}

#[test]
fn the_backoff_of_a_nack_does_not_hold_up_what_lies_before_it() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, GroupConfig::earliest().retry(Retry5::wait()));
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let first = consumer.try_poll(2).unwrap().detach();
    consumer.try_poll(2).unwrap().nack(Failure::new("no")).unwrap();
    drop(first); // it has not failed
    assert_eq!(peek(&mut consumer), [0, 1]);
    drop(consumer);
    let mut consumer = group.consumer("d").unwrap();
    consumer.try_poll(9).unwrap().ack().unwrap();
    assert_eq!(figures(&group), (2, 0, 2));
    assert!(consumer.try_poll(9).unwrap().is_empty(), "those wait for their time");
    lab.clock.advance(SECOND);
    assert_eq!(peek(&mut consumer), [2, 3]);
}

#[test]
fn the_backoff_of_a_nack_holds_the_partition_up_and_the_wait_ends_with_it() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().retry(Retry5::wait());
    let (topic, group) = group(&lab, 100, config);
    topic.publish(7).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    assert!(consumer.try_poll(1).unwrap().is_empty());
    lab.clock.advance(SECOND - Duration::from_nanos(1));
    assert!(consumer.try_poll(1).unwrap().is_empty());
    lab.clock.advance(Duration::from_nanos(1));
    assert_eq!(peek(&mut consumer), [7]);
    assert_eq!(group.stats().retried(), 1);
}

struct Retry5;
impl Retry5 {
    fn wait() -> ringlog::Retry {
        ringlog::Retry::constant(5, SECOND)
    }
}

#[test]
fn a_seek_and_a_delete_make_what_is_in_flight_void() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(4).unwrap().detach();
    group.seek(0, SeekTo::Offset(2)).unwrap();
    assert_eq!(figures(&group), (2, 0, 0));
    assert_eq!(fenced(receipt.nack(Failure::new("late"))), FencedBy::Seeked);
    let batch = consumer.try_poll(4).unwrap();
    assert_eq!((values(&batch), batch.get(0).map(|record| record.attempt())), (vec![2, 3], Some(1)));
    let mut receipt = batch.detach();
    assert!(group.delete());
    assert_eq!(fenced(receipt.ack_through(3)), FencedBy::Deleted);
    assert_eq!(fenced(receipt.extend(SECOND).map(drop)), FencedBy::Deleted);
    assert!(consumer.try_poll(4).is_err());
    drop((receipt, consumer));
    assert!(topic.find_group("g").is_err());
}

// A-9, A-E8
#[test]
fn a_receipt_settles_from_any_thread_and_outlives_its_consumer() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let owned = consumer.poll_owned(2, SECOND).unwrap();
    assert_eq!(owned.records.iter().map(|record| (record.offset, record.value)).collect::<Vec<_>>(), [(0, 0), (1, 1)]);
    std::thread::spawn(move || owned.receipt.ack().unwrap()).join().unwrap();
    assert_eq!(figures(&group), (2, 0, 2));
    let receipt = consumer.try_poll(2).unwrap().detach();
    drop(consumer);
    assert_eq!(figures(&group), (2, 0, 2), "it has left, and what it had is released");
    assert_eq!(fenced(receipt.ack()), FencedBy::Moved);
    assert_eq!(peek(&mut group.consumer("d").unwrap()), [2, 3]);
}

// B-E4
#[test]
fn a_stale_consumer_cannot_acknowledge_what_the_next_one_has() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..2).unwrap();
    let mut old = group.consumer("old").unwrap();
    let stale = old.try_poll(2).unwrap().detach();
    drop(old);
    let mut new = group.consumer("new").unwrap();
    let fresh = new.try_poll(2).unwrap().detach();
    assert_eq!(fenced(stale.ack()), FencedBy::Moved);
    assert_eq!(figures(&group), (0, 2, 0));
    fresh.ack().unwrap();
    assert_eq!(figures(&group), (2, 0, 2));
}

#[test]
fn a_paused_group_hands_nothing_out_and_takes_acks() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(2).unwrap().detach();
    group.pause();
    assert!(consumer.try_poll(2).unwrap().is_empty());
    receipt.ack().unwrap();
    assert!(consumer.try_poll(2).unwrap().is_empty());
    group.resume();
    assert_eq!(peek(&mut consumer), [2, 3]);
}
