//! How much of a partition's capacity was ever in use, for who asks.
#[path = "support/dice.rs"]
mod dice;

use dice::Dice;
use ringlog::{Broker, Group, GroupConfig, Producer, Retain, SeekTo, Topic, TopicConfig};
use std::time::Duration;

const CAPACITIES: [usize; 6] = [1, 2, 3, 4, 17, 64];

/// A topic, its groups, and the largest backlog as a few numbers say it.
struct Pair {
    _broker: Broker,
    topic: Topic<u64>,
    producer: Option<Producer<u64>>,
    groups: Vec<Group<u64>>,
    capacity: u64,
    keeps_for_nobody: bool,
    drops: bool,
    largest: u64,
}

fn cursor(group: &Group<u64>) -> u64 {
    group.stats_of(0).unwrap().committed
}

impl Pair {
    fn new(capacity: usize, retain: Retain, drops: bool, exclusive: bool) -> Self {
        let broker = Broker::new();
        let config = TopicConfig::new().capacity(capacity).retain(retain).measure_backlog(true);
        let config = if drops { config.drop_oldest() } else { config.block(Some(Duration::ZERO)) };
        let (topic, producer) = if exclusive {
            let (topic, producer) = broker.create_exclusive("t", config).unwrap();
            (topic, Some(producer))
        } else {
            (broker.create_topic("t", config).unwrap(), None)
        };
        let keeps_for_nobody = retain == Retain::Backlog && !drops;
        let (groups, capacity) = (Vec::new(), capacity as u64);
        Self { _broker: broker, topic, producer, groups, capacity, keeps_for_nobody, drops, largest: 0 }
    }

    /// Publishes some way or other, as many as there is room for or none.
    fn publish(&mut self, dice: &mut Dice) {
        let most = 1 + dice.roll(self.capacity);
        let refused = match (&mut self.producer, dice.roll(4)) {
            (None, 0) => self.topic.try_publish(1).is_err(),
            (None, 1) => self.topic.publish_quietly(1).is_err(),
            (None, 2) => self.topic.publish_to(0, 1).is_err(),
            (None, _) => self.topic.publish_batch(0..most).is_err(),
            (Some(producer), 0) => producer.try_publish(1).is_err(),
            (Some(producer), 1) => producer.publish_quietly(1).is_err(),
            (Some(producer), 2) => producer.publish_in_place(0, || 0, |value| *value = 1).is_err(),
            (Some(producer), _) => producer.publish_batch(0..most).is_err(),
        };
        assert!(!(refused && self.drops), "there always is room");
        self.largest = self.largest.max(self.backlog());
    }

    fn backlog(&self) -> u64 {
        let end = self.topic.end(0).unwrap();
        let slowest = self.groups.iter().map(cursor).min();
        match slowest {
            None if self.keeps_for_nobody => end,
            None => 0,
            Some(slowest) if self.drops => (end - slowest).min(self.capacity),
            Some(slowest) => end - slowest,
        }
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.roll(12) {
            0 if self.groups.len() < 3 => {
                let name = format!("g{}", self.groups.len());
                self.groups.push(self.topic.group(&name, GroupConfig::latest()).unwrap());
            }
            0..=6 => self.publish(dice),
            _ if self.groups.is_empty() => {}
            way => {
                let group = &self.groups[dice.roll(self.groups.len() as u64) as usize];
                let (at, end) = (cursor(group), self.topic.end(0).unwrap());
                let to = if way == 7 { dice.roll(end + 1) } else { (at + 1 + dice.roll(4)).min(end) };
                group.seek(0, SeekTo::Offset(to)).unwrap();
            }
        }
    }
}

// B-28, B-37
#[test]
fn the_largest_backlog_is_taken_right_after_each_publish_whichever_way_it_goes() {
    for capacity in CAPACITIES {
        for retain in [Retain::Recent, Retain::Backlog, Retain::Unacked] {
            for (drops, exclusive) in [(false, false), (false, true), (true, false), (true, true)] {
                let mut pair = Pair::new(capacity, retain, drops, exclusive);
                let mut dice = Dice::new(capacity as u64 * 31 + u64::from(drops) * 2 + u64::from(exclusive));
                for step in 0..400 {
                    pair.step(&mut dice);
                    let (said, what) =
                        (pair.topic.counts().largest_backlog, (capacity, retain, drops, exclusive, step));
                    assert_eq!(said, Some(pair.largest), "{what:?}");
                    assert_eq!(pair.topic.partition_stats(0).unwrap().largest_backlog, said);
                    assert!(pair.largest <= pair.capacity, "{what:?}");
                }
                assert!(pair.largest > 0);
            }
        }
    }
}

// B-28
#[test]
fn of_several_partitions_the_largest_backlog_is_the_topic_s_and_who_did_not_ask_is_not_told() {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(2).capacity(8).measure_backlog(true);
    let topic = broker.create_topic("measured", config).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap();
    for (partition, count) in [(0, 2), (1, 5)] {
        (0..count).for_each(|n| assert!(topic.publish_to(partition, n).is_ok()));
    }
    let of: Vec<_> = topic.stats().iter().map(|partition| partition.largest_backlog).collect();
    assert_eq!((of, topic.counts().largest_backlog), (vec![Some(2), Some(5)], Some(5)));
    assert!(topic.describe().to_string().contains("1: log 0..5, 5 kept, all past 0, largest backlog 5"));

    let leased = broker.create_topic("leased", TopicConfig::<u64>::leased(1, 4)).unwrap();
    leased.group("g", GroupConfig::leased()).unwrap();
    leased.publish_batch(0..3).unwrap();
    assert_eq!(leased.counts().largest_backlog, Some(3), "topics with leases ask for it");

    let plain = broker.create_topic("plain", TopicConfig::<u64>::new()).unwrap();
    plain.group("g", GroupConfig::earliest()).unwrap();
    plain.publish(1).unwrap();
    assert_eq!((plain.counts().largest_backlog, plain.stats()[0].largest_backlog), (None, None));
}
