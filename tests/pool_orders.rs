//! Groups whose records are shared out one by one, in any order or by key, and groups with leases, with members in a pool.
#![forbid(unsafe_code)]

mod key_lab;
mod lab;

use key_lab::{Job, mix};
use lab::balanced;
use ringlog::{
    Broker, BrokerConfig, Group, GroupConfig, ManualClock, Order, Outcome, Pool, PoolConfig, Record, Retry, Topic,
    TopicConfig,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// Between two looks of who stands by in a pool.
const TICK: Duration = Duration::from_millis(5);
/// Longer than any number of ticks that a test takes.
const LEASE: Duration = Duration::from_secs(24 * 3_600);
const CAPACITIES: [usize; 5] = [1, 2, 3, 4, 64];
const EACH: u64 = 120;

fn pool(threads: usize) -> Pool {
    Pool::with(PoolConfig::new().threads(threads)).unwrap()
}

// B-E5, C-30
#[test]
fn in_a_pool_members_share_a_partition_and_each_record_is_done_once() {
    for (threads, capacity) in [1, 2].into_iter().flat_map(|threads| CAPACITIES.map(|capacity| (threads, capacity))) {
        let (broker, pool) = (Broker::new(), pool(threads));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().partitions(2).capacity(capacity)).unwrap();
        let config = GroupConfig::earliest().order(Order::Shared).retry(Retry::constant(3, Duration::ZERO));
        let group = topic.group("g", config).unwrap();
        let done = Arc::new(Mutex::new(HashMap::new()));
        for name in ["a", "b", "c"] {
            let done = done.clone();
            let handler = move |record: &Record<'_, u64>| {
                if record.attempt() == 1 && mix(record.offset(), capacity as u64) % 5 == 0 {
                    return Outcome::retry("by chance");
                }
                *done.lock().unwrap().entry((record.partition(), **record)).or_insert(0) += 1;
                Outcome::Ack
            };
            group.member(name).run(&pool).subscribe(handler).unwrap();
        }
        thread::scope(|scope| {
            for partition in 0..2 {
                let topic = &topic;
                scope.spawn(move || (0..EACH).for_each(|n| _ = topic.publish_to(partition, n).unwrap()));
            }
        });
        broker.drain(LONG).unwrap();
        let done = done.lock().unwrap();
        assert_eq!(done.len() as u64, 2 * EACH);
        assert!(done.values().all(|times| *times == 1), "{done:?}");
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.dead(), stats.lag()), (2 * EACH, 0, 0));
    }
}

// B-18, C-30
#[test]
fn in_a_pool_the_records_of_a_key_are_done_in_order_one_at_a_time() {
    const KEYS: u64 = 5;
    for (threads, capacity) in [1, 3].into_iter().flat_map(|threads| CAPACITIES.map(|capacity| (threads, capacity))) {
        let (broker, pool) = (Broker::new(), pool(threads));
        let topic: Topic<(u64, u64)> =
            broker.create_topic("t", TopicConfig::new().capacity(capacity).key(|job: &(u64, u64)| &job.0)).unwrap();
        let config = GroupConfig::earliest().order(Order::Key).retry(Retry::constant(3, Duration::ZERO));
        let group = topic.group("g", config).unwrap();
        // Of each key: what was done, and whether somebody is at it.
        let keys = Arc::new(Mutex::new(vec![(Vec::new(), false); KEYS as usize]));
        for name in ["a", "b", "c"] {
            let keys = keys.clone();
            let handler = move |record: &Record<'_, (u64, u64)>| {
                let (key, number) = **record;
                let taken = std::mem::replace(&mut keys.lock().unwrap()[key as usize].1, true);
                thread::yield_now();
                let mut keys = keys.lock().unwrap();
                let of_key = &mut keys[key as usize];
                of_key.1 = false;
                assert!(!taken, "two at once");
                if record.attempt() == 1 && mix(number, key) % 4 == 0 {
                    return Outcome::retry("by chance");
                }
                of_key.0.push(number);
                Outcome::Ack
            };
            group.member(name).run(&pool).subscribe(handler).unwrap();
        }
        (0..EACH).for_each(|n| _ = topic.publish((mix(n, 3) % KEYS, n)).unwrap());
        broker.drain(LONG).unwrap();
        let keys = keys.lock().unwrap();
        assert!(keys.iter().all(|(done, _)| done.is_sorted_by(|one, next| one < next)), "{keys:?}");
        let done: u64 = keys.iter().map(|(done, _)| done.len() as u64).sum();
        let stats = group.stats();
        assert!(stats.balances(), "{stats:#?}");
        // Where too many wait behind one that has failed, it is the last of them that goes.
        assert_eq!((stats.acked(), stats.dead(), stats.lag()), (done, EACH - done, 0));
        assert!(done == EACH || group.letters().iter().all(|letter| letter.attempts() == 0), "{stats:#?}");
    }
}

/// What somebody saw: the member, the offset, the attempt.
type Seen = (&'static str, u64, u32);

/// A pool of one thread, and a group in it of two members that see offset 0 for the first time only until they are let go.
struct Setting<T> {
    clock: Arc<ManualClock>,
    broker: Broker,
    pool: Pool,
    topic: Topic<T>,
    group: Group<T>,
    seen: mpsc::Receiver<Seen>,
    go: mpsc::Sender<()>,
    told: Arc<Mutex<Vec<String>>>,
}

impl<T: Send + Sync + 'static> Setting<T> {
    fn new(topic: TopicConfig<T>, config: GroupConfig<T>) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let (pool, told) = (pool(1), Arc::new(Mutex::new(Vec::new())));
        let noted = told.clone();
        let config = config.on_expired(move |expired| noted.lock().unwrap().push(expired.to_string()));
        let topic = broker.create_topic("orders", topic).unwrap();
        let group = topic.group("g", config).unwrap();
        let ((tell, seen), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
        let gate = Arc::new(Mutex::new(gate));
        for name in ["a", "b"] {
            let (tell, gate) = (tell.clone(), gate.clone());
            let handler = move |record: &Record<'_, T>| {
                tell.send((name, record.offset(), record.attempt())).unwrap();
                if (record.partition(), record.offset(), record.attempt()) == (0, 0, 1) {
                    let _ = gate.lock().unwrap().recv();
                }
            };
            group.member(name).run(&pool).subscribe(handler).unwrap();
        }
        Setting { clock, broker, pool, topic, group, seen, go, told }
    }

    /// The next that is seen, while time passes.
    fn next(&self) -> Seen {
        loop {
            if let Ok(seen) = self.seen.try_recv() {
                return seen;
            }
            self.clock.advance(TICK);
            thread::yield_now();
        }
    }

    /// Time passes until so many have not been done.
    fn lags(&self, lag: u64) {
        while self.group.lag() != lag {
            self.clock.advance(TICK);
            thread::yield_now();
        }
    }

    /// acked, dead, refused, leases that were over
    fn counts(&self) -> (u64, u64, u64, u64) {
        let stats = self.group.stats();
        assert!(stats.balances(), "{stats:#?}");
        (stats.acked(), stats.dead(), stats.refused(), stats.leases_expired())
    }

    /// Who hangs is let go, and what he makes of his record is refused.
    fn goes_on(&self) {
        self.go.send(()).unwrap();
        while self.counts().2 == 0 {
            thread::yield_now();
        }
    }
}

fn leased<T>() -> GroupConfig<T> {
    GroupConfig::earliest().lease(LEASE).retry(Retry::constant(3, Duration::ZERO))
}

// B-E5, C-30: its member is left behind, the others of its pool are not.
#[test]
fn a_handler_that_hangs_in_a_pool_holds_up_only_its_record() {
    for capacity in [8, 64] {
        let setting = Setting::new(TopicConfig::new().capacity(capacity), GroupConfig::earliest().order(Order::Shared));
        setting.topic.publish(0).unwrap();
        let (stuck, ..) = setting.next();
        (1..8).for_each(|n| _ = setting.topic.publish(n).unwrap());
        for offset in 1..8 {
            let (member, at, attempt) = setting.next();
            assert_eq!((at, attempt), (offset, 1));
            assert_ne!(member, stuck);
        }
        setting.lags(1);
        assert_eq!(setting.counts(), (7, 0, 0, 0));
        setting.go.send(()).unwrap();
        setting.broker.drain(LONG).unwrap();
        assert_eq!(setting.counts(), (8, 0, 0, 0));
        assert!(setting.pool.threads() > 1);
    }
}

// B-E5, X9, X36
#[test]
fn what_hangs_in_a_pool_longer_than_its_lease_is_done_by_another_member_and_then_refused() {
    for order in [Order::Shared, Order::Key] {
        let topic = TopicConfig::new().capacity(16).optional_key(|job: &Job| job.key.as_ref());
        let setting = Setting::new(topic, leased().order(order));
        setting.topic.publish(Job { key: Some(7) }).unwrap();
        let (stuck, ..) = setting.next();
        (1..8).for_each(|n| _ = setting.topic.publish(Job { key: Some(7 + n % 2) }).unwrap());
        // In order of the keys, the other one is free.
        let free: Vec<u64> = (1..8).filter(|n| order == Order::Shared || n % 2 == 1).collect();
        for offset in &free {
            assert_eq!(setting.next().1, *offset);
        }
        setting.lags(8 - free.len() as u64);
        setting.clock.advance(LEASE);
        let rest = (0..8).filter(|offset| !free.contains(offset));
        for offset in rest {
            let (member, at, attempt) = setting.next();
            assert_eq!((at, attempt), (offset, if offset == 0 { 2 } else { 1 }));
            assert_ne!(member, stuck);
        }
        setting.lags(0);
        assert_eq!(setting.counts(), (8, 0, 0, 1));
        setting.goes_on();
        assert_eq!(setting.counts(), (8, 0, 1, 1));
        assert_eq!(setting.told.lock().unwrap().len(), 1);
        setting.topic.publish(Job { key: None }).unwrap();
        setting.lags(0);
        assert_eq!(setting.counts(), (9, 0, 1, 1));
    }
}

// B-29, X9, X36
#[test]
fn the_partitions_of_who_hangs_in_a_pool_go_to_another_member_there_and_come_back() {
    for capacity in [1, 2, 16] {
        let setting = Setting::new(TopicConfig::new().partitions(4).capacity(capacity), leased());
        let deal = || setting.group.assignment().into_iter().map(|of| of.partitions).collect::<Vec<_>>();
        while deal() != [[0, 2], [1, 3]] {
            thread::yield_now(); // each has its own in hand
        }
        setting.topic.publish_to(0, 0).unwrap();
        assert_eq!(setting.next(), ("a", 0, 1));
        (1..4).for_each(|partition| _ = setting.topic.publish_to(partition, 0).unwrap());
        for _ in [1, 3] {
            assert_eq!(setting.next(), ("b", 0, 1));
        }
        setting.lags(2);
        assert_eq!(setting.counts(), (2, 0, 0, 0));
        setting.clock.advance(LEASE);
        let mut taken = [setting.next(), setting.next()];
        taken.sort_unstable();
        assert_eq!(taken, [("b", 0, 1), ("b", 0, 2)]);
        setting.lags(0);
        assert_eq!(deal(), [vec![], vec![0, 1, 2, 3]]);
        assert_eq!(setting.told.lock().unwrap().len(), 1);
        setting.goes_on();
        while deal() != [[0, 2], [1, 3]] {
            setting.clock.advance(TICK);
            thread::yield_now();
        }
        assert_eq!(setting.counts(), (4, 0, 1, 1));
        (0..4).for_each(|partition| _ = setting.topic.publish_to(partition, 1).unwrap());
        setting.lags(0);
        assert_eq!(setting.counts(), (8, 0, 1, 1));
    }
}
