//! Waiting until groups have done a record.
#![forbid(unsafe_code)]

use super::life::Ended;
use super::topic::Topic;
use crate::group::{Group as Inner, GroupOffset, Position};
use crate::sync::Arc;
use crate::time::Span;
use crate::wait::Canceller;
use std::time::Duration;

/// Why a record was not seen to be done by all that were waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The topic has fewer partitions.
    #[error("topic '{topic}' has no partition {partition}, only {partitions}")]
    NoPartition {
        /// The topic.
        topic: Arc<str>,
        /// The partition asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// There is no group of this name.
    #[error("topic '{topic}' has no group '{group}'")]
    Unknown {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// The time was up first. Wait longer, or see to the groups named.
    #[error("{topic}/{}@{} not done after {}{}", position.partition, position.offset, Span(*waited), list(behind))]
    TimedOut {
        /// The topic.
        topic: Arc<str>,
        /// What was waited for.
        position: Position,
        /// How long was waited, by the broker's clock.
        waited: Duration,
        /// Who was not done, and where each stood; may be empty if they finished just then.
        behind: Vec<GroupOffset>,
    },
    /// The canceller that was given was used first.
    #[error("cancelled before {topic}/{}@{} was done{}", position.partition, position.offset, list(behind))]
    Cancelled {
        /// The topic.
        topic: Arc<str>,
        /// What was waited for.
        position: Position,
        /// Who was not done, and where each stood; may be empty if they finished just then.
        behind: Vec<GroupOffset>,
    },
    /// A handler asked, and this group's partition is served by the thread it runs on: what it would wait for can only be
    /// done when it returns. Or what a broker's timer runs, which waits for nobody. Wait on another thread.
    #[error(
        "a handler cannot wait for group '{group}', which its own thread serves, nor can what a broker's timer runs"
    )]
    WouldDeadlock {
        /// The group.
        group: Arc<str>,
    },
    /// The group was deleted, or stopped with its broker: it does nothing any more.
    #[error("group '{group}' was deleted, or its broker is closed")]
    Ended {
        /// The group.
        group: Arc<str>,
    },
}

fn list(behind: &[GroupOffset]) -> String {
    let all: Vec<String> = behind.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// Waits until each of `groups` has done the record at `position`, that is until its cursor is past it: acknowledged,
    /// buried, lost, or passed over. With no names it waits for all groups there are at the call. Signalled by commits, not
    /// polled; a record that has not been published yet is waited for as well. Groups without a member, and paused ones, are
    /// waited for until `limit` by the broker's clock; under a clock that nobody moves the time is never up.
    ///
    /// A cursor can be moved back afterwards, or have been there in between: this says that it was past the record.
    ///
    /// # Errors
    ///
    /// No such partition or group, not done in time, or never to be done: asked by a handler whose own thread would have to
    /// do it, or the group has ended; see [`WaitError`].
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// topic.group("billing", GroupConfig::earliest())?.subscribe("billing-1", |_| ())?;
    /// let published = topic.publish(7)?;
    /// topic.wait_committed(published, &["billing"], Duration::from_secs(2))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_committed(
        &self,
        position: impl Into<Position>,
        groups: &[&str],
        limit: Duration,
    ) -> Result<(), WaitError> {
        self.wait_until_committed(position.into(), groups, limit, None)
    }

    pub(super) fn wait_until_committed(
        &self,
        position: Position,
        groups: &[&str],
        limit: Duration,
        cancel: Option<&Canceller>,
    ) -> Result<(), WaitError> {
        let (core, partition) = (&*self.0, position.partition);
        if partition >= self.partitions() {
            let (topic, partitions) = (core.name.clone(), self.partitions());
            return Err(WaitError::NoPartition { topic, partition, partitions });
        }
        let unknown = |name: &str| WaitError::Unknown { topic: core.name.clone(), group: name.into() };
        let found = groups.iter().map(|name| core.groups.find(name).ok_or_else(|| unknown(name)));
        let mut waited_for: Vec<_> = found.collect::<Result<_, _>>()?;
        if groups.is_empty() {
            waited_for = core.groups.all();
        }
        let (begun, deadline) = (core.life.clock().now(), core.life.within(Some(limit)));
        let mut failed = Ok(());
        let ended = core.life.wait_until(deadline, cancel, || {
            failed = drop_done(&mut waited_for, position);
            failed.is_err() || waited_for.is_empty()
        });
        failed?;
        if waited_for.is_empty() {
            return Ok(());
        }
        let behind = waited_for.iter().map(|group| group.offsets().swap_remove(partition as usize)).collect();
        let topic = core.name.clone();
        if ended == Ended::Cancelled {
            return Err(WaitError::Cancelled { topic, position, behind });
        }
        Err(WaitError::TimedOut { topic, position, waited: core.life.clock().now() - begun, behind })
    }
}

/// Takes those out that are past `position`. An error if one of the others never will be.
fn drop_done<T: Send + Sync + 'static>(groups: &mut Vec<Arc<Inner<T>>>, position: Position) -> Result<(), WaitError> {
    groups.retain(|group| !group.has_passed(position.partition, position.offset));
    let stepped_here = |group: &Inner<T>| group.is_stepped_here(position.partition, Some(position.offset));
    let Some(group) = groups.iter().find(|group| group.is_done_for() || stepped_here(group)) else {
        return Ok(());
    };
    let name = group.name().clone();
    // It may have got there, and ended, since we looked.
    if group.has_passed(position.partition, position.offset) {
        return drop_done(groups, position);
    }
    Err(if group.is_done_for() { WaitError::Ended { group: name } } else { WaitError::WouldDeadlock { group: name } })
}
