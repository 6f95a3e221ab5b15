//! What comes while a member in a pool is at work, behind what it knows of already.
#![forbid(unsafe_code)]

use ringlog::{Broker, GroupConfig, Order, Outcome, Pool, PoolConfig, Record, Retry, Topic, TopicConfig};
use std::sync::mpsc;
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
