//! The latest value of each key.
#![forbid(unsafe_code)]

use super::entry::{Entry, Keeper, Last, get};
use super::keys::{self, Keys};
use super::{Keep, Later, Store};
use crate::group::Position;
use crate::sync::Arc;
use crate::sync::epoch::Newest;
use std::any::Any;
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;

type Cell<V> = Newest<Entry<V>>;

pub(super) struct Keyed<K, V: Send + Sync + 'static> {
    keeper: Keeper<V>,
    keys: Keys<K, Cell<V>>,
}

impl<K, V: Send + Sync + 'static> Keyed<K, V> {
    pub(super) fn new(partitions: u32, most: usize) -> Self {
        Self { keeper: Keeper::new(partitions), keys: Keys::new(most) }
    }
}

/// A store at work: with the functions that make keys and values of records.
pub(super) struct Keeping<K, V: Send + Sync + 'static, X, F> {
    pub(super) keyed: Arc<Keyed<K, V>>,
    pub(super) key: X,
    pub(super) value: F,
}

impl<K, V, X, F> Keeping<K, V, X, F>
where
    K: Hash + Eq,
    V: Send + Sync + 'static,
{
    /// The cell for a record, if it has a key and there is a place for it.
    fn cell<T>(&self, record: &T) -> Place<'_, V>
    where
        X: Fn(&T) -> Option<K>,
    {
        let Some(key) = (self.key)(record) else { return Place::Keyless };
        self.keyed.keys.find_or_add(key, || self.keyed.keeper.cell()).map_or(Place::Full, Place::Cell)
    }
}

enum Place<'a, V: Send + Sync + 'static> {
    Keyless,
    Full,
    Cell(&'a Cell<V>),
}

impl<T, K, V, X, F> Keep<T> for Keeping<K, V, X, F>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    X: Fn(&T) -> Option<K> + Send + Sync,
    F: Fn(&T) -> V + Send + Sync,
{
    fn around(&self, store: &mut Store<'_, T>) -> Option<Position> {
        let (mut kept, mut full) = (None, false);
        let position = store(&mut |record| match self.cell(record) {
            Place::Cell(cell) => kept = Some((cell, Entry::new((self.value)(record)))),
            Place::Full => full = true,
            Place::Keyless => {}
        })?;
        if let Some((cell, entry)) = kept {
            self.keyed.keeper.keep(cell, entry, position);
        } else if full {
            self.keyed.keys.refuse();
        }
        Some(position)
    }

    /// Values are made of the last record of each key only.
    fn prepare(&self, partition: u32, share: &[T]) -> Later<'_> {
        let (mut met, mut kept, mut full) = (BTreeSet::new(), Vec::new(), 0_usize);
        for (nth, record) in share.iter().enumerate().rev() {
            match self.cell(record) {
                Place::Cell(cell) if met.insert(std::ptr::from_ref(cell)) => {
                    kept.push((cell, Entry::new((self.value)(record)), nth));
                }
                Place::Full => full += 1,
                Place::Cell(_) | Place::Keyless => {}
            }
        }
        Box::new(move |first| {
            for (cell, entry, nth) in kept.into_iter().rev() {
                self.keyed.keeper.keep(cell, entry, Position { partition, offset: first + nth as u64 });
            }
            (0..full).for_each(|_| self.keyed.keys.refuse());
        })
    }

    fn store(&self) -> Arc<dyn Any + Send + Sync> {
        self.keyed.clone()
    }
}

/// The latest value of each key of a topic that keeps them, for any thread at any time; by
/// [`Topic::last_values`](crate::Topic::last_values).
///
/// Reading takes no cursor, holds nobody back and never waits: a key is found without a lock in about log4(keys) steps,
/// and its value read as that of a [`LastValue`](crate::LastValue) is. The handle keeps the values, not the topic, and
/// stays valid when the topic is deleted or its broker closed.
///
/// The values of a key follow the order of its records, which is that of their offsets, as long as they all go to one
/// partition; what a thread gets never goes back. For a key whose records are published to several partitions, a publish
/// that began after another had returned is the later one; of two at the same moment, either may remain.
///
/// A key is kept for as long as the topic, and so is a place for its value: memory grows with the number of different
/// keys, up to [`TopicConfig::last_keys`](crate::TopicConfig::last_keys).
///
/// ```
/// use ringlog::{Broker, TopicConfig};
///
/// struct Payment { account: String, balance: i64 }
///
/// let broker = Broker::new();
/// let config = TopicConfig::new()
///     .partitions(4)
///     .key(|payment: &Payment| &payment.account)
///     .last_value_by_key(|payment| payment.account.clone(), |payment| payment.balance);
/// let payments = broker.create_topic("payments", config)?;
/// let balances = payments.last_values::<String, i64>()?;
/// payments.publish(Payment { account: "alice".into(), balance: 10 })?;
/// payments.publish(Payment { account: "alice".into(), balance: 25 })?;
/// assert_eq!(*balances.get("alice").unwrap(), 25);
/// assert!(balances.get("bob").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LastValues<K, V: Send + Sync + 'static>(pub(super) Arc<Keyed<K, V>>);

impl<K: Hash + Eq, V: Send + Sync + 'static> LastValues<K, V> {
    /// The latest value of a key; `None` before its first record, or once it was forgotten. The key's hash and equality
    /// run outside every lock and guard.
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Last<V>>
    where
        K: Borrow<Q>,
    {
        self.0.keys.find(key).and_then(get)
    }

    /// Drops the value of a key, which is returned, until the next record of that key. A record that is older than the
    /// value forgotten does not bring an older one back. The key keeps its place.
    ///
    /// ```
    /// # use ringlog::{Broker, TopicConfig};
    /// # let broker = Broker::new();
    /// let config = TopicConfig::<u64>::new().last_value_by_key(|n| n % 10, |n| *n);
    /// let numbers = broker.create_topic("numbers", config)?;
    /// let by_digit = numbers.last_values::<u64, u64>()?;
    /// numbers.publish(42)?;
    /// assert_eq!(by_digit.forget(&2).as_deref(), Some(&42));
    /// assert!(by_digit.get(&2).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<Last<V>>
    where
        K: Borrow<Q>,
    {
        self.0.keys.find(key).and_then(|cell| self.0.keeper.forget(cell))
    }

    /// All keys that have a value, each with the latest at the moment it is its turn; in no order. Keys that come
    /// meanwhile may be among them.
    pub fn iter(&self) -> LastValuesIter<'_, K, V> {
        LastValuesIter(self.0.keys.iter())
    }

    /// How many keys take a place, those forgotten included: a hint, as publishers may be at work.
    pub fn keys(&self) -> usize {
        self.0.keys.known()
    }

    /// How many records were stored whose value was not kept because there was no place for another key; see
    /// [`TopicConfig::last_keys`](crate::TopicConfig::last_keys).
    pub fn not_kept(&self) -> usize {
        self.0.keys.refused()
    }
}

impl<'a, K: Hash + Eq, V: Send + Sync + 'static> IntoIterator for &'a LastValues<K, V> {
    type Item = (&'a K, Last<V>);
    type IntoIter = LastValuesIter<'a, K, V>;

    fn into_iter(self) -> LastValuesIter<'a, K, V> {
        self.iter()
    }
}

/// Goes through the keys of a [`LastValues`].
pub struct LastValuesIter<'a, K, V: Send + Sync + 'static>(keys::Iter<'a, K, Cell<V>>);

impl<'a, K, V: Send + Sync + 'static> Iterator for LastValuesIter<'a, K, V> {
    type Item = (&'a K, Last<V>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.by_ref().find_map(|(key, cell)| Some((key, get(cell)?)))
    }
}

impl<K, V: Send + Sync + 'static> Clone for LastValues<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, V: Send + Sync + 'static> fmt::Debug for LastValues<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastValues").field("keys", &self.0.keys.known()).finish_non_exhaustive()
    }
}

impl<K, V: Send + Sync + 'static> fmt::Debug for LastValuesIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastValuesIter").finish_non_exhaustive()
    }
}
