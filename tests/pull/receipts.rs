//! What receipts keep alive, and what they are told.

use super::lab::Lab;
use super::{SECOND, figures, forever, group, values};
use ringlog::{Failure, FencedBy, GroupConfig, Retry, SeekTo, SettleError, TopicConfig};
use std::sync::{Arc, Mutex};

fn reason(settled: Result<(), SettleError>) -> FencedBy {
    match settled {
        Err(SettleError::Fenced { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_nack_from_any_record_of_a_batch_makes_done_all_that_was_handed_out_before_it() {
    for at in [2, 3] {
        let lab = Lab::new(1);
        let (topic, group) = group(&lab, 100, forever());
        topic.publish_batch(0..5).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        let first = consumer.try_poll(2).unwrap().detach();
        let mut second = consumer.try_poll(2).unwrap().detach();
        second.nack_from(at, Failure::new("no")).unwrap();
        assert_eq!(figures(&group), (at, 0, at));
        assert_eq!(reason(first.ack()), FencedBy::AlreadyAcked);
        let batch = consumer.try_poll(9).unwrap();
        assert_eq!((values(&batch)[0], batch.get(0).unwrap().attempt()), (at, 2));
    }
}

#[test]
fn a_receipt_that_is_forgotten_keeps_nothing_alive() {
    for lease in [None, Some(30 * SECOND)] {
        let payload = Arc::new(());
        let lab = Lab::new(1);
        let topic = lab.broker.create_topic("t", TopicConfig::<Arc<()>>::new()).unwrap();
        let config = GroupConfig::earliest();
        let config = lease.map_or(config.clone(), |lease| config.lease(lease));
        let group = topic.group("g", config).unwrap();
        for _ in 0..3 {
            topic.publish(payload.clone()).unwrap();
        }
        let mut consumer = group.consumer("c").unwrap();
        std::mem::forget(consumer.try_poll(1).unwrap().detach());
        consumer.try_poll(1).unwrap().detach().leave_in_flight();
        std::mem::forget(consumer.try_poll(1).unwrap());
        assert_eq!(group.stats().in_flight(), 3);
        drop((consumer, group, topic, lab));
        assert_eq!(Arc::strong_count(&payload), 1, "{lease:?}");
    }
}

#[test]
fn a_receipt_of_a_group_that_is_gone_says_so_and_does_nothing_when_it_is_dropped() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipts: Vec<_> = (0..3).map(|_| consumer.try_poll(1).unwrap().detach()).collect();
    drop((consumer, group, topic, lab));
    let [one, mut two, three] = <[_; 3]>::try_from(receipts).unwrap();
    assert_eq!(one.extend(SECOND).map_err(|error| error.to_string()).unwrap_err(), gone(0));
    assert_eq!(reason(one.ack()), FencedBy::Deleted);
    assert_eq!(reason(two.nack_from(1, Failure::new("no"))), FencedBy::Deleted);
    drop((two, three));
}

fn gone(offset: u64) -> String {
    format!("orders/0: offset {offset} cannot be settled for g any more: the group was deleted, or its broker closed")
}

#[test]
fn what_was_buried_and_is_replayed_and_acknowledged_is_not_called_buried() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, GroupConfig::earliest().retry(Retry::never()));
    topic.publish_batch(0..2).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    group.seek(0, SeekTo::Offset(0)).unwrap();
    let again = consumer.try_poll(1).unwrap().detach();
    consumer.ack_through(0, 0).unwrap();
    assert_eq!(reason(again.ack()), FencedBy::AlreadyAcked);
}

#[test]
fn who_closes_the_broker_from_a_hook_of_his_poll_has_not_stopped() {
    let lab = Lab::new(1);
    let topic = lab.broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(2).drop_oldest()).unwrap();
    let said = Arc::new(Mutex::new(None));
    let (broker, noted) = (lab.broker.clone(), said.clone());
    let config = forever().on_gap(move |_| *noted.lock().unwrap() = Some(broker.close(None).stopped));
    let group = topic.group("g", config).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    for n in 0..5 {
        let _ = topic.publish(n).unwrap();
    }
    drop(consumer.try_poll(9));
    assert_eq!(*said.lock().unwrap(), Some(false));
}
