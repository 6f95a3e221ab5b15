//! Full partitions: who waits, who gives up, what is shed, what a late group finds.
#![forbid(unsafe_code)]

use super::{Event, LONG, cases, config, done, event, topic};
use ringlog::testing::Recorder;
use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, PublishError, Retain};
use std::sync::Arc;
use std::time::{Duration, Instant};

// A-T3, A-23, A-47
#[test]
fn a_full_partition_makes_wait_then_gives_up_then_goes_on_when_a_group_has_read() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let limit = Duration::from_micros(if times == 1 { 50_000 } else { 200 });
        let config = config(1, slots).retain(Retain::Backlog).block(Some(limit));
        let topic = broker.create_topic("orders", config).unwrap();
        (0..slots).for_each(|n| _ = topic.publish(event("alice:paid", n)).unwrap());
        let mut waits = 0;
        for _ in 0..times {
            let called = Instant::now();
            match topic.publish(event("bob:paid", slots)) {
                Err(PublishError::Full { full, .. }) => {
                    let took = called.elapsed();
                    assert!(took >= limit && full.waited <= took && full.limiting.is_none(), "{took:?}, {full:?}");
                    assert_eq!((&*full.topic, full.partition, full.capacity), ("orders", 0, slots as u64));
                    // One that loses its core for as long as the limit, before it looks, finds that its time is up.
                    waits += u64::from(!full.waited.is_zero());
                }
                other => panic!("{other:?}"),
            }
        }
        let counts = topic.counts();
        assert!(waits > 0, "nobody waited");
        assert_eq!((counts.blocked, counts.rejected, topic.end(0)), (waits, times as u64, Some(slots as u64)));
        let group = topic.group("billing", GroupConfig::earliest()).unwrap();
        let seen = Recorder::new();
        group.subscribe("m", seen.handler()).unwrap();
        seen.wait_for(slots, LONG).unwrap();
        done(&broker, &[&group]);
        for n in 0..times {
            topic.publish_within(event("bob:paid", n), LONG).unwrap_or_else(|error| panic!("{error}"));
            seen.wait_for(slots + n + 1, LONG).unwrap();
            done(&broker, &[&group]);
        }
        assert!(seen.offsets(0).into_iter().eq(0..(slots + times) as u64));
    }
}

// A-T13, A-21
#[test]
fn a_late_group_reads_the_whole_backlog_that_is_kept() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = broker.create_topic("orders", config(2, slots).retain(Retain::Backlog)).unwrap();
        let of_each = slots.min(3 * times);
        for n in 0..of_each {
            for text in ["alice:paid", "bob:paid"] {
                topic.publish(event(text, n)).unwrap();
            }
        }
        for late in 0..3 {
            let group = topic.group(&format!("late{late}"), GroupConfig::earliest()).unwrap();
            let seen = Recorder::new();
            group.subscribe("m", seen.handler()).unwrap();
            done(&broker, &[&group]);
            for partition in 0..2 {
                assert!(seen.offsets(partition).into_iter().eq(0..of_each as u64), "{slots} slots");
            }
        }
    }
}

// A-T14, A-46, A-55
#[test]
fn shedding_the_oldest_moves_a_slow_group_on_and_counts_what_it_skips() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = broker.create_topic("orders", config(1, slots).drop_oldest()).unwrap();
        let group = topic.group("slow", GroupConfig::earliest()).unwrap();
        let too_many = 3 * times;
        (0..slots + too_many).for_each(|n| _ = topic.publish(event("alice:paid", n)).unwrap());
        assert_eq!((group.stats().skipped(), group.lag()), (too_many as u64, slots as u64));
        let seen = Recorder::new();
        group.subscribe("m", seen.handler()).unwrap();
        done(&broker, &[&group]);
        assert!(seen.offsets(0).into_iter().eq(too_many as u64..(slots + too_many) as u64));
        assert_eq!(seen.seen()[0].lost_before, too_many as u64);
        assert_eq!(group.stats().skipped(), too_many as u64);
    }
}

// A-T15, A-51
#[test]
fn what_is_too_old_goes_and_no_more_than_that() {
    const AGE: Duration = Duration::from_secs(60);
    for (slots, times) in cases() {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("orders", config(1, slots).max_age(AGE)).unwrap();
        let old = slots.min(times).div_ceil(2);
        let young = slots.min(times) - old;
        (0..old).for_each(|n| _ = topic.publish(event("alice:paid", n)).unwrap());
        clock.advance(Duration::from_nanos(1));
        (0..young).for_each(|n| _ = topic.publish(event("bob:paid", n)).unwrap());
        clock.advance(AGE - Duration::from_nanos(1));
        assert_eq!(topic.len(0), Some((old + young) as u64), "exactly as old as allowed");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(topic.len(0), Some(young as u64));
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let seen = Recorder::<Event>::new();
        group.subscribe("m", seen.handler()).unwrap();
        seen.wait_for(young, LONG).unwrap();
        assert_eq!(topic.partition_stats(0).unwrap().expired, old as u64);
        assert!(seen.offsets(0).into_iter().eq(old as u64..(old + young) as u64));
        broker.close(None);
        assert!(group.stats().balances());
    }
}

// A-T5, A-2
#[test]
fn a_key_stays_on_its_partition_whoever_publishes_and_however_full_it_is() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 4, slots);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let seen = Recorder::new();
        group.subscribe("m", seen.handler()).unwrap();
        std::thread::scope(|scope| {
            for text in ["alice:paid", "bob:paid"] {
                let topic = topic.clone();
                scope.spawn(move || (0..50 * times).for_each(|n| _ = topic.publish(event(text, n)).unwrap()));
            }
        });
        done(&broker, &[&group]);
        assert_eq!([0, 1, 2, 3].map(|partition| seen.offsets(partition).len()), [50 * times, 0, 0, 50 * times]);
    }
}
