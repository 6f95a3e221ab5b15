//! What is promised of a handful of records is true of a hundred times as many, on one slot, two, three, four, and where
//! there is room: on real threads, with publishers and members at once wherever that makes sense.
#![forbid(unsafe_code)]

mod ends;
mod flow;
mod room;

use ringlog::{Broker, Group, Topic, TopicConfig};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Slots of a partition, and how many times the size of the plain case: all combinations.
fn cases() -> impl Iterator<Item = (usize, usize)> {
    [1, 2, 3, 4, 1_024].into_iter().flat_map(|slots| [(slots, 1), (slots, 100)])
}

/// Something that happened to an account; `n` counts on for each account.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    account: &'static str,
    what: &'static str,
    n: usize,
}

fn event(text: &'static str, n: usize) -> Event {
    let (account, what) = text.split_once(':').unwrap();
    Event { account, what, n }
}

fn config(partitions: u32, slots: usize) -> TopicConfig<Event> {
    TopicConfig::new().partitions(partitions).capacity(slots).key(|event: &Event| event.account).block(None)
}

fn topic(broker: &Broker, partitions: u32, slots: usize) -> Topic<Event> {
    broker.create_topic("orders", config(partitions, slots)).unwrap()
}

#[track_caller]
fn done<T: Send + Sync + 'static>(broker: &Broker, groups: &[&Group<T>]) {
    broker.drain(LONG).unwrap();
    for group in groups {
        let stats = group.stats();
        assert!(stats.balances() && stats.lag() == 0, "{stats:#?}");
    }
}

fn until(so: impl Fn() -> bool) {
    while !so() {
        thread::yield_now();
    }
}
