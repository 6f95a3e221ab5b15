//! A work queue with members on threads that fail, panic, leave and come back, while it is paused and moved: in the end every
//! record is accounted for, and without moves each was done once.

use ringlog::{
    Broker, Group, GroupConfig, Member, Order, Outcome, Record, Retain, Retry, SeekTo, Straggler, TopicConfig,
};
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

/// What is published: it counts when it is dropped.
struct Job(Arc<AtomicU64>);

impl Drop for Job {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Handlers that hang by chance, until somebody lets all of them go or there is nothing left to do.
#[derive(Clone, Default)]
struct Hangs {
    let_go: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    done: Arc<Mutex<std::collections::BTreeSet<(u32, u64)>>>,
}

impl Hangs {
    fn join(&self, group: &Group<Job>, name: &str) {
        let hangs = self.clone();
        let handler = move |record: &Record<'_, Job>| {
            let dice = mix(record.offset() ^ u64::from(record.partition()), record.attempt().into());
            if dice % 97 == 0 {
                let seen = hangs.let_go.load(Ordering::Relaxed);
                while hangs.let_go.load(Ordering::Relaxed) == seen && !hangs.over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            }
            if dice % 31 == 1 {
                return Outcome::retry("by chance");
            }
            hangs.done.lock().unwrap().insert((record.partition(), record.offset()));
            Outcome::Ack
        };
        // One that was put out and has not gone yet has its name still.
        let _taken = group.member(name).subscribe(handler);
    }
}

// B-E5, X9: whatever hangs, every record is done by somebody who said so, or buried; and nothing is kept
#[test]
fn members_that_hang_lose_their_record_and_nothing_else() {
    const JOBS: u64 = if cfg!(miri) { 40 } else { 1_500 };
    let lease = |config: GroupConfig<Job>| config.lease(Duration::from_millis(3));
    let bury = |config: GroupConfig<Job>| config.straggler(Straggler::Bury(Duration::from_millis(3)));
    let evict = |config: GroupConfig<Job>| config.straggler(Straggler::Evict(Duration::from_millis(3)));
    let rules: [fn(GroupConfig<Job>) -> GroupConfig<Job>; 3] = [lease, bury, evict];
    for (rule, capacity) in rules.into_iter().zip([64, 1_024, 3]) {
        let (broker, dropped, hangs) = (Broker::new(), Arc::new(AtomicU64::new(0)), Hangs::default());
        let topic = TopicConfig::new().partitions(2).capacity(capacity).block(None).retain(Retain::Unacked);
        let topic = broker.create_topic("jobs", topic).unwrap();
        let config = GroupConfig::earliest().order(Order::Shared).retry(Retry::constant(20, Duration::ZERO));
        let group = topic.group("g", rule(config).letters(10_000)).unwrap();
        let names = ["a", "b", "c"];
        names.iter().for_each(|name| hangs.join(&group, name));
        let publishers = [0, 1].map(|partition| {
            let (topic, dropped) = (topic.clone(), dropped.clone());
            thread::spawn(move || {
                (0..JOBS).for_each(|_| topic.publish_to(partition, Job(dropped.clone())).map(drop).unwrap());
            })
        });
        let mut ended = 0;
        while !publishers.iter().all(thread::JoinHandle::is_finished) || group.lag() > 0 {
            let stats = group.stats();
            let now = stats.leases_expired() + stats.lanes.iter().map(|lane| lane.stragglers_ended).sum::<u64>();
            if now > ended || stats.members.is_empty() {
                (ended, _) = (now, hangs.let_go.fetch_add(1, Ordering::Relaxed));
                names.iter().for_each(|name| hangs.join(&group, name));
            }
            // All may hang, with nothing done behind them: then nobody is a straggler.
            if stats.lanes.iter().all(|lane| lane.stragglers == 0) {
                hangs.let_go.fetch_add(1, Ordering::Relaxed);
            }
            thread::yield_now();
        }
        hangs.over.store(true, Ordering::Relaxed);
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        broker.drain(LONG).unwrap();
        let (stats, letters) = (group.stats(), group.letters());
        assert!(stats.balances(), "{stats:#?}");
        assert_eq!((stats.lag(), stats.acked() + stats.dead()), (0, 2 * JOBS));
        assert_eq!(letters.len() as u64, stats.dead());
        let done = hangs.done.lock().unwrap();
        let buried = |partition, offset| {
            letters.iter().any(|letter| (letter.partition(), letter.offset()) == (partition, offset))
        };
        for partition in 0..2 {
            assert!((0..JOBS).all(|offset| done.contains(&(partition, offset)) || buried(partition, offset)));
        }
        drop(done);
        // Handlers that hung return, and what they kept goes.
        group.delete();
        while dropped.load(Ordering::Relaxed) < 2 * JOBS {
            thread::yield_now();
        }
    }
}

#[test]
fn a_queue_that_is_deleted_at_work_acknowledges_nothing_from_then_on() {
    for capacity in [1, 64] {
        let (_broker, topic, group) = setting(capacity, GroupConfig::earliest());
        let done = done();
        let _members: Vec<_> = ["a", "b", "c"].map(|name| join(&group, name, &done)).into();
        let publishers = publish(&topic);
        while group.stats().acked() < RECORDS / 10 {
            thread::yield_now();
        }
        assert!(group.delete());
        let before = group.stats();
        assert!(before.balances(), "{before:#?}");
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        let after = group.stats();
        assert_eq!((after.acked(), after.dead(), after.retried()), (before.acked(), before.dead(), before.retried()));
        assert_eq!(topic.stats().iter().map(|partition| partition.end).sum::<u64>(), 2 * RECORDS);
    }
}
