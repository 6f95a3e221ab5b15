//! Consumers: what they are handed, what settling does, and what comes between.
#![forbid(unsafe_code)]

#[path = "../lab/mod.rs"]
mod lab;

mod bury;
mod hostile;
mod inside;
mod leases;
mod letters;
mod moves;
mod pauses;
mod prompt;
mod receipts;
mod rings;
mod settle;
mod storm;
mod timer;
mod waits;

use lab::Lab;
use ringlog::{Broker, Consumer, Group, GroupConfig, Polled, Retry, Topic};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// One partition, a group, and nothing published.
fn group(lab: &Lab, capacity: usize, config: GroupConfig<u64>) -> (Topic<u64>, Group<u64>) {
    let topic = lab.topic(1, capacity);
    let group = topic.group("g", config).unwrap();
    (topic, group)
}

/// Retried at once, without an end.
fn forever() -> GroupConfig<u64> {
    GroupConfig::earliest().retry(Retry::constant(1, Duration::ZERO).unlimited())
}

fn values(batch: &Polled<'_, u64>) -> Vec<u64> {
    batch.iter().map(|record| *record).collect()
}

/// What a poll gives, without settling it.
fn peek(consumer: &mut Consumer<u64>) -> Vec<u64> {
    values(&consumer.try_poll(100).unwrap())
}

/// Committed, in flight, acked.
fn figures(group: &Group<u64>) -> (u64, u64, u64) {
    let stats = group.stats();
    assert!(stats.balances(), "{stats:?}");
    (stats.lanes[0].committed, stats.in_flight(), stats.acked())
}

fn drained(broker: &Broker) -> bool {
    broker.drain(Duration::ZERO).is_ok()
}
