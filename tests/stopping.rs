//! Whoever runs members is stopped: they leave at once, and what they had is the others'.
#![forbid(unsafe_code)]

#[path = "support/numbers.rs"]
mod numbers;

use numbers::{publish, topic};
use ringlog::{
    Broker, BrokerConfig, GroupConfig, ManualClock, Outcome, Overflow, Pool, PoolConfig, Retry, Run, SubscribeError,
    TopicConfig, Worker,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

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

/// What runs members, how it is stopped, and whether it is known to be asleep when that many sleep on the clock.
type Stoppable = (Run, Box<dyn Fn()>, Option<usize>);

fn stoppables() -> [Stoppable; 4] {
    let (worker, own) = (Worker::spawn().unwrap(), Worker::on_your_thread());
    let running = own.clone();
    thread::spawn(move || running.run());
    let pools = [1, 2].map(|threads| Pool::with(PoolConfig::new().threads(threads)).unwrap());
    let [one, two] = pools.map(|pool| ((&pool).into(), Box::new(move || pool.stop()) as Box<dyn Fn()>, None));
    let stops = |worker: Worker| ((&worker).into(), Box::new(move || worker.stop()) as Box<dyn Fn()>, Some(1));
    [stops(worker), stops(own), one, two]
}

/// What a member waits for that sleeps.
#[derive(Clone, Copy, Debug, PartialEq)]
enum For {
    Records,
    AnotherAttempt,
    Resumption,
}

// on a clock that nobody moves, so nothing but the stop wakes anybody.
#[test]
fn who_sleeps_is_woken_by_a_stop_and_leaves_whatever_it_waits_for() {
    for waits in [For::Records, For::AnotherAttempt, For::Resumption] {
        for (run, stop, sleepers) in stoppables() {
            let clock = Arc::new(ManualClock::new());
            let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
            let topic = topic(&broker, 1, 8);
            let config = GroupConfig::earliest().retry(Retry::constant(3, Duration::from_secs(3_600)));
            let group = topic.group("g", config).unwrap();
            let (tell, told) = mpsc::channel();
            let handler = move |r: &ringlog::Record<'_, u64>| {
                tell.send(r.attempt()).unwrap();
                Outcome::retry("in an hour")
            };
            group.member("sleeps").run(run).subscribe(handler).unwrap();
            if waits == For::Resumption {
                group.pause();
            }
            if waits != For::Records {
                publish(&topic, 1);
            }
            if waits == For::AnotherAttempt {
                assert_eq!(told.recv_timeout(LONG), Ok(1));
            }
            clock.wait_for_sleepers(sleepers.unwrap_or(0));
            stop();
            assert_eq!(
                told.recv_timeout(LONG),
                Err(mpsc::RecvTimeoutError::Disconnected),
                "{waits:?}: it has not left"
            );
            while !group.stats().members.is_empty() {
                thread::yield_now();
            }
            // What it waited for is another's, as it was.
            let (tell, told) = mpsc::channel();
            group.subscribe("next", move |r| tell.send(r.attempt()).unwrap()).unwrap();
            match waits {
                For::Records => publish(&topic, 1),
                For::AnotherAttempt => clock.advance(Duration::from_secs(3_600)),
                For::Resumption => group.resume(),
            }
            let attempt = if waits == For::AnotherAttempt { 2 } else { 1 };
            assert_eq!(told.recv_timeout(LONG), Ok(attempt), "{waits:?}");
            broker.drain(LONG).unwrap();
            assert!(group.stats().balances() && group.stats().acked() == 1, "{:?}", group.stats());
        }
    }
}

// a mailbox that sleeps goes with what runs it.
#[test]
fn a_subscription_that_sleeps_ends_with_the_stop_of_what_runs_it() {
    for (run, stop, _) in stoppables() {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock));
        let topic = broker.create_topic("t", TopicConfig::<u64>::mailbox()).unwrap();
        let (tell, told) = mpsc::channel();
        let keeps = move |r: &ringlog::Record<'_, u64>| tell.send(**r).unwrap();
        let subscription = topic.subscribe_on(run, GroupConfig::mailbox(Overflow::block(4)), keeps).unwrap();
        topic.publish(7).unwrap();
        assert_eq!(told.recv_timeout(LONG), Ok(7));
        stop();
        assert_eq!(told.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
        while !topic.groups().is_empty() {
            thread::yield_now();
        }
        assert!(!subscription.leave(), "it has left");
    }
}

// nobody has come yet, so nothing runs that could look.
#[test]
fn who_waits_for_a_first_member_ends_with_a_stop() {
    let worker = Worker::on_your_thread();
    let (tell, told) = mpsc::channel();
    let running = worker.clone();
    let thread = thread::spawn(move || {
        running.run();
        tell.send(()).unwrap();
    });
    worker.stop();
    assert_eq!(told.recv_timeout(LONG), Ok(()));
    thread.join().unwrap();
    for (run, stop, _) in stoppables() {
        stop();
        let broker = Broker::new();
        let group = topic(&broker, 1, 8).group("g", GroupConfig::earliest()).unwrap();
        let refused = group.member("late").run(run).subscribe(|_| ()).unwrap_err();
        assert!(matches!(refused, SubscribeError::NotPlaced { .. }), "{refused}");
        assert!(group.stats().members.is_empty());
    }
}
