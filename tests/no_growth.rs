//! Memory does not grow over lives: of brokers, of topics and groups in one broker, of groups in one topic, of members in
//! one group.
#![forbid(unsafe_code)]

use ringlog::{
    Broker, BrokerConfig, Group, GroupConfig, Manual, ManualClock, Outcome, Producer, Record, Topic, TopicConfig,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Lives that are watched for their lowest point together: what is retired and not yet freed comes and goes within it.
const WINDOW: usize = 300;
const WINDOWS: usize = 4;
/// What the lowest points may differ by. Two bytes a life; the smallest thing that can leak takes sixteen.
const SLACK: usize = 2 * WINDOW * (WINDOWS - 1);

/// Bytes in use.
fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Lives over and over, and the lowest point of the last window is that of the first.
fn lives(what: &str, mut life: impl FnMut()) {
    (0..WINDOW).for_each(|_| life());
    let lowest: Vec<usize> = (0..WINDOWS)
        .map(|_| {
            let after_each = (0..WINDOW).map(|_| {
                life();
                in_use()
            });
            after_each.min().unwrap_or(0)
        })
        .collect();
    assert!(lowest[WINDOWS - 1] <= lowest[0] + SLACK, "{what}: bytes in use grow: {lowest:?}");
}

fn topic(broker: &Broker, name: &str) -> Topic<String> {
    broker.create_topic(name, TopicConfig::new().partitions(2).capacity(6).key(|text: &String| text)).unwrap()
}

fn group(topic: &Topic<String>, name: &str) -> Group<String> {
    topic.group(name, GroupConfig::earliest()).unwrap()
}

/// A member comes, some records are handled, one is buried, one is left over; the member leaves.
fn serve(group: &Group<String>, mut publish: impl FnMut(String)) {
    let manual = Manual::new(7);
    let handler = |record: &Record<'_, String>| match record.len() {
        1 => Outcome::Ack,
        _ => Outcome::reject("too long"),
    };
    let member = group.member("m").run(&manual).subscribe(handler).unwrap();
    for text in ["a", "b", "long", "c"] {
        manual.run(100);
        publish(text.to_owned());
    }
    manual.run(100);
    publish("left over".to_owned());
    assert!(member.leave());
    manual.run(100);
}

// One test: the count is the whole process's.
#[test]
fn bytes_in_use_do_not_grow_over_lives() {
    lives("brokers", || {
        let broker = Broker::new();
        let shared = topic(&broker, "shared");
        serve(&group(&shared, "g"), |text| _ = shared.publish(text).unwrap());
        let config = TopicConfig::new().capacity(6);
        let (exclusive, mut producer): (Topic<String>, Producer<String>) =
            broker.create_exclusive("exclusive", config).unwrap();
        serve(&group(&exclusive, "g"), |text| _ = producer.publish(text).unwrap());
    });

    let broker = Broker::new();
    lives("topics and groups of one broker", || {
        let topic = topic(&broker, "t");
        let kept = group(&topic, "kept");
        let deleted = group(&topic, "deleted");
        serve(&kept, |text| _ = topic.publish_to(0, text).unwrap());
        assert!(deleted.delete());
        broker.delete_topic("t").unwrap();
    });

    let topic = topic(&broker, "lasting");
    lives("groups of one topic", || {
        let group = group(&topic, "g");
        serve(&group, |text| _ = topic.publish_to(1, text).unwrap());
        assert!(group.delete());
    });

    let topic = self::topic(&broker, "members");
    let lasting = group(&topic, "lasting");
    // Nobody ever publishes to the other partition, so nothing but their leaving ends what its members wait for.
    lives("members of one group", || {
        let manual = Manual::new(7);
        let member = lasting.member("m").run(&manual).subscribe(|_| ()).unwrap();
        _ = topic.publish_to(0, "a".to_owned()).unwrap();
        manual.run(100);
        assert_eq!(lasting.lag(), 0);
        assert!(member.leave());
        manual.run(100);
    });

    // On a clock that nobody moves.
    let clock = Arc::new(ManualClock::new());
    let broker = || Broker::with(BrokerConfig::new().clock(clock.clone()));
    let aged = || TopicConfig::<u8>::new().capacity(1).max_age(Duration::from_secs(1));
    let one = broker();
    lives("topics with an age", || {
        one.create_topic("t", aged()).unwrap();
        one.delete_topic("t").unwrap();
    });
    lives("brokers with a timer", || drop(broker().create_topic("t", aged()).unwrap()));
}
