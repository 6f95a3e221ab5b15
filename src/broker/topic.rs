//! The handle of a topic: publish to it, ask it, make groups on it.
#![forbid(unsafe_code)]

use super::batch::{self, Spoilt, Stored};
use super::cancel::Patience;
use super::core::{self, Core, Published, ctl};
use super::error::{BatchError, PublishError, Share};
use crate::log::Log;
use crate::sync::Arc;
use crate::time::Deadline;
use crate::wait::Canceller;
use std::fmt;
use std::time::Duration;

/// A topic of records of type `T`: a handle, cheap to clone, that keeps nothing but the topic alive.
///
/// Publishing through it looks up no name, takes no lock and allocates nothing. Records of one partition are delivered
/// to each group in the order of their offsets; across partitions no order is promised. All that a thread did before a
/// publish is visible to whoever receives the record.
///
/// A handle stays valid after its topic was deleted or its broker closed; it then refuses to publish and says why.
pub struct Topic<T>(pub(crate) Arc<Core<T>>);

/// How publishes to a topic fared. Each only grows; read one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishCounts {
    /// Publishes that found no room and waited.
    pub blocked: u64,
    /// Publishes that found no room and gave up, at once or after a wait.
    pub rejected: u64,
    /// The largest of the partitions' [largest backlogs](crate::PartitionStats::largest_backlog); `None` unless the topic
    /// [measures](crate::TopicConfig::measure_backlog) them.
    pub largest_backlog: Option<u64>,
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// The name it was created under.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Stores `value` in the partition of its key (or of the next turn), waiting for room as long as the topic allows.
    ///
    /// Lock-free while there is room: some producer always gets on, and a producer that is preempted in the middle
    /// delays only the visibility of what follows it in that partition. Blocks up to
    /// [`TopicConfig::block`](crate::TopicConfig::block) when the slowest group leaves no room, and never where the topic
    /// [drops its oldest](crate::TopicConfig::drop_oldest). A waiting publish has claimed nothing.
    ///
    /// # Errors
    ///
    /// The value comes back in every one: no room in time, broker closed, topic deleted, would deadlock, no such
    /// partition (by the partitioner), topic with an exclusive producer, out of memory; see [`PublishError`].
    ///
    /// # Panics
    ///
    /// Where the topic's key extractor or partitioner does, if they are asked; nothing is stored then.
    ///
    /// ```
    /// use ringlog::{Broker, Position, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let words = broker.create_topic("words", TopicConfig::new().partitions(2).key(|word: &String| word))?;
    /// let at = words.publish("alice".to_string())?;
    /// assert_eq!(at.position, Position { partition: 1, offset: 0 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn publish(&self, value: T) -> Result<Published, PublishError<T>> {
        self.0.append(|value| self.0.route(value), value, |core| core.block)
    }

    /// Like [`Topic::publish`], but never waits.
    #[inline(always)]
    pub fn try_publish(&self, value: T) -> Result<Published, PublishError<T>> {
        self.0.append(|value| self.0.route(value), value, |_| Some(Duration::ZERO))
    }

    /// Like [`Topic::try_publish`], but wakes nobody, so that the call makes no system call: for real-time threads.
    ///
    /// Members that are awake see the record as soon as ever; one that sleeps sees it with the next ordinary publish to
    /// the partition, with [`Topic::wake`], or when it looks of its own accord, after ten seconds at the latest. With
    /// [`TopicConfig::prefault`](crate::TopicConfig::prefault) no memory is touched for the first time either, unless
    /// readers that stay behind make the partition larger.
    ///
    /// One thing can make it wait all the same: a partition that another thread has had to itself so far. It is then
    /// taken over behind a system call, at most four times in its life. A [`Producer`](crate::Producer) never meets that.
    ///
    /// # Errors
    ///
    /// As [`Topic::try_publish`].
    ///
    /// ```
    /// let broker = ringlog::Broker::new();
    /// let samples = broker.create_topic("samples", ringlog::TopicConfig::<f32>::new())?;
    /// samples.publish_quietly(0.25)?; // in the audio callback
    /// samples.wake(); // now and then, elsewhere
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_quietly(&self, value: T) -> Result<Published, PublishError<T>> {
        let core = &*self.0;
        if core.exclusive {
            return Err(core.refuse(value));
        }
        let at = core.route(&value);
        core.append_now(at, value, |from| Some(core.logs.get(at as usize)?.offer_quietly(from)))
    }

    /// Wakes the members that sleep, whoever they wait for: the other half of [`Topic::publish_quietly`].
    pub fn wake(&self) {
        self.0.logs.iter().for_each(|log| log.not_empty().notify());
    }

    /// Like [`Topic::publish`], but waits for room no longer than `limit` by the broker's clock, nor than the topic
    /// allows.
    #[inline]
    pub fn publish_within(&self, value: T, limit: Duration) -> Result<Published, PublishError<T>> {
        self.0.append(|value| self.0.route(value), value, |core| Some(core.no_longer_than(limit)))
    }

    /// Like [`Topic::publish`], to a partition of the caller's choice; nothing is routed.
    #[inline]
    pub fn publish_to(&self, partition: u32, value: T) -> Result<Published, PublishError<T>> {
        self.0.append(|_| partition, value, |core| core.block)
    }

    /// Stores many values: routed first, then one claim for each partition's share, in order of the partitions.
    ///
    /// Each share is stored whole or not at all, contiguous and in the order of `values`. One wait, as long as the topic
    /// allows, serves all shares. Allocates the buffers for the shares, once per call.
    ///
    /// # Errors
    ///
    /// [`BatchError::Stopped`] at the first partition that refuses its share: it says what was stored before and gives
    /// all the rest back. [`BatchError::TooLarge`] if a share is larger than its partition, which stores nothing; a
    /// source without a known size, or whose size no memory has room for, is then not read further (pass `&mut source` to
    /// go on with it).
    ///
    /// # Panics
    ///
    /// Where the source, the key extractor or the partitioner does; nothing is stored then.
    ///
    /// ```
    /// use ringlog::{Broker, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let numbers = broker.create_topic("numbers", TopicConfig::new().partitions(2))?;
    /// let stored = numbers.publish_batch(0..10)?;
    /// assert_eq!((stored[0].partition, stored[0].offsets.clone()), (0, 0..5));
    /// assert_eq!((stored[1].partition, stored[1].offsets.clone()), (1, 0..5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_batch(&self, values: impl IntoIterator<Item = T>) -> Result<Vec<Share>, BatchError<T>> {
        self.store_batch(values, Patience::of(self.0.block))
    }

    pub(super) fn store_batch(
        &self,
        values: impl IntoIterator<Item = T>,
        patience: Patience<'_>,
    ) -> Result<Vec<Share>, BatchError<T>> {
        let core = &*self.0;
        let capacity = core.capacity();
        let shares = batch::shares(core.partitions.get());
        let shares = batch::gather(values.into_iter(), shares, capacity, |value| core.route(value))
            .map_err(|spoilt| core.spoilt(spoilt))?;
        let (mut deadline, mut last) = (None, core.last.prepare(&shares));
        batch::store(Vec::with_capacity(shares.len()), shares, |partition, share| {
            if !core.life.admits() || core.exclusive {
                return Err((share, core.refuse(())));
            }
            let deadline = *deadline.get_or_insert_with(|| core.life.within(patience.block));
            core.append_share(partition, share, deadline, patience.cancel).inspect(|share| last.stored(share))
        })
    }

    /// The partition that [`Topic::publish`] would choose, without publishing. For a value without a key this is a
    /// hint: another producer may take the turn.
    pub fn partition_for(&self, value: &T) -> u32 {
        self.0.router.route(value, || self.0.turns.peek())
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u32 {
        self.0.partitions.get()
    }

    /// The records that each partition holds at most.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The earliest offset of a partition that a new group may start at; `None` if there is no such partition. It only
    /// rises, and may have risen already.
    pub fn earliest(&self, partition: u32) -> Option<u64> {
        self.0.log(partition).map(|log| log.earliest().get())
    }

    /// The offset that the next record of a partition gets; `None` if there is no such partition. It only rises, and
    /// may have risen already.
    pub fn end(&self, partition: u32) -> Option<u64> {
        self.0.log(partition).map(|log| log.end().get())
    }

    /// How many records of a partition are retained: a hint, as producers may be at work; `None` if there is no such
    /// partition.
    pub fn len(&self, partition: u32) -> Option<u64> {
        self.0.log(partition).map(|log| log.len())
    }

    /// Whether the topic takes no more records: it was deleted, or its broker is closed.
    pub fn is_closed(&self) -> bool {
        self.0.logs.iter().all(|log| log.is_closed())
    }
}

impl<T: Send + Sync + 'static> Core<T> {
    pub(crate) fn log(&self, partition: u32) -> Option<&Arc<Log<T>>> {
        self.logs.get(partition as usize)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.logs[0].ring().capacity().get() as usize
    }

    /// Why a batch was given up while it was gathered.
    #[cold]
    pub(crate) fn spoilt(&self, spoilt: Spoilt<T>) -> BatchError<T> {
        match spoilt {
            Spoilt::TooLarge { rest, partition, len } => {
                BatchError::TooLarge { rest, topic: self.name.clone(), partition, len, capacity: self.capacity() }
            }
            Spoilt::NoSuchPartition { rest, partition } => {
                BatchError::Stopped { stored: Vec::new(), rest, why: self.no_such(partition, ()) }
            }
        }
    }

    fn append_share(
        &self,
        partition: u32,
        mut share: Vec<T>,
        deadline: Deadline,
        cancel: Option<&Canceller>,
    ) -> Stored<T> {
        if let Some(full) = self.full_as_planned(partition) {
            return Err((share, PublishError::Full { value: (), full }));
        }
        let refuse = |tag| self.groups.stepped_here(tag);
        match self.logs[partition as usize].append_all(&mut share, deadline, &ctl(&refuse, cancel)) {
            Ok(appended) => Ok(core::share(partition, appended)),
            Err(error) => Err((share, self.explain(partition, error))),
        }
    }
}

impl<T> Clone for Topic<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Topic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic")
            .field("name", &self.0.name)
            .field("partitions", &self.0.partitions)
            .field("state", &self.0.life.state())
            .finish_non_exhaustive()
    }
}
