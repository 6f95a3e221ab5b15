//! Any settings and any names: each is taken or refused with a reason, and nothing panics or hangs.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringlog::{Broker, GroupConfig, Retain, Retry, TopicConfig};
use std::time::Duration;

#[derive(Arbitrary, Debug)]
struct Settings<'a> {
    topic: &'a str,
    group: &'a str,
    partitions: u32,
    capacity: usize,
    retain: u8,
    block: Option<Duration>,
    attempts: u32,
    backoff: Duration,
    factor: f64,
    longest: Duration,
    letters: usize,
    start: u64,
}

fuzz_target!(|settings: Settings<'_>| {
    let Settings { topic, group, partitions, capacity, .. } = settings;
    // Memory for what is legal is the tester's, not the question here.
    let huge = u64::from(partitions).saturating_mul(capacity as u64) > 1 << 16;
    if huge && (1..=4_096).contains(&partitions) && (1..=1 << 30).contains(&capacity) {
        return;
    }
    let retain = [Retain::Recent, Retain::Backlog, Retain::Unacked][usize::from(settings.retain % 3)];
    let config =
        TopicConfig::<u64>::new().partitions(partitions).capacity(capacity).retain(retain).block(settings.block);
    let broker = Broker::new();
    let created = match broker.create_topic(topic, config) {
        Ok(created) => created,
        Err(refused) => return assert!(!refused.to_string().is_empty()),
    };
    assert!((1..=4_096).contains(&partitions) && (1..=1 << 30).contains(&capacity) && !topic.is_empty());
    let retry = Retry::exponential(settings.attempts).first(settings.backoff).factor(settings.factor);
    let config = GroupConfig::at(settings.start).retry(retry.max(settings.longest)).letters(settings.letters);
    match created.group(group, config) {
        Ok(made) => assert_eq!((made.lag(), settings.attempts > 0), (0, true)),
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
});
