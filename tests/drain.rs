//! Drain and close with lanes that move one step at a time: what they wait for, and what wakes them.

use ringlog::{Broker, BrokerConfig, DrainError, GroupConfig, Manual, ManualClock, SeekTo, TopicConfig};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3_600);

/// Whose clock stands still unless it is told otherwise.
fn broker() -> Broker {
    Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())))
}

/// A drain on a thread of its own, most probably asleep.
fn draining(broker: &Broker) -> thread::JoinHandle<Result<(), DrainError>> {
    let broker = broker.clone();
    let drain = thread::spawn(move || broker.drain(LONG));
    (0..1_000).for_each(|_| thread::yield_now());
    drain
}

//
#[test]
fn a_drain_is_woken_by_the_commit_that_finishes_it() {
    let (broker, manual) = (broker(), Manual::new(1));
    let topic = broker.create_topic("a", TopicConfig::<u32>::new()).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap().member("m").run(&manual).subscribe(|_| ()).unwrap();
    topic.publish_batch(0..3).unwrap();
    let drain = draining(&broker);
    assert!(!drain.is_finished());
    manual.run(100);
    drain.join().unwrap().unwrap();
}

//
#[test]
fn a_drain_is_woken_when_the_last_member_leaves_although_no_lane_moved() {
    let (broker, manual) = (broker(), Manual::new(1));
    let topic = broker.create_topic("a", TopicConfig::<u32>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let member = group.member("m").run(&manual).subscribe(|_| ()).unwrap();
    topic.publish_batch(0..3).unwrap();
    let drain = draining(&broker);
    assert!(member.leave());
    drain.join().unwrap().unwrap();
    assert_eq!(group.lag(), 3);
}

#[test]
fn a_drain_is_woken_by_a_seek_to_the_end_and_by_deleting_what_held_it_up() {
    let (broker, manual) = (broker(), Manual::new(1));
    let topic = broker.create_topic("a", TopicConfig::<u32>::new()).unwrap();
    let other = broker.create_topic("b", TopicConfig::<u32>::new()).unwrap();
    for (topic, name) in [(&topic, "g"), (&topic, "h"), (&other, "g")] {
        topic.group(name, GroupConfig::earliest()).unwrap().member("m").run(&manual).subscribe(|_| ()).unwrap();
        topic.publish_batch(0..3).unwrap();
    }
    let drain = draining(&broker);
    topic.find_group("g").unwrap().seek(0, SeekTo::Latest).unwrap();
    topic.delete_group("h").unwrap();
    broker.delete_topic("b").unwrap();
    drain.join().unwrap().unwrap();
}

/// Two handlers that publish to each other's topic: a look at one lane after the other could miss the record between.
#[test]
fn a_drain_never_ends_while_a_record_travels_between_lanes() {
    for seed in 0..20 {
        let (broker, manual) = (broker(), Manual::new(seed));
        let topics = [0, 1].map(|n| broker.create_topic(&format!("t{n}"), TopicConfig::<u32>::new()).unwrap());
        for n in 0..2 {
            let onward = topics[1 - n].clone();
            let hop = move |record: &ringlog::Record<'_, u32>| match **record {
                0 => Ok(()),
                left => onward.publish(left - 1).map(drop),
            };
            topics[n].group("g", GroupConfig::earliest()).unwrap().member("m").run(&manual).subscribe(hop).unwrap();
        }
        topics[0].publish(20).unwrap();
        let drain = draining(&broker);
        while manual.step().is_some() {
            let done = topics.iter().map(|topic| topic.end(0).unwrap()).sum::<u64>() == 21;
            assert!(done || !drain.is_finished(), "seed {seed}: drained although a record was under way");
        }
        drain.join().unwrap().unwrap();
        assert_eq!(topics.map(|topic| topic.end(0).unwrap()), [11, 10]);
    }
}

//
#[test]
fn a_close_that_may_not_wait_counts_what_no_step_was_taken_for() {
    let (broker, manual) = (broker(), Manual::new(3));
    let topic = broker.create_topic("a", TopicConfig::<u32>::new().partitions(2)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group.member("m").run(&manual).subscribe(|_| ()).unwrap();
    topic.publish_batch(0..4).unwrap();
    manual.run(100);
    topic.publish_batch(0..3).unwrap();
    let account = broker.close(Some(Duration::ZERO));
    assert!(!account.drained);
    assert_eq!((account.acked(), account.dead(), account.left()), (4, 0, 3));
    assert!(account.groups.iter().all(|group| group.balances()), "the books balance");
    manual.run(100);
    assert_eq!(group.stats().acked(), 4, "no step is taken after the close");
}
