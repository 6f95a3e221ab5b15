//! A value with the place of its record, and which of two is the newer.
#![forbid(unsafe_code)]

use crate::group::Position;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::{Fresh, Kept, Newest, Yard};
use crate::sync::{Arc, CachePadded};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many publishes, each out of a destructor of the one before, drop old values on the way.
const DEEP: u8 = 8;

/// What a cell holds.
pub(super) struct Entry<V> {
    pub(super) position: Position,
    /// Where the order of partitions does not decide: the turn in which records were stored.
    pub(super) stamp: u64,
    /// None once it has been forgotten.
    value: Option<V>,
}

impl<V: Send + Sync + 'static> Entry<V> {
    /// For a record that has no place yet.
    pub(super) fn new(value: V) -> Fresh<Self> {
        Fresh::new(Self { position: Position { partition: 0, offset: 0 }, stamp: 0, value: Some(value) })
    }

    /// Whether `self` takes the place of `old`: in one partition the higher offset, otherwise the later stamp. It takes
    /// over a later stamp too, so that the stamps of a partition rise with its offsets.
    fn follows(&mut self, old: &Self) -> bool {
        if self.position.partition != old.position.partition {
            return self.stamp > old.stamp;
        }
        self.stamp = self.stamp.max(old.stamp);
        self.position.offset > old.position.offset
    }
}

/// Destructors of values are the user's: a panic ends here, wherever the last count of an entry is given up.
impl<V> Drop for Entry<V> {
    fn drop(&mut self) {
        contain(self.value.take());
    }
}

/// Drops what is the user's; a panic ends here.
pub(super) fn contain<X>(value: X) {
    if std::mem::needs_drop::<X>() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            std::mem::forget(payload); // its own destructor might panic in turn
        }
    }
}

/// What all cells of a store share: the place for old values, and the stamps.
pub(super) struct Keeper<V: Send + Sync + 'static> {
    yard: Arc<Yard<Entry<V>>>,
    /// None with one partition, whose offsets say it all.
    stamps: Option<CachePadded<AtomicU64>>,
}

impl<V: Send + Sync + 'static> Keeper<V> {
    pub(super) fn new(partitions: u32) -> Self {
        let stamps = (partitions > 1).then(|| CachePadded::new(AtomicU64::new(1)));
        Self { yard: Yard::new(), stamps }
    }

    pub(super) fn cell(&self) -> Newest<Entry<V>> {
        Newest::new(self.yard.clone())
    }

    /// Puts the value of a record that has just been stored into its cell, unless a newer one is there.
    pub(super) fn keep(&self, cell: &Newest<Entry<V>>, mut entry: Fresh<Entry<V>>, position: Position) {
        entry.position = position;
        // ORD(keep:A) Relaxed: wants different numbers that rise from a publish to one that begins after it.
        entry.stamp = self.stamps.as_ref().map_or(0, |stamps| stamps.fetch_add(1, Ordering::Relaxed));
        let overtaken = cell.offer(entry, Entry::follows);
        self.tidy(overtaken.err());
    }

    /// Forgets the value of `cell`, and no older one comes back: what remains is its position.
    pub(super) fn forget(&self, cell: &Newest<Entry<V>>) -> Option<Last<V>> {
        loop {
            let there = get(cell)?;
            let Entry { position, stamp, .. } = *there.0;
            let nothing = Fresh::new(Entry { position, stamp, value: None });
            let same = |_: &mut Entry<V>, old: &Entry<V>| old.position == position && old.value.is_some();
            if cell.offer(nothing, same).is_ok() {
                self.tidy(None);
                return Some(there);
            }
        }
    }

    /// Drops `overtaken`, and old values whose time has come. Their destructors are user code, which may publish in turn,
    /// to topics that do the same: so deep and no deeper, the rest waits for the next publish.
    fn tidy(&self, overtaken: Option<Fresh<Entry<V>>>) {
        thread_local! { static DEPTH: Cell<u8> = const { Cell::new(0) }; }
        let depth = DEPTH.try_with(Cell::get).unwrap_or(DEEP);
        let at = |depth| DEPTH.try_with(|now| now.set(depth));
        let _ = at(depth.saturating_add(1));
        drop(overtaken);
        if depth < DEEP {
            drop(self.yard.sweep());
        }
        let _ = at(depth);
    }
}

/// The value in `cell`, if it has one.
pub(super) fn get<V: Send + Sync + 'static>(cell: &Newest<Entry<V>>) -> Option<Last<V>> {
    cell.get().filter(|entry| entry.value.is_some()).map(Last)
}

/// The latest value at the moment it was asked for, and the position of its record.
///
/// It stays what it is for as long as it is kept, whatever is published meanwhile. Cloning it counts; nothing is copied.
pub struct Last<V>(Kept<Entry<V>>);

impl<V> Last<V> {
    /// Where the record stands that the value comes from.
    pub fn position(&self) -> Position {
        self.0.position
    }
}

impl<V> Deref for Last<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        match &self.0.value {
            Some(value) => value,
            None => unreachable!("what was forgotten is not handed out"),
        }
    }
}

impl<V> Clone for Last<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V: fmt::Debug> fmt::Debug for Last<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Last").field("position", &self.position()).field("value", &**self).finish()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Entry, Keeper, Position, get};

    fn at(partition: u32, offset: u64) -> Position {
        Position { partition, offset }
    }

    #[test]
    fn who_was_overtaken_puts_nothing_over_a_newer_value_nor_over_a_forgotten_one() {
        let keeper = Keeper::new(1);
        let cell = keeper.cell();
        let keep = |offset: u64| keeper.keep(&cell, Entry::new(offset.to_string()), at(0, offset));
        let now = || get(&cell).map(|last| (last.position().offset, last.clone()));
        keep(5);
        keep(3);
        assert_eq!(now().unwrap().1.as_str(), "5");
        assert_eq!(keeper.forget(&cell).unwrap().as_str(), "5");
        keep(4);
        assert!(now().is_none() && keeper.forget(&cell).is_none());
        keep(6);
        assert_eq!(now().unwrap().0, 6);
    }

    #[test]
    fn of_two_partitions_the_later_stored_is_the_newer_and_stamps_never_fall() {
        let keeper = Keeper::new(2);
        let cells = [keeper.cell(), keeper.cell()];
        let keep = |cell: usize, position| keeper.keep(&cells[cell], Entry::new(0), position);
        keep(0, at(0, 7));
        keep(0, at(1, 2));
        assert_eq!(get(&cells[0]).unwrap().position(), at(1, 2));
        keep(1, at(1, 9));
        let stamp = || cells[1].peek(|entry| entry.stamp).unwrap();
        let before = stamp();
        keep(1, at(1, 8)); // overtaken between its append and its stamp
        keep(1, at(1, 10));
        assert!(stamp() > before && get(&cells[1]).unwrap().position() == at(1, 10));
    }
}
