//! The plain values that describe a topic and a broker, each validated once, where it is used.
#![forbid(unsafe_code)]

use super::key::Key;
use super::partitioner::Partitioner;
use super::route::Rule;
use crate::group::ConfigError;
use crate::log::Retain;
use crate::seq::Capacity;
use crate::sync::Arc;
use crate::time::{Clock, Ids, SequentialIds, SystemClock};
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// The most partitions a topic may have.
pub const PARTITIONS_MAX: u32 = 4_096;

/// The most records a partition may hold.
pub const CAPACITY_MAX: usize = 1 << 30;

/// How a topic stores, routes and refuses; given to [`Broker::create_topic`](crate::Broker::create_topic).
///
/// Setters check nothing; creating the topic validates all of it and names the field, the value and the bound.
///
/// ```
/// use ringlog::{Broker, CreateError, TopicConfig};
///
/// let refused = Broker::new().create_topic("orders", TopicConfig::<u64>::new().capacity(0));
/// assert_eq!(refused.unwrap_err().to_string(), "capacity is 0, but must be between 1 and 1073741824");
/// ```
pub struct TopicConfig<T> {
    partitions: u32,
    capacity: usize,
    pub(crate) rule: Rule<T>,
    pub(crate) retain: Retain,
    pub(crate) block: Option<Duration>,
    pub(crate) prefault: bool,
}

/// What [`TopicConfig`] says once it has been validated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) partitions: NonZeroU32,
    pub(crate) capacity: Capacity,
}

impl<T> TopicConfig<T> {
    /// One partition of 8,192 records, keyless, `Recent` retention, publishes wait at most one second for room.
    pub const fn new() -> Self {
        Self {
            partitions: 1,
            capacity: 8_192,
            rule: Rule::new(),
            retain: Retain::Recent,
            block: Some(Duration::from_secs(1)),
            prefault: false,
        }
    }

    /// The number of partitions, 1 to [`PARTITIONS_MAX`] (default 1). Order is kept inside a partition only.
    #[must_use]
    pub const fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// The number of records each partition holds, 1 to [`CAPACITY_MAX`], exactly as asked (default 8,192).
    #[must_use]
    pub const fn capacity(mut self, records: usize) -> Self {
        self.capacity = records;
        self
    }

    /// Routes by the key that `f` finds in a value: the same key always goes to the same partition.
    ///
    /// `f` runs in the publishing thread before anything is claimed; if it panics, the publish does, and nothing is
    /// stored. With one partition and no [partitioner](Self::partitioner) of your own it is not asked.
    #[must_use]
    pub fn key<K: Key + ?Sized>(mut self, f: impl Fn(&T) -> &K + Send + Sync + 'static) -> Self {
        self.rule.key(f);
        self
    }

    /// Like [`TopicConfig::key`], for values of which some have no key; those go round robin.
    #[must_use]
    pub fn optional_key<K: Key + ?Sized>(mut self, f: impl Fn(&T) -> Option<&K> + Send + Sync + 'static) -> Self {
        self.rule.optional_key(f);
        self
    }

    /// The rule from key to partition (default [`Crc32`](crate::Crc32), and round robin for values without a key).
    #[must_use]
    pub fn partitioner(mut self, rule: impl Partitioner) -> Self {
        self.rule.partitioner(rule);
        self
    }

    /// What is kept when no group needs it (default [`Retain::Recent`]).
    #[must_use]
    pub const fn retain(mut self, retain: Retain) -> Self {
        self.retain = retain;
        self
    }

    /// The longest that a publish waits for room (default one second): `Some(Duration::ZERO)` never waits, `None`
    /// waits until there is room or the topic closes.
    ///
    /// A handler never waits for a lane of its own thread. Two handlers on two threads that publish into each other's
    /// full topics do wait for each other, and only this limit ends that: do not give such topics `None`.
    #[must_use]
    pub const fn block(mut self, longest: Option<Duration>) -> Self {
        self.block = longest;
        self
    }

    /// Whether creating the topic touches all its memory, so that no publish meets a page fault (default no).
    #[must_use]
    pub const fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// Checks every bound.
    pub(crate) fn validate(&self) -> Result<Shape, ConfigError> {
        let partitions = NonZeroU32::new(self.partitions)
            .filter(|partitions| partitions.get() <= PARTITIONS_MAX)
            .ok_or_else(|| ConfigError::new("partitions", self.partitions.to_string(), "between 1 and 4096"))?;
        let capacity = Capacity::new(self.capacity)
            .ok_or_else(|| ConfigError::new("capacity", self.capacity.to_string(), "between 1 and 1073741824"))?;
        Ok(Shape { partitions, capacity })
    }
}

impl<T> Default for TopicConfig<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for TopicConfig<T> {
    fn clone(&self) -> Self {
        Self { rule: self.rule.clone(), retain: self.retain, ..*self }
    }
}

impl<T> fmt::Debug for TopicConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicConfig")
            .field("partitions", &self.partitions)
            .field("capacity", &self.capacity)
            .field("rule", &self.rule)
            .field("retain", &self.retain)
            .field("block", &self.block)
            .field("prefault", &self.prefault)
            .finish()
    }
}

/// What a broker gets from outside: the time and its identifiers.
///
/// ```
/// use ringlog::{Broker, BrokerConfig, ManualClock};
/// use std::sync::Arc;
///
/// let clock = Arc::new(ManualClock::new());
/// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
/// # drop(broker);
/// ```
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
}

impl BrokerConfig {
    /// The system's monotonic clock, sequential identifiers.
    pub fn new() -> Self {
        Self { clock: Arc::new(SystemClock::new()), ids: Arc::new(SequentialIds::new("m")) }
    }

    /// The clock that every deadline, backoff and timestamp of this broker is measured by.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where names come from that nobody gave.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self::new()
    }
}
