//! The path of a value to its partition: extract the key, hash it, or take the next turn.
//!
//! A topic's [`Rule`] becomes a [`Router`] once, when the topic is made: from then on a record costs one virtual call with
//! the rules that come with the crate, two with a partitioner of the user's own. The user's code runs before any claim;
//! nothing here is allocated, locked or written, except the turn counter for keyless records.
//!
//! # Orderings
//!
//! | label  | operation    | order   | why this much, and why no more                     |
//! |--------|--------------|---------|----------------------------------------------------|
//! | take:A | `fetch_add`  | Relaxed | wants different turns only; publishes nothing       |
//! | peek:A | `load`       | Relaxed | a hint                                             |
#![forbid(unsafe_code)]

use super::key::Key;
use super::partitioner::{Crc32, Partitioner, Remainder};
use crate::group::KeyOf;
use crate::sync::Arc;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::num::NonZeroU32;

/// The partition of a value; `None` where it has no key.
trait Route<T>: Send + Sync {
    fn route(&self, value: &T) -> Option<u32>;
}

/// A key extractor whose type is forgotten.
trait Extract<T>: Send + Sync {
    /// With a rule ([`Crc32`] for none), the whole way from a value to its partition.
    fn with(self: Arc<Self>, rule: Option<Arc<dyn Partitioner>>, partitions: NonZeroU32) -> Box<dyn Route<T>>;

    /// The way from a value to a number that its key has to itself, for groups that keep the order of each key.
    fn numbers(self: Arc<Self>) -> KeyOf<T>;
}

/// An extractor that always has a key.
struct Always<F>(F);

/// An extractor that may find none.
struct Sometimes<F>(F);

/// What both can do: show the bytes of a value's key.
trait Bytes<T> {
    fn bytes<R>(&self, value: &T, f: impl FnOnce(&[u8]) -> R) -> Option<R>;
}

impl<T, K: Key + ?Sized, F: Fn(&T) -> &K> Bytes<T> for Always<F> {
    #[inline(always)]
    fn bytes<R>(&self, value: &T, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        Some((self.0)(value).with_bytes(f))
    }
}

impl<T, K: Key + ?Sized, F: Fn(&T) -> Option<&K>> Bytes<T> for Sometimes<F> {
    #[inline(always)]
    fn bytes<R>(&self, value: &T, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        (self.0)(value).map(|key| key.with_bytes(f))
    }
}

impl<T, X: Bytes<T> + Send + Sync + 'static> Extract<T> for X {
    fn with(self: Arc<Self>, rule: Option<Arc<dyn Partitioner>>, partitions: NonZeroU32) -> Box<dyn Route<T>> {
        match rule {
            None => Box::new(ByCrc32 { key: self, fresh: crc32fast::Hasher::new(), below: Remainder::new(partitions) }),
            Some(rule) => Box::new(ByRule { key: self, rule, partitions }),
        }
    }

    fn numbers(self: Arc<Self>) -> KeyOf<T> {
        // Another function than the one that chose the partition: of that one, the keys of a partition have bits in common.
        Arc::new(move |value| {
            self.bytes(value, |bytes| {
                let mut hasher = DefaultHasher::new();
                hasher.write(bytes);
                hasher.finish()
            })
        })
    }
}

/// The hasher is copied for each key: making one asks the processor what it can do.
struct ByCrc32<X> {
    key: Arc<X>,
    fresh: crc32fast::Hasher,
    below: Remainder,
}

impl<T, X: Bytes<T> + Send + Sync> Route<T> for ByCrc32<X> {
    fn route(&self, value: &T) -> Option<u32> {
        self.key.bytes(value, |bytes| {
            let mut hasher = self.fresh.clone();
            hasher.update(bytes);
            self.below.of(hasher.finalize())
        })
    }
}

struct ByRule<X> {
    key: Arc<X>,
    rule: Arc<dyn Partitioner>,
    partitions: NonZeroU32,
}

impl<T, X: Bytes<T> + Send + Sync> Route<T> for ByRule<X> {
    fn route(&self, value: &T) -> Option<u32> {
        self.key.bytes(value, |bytes| self.rule.keyed(bytes, self.partitions))
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

    /// The key of a value as a number, if the topic has keys.
    pub(crate) fn numbers(&self) -> Option<KeyOf<T>> {
        self.key.clone().map(|key| key.numbers())
    }

    /// The rule at work over so many partitions.
    pub(crate) fn over(self, partitions: NonZeroU32) -> Router<T> {
        // Over one partition the rules that come with the crate have no choice, and need no key.
        let decided = partitions.get() == 1 && self.partitioner.is_none();
        let key = self.key.filter(|_| !decided);
        let keyed = key.map(|key| key.with(self.partitioner.clone(), partitions));
        Router { keyed, keyless: self.partitioner, turns: Remainder::new(partitions), partitions }
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

/// A topic's routing.
pub(crate) struct Router<T> {
    keyed: Option<Box<dyn Route<T>>>,
    /// The user's own rule for values without a key.
    keyless: Option<Arc<dyn Partitioner>>,
    turns: Remainder,
    partitions: NonZeroU32,
}

impl<T> Router<T> {
    /// The partition of `value`; `turn` is asked for a number only where the value has no key.
    #[inline(always)]
    pub(crate) fn route(&self, value: &T, turn: impl FnOnce() -> u64) -> u32 {
        if let Some(keyed) = &self.keyed {
            if let Some(partition) = keyed.route(value) {
                return partition;
            }
        }
        match &self.keyless {
            None if self.partitions.get() == 1 => 0,
            None => self.turns.of_turn(turn()),
            Some(rule) => rule.keyless(turn(), self.partitions),
        }
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
