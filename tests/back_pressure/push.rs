//! By handlers.

use super::{ALL, Numbered, PATIENCE, Seen, check, check_limits, produce, take_a_while, times, topic};
use ringlog::{Batch, Broker, Group, GroupConfig, Topic};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Records that a member handles between two pauses.
const BATCH: usize = 10;

/// Two members of a group; when they have had everything they say what.
fn group(topic: &Topic<Numbered>, name: &str, pause: Duration, all: u32) -> (Group<Numbered>, mpsc::Receiver<Seen>) {
    let group = topic.group(name, GroupConfig::latest()).unwrap();
    let (tell, told) = mpsc::channel();
    let seen = Arc::new(Mutex::new(Some(Seen::default())));
    for nth in 1..=2 {
        let (seen, tell) = (seen.clone(), tell.clone());
        let mut busy = 0;
        let handler = move |batch: &Batch<'_, Numbered>| {
            let mut now = seen.lock().unwrap();
            if let Some(seen) = &mut *now {
                batch.iter().for_each(|record| seen.note(&record));
            }
            if now.as_ref().is_some_and(|seen| seen.received >= all) {
                tell.send(now.take().unwrap()).unwrap();
            }
            drop(now);
            busy += batch.len();
            if busy >= BATCH {
                busy = 0;
                take_a_while(pause);
            }
        };
        group.member(&format!("{name}-{nth}")).subscribe_batch(handler).unwrap();
    }
    (group, told)
}

fn load(times: u32) {
    let broker = Broker::new();
    let topic = topic(&broker);
    let all = ALL * times;
    let (billing, billed) = group(&topic, "billing", Duration::ZERO, all);
    let (email, mailed) = group(&topic, "email", Duration::from_micros(200), all);
    assert_eq!(email.assignment().iter().map(|of| of.partitions.clone()).collect::<Vec<_>>(), [[0, 2], [1, 3]]);
    produce(&topic, times);
    check("billing", &billed, times);
    check("email", &mailed, times);
    check_limits(&topic);
    broker.drain(PATIENCE).unwrap();
    for group in [billing, email] {
        let stats = group.stats();
        assert_eq!((stats.acked(), stats.balances()), (u64::from(all), true), "{stats:?}");
    }
}

// B-V11, B-18, B-28
#[test]
fn every_key_is_in_order_without_a_gap_and_the_backlog_touches_the_capacity_and_never_passes_it() {
    load(1);
}

// B-V11
#[test]
fn the_same_at_many_times_the_size() {
    load(times());
}
