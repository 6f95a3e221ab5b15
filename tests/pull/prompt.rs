//! Topics that drop a record as soon as every group has acknowledged it, and topics that lose records.

use super::lab::Lab;
use super::{SECOND, forever, values};
use ringlog::{Failure, FencedBy, GroupConfig, Retain, Retry, SettleError, TopicConfig};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Says when it is dropped.
#[derive(Clone, Debug)]
struct Noisy(u64, Arc<Mutex<Vec<u64>>>);

impl Drop for Noisy {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0);
    }
}

// B-10
#[test]
fn what_is_in_flight_is_kept_and_what_is_acknowledged_goes_at_once() {
    let lab = Lab::new(1);
    let config = TopicConfig::new().capacity(64).retain(Retain::Unacked);
    let topic = lab.broker.create_topic("noisy", config).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let gone = || std::mem::take(&mut *dropped.lock().unwrap());
    for n in 0..6 {
        topic.publish(Noisy(n, dropped.clone())).unwrap();
    }
    let mut consumer = group.consumer("c").unwrap();
    let one = consumer.try_poll(2).unwrap().detach();
    let two = consumer.try_poll(2).unwrap();
    assert_eq!(two.iter().map(|record| record.0).collect::<Vec<_>>(), [2, 3], "it polls ahead of its cursor");
    std::thread::scope(|scope| scope.spawn(|| one.ack()).join()).unwrap().unwrap();
    assert_eq!(gone(), [0, 1]);
    group.seek(0, ringlog::SeekTo::Offset(5)).unwrap();
    let seen: Vec<u64> = two.iter().map(|record| record.0).collect();
    assert_eq!(seen, [2, 3], "what is in hand stays valid");
    assert!(gone().iter().all(|n| ![2, 3].contains(n)));
    let late = two.ack().unwrap_err();
    assert!(matches!(late, SettleError::Fenced { reason: FencedBy::Seeked, .. }));
    let mut all = gone();
    all.sort_unstable();
    assert!(all.contains(&2) && all.contains(&3), "{all:?}");
    let last = consumer.try_poll(9).unwrap();
    assert_eq!(last.iter().map(|record| record.0).collect::<Vec<_>>(), [5]);
    last.ack().unwrap();
    assert_eq!(gone(), [5]);
}

#[test]
fn a_consumer_that_is_late_passes_a_gap_once_nothing_is_in_flight() {
    let lab = Lab::new(1);
    let topic = lab.broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(4).drop_oldest()).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = told.clone();
    let config = forever().on_gap(move |gap| noted.lock().unwrap().push((gap.from, gap.to)));
    let group = topic.group("g", config.lease(SECOND)).unwrap();
    topic.publish_batch(0..2).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    for value in 2..9 {
        topic.publish(value).unwrap();
    }
    assert!(consumer.try_poll(9).unwrap().is_empty(), "what is in flight comes first");
    receipt.ack().unwrap();
    let batch = consumer.try_poll(9).unwrap();
    assert_eq!((values(&batch)[0], batch.get(0).map(|record| record.lost_before())), (5, Some(4)));
    batch.ack().unwrap();
    while !consumer.try_poll(9).unwrap().is_empty() {
        consumer.try_poll(9).unwrap().ack().unwrap();
    }
    assert_eq!(*told.lock().unwrap(), [(1, 5)]);
    let stats = group.stats();
    assert_eq!((stats.acked(), stats.skipped(), stats.lag(), stats.balances()), (5, 4, 0, true));
}

#[test]
fn a_consumer_that_waits_behind_a_gap_wakes_when_what_is_in_flight_is_settled() {
    let lab = Lab::new(1);
    let topic = lab.broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(4).drop_oldest()).unwrap();
    let group = topic.group("g", forever()).unwrap();
    topic.publish_batch(0..2).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    for value in 2..9 {
        topic.publish(value).unwrap();
    }
    let waiter = thread::spawn(move || values(&consumer.poll(1, Duration::MAX).unwrap()));
    while lab.clock.sleepers() == 0 {
        thread::yield_now();
    }
    receipt.ack().unwrap();
    assert_eq!(waiter.join().unwrap(), [5]);
}

#[test]
fn a_spent_record_that_is_gone_is_a_gap_and_stops_nobody() {
    for nacked in [true, false] {
        let lab = Lab::new(1);
        let topic = lab.broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(2).drop_oldest()).unwrap();
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::never()).lease(SECOND)).unwrap();
        topic.publish(0).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        let receipt = consumer.try_poll(1).unwrap().detach();
        for value in 1..5 {
            topic.publish(value).unwrap();
        }
        if nacked {
            receipt.nack(Failure::new("no")).unwrap();
        } else {
            lab.clock.advance(SECOND);
        }
        let mut seen = Vec::new();
        for _ in 0..6 {
            let batch = consumer.try_poll(9).unwrap();
            seen.extend(values(&batch));
            batch.ack().unwrap();
        }
        assert_eq!(seen, [3, 4], "nacked: {nacked}");
        let stats = group.stats();
        assert_eq!((stats.skipped(), stats.lag(), stats.balances()), (3, 0, true), "{stats:?}");
    }
}
