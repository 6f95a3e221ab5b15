//! Dead letters: looking at them, taking them out, and having them handed over again.
#![forbid(unsafe_code)]

use super::group::Group;
use super::handle::Broker;
use super::topic::Topic;
use crate::group::{ControlError, Letter, Pick, Redriven};

impl<T: Send + Sync + 'static> Group<T> {
    /// The dead letters kept, the oldest first: what failed, where, how often and why.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Outcome, Record, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<String>::new())?;
    /// let group = topic.group("billing", GroupConfig::earliest().bury_cloned())?; // a letter keeps a clone of its record
    /// group.subscribe("billing-1", |_: &Record<'_, String>| Outcome::reject("no such account"))?;
    /// topic.publish("alice".to_string())?;
    /// broker.drain(Duration::from_secs(2))?;
    ///
    /// let letters = group.letters();
    /// assert_eq!((letters[0].partition(), letters[0].offset(), letters[0].attempts()), (0, 0, 1));
    /// assert_eq!(letters[0].message(), "no such account");
    /// assert_eq!(letters[0].payload::<String>().unwrap(), "alice");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn letters(&self) -> Vec<Letter> {
        self.inner().letters()
    }

    /// Takes letters out: they are the caller's from now on, and nobody else gets them.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Outcome, Pick, Record, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let (group, manual) = (topic.group("billing", GroupConfig::earliest())?, Manual::new(1));
    /// group.member("billing-1").run(&manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no"))?;
    /// topic.publish_batch(0..3)?;
    /// manual.run(100);
    ///
    /// assert_eq!(group.drain_letters(Pick::first(2)).len(), 2);
    /// assert_eq!(group.letters()[0].offset(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_letters(&self, pick: Pick<'_>) -> Vec<Letter> {
        self.inner().drain_letters(pick)
    }

    /// Has letters handed over to the group once more, in order, each before the next record of its partition.
    ///
    /// A letter must keep its record ([`GroupConfig::bury_cloned`](crate::GroupConfig::bury_cloned)); it moves into a queue of its
    /// partition, which holds as many as the group keeps letters, and is a letter no more. What cannot be moved stays where
    /// it is; the result says how much. Nothing waits; offsets and cursors stay as they are.
    ///
    /// The handler gets the record with its old offset, and may ask [`Record::is_redriven`](crate::Record::is_redriven). Its
    /// attempts count anew; if it fails to the end, it becomes a new letter. It comes before the partition's next record, and before
    /// one that waits for its next attempt; while it waits itself, the partition does. Queued letters count as `replayed`, as
    /// lag, and as what a drain and a close wait for. They belong to the partition: a change of members, a pause and a seek
    /// leave them queued. Where the group is stopped or deleted, they become letters again (counted as `skipped`).
    ///
    /// # Errors
    ///
    /// The group was deleted, or its broker closed: nothing has moved.
    ///
    /// # Panics
    ///
    /// Where the function of `pick` does; nothing has moved then.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Pick, Record, Retry, TopicConfig};
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::sync::Arc;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let config = GroupConfig::earliest().retry(Retry::never()).bury_cloned();
    /// let (group, manual, open) = (topic.group("billing", config)?, Manual::new(1), Arc::new(AtomicBool::new(false)));
    /// let is_open = open.clone();
    /// group.member("billing-1").run(&manual).subscribe(move |_: &Record<'_, u64>| {
    ///     if is_open.load(Ordering::Relaxed) { Ok(()) } else { Err("the bank is closed") }
    /// })?;
    /// topic.publish_batch(0..3)?;
    /// manual.run(100);
    /// assert_eq!((group.stats().dead(), group.letters().len()), (3, 3));
    ///
    /// open.store(true, Ordering::Relaxed);
    /// assert_eq!(group.redrive(Pick::all())?.queued, 3);
    /// assert_eq!((group.letters().len(), group.lag()), (0, 3));
    /// manual.run(100);
    /// assert_eq!((group.stats().acked(), group.stats().replayed(), group.lag()), (3, 3, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redrive(&self, pick: Pick<'_>) -> Result<Redriven, ControlError> {
        self.inner().redrive(pick)
    }

    /// The letters that are queued to be handed over again, the ones in hand included: partition by partition, in order.
    pub fn redriving(&self) -> Vec<Letter> {
        self.inner().redriving()
    }

    /// Takes a [`redrive`](Self::redrive) back: what is still queued becomes letters again, each where it was among the others, and counts as `skipped`. Where there is no room for all, the oldest letters go.
    /// Says how many. What a handler makes of the one that it has in hand is refused.
    pub fn call_back(&self) -> usize {
        self.inner().call_back()
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// The letters of all groups, by group, the oldest of each first.
    pub fn letters(&self) -> Vec<Letter> {
        self.0.groups.all().iter().flat_map(|group| group.letters()).collect()
    }
}

impl Broker {
    /// The letters of all topics and groups, in the order in which the records were given up.
    ///
    /// Letters that are taken out or redriven while this looks may be missing.
    pub fn letters(&self) -> Vec<Letter> {
        let mut letters = Vec::new();
        self.0.topics.all().iter().for_each(|topic| topic.letters(&mut letters));
        letters.sort_by_key(Letter::failed_at);
        letters
    }

    /// The letters of the groups of this name, on whichever topics, in the order in which the records were given up.
    pub fn letters_of(&self, group: &str) -> Vec<Letter> {
        let mut letters = self.letters();
        letters.retain(|letter| letter.group() == group);
        letters
    }
}
