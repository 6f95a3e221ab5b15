//! Last values: what is kept, when it is there, of which record, and what it costs.
mod hostile;
mod race;

use ringlog::{
    Broker, BrokerConfig, CreateError, GroupConfig, LastError, LastValue, Manual, ManualClock, Position, PublishError,
    Published, Retain, Topic, TopicConfig,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Two partitions, even and odd numbers; keeps the number as text, and the last of each digit.
fn numbers() -> TopicConfig<u64> {
    TopicConfig::new().partitions(2).capacity(8).partitioner(Parity).last_value(u64::to_string).last_value_by_key(
        |n| n % 10,
        |n| {
            assert_ne!(*n, 13, "the value that cannot be made");
            *n
        },
    )
}

struct Parity;

impl ringlog::Partitioner for Parity {
    fn keyed(&self, _: &[u8], _: std::num::NonZeroU32) -> u32 {
        unreachable!("there are no keys")
    }

    fn keyless(&self, turn: u64, _: std::num::NonZeroU32) -> u32 {
        turn as u32 % 2
    }
}

impl std::fmt::Debug for Parity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parity")
    }
}

/// That `n`, just published, is the last of the topic, of its partition and of its digit.
#[track_caller]
fn is_last<E: std::fmt::Debug>(topic: &Topic<u64>, n: u64, published: Result<Published, E>) {
    at_last(topic, n, published.unwrap().position);
}

#[track_caller]
fn at_last(topic: &Topic<u64>, n: u64, position: Position) {
    let (last, by_digit) = (topic.last_value::<String>().unwrap(), topic.last_values::<u64, u64>().unwrap());
    for value in [last.get().unwrap(), last.of(position.partition).unwrap()] {
        assert_eq!((value.as_str(), value.position()), (n.to_string().as_str(), position));
    }
    let value = by_digit.get(&(n % 10)).unwrap();
    assert_eq!((*value, value.position()), (n, position));
}

#[test]
fn every_way_to_publish_leaves_its_value_by_the_time_it_returns() {
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", numbers()).unwrap();
    assert!(topic.last_value::<String>().unwrap().get().is_none());
    is_last(&topic, 1, topic.publish(1));
    is_last(&topic, 2, topic.try_publish(2));
    is_last(&topic, 3, topic.publish_quietly(3));
    is_last(&topic, 4, topic.publish_within(4, Duration::from_secs(1)));
    is_last(&topic, 15, topic.publish_to(1, 15));
    let stored = topic.publish_batch([21, 22, 23, 24, 25, 31]).unwrap();
    assert_eq!(stored.len(), 2);
    let end = stored[1].offsets.end;
    let last = topic.last_value::<String>().unwrap();
    assert_eq!(last.get().unwrap().position(), Position { partition: 1, offset: end - 1 });
    let by_digit = topic.last_values::<u64, u64>().unwrap();
    let mut all: Vec<_> = by_digit.iter().map(|(digit, value)| (*digit, *value)).collect();
    all.sort_unstable();
    assert_eq!(all, [(1, 31), (2, 22), (3, 23), (4, 24), (5, 25)]);
    assert_eq!(by_digit.keys(), 5);
}

#[test]
fn every_way_of_an_exclusive_producer_does_too() {
    let broker = Broker::new();
    let (topic, mut producer) = broker.create_exclusive("numbers", numbers()).unwrap();
    is_last(&topic, 1, producer.publish(1));
    is_last(&topic, 2, producer.try_publish(2));
    is_last(&topic, 3, producer.publish_quietly(3));
    is_last(&topic, 4, producer.publish_within(4, Duration::from_secs(1)));
    is_last(&topic, 15, producer.publish_to(1, 15));
    for n in 40..70 {
        is_last(&topic, n, producer.publish_in_place(n as u32 % 2, || 0, |slot| *slot = n));
    }
    let stored = producer.publish_batch([71, 72, 81]).unwrap();
    let one = stored.iter().find(|share| share.offsets.clone().count() == 1).unwrap();
    let of = topic.last_value::<String>().unwrap().of(one.partition).unwrap();
    assert_eq!((of.as_str(), of.position().offset), ("72", one.offsets.start));
    assert_eq!(*topic.last_values::<u64, u64>().unwrap().get(&1).unwrap(), 81);
    assert_eq!(*topic.last_values::<u64, u64>().unwrap().get(&2).unwrap(), 72);
}

// C-22
#[test]
fn the_last_value_stays_where_nobody_listens_and_nothing_is_retained() {
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", numbers().retain(Retain::Unacked)).unwrap();
    let published = topic.publish(7).unwrap();
    assert!(!published.kept);
    at_last(&topic, 7, published.position);
    for n in 0..100 {
        is_last(&topic, n * 3 % 10, topic.publish(n * 3 % 10));
    }
}

#[test]
fn a_refused_publish_leaves_the_value_that_was_there() {
    let broker = Broker::new();
    let config = || numbers().capacity(1).block(Some(Duration::ZERO));
    let topic = broker.create_topic("numbers", config()).unwrap();
    topic.group("slow", GroupConfig::earliest()).unwrap();
    let position = topic.publish_to(0, 1).unwrap().position;
    assert!(matches!(topic.publish_to(0, 2), Err(PublishError::Full { value: 2, .. })));
    assert!(matches!(topic.publish_to(2, 2), Err(PublishError::NoSuchPartition { value: 2, .. })));
    assert!(topic.publish_batch([2, 3]).is_err());
    let (exclusive, mut producer) = broker.create_exclusive("exclusive", config()).unwrap();
    exclusive.group("slow", GroupConfig::earliest()).unwrap();
    assert!(matches!(exclusive.publish(1), Err(PublishError::Exclusive { value: 1, .. })));
    assert!(exclusive.last_value::<String>().unwrap().get().is_none());
    producer.publish_to(0, 1).unwrap();
    assert!(producer.publish_to(0, 2).is_err() && producer.publish_in_place(0, || 0, |n| *n = 2).is_err());
    broker.close(Some(Duration::ZERO));
    assert!(matches!(topic.publish_to(1, 3), Err(PublishError::Closed { value: 3, .. })));
    assert!(producer.publish_to(1, 3).is_err() && producer.publish_in_place(1, || 0, |n| *n = 3).is_err());
    for topic in [&topic, &exclusive] {
        assert_eq!(topic.last_value::<String>().unwrap().of(0).unwrap().position(), position);
        let by_digit = topic.last_values::<u64, u64>().unwrap();
        assert!(by_digit.get(&2).is_none() && by_digit.get(&3).is_none());
    }
}

#[test]
fn a_projection_that_panics_lets_nothing_be_stored() {
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", numbers()).unwrap();
    let (exclusive, mut producer) = broker.create_exclusive("exclusive", numbers()).unwrap();
    let panics = |publish: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(publish)).is_err());
    is_last(&topic, 23, topic.publish(23));
    is_last(&exclusive, 23, producer.publish(23));
    panics(&mut || drop(topic.publish(13)));
    panics(&mut || drop(topic.publish_quietly(13)));
    panics(&mut || drop(topic.publish_batch([1, 2, 3, 4, 13])));
    panics(&mut || drop(producer.publish(13)));
    panics(&mut || drop(producer.publish_batch([1, 2, 3, 4, 13])));
    panics(&mut || drop(producer.publish_in_place(0, || 0, |n| *n = 13)));
    for topic in [&topic, &exclusive] {
        let ends = topic.end(0).unwrap() + topic.end(1).unwrap();
        assert_eq!(ends, 1, "something was stored");
        assert_eq!(topic.last_value::<String>().unwrap().get().unwrap().as_str(), "23");
        assert_eq!(*topic.last_values::<u64, u64>().unwrap().get(&3).unwrap(), 23);
    }
    is_last(&topic, 33, topic.publish(33));
    is_last(&exclusive, 33, producer.publish(33));
}

#[test]
fn a_publish_that_waits_projects_once_and_before_it_waits() {
    let clock = Arc::new(ManualClock::new());
    let (broker, manual) = (Broker::with(BrokerConfig::new().clock(clock)), Manual::new(1));
    let made = Arc::new(AtomicUsize::new(0));
    let value = {
        let made = made.clone();
        move |n: &u64| (made.fetch_add(1, SeqCst), *n)
    };
    let topic = broker.create_topic("numbers", TopicConfig::new().capacity(1).last_value(value)).unwrap();
    let group = topic.group("slow", GroupConfig::earliest()).unwrap();
    group.member("one").run(&manual).subscribe(|_: &ringlog::Record<'_, u64>| ()).unwrap();
    topic.publish(1).unwrap();
    let waiting = thread::spawn({
        let topic = topic.clone();
        move || topic.publish(2).unwrap()
    });
    while topic.counts().blocked == 0 {
        thread::yield_now();
    }
    let last = topic.last_value::<(usize, u64)>().unwrap();
    assert_eq!((made.load(SeqCst), *last.get().unwrap()), (2, (0, 1)), "not before its record is published");
    manual.run(10);
    waiting.join().unwrap();
    assert_eq!((made.load(SeqCst), *last.get().unwrap()), (2, (1, 2)));
}

#[test]
fn a_batch_projects_what_may_remain_and_no_more() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = |made: &Arc<AtomicUsize>| {
        let made = made.clone();
        move |n: &u64| {
            made.fetch_add(1, SeqCst);
            *n
        }
    };
    let config = TopicConfig::new().last_value(count(&made)).last_value_by_key(|n| n % 2, count(&made));
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", config).unwrap();
    topic.publish_batch(0..100).unwrap();
    assert_eq!(made.load(SeqCst), 3, "the last one, the last even and the last odd one");
    let by_parity = topic.last_values::<u64, u64>().unwrap();
    assert_eq!((*by_parity.get(&0).unwrap(), *by_parity.get(&1).unwrap()), (98, 99));
}

#[test]
fn what_was_not_asked_for_is_refused_by_type_and_by_name() {
    let broker = Broker::new();
    let plain = broker.create_topic("plain", TopicConfig::<u64>::new()).unwrap();
    let refused = plain.last_value::<u64>().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "topic 'plain' keeps no last values of that kind; set TopicConfig::last_value where it is made"
    );
    assert!(matches!(plain.last_values::<u64, u64>(), Err(LastError::NotKept { .. })));
    let kept = broker.create_topic("numbers", numbers()).unwrap();
    let refused = kept.last_values::<u32, u64>().unwrap_err();
    assert_eq!(refused.to_string(), "topic 'numbers' keeps (u64, u64) as last values, not (u32, u64)");
    // A topic that is there keeps its own settings.
    let again = broker.topic_or_create("plain", TopicConfig::<u64>::new().last_value(|n| *n)).unwrap();
    assert!(again.last_value::<u64>().is_err());
    assert!(matches!(broker.create_topic("plain", numbers()), Err(CreateError::Exists { .. })));
}

#[test]
fn topics_of_one_configuration_keep_their_own() {
    let (broker, config) = (Broker::new(), numbers());
    let one = broker.topic_or_create("one", config.clone()).unwrap();
    let two = broker.topic_or_create("two", config).unwrap();
    is_last(&one, 1, one.publish(1));
    assert!(two.last_value::<String>().unwrap().get().is_none() && two.last_values::<u64, u64>().unwrap().keys() == 0);
}

#[test]
fn handles_outlive_topic_and_broker() {
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", numbers()).unwrap();
    let (last, by_digit) = (topic.last_value::<String>().unwrap(), topic.last_values::<u64, u64>().unwrap());
    topic.publish(12).unwrap();
    broker.delete_topic("numbers").unwrap();
    assert!(topic.publish(22).is_err());
    drop((topic, broker));
    let value: LastValue<String> = last.clone();
    assert_eq!((value.get().as_deref().unwrap().as_str(), by_digit.get(&2).as_deref()), ("12", Some(&12)));
}

#[test]
fn what_was_forgotten_comes_back_with_the_next_record_only() {
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", numbers()).unwrap();
    let by_digit = topic.last_values::<u64, u64>().unwrap();
    assert!(by_digit.forget(&1).is_none());
    topic.publish(11).unwrap();
    assert_eq!(by_digit.forget(&1).as_deref(), Some(&11));
    assert!(by_digit.get(&1).is_none() && by_digit.forget(&1).is_none() && by_digit.iter().next().is_none());
    is_last(&topic, 21, topic.publish(21));
}

#[test]
fn keys_beyond_the_bound_are_counted_and_their_records_stored() {
    let config = TopicConfig::new().last_keys(3).last_value_by_optional_key(|n| (n % 2 == 0).then_some(*n), |n| *n);
    let broker = Broker::new();
    let topic = broker.create_topic("numbers", config).unwrap();
    for n in 0..10 {
        assert_eq!(topic.publish(n).unwrap().offset(), n);
    }
    let even = topic.last_values::<u64, u64>().unwrap();
    let has: Vec<_> = (0..10).filter(|n| even.get(n).is_some()).collect();
    assert_eq!((has, even.keys(), even.not_kept()), (vec![0, 2, 4], 3, 2));
    topic.publish_batch(0..10).unwrap();
    assert_eq!((even.not_kept(), even.get(&4).unwrap().position().offset), (4, 14));
}
