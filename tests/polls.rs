//! Polls that come to nothing, whichever way: what they had in hand comes again, to whoever polls next, in order, and no
//! attempt of it is counted.
#[path = "support/dice.rs"]
mod dice;

use dice::Dice;
use ringlog::{
    Broker, BrokerConfig, Canceller, Consumer, Group, GroupConfig, ManualClock, Retry, Timestamps, Topic, TopicConfig,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);
const PARTITIONS: u32 = 3;

/// A group that is polled in every way but the right one, now and then.
struct Play {
    clock: Arc<ManualClock>,
    _broker: Broker,
    topic: Topic<u64>,
    group: Group<u64>,
    consumers: Vec<Consumer<u64>>,
    /// Of each partition: how many are acknowledged, and how often leases of the record that is next have ended.
    done: [u64; PARTITIONS as usize],
    ended: u64,
    joined: u64,
}

impl Play {
    fn new(capacity: usize) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::new().partitions(PARTITIONS).capacity(capacity).block(Some(Duration::ZERO));
        let topic = broker.create_topic("t", config).unwrap();
        let always = Retry::constant(1, Duration::ZERO).unlimited();
        let group = topic.group("g", GroupConfig::earliest().lease(LEASE).retry(always)).unwrap();
        let (consumers, done) = (Vec::new(), [0; PARTITIONS as usize]);
        Play { clock, _broker: broker, topic, group, consumers, done, ended: 0, joined: 0 }
    }

    fn join(&mut self) {
        self.joined += 1;
        self.consumers.push(self.group.consumer(&format!("c{}", self.joined)).unwrap());
    }

    /// One poll, and one way for it to end; the values of a partition are its offsets.
    fn poll(&mut self, dice: &mut Dice) {
        let which = dice.roll(self.consumers.len() as u64) as usize;
        let (max, way) = (1 + dice.roll(5) as usize, dice.roll(9));
        let cancel = Canceller::new();
        cancel.cancel();
        let consumer = &mut self.consumers[which];
        let mut batch = match way {
            0 => consumer.poll_or_cancel(max, LEASE, &cancel).unwrap(),
            _ => consumer.try_poll(max).unwrap(),
        };
        let Some(partition) = batch.partition() else { return };
        let (done, from) = (&mut self.done[partition as usize], batch.offsets().start);
        assert_eq!(from, *done, "it comes again from the first one that is not done");
        assert!(batch.len() <= max && batch.iter().all(|record| *record == record.offset()));
        match way {
            0 | 1 => drop(batch),
            2 => {
                let panics = AssertUnwindSafe(|| {
                    let _in_hand = batch;
                    resume_unwind(Box::new("in the middle of it"));
                });
                assert!(catch_unwind(panics).is_err());
            }
            3 => drop(batch.detach()),
            4 => {
                let receipt = batch.detach();
                thread::spawn(move || drop(receipt)).join().unwrap();
            }
            5 => {
                std::mem::forget(batch.detach()); // in flight until its lease is over
                self.clock.advance(LEASE);
                self.ended += 1;
            }
            6 => {
                batch.ack_through(from).unwrap();
                *done += 1;
            }
            7 => {
                std::mem::forget(batch.detach()); // in flight until its consumer goes
                drop(self.consumers.swap_remove(which));
                self.join();
            }
            _ => {
                *done = batch.offsets().end;
                batch.ack().unwrap();
            }
        }
    }
}

// B-5, B-7, B-17: nothing is lost, and nothing is done twice
#[test]
fn ten_thousand_polls_that_end_badly_lose_nothing() {
    for (capacity, polls) in [(1, 2_000), (2, 2_000), (3, 2_000), (64, 10_000)] {
        let (mut play, mut dice) = (Play::new(capacity), Dice::new(capacity as u64));
        (0..4).for_each(|_| play.join());
        for _ in 0..polls {
            for partition in 0..PARTITIONS {
                while play.topic.publish_to(partition, play.topic.end(partition).unwrap()).is_ok() {}
            }
            play.poll(&mut dice);
        }
        let stats = play.group.stats();
        assert!(stats.balances(), "{stats:?}");
        let done: Vec<u64> = stats.lanes.iter().map(|lane| lane.acked).collect();
        assert_eq!(done, play.done, "capacity {capacity}");
        assert_eq!((stats.dead(), stats.in_flight(), stats.refused()), (0, 0, 0));
        assert!(play.ended > 0 && stats.leases_expired() >= play.ended, "{} {stats:?}", play.ended);
        assert_eq!(stats.retried(), stats.leases_expired(), "only a lease that ends counts as an attempt");
        assert!(play.done.iter().sum::<u64>() > polls / 10);
    }
}

// X22: a lease of a partition begins anew with every batch; what gives such a consumer away is the age of its oldest record.
#[test]
fn who_polls_on_without_acknowledging_never_loses_its_lease_and_the_group_s_lag_in_time_shows_it() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let config = TopicConfig::new().capacity(8).timestamps(Timestamps::Exact).block(Some(Duration::ZERO));
    let topic = broker.create_topic("t", config).unwrap();
    let group = topic.group("g", GroupConfig::earliest().lease(LEASE)).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    for n in 0..8 {
        topic.publish(n).unwrap();
        std::mem::forget(consumer.try_poll(1).unwrap().detach());
        clock.advance(LEASE - SECOND);
    }
    let age = 8 * (LEASE - SECOND);
    assert_eq!((group.stats().leases_expired(), group.stats().in_flight(), group.lag_time()), (0, 8, Some(age)));
    let refused = topic.publish(8).unwrap_err();
    assert_eq!(refused.full().unwrap().limiting.as_ref().unwrap().oldest_unacked_age, Some(age));
    clock.advance(SECOND); // and when it polls no more, all of it comes again
    assert_eq!((group.stats().leases_expired(), consumer.try_poll(1).unwrap().offsets()), (8, 0..1));
}

/// Polls `polls` times, each with a canceller that another thread uses at once; acknowledges every other batch. Then it polls on
/// until everything is done.
fn race(mut consumer: Consumer<u64>, polls: u32, all: &Canceller, tell: &mpsc::Sender<(u32, u64)>) -> u32 {
    let (pass, cancels) = mpsc::channel::<Canceller>();
    let partner = thread::spawn(move || cancels.iter().for_each(|cancel| cancel.cancel()));
    let (mut empty, mut nth) = (0, 0);
    loop {
        nth += 1;
        let batch = if nth <= polls {
            let cancel = Canceller::new();
            pass.send(cancel.clone()).unwrap();
            consumer.poll_or_cancel(4, Duration::MAX, &cancel).unwrap()
        } else {
            consumer.poll_or_cancel(4, Duration::MAX, all).unwrap()
        };
        if batch.is_empty() {
            empty += 1;
            if nth > polls && all.is_cancelled() {
                break;
            }
        } else if nth > polls || nth % 2 == 0 {
            // Told before it is acknowledged, so that nobody is told of what comes after it first.
            batch.iter().for_each(|record| tell.send((record.partition(), *record)).unwrap());
            batch.ack().unwrap();
        }
    }
    drop(pass);
    partner.join().unwrap();
    empty
}

// B-23: cancelled while it waits, while it takes, and before it has begun
#[test]
fn ten_thousand_cancelled_polls_lose_nothing_and_hold_nobody_up() {
    const POLLS: u32 = 2_500;
    const EACH: u64 = 2_000;
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(2).capacity(16).block(None);
    let topic = broker.create_topic("t", config).unwrap();
    let groups = [1, 2].map(|n| topic.group(&format!("g{n}"), GroupConfig::earliest()).unwrap());
    let all = Canceller::new();
    let racers: Vec<_> = groups
        .iter()
        .flat_map(|group| {
            let (tell, told) = mpsc::channel();
            let consumers: Vec<_> = (0..2).map(|n| group.consumer(&format!("c{n}")).unwrap()).collect();
            let racing: Vec<_> = consumers
                .into_iter()
                .map(|consumer| {
                    let (all, tell) = (all.clone(), tell.clone());
                    thread::spawn(move || race(consumer, POLLS, &all, &tell))
                })
                .collect();
            [(racing, told)]
        })
        .collect();
    let publishers: Vec<_> = (0..2)
        .map(|partition| {
            let topic = topic.clone();
            thread::spawn(move || (0..EACH).for_each(|n| assert!(topic.publish_to(partition, n).is_ok())))
        })
        .collect();
    publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
    broker.drain(120 * SECOND).unwrap();
    all.cancel();
    for (racing, told) in racers {
        let empty: u32 = racing.into_iter().map(|racer| racer.join().unwrap()).sum();
        assert!(empty > 0, "no poll was cancelled before it found anything");
        let mut next = [0; 2];
        for (partition, value) in told.iter() {
            assert_eq!(value, next[partition as usize], "each once, and in order");
            next[partition as usize] += 1;
        }
        assert_eq!(next, [EACH; 2]);
    }
    for group in groups {
        let stats = group.stats();
        assert!(stats.balances(), "{stats:?}");
        assert_eq!((stats.acked(), stats.retried(), stats.refused()), (2 * EACH, 0, 0));
    }
}
