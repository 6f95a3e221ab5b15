//! Topics are made, found, listed and deleted by name, and every wrong request is an error of its own.

use ringlog::{
    Broker, CreateError, GroupConfig, GroupError, LookupError, NameError, PublishError, Retain, SubscribeError,
    TopicConfig,
};
use std::sync::{Arc, Barrier};
use std::thread;

fn numbers() -> TopicConfig<u64> {
    TopicConfig::new().capacity(8)
}

// X24, A-1, A-63, A-81
#[test]
fn a_topic_is_made_once_and_found_by_name() {
    let broker = Broker::new();
    let made = broker.create_topic("b", numbers()).unwrap();
    broker.create_topic("a", numbers().partitions(3)).unwrap();
    assert_eq!(made.partitions(), 1, "one partition unless more are asked for");
    assert_eq!(broker.topic::<u64>("a").unwrap().partitions(), 3);
    assert_eq!(broker.topic_names().iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    let twice = broker.create_topic("a", numbers()).unwrap_err();
    assert!(matches!(twice, CreateError::Exists { .. }));
    assert_eq!(
        twice.to_string(),
        "topic 'a' already exists; get it by `topic` or `topic_or_create`, or choose another name"
    );
    let unknown = broker.topic::<u64>("c").unwrap_err();
    assert_eq!(unknown, LookupError::Unknown { topic: "c".into() });
    assert_eq!(unknown.to_string(), "unknown topic 'c'");
}

//
#[test]
fn a_topic_of_other_records_is_a_type_error_that_names_both() {
    let broker = Broker::new();
    broker.create_topic("a", numbers()).unwrap();
    let found = broker.topic::<String>("a").unwrap_err();
    assert_eq!(found.to_string(), "topic 'a' holds u64, not alloc::string::String");
    let made = broker.create_topic("a", TopicConfig::<String>::new()).unwrap_err();
    assert!(matches!(made, CreateError::WrongType { holds: "u64", .. }));
}

// A-32, A-T9, B-19
#[test]
fn impossible_settings_and_names_are_refused_with_field_value_and_bound() {
    let broker = Broker::new();
    let refused = |name: &str, config: TopicConfig<u64>| broker.create_topic(name, config).unwrap_err();
    let text = |config: TopicConfig<u64>| refused("a", config).to_string();
    assert_eq!(text(numbers().capacity(0)), "capacity is 0, but must be between 1 and 1073741824");
    assert_eq!(text(numbers().capacity((1 << 30) + 1)), "capacity is 1073741825, but must be between 1 and 1073741824");
    assert_eq!(text(numbers().partitions(0)), "partitions is 0, but must be between 1 and 4096");
    assert_eq!(text(numbers().partitions(4_097)), "partitions is 4097, but must be between 1 and 4096");
    assert!(matches!(refused("a", numbers().capacity(0)), CreateError::Config(ref error) if error.field == "capacity"));
    assert!(matches!(refused("", numbers()), CreateError::Name(NameError::Empty)));
    assert!(matches!(refused("a\tb", numbers()), CreateError::Name(NameError::Control { at: 1, .. })));
    assert!(matches!(refused(&"x".repeat(256), numbers()), CreateError::Name(NameError::TooLong { bytes: 256 })));
    assert!(broker.topic_names().is_empty(), "nothing was made");
}

// A-T6, A-T7, A-T8, A-T9, X24
#[test]
fn each_wrong_request_is_refused_by_name_and_makes_nothing() {
    let broker = Broker::new();
    // Who publishes or subscribes needs the topic first, and it is not there.
    let publishing = broker.topic::<u64>("orders").map(|topic| topic.publish(1).is_ok());
    assert_eq!(publishing, Err(LookupError::Unknown { topic: "orders".into() }));
    let subscribing =
        broker.topic::<u64>("orders").map(|topic| topic.group("billing", GroupConfig::earliest()).is_ok());
    assert_eq!(subscribing.unwrap_err().to_string(), "unknown topic 'orders'");
    assert!(broker.topic_names().is_empty(), "asking made nothing");
    let topic = broker.create_topic("orders", numbers().partitions(2)).unwrap();
    topic.publish(1).unwrap();
    let unnamed = topic.group("", GroupConfig::earliest()).unwrap_err();
    assert!(matches!(unnamed, GroupError::Name { reason: NameError::Empty, .. }));
    assert!(topic.groups().is_empty(), "no group was made");
    for config in [numbers().partitions(2), numbers()] {
        let twice = broker.create_topic("orders", config).unwrap_err();
        assert!(matches!(twice, CreateError::Exists { ref topic } if &**topic == "orders"), "{twice:?}");
    }
    assert_eq!((broker.topic_names().len(), topic.partitions()), (1, 2));
    assert_eq!(
        topic.publish(2).unwrap().offset(),
        0,
        "and the one that is there is as it was: the other partition's turn"
    );
    broker.delete_topic("orders").unwrap();
    let late = topic.publish(3).unwrap_err();
    assert!(
        matches!(late, PublishError::Deleted { value: 3, .. }),
        "a handle outlives its topic, which is unknown now"
    );
}

#[test]
fn a_topic_that_no_memory_would_hold_is_refused() {
    type Kilobyte = [u64; 128];
    let broker = Broker::new();
    let huge = TopicConfig::<[Kilobyte; 64]>::new().capacity(1 << 30).partitions(4);
    assert!(matches!(broker.create_topic("huge", huge), Err(CreateError::OutOfMemory { partitions: 4, .. })));
    assert!(broker.topic_names().is_empty());
}

// B-19, B-26
#[test]
fn of_racing_creators_exactly_one_wins() {
    for _ in 0..20 {
        let broker = Broker::new();
        let start = Arc::new(Barrier::new(4));
        let creators: Vec<_> = (0..4)
            .map(|_| {
                let (broker, start) = (broker.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    broker.create_topic("a", numbers()).is_ok()
                })
            })
            .collect();
        let won =
            creators.into_iter().filter(|_| true).map(|creator| creator.join().unwrap()).filter(|&won| won).count();
        assert_eq!(won, 1);
    }
}

// C-4
#[test]
fn a_topic_may_come_into_being_on_first_use_once() {
    for _ in 0..20 {
        let broker = Broker::new();
        let start = Arc::new(Barrier::new(4));
        let users: Vec<_> = (0..4)
            .map(|n| {
                let (broker, start) = (broker.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    broker.topic_or_create("a", numbers()).unwrap().publish(n).unwrap().offset()
                })
            })
            .collect();
        let mut offsets: Vec<u64> = users.into_iter().map(|user| user.join().unwrap()).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, [0, 1, 2, 3], "all four found the same topic");
        let wrong = broker.topic_or_create("a", TopicConfig::<String>::new());
        assert!(matches!(wrong, Err(CreateError::WrongType { .. })));
    }
}

//
#[test]
fn a_deleted_topic_refuses_everybody_and_frees_its_name() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", numbers()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let member = group.subscribe("m", |_| ()).unwrap();
    topic.publish(1).unwrap();
    broker.delete_topic("a").unwrap();
    assert_eq!(broker.delete_topic("a"), Err(LookupError::Unknown { topic: "a".into() }));
    assert!(topic.is_closed());
    match topic.publish(2) {
        Err(error @ PublishError::Deleted { .. }) => {
            assert_eq!(error.to_string(), "topic 'a' was deleted");
            assert_eq!(error.into_value(), 2);
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(topic.publish_batch([3, 4]).unwrap_err().into_rest().as_slice(), [3, 4]));
    assert!(matches!(topic.group("h", GroupConfig::earliest()), Err(GroupError::Closed { .. })));
    assert!(matches!(group.subscribe("n", |_| ()), Err(SubscribeError::Closed { .. })));
    assert!(!member.leave(), "the member is out already");
    let again = broker.create_topic("a", TopicConfig::<String>::new()).unwrap();
    assert_eq!(again.publish("x".into()).unwrap().offset(), 0);
}

// A-48, X34
#[test]
fn deleting_a_topic_wakes_and_refuses_a_blocked_publisher() {
    let broker = Broker::new();
    let config = TopicConfig::new().capacity(1).retain(Retain::Backlog).block(None);
    let topic = broker.create_topic("a", config).unwrap();
    topic.publish(1_u64).unwrap();
    let blocked = thread::spawn({
        let topic = topic.clone();
        move || topic.publish(2)
    });
    while topic.counts().blocked == 0 {
        thread::yield_now();
    }
    broker.delete_topic("a").unwrap();
    match blocked.join().unwrap() {
        Err(PublishError::Deleted { value: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(topic.end(0), Some(1), "nothing was appended");
}

// B-26
#[test]
fn handles_of_one_name_are_handles_of_one_topic() {
    let broker = Broker::new();
    let made = broker.create_topic("a", numbers()).unwrap();
    made.publish(1).unwrap();
    let found = broker.topic::<u64>("a").unwrap();
    assert_eq!((found.end(0), found.earliest(0), found.len(0)), (Some(1), Some(0), Some(1)));
    assert_eq!((found.end(1), found.earliest(1), found.len(1)), (None, None, None));
    assert_eq!((found.name(), found.capacity()), ("a", 8));
}
