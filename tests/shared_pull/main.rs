//! Consumers of work queues: several share a partition, and settle record by record.
#![forbid(unsafe_code)]

#[path = "../lab/mod.rs"]
mod lab;

mod fenced;
mod keys;
mod settle;
mod storm;
mod tasks;
mod waits;

use lab::Lab;
use ringlog::{Consumer, Group, GroupConfig, Order, Polled, Retry, Topic};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A work queue of one partition, retried at once and without an end.
fn queue() -> GroupConfig<u64> {
    GroupConfig::earliest().order(Order::Shared).retry(Retry::constant(1, Duration::ZERO).unlimited())
}

/// One partition, with the values from 0 on.
fn filled(lab: &Lab, config: GroupConfig<u64>, len: u64) -> (Topic<u64>, Group<u64>) {
    let topic = lab.topic(1, 100);
    let group = topic.group("g", config).unwrap();
    topic.publish_batch(0..len).unwrap();
    (topic, group)
}

fn values(batch: &Polled<'_, u64>) -> Vec<u64> {
    batch.iter().map(|record| *record).collect()
}

/// What a poll gives, without settling it: values and attempts.
fn peek(consumer: &mut Consumer<u64>) -> Vec<(u64, u32)> {
    let batch = consumer.try_poll(100).unwrap();
    batch.iter().map(|record| (*record, record.attempt())).collect()
}

/// All that can be had now, one record a batch, acknowledged.
fn drain(consumer: &mut Consumer<u64>) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    loop {
        let batch = consumer.try_poll(1).unwrap();
        let Some(record) = batch.get(0) else { break };
        all.push((*record, record.attempt()));
        batch.ack().unwrap();
    }
    all.sort_unstable();
    all
}

/// Committed, in flight, acked, pending.
fn figures(group: &Group<u64>) -> (u64, u64, u64, u64) {
    let stats = group.stats();
    assert!(stats.balances(), "{stats:?}");
    (stats.lanes[0].committed, stats.in_flight(), stats.acked(), stats.lag())
}
