//! Publishing, delivering and polling allocates nothing, once everything is warm.
#![forbid(unsafe_code)]

use ringlog::{Broker, Consumer, GroupConfig, PublishError, Record, Topic, TopicConfig, WaitPolicy, Worker};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CAPACITY: u64 = 1_024;
const BURST: u64 = CAPACITY / 2;

/// Publishes `count` values in bursts that fit into any partition, each handled before the next.
fn bursts(count: u64, handled: &AtomicU64, mut publish: impl FnMut(u64) -> Result<(), PublishError<u64>>) {
    for number in 1..=count {
        publish(number).expect("there is room");
        while number % BURST == 0 && handled.load(Ordering::Acquire) < number {
            thread::yield_now();
        }
    }
}

/// Publishes `count` values in bursts and polls each; all of them are acknowledged.
fn polled(count: u64, topic: &Topic<u64>, consumer: &mut Consumer<u64>) {
    let mut acked = 0;
    for number in 1..=count {
        topic.publish(number).expect("there is room");
        while number % BURST == 0 && acked < number {
            let batch = consumer.poll(64, Duration::from_secs(1)).expect("the group is there");
            acked += batch.len() as u64;
            batch.ack().expect("nobody else is about");
        }
    }
}

// One test: the count is the whole process's.
#[test]
fn nothing_is_allocated_for_a_message_in_the_steady_state() {
    let broker = Broker::new();
    let worker = Worker::spawn().expect("a thread");
    let config = || TopicConfig::new().partitions(4).capacity(CAPACITY as usize).key(|value: &u64| value);
    let (exclusive, mut producer) = broker.create_exclusive("exclusive", config()).expect("a new topic");
    let shared = broker.create_topic("shared", config()).expect("a new topic");
    let counters = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
    for (topic, handled) in [&exclusive, &shared].into_iter().zip(counters.clone()) {
        let count = move |_: &Record<'_, u64>| {
            handled.fetch_add(1, Ordering::Release);
        };
        let group = topic.group("readers", GroupConfig::earliest()).expect("a new group");
        // It sleeps at every pause, so that the first sleep, which makes its entries in the lists, is not in the measured part.
        group.member("only").run(&worker).wait(WaitPolicy::Park).subscribe(count).expect("a new member");
    }
    let [of_exclusive, of_shared] = counters;

    let topic = broker.create_topic("polled", config()).expect("a new topic");
    let group = topic.group("pollers", GroupConfig::earliest().lease(Duration::from_secs(600))).expect("a new group");
    let mut consumer = group.consumer("only").expect("a new member");
    let mut run = |count: u64| {
        for counter in [&of_exclusive, &of_shared] {
            counter.store(0, Ordering::Release);
        }
        bursts(count, &of_exclusive, |value| producer.publish(value).map(drop));
        bursts(count, &of_shared, |value| shared.publish(value).map(drop));
        polled(count, &topic, &mut consumer);
    };
    run(20 * CAPACITY);
    let region = Region::new(ALLOCATOR);
    run(100 * CAPACITY);
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
}
