//! A work queue with members on threads that fail, panic, leave and come back, while it is paused and moved: in the end every
//! record is accounted for, and without moves each was done once.

use ringlog::{Broker, Group, GroupConfig, Member, Order, Outcome, Record, Retry, SeekTo, TopicConfig};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);
const RECORDS: u64 = if cfg!(miri) { 60 } else { 6_000 };

/// A number that looks random, of two.
fn mix(one: u64, other: u64) -> u64 {
    let mut x = one.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

fn setting(capacity: usize, config: GroupConfig<u64>) -> (Broker, ringlog::Topic<u64>, Group<u64>) {
    let broker = Broker::new();
    let topic = TopicConfig::new().partitions(2).capacity(capacity).block(None);
    let topic = broker.create_topic("jobs", topic).unwrap();
    let group = topic.group("g", config.order(Order::Shared)).unwrap();
    (broker, topic, group)
}

/// How often each record of each partition was done.
type Done = Arc<[Vec<AtomicU64>; 2]>;

fn done() -> Done {
    Arc::new([0, 1].map(|_| (0..RECORDS).map(|_| AtomicU64::new(0)).collect()))
}

fn join(group: &Group<u64>, name: &str, done: &Done) -> Member<u64> {
    let done = done.clone();
    let handler = move |record: &Record<'_, u64>| match mix(record.offset(), record.attempt().into()) % 20 {
        0 => Outcome::retry("by chance"),
        1 if record.offset() % 64 == 0 => Outcome::reject("by chance"),
        _ => {
            done[record.partition() as usize][record.offset() as usize].fetch_add(1, Ordering::Relaxed);
            Outcome::Ack
        }
    };
    group.member(name).subscribe(handler).unwrap()
}

fn publish(topic: &ringlog::Topic<u64>) -> [thread::JoinHandle<()>; 2] {
    [0, 1].map(|partition| {
        let topic = topic.clone();
        thread::spawn(move || (0..RECORDS).for_each(|n| topic.publish_to(partition, n).map(drop).unwrap()))
    })
}

// B-E5
#[test]
fn members_that_fail_leave_and_come_back_do_every_record_once() {
    for capacity in [1, 3, 64, 1_024] {
        let config = GroupConfig::earliest().retry(Retry::constant(4, Duration::ZERO)).letters(10_000);
        let (broker, topic, group) = setting(capacity, config);
        let done = done();
        let stays = join(&group, "stays", &done);
        let publishers = publish(&topic);
        let over = Arc::new(AtomicBool::new(false));
        let churn = {
            let (group, done, over) = (group.clone(), done.clone(), over.clone());
            thread::spawn(move || {
                let mut turn = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    let member = join(&group, &format!("m{turn}"), &done);
                    let more = join(&group, &format!("n{turn}"), &done);
                    (0..mix(turn, 7) % 500).for_each(|_| thread::yield_now());
                    group.pause();
                    group.resume();
                    member.leave();
                    more.leave();
                    turn += 1;
                }
            })
        };
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        over.store(true, Ordering::Relaxed);
        churn.join().unwrap();
        broker.drain(LONG).unwrap();
        let stats = group.stats();
        assert!(stats.balances(), "{stats:#?}");
        assert_eq!((stats.lag(), stats.acked() + stats.dead(), stats.refused()), (0, 2 * RECORDS, 0));
        let mut dead: Vec<_> = group.letters().iter().map(|letter| (letter.partition(), letter.offset())).collect();
        dead.sort_unstable();
        for (partition, offsets) in (0..).zip(done.iter()) {
            for (offset, times) in (0..).zip(offsets) {
                let buried = dead.binary_search(&(partition, offset)).is_ok();
                assert_eq!(times.load(Ordering::Relaxed), u64::from(!buried), "{partition}@{offset}");
            }
        }
        drop(stays);
    }
}

#[test]
fn a_queue_that_is_moved_about_accounts_for_every_record() {
    for capacity in [2, 64] {
        let config = GroupConfig::earliest().retry(Retry::constant(3, Duration::from_micros(50))).letters(10_000);
        let (broker, topic, group) = setting(capacity, config);
        let done = done();
        let members: Vec<_> = ["a", "b", "c"].map(|name| join(&group, name, &done)).into();
        let publishers = publish(&topic);
        let turns = Arc::new(Mutex::new(0_u64));
        let mover = {
            let (group, turns) = (group.clone(), turns.clone());
            thread::spawn(move || {
                for turn in 0..300 {
                    let partition = (turn % 2) as u32;
                    let at = group.stats_of(partition).unwrap().committed;
                    let to = match mix(turn, 3) % 5 {
                        0 => SeekTo::Earliest,
                        1 => SeekTo::Latest,
                        2 => SeekTo::Offset(at + 1),
                        3 => SeekTo::Offset(at.saturating_sub(3)),
                        _ => SeekTo::Offset(at),
                    };
                    group.seek(partition, to).unwrap();
                    (0..mix(turn, 9) % 40).for_each(|_| thread::yield_now());
                    *turns.lock().unwrap() += 1;
                }
            })
        };
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        mover.join().unwrap();
        broker.drain(LONG).unwrap();
        let stats = group.stats();
        assert!(stats.balances(), "{stats:#?}");
        assert_eq!((stats.lag(), *turns.lock().unwrap()), (0, 300));
        drop(members);
    }
}

#[test]
fn a_commit_from_outside_that_is_refused_leaves_nothing_behind() {
    let broker = Broker::new();
    let topic = broker.create_topic("jobs", TopicConfig::<u64>::new().capacity(1).block(Some(LONG))).unwrap();
    let group = topic.group("g", GroupConfig::earliest().order(Order::Shared)).unwrap();
    let _members: Vec<_> = ["a", "b"].map(|name| group.subscribe(name, |_: &Record<'_, u64>| ()).unwrap()).into();
    let over = Arc::new(AtomicBool::new(false));
    let outside = {
        let (group, over) = (group.clone(), over.clone());
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                assert!(group.commit(0, u64::MAX / 2, 0).is_err());
                (0..50).for_each(|_| thread::yield_now());
            }
        })
    };
    const ROUNDS: u64 = 2_000;
    // Each needs the room of the one before it.
    for value in 0..ROUNDS {
        topic.publish(value).unwrap();
    }
    broker.drain(LONG).unwrap();
    over.store(true, Ordering::Relaxed);
    outside.join().unwrap();
    assert_eq!((group.stats().acked(), group.stats().balances()), (ROUNDS, true));
}
