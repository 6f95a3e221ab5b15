//! Holds: each reader says which page it is looking at, and on prompt rings from which record on.
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | take_in_hand:A | hand, store | Release | ends the use of what was in hand before; pairs with hand:A. The fence in_hand:A follows |
//! | put_down:A | hand, store | Release | ends the use of what was in hand; pairs with hand:A |
//! | hand:A | hand, load | Acquire | who drops the records comes after their reader; pairs with take_in_hand:A, put_down:A |
//! | say:A | tag, store | Relaxed | for a diagnosis |
//! | keepers:A | tag, load | Relaxed | for a diagnosis |
//! | keepers:B | holds in use, load | Relaxed | for a diagnosis |
//! | lowest_hand:A | holds in use, load | Relaxed | as needed:B; seen because of the fences in_hand:A and release_page:A |
#![forbid(unsafe_code)]

use crate::ring::chunks::Chunks;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use crate::sync::{CachePadded, Mutex};

/// What a reader looks at. Written by its reader only.
#[derive(Debug, Default)]
pub(super) struct Hold(CachePadded<Words>);

#[derive(Debug, Default)]
struct Words {
    /// The physical page, plus one; 0 for none.
    page: AtomicU32,
    /// On prompt rings: the position of the first record in hand, plus one; 0 for none.
    hand: AtomicU64,
    /// What the reader's owner called it, plus one; 0 if nothing.
    tag: AtomicU64,
}

impl Hold {
    /// Announces physical page `page`. It is held once the caller has fenced and found it still in the table.
    pub(super) fn announce(&self, page: u16) {
        // ORD(announce:A) Release: what we read on the page that this store lets go. Pairs with ORD(needed:A).
        self.0.page.store(u32::from(page) + 1, Release);
    }

    /// Lets go.
    pub(super) fn clear(&self) {
        // ORD(let_go:A) Release: what we read on the page that this store lets go. Pairs with ORD(needed:A).
        self.0.page.store(0, Release);
    }

    /// The records from `position` on, to the end of their page, are in hand, once the caller has fenced and found its
    /// cursor there.
    pub(super) fn take_in_hand(&self, position: u64) {
        // ORD(take_in_hand:A) Release: what we read of earlier records is over for who sees this. Pairs with ORD(hand:A).
        self.0.hand.store(position + 1, Release);
    }

    /// Nothing is in hand.
    pub(super) fn put_down(&self) {
        // ORD(put_down:A) Release: what we read of the records that were in hand. Pairs with ORD(hand:A).
        self.0.hand.store(0, Release);
    }

    fn hand(&self) -> Option<u64> {
        // ORD(hand:A) Acquire: who drops the records comes after what the reader read. Pairs with ORD(take_in_hand:A)
        // and ORD(put_down:A).
        self.0.hand.load(Acquire).checked_sub(1)
    }

    /// What the reader's owner calls it.
    pub(super) fn say(&self, tag: Option<u64>) {
        // ORD(say:A) Relaxed: see the table.
        self.0.tag.store(tag.map_or(0, |tag| tag.wrapping_add(1)), Relaxed);
    }

    fn names(&self, page: u16) -> bool {
        // ORD(needed:A) Acquire: the next writers come after what the reader read. Pairs with ORD(announce:A)
        // and ORD(let_go:A).
        self.0.page.load(Acquire) == u32::from(page) + 1
    }
}

/// All holds of a ring. Cells are never freed, and used again.
#[derive(Debug)]
pub(super) struct Holds {
    cells: Chunks<Hold>,
    /// How many cells were ever given out.
    used: AtomicUsize,
    returned: Mutex<Vec<usize>>,
}

impl Holds {
    pub(super) fn new() -> Self {
        Self { cells: Chunks::new(), used: AtomicUsize::new(0), returned: Mutex::new(Vec::new()) }
    }

    /// A cell of one's own.
    pub(super) fn register(&self) -> usize {
        let mut returned = self.returned.lock().unwrap_or_else(|e| e.into_inner());
        returned.pop().unwrap_or_else(|| {
            // ORD(register:A) Relaxed: written under the lock only.
            let index = self.used.load(Relaxed);
            self.cells.make(index);
            // ORD(register:B) Relaxed: found by `needed` because of the reader's fence, which follows its first
            // announcement, and the scanner's (inv. 3); the cell itself is published by its chunk. Pairs with ORD(needed:B)
            // and ORD(lowest_hand:A).
            self.used.store(index + 1, Relaxed);
            index
        })
    }

    /// Gives back a cell, with nothing in hand.
    pub(super) fn unregister(&self, index: usize) {
        self.cell(index).clear();
        self.cell(index).say(None);
        self.returned.lock().unwrap_or_else(|e| e.into_inner()).push(index);
    }

    /// A cell that was given out.
    pub(super) fn cell(&self, index: usize) -> &Hold {
        self.cells.make(index)
    }

    /// True when some reader may be looking at physical page `page`. Fence first.
    pub(super) fn needed(&self, page: u16) -> bool {
        // ORD(needed:B) Relaxed: by the fences, as for the count's other end. Pairs with ORD(register:B).
        let used = self.used.load(Relaxed);
        (0..used).any(|index| self.cells.get(index).is_some_and(|hold| hold.names(page)))
    }

    /// What the readers are called that look at physical page `page`, as far as their owners called them anything.
    pub(super) fn keepers(&self, page: u16) -> Vec<Option<u64>> {
        // ORD(keepers:B) Relaxed: see the table.
        let used = self.used.load(Relaxed);
        let there = (0..used).filter_map(|index| self.cells.get(index)).filter(|hold| hold.names(page));
        // ORD(keepers:A) Relaxed: see the table.
        there.map(|hold| hold.0.tag.load(Relaxed).checked_sub(1)).collect()
    }

    /// The first record in hand of those that `here` accepts; `u64::MAX` if none is. Fence first.
    pub(super) fn lowest_hand(&self, here: impl Fn(u64) -> bool) -> u64 {
        // ORD(lowest_hand:A) Relaxed: as in `needed`. Pairs with ORD(register:B).
        let used = self.used.load(Relaxed);
        let hands = (0..used).filter_map(|index| self.cells.get(index)?.hand());
        hands.filter(|at| here(*at)).min().unwrap_or(u64::MAX)
    }
}
