//! Whatever a program calls may meet a record whose destructor calls anything else: nothing hangs, and the books balance.

use super::{Acts, Late, ends_as};
use ringlog::{Broker, BrokerConfig, Group, GroupConfig, Manual, Member, Retain, SeekTo, Topic, TopicConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct World {
    broker: Broker,
    topic: Topic<Acts>,
    group: Group<Acts>,
    manual: Manual,
    member: Mutex<Option<Member<Acts>>>,
}

const CALLS: u32 = 27;

fn call(w: &World, what: u32) {
    let none = || Acts(None);
    match what {
        0 => drop(w.topic.publish(none())),
        1 => drop(w.topic.try_publish(none())),
        2 => drop(w.topic.publish_quietly(none())),
        3 => drop(w.topic.publish_batch([none(), none()])),
        4 => drop(w.topic.stats()),
        5 => _ = w.topic.earliest(0),
        6 => _ = w.topic.len(0),
        7 => drop(w.topic.group("other", GroupConfig::earliest())),
        8 => drop(w.topic.delete_group("g")),
        9 => drop(w.group.stats()),
        10 => _ = w.group.lag(),
        11 => _ = w.group.seek(0, SeekTo::Earliest),
        12 => _ = w.group.seek(0, SeekTo::Latest),
        13 => _ = w.group.seek(0, SeekTo::Offset(1)),
        14 => {
            w.group.pause();
            w.group.resume()
        }
        15 => drop(w.group.member("n").run(&w.manual).subscribe(|_| ())),
        16 => drop(w.member.lock().unwrap().take().map(|m| m.leave())),
        17 => drop(w.broker.drain(Duration::ZERO)),
        18 => drop(w.broker.close(Some(Duration::ZERO))),
        19 => drop(w.broker.delete_topic("t")),
        20 => drop(w.topic.why_stalled(0)),
        21 => drop(w.group.assignment()),
        22 => _ = w.manual.run(50),
        23 => drop(w.group.replay(SeekTo::Earliest)),
        24 => drop(w.manual.stranded()),
        25 => drop(w.topic.find_group("g")),
        _ => drop(w.broker.create_topic("new", TopicConfig::<u8>::new().max_age(Duration::from_secs(1)))),
    }
}

#[test]
fn anything_may_meet_anything() {
    for shape in 0..3 {
        for outer in 0..CALLS {
            for inner in 0..CALLS {
                let what = format!("call {outer} that meets destructor {inner} on topic {shape}");
                ends_as(&what, move || {
                    let clock = Arc::new(Late::default());
                    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
                    let mut config =
                        TopicConfig::<Acts>::new().capacity(2).retain(Retain::Unacked).block(Some(Duration::ZERO));
                    if shape != 1 {
                        config = config.max_age(Duration::from_secs(1));
                    }
                    if shape != 0 {
                        config = config.drop_oldest();
                    }
                    let topic = broker.create_topic("t", config).unwrap();
                    let group = topic.group("g", GroupConfig::earliest()).unwrap();
                    let manual = Manual::new(1);
                    let member = group.member("m").run(&manual).subscribe(|_| ()).unwrap();
                    let world = Arc::new(World { broker, topic, group, manual, member: Mutex::new(Some(member)) });
                    let within = world.clone();
                    let more = if shape == 1 { 4 } else { 1 };
                    world.topic.publish(Acts(Some(Arc::new(move || call(&within, inner))))).unwrap();
                    for _ in 1..more {
                        world.topic.publish(Acts(None)).unwrap();
                    }
                    clock.advance(Duration::from_secs(5));
                    call(&world, outer);
                    world.manual.run(50);
                    let stats = world.group.stats();
                    assert!(stats.balances(), "{stats:?}");
                    call(&world, outer);
                    assert!(world.group.stats().balances(), "after the second call: {stats:?}");
                });
            }
        }
    }
}
