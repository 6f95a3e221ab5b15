//! Consumers that come, hang, settle from other threads and go, with handlers among them, while producers run.

use super::values;
use ringlog::{Broker, Failure, GroupConfig, Retain, Retry, Topic, TopicConfig};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PARTITIONS: u32 = 3;
const RECORDS: u64 = 2_000;

fn config() -> GroupConfig<u64> {
    let forever = Retry::constant(1, Duration::ZERO).unlimited();
    GroupConfig::earliest().retry(forever).lease(Duration::from_millis(20))
}

/// Polls in many ways until it is told to stop.
fn consume(topic: &Topic<u64>, name: &str, seed: u64, stop: &AtomicBool, acked: &AtomicU64) {
    let group = topic.find_group("g").unwrap();
    let (send, receive) = mpsc::channel::<(ringlog::Receipt, u64)>();
    let settler = thread::spawn({
        move || receive.iter().filter_map(|(receipt, len)| receipt.ack().is_ok().then_some(len)).sum::<u64>()
    });
    let mut turn = seed;
    while !stop.load(Ordering::Relaxed) {
        let mut consumer = group.consumer(name).unwrap();
        for _ in 0..40 {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut batch = consumer.poll((turn >> 60) as usize + 1, Duration::from_micros(300)).unwrap();
            let numbers = values(&batch);
            assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "not consecutive: {numbers:?}");
            let (first, len) = (batch.offsets().start, batch.len() as u64);
            match (turn >> 33) % 8 {
                _ if len == 0 => {}
                0 => drop(batch),
                1 => _ = batch.nack(Failure::new("as planned")),
                2 => _ = batch.nack_from(first + len / 2, Failure::new("as planned")),
                3 => _ = batch.ack_through(first + len / 2),
                4 => send.send((batch.detach(), len)).unwrap(),
                5 if (turn >> 40) % 4 == 0 => std::mem::forget(batch.detach()),
                _ => _ = batch.ack(),
            }
        }
    }
    drop(send);
    acked.fetch_add(settler.join().unwrap(), Ordering::Relaxed);
}

/// Handles a while, leaves, and comes again.
fn handle(topic: &Topic<u64>, stop: &AtomicBool) {
    let group = topic.find_group("g").unwrap();
    while !stop.load(Ordering::Relaxed) {
        let member = group.subscribe("h", |_| ()).unwrap();
        let _too_late = member.leave_drained(Duration::from_millis(3));
    }
}

fn storm(retain: Retain, handlers: bool) {
    let broker = Broker::new();
    let config_of = TopicConfig::<u64>::new().partitions(PARTITIONS).capacity(32).retain(retain).block(None);
    let topic = broker.create_topic("t", config_of).unwrap();
    let group = topic.group("g", config()).unwrap();
    let (stop, settled) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let (topic, stop, settled) = (&topic, &stop, &settled);
        for (name, seed) in [("a", 1), ("b", 2), ("c", 3)] {
            scope.spawn(move || consume(topic, name, seed, stop, settled));
        }
        if handlers {
            scope.spawn(|| handle(topic, stop));
        }
        let producers: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                scope.spawn(move || (0..RECORDS).for_each(|n| _ = topic.publish_to(partition, n).unwrap()))
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let drained = broker.drain(Duration::from_secs(60));
        stop.store(true, Ordering::Relaxed);
        drained.unwrap();
    });
    let stats = group.stats();
    assert!(stats.balances(), "{stats:?}");
    assert_eq!((stats.acked(), stats.dead(), stats.lag()), (u64::from(PARTITIONS) * RECORDS, 0, 0));
    assert_eq!(stats.in_flight(), 0);
    if !handlers {
        assert!(stats.retried() > 0 && settled.load(Ordering::Relaxed) > 0, "they did as planned: {stats:?}");
    }
}

// B-13, B-E4
#[test]
fn consumers_that_come_hang_and_go_lose_nothing_and_the_books_balance() {
    storm(Retain::Recent, false);
    storm(Retain::Unacked, false);
}

// B-13, B-E4, X25
#[test]
fn consumers_and_handlers_that_take_turns_lose_nothing_and_the_books_balance() {
    storm(Retain::Recent, true);
    storm(Retain::Unacked, true);
}
