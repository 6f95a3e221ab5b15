//! Last values: what a topic keeps of its latest record, or of the latest of each key, for whoever wants to look.
//!
//! ```text
//!  publish:  route ─▶ project (user code; allocates the entry) ─▶ append ─▶ offer to the cell ─▶ drop old ones
//!                     nothing is claimed yet                      stored    if newer              outside every guard
//!  look:     (find the key) ─▶ pin, load, count, unpin
//! ```
//!
//! 1. The projection runs before the claim, in the publishing thread, once for a publish, however long it waits for room.
//!    If it panics, the publish does, and nothing is stored.
//! 2. A value is offered to its cell after its record was stored and before the publish returns; if the record is refused,
//!    it is dropped. So it is never seen before its record is published, but readers of the record may be faster than it.
//! 3. A cell goes from lower offsets to higher ones only: a publisher that was overtaken between claim and offer finds
//!    the newer value there, and drops its own.
//! 4. Old values are dropped by publishers, after their own publish is done, outside every lock and guard; panics of
//!    destructors end there. Each publish gets it on by a step, so that some sixty old values are about at most, unless
//!    some thread stays pinned. The rest goes with the topic and its handles.
//!
//! A topic that keeps nothing pays nothing for this: it is told apart where the flag for exclusive topics is read anyway.
#![forbid(unsafe_code)]

mod entry;
mod keyed;
mod keys;
mod whole;

pub use entry::Last;
pub use keyed::{LastValues, LastValuesIter};
pub use whole::LastValue;

use super::batch::Shares;
use super::config::TopicConfig;
use super::core::Published;
use super::error::Share;
use super::topic::Topic;
use crate::group::Position;
use crate::sync::Arc;
use keyed::Keyed;
use std::any::{Any, type_name};
use std::fmt;
use std::hash::Hash;
use whole::Whole;

/// Stores a record, and shows it to the function it is given before anything is claimed. Says where it stands.
type Store<'a, T> = dyn FnMut(&mut dyn FnMut(&T)) -> Option<Position> + 'a;

/// What remains to be done when a share has been stored from such an offset on.
type Later<'a> = Box<dyn FnOnce(u64) + 'a>;

/// Something that a topic keeps of its records; their types are forgotten.
trait Keep<T>: Send + Sync {
    /// Projects the record that `store` shows, and keeps that if it was stored.
    fn around(&self, store: &mut Store<'_, T>) -> Option<Position>;
    /// Projects what matters of a share.
    fn prepare(&self, partition: u32, share: &[T]) -> Later<'_>;
    /// What readers share, to be asked for its type.
    fn store(&self) -> Arc<dyn Any + Send + Sync>;
}

/// Makes the store of a topic with so many partitions and keys.
type Maker<T> = dyn Fn(u32, usize) -> Box<dyn Keep<T>> + Send + Sync;

struct Wish<T> {
    make: Arc<Maker<T>>,
    /// What it keeps, for errors.
    keeps: &'static str,
}

impl<T> Clone for Wish<T> {
    fn clone(&self) -> Self {
        Self { make: self.make.clone(), keeps: self.keeps }
    }
}

/// What a topic is to keep, as configured.
pub(crate) struct Wishes<T> {
    whole: Option<Wish<T>>,
    keyed: Option<Wish<T>>,
    keys: usize,
}

/// The most keys, unless configured.
const KEYS: usize = 65_536;

impl<T> Wishes<T> {
    pub(crate) const fn new() -> Self {
        Self { whole: None, keyed: None, keys: KEYS }
    }

    /// The stores at work.
    pub(crate) fn over(self, partitions: u32) -> Kept<T> {
        let keys = self.keys;
        let make = |wish: Wish<T>| Keeper { keep: (wish.make)(partitions, keys), keeps: wish.keeps };
        Kept { whole: self.whole.map(make), keyed: self.keyed.map(make) }
    }
}

impl<T> Clone for Wishes<T> {
    fn clone(&self) -> Self {
        Self { whole: self.whole.clone(), keyed: self.keyed.clone(), keys: self.keys }
    }
}

impl<T> fmt::Debug for Wishes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keeps = |wish: &Option<Wish<T>>| wish.as_ref().map(|wish| wish.keeps);
        f.debug_struct("Last")
            .field("value", &keeps(&self.whole))
            .field("values", &keeps(&self.keyed))
            .field("keys", &self.keys)
            .finish()
    }
}

struct Keeper<T> {
    keep: Box<dyn Keep<T>>,
    keeps: &'static str,
}

/// What a topic keeps.
pub(crate) struct Kept<T> {
    whole: Option<Keeper<T>>,
    keyed: Option<Keeper<T>>,
}

impl<T> Kept<T> {
    /// Whether it keeps nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.keyed.is_none()
    }

    /// Stores `value` by `store` and keeps what there is to keep of it.
    pub(crate) fn publish<E>(&self, value: T, store: impl FnOnce(T) -> Result<Published, E>) -> Result<Published, E> {
        if self.is_empty() {
            return store(value);
        }
        let (mut work, mut result) = (Some((value, store)), None);
        self.around(&mut |look| {
            let (value, store) = work.take()?;
            look(&value);
            let stored = result.insert(store(value));
            stored.as_ref().ok().map(|published| published.position)
        });
        result.unwrap_or_else(|| unreachable!("every keeper calls it once"))
    }

    /// The same for a record that `fill` writes in its place.
    pub(crate) fn publish_in_place<E>(
        &self,
        fill: impl FnOnce(&mut T),
        store: impl FnOnce(&mut dyn FnMut(&mut T)) -> Result<Published, E>,
    ) -> Result<Published, E> {
        let (mut fill, mut store, mut result) = (Some(fill), Some(store), None);
        self.around(&mut |look| {
            let mut fill_and_look = |slot: &mut T| {
                if let Some(fill) = fill.take() {
                    fill(slot);
                    look(slot);
                }
            };
            let stored = result.insert(store.take()?(&mut fill_and_look));
            stored.as_ref().ok().map(|published| published.position)
        });
        result.unwrap_or_else(|| unreachable!("every keeper calls it once"))
    }

    /// Stores a record by `store`, which shows it before it is stored, and keeps what there is to keep of it.
    pub(crate) fn around(&self, store: &mut Store<'_, T>) -> Option<Position> {
        match (&self.whole, &self.keyed) {
            (None, None) => store(&mut |_| {}),
            (Some(one), None) | (None, Some(one)) => one.keep.around(store),
            (Some(whole), Some(keyed)) => whole.keep.around(&mut |first| {
                keyed.keep.around(&mut |second| {
                    store(&mut |record| {
                        first(record);
                        second(record);
                    })
                })
            }),
        }
    }

    /// Projects what matters of a batch, before anything of it is stored.
    pub(crate) fn prepare(&self, shares: &Shares<T>) -> Prepared<'_> {
        if self.is_empty() {
            return Prepared(Vec::new());
        }
        let both = || self.whole.iter().chain(&self.keyed);
        let of = |(partition, share): (u32, &Vec<T>)| match &**share {
            [] => Vec::new(),
            share => both().map(|one| one.keep.prepare(partition, share)).collect(),
        };
        Prepared((0..).zip(shares).map(of).collect())
    }

    fn typed<S: Any + Send + Sync>(one: Option<&Keeper<T>>, asked: &'static str) -> Result<Arc<S>, Missing> {
        let one = one.ok_or(Missing::NotKept)?;
        one.keep.store().downcast().map_err(|_| Missing::WrongType { keeps: one.keeps, asked })
    }
}

/// A batch's values, for each partition with a share.
pub(crate) struct Prepared<'a>(Vec<Vec<Later<'a>>>);

impl Prepared<'_> {
    /// A share was stored: its values are kept.
    pub(crate) fn stored(&mut self, share: &Share) {
        if let Some(work) = self.0.get_mut(share.partition as usize) {
            work.drain(..).for_each(|later| later(share.offsets.start));
        }
    }
}

enum Missing {
    NotKept,
    WrongType { keeps: &'static str, asked: &'static str },
}

/// Why there is no handle on last values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LastError {
    /// The topic was not asked to keep them when it was made.
    #[error("topic '{topic}' keeps no last values of that kind; set TopicConfig::{setting} where it is made")]
    NotKept {
        /// The topic.
        topic: Arc<str>,
        /// The setting that has it keep them.
        setting: &'static str,
    },
    /// It keeps values, or keys, of other types.
    #[error("topic '{topic}' keeps {keeps} as last values, not {asked}")]
    WrongType {
        /// The topic.
        topic: Arc<str>,
        /// What it keeps.
        keeps: &'static str,
        /// What was asked for.
        asked: &'static str,
    },
}

impl<T: Send + Sync + 'static> TopicConfig<T> {
    /// Keeps what `value` makes of each record, so that any thread can look at the latest at any time, without a group and
    /// without waiting: see [`LastValue`], which [`Topic::last_value`] returns.
    ///
    /// `value` runs in the publishing thread, before anything is claimed, once for each publish and once for each
    /// partition's share of a batch, for its last record; if it panics, the publish does, and nothing is stored. Make it
    /// cheap: clone an `Arc`, copy the fields that matter. The value is there by the time the publish returns, and not
    /// before the record is published; a record that is refused leaves none. Whatever the topic retains, and whether
    /// anybody listens, the last value stays.
    ///
    /// It costs each publish one allocation and an exchange, and now and then a round of reclamation; batches of an
    /// exclusive [`Producer`](crate::Producer) are gathered first, like those of others. Topics that do not ask pay nothing.
    /// Values that were replaced are dropped by later publishes, some thirty at a time, or with the topic and its handles:
    /// some sixty old ones are about at most, unless some thread of the process stays pinned by crossbeam-epoch. A panic
    /// in a destructor is swallowed.
    #[must_use]
    pub fn last_value<V: Send + Sync + 'static>(mut self, value: impl Fn(&T) -> V + Send + Sync + 'static) -> Self {
        let value = Arc::new(value);
        let make = move |partitions, _| -> Box<dyn Keep<T>> {
            let value = value.clone();
            Box::new(whole::Keeping { whole: Arc::new(Whole::new(partitions)), value: move |record: &T| value(record) })
        };
        self.last.whole = Some(Wish { make: Arc::new(make), keeps: type_name::<V>() });
        self
    }

    /// Keeps what `value` makes of the latest record of each key, as [`TopicConfig::last_value`] does of the whole topic:
    /// see [`LastValues`], which [`Topic::last_values`] returns.
    ///
    /// `key` runs for each record, `value` for each that is published alone, and in a batch for the last of each key.
    /// The first record of a key makes a place for it, which stays, at most [`TopicConfig::last_keys`] of them. The key
    /// need not be the one that the topic routes by, but should go to one partition for its order to mean something.
    #[must_use]
    pub fn last_value_by_key<K, V>(
        self,
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        value: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Self
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        self.last_value_by_optional_key(move |record| Some(key(record)), value)
    }

    /// Like [`TopicConfig::last_value_by_key`], for records of which some have no key; nothing is kept of those.
    #[must_use]
    pub fn last_value_by_optional_key<K, V>(
        mut self,
        key: impl Fn(&T) -> Option<K> + Send + Sync + 'static,
        value: impl Fn(&T) -> V + Send + Sync + 'static,
    ) -> Self
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        let (key, value) = (Arc::new(key), Arc::new(value));
        let make = move |partitions, most| -> Box<dyn Keep<T>> {
            let (keyed, key, value) = (Arc::new(Keyed::new(partitions, most)), key.clone(), value.clone());
            let (key, value) = (move |record: &T| key(record), move |record: &T| value(record));
            Box::new(keyed::Keeping { keyed, key, value })
        };
        self.last.keyed = Some(Wish { make: Arc::new(make), keeps: type_name::<(K, V)>() });
        self
    }

    /// The most keys that get a place for their last value (default 65,536), which bounds the memory; threads that add new
    /// keys in the moment in which the last place goes get one each. The values of
    /// records with further keys are not kept, and counted: [`LastValues::not_kept`]. Their records are stored.
    #[must_use]
    pub const fn last_keys(mut self, most: usize) -> Self {
        self.last.keys = most;
        self
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// The handle to look at the topic's latest value by, which is kept by [`TopicConfig::last_value`]. Get it once and
    /// keep it.
    ///
    /// # Errors
    ///
    /// The topic keeps none, or one of another type; see [`LastError`].
    ///
    /// ```
    /// use ringlog::{Broker, LastError, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let words = broker.create_topic("words", TopicConfig::<String>::new().last_value(String::len))?;
    /// words.publish("four".to_string())?;
    /// assert_eq!(words.last_value::<usize>()?.get().as_deref(), Some(&4));
    /// assert!(matches!(words.last_value::<String>(), Err(LastError::WrongType { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn last_value<V: Send + Sync + 'static>(&self) -> Result<LastValue<V>, LastError> {
        let whole = Kept::typed(self.0.last.whole.as_ref(), type_name::<V>());
        whole.map(LastValue).map_err(|missing| self.missing(missing, "last_value"))
    }

    /// The handle to look at the latest value of each key by, which are kept by [`TopicConfig::last_value_by_key`]. Get
    /// it once and keep it.
    ///
    /// # Errors
    ///
    /// The topic keeps none, or keys or values of another type; see [`LastError`].
    pub fn last_values<K, V>(&self) -> Result<LastValues<K, V>, LastError>
    where
        K: Hash + Eq + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        let keyed = Kept::typed(self.0.last.keyed.as_ref(), type_name::<(K, V)>());
        keyed.map(LastValues).map_err(|missing| self.missing(missing, "last_value_by_key"))
    }

    #[cold]
    fn missing(&self, missing: Missing, setting: &'static str) -> LastError {
        let topic = self.0.name.clone();
        match missing {
            Missing::NotKept => LastError::NotKept { topic, setting },
            Missing::WrongType { keeps, asked } => LastError::WrongType { topic, keeps, asked },
        }
    }
}
