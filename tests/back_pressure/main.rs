//! Many producers, slow groups, small partitions: nothing is lost, nothing overtakes, and no partition holds more than it may.
//!
//! `RINGLOG_LOAD` says how many times the size; without a word it is once, and a hundred times where the build is fast.
mod pull;
mod push;

use ringlog::{Broker, Key, Topic, TopicConfig};
use std::collections::HashMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const PRODUCERS: u32 = 4;
const PER_PRODUCER: u32 = 2_500;
const KEYS: u32 = 40;
const PARTITIONS: u32 = 4;
const CAPACITY: usize = 64;
/// Each key's numbers have no gap, so a group is through when it has had this many.
const ALL: u32 = PRODUCERS * PER_PRODUCER;
const PATIENCE: Duration = Duration::from_secs(300);

/// `user-7#3`: the fourth of its key.
#[derive(Debug)]
struct Numbered {
    user: String,
    nth: u32,
}

fn user(numbered: &Numbered) -> &(impl Key + ?Sized + use<>) {
    &numbered.user
}

/// What one group has had, of each key.
#[derive(Default)]
struct Seen {
    next: HashMap<String, u32>,
    received: u32,
    wrong: Vec<String>,
}

impl Seen {
    fn note(&mut self, record: &Numbered) {
        let next = self.next.entry(record.user.clone()).or_insert(0);
        if *next != record.nth {
            self.wrong.push(format!("{}#{} where {next} was due", record.user, record.nth));
        }
        *next = record.nth + 1;
        self.received += 1;
    }
}

/// Somebody whose work takes a while: it keeps its processor busy, as a sleep would be far longer than asked.
fn take_a_while(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn topic(broker: &Broker) -> Topic<Numbered> {
    let config = TopicConfig::new().partitions(PARTITIONS).capacity(CAPACITY).block(None).measure_backlog(true);
    broker.create_topic("orders", config.key(user)).unwrap()
}

/// Each producer has keys of its own, and numbers them.
fn produce(topic: &Topic<Numbered>, times: u32) {
    thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            scope.spawn(move || {
                let keys = KEYS / PRODUCERS;
                for n in 0..PER_PRODUCER * times {
                    let user = format!("user-{}", producer * keys + n % keys);
                    topic.publish(Numbered { user, nth: n / keys }).unwrap();
                }
            });
        }
    });
}

/// Each group says what it has had when it has had everything.
fn check(name: &str, through: &mpsc::Receiver<Seen>, times: u32) {
    let seen = through.recv_timeout(PATIENCE).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert!(seen.wrong.is_empty(), "{name}: {:?}", &seen.wrong[..seen.wrong.len().min(5)]);
    assert_eq!((seen.received, seen.next.len() as u32), (ALL * times, KEYS), "{name}");
    assert!(seen.next.values().all(|next| *next == ALL * times / KEYS), "{name}: {:?}", seen.next);
}

/// The producers had to wait, and the partitions were full to the brim and never beyond it.
fn check_limits(topic: &Topic<Numbered>) {
    let counts = topic.counts();
    assert!(counts.blocked > 0, "nobody ever waited: {counts:?}");
    assert_eq!(counts.largest_backlog, Some(CAPACITY as u64));
    assert!(topic.stats().iter().all(|partition| partition.largest_backlog <= Some(CAPACITY as u64)));
}

fn times() -> u32 {
    let told = std::env::var("RINGLOG_LOAD").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(if cfg!(debug_assertions) { 1 } else { 100 })
}
