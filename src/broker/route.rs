//! The path of a value to its partition: extract the key, hash it, or take the next turn.
//!
//! One virtual call with the rules that come with the crate, two with a partitioner of the user's own. The user's code
//! runs before any claim; nothing here is allocated, locked or written, except the turn counter for keyless records.
//!
//! # Orderings
//!
//! | label  | operation    | order   | why this much, and why no more                     |
//! |--------|--------------|---------|----------------------------------------------------|
//! | take:A | `fetch_add`  | Relaxed | wants different turns only; publishes nothing       |
//! | peek:A | `load`       | Relaxed | a hint                                             |
#![forbid(unsafe_code)]

use super::key::Key;
use super::partitioner::{Crc32, Partitioner, round_robin};
use crate::sync::Arc;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::num::NonZeroU32;

/// A key extractor whose type is forgotten, with one entry per built-in rule so that those cost one virtual call.
pub(crate) trait Extract<T>: Send + Sync {
    /// The partition by [`Crc32`], or `None` where the value has no key.
    fn crc32(&self, value: &T, partitions: NonZeroU32) -> Option<u32>;
    /// The partition by any other rule, or `None` where the value has no key.
    fn by(&self, value: &T, rule: &dyn Partitioner, partitions: NonZeroU32) -> Option<u32>;
}

/// An extractor that always has a key.
struct Always<F>(F);

impl<T, K: Key + ?Sized, F: Fn(&T) -> &K + Send + Sync> Extract<T> for Always<F> {
    fn crc32(&self, value: &T, partitions: NonZeroU32) -> Option<u32> {
        Some((self.0)(value).with_bytes(|bytes| Crc32.keyed(bytes, partitions)))
    }

    fn by(&self, value: &T, rule: &dyn Partitioner, partitions: NonZeroU32) -> Option<u32> {
        Some((self.0)(value).with_bytes(|bytes| rule.keyed(bytes, partitions)))
    }
}

/// An extractor that may find none.
struct Sometimes<F>(F);

impl<T, K: Key + ?Sized, F: Fn(&T) -> Option<&K> + Send + Sync> Extract<T> for Sometimes<F> {
    fn crc32(&self, value: &T, partitions: NonZeroU32) -> Option<u32> {
        (self.0)(value).map(|key| key.with_bytes(|bytes| Crc32.keyed(bytes, partitions)))
    }

    fn by(&self, value: &T, rule: &dyn Partitioner, partitions: NonZeroU32) -> Option<u32> {
        (self.0)(value).map(|key| key.with_bytes(|bytes| rule.keyed(bytes, partitions)))
    }
}

/// How a topic routes, as configured.
pub(crate) struct Rule<T> {
    key: Option<Arc<dyn Extract<T>>>,
    /// `None` is [`Crc32`].
    partitioner: Option<Arc<dyn Partitioner>>,
}

impl<T> Rule<T> {
    pub(crate) const fn new() -> Self {
        Self { key: None, partitioner: None }
    }

    pub(crate) fn key<K: Key + ?Sized>(&mut self, f: impl Fn(&T) -> &K + Send + Sync + 'static) {
        self.key = Some(Arc::new(Always(f)));
    }

    pub(crate) fn optional_key<K: Key + ?Sized>(&mut self, f: impl Fn(&T) -> Option<&K> + Send + Sync + 'static) {
        self.key = Some(Arc::new(Sometimes(f)));
    }

    pub(crate) fn partitioner(&mut self, rule: impl Partitioner) {
        self.partitioner = Some(Arc::new(rule));
    }

    /// The partition of `value`; `turn` is asked for a number only where the value has no key.
    #[inline(always)]
    pub(crate) fn route(&self, value: &T, partitions: NonZeroU32, turn: impl FnOnce() -> u64) -> u32 {
        match (&self.key, &self.partitioner) {
            (None, None) if partitions.get() == 1 => 0,
            (None, None) => round_robin(turn(), partitions),
            (Some(key), None) => key.crc32(value, partitions).unwrap_or_else(|| round_robin(turn(), partitions)),
            (None, Some(rule)) => rule.keyless(turn(), partitions),
            (Some(key), Some(rule)) => {
                key.by(value, &**rule, partitions).unwrap_or_else(|| rule.keyless(turn(), partitions))
            }
        }
    }
}

impl<T> Clone for Rule<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), partitioner: self.partitioner.clone() }
    }
}

impl<T> fmt::Debug for Rule<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule: &dyn fmt::Debug = self.partitioner.as_ref().map_or(&Crc32, |rule| rule);
        f.debug_struct("Rule").field("keyed", &self.key.is_some()).field("partitioner", rule).finish()
    }
}

/// The turns of keyless records, taken by many producers.
#[derive(Debug)]
pub(crate) struct Turns(CachePadded<AtomicU64>);

impl Turns {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }

    /// The next turn, handed out once. (u64: 584 years at one a nanosecond.)
    #[inline]
    pub(crate) fn take(&self) -> u64 {
        // ORD(take:A) Relaxed: turns only have to be different; nothing is read through them.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// What the next keyless record would get, for a look without publishing: a hint under concurrency.
    pub(crate) fn peek(&self) -> u64 {
        // ORD(peek:A) Relaxed: a hint.
        self.0.load(Ordering::Relaxed)
    }
}
