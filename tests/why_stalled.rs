//! Who keeps a partition's memory is named.
#![forbid(unsafe_code)]

use ringlog::{Broker, GroupConfig, Record, StalledBy, Standing, TopicConfig};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn a_handler_that_does_not_return_is_named_by_its_group_and_keeps_one_page() {
    let broker = Broker::new();
    let topic = broker.create_topic("ticks", TopicConfig::<String>::new().capacity(4).drop_oldest()).unwrap();
    let (entered, enters) = channel();
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let stuck = topic.group("stuck", GroupConfig::earliest()).unwrap();
    let handler = move |record: &Record<'_, String>| {
        if record.offset() == 0 {
            entered.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        assert_eq!(**record, format!("tick {}", record.offset()), "what is in hand stays whole");
    };
    let _member = stuck.subscribe("one", handler).unwrap();
    let other = topic.group("other", GroupConfig::earliest()).unwrap();
    let _quick = other.subscribe("one", |_: &Record<'_, String>| {}).unwrap();
    topic.publish("tick 0".into()).unwrap();
    enters.recv().unwrap();
    assert_eq!(topic.why_stalled(0), Some(Vec::new()), "it is in nobody's way yet");
    (1..500).for_each(|n| _ = topic.try_publish(format!("tick {n}")).unwrap());
    let stalls = topic.why_stalled(0).unwrap();
    let by_stuck: Vec<_> = stalls.iter().filter(|stall| stall.by == StalledBy::Group("stuck".into())).collect();
    assert_eq!(by_stuck.len(), 1, "{stalls:?}");
    assert!(by_stuck[0].from == 0 && by_stuck[0].to > 0, "{stalls:?}");
    assert_eq!(by_stuck[0].because, Some(Standing::AtWork { member: "one".into() }), "{stalls:?}");
    release.send(()).unwrap();
    broker.drain(Duration::from_secs(60)).unwrap();
    (500..600).for_each(|n| _ = topic.try_publish(format!("tick {n}")).unwrap());
    broker.drain(Duration::from_secs(60)).unwrap();
    let named = topic.why_stalled(0).unwrap().into_iter().any(|stall| stall.from == 0);
    assert!(!named, "the page has come back");
    assert_eq!(topic.why_stalled(1), None);
}
