//! The one producer of an exclusive topic.
#![forbid(unsafe_code)]

use super::batch::{self, Stored};
use super::cancel::Patience;
use super::core::{self, Core, Published, ctl, published};
use super::error::{BatchError, PublishError, Share};
use crate::log::LogProducer;
use crate::sync::Arc;
use crate::time::Deadline;
use crate::wait::Canceller;
use std::fmt;
use std::time::Duration;

/// The one producer over all partitions of a topic made by
/// [`Broker::create_exclusive`](crate::Broker::create_exclusive).
///
/// It takes `&mut self` and can be sent to another thread, so there is never a second one at work; that makes a publish
/// wait-free while there is room (and the topic has no [`max_age`](crate::TopicConfig::max_age), which has to be looked
/// after), without any atomic read-modify-write, and allows publishing in place. Dropping it
/// closes nothing: the topic stays, and takes no more records.
///
/// ```compile_fail
/// # let broker = ringlog::Broker::new();
/// let (_, producer) = broker.create_exclusive("ticks", ringlog::TopicConfig::<u64>::new()).unwrap();
/// let second = producer.clone(); // there is only one
/// ```
pub struct Producer<T> {
    core: Arc<Core<T>>,
    logs: Box<[LogProducer<T>]>,
    /// Of keyless records.
    turn: u64,
    /// Nothing stands between a record and its partition: the topic keeps no last values.
    direct: bool,
}

impl<T: Send + Sync + 'static> Producer<T> {
    pub(crate) fn new(core: Arc<Core<T>>, logs: Box<[LogProducer<T>]>) -> Self {
        let direct = core.last.is_empty();
        Self { core, logs, turn: 0, direct }
    }

    /// Stores `value` in the partition of its key (or of the next turn), waiting for room as long as the topic allows.
    ///
    /// Wait-free while there is room. Errors and panics as [`Topic::publish`](crate::Topic::publish).
    ///
    /// ```
    /// use ringlog::{Broker, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let (ticks, mut producer) = broker.create_exclusive("ticks", TopicConfig::<u64>::new())?;
    /// assert_eq!(producer.publish(7)?.offset(), 0);
    /// assert!(ticks.publish(8).is_err(), "there is one producer, and the topic is not it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn publish(&mut self, value: T) -> Result<Published, PublishError<T>> {
        self.append(Self::route, value, |core| core.block)
    }

    /// Like [`Producer::publish`], but never waits.
    #[inline(always)]
    pub fn try_publish(&mut self, value: T) -> Result<Published, PublishError<T>> {
        self.append(Self::route, value, |_| Some(Duration::ZERO))
    }

    /// Like [`Producer::try_publish`], but wakes nobody, so that the call makes no system call: for real-time threads.
    ///
    /// Members that are awake see the record as soon as ever; one that sleeps sees it with the next ordinary publish to
    /// the partition, with [`Topic::wake`](crate::Topic::wake) of its topic, or when it looks of its own accord, after
    /// ten seconds at the latest. With [`TopicConfig::prefault`](crate::TopicConfig::prefault) no memory is touched for the
    /// first time either, unless readers that stay behind make the partition larger.
    ///
    /// # Errors
    ///
    /// As [`Producer::try_publish`].
    pub fn publish_quietly(&mut self, value: T) -> Result<Published, PublishError<T>> {
        let at = self.route(&value);
        let (core, logs) = (&self.core, &mut self.logs);
        core.append_now(at, value, |from| Some(logs.get_mut(at as usize)?.offer_quietly(from)))
    }

    /// Like [`Producer::publish`], but waits for room no longer than `limit` by the broker's clock, nor than the topic
    /// allows.
    #[inline]
    pub fn publish_within(&mut self, value: T, limit: Duration) -> Result<Published, PublishError<T>> {
        self.append(Self::route, value, |core| Some(core.no_longer_than(limit)))
    }

    /// Like [`Producer::publish`], to a partition of the caller's choice; nothing is routed.
    #[inline]
    pub fn publish_to(&mut self, partition: u32, value: T) -> Result<Published, PublishError<T>> {
        self.append(|_, _| partition, value, |core| core.block)
    }

    /// Stores many values, as [`Topic::publish_batch`](crate::Topic::publish_batch) does.
    ///
    /// A batch for which there is room, of no more than an eighth of the capacity for any partition, is built where it will
    /// lie, and the only allocation is that of the answer.
    pub fn publish_batch(&mut self, values: impl IntoIterator<Item = T>) -> Result<Vec<Share>, BatchError<T>> {
        let mut values = values.into_iter().fuse();
        if !self.direct || self.core.plans() {
            return self.publish_gathered(Vec::new(), None, values, Patience::of(self.core.block));
        }
        let staging = Staging(self);
        let left_over = staging.0.stage(&mut values);
        let mut stored = Vec::with_capacity(staging.0.logs.len());
        if left_over.is_none() && staging.0.core.life.admits() && staging.0.store_staged(&mut stored) {
            return Ok(stored);
        }
        let patience = Patience::of(staging.0.core.block);
        staging.0.publish_gathered(stored, left_over, values, patience)
    }

    /// Routes values and puts them where they will lie, for as long as there are any and there is room. The one for which
    /// there was none comes back, with its partition.
    fn stage(&mut self, values: &mut impl Iterator<Item = T>) -> Option<(u32, T)> {
        let (mut left_over, mut at) = (None, 0);
        for value in values {
            let value = left_over.insert(value);
            at = self.route(value);
            let log = self.logs.get_mut(at as usize);
            if log.is_none_or(|log| log.stage(&mut left_over).is_err()) {
                break;
            }
        }
        left_over.map(|value| (at, value))
    }

    /// Stores what is staged; false at the first partition that is closed.
    fn store_staged(&mut self, stored: &mut Vec<Share>) -> bool {
        (0..).zip(&mut self.logs).filter(|(_, log)| log.staged() > 0).all(|(partition, log)| {
            let appended = log.store_staged();
            stored.extend(appended.ok().map(|appended| core::share(partition, appended)));
            log.staged() == 0
        })
    }

    /// The way of batches for which there is no room: takes back what is staged, gathers the rest, and waits.
    #[cold]
    pub(super) fn publish_gathered(
        &mut self,
        stored: Vec<Share>,
        left_over: Option<(u32, T)>,
        values: impl Iterator<Item = T>,
        patience: Patience<'_>,
    ) -> Result<Vec<Share>, BatchError<T>> {
        let core = self.core.clone();
        let mut shares = batch::shares(core.partitions.get());
        self.logs.iter_mut().zip(&mut shares).for_each(|(log, share)| log.unstage(share));
        let (mut routed, first) = left_over.unzip();
        let route = |value: &T| routed.take().unwrap_or_else(|| self.route(value));
        let shares = batch::gather(first.into_iter().chain(values), shares, core.capacity(), route)
            .map_err(|spoilt| core.spoilt(spoilt))?;
        let (mut deadline, mut last) = (None, core.last.prepare(&shares));
        batch::store(stored, shares, |partition, share| {
            if !core.life.admits() {
                return Err((share, core.refuse(())));
            }
            let deadline = *deadline.get_or_insert_with(|| core.life.within(patience.block));
            self.append_share(partition, share, deadline, patience.cancel).inspect(|share| last.stored(share))
        })
    }

    /// Publishes in place, without moving a record: `fill` gets the record that lies in the slot since it was last
    /// used, or what `fresh` makes for a slot that was never used, and writes the new one over it. So buffers inside the
    /// record are used again. Never waits.
    ///
    /// `fresh` and `fill` run before anything is claimed, and so does what makes last values. Wait-free apart from them.
    ///
    /// # Errors
    ///
    /// As [`Producer::try_publish`], with no value to give back; `fill` may have run or not.
    ///
    /// # Panics
    ///
    /// Where `fresh` or `fill` does; nothing is published then, and the producer stays usable.
    ///
    /// ```
    /// use ringlog::{Broker, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let (lines, mut producer) = broker.create_exclusive("lines", TopicConfig::<String>::new())?;
    /// let at = producer.publish_in_place(0, String::new, |line| {
    ///     line.clear();
    ///     line.push_str("departure");
    /// })?;
    /// assert_eq!((at.offset(), lines.end(0)), (0, Some(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn publish_in_place(
        &mut self,
        partition: u32,
        fresh: impl FnOnce() -> T,
        fill: impl FnOnce(&mut T),
    ) -> Result<Published, PublishError<()>> {
        if !self.core.life.admits() {
            return Err(self.core.refuse(()));
        }
        let Some(log) = self.logs.get_mut(partition as usize) else {
            return Err(self.core.no_such(partition, ()));
        };
        let core = &self.core;
        if let Some(full) = core.full_as_planned(partition) {
            return Err(PublishError::Full { value: (), full });
        }
        let stored = |appended| published(partition, appended);
        if self.direct {
            return log.try_append_in_place(fresh, fill).map(stored).map_err(|error| core.explain(partition, error));
        }
        core.last.publish_in_place(fill, |fill| {
            log.try_append_in_place(fresh, fill).map(stored).map_err(|error| core.explain(partition, error))
        })
    }

    pub(super) fn core(&self) -> &Core<T> {
        &self.core
    }

    /// The partition that [`Producer::publish`] would choose, without publishing.
    pub fn partition_for(&self, value: &T) -> u32 {
        self.core.router.route(value, || self.turn)
    }

    #[inline(always)]
    pub(super) fn route(&mut self, value: &T) -> u32 {
        let turn = &mut self.turn;
        self.core.router.route(value, || {
            let now = *turn;
            *turn = turn.wrapping_add(1);
            now
        })
    }

    /// Routes and stores. Inlined, so that the value is built where it is routed from, and then moved once.
    #[inline(always)]
    fn append(
        &mut self,
        at: impl FnOnce(&mut Self, &T) -> u32,
        value: T,
        block: impl FnOnce(&Core<T>) -> Option<Duration>,
    ) -> Result<Published, PublishError<T>> {
        let mut value = Some(value);
        let at = value.as_ref().map_or(0, |value| at(self, value));
        if self.core.life.admits() && self.direct && !self.core.plans() {
            if let Some(log) = self.logs.get_mut(at as usize) {
                if let Ok(appended) = log.offer(&mut value) {
                    return Ok(published(at, appended));
                }
            }
        }
        self.append_patiently(at, &mut value, Patience::of(block(&self.core)))
    }

    /// What could not be stored at once: keeps last values, waits, or says why not.
    #[cold]
    #[inline(never)]
    pub(super) fn append_patiently(
        &mut self,
        at: u32,
        value: &mut Option<T>,
        patience: Patience<'_>,
    ) -> Result<Published, PublishError<T>> {
        let (core, value) = (&self.core, value.take().expect("it was refused, so it is still here"));
        if !core.life.admits() {
            return Err(core.refuse(value));
        }
        let Some(log) = self.logs.get_mut(at as usize) else {
            return Err(core.no_such(at, value));
        };
        if let Some(full) = core.full_as_planned(at) {
            return Err(PublishError::Full { value, full });
        }
        let refuse = |tag| core.groups.stepped_here(tag);
        let direct = self.direct; // then it was tried before
        core.last.publish(value, |value| {
            let mut value = Some(value);
            let at_once = if direct { None } else { log.offer(&mut value).ok() };
            let stored = match (at_once, value) {
                (Some(appended), _) => Ok(appended),
                (None, None) => unreachable!("what was not stored is still there"),
                (None, Some(value)) if patience.block == Some(Duration::ZERO) => log.try_append(value),
                (None, Some(value)) => {
                    log.append(value, core.life.within(patience.block), &ctl(&refuse, patience.cancel))
                }
            };
            stored.map(|appended| published(at, appended)).map_err(|error| core.explain(at, error))
        })
    }

    fn append_share(
        &mut self,
        partition: u32,
        mut share: Vec<T>,
        deadline: Deadline,
        cancel: Option<&Canceller>,
    ) -> Stored<T> {
        let core = &self.core;
        if let Some(full) = core.full_as_planned(partition) {
            return Err((share, PublishError::Full { value: (), full }));
        }
        let refuse = |tag| core.groups.stepped_here(tag);
        match self.logs[partition as usize].append_all(&mut share, deadline, &ctl(&refuse, cancel)) {
            Ok(appended) => Ok(core::share(partition, appended)),
            Err(error) => Err((share, core.explain(partition, error))),
        }
    }
}

/// Records that lie in their places unpublished while user code runs: whatever unwinds drops them.
struct Staging<'a, T: Send + Sync + 'static>(&'a mut Producer<T>);

impl<T: Send + Sync + 'static> Drop for Staging<'_, T> {
    fn drop(&mut self) {
        self.0.logs.iter_mut().for_each(LogProducer::abandon);
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("topic", &self.core.name).finish_non_exhaustive()
    }
}
