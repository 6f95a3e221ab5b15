//! A topic of numbers, and numbers for all of its partitions.

use ringlog::{Broker, Topic, TopicConfig};

pub(crate) fn topic(broker: &Broker, partitions: u32, capacity: usize) -> Topic<u64> {
    let config = TopicConfig::new().partitions(partitions).capacity(capacity).block(None);
    broker.create_topic("orders", config).unwrap()
}

/// Publishes `n` numbers to each partition, round robin.
pub(crate) fn publish(topic: &Topic<u64>, n: u64) {
    for value in 0..n {
        for partition in 0..topic.partitions() {
            topic.publish_to(partition, value).unwrap();
        }
    }
}
