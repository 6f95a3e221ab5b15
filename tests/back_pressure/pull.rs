//! By polling.

use super::{ALL, Numbered, PATIENCE, Seen, check, check_limits, produce, take_a_while, times, topic};
use ringlog::{Broker, Canceller, Consumer, Group, GroupConfig, Topic};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// As many as a poll may give.
const BATCH: usize = 10;

/// Two consumers of a group; when they have had everything they say what, and stop.
struct Pollers {
    group: Group<Numbered>,
    told: mpsc::Receiver<Seen>,
    threads: Vec<JoinHandle<()>>,
}

fn pollers(topic: &Topic<Numbered>, name: &str, pause: Duration, all: u32) -> Pollers {
    let group = topic.group(name, GroupConfig::latest()).unwrap();
    let (tell, told) = mpsc::channel();
    let (seen, through) = (Arc::new(Mutex::new(Some(Seen::default()))), Canceller::new());
    let consumers: Vec<_> = (1..=2).map(|nth| group.consumer(&format!("{name}-{nth}")).unwrap()).collect();
    let poll = |consumer: Consumer<Numbered>| {
        let (seen, through, tell) = (seen.clone(), through.clone(), tell.clone());
        thread::spawn(move || {
            if poll_all(consumer, pause, &seen, &through, all) {
                tell.send(seen.lock().unwrap().take().unwrap()).unwrap();
            }
        })
    };
    let threads = consumers.into_iter().map(poll).collect();
    Pollers { group, told, threads }
}

/// Whether this one had the last record.
fn poll_all(
    mut consumer: Consumer<Numbered>,
    pause: Duration,
    seen: &Mutex<Option<Seen>>,
    through: &Canceller,
    all: u32,
) -> bool {
    while !through.is_cancelled() {
        let batch = consumer.poll_or_cancel(BATCH, Duration::from_millis(100), through).unwrap();
        if batch.is_empty() {
            continue;
        }
        let last = {
            let mut seen = seen.lock().unwrap();
            let seen = seen.as_mut().expect("nobody is through");
            batch.iter().for_each(|record| seen.note(&record));
            seen.received >= all
        };
        take_a_while(pause);
        batch.ack().unwrap();
        if last {
            through.cancel();
            return true;
        }
    }
    false
}

fn load(times: u32) {
    let broker = Broker::new();
    let topic = topic(&broker);
    let all = ALL * times;
    let billing = pollers(&topic, "billing", Duration::ZERO, all);
    let email = pollers(&topic, "email", Duration::from_micros(200), all);
    let dealt = email.group.assignment().iter().map(|of| of.partitions.clone()).collect::<Vec<_>>();
    assert_eq!(dealt, [[0, 2], [1, 3]]);
    produce(&topic, times);
    for (name, pollers) in [("billing", billing), ("email", email)] {
        check(name, &pollers.told, times);
        pollers.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let stats = pollers.group.stats();
        assert_eq!((stats.acked(), stats.balances()), (u64::from(all), true), "{stats:?}");
    }
    check_limits(&topic);
    broker.drain(PATIENCE).unwrap();
}

// B-V11, B-5, B-6, B-9, B-13, B-18, B-33
#[test]
fn every_key_is_in_order_without_a_gap_and_the_backlog_touches_the_capacity_and_never_passes_it() {
    load(1);
}

// B-V11
#[test]
fn the_same_at_many_times_the_size() {
    load(times());
}
