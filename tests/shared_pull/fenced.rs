//! What comes between a poll and its settlement.

use super::lab::Lab;
use super::{SECOND, drain, figures, filled, peek, queue, values};
use ringlog::{Failure, FencedBy, GroupConfig, Order, Retry, SeekTo, SettleError, Straggler};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_nanos(1);

fn reason<R: std::fmt::Debug>(settled: Result<R, SettleError>) -> FencedBy {
    match settled {
        Err(SettleError::Fenced { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

// X9
#[test]
fn a_lease_is_of_its_batch_over_at_its_deadline_and_a_failed_attempt() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().lease(LEASE), 4);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    let first = one.try_poll(1).unwrap().detach();
    lab.clock.advance(SECOND);
    let mut second = one.try_poll(1).unwrap().detach();
    lab.clock.advance(LEASE - SECOND - TICK);
    assert_eq!(drain(&mut two), [(2, 1), (3, 1)]);
    lab.clock.advance(TICK);
    assert_eq!((figures(&group), group.stats().leases_expired()), ((0, 1, 2, 2), 1));
    assert_eq!(reason(first.ack()), FencedBy::Expired);
    assert_eq!(group.stats().refused(), 1);
    assert_eq!(drain(&mut two), [(0, 2)]);
    second.ack_through(1).unwrap();
    assert_eq!(figures(&group), (4, 0, 4, 0));
    second.leave_in_flight();
}

#[test]
fn an_ack_at_the_deadline_is_refused_also_if_nobody_has_looked_at_the_clock_before() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().lease(LEASE), 4);
    let mut consumer = group.consumer("c").unwrap();
    for kind in 0..4 {
        let mut batch = consumer.try_poll(1).unwrap();
        lab.clock.advance(LEASE);
        assert!(!values(&batch).is_empty(), "and stays readable");
        match kind {
            0 => assert_eq!(reason(batch.ack()), FencedBy::Expired),
            1 => assert_eq!(reason(batch.nack(Failure::new("no"))), FencedBy::Expired),
            2 => assert_eq!(reason(batch.nack_from(batch.offsets().start, Failure::new("no"))), FencedBy::Expired),
            _ => assert_eq!(reason(batch.extend(SECOND)), FencedBy::Expired),
        }
    }
    assert_eq!((group.stats().leases_expired(), group.stats().retried()), (4, 4));
}

#[test]
fn a_lease_is_extended_as_far_as_the_group_allows() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().lease(LEASE).lease_renewed_up_to(3 * LEASE), 2);
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    let batch = consumer.try_poll(1).unwrap();
    lab.clock.advance(LEASE - TICK);
    assert_eq!(receipt.extend(2 * LEASE).unwrap(), 2 * LEASE);
    assert_eq!(receipt.extend(SECOND).unwrap(), 2 * LEASE, "never shortened");
    assert_eq!(receipt.extend(9 * LEASE).unwrap(), 2 * LEASE + TICK, "three in all");
    assert_eq!(batch.get(0).unwrap().extend(LEASE).unwrap(), LEASE);
    lab.clock.advance(LEASE);
    assert_eq!(reason(batch.ack()), FencedBy::Expired);
    receipt.ack().unwrap();
    assert_eq!(figures(&group), (1, 0, 1, 1));
    let topic = lab.broker.create_topic("t", ringlog::TopicConfig::<u64>::new()).unwrap();
    let plain = topic.group("g", GroupConfig::earliest().order(Order::Shared)).unwrap();
    let _ = topic.publish(1).unwrap();
    let mut consumer = plain.consumer("c").unwrap();
    assert_eq!(consumer.try_poll(1).unwrap().extend(SECOND).unwrap(), Duration::MAX);
}

#[test]
fn a_last_attempt_that_expires_is_buried() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().retry(Retry::never()).lease(LEASE), 2);
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(9).unwrap().detach();
    assert_eq!(receipt.offsets(), 0..1);
    lab.clock.advance(LEASE);
    let letters = group.letters();
    assert_eq!((letters.len(), letters[0].kind(), letters[0].attempts()), (1, "expired", 1));
    assert_eq!(reason(receipt.ack()), FencedBy::Expired);
    assert_eq!((drain(&mut consumer), figures(&group)), (vec![(1, 1)], (2, 0, 1, 0)));
}

#[test]
fn a_moved_cursor_a_deleted_group_and_a_consumer_that_left_are_said() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 6);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    let [seeked, forgotten] = [(); 2].map(|()| one.try_poll(1).unwrap().detach());
    forgotten.leave_in_flight();
    group.seek(0, SeekTo::Offset(1)).unwrap();
    assert_eq!(figures(&group), (1, 0, 0, 5), "nothing is in flight any more");
    assert_eq!(reason(seeked.extend(SECOND)), FencedBy::Seeked);
    assert_eq!(reason(seeked.ack()), FencedBy::Seeked);
    let moved = one.try_poll(2).unwrap().detach();
    drop(one);
    assert_eq!(figures(&group), (1, 0, 0, 5), "it is given back");
    assert_eq!(reason(moved.nack(Failure::new("no"))), FencedBy::Moved);
    let batch = two.try_poll(1).unwrap();
    assert_eq!(batch.get(0).unwrap().attempt(), 1);
    assert!(group.delete());
    assert_eq!(reason(batch.ack()), FencedBy::Deleted);
    assert!(two.try_poll(1).is_err());
}

#[test]
fn what_was_settled_by_partition_is_known_to_its_receipt() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 4);
    let mut consumer = group.consumer("c").unwrap();
    let [acked, nacked] = [(); 2].map(|()| consumer.try_poll(1).unwrap().detach());
    consumer.ack_through(0, 0).unwrap();
    assert_eq!(reason(acked.ack()), FencedBy::AlreadyAcked);
    assert!(consumer.nack(0));
    assert_eq!(reason(nacked.ack()), FencedBy::Rewound);
}

#[test]
fn a_polled_straggler_is_buried_or_its_consumer_put_out() {
    for evicts in [false, true] {
        let lab = Lab::new(1);
        let rule = if evicts { Straggler::Evict(LEASE) } else { Straggler::Bury(LEASE) };
        let (_topic, group) = filled(&lab, queue().straggler(rule), 3);
        let (mut slow, mut quick) = (group.consumer("slow").unwrap(), group.consumer("quick").unwrap());
        let receipt = slow.try_poll(9).unwrap().detach();
        assert_eq!(drain(&mut quick), [(1, 1), (2, 1)]);
        lab.clock.advance(LEASE);
        lab.clock.advance(LEASE); // it has looked by then
        assert_eq!(group.stats().dead(), u64::from(!evicts));
        assert_eq!(reason(receipt.ack()), if evicts { FencedBy::Moved } else { FencedBy::Buried });
        assert_eq!(slow.try_poll(1).is_err(), evicts);
        assert_eq!(peek(&mut quick), if evicts { vec![(0, 2)] } else { Vec::new() });
    }
}

#[test]
fn a_close_waits_for_what_is_in_flight_as_long_as_it_may() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 2);
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    let account = lab.broker.close(Some(Duration::ZERO));
    assert!(!account.drained);
    assert_eq!(reason(receipt.ack()), FencedBy::Deleted);
    let mut left = Vec::new();
    assert_eq!(group.left_over(|record| left.push(record.offset())).unwrap(), 2);
    assert_eq!(left, [0, 1]);
}

#[test]
fn a_close_that_has_time_sees_the_last_ack() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 1);
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    std::thread::scope(|scope| {
        let closes = scope.spawn(|| lab.broker.close(Some(LEASE)));
        while lab.clock.sleepers() == 0 {
            std::thread::yield_now();
        }
        receipt.ack().unwrap();
        let account = closes.join().unwrap();
        assert!(account.stopped && account.drained, "{account}");
        assert_eq!(account.acked(), 1);
    });
}

#[test]
fn what_was_acknowledged_before_is_not_refused_later() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().lease(LEASE), 9);
    let mut consumer = group.consumer("c").unwrap();
    let mut batch = consumer.try_poll(5).unwrap();
    batch.ack_through(2).unwrap();
    let mut receipt = batch.detach();
    lab.clock.advance(LEASE);
    assert_eq!(receipt.ack_through(3).map_err(|_| group.stats().refused()), Err(1));
    assert_eq!(reason(receipt.ack()), FencedBy::Expired);
    assert_eq!((group.stats().refused(), group.stats().acked()), (1 + 2, 3));
}
