//! Consumers among members: who has which partition, and what moves with it.

use super::lab::{Inbox, Lab};
use super::{SECOND, drained, figures, forever, group, peek, values};
use ringlog::{Delivery, Failure, GroupConfig, PollError, Position, Record, Retry, SeekTo, Standing, SubscribeError};
use std::time::Duration;

fn noting(inbox: &Inbox) -> impl FnMut(&Record<'_, u64>) + Send + 'static {
    let inbox = inbox.clone();
    move |record| inbox.note(record)
}

// B-13, B-22
#[test]
fn consumers_are_dealt_partitions_like_every_member_and_poll_their_own_in_turns() {
    let lab = Lab::new(1);
    let topic = lab.topic(4, 100);
    let group = topic.group("g", forever()).unwrap();
    let (mut one, mut two) = (group.consumer("a").unwrap(), group.consumer("b").unwrap());
    (0..4).try_for_each(|partition| topic.publish_to(partition, u64::from(partition)).map(|_| ())).unwrap();
    (0..4).try_for_each(|partition| topic.publish_to(partition, 10 + u64::from(partition)).map(|_| ())).unwrap();
    let mut polled = |max| {
        let mut partitions = Vec::new();
        loop {
            let batch = one.try_poll(max).unwrap();
            let Some(partition) = batch.partition() else { break partitions };
            assert!(batch.iter().all(|record| record.partition() == partition), "never of two partitions");
            partitions.push(partition);
            batch.ack().unwrap();
        }
    };
    assert_eq!(polled(1), [0, 2, 0, 2], "each has its turn");
    assert_eq!(peek(&mut two), [1, 11]);
    drop(two);
    let mut rest = polled(9);
    rest.sort_unstable();
    assert_eq!(rest, [1, 3]);
    assert!(drained(&lab.broker));
}

#[test]
fn a_member_may_want_certain_partitions_and_gets_those_and_no_others() {
    let lab = Lab::new(1);
    let topic = lab.topic(3, 100);
    let group = topic.group("g", forever()).unwrap();
    let inbox = Inbox::default();
    let only = group.member("h").partition(1).partition(2).run(&lab.manual).subscribe(noting(&inbox)).unwrap();
    (0..3).try_for_each(|partition| topic.publish_to(partition, u64::from(partition)).map(|_| ())).unwrap();
    lab.settle();
    assert_eq!(inbox.len(), 2);
    let of = |name: &str| {
        let all = group.assignment();
        all.iter().find(|of| &*of.member == name).map(|of| of.partitions.clone())
    };
    assert_eq!(of("h"), Some(vec![1, 2]));
    assert!(drained(&lab.broker), "nobody has the other one, and it holds nobody up");
    let mut all = group.consumer("c").unwrap();
    assert_eq!((of("h"), of("c"), peek(&mut all)), (Some(vec![1, 2]), Some(vec![0]), vec![0]));
    only.leave();
    lab.settle();
    assert_eq!(of("c"), Some(vec![0, 1, 2]));
    let refused = group.member("x").partition(3).consumer().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "member 'x' of group 'g' wants partition 3 of topic 'orders', which has 3, from 0 on"
    );
    assert!(matches!(group.consumer("c").unwrap_err(), SubscribeError::Duplicate { .. }));
}

// B-E4
#[test]
fn a_partition_in_flight_goes_over_when_its_last_record_is_settled() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let mut receipt = consumer.try_poll(3).unwrap().detach();
    let inbox = Inbox::default();
    group.member("h").partition(0).run(&lab.manual).subscribe(noting(&inbox)).unwrap();
    lab.settle();
    assert!(inbox.offsets(0).is_empty() && consumer.try_poll(3).unwrap().is_empty());
    receipt.ack_through(1).unwrap();
    lab.settle();
    assert!(inbox.offsets(0).is_empty(), "one is in flight still");
    receipt.ack().unwrap();
    lab.settle();
    assert_eq!((inbox.offsets(0), figures(&group)), (vec![3], (4, 0, 4)));
}

#[test]
fn the_last_consumer_of_an_ephemeral_group_takes_it_along() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().ephemeral());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(3).unwrap().detach();
    drop(consumer);
    assert!(topic.find_group("g").is_err());
    assert!(receipt.ack().is_err());
}

// X28, X29
#[test]
fn a_close_waits_for_what_is_in_flight_as_long_as_it_may_and_tells_what_is_left() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, GroupConfig::earliest());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(3).unwrap().detach();
    assert!(!drained(&lab.broker));
    let account = lab.broker.close(Some(Duration::ZERO));
    assert_eq!((account.acked(), account.left()), (0, 4));
    let closed = consumer.poll(1, SECOND).map(|batch| values(&batch));
    assert!(matches!(closed, Err(PollError::Closed { .. })), "{closed:?}");
    assert!(receipt.ack().is_err(), "the account is final");
    drop(consumer);
    assert_eq!(figures(&group), (0, 0, 0));
}

// B-27
#[test]
fn what_is_in_flight_is_seen_by_whom_and_how_much() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().retry(Retry::constant(3, 5 * SECOND)).lease(30 * SECOND);
    let (topic, group) = group(&lab, 4, config);
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let batch = consumer.try_poll(3).unwrap();
    let state = |offset| group.delivery(Position { partition: 0, offset }).unwrap();
    assert_eq!([state(0), state(2), state(3)], [Delivery::InHand, Delivery::InHand, Delivery::Pending]);
    assert_eq!(group.standing(0), Ok(Standing::InFlight { member: "c".into(), records: 3 }));
    let full = topic.why_full(0).unwrap().to_string();
    assert!(full.ends_with("group 'g' stands at 0: 3 records are in flight at 'c'"), "{full}");
    let page = group.describe().to_string();
    assert!(page.ends_with("0: next 0 of 4, lag 4, 3 in flight: 3 records are in flight at 'c'"), "{page}");
    batch.nack(Failure::new("no")).unwrap();
    assert_eq!(state(0), Delivery::RetryScheduled { attempts: 1, wait: 5 * SECOND });
    assert_eq!(group.standing(0), Ok(Standing::Retrying { attempts: 1, wait: 5 * SECOND }));
    lab.clock.advance(5 * SECOND);
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    let mut next = group.member("d").partition(0).consumer().unwrap();
    assert_eq!(group.standing(0), Ok(Standing::Moving { from: "c".into(), to: Some("d".into()) }));
    lab.clock.advance(30 * SECOND);
    assert_eq!(group.standing(0), Ok(Standing::Retrying { attempts: 2, wait: Duration::ZERO }));
    assert!(group.describe().to_string().contains(", 1 lease expired"));
    next.try_poll(1).unwrap().ack().unwrap();
    assert_eq!(state(0), Delivery::Acked);
}

#[test]
fn a_partition_in_flight_goes_over_at_once_when_its_cursor_is_moved() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(3).unwrap().detach();
    let inbox = Inbox::default();
    group.member("h").partition(0).run(&lab.manual).subscribe(noting(&inbox)).unwrap();
    lab.settle();
    assert_eq!(inbox.len(), 0);
    group.seek(0, SeekTo::Offset(2)).unwrap();
    lab.settle();
    assert_eq!(inbox.offsets(0), [2, 3]);
    assert!(receipt.ack().is_err());
}
