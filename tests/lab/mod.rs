//! A broker on a manual clock and a manual executor, for tests that single-step.
#![allow(dead_code, reason = "each test that includes this uses a part of it")]

use ringlog::{Broker, BrokerConfig, Group, GroupConfig, GroupStats, Manual, ManualClock, Record, Topic, TopicConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Small capacities, where every boundary is near, and a roomy one.
pub(crate) const CAPACITIES: [usize; 5] = [1, 2, 3, 4, 1_000];

#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) broker: Broker,
    pub(crate) manual: Manual,
}

impl Lab {
    pub(crate) fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        Lab { clock, broker, manual: Manual::new(seed) }
    }

    pub(crate) fn topic(&self, partitions: u32, capacity: usize) -> Topic<u64> {
        let config = TopicConfig::new().partitions(partitions).capacity(capacity).block(Some(Duration::ZERO));
        self.broker.create_topic("orders", config).unwrap()
    }

    /// Steps until all lanes sleep.
    pub(crate) fn settle(&self) {
        assert!(self.manual.run(100_000) < 100_000, "still at work after 100,000 steps");
        assert!(self.manual.stranded().is_empty(), "a lost wake-up: {:?}", self.manual.stranded());
    }

    /// Publishes each value to its partition, stepping when there is no room.
    pub(crate) fn feed(&self, topic: &Topic<u64>, partition: u32, values: impl IntoIterator<Item = u64>) {
        for value in values {
            if topic.publish_to(partition, value).is_err() {
                self.settle();
                topic.publish_to(partition, value).unwrap();
            }
        }
    }

    /// Settles, and lets time pass for every backoff until none is left.
    pub(crate) fn finish(&self) {
        self.settle();
        while let Some(due) = self.manual.next_due() {
            self.clock.set(due);
            self.settle();
        }
    }
}

/// What handlers saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox(Arc<Mutex<Vec<(u32, u64, u32)>>>);

impl Inbox {
    /// Notes partition, offset and attempt.
    pub(crate) fn note(&self, record: &Record<'_, u64>) {
        self.0.lock().unwrap().push((record.partition(), record.offset(), record.attempt()));
    }

    pub(crate) fn take(&self) -> Vec<(u32, u64, u32)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// The offsets of one partition, in the order they came.
    pub(crate) fn offsets(&self, partition: u32) -> Vec<u64> {
        self.0.lock().unwrap().iter().filter(|seen| seen.0 == partition).map(|seen| seen.1).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A group named "g" from the earliest record.
pub(crate) fn group(topic: &Topic<u64>) -> Group<u64> {
    topic.group("g", GroupConfig::earliest()).unwrap()
}

/// The figures, after checking that they balance.
pub(crate) fn balanced(group: &Group<u64>) -> GroupStats {
    let stats = group.stats();
    assert!(stats.balances(), "{stats:#?}");
    stats
}
