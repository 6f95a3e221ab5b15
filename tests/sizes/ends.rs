//! Ends: closing beside publishers, members and those who wait.
#![forbid(unsafe_code)]

use super::{LONG, cases, event, topic, until};
use ringlog::testing::{Counter, Recorder};
use ringlog::{Broker, BrokerConfig, GroupConfig, PublishError, SystemClock, TopicConfig, Worker};
use std::sync::Arc;
use std::thread;

// A-T17, A-12, A-70
#[test]
fn what_was_stored_before_a_close_is_delivered_and_nothing_after_it() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 2, slots);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let seen = Recorder::new();
        group.subscribe("m", seen.handler()).unwrap();
        let publish = |text: &'static str| {
            let topic = topic.clone();
            thread::spawn(move || {
                let mut stored = 0;
                loop {
                    match topic.publish(event(text, stored)) {
                        Ok(_) => stored += 1,
                        Err(PublishError::Closed { value, .. }) => break assert_eq!(value, event(text, stored)),
                        Err(other) => panic!("{other}"),
                    }
                }
                stored
            })
        };
        let publishers = ["alice:paid", "bob:paid"].map(publish);
        seen.wait_for(4 * times, LONG).unwrap();
        let account = broker.close(None);
        let stored: usize = publishers.into_iter().map(|publisher| publisher.join().unwrap()).sum();
        assert_eq!((account.acked(), account.left(), account.stopped), (stored as u64, 0, true));
        assert_eq!(seen.len(), stored);
        assert!(matches!(topic.publish(event("bob:paid", 0)), Err(PublishError::Closed { .. })));
        assert!(account.groups.iter().all(ringlog::GroupStats::balances));
    }
}

// A-T21, A-48
#[test]
fn closing_while_producers_wait_gives_each_its_value_back_and_stores_nothing() {
    const THREADS: usize = 4;
    for (slots, times) in cases() {
        for _ in 0..if slots > 4 { 1 } else { times.min(30) } {
            let broker = Broker::new();
            let topic = topic(&broker, 1, slots);
            let group = topic.group("nobody", GroupConfig::earliest()).unwrap();
            (0..slots).for_each(|n| _ = topic.publish(event("alice:paid", n)).unwrap());
            let wait = |n| {
                let topic = topic.clone();
                thread::spawn(move || match topic.publish(event("bob:paid", n)) {
                    Err(PublishError::Closed { value, .. }) => value.n,
                    other => panic!("{other:?}"),
                })
            };
            let waiting: Vec<_> = (0..THREADS).map(wait).collect();
            until(|| topic.counts().blocked == THREADS as u64);
            let account = broker.close(None); // nobody reads, so nobody is waited for
            let back: Vec<usize> = waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect();
            assert_eq!(back, (0..THREADS).collect::<Vec<_>>());
            assert_eq!((topic.end(0), account.left(), group.lag()), (Some(slots as u64), slots as u64, slots as u64));
        }
    }
}

/// 2,000 unless `RINGLOG_REPEAT` says otherwise.
fn repetitions() -> usize {
    std::env::var("RINGLOG_REPEAT").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

// C-20, C-33
#[test]
fn a_close_right_behind_the_last_publish_loses_nothing() {
    // What a worker serves is timed by one clock.
    let (worker, clock) = (Worker::spawn().unwrap(), Arc::new(SystemClock::new()));
    for round in 0..repetitions() {
        let slots = [1, 2, 3, 4, 64][round % 5];
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::new().partitions(1 + round as u32 % 2).capacity(slots).block(None);
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let counter = Counter::new();
        let member = group.member("m");
        let member = if round % 3 == 0 { member.run(&worker) } else { member };
        member.subscribe(counter.handler()).unwrap();
        let all = round % 7;
        (0..all).for_each(|n| _ = topic.publish(n).unwrap());
        let account = broker.close(None);
        assert!(account.stopped && account.drained && account.groups[0].balances(), "{account}");
        assert_eq!((account.acked(), account.left(), counter.count()), (all as u64, 0, all), "round {round}");
    }
}
