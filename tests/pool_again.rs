//! What comes while a member in a pool is at work, behind what it knows of already.
#![forbid(unsafe_code)]

use ringlog::{
    Broker, BrokerConfig, GroupConfig, ManualClock, Order, Outcome, Pick, Pool, PoolConfig, Record, Retry, Topic,
    TopicConfig,
};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const ORDERS: [Order; 2] = [Order::Partition, Order::Shared];

fn setting(order: Order) -> (Broker, Pool, Topic<u64>, ringlog::Group<u64>) {
    let (broker, pool) = (Broker::new(), Pool::with(PoolConfig::new().threads(1)).unwrap());
    let topic = broker.create_topic("t", TopicConfig::new().capacity(1_024)).unwrap();
    let config = GroupConfig::earliest().order(order).retry(Retry::constant(3, Duration::ZERO));
    let group = topic.group("g", config).unwrap();
    (broker, pool, topic, group)
}

/// The last thing seen of `all`.
fn last(seen: &mpsc::Receiver<u64>, all: u64) -> Option<u64> {
    let mut last = None;
    for _ in 0..all {
        last = seen.recv_timeout(LONG).ok();
    }
    last
}

// C-17, C-30
#[test]
fn in_a_pool_what_is_published_while_a_record_fails_is_handed_over_behind_it() {
    for order in ORDERS {
        let (broker, pool, topic, group) = setting(order);
        let (tell, seen) = mpsc::channel();
        let own = topic.clone();
        let handler = move |record: &Record<'_, u64>| {
            if record.attempt() == 1 && **record == 0 {
                own.publish(1).unwrap();
                return Outcome::retry("once more");
            }
            tell.send(**record).unwrap();
            Outcome::Ack
        };
        group.member("m").run(&pool).subscribe(handler).unwrap();
        topic.publish(0).unwrap();
        assert_eq!(last(&seen, 2), Some(1));
        assert_eq!(broker.close(Some(LONG)).acked(), 2);
    }
}

// C-30
#[test]
fn in_a_pool_what_is_published_near_the_end_of_a_turn_is_handed_over_in_the_next() {
    for (order, before) in ORDERS.into_iter().flat_map(|order| (0..70).map(move |before| (order, before))) {
        let (broker, pool, topic, group) = setting(order);
        let (tell, seen) = mpsc::channel();
        let own = topic.clone();
        let all = before + 257;
        let handler = move |record: &Record<'_, u64>| {
            tell.send(**record).unwrap();
            if **record == before + 254 {
                own.publish(all).unwrap();
            }
        };
        // A first turn, so that the next one ends anywhere on a page.
        (0..before).for_each(|n| _ = topic.publish(n).unwrap());
        group.member("m").run(&pool).subscribe(handler).unwrap();
        last(&seen, before);
        topic.publish_batch(before..all).unwrap();
        assert_eq!(last(&seen, 258), Some(all), "behind {before}");
        assert_eq!(broker.close(Some(LONG)).acked(), all + 1);
    }
}

/// A pool of one thread on a clock moved by hand, and what its one member is asked.
struct Timed {
    clock: Arc<ManualClock>,
    topic: Topic<u64>,
    group: ringlog::Group<u64>,
    seen: mpsc::Receiver<(u64, u32)>,
    _broker: Broker,
    pool: Pool,
}

impl Timed {
    /// The nth call for a value ends as `ends` says; what fails is tried again after a second.
    fn new(order: Order, ends: impl Fn(u64, u32) -> Outcome + Send + 'static) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(4).key(|n: &u64| n)).unwrap();
        let retry = Retry::constant(9, Duration::from_secs(1));
        let group =
            topic.group("g", GroupConfig::earliest().order(order).retry(retry).letters(9).bury_cloned()).unwrap();
        let (pool, (tell, seen)) = (Pool::with(PoolConfig::new().threads(1)).unwrap(), mpsc::channel());
        let mut calls = [0; 4];
        let handler = move |record: &Record<'_, u64>| {
            calls[**record as usize] += 1;
            tell.send((**record, calls[**record as usize])).unwrap();
            ends(**record, calls[**record as usize])
        };
        group.member("m").run(&pool).subscribe(handler).unwrap();
        Timed { clock, topic, group, seen, _broker: broker, pool }
    }

    /// Half a second, once all of the pool is asleep on what it knows.
    fn half_a_second(&self) {
        while self.clock.sleepers() < self.pool.threads() {
            thread::yield_now();
        }
        self.clock.advance(Duration::from_millis(500));
    }

    fn next(&self) -> (u64, u32) {
        self.seen.recv_timeout(LONG).unwrap_or_else(|_| panic!("nobody comes for it: {:?}", self.group.standing(0)))
    }
}

// C-17, C-30
#[test]
fn in_a_pool_the_time_of_one_failed_record_is_kept_when_another_one_s_comes_first() {
    for order in [Order::Partition, Order::Shared, Order::Key] {
        let first = |_, nth| if nth == 1 { Outcome::retry("not yet") } else { Outcome::Ack };
        let timed = Timed::new(order, first);
        timed.topic.publish(0).unwrap();
        assert_eq!(timed.next(), (0, 1));
        timed.half_a_second();
        timed.topic.publish(1).unwrap();
        if order == Order::Partition {
            timed.half_a_second();
            assert_eq!([timed.next(), timed.next()], [(0, 2), (1, 1)]);
            timed.half_a_second();
            timed.half_a_second();
        } else {
            assert_eq!(timed.next(), (1, 1));
            timed.half_a_second();
            assert_eq!(timed.next(), (0, 2));
            timed.half_a_second();
        }
        assert_eq!(timed.next(), (1, 2));
    }
}

// C-18, C-30
#[test]
fn in_a_pool_the_time_of_a_letter_that_was_sent_back_is_kept_when_a_record_s_comes_first() {
    for order in [Order::Shared, Order::Key] {
        let timed = Timed::new(order, |value, nth| match (value, nth) {
            (0, 1) => Outcome::reject("poison"),
            (0, 2) | (1, 1) => Outcome::retry("not yet"),
            _ => Outcome::Ack,
        });
        timed.topic.publish(0).unwrap();
        assert_eq!(timed.next(), (0, 1));
        while timed.group.letters().is_empty() {
            thread::yield_now();
        }
        timed.topic.publish(1).unwrap();
        assert_eq!(timed.next(), (1, 1));
        timed.half_a_second();
        assert_eq!(timed.group.redrive(Pick::all()).unwrap().queued, 1);
        assert_eq!(timed.next(), (0, 2));
        timed.half_a_second();
        assert_eq!(timed.next(), (1, 2));
        timed.half_a_second();
        assert_eq!(timed.next(), (0, 3));
    }
}
