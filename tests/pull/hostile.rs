//! User code that asks, settles and moves while it is dropped, formatted or called: it runs under no lock, and its panics stop
//! there.

use super::SECOND;
use super::lab::Lab;
use ringlog::{Failure, Group, GroupConfig, Receipt, Retain, Retry, SeekTo, TopicConfig};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What everybody calls back into.
type Home = Arc<Mutex<Option<Group<Nosy>>>>;

/// A record that looks around when it is dropped, and panics.
struct Nosy(u64, Home);

impl Clone for Nosy {
    fn clone(&self) -> Self {
        look_around(&self.1);
        Nosy(self.0, self.1.clone())
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        look_around(&self.1);
        assert_ne!(self.0, 1, "as planned");
    }
}

fn look_around(home: &Home) {
    let group = home.lock().unwrap().clone();
    if let Some(group) = group {
        let stats = group.stats();
        assert!(stats.lanes.len() == 1 && group.letters().len() < 100);
        group.pause_partition(0).unwrap();
        group.resume_partition(0).unwrap();
        drop(group.consumer("visitor").map(|mut visitor| visitor.try_poll(1).map(drop)));
    }
}

/// An error that does so when it is formatted, and when it is dropped.
struct Rude(Home);

impl fmt::Debug for Rude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rude")
    }
}

impl fmt::Display for Rude {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        look_around(&self.0);
        panic!("as planned")
    }
}

impl std::error::Error for Rude {}

impl Drop for Rude {
    fn drop(&mut self) {
        look_around(&self.0);
        panic!("as planned")
    }
}

fn groups(lab: &Lab, home: &Home, attempts: u32) -> (ringlog::Topic<Nosy>, Group<Nosy>) {
    let config = TopicConfig::new().capacity(16).retain(Retain::Unacked);
    let topic = lab.broker.create_topic("nosy", config).unwrap();
    let visits = home.clone();
    let config = GroupConfig::earliest()
        .retry(Retry::constant(attempts, Duration::ZERO))
        .lease(SECOND)
        .letters(1)
        .bury_cloned()
        .on_letter_lost(move |_| {
            look_around(&visits);
            panic!("as planned")
        });
    let group = topic.group("g", config).unwrap();
    *home.lock().unwrap() = Some(group.clone());
    (topic, group)
}

#[test]
fn errors_and_records_that_call_back_meet_no_lock_whatever_becomes_of_them() {
    for attempts in [1, 2, 9] {
        let (lab, home) = (Lab::new(1), Home::default());
        let (topic, group) = groups(&lab, &home, attempts);
        let rude = || Failure::new(Rude(home.clone()));
        (0..8).for_each(|n| _ = topic.publish(Nosy(n, home.clone())).unwrap());
        let mut consumer = group.consumer("c").unwrap();
        consumer.try_poll(3).unwrap().nack(rude()).unwrap();
        let mut batch = consumer.try_poll(3).unwrap();
        let first = batch.offsets().start;
        batch.nack_from(first, rude()).unwrap();
        drop(batch);
        let receipt: Receipt = consumer.try_poll(3).unwrap().detach();
        let late = consumer.try_poll(3).unwrap().detach();
        lab.clock.advance(SECOND); // by which the timer gives up what is to be given up
        assert!(receipt.nack(rude()).is_err() && late.ack().is_err());
        consumer.try_poll(3).unwrap().nack(rude()).unwrap();
        group.seek(0, SeekTo::Latest).unwrap();
        (8..12).for_each(|n| _ = topic.publish(Nosy(n, home.clone())).unwrap());
        let late = consumer.try_poll(3).unwrap().detach();
        consumer.nack(0);
        assert!(late.nack(rude()).is_err());
        let owned = consumer.poll_owned(3, Duration::ZERO).unwrap();
        drop(consumer);
        drop(owned);
        assert!(group.stats().balances());
        group.delete();
        *home.lock().unwrap() = None;
    }
}

#[test]
fn failures_that_wait_for_their_turn_are_dropped_under_no_lock_when_the_cursor_moves() {
    for delete in [false, true] {
        let (lab, home) = (Lab::new(1), Home::default());
        let (topic, group) = groups(&lab, &home, 1);
        (2..4).for_each(|n| _ = topic.publish(Nosy(n, home.clone())).unwrap());
        let mut consumer = group.consumer("c").unwrap();
        let first = consumer.try_poll(1).unwrap().detach();
        consumer.try_poll(1).unwrap().nack(Failure::new(Rude(home.clone()))).unwrap(); // spent, behind the first
        if delete {
            assert!(group.delete());
        } else {
            group.seek(0, SeekTo::Latest).unwrap();
        }
        assert!(first.ack().is_err());
        assert_eq!(group.stats().dead(), 0);
        drop(consumer);
        *home.lock().unwrap() = None;
    }
}
