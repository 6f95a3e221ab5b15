//! The plain values that describe a topic and a broker, each validated once, where it is used.
#![forbid(unsafe_code)]

use super::auto::Auto;
use super::key::Key;
use super::last::Wishes;
use super::partitioner::Partitioner;
use super::route::Rule;
use crate::group::ConfigError;
use crate::log::{Retain, Timestamps};
use crate::seq::Capacity;
use crate::sync::Arc;
use crate::time::{Clock, Ids, Random, SeededRandom, SequentialIds, SystemClock};
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
    pub(crate) last: Wishes<T>,
    pub(crate) retain: Retain,
    pub(crate) full: WhenFull,
    pub(crate) timestamps: Timestamps,
    pub(crate) max_age: Option<Duration>,
    pub(crate) prefault: bool,
    pub(crate) measured: bool,
}

/// What a publish does that finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It waits for the slowest group, no longer than this if there is a limit.
    Block(Option<Duration>),
    /// There always is room: the oldest record goes.
    DropOldest,
}

impl WhenFull {
    /// How long a publish may wait for room.
    pub(crate) const fn waits(self) -> Option<Duration> {
        match self {
            Self::Block(longest) => longest,
            Self::DropOldest => Some(Duration::ZERO),
        }
    }
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
            last: Wishes::new(),
            retain: Retain::Recent,
            full: WhenFull::Block(Some(Duration::from_secs(1))),
            timestamps: Timestamps::Off,
            max_age: None,
            prefault: false,
            measured: false,
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
    ///
    /// It returns a reference into the value. So a key of several parts (tenant and account, say) is either a field that holds
    /// them together, made before the publish, or a type of yours that holds the parts and implements [`Key`], by giving
    /// their bytes one behind the other, in a way that keeps `("ab", "c")` and `("a", "bc")` apart.
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
    /// waits until there is room or the topic closes. Takes [`drop_oldest`](Self::drop_oldest) back.
    ///
    /// A handler never waits for a lane of its own thread. Two handlers on two threads that publish into each other's
    /// full topics do wait for each other, and only this limit ends that: do not give such topics `None`.
    #[must_use]
    pub const fn block(mut self, longest: Option<Duration>) -> Self {
        self.full = WhenFull::Block(longest);
        self
    }

    /// When a partition is full, its oldest record goes, whoever has still to read it. Takes [`block`](Self::block) back:
    /// of the two, what was said last counts.
    ///
    /// * Publishing never waits for a group and is never refused for want of room: no handler, slow, stuck or paused,
    ///   holds anybody up, and neither does a group without a member. A publish to a full partition sheds exactly one
    ///   record, a batch as many as it needs.
    /// * A partition retains its last [`capacity`](Self::capacity) records exactly. (A batch that is being built in place, or
    ///   was given up, may cost some of those it would have replaced.) A group that falls further behind loses
    ///   what lies before them. It hears of it in that very place, by [`GroupConfig::on_gap`](crate::GroupConfig::on_gap)
    ///   and by [`Record::lost_before`](crate::Record::lost_before) of the next record, and counts it as `skipped`. Groups
    ///   that keep up lose nothing.
    /// * What a handler has in hand when it is overwritten stays valid until the handler returns, is acknowledged as usual,
    ///   and is not lost. A record that waits for its retry is not in hand: it may go.
    /// * The partition counts in [`dropped`](crate::PartitionStats::dropped) what was overwritten before every group had it
    ///   done, once however many groups lost it, or while there was no group at all.
    /// * [`Retain::Backlog`] and [`Retain::Recent`] are the same here: nothing waits for a group that is still to come.
    ///   With [`Retain::Unacked`] a record goes as soon as every group has it done, or when it is overwritten, whichever is
    ///   first; while there is no group nothing is kept.
    ///
    /// For a stream of which the latest part matters (prices, positions, metrics), never for payments.
    ///
    /// ```
    /// use ringlog::{Broker, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(3).drop_oldest())?;
    /// for n in 0..10 {
    ///     topic.publish(n)?;
    /// }
    /// let partition = topic.partition_stats(0).unwrap();
    /// assert_eq!((partition.earliest, partition.end, partition.dropped), (7, 10, 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn drop_oldest(mut self) -> Self {
        self.full = WhenFull::DropOldest;
        self
    }

    /// The longest that a record is kept (default: no limit): one that was published more than `age` ago goes, whoever has
    /// still to read it. One that is exactly as old stays. Zero is refused: it would keep nothing that anybody could rely
    /// on.
    ///
    /// * A record's age counts from the moment its publish was called, by the broker's clock, so a publish that waits for
    ///   room ages meanwhile. Only the oldest record of a partition is looked at: where a waiting publish, or a clock that
    ///   jumps, has left an older one behind a younger one, it goes when the younger one does. What has gone never
    ///   comes back, not even if the clock is turned back.
    /// * What is too old is never handed out, whoever asks: age is checked when a record is published, read or looked for,
    ///   with every question about the partition, and by the broker's timer in between.
    /// * It goes with both answers to a full partition. Where publishers wait for the slowest group, they wait for records
    ///   that are not too old: a group that hangs holds nobody up for longer than `age`.
    /// * A group hears of it as of any loss, by [`GroupConfig::on_gap`](crate::GroupConfig::on_gap) and
    ///   [`Record::lost_before`](crate::Record::lost_before), and counts it as `expired`. The partition counts in
    ///   [`expired`](crate::PartitionStats::expired) every record that went for its age, read or not.
    /// * What a handler has in hand is not lost, as with [`drop_oldest`](Self::drop_oldest).
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, ManualClock, TopicConfig};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let config = TopicConfig::<u64>::new().max_age(Duration::from_secs(60));
    /// let topic = broker.create_topic("sessions", config)?;
    /// topic.publish(1)?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(topic.len(0), Some(1));
    /// clock.advance(Duration::from_nanos(1));
    /// assert_eq!((topic.len(0), topic.partition_stats(0).unwrap().expired), (Some(0), 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn max_age(mut self, age: Duration) -> Self {
        self.max_age = Some(age);
        self
    }

    /// Whether records know when they were published (default [`Timestamps::Off`]). With a [`max_age`](Self::max_age) they do
    /// in any case, exactly.
    ///
    /// A group can then [start](crate::StartAt::Time) or [be moved](crate::SeekTo::Time) by time, a handler
    /// [sees the time](crate::Record::published_at), and what a group lags by can be said
    /// [in time](crate::Group::lag_time).
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, SeekTo, Time, Timestamps, TopicConfig};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().timestamps(Timestamps::Exact))?;
    /// for order in 0..10 {
    ///     topic.publish(order)?;
    ///     clock.advance(Duration::from_secs(60));
    /// }
    /// let audit = topic.group("audit", GroupConfig::latest())?;
    /// assert_eq!(audit.seek(0, SeekTo::Time(Time::ZERO + Duration::from_secs(90)))?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn timestamps(mut self, timestamps: Timestamps) -> Self {
        self.timestamps = timestamps;
        self
    }

    /// Whether creating the topic touches all its memory, so that no publish meets a page fault (default no).
    #[must_use]
    pub const fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// Whether each partition keeps the [largest backlog](crate::PartitionStats::largest_backlog) it ever had (default no): what
    /// some group had still to acknowledge, counted right after each publish.
    ///
    /// To see how much of a capacity is really needed, and whether it was ever reached. It costs each publish a look at the
    /// cursors of all groups; where it is off, nothing.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::new().capacity(8).measure_backlog(true))?;
    /// topic.group("billing", GroupConfig::earliest())?;
    /// topic.publish_batch(0..5)?;
    /// assert_eq!(topic.partition_stats(0).unwrap().largest_backlog, Some(5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn measure_backlog(mut self, measure: bool) -> Self {
        self.measured = measure;
        self
    }

    /// Checks every bound.
    pub(crate) fn validate(&self) -> Result<Shape, ConfigError> {
        let partitions = NonZeroU32::new(self.partitions)
            .filter(|partitions| partitions.get() <= PARTITIONS_MAX)
            .ok_or_else(|| ConfigError::new("partitions", self.partitions.to_string(), "between 1 and 4096"))?;
        let capacity = Capacity::new(self.capacity)
            .ok_or_else(|| ConfigError::new("capacity", self.capacity.to_string(), "between 1 and 1073741824"))?;
        if self.max_age.is_some_and(|age| age.is_zero()) {
            return Err(ConfigError::new("max_age", "0ns", "longer than zero"));
        }
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
        Self { rule: self.rule.clone(), last: self.last.clone(), retain: self.retain, ..*self }
    }
}

impl<T> fmt::Debug for TopicConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicConfig")
            .field("partitions", &self.partitions)
            .field("capacity", &self.capacity)
            .field("rule", &self.rule)
            .field("last", &self.last)
            .field("retain", &self.retain)
            .field("full", &self.full)
            .field("timestamps", &self.timestamps)
            .field("max_age", &self.max_age)
            .field("prefault", &self.prefault)
            .field("measure_backlog", &self.measured)
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
    pub(crate) random: Arc<dyn Random>,
    pub(crate) auto: Auto,
}

impl BrokerConfig {
    /// The system's monotonic clock, sequential identifiers, dice that fall differently each time.
    pub fn new() -> Self {
        let random = Arc::new(SeededRandom::unseeded());
        Self {
            clock: Arc::new(SystemClock::new()),
            ids: Arc::new(SequentialIds::new("m")),
            random,
            auto: Auto::default(),
        }
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

    /// The dice for [`Retry::jitter`](crate::Retry::jitter): [`SeededRandom`] for runs that can be repeated.
    #[must_use]
    pub fn random(mut self, random: Arc<dyn Random>) -> Self {
        self.random = random;
        self
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self::new()
    }
}
