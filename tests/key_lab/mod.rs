//! Records with keys, for tests of groups that keep the order of each key.
#![allow(dead_code, reason = "each test that includes this uses a part of it")]

use crate::lab::Lab;
use ringlog::{Group, GroupConfig, GroupStats, Order, Outcome, Record, Topic, TopicConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A record with a key, or without.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) key: Option<u32>,
}

/// One for each letter; a point has no key.
pub(crate) fn jobs(keys: &str) -> Vec<Job> {
    keys.chars().map(|key| Job { key: Some(key.into()).filter(|key| *key != u32::from('.')) }).collect()
}

pub(crate) fn keys(capacity: usize) -> TopicConfig<Job> {
    let config = TopicConfig::new().capacity(capacity).block(Some(Duration::ZERO));
    config.optional_key(|job: &Job| job.key.as_ref())
}

pub(crate) fn topic(lab: &Lab, capacity: usize) -> Topic<Job> {
    lab.broker.create_topic("jobs", keys(capacity)).unwrap()
}

pub(crate) fn by_key() -> GroupConfig<Job> {
    GroupConfig::earliest().order(Order::Key)
}

/// Key, offset, attempt.
pub(crate) type Seen = (char, u64, u32);
pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

pub(crate) fn seen(record: &Record<'_, Job>) -> Seen {
    (record.key.and_then(char::from_u32).unwrap_or('.'), record.offset(), record.attempt())
}

pub(crate) fn join(
    lab: &Lab,
    group: &Group<Job>,
    names: &[&str],
    answer: impl Fn(&Record<'_, Job>) -> Outcome + Clone + Send + 'static,
) -> Log {
    let log = Log::default();
    for name in names {
        let (log, answer) = (log.clone(), answer.clone());
        let handler = move |record: &Record<'_, Job>| {
            log.lock().unwrap().push(seen(record));
            answer(record)
        };
        group.member(name).run(&lab.manual).subscribe(handler).unwrap();
    }
    log
}

pub(crate) fn of(log: &Log, key: char) -> Vec<(u64, u32)> {
    log.lock().unwrap().iter().filter(|seen| seen.0 == key).map(|(_, offset, attempt)| (*offset, *attempt)).collect()
}

pub(crate) fn publish(topic: &Topic<Job>, keys: &str) {
    for job in jobs(keys) {
        topic.publish_to(0, job).unwrap();
    }
}

pub(crate) fn balanced(group: &Group<Job>) -> GroupStats {
    let stats = group.stats();
    assert!(stats.balances(), "{stats:#?}");
    stats
}

pub(crate) fn letters(group: &Group<Job>) -> Vec<(u64, String)> {
    group.letters().iter().map(|letter| (letter.offset(), letter.kind().to_string())).collect()
}

/// A number that looks random.
pub(crate) fn mix(one: u64, other: u64) -> u64 {
    let mut x = one.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}
