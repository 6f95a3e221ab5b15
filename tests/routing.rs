//! Which partition a record goes to: by its key, by its turn, or by a rule of the user's own.

use ringlog::{Broker, GroupConfig, JavaString, Partitioner, PublishError, Sticky, Topic, TopicConfig};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

fn words(partitions: u32) -> TopicConfig<String> {
    TopicConfig::new().partitions(partitions).capacity(64).key(|word: &String| word)
}

fn publish(topic: &Topic<String>, word: &str) -> u32 {
    topic.publish(word.to_string()).unwrap().partition()
}

// A-T5
#[test]
fn a_key_goes_to_the_partition_of_its_crc32_for_ever() {
    let broker = Broker::new();
    let two = broker.create_topic("two", words(2)).unwrap();
    let four = broker.create_topic("four", words(4)).unwrap();
    assert_eq!(["alice", "bob", "carol"].map(|name| publish(&two, name)), [1, 0, 1]);
    assert_eq!(["alice", "bob", "carol"].map(|name| publish(&four, name)), [3, 0, 3]);
    assert!((0..49).all(|_| publish(&two, "alice") == 1));
}

//
#[test]
fn six_events_over_two_partitions_take_the_expected_positions() {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(2).key(|event: &(&'static str, u32)| event.0);
    let topic = broker.create_topic("orders", config).unwrap();
    let events = [("alice", 0), ("bob", 1), ("alice", 2), ("bob", 3), ("alice", 4), ("carol", 5)];
    let at = events.map(|event| topic.publish(event).unwrap().position).map(|at| (at.partition, at.offset));
    assert_eq!(at, [(1, 0), (0, 0), (1, 1), (0, 1), (1, 2), (1, 3)]);
}

// B-1, B-V13, X10
#[test]
fn the_java_rule_gives_the_java_partitions() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", words(2).partitioner(JavaString)).unwrap();
    assert_eq!(["user-a", "user-b", "alice", "bob", "carol"].map(|name| publish(&topic, name)), [1, 0, 0, 1, 1]);
    let default = broker.create_topic("b", words(2)).unwrap();
    assert_eq!(["user-a", "user-b"].map(|name| publish(&default, name)), [0, 0]);
}

// A-40, A-T20
#[test]
fn records_without_a_key_go_round_robin_from_partition_zero() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().partitions(3)).unwrap();
    let at: Vec<u32> = (0..6).map(|n| topic.publish(n).unwrap().partition()).collect();
    assert_eq!(at, [0, 1, 2, 0, 1, 2]);
    let (_, mut producer) = broker.create_exclusive("b", TopicConfig::new().partitions(3)).unwrap();
    let at: Vec<u32> = (0..6).map(|n| producer.publish(n).unwrap().partition()).collect();
    assert_eq!(at, [0, 1, 2, 0, 1, 2]);
}

//
#[test]
fn many_producers_share_the_turns_evenly() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().partitions(4)).unwrap();
    let producers: Vec<_> = (0..4)
        .map(|n| {
            let topic = topic.clone();
            thread::spawn(move || (0..100).for_each(|_| assert!(topic.publish(n).is_ok())))
        })
        .collect();
    producers.into_iter().for_each(|producer| producer.join().unwrap());
    assert_eq!([0, 1, 2, 3].map(|partition| topic.end(partition)), [Some(100); 4]);
}

//
#[test]
fn a_record_whose_key_is_missing_falls_back_to_its_turn() {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(2).optional_key(|name: &Option<String>| name.as_deref());
    let topic = broker.create_topic("a", config).unwrap();
    let at = |name: Option<&str>| topic.publish(name.map(str::to_owned)).unwrap().partition();
    assert_eq!([at(None), at(Some("alice")), at(None), at(Some("alice")), at(None)], [0, 1, 1, 1, 0]);
}

// A-41, A-T22, A-E10
#[test]
fn sticky_routing_fills_a_partition_for_a_run_then_moves_on() {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(2).partitioner(Sticky::default());
    let topic = broker.create_topic("a", config).unwrap();
    let at: Vec<u32> = (0..33).map(|n| topic.publish(n).unwrap().partition()).collect();
    assert!(at[..16].iter().all(|&p| p == 0) && at[16..32].iter().all(|&p| p == 1) && at[32] == 0);
}

// B-38
#[test]
fn the_partition_of_a_key_can_be_asked_without_publishing() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", words(2)).unwrap();
    assert_eq!(topic.partition_for(&"alice".to_string()), 1);
    assert_eq!(topic.end(1), Some(0));
    let keyless = broker.create_topic("b", TopicConfig::<u32>::new().partitions(2)).unwrap();
    assert_eq!((keyless.partition_for(&7), keyless.partition_for(&7)), (0, 0), "asking takes no turn");
}

#[derive(Debug)]
struct Last;

impl Partitioner for Last {
    fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32 {
        if key == b"nowhere" { partitions.get() } else { partitions.get() - 1 }
    }
}

//
#[test]
fn a_rule_of_one_s_own_decides_and_a_partition_that_is_not_there_is_refused() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", words(3).partitioner(Last)).unwrap();
    assert_eq!(publish(&topic, "x"), 2);
    match topic.publish("nowhere".to_string()) {
        Err(PublishError::NoSuchPartition { value, partition: 3, partitions: 3, .. }) => assert_eq!(value, "nowhere"),
        other => panic!("{other:?}"),
    }
    let refused = topic.publish_to(9, "x".to_string()).unwrap_err();
    assert_eq!(refused.to_string(), "topic 'a' has no partition 9, only 3");
    let spoilt = topic.publish_batch(["x", "nowhere", "y"].map(str::to_owned)).unwrap_err();
    assert_eq!(spoilt.stored(), []);
    assert_eq!(spoilt.into_rest(), ["x", "nowhere", "y"]);
    assert_eq!(topic.publish_to(0, "x".to_string()).unwrap().partition(), 0);
}

// Numbers are keys as well, by their bytes.
#[test]
fn integer_keys_are_stable() {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(8).key(|pair: &(u64, u64)| &pair.0);
    let topic = broker.create_topic("a", config).unwrap();
    for key in 0..64_u64 {
        let expected = crc32fast::hash(&key.to_le_bytes()) % 8;
        assert_eq!(topic.publish((key, 0)).unwrap().partition(), expected);
    }
}

// C-35
#[test]
fn a_panicking_extractor_stores_nothing_and_leaves_the_topic_usable() {
    let broker = Broker::new();
    let dropped = Arc::new(Mutex::new(0));
    struct Noisy(u32, Arc<Mutex<u32>>);
    impl Drop for Noisy {
        fn drop(&mut self) {
            *self.1.lock().unwrap() += 1;
        }
    }
    let config = TopicConfig::new().partitions(2).key(|noisy: &Noisy| match noisy.0 {
        13 => panic!("an unlucky key"),
        _ => &noisy.0,
    });
    let (topic, mut producer) = {
        let exclusive = broker.create_exclusive("b", config.clone()).unwrap();
        (broker.create_topic("a", config).unwrap(), exclusive.1)
    };
    let value = |n| Noisy(n, dropped.clone());
    assert!(catch_unwind(AssertUnwindSafe(|| topic.publish(value(13)).is_ok())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| producer.publish(value(13)).is_ok())).is_err());
    assert_eq!(*dropped.lock().unwrap(), 2);
    assert!(catch_unwind(AssertUnwindSafe(|| topic.publish_batch([1, 2, 13, 4].map(value)).is_ok())).is_err());
    assert_eq!(*dropped.lock().unwrap(), 6, "each value of the batch is dropped once");
    assert_eq!((topic.end(0), topic.end(1)), (Some(0), Some(0)));
    topic.publish(value(1)).unwrap();
    producer.publish(value(1)).unwrap();
}

/// Panics for keys, and for turns, that it does not like.
#[derive(Debug)]
struct Moody;

impl Partitioner for Moody {
    fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32 {
        assert_ne!(key, b"bad", "an unlucky key");
        key.len() as u32 % partitions
    }

    fn keyless(&self, turn: u64, partitions: NonZeroU32) -> u32 {
        assert_ne!(turn, 0, "an unlucky turn");
        (turn % u64::from(partitions.get())) as u32
    }
}

// Records of both kinds of producers, alone and in batches, with a member at work beside them.
#[test]
fn a_panicking_partitioner_stores_nothing_and_harms_nobody() {
    type Value = (&'static str, Arc<()>);
    let (broker, alive) = (Broker::new(), Arc::new(()));
    let config = TopicConfig::new().partitions(2).partitioner(Moody).optional_key(|value: &Value| match value.0 {
        "none" => None,
        key => Some(key.as_bytes()),
    });
    let (exclusive, mut producer) = broker.create_exclusive("exclusive", config.clone()).unwrap();
    let shared = broker.create_topic("shared", config).unwrap();
    let value = |key| (key, alive.clone());
    fn panics(publish: impl FnOnce() -> bool) {
        assert!(catch_unwind(AssertUnwindSafe(publish)).is_err());
    }
    let groups = [&exclusive, &shared].map(|topic| {
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.subscribe("m", |_| ()).unwrap();
        group
    });
    panics(|| shared.publish(value("none")).is_ok());
    panics(|| shared.publish(value("bad")).is_ok());
    panics(|| shared.try_publish(value("bad")).is_ok());
    panics(|| shared.publish_batch(["a", "bad", "b"].map(value)).is_ok());
    panics(|| producer.publish(value("none")).is_ok());
    panics(|| producer.publish(value("bad")).is_ok());
    panics(|| producer.publish_batch(["a", "bad", "b"].map(value)).is_ok());
    assert_eq!(Arc::strong_count(&alive), 1, "each value is dropped once");
    for topic in [&exclusive, &shared] {
        assert_eq!((topic.end(0), topic.end(1)), (Some(0), Some(0)));
    }
    for key in ["a", "none", "bb", "none"] {
        assert_eq!(shared.publish(value(key)).unwrap().kept, producer.publish(value(key)).unwrap().kept);
    }
    broker.drain(Duration::from_secs(60)).unwrap();
    assert_eq!(groups.map(|group| group.stats().acked()), [4, 4]);
}
