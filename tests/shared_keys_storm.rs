//! Order by key with members on threads that fail, panic, leave and come back: of each key one record at a time is in hand, by
//! offset; and while the cursors are moved the books stay right.

use ringlog::{Broker, Group, GroupConfig, Member, Order, Outcome, Record, Retry, SeekTo, Topic, TopicConfig};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(120);
const RECORDS: u64 = if cfg!(miri) { 60 } else { 6_000 };
const KEYS: u8 = 9;

/// A number that looks random, of two.
fn mix(one: u64, other: u64) -> u64 {
    let mut x = one.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// The key, of which 0 is none.
#[derive(Clone, Debug)]
struct Job(u8);

fn setting(capacity: usize, config: GroupConfig<Job>) -> (Broker, Topic<Job>, Group<Job>) {
    let broker = Broker::new();
    let topic = TopicConfig::new().partitions(2).capacity(capacity).block(None);
    let topic = topic.optional_key(|job: &Job| Some(&job.0).filter(|key| **key > 0));
    let topic = broker.create_topic("jobs", topic).unwrap();
    let group = topic.group("g", config.order(Order::Key)).unwrap();
    (broker, topic, group)
}

/// What is known of a key of a partition: whether a handler has it, and which record it had last.
#[derive(Debug, Default)]
struct Key {
    busy: AtomicBool,
    last: AtomicU64,
}

#[derive(Debug)]
struct Seen {
    keys: [Vec<Key>; 2],
    done: [Vec<AtomicU64>; 2],
    /// What should not have been.
    wrong: Mutex<Vec<String>>,
}

fn seen() -> Arc<Seen> {
    let keys = [0, 1].map(|_| (0..KEYS).map(|_| Key::default()).collect());
    let done = [0, 1].map(|_| (0..RECORDS).map(|_| AtomicU64::new(0)).collect());
    Arc::new(Seen { keys, done, wrong: Mutex::default() })
}

impl Seen {
    fn check(&self, record: &Record<'_, Job>, run: impl FnOnce() -> Outcome) -> Outcome {
        let key = &self.keys[record.partition() as usize][usize::from(record.0)];
        if record.0 == 0 {
            return run();
        }
        let mut wrong = Vec::new();
        if key.busy.swap(true, Ordering::SeqCst) {
            wrong.push(format!("two at once: {record:?}"));
        }
        // One more, as 0 is nothing.
        let last = key.last.swap(record.offset() + 1, Ordering::SeqCst);
        if last > record.offset() + 1 || (last == record.offset() + 1) != (record.attempt() > 1) {
            wrong.push(format!("{} after {last}, attempt {}", record.offset() + 1, record.attempt()));
        }
        self.wrong.lock().unwrap().extend(wrong);
        if mix(record.offset(), 5) % 16 == 0 {
            thread::yield_now();
        }
        let outcome = run();
        key.busy.store(false, Ordering::SeqCst);
        outcome
    }
}

fn join(group: &Group<Job>, name: &str, seen: &Arc<Seen>) -> Member<Job> {
    let seen = seen.clone();
    let handler = move |record: &Record<'_, Job>| {
        seen.check(record, || match mix(record.offset(), record.attempt().into()) % 20 {
            0 => Outcome::retry("by chance"),
            1 if record.offset() % 64 == 0 => Outcome::reject("by chance"),
            _ => {
                seen.done[record.partition() as usize][record.offset() as usize].fetch_add(1, Ordering::Relaxed);
                Outcome::Ack
            }
        })
    };
    group.member(name).subscribe(handler).unwrap()
}

fn publish(topic: &Topic<Job>) -> [thread::JoinHandle<()>; 2] {
    [0, 1].map(|partition| {
        let topic = topic.clone();
        let job = move |n| Job((mix(n, partition.into()) % u64::from(KEYS)) as u8);
        thread::spawn(move || (0..RECORDS).for_each(|n| topic.publish_to(partition, job(n)).map(drop).unwrap()))
    })
}

// B-E5, X14
#[test]
fn of_each_key_one_record_at_a_time_is_in_hand_in_order_and_each_is_done_once() {
    for capacity in [1, 3, 64, 1_024] {
        // Pauses only now and then, so that seldom so many wait that others are buried.
        let config = GroupConfig::earliest().retry(Retry::constant(4, Duration::from_micros(20))).letters(20_000);
        let (broker, topic, group) = setting(capacity, config);
        let seen = seen();
        let stays = join(&group, "stays", &seen);
        let publishers = publish(&topic);
        let over = Arc::new(AtomicBool::new(false));
        let churn = {
            let (group, seen, over) = (group.clone(), seen.clone(), over.clone());
            thread::spawn(move || {
                let mut turn = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    let member = join(&group, &format!("m{turn}"), &seen);
                    let more = join(&group, &format!("n{turn}"), &seen);
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
        assert_eq!(*seen.wrong.lock().unwrap(), Vec::<String>::new(), "capacity {capacity}");
        let stats = group.stats();
        assert!(stats.balances(), "{stats:#?}");
        assert_eq!((stats.lag(), stats.acked() + stats.dead(), stats.refused()), (0, 2 * RECORDS, 0));
        let mut dead: Vec<_> = group.letters().iter().map(|letter| (letter.partition(), letter.offset())).collect();
        dead.sort_unstable();
        for (partition, offsets) in (0..).zip(seen.done.iter()) {
            for (offset, times) in (0..).zip(offsets) {
                let buried = dead.binary_search(&(partition, offset)).is_ok();
                assert_eq!(times.load(Ordering::Relaxed), u64::from(!buried), "{partition}@{offset}");
            }
        }
        drop(stays);
    }
}

#[test]
fn keys_in_order_that_are_moved_about_account_for_every_record() {
    for capacity in [2, 64] {
        let config = GroupConfig::earliest().retry(Retry::constant(3, Duration::from_micros(50))).letters(20_000);
        let (broker, topic, group) = setting(capacity, config);
        let seen = seen();
        let members: Vec<_> = ["a", "b", "c"].map(|name| join(&group, name, &seen)).into();
        let publishers = publish(&topic);
        let mover = {
            let group = group.clone();
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
                }
            })
        };
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        mover.join().unwrap();
        broker.drain(LONG).unwrap();
        let stats = group.stats();
        assert!(stats.balances(), "{stats:#?}");
        assert_eq!(stats.lag(), 0);
        drop(members);
    }
}
