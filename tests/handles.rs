//! Handles go where they may go, and making, joining and closing at once ends well.

use ringlog::{
    Account, Broker, BrokerConfig, CreateError, DrainError, Group, GroupConfig, GroupError, LookupError, Member,
    Producer, PublishError, Topic, TopicConfig,
};
use std::cell::Cell;
use std::error::Error;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

fn shared<H: Send + Sync + Clone + 'static>() {}
fn sent<H: Send + 'static>() {}
fn error<E: Error + Send + Sync + 'static>() {}

#[test]
fn handles_and_errors_cross_threads() {
    shared::<Broker>();
    shared::<BrokerConfig>();
    shared::<Account>();
    shared::<Topic<String>>();
    shared::<Group<String>>();
    shared::<TopicConfig<String>>();
    sent::<Producer<String>>();
    sent::<Member<String>>();
    sent::<PublishError<Cell<u8>>>();
    error::<PublishError<String>>();
    error::<CreateError>();
    error::<LookupError>();
    error::<GroupError>();
    error::<DrainError>();
}

/// A value without `Debug`, `Clone` or `PartialEq`: topics ask for no more than what crossing threads needs.
struct Bare;

#[test]
fn everything_prints_whatever_the_records_are() {
    let broker = Broker::new();
    let (topic, producer) = broker.create_exclusive("t", TopicConfig::<Bare>::new().capacity(1)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let member = group.subscribe("m", |_| ()).unwrap();
    let refused = topic.publish(Bare);
    let text = format!("{broker:?} {topic:?} {producer:?} {group:?} {member:?} {refused:?}");
    assert!(text.contains("Exclusive(topic 't' has an exclusive producer; publish through that)"), "{text}");
    assert!(format!("{:?}", TopicConfig::<Bare>::new().key(|_| "k")).contains("Crc32"));
    broker.close(Some(Duration::ZERO));
}

/// Whoever makes something beside a close or a delete either gets it and sees it stopped, or is refused.
#[test]
fn making_beside_closing_leaves_nothing_running() {
    for round in 0..30 {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::<Arc<()>>::new()).unwrap();
        let life = Arc::new(());
        let start = Arc::new(Barrier::new(4));
        let makers: Vec<_> = (0..3)
            .map(|n| {
                let (broker, topic, life, start) = (broker.clone(), topic.clone(), life.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    for i in 0..10 {
                        let _ = broker.create_topic(&format!("t{n}-{i}"), TopicConfig::<u8>::new().capacity(1));
                        let owned = life.clone();
                        let Ok(group) = topic.group(&format!("g{i}"), GroupConfig::earliest()) else { continue };
                        let _ = group.subscribe(&format!("m{n}"), move |_| _ = Arc::strong_count(&owned));
                        let _ = topic.try_publish(life.clone());
                    }
                })
            })
            .collect();
        start.wait();
        if round % 2 == 0 {
            broker.delete_topic("t").unwrap();
        }
        let account = broker.close(Some(Duration::from_secs(60)));
        assert!(account.stopped);
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        assert!(matches!(
            topic.try_publish(life.clone()),
            Err(PublishError::Closed { .. } | PublishError::Deleted { .. })
        ));
        drop((broker, topic));
        while Arc::strong_count(&life) > 1 {
            thread::yield_now();
        }
    }
}
