//! Presets, topics that are made when they are first asked for, and the process's own broker.

use ringlog::{
    Broker, BrokerConfig, BrokerState, CreateError, GroupConfig, LookupError, ManualClock, Overflow, PublishError,
    Retry, SeekTo, StartAt, TopicConfig,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

// X2, X4
#[test]
fn the_handbook_s_topic_has_one_partition_of_1024_kept_for_whoever_comes_and_waits_a_second() {
    let config = TopicConfig::<u64>::handbook();
    assert!(format!("{config:?}").contains("full: Block(Some(1s))"), "{config:?}");
    let broker = Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
    let topic = broker.create_topic("orders", config).unwrap();
    assert_eq!((topic.partitions(), topic.capacity()), (1, 1_024));
    topic.publish_batch(0..1_024).unwrap();
    assert!(matches!(topic.try_publish(0), Err(PublishError::Full { .. })), "nobody has read it");
    let late = topic.group("late", GroupConfig::handbook()).unwrap();
    assert_eq!((late.lag(), late.config().start()), (1_024, StartAt::Earliest));
    let clock = broker.clock().clone();
    assert!(late.seek(0, SeekTo::Time(clock.now())).is_ok(), "its records have times");
}

// X30
#[test]
fn the_handbook_s_group_is_what_the_long_way_of_saying_it_makes() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::<u64>::handbook()).unwrap();
    topic.group("g", GroupConfig::handbook()).unwrap();
    let pauses = Retry::exponential(3).max(50 * MS);
    assert_eq!([1, 2, 7].map(|attempt| pauses.delay_after(attempt)), [MS, 2 * MS, 50 * MS]);
    topic.group("g", GroupConfig::earliest().retry(pauses).bury_cloned().letters(1_024)).unwrap();
    assert_eq!(Broker::CLOSE_LIMIT, Duration::from_secs(2));
}

// X30
#[test]
fn the_leased_group_is_what_the_long_way_of_saying_it_makes() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::<u64>::leased(2, 3)).unwrap();
    assert_eq!((topic.partitions(), topic.capacity()), (2, 3));
    topic.group("g", GroupConfig::leased()).unwrap();
    let at_once = Retry::constant(1, Duration::ZERO).unlimited();
    assert_eq!([1, 2, 1_000].map(|attempt| at_once.delay_after(attempt)), [Duration::ZERO; 3]);
    let long = |retry| GroupConfig::latest().retry(retry).letters(0).lease(Duration::from_secs(30));
    topic.group("g", long(at_once)).unwrap();
    assert!(topic.group("g", long(Retry::constant(1, MS).unlimited())).is_err(), "with another pause");
}

// X14, X30, C-10
#[test]
fn the_mailbox_s_group_is_what_the_long_way_of_saying_it_makes() {
    let broker = Broker::new();
    let topic = broker.create_topic("prices", TopicConfig::<u64>::mailbox()).unwrap();
    assert_eq!((topic.partitions(), topic.capacity()), (1, 8_192));
    topic.publish(0).unwrap();
    let group = topic.group("g", GroupConfig::mailbox(Overflow::drop_oldest(2))).unwrap();
    assert_eq!((group.lag(), group.config().start()), (0, StartAt::Latest), "nothing is kept for whoever comes");
    let pauses = Retry::linear(3, 100 * MS);
    assert_eq!([1, 2].map(|attempt| pauses.delay_after(attempt)), [100 * MS, 200 * MS]);
    let long =
        |rule| GroupConfig::latest().overflow(rule).retry(pauses.clone()).letters(1_024).bury_cloned().ephemeral();
    topic.group("g", long(Overflow::drop_oldest(2))).unwrap();
    for other in [Overflow::drop_oldest(3), Overflow::block(2), Overflow::drop_newest(2), Overflow::topic()] {
        assert!(topic.group("g", long(other)).unwrap_err().to_string().contains("another overflow"));
    }
}

fn rule(name: &str) -> Option<TopicConfig<u64>> {
    name.starts_with("auto").then(|| TopicConfig::new().capacity(name.len()))
}

// X12
#[test]
fn a_rule_makes_topics_on_first_use_and_nothing_else_does() {
    let strings = |_: &str| Some(TopicConfig::<String>::new().capacity(0));
    let broker = Broker::with(BrokerConfig::new().auto_create(rule).auto_create(strings));
    let other = broker.clone();
    let unknown = || LookupError::Unknown { topic: "other".into() };
    assert_eq!(broker.topic::<u64>("other").unwrap_err(), unknown());
    assert_eq!(broker.topic::<u8>("other").unwrap_err(), unknown(), "a type without a rule");
    assert_eq!(broker.topic::<u64>("auto/1").unwrap().capacity(), 6);
    assert!(matches!(broker.topic::<String>("auto/1"), Err(LookupError::WrongType { .. })));
    assert!(matches!(broker.create_topic("auto/1", TopicConfig::<u64>::new()), Err(CreateError::Exists { .. })));
    let own = broker.topic_or_create("auto/2", TopicConfig::<u64>::new().capacity(3)).unwrap();
    assert_eq!(own.capacity(), 3, "what the caller says comes before the rule");
    match other.topic::<String>("words") {
        Err(LookupError::NotMade { why, .. }) => assert!(matches!(*why, CreateError::Config(_)), "{why}"),
        other => panic!("{other:?}"),
    }
    broker.close(Some(Duration::ZERO));
    assert!(broker.topic::<u64>("auto/1").is_ok(), "it is there");
    match broker.topic::<u64>("auto/3") {
        Err(LookupError::NotMade { why, .. }) => assert!(matches!(*why, CreateError::Closed { .. }), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(broker.topic_names().len(), 2);
}

// X12
#[test]
fn of_many_who_ask_at_once_one_makes_the_topic_and_all_get_it() {
    for _ in 0..20 {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let rule = move |_: &str| {
            count.fetch_add(1, Ordering::Relaxed);
            Some(TopicConfig::<u64>::new().capacity(4))
        };
        let (broker, start) = (Broker::with(BrokerConfig::new().auto_create(rule)), Barrier::new(4));
        thread::scope(|scope| {
            for n in 0..4 {
                let (broker, start) = (&broker, &start);
                scope.spawn(move || {
                    start.wait();
                    broker.topic::<u64>("t").unwrap().publish(n).unwrap();
                });
            }
        });
        assert_eq!(broker.topic::<u64>("t").unwrap().end(0), Some(4));
        assert!((1..=4).contains(&asked.load(Ordering::Relaxed)));
    }
}

// X12
#[test]
fn a_rule_that_panics_makes_nothing_and_breaks_nothing() {
    let broker =
        Broker::with(BrokerConfig::new().auto_create(|_: &str| -> Option<TopicConfig<u64>> { panic!("planned") }));
    let asking = broker.clone();
    assert!(thread::spawn(move || asking.topic::<u64>("t").map(drop)).join().is_err());
    assert!(broker.topic_names().is_empty());
    broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    assert!(broker.topic::<u64>("t").is_ok());
}

//
#[test]
fn the_process_has_one_broker_of_its_own_until_it_is_reset() {
    let (start, name) = (Barrier::new(4), "shared");
    let states = thread::scope(|scope| {
        let ask = || {
            start.wait();
            Broker::global().topic_or_create(name, TopicConfig::<u64>::new()).unwrap().publish(1).unwrap();
            Broker::global().state()
        };
        let all = [(); 4].map(|()| scope.spawn(ask));
        all.map(|one| one.join().unwrap())
    });
    assert_eq!(states, [BrokerState::Open; 4]);
    assert_eq!(Broker::global().topic::<u64>(name).unwrap().end(0), Some(4), "one broker for all four");
    assert!(Broker::new().topic::<u64>(name).is_err(), "others are others");
    Broker::global().close(Some(Duration::ZERO));
    assert_eq!(Broker::global().state(), BrokerState::Closed, "closed for good");
    let old = Broker::reset_global().unwrap();
    assert!(Broker::reset_global().is_none());
    assert_eq!((Broker::global().state(), old.state()), (BrokerState::Open, BrokerState::Closed));
    assert!(Broker::global().topic_names().is_empty());
    Broker::reset_global();
}
