//! Letters that go to a topic: a new publish of what they keep.
#![forbid(unsafe_code)]

use super::core::Published;
use super::error::PublishError;
use super::group::Group;
use super::topic::Topic;
use crate::group::{Group as Inner, Letter, Pick};
use crate::time::Deadline;
use std::fmt;
use std::time::Duration;

/// What a redrive to a topic did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Republished {
    /// The letters that were published, in order, each with its new place. They are letters of the group no more.
    pub published: Vec<(Letter, Published)>,
    /// Letters that keep no record for the topic, and stay letters.
    pub without_record: usize,
}

/// A redrive to a topic stopped before the end: the letter that was refused, and those behind it, are letters as before.
#[derive(thiserror::Error)]
#[error("redrive stopped, {} published before: {why}", done.published.len())]
#[non_exhaustive]
pub struct RedriveError {
    /// What was done before.
    pub done: Republished,
    /// What the topic said.
    pub why: PublishError<()>,
}

impl fmt::Debug for RedriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedriveError({self})")
    }
}

/// A letter on its way to the topic. Unless it got there, it goes back to its group, also when somebody's code panics.
struct OnItsWay<'a, U: Send + Sync + 'static> {
    group: &'a Inner<U>,
    letter: Option<Letter>,
}

impl<U: Send + Sync + 'static> Drop for OnItsWay<'_, U> {
    fn drop(&mut self) {
        if let Some(letter) = self.letter.take() {
            self.group.restore_letters(vec![letter]);
        }
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// Publishes what the chosen letters of `group` keep, in order, to this topic: their own, or another of the same records.
    ///
    /// Each is a new record, routed like any other, with a new place behind what is there; every group of the topic gets it.
    /// Waits for room as [`Topic::publish_within`], for all letters together no longer than `limit`. A letter that was
    /// published is one no more; one that keeps no `T` ([`GroupConfig::bury_cloned`](crate::GroupConfig::bury_cloned)) stays.
    /// To hand records over to their own group alone, with their old offsets: [`Group::redrive`].
    ///
    /// # Errors
    ///
    /// What the topic refuses stops it: no room in time, closed, deleted, or with an exclusive producer. The error says what was
    /// done before; the rest are letters as before, the one that was refused the oldest of them.
    ///
    /// # Panics
    ///
    /// Where the function of `pick`, a clone, the topic's key extractor or its partitioner does. The letter stays one.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Outcome, Pick, Record, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let aside = broker.create_topic("orders-aside", TopicConfig::<u64>::new())?;
    /// let (group, manual) = (orders.group("billing", GroupConfig::earliest().bury_cloned())?, Manual::new(1));
    /// group.member("billing-1").run(&manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no"))?;
    /// orders.publish_batch(0..3)?;
    /// manual.run(100);
    ///
    /// let done = aside.redrive(&group, Pick::all(), Duration::ZERO)?;
    /// let offsets: Vec<u64> = done.published.iter().map(|(_, at)| at.offset()).collect();
    /// assert_eq!((offsets, group.letters().len()), (vec![0, 1, 2], 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redrive(&self, group: &Group<T>, pick: Pick<'_>, limit: Duration) -> Result<Republished, RedriveError>
    where
        T: Clone,
    {
        self.redrive_with(group, pick, limit, |letter| letter.payload().cloned())
    }

    /// As [`Topic::redrive`], publishing what `make` makes of each letter, of a group of any topic; where it makes nothing, the
    /// letter stays. So the origin can go into the record, and groups may keep what they like.
    ///
    /// `make` runs on the caller's thread, under no lock, before the letter moves; where it panics, this call does.
    ///
    /// # Errors
    ///
    /// As [`Topic::redrive`].
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Outcome, Pick, Record, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let failed = broker.create_topic("failed", TopicConfig::<String>::new())?;
    /// let (group, manual) = (orders.group("billing", GroupConfig::earliest())?, Manual::new(1));
    /// group.member("billing-1").run(&manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no"))?;
    /// orders.publish(7)?;
    /// manual.run(100);
    /// failed.redrive_with(&group, Pick::all(), Duration::ZERO, |letter| Some(letter.to_string()))?;
    /// assert_eq!((failed.end(0), group.letters().len()), (Some(1), 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redrive_with<U: Send + Sync + 'static>(
        &self,
        group: &Group<U>,
        pick: Pick<'_>,
        limit: Duration,
        mut make: impl FnMut(&Letter) -> Option<T>,
    ) -> Result<Republished, RedriveError> {
        let (core, group) = (&*self.0, &**group.inner());
        let mut done = Republished::default();
        if !core.life.admits() || core.exclusive {
            return Err(RedriveError { done, why: core.refuse(()) });
        }
        let deadline = core.life.within(Some(limit));
        for letter in group.picked_letters(pick) {
            let Some(value) = make(&letter) else {
                done.without_record += 1;
                continue;
            };
            if !group.take_letter(&letter) {
                continue; // somebody else has it
            }
            let mut way = OnItsWay { group, letter: Some(letter) };
            match self.publish_within(value, self.left_until(deadline)) {
                Ok(at) => done.published.extend(way.letter.take().map(|letter| (letter, at))),
                Err(error) => return Err(RedriveError { done, why: error.split().1 }),
            }
        }
        Ok(done)
    }

    fn left_until(&self, deadline: Deadline) -> Duration {
        match deadline {
            Deadline::Now => Duration::ZERO,
            Deadline::At(at) => at - self.0.life.clock().now(),
            Deadline::Never => Duration::MAX,
        }
    }
}
