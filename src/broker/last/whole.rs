//! The latest value of a topic, and of each of its partitions.
#![forbid(unsafe_code)]

use super::entry::{Entry, Keeper, Last, get};
use super::{Keep, Later, Store};
use crate::group::Position;
use crate::sync::Arc;
use crate::sync::epoch::{Fresh, Newest};
use std::any::Any;
use std::fmt;

pub(super) struct Whole<V: Send + Sync + 'static> {
    keeper: Keeper<V>,
    /// One for each partition.
    cells: Box<[Newest<Entry<V>>]>,
}

impl<V: Send + Sync + 'static> Whole<V> {
    pub(super) fn new(partitions: u32) -> Self {
        let keeper = Keeper::new(partitions);
        let cells = (0..partitions).map(|_| keeper.cell()).collect();
        Self { keeper, cells }
    }

    fn keep(&self, entry: Fresh<Entry<V>>, position: Position) {
        if let Some(cell) = self.cells.get(position.partition as usize) {
            self.keeper.keep(cell, entry, position);
        }
    }
}

/// A store at work: with the function that makes a value of a record.
pub(super) struct Keeping<V: Send + Sync + 'static, F> {
    pub(super) whole: Arc<Whole<V>>,
    pub(super) value: F,
}

impl<T, V: Send + Sync + 'static, F: Fn(&T) -> V + Send + Sync> Keep<T> for Keeping<V, F> {
    fn around(&self, store: &mut Store<'_, T>) -> Option<Position> {
        let mut entry = None;
        let position = store(&mut |record| entry = Some(Entry::new((self.value)(record))))?;
        if let Some(entry) = entry {
            self.whole.keep(entry, position);
        }
        Some(position)
    }

    fn prepare(&self, partition: u32, share: &[T]) -> Later<'_> {
        let last = share.last().map(|record| (Entry::new((self.value)(record)), share.len() as u64 - 1));
        Box::new(move |first| {
            if let Some((entry, nth)) = last {
                self.whole.keep(entry, Position { partition, offset: first + nth });
            }
        })
    }

    fn store(&self) -> Arc<dyn Any + Send + Sync> {
        self.whole.clone()
    }
}

/// The latest value of a topic that keeps it, for any thread at any time; by
/// [`Topic::last_value`](crate::Topic::last_value).
///
/// Reading takes no cursor, holds nobody back and never waits: it is wait-free, whatever publishers and other readers do.
/// The handle keeps the values, not the topic, and stays valid when the topic is deleted or its broker closed.
///
/// ```
/// use ringlog::{Broker, TopicConfig};
///
/// let broker = Broker::new();
/// let config = TopicConfig::new().last_value(|celsius: &f64| celsius + 273.15);
/// let readings = broker.create_topic("readings", config)?;
/// let kelvin = readings.last_value::<f64>()?;
/// assert!(kelvin.get().is_none());
/// readings.publish(20.0)?;
/// let last = kelvin.get().unwrap();
/// assert_eq!((*last, last.position().offset), (293.15, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LastValue<V: Send + Sync + 'static>(pub(super) Arc<Whole<V>>);

impl<V: Send + Sync + 'static> LastValue<V> {
    /// The latest value of the topic; `None` before the first record.
    ///
    /// In one partition the latest record is the one with the highest offset. Over several it is the one stored last: a
    /// publish that began after another had returned is the later one. Two at the same moment have some order, the same
    /// for all readers, and inside a partition that of their offsets. What a thread gets never goes back.
    ///
    /// Looks at each partition; ask [`LastValue::of`] where that is too much.
    pub fn get(&self) -> Option<Last<V>> {
        let cells = &self.0.cells;
        if let [only] = &**cells {
            return get(only);
        }
        let stamped = cells.iter().filter_map(|cell| Some((cell.peek(|entry| entry.stamp)?, cell)));
        stamped.max_by_key(|(stamp, _)| *stamp).and_then(|(_, cell)| get(cell))
    }

    /// The latest value of one partition, that of its highest offset; `None` before its first record, or if there is no
    /// such partition.
    #[inline]
    pub fn of(&self, partition: u32) -> Option<Last<V>> {
        self.0.cells.get(partition as usize).and_then(get)
    }

    /// The number of partitions.
    pub fn partitions(&self) -> u32 {
        self.0.cells.len() as u32
    }
}

impl<V: Send + Sync + 'static> Clone for LastValue<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for LastValue<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self.get().map(|last| last.position());
        f.debug_struct("LastValue").field("position", &position).finish_non_exhaustive()
    }
}
