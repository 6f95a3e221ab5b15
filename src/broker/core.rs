//! A topic's inside: its partitions, its routing, its groups; and how a value gets from a caller to a partition.
//!
//! The way of a publish: `admits` (one load), `route` (the user's extractor and partitioner, nothing claimed yet), then
//! one append to the partition's log. No lock, no look-up by name, no allocation on that way; what refuses or waits is
//! out of line.
//!
//! # Orderings
//!
//! | label        | operation       | order   | why this much, and why no more                                        |
//! |--------------|-----------------|---------|-----------------------------------------------------------------------|
//! | delete:A     | `deleted.store` | Release | before the seal that sends publishers to look; carries nothing else    |
//! | is_deleted:A | `deleted.load`  | Acquire | the reason for a seal that was found; a miss says "closed", which is true as well |
#![forbid(unsafe_code)]

use super::account::Behind;
use super::cancel::Patience;
use super::describe::TopicDescription;
use super::error::{Full, Limiting, PublishError, Share};
use super::groups::Groups;
use super::last::Kept;
use super::life::Life;
use super::planned::Planned;
use super::registry::AnyTopic;
use super::route::{Router, Turns};
use super::timer::Timed;
use crate::group::{GroupOffset, GroupStats, KeyOf, Letter, Position, context};
use crate::log::{AppendCtl, AppendError, Appended, AppendedAll, Log};
use crate::ring::Why;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::Time;
use crate::wait::Canceller;
use std::any::{Any, type_name};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A record was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// Where it stands.
    pub position: Position,
    /// Whether it was kept. It is not where nobody listens and the topic keeps nothing for later
    /// ([`Retain::Unacked`](crate::Retain::Unacked)); its offset is consumed all the same.
    pub kept: bool,
}

impl Published {
    /// The offset in the partition.
    pub const fn offset(&self) -> u64 {
        self.position.offset
    }

    /// The partition.
    pub const fn partition(&self) -> u32 {
        self.position.partition
    }
}

impl From<Published> for Position {
    fn from(published: Published) -> Self {
        published.position
    }
}

/// What all handles of one topic share; what every publish reads comes first.
#[repr(C)]
pub(crate) struct Core<T> {
    pub(crate) router: Router<T>,
    pub(crate) logs: Box<[Arc<Log<T>>]>,
    pub(crate) life: Arc<Life>,
    /// Nothing stands between a record and its partition: the topic is not exclusive and keeps no last values.
    pub(crate) direct: bool,
    /// The one producer is elsewhere, and publishing through the topic is refused.
    pub(crate) exclusive: bool,
    pub(crate) deleted: AtomicBool,
    pub(crate) planned: Planned,
    pub(crate) partitions: NonZeroU32,
    pub(crate) block: Option<Duration>,
    pub(crate) turns: Turns,
    pub(crate) name: Arc<str>,
    /// The key of a value as a number, for groups that keep the order of each key.
    pub(crate) key: Option<KeyOf<T>>,
    pub(crate) max_age: Option<Duration>,
    pub(crate) last: Kept<T>,
    pub(crate) groups: Groups<T>,
}

impl<T: Send + Sync + 'static> Core<T> {
    /// The partition of `value`. User code, before any claim.
    #[inline(always)]
    pub(crate) fn route(&self, value: &T) -> u32 {
        self.router.route(value, || self.turns.take())
    }

    /// The topic's own limit to a wait, or `limit` where that is shorter.
    pub(crate) fn no_longer_than(&self, limit: Duration) -> Duration {
        self.block.map_or(limit, |block| block.min(limit))
    }

    /// Routes and appends, waiting no longer than `block` says. Inlined, so that the value is built where it is routed
    /// from, and then moved once.
    #[inline(always)]
    pub(crate) fn append(
        &self,
        at: impl FnOnce(&T) -> u32,
        value: T,
        block: impl FnOnce(&Self) -> Option<Duration>,
    ) -> Result<Published, PublishError<T>> {
        let mut value = Some(value);
        let at = value.as_ref().map_or(0, at);
        if self.life.admits() && self.direct && !self.plans() {
            if let Some(log) = self.logs.get(at as usize) {
                if let Ok(appended) = log.offer(&mut value) {
                    return Ok(published(at, appended));
                }
            }
        }
        self.append_patiently(at, &mut value, Patience::of(block(self)))
    }

    /// Stores the value at `at` by `offer`, now or not at all.
    pub(crate) fn append_now(
        &self,
        at: u32,
        value: T,
        offer: impl FnOnce(&mut Option<T>) -> Option<Result<Appended, Why>>,
    ) -> Result<Published, PublishError<T>> {
        if !self.life.admits() {
            return Err(self.refuse(value));
        }
        if let Some(full) = self.full_as_planned(at) {
            return Err(PublishError::Full { value, full });
        }
        self.last.publish(value, |value| self.append_here(at, value, offer))
    }

    fn append_here(
        &self,
        at: u32,
        value: T,
        offer: impl FnOnce(&mut Option<T>) -> Option<Result<Appended, Why>>,
    ) -> Result<Published, PublishError<T>> {
        let mut from = Some(value);
        let stored = offer(&mut from);
        match (stored, from, self.logs.get(at as usize)) {
            (Some(Ok(appended)), ..) => Ok(published(at, appended)),
            (Some(Err(why)), Some(value), Some(log)) => {
                Err(self.explain(at, log.refusal(why, value, 1, Duration::ZERO)))
            }
            (_, Some(value), _) => Err(self.no_such(at, value)),
            (_, None, _) => unreachable!("what was not stored is still there"),
        }
    }

    /// What could not be stored at once: keeps last values, waits, or says why not.
    #[cold]
    #[inline(never)]
    pub(crate) fn append_patiently(
        &self,
        at: u32,
        value: &mut Option<T>,
        patience: Patience<'_>,
    ) -> Result<Published, PublishError<T>> {
        let value = value.take().expect("it was refused, so it is still here");
        if !self.life.admits() || self.exclusive {
            return Err(self.refuse(value));
        }
        let Some(log) = self.logs.get(at as usize) else {
            return Err(self.no_such(at, value));
        };
        if let Some(full) = self.full_as_planned(at) {
            return Err(PublishError::Full { value, full });
        }
        let refuse = |tag| self.groups.stepped_here(tag);
        let direct = self.direct; // then it was tried before
        self.last.publish(value, |value| {
            let mut value = Some(value);
            let at_once = if direct { None } else { log.offer(&mut value).ok() };
            let stored = match (at_once, value) {
                (Some(appended), _) => Ok(appended),
                (None, None) => unreachable!("what was not stored is still there"),
                (None, Some(value)) if patience.block == Some(Duration::ZERO) => log.try_append(value),
                (None, Some(value)) => {
                    log.append(value, self.life.within(patience.block), &ctl(&refuse, patience.cancel))
                }
            };
            stored.map(|appended| published(at, appended)).map_err(|error| self.explain(at, error))
        })
    }

    /// Why a publish is turned away before it reaches a partition.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuse<V>(&self, value: V) -> PublishError<V> {
        let topic = self.name.clone();
        if self.exclusive && self.life.admits() {
            PublishError::Exclusive { value, topic }
        } else {
            PublishError::Closed { value, topic }
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn no_such<V>(&self, partition: u32, value: V) -> PublishError<V> {
        PublishError::NoSuchPartition { value, topic: self.name.clone(), partition, partitions: self.partitions.get() }
    }

    /// A log's refusal in the words of the topic: with names instead of numbers.
    #[cold]
    #[inline(never)]
    pub(crate) fn explain<V>(&self, partition: u32, error: AppendError<V>) -> PublishError<V> {
        let topic = self.name.clone();
        match error {
            AppendError::Full { value, limiting, waited } => {
                PublishError::Full { value, full: self.full(partition, limiting, waited) }
            }
            AppendError::WouldDeadlock { value, limiting } => {
                PublishError::WouldDeadlock { value, full: self.full(partition, Some(limiting), Duration::ZERO) }
            }
            AppendError::OutOfMemory(value) => PublishError::OutOfMemory { value, topic, partition },
            AppendError::Closed(value) if self.is_deleted() => PublishError::Deleted { value, topic },
            AppendError::Cancelled(value) => PublishError::Cancelled { value, topic, partition },
            AppendError::TooLarge { value, len, capacity: most } => {
                PublishError::TooMany { value, topic, partition, records: len, most }
            }
            other @ AppendError::Closed(_) => PublishError::Closed { value: other.into_value(), topic },
        }
    }

    fn full(&self, partition: u32, limiting: Option<crate::log::Limiting>, waited: Duration) -> Box<Full> {
        let limiting = limiting.and_then(|limiting| {
            let group = self.groups.with_gate(limiting.tag)?;
            let oldest_unacked_age = group.oldest_unacked_age(limiting.tag);
            let (waiting, may_wait) = limiting.waiting.unzip();
            Some(Limiting { group: group.name().clone(), lag: limiting.lag, oldest_unacked_age, waiting, may_wait })
        });
        let capacity = self.capacity() as u64;
        Box::new(Full { topic: self.name.clone(), partition, capacity, waited, limiting })
    }

    pub(crate) fn is_deleted(&self) -> bool {
        // ORD(is_deleted:A) Acquire: pairs with ORD(delete:A), so that whoever finds the seal finds the reason.
        self.deleted.load(Ordering::Acquire)
    }
}

impl<T: Send + Sync + 'static> AnyTopic for Core<T> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn holds(&self) -> &'static str {
        type_name::<T>()
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn settled(&self, ends: &mut Vec<u64>) -> bool {
        // What it goes by is read before it is looked whether everybody is there; see `settled` of a close.
        let (before, mut sent_back, mut manned) = (ends.len(), 0, false);
        ends.extend(self.logs.iter().map(|log| log.end().get()));
        self.groups.are_all(|group| {
            (sent_back, manned) = (sent_back + group.sent_back(), manned || group.has_members());
            true
        });
        if manned {
            ends.push(sent_back)
        } else {
            ends.truncate(before)
        }
        self.groups.are_all(|group| group.is_drained())
    }

    fn behind(&self, lagging: &mut Vec<Behind>) {
        for group in self.groups.all().iter().filter(|group| !group.is_drained()) {
            lagging.push(Behind { topic: self.name.clone(), group: group.name().clone(), lag: group.lag() });
        }
    }

    fn seal(&self) {
        for log in &self.logs {
            log.close();
        }
    }

    fn delete(&self) {
        // ORD(delete:A) Release: before the seal that sends publishers to look. Pairs with ORD(is_deleted:A).
        self.deleted.store(true, Ordering::Release);
        self.seal();
        for group in self.groups.close() {
            group.delete();
        }
    }

    fn stop(&self) {
        self.groups.close().iter().for_each(|group| group.stop());
    }

    fn stopped(&self) -> bool {
        self.groups.are_all(|group| group.is_quiet())
    }

    fn served_here(&self) -> bool {
        self.groups.is_any(|group| group.is_served_here())
    }

    fn fence(&self) {
        for group in self.groups.all().iter().filter(|group| !group.is_quiet()) {
            group.fence();
        }
    }

    fn save(&self) {
        for group in self.groups.all() {
            let _reported = group.save_at_end();
        }
    }

    fn saved(&self) -> bool {
        self.groups.are_all(|group| group.is_saved())
    }

    fn saving_here(&self) -> bool {
        self.groups.is_any(|group| group.is_saving_here())
    }

    fn offsets(&self) -> Vec<GroupOffset> {
        self.groups.all().iter().flat_map(|group| group.offsets()).collect()
    }

    fn account(&self) -> Vec<GroupStats> {
        self.groups.all().iter().map(|group| group.stats()).collect()
    }

    fn describe(&self) -> TopicDescription {
        self.description()
    }

    fn letters(&self, letters: &mut Vec<Letter>) {
        self.groups.all().iter().for_each(|group| letters.extend(group.letters()));
    }
}

/// The timer comes a little late, so that it comes once for many records: whoever asks before that looks himself.
const LATE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);

impl<T: Send + Sync + 'static> Timed for Core<T> {
    fn tick(&self, now: Time) -> Option<Time> {
        let age = self.max_age?;
        let next = |log: &Arc<Log<T>>| {
            log.expire();
            // What is published from now on expires later than that.
            log.next_expiry().unwrap_or(now.after(age))
        };
        let late = (age / 8).clamp(*LATE.start(), *LATE.end());
        self.logs.iter().map(next).min().map(|next| next.max(now.after(late)))
    }
}

#[inline]
pub(crate) fn published(partition: u32, appended: Appended) -> Published {
    Published { position: Position { partition, offset: appended.offset.get() }, kept: appended.kept }
}

pub(crate) fn share(partition: u32, appended: AppendedAll) -> Share {
    let AppendedAll { offsets, kept } = appended;
    Share { partition, offsets: offsets.start.get()..offsets.end.get(), kept }
}

/// Waits end early where `refuse` says that this thread serves the group that limits. Only handlers can: for others
/// nobody has to ask, nor to pass wakes on to them.
pub(crate) fn ctl<'a>(refuse: &'a dyn Fn(u64) -> bool, cancel: Option<&'a Canceller>) -> AppendCtl<'a> {
    AppendCtl { refuse: context::current().map(|_| refuse), cancel, ..AppendCtl::default() }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::ctl;

    #[test]
    fn outside_handlers_nobody_asks_who_serves_the_limiting_group() {
        assert!(ctl(&|_| true, None).refuse.is_none());
    }
}
