//! What can go wrong with groups and members.
#![forbid(unsafe_code)]

use super::config::ConfigError;
use super::executor::PlaceError;
use super::name::NameError;
use crate::sync::Arc;

/// A group was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The text cannot be a name.
    #[error("a group of topic '{topic}': {reason}")]
    Name {
        /// The topic.
        topic: Arc<str>,
        /// Why.
        reason: NameError,
    },
    /// There is a group of this name with other settings; ask for it with its own, or delete it first.
    #[error(
        "group '{group}' of topic '{topic}' exists with another {field}; delete it first, or ask with its settings"
    )]
    Differs {
        /// The topic.
        topic: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The first setting that differs.
        field: &'static str,
    },
    /// There is no group of this name.
    #[error("topic '{topic}' has no group '{group}'")]
    Unknown {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// The topic takes no groups any more.
    #[error("group '{group}' was not made: topic '{topic}' was deleted, or its broker is closed")]
    Closed {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// A setting is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The offset store could not say where the group was in a partition. Nothing was made: ask again, or without the store.
    #[error("group was not made, partition {partition} is unknown: {failure}")]
    NotLoaded {
        /// What it said.
        failure: StoreFailure,
        /// The first partition of which it could not say it.
        partition: u32,
    },
    /// The offset store says that the group was further than the partition goes: what it knows is of another topic of that
    /// name, from before a restart or before the topic was deleted. Nothing was made, and no record is passed over: have the
    /// store forget the group, or publish first what that topic had, in the same order.
    #[error(
        "group '{group}' was not made: its store says {stored} of '{topic}/{partition}', which ends at {end}, so it knows \
         another '{topic}'; have it forget the group, or publish first what that one had"
    )]
    StoredAhead {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
        /// The first partition that does not go so far.
        partition: u32,
        /// The next offset to be read, by the store.
        stored: u64,
        /// Where the partition ends.
        end: u64,
    },
    /// The group has an offset store or a watermark, and the system refused the thread that looks after them, of which there
    /// is one a broker. Try again when there are fewer threads.
    #[error("group '{group}' was not made: no thread for the timer ({why})")]
    NoTimer {
        /// The group asked for.
        group: Arc<str>,
        /// What the system said.
        why: std::io::ErrorKind,
    },
    /// Its members share the records of a partition, which must then stay until they are done: not on a topic that
    /// [drops its oldest](crate::TopicConfig::drop_oldest), or whose records [have an age](crate::TopicConfig::max_age).
    #[error(
        "group '{group}' was not made: its members share records, and topic '{topic}' may lose them before they are done; \
         leave out TopicConfig::drop_oldest and max_age, or GroupConfig::order"
    )]
    Sheds {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// Its order is [by key](crate::Order::Key), and the topic's records have none: set [`TopicConfig::key`](crate::TopicConfig::key)
    /// or [`optional_key`](crate::TopicConfig::optional_key), or take [`Order::Shared`](crate::Order::Shared).
    #[error(
        "group '{group}' was not made: its order is by key, and topic '{topic}' has no keys; set TopicConfig::key or \
         optional_key, or take Order::Shared"
    )]
    NoKeys {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// More records were to wait for it than the topic can keep for it: an eighth of its capacity is for what is in hand.
    #[error(
        "group '{group}' was not made: {records} records were to wait for it, but topic '{topic}', which holds {capacity}, \
         can have {most} waiting; a larger TopicConfig::capacity, or a smaller Overflow"
    )]
    Overflow {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
        /// How many were to wait.
        records: u64,
        /// How many may.
        most: u64,
        /// The topic's capacity.
        capacity: u64,
    },
    /// It was to drop the newest, and the topic's records [have an age](crate::TopicConfig::max_age): what waits for it is in clones, which
    /// would not know theirs.
    #[error(
        "group '{group}' was not made: it drops the newest, and records of topic '{topic}' have an age, which what waits for it \
         would not keep to; leave out TopicConfig::max_age, or take Overflow::drop_oldest"
    )]
    Ages {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// It was to hold publishers back, and the topic [drops its oldest](crate::TopicConfig::drop_oldest) so that nobody does.
    #[error(
        "group '{group}' was not made: topic '{topic}' never waits; leave out TopicConfig::drop_oldest, or Overflow::block"
    )]
    NeverWaits {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
    /// It was to start by time, and the topic's records have none: set [`TopicConfig::timestamps`](crate::TopicConfig::timestamps).
    #[error(
        "group '{group}' was not made: start is a time, but topic '{topic}' has no timestamps; set TopicConfig::timestamps"
    )]
    NoTimes {
        /// The topic.
        topic: Arc<str>,
        /// The group asked for.
        group: Arc<str>,
    },
}

/// A member was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The text cannot be a name.
    #[error("a member of group '{group}': {reason}")]
    Name {
        /// The group.
        group: Arc<str>,
        /// Why.
        reason: NameError,
    },
    /// Names are unique within a group: leave first, or take another.
    #[error("member '{member}' is already in group '{group}'")]
    Duplicate {
        /// The group.
        group: Arc<str>,
        /// The name.
        member: Arc<str>,
    },
    /// The group was deleted, or its topic or broker closed.
    #[error("group '{group}' takes no members any more: it was deleted, or its broker is closed")]
    Closed {
        /// The group.
        group: Arc<str>,
    },
    /// A thread for each lane needs a handler for each: `subscribe_with`.
    #[error(
        "member '{member}' of group '{group}' wants a thread for each lane, but has one handler; use subscribe_with, or subscribe_batch_with"
    )]
    OneHandler {
        /// The group.
        group: Arc<str>,
        /// The name.
        member: Arc<str>,
    },
    /// It wants a partition that the topic has not.
    #[error(
        "member '{member}' of group '{group}' wants partition {partition} of topic '{topic}', which has {partitions}, from 0 on"
    )]
    NoPartition {
        /// The topic.
        topic: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The name.
        member: Arc<str>,
        /// The partition.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The group [drops the newest](crate::Overflow::drop_newest), or wants the [latest of each key](crate::Overflow::latest_by):
    /// handlers serve it, and nobody polls there.
    #[error(
        "consumer '{member}' of group '{group}': only handlers serve a group that drops the newest, or wants the latest of each \
         key; subscribe one"
    )]
    Clones {
        /// The group.
        group: Arc<str>,
        /// The name.
        member: Arc<str>,
    },
    /// Its executor did not take it.
    #[error("member '{member}' of group '{group}' has nobody to run it: {reason}")]
    NotPlaced {
        /// The group.
        group: Arc<str>,
        /// The name.
        member: Arc<str>,
        /// Why.
        reason: PlaceError,
    },
}

/// A store did not do what a group asked of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the offset store failed group '{group}' of topic '{topic}': {message}")]
#[non_exhaustive]
pub struct StoreFailure {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The text of the error, or of the panic.
    pub message: String,
}

/// A seek to just one offset found that it is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffsetError {
    /// It is gone. Read on from the earliest that is retained.
    #[error("offset {offset} was trimmed from {topic}/{partition}; earliest is {earliest}")]
    Gone {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
        /// The offset asked for.
        offset: u64,
        /// Where the log now begins.
        earliest: u64,
    },
    /// It has not been published yet, and is not the next one either.
    #[error("offset {offset} of {topic}/{partition} is not there yet; the next one is {end}")]
    Beyond {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
        /// The offset asked for.
        offset: u64,
        /// The offset that the next record gets.
        end: u64,
    },
    /// No such partition, or the group was deleted, or its broker closed.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// An offset was not committed from outside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The cursor is elsewhere, and stays there. Decide anew from where it is.
    #[error("group '{group}' stands at offset {found} of partition {partition}, not at {expected}")]
    Elsewhere {
        /// The group.
        group: Arc<str>,
        /// The partition.
        partition: u32,
        /// Where it was expected.
        expected: u64,
        /// Where it is.
        found: u64,
    },
    /// No such partition, or the group was deleted, or its broker closed.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A seek or pause was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The topic has fewer partitions.
    #[error("topic '{topic}' has no partition {partition}, only {partitions}")]
    NoPartition {
        /// The topic.
        topic: Arc<str>,
        /// What was asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The group was deleted, or its topic or broker closed.
    #[error("group '{group}' was deleted, or its broker is closed")]
    Deleted {
        /// The group.
        group: Arc<str>,
    },
    /// A seek by time, and the topic's records have none: set [`TopicConfig::timestamps`](crate::TopicConfig::timestamps).
    #[error("group '{group}' cannot seek by time: topic '{topic}' has no timestamps; set TopicConfig::timestamps")]
    NoTimes {
        /// The topic.
        topic: Arc<str>,
        /// The group.
        group: Arc<str>,
    },
}
