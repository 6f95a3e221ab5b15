//! Why something does not go on: the chain of causes, down to the handler, the pause or the want of a member.
#![forbid(unsafe_code)]

use super::core::Core;
use super::group::Group;
use super::topic::Topic;
use crate::group::{ControlError, Delivery, Group as Inner, Position, Standing};
use crate::sync::Arc;
use std::fmt;

/// Why a partition has no room, as plain data; it displays as a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WhyFull {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The records it holds at most.
    pub capacity: u64,
    /// The group that is furthest behind. `None`: there is no group, and the topic keeps everything for the first.
    pub group: Option<Arc<str>>,
    /// The offset where that group stands (or from which on everything is kept).
    pub offset: u64,
    /// Why it stands there; `None` without a group, or if it is just going.
    pub because: Option<Standing>,
}

impl fmt::Display for WhyFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WhyFull { topic, partition, capacity, group, offset, because } = self;
        let records = if *capacity == 1 { "record" } else { "records" };
        write!(f, "{topic}/{partition} is full ({capacity} {records})")?;
        match (group, because) {
            (None, _) => write!(f, ": no group has read it, from {offset} on, and it is kept until one comes"),
            (Some(group), None) => write!(f, ": group '{group}' stands at {offset}"),
            (Some(group), Some(why)) => write!(f, ": group '{group}' stands at {offset}: {why}"),
        }
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// Why a publish to this partition would find no room now: which group is furthest behind, where it stands, and why it
    /// stays there. `None` if there is room, or no such partition. What is said was so while it was asked; it costs a look at
    /// every group.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().capacity(2))?;
    /// let billing = topic.group("billing", GroupConfig::earliest())?;
    /// billing.pause();
    /// billing.subscribe("billing-1", |_| ())?;
    /// topic.publish_batch(0..2)?;
    /// let why = topic.why_full(0).expect("it is full").to_string();
    /// assert_eq!(why, "orders/0 is full (2 records): group 'billing' stands at 0: the group is paused");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn why_full(&self, partition: u32) -> Option<WhyFull> {
        let log = self.0.log(partition)?;
        let earliest = log.earliest().get(); // what is too old goes first
        if log.has_room() {
            return None;
        }
        let group = log.limiting().and_then(|limiting| self.0.groups.named(limiting.tag));
        let offset = match &group {
            Some(group) => self.0.groups.find(group)?.committed(partition).ok()?,
            None => earliest,
        };
        let because = group.as_ref().and_then(|group| self.0.standing_of(group, partition));
        let (topic, capacity) = (self.0.name.clone(), self.0.capacity() as u64);
        Some(WhyFull { topic, partition, capacity, group, offset, because })
    }
}

impl<T: Send + Sync + 'static> Core<T> {
    /// Where a group stands in a partition.
    pub(super) fn standing_of(&self, group: &str, partition: u32) -> Option<Standing> {
        let all = self.groups.all();
        let group = all.iter().find(|one| &**one.name() == group)?;
        standing_among(group, &all, partition).ok()
    }
}

/// Where a group stands in a partition; `all` are the groups of its topic.
pub(super) fn standing_among<T: Send + Sync + 'static>(
    group: &Inner<T>,
    all: &[Arc<Inner<T>>],
    partition: u32,
) -> Result<Standing, ControlError> {
    let busy = |executor| all.iter().find_map(|other| Some((other.name().clone(), other.served_by(executor)?)));
    group.standing(partition, busy)
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Why the group does not go on in a partition, or that nothing hinders it. So while it was asked.
    ///
    /// A thread or worker that serves several lanes and is at work in another one is named if that is of this topic.
    ///
    /// # Errors
    ///
    /// No such partition, or the group was deleted; see [`ControlError`].
    pub fn standing(&self, partition: u32) -> Result<Standing, ControlError> {
        standing_among(self.inner(), &self.siblings(), partition)
    }

    /// What has become of one record in this group, as far as it is known at this moment. A look at the cursor, the lane and
    /// the letters kept: it costs a walk through those.
    ///
    /// Of what the group is past, it is known which records are dead as long as their letters are kept. All others are
    /// [`Acked`](Delivery::Acked), if no other letter is missing and nothing was ever skipped, lost or replayed; if
    /// something was, [`Passed`](Delivery::Passed) is all that can be said.
    ///
    /// ```
    /// use ringlog::{Broker, Delivery, GroupConfig, Manual, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("billing", GroupConfig::earliest())?;
    /// let manual = Manual::new(1);
    /// group.member("billing-1").run(&manual).subscribe(|_| ())?;
    /// let at = topic.publish(7)?;
    /// assert_eq!(group.delivery(at)?, Delivery::Pending);
    /// manual.run(10);
    /// assert_eq!(group.delivery(at)?, Delivery::Acked);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// No such partition; see [`ControlError`].
    pub fn delivery(&self, at: impl Into<Position>) -> Result<Delivery, ControlError> {
        let at = at.into();
        self.inner().delivery(at.partition, at.offset)
    }
}
