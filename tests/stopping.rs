//! Whoever runs members is stopped: they leave at once, and what they had is the others'.
#![forbid(unsafe_code)]

use ringlog::{Broker, GroupConfig, Pool, PoolConfig, Run, SubscribeError, TopicConfig, Worker};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn topic(broker: &Broker, partitions: u32, capacity: usize) -> ringlog::Topic<u64> {
    let config = TopicConfig::new().partitions(partitions).capacity(capacity).block(None);
    broker.create_topic("orders", config).unwrap()
}

/// Publishes `n` numbers to each partition, round robin.
fn publish(topic: &ringlog::Topic<u64>, n: u64) {
    for value in 0..n {
        for partition in 0..topic.partitions() {
            topic.publish_to(partition, value).unwrap();
        }
    }
}

// X29
#[test]
fn a_worker_that_is_stopped_hands_its_lanes_to_the_other_members() {
    let broker = Broker::new();
    let topic = topic(&broker, 4, 16);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let worker = Worker::spawn().unwrap();
    let seen = Arc::new(Mutex::new(vec![Vec::new(); 4]));
    let note = |seen: Arc<Mutex<Vec<Vec<u64>>>>| {
        move |r: &ringlog::Record<'_, u64>| seen.lock().unwrap()[r.partition() as usize].push(**r)
    };
    group.member("first").run(&worker).subscribe(note(seen.clone())).unwrap();
    group.member("second").subscribe(note(seen.clone())).unwrap();
    publish(&topic, 100);
    worker.stop();
    for value in 100..200 {
        for partition in 0..4 {
            topic.publish_to(partition, value).unwrap();
        }
    }
    broker.drain(LONG).unwrap();
    assert!(seen.lock().unwrap().iter().all(|values| *values == (0..200).collect::<Vec<_>>()));
    assert_eq!(group.assignment().len(), 1);
    let late = group.member("third").run(&worker).subscribe(|_| ()).unwrap_err();
    assert!(matches!(late, SubscribeError::NotPlaced { .. }), "{late}");
    assert_eq!(group.assignment().len(), 1, "a member without anybody to run it is not in");
}

//
#[test]
fn who_is_stopped_while_it_is_busy_does_not_go_on_with_what_lies_there() {
    let worker = Worker::spawn().unwrap();
    let pool = Pool::with(PoolConfig::new().threads(1)).unwrap();
    let stops: [(Run, Box<dyn Fn()>); 2] =
        [((&worker).into(), Box::new(move || worker.stop())), ((&pool).into(), Box::new(move || pool.stop()))];
    for (run, stop) in stops {
        let broker = Broker::new();
        let topic = topic(&broker, 1, 64);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (tell, told) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let busy = move |_: &ringlog::Record<'_, u64>| {
            tell.send(()).unwrap();
            released.recv().unwrap();
        };
        group.member("busy").run(run).subscribe(busy).unwrap();
        publish(&topic, 50);
        told.recv().unwrap();
        stop();
        release.send(()).unwrap();
        drop(release); // one more would panic
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        group
            .member("other")
            .subscribe(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        broker.drain(LONG).unwrap();
        assert_eq!((seen.load(Ordering::Relaxed), group.stats().dead()), (49, 0));
    }
}
