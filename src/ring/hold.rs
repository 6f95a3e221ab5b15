//! Holds: each reader says which page it is looking at.
#![forbid(unsafe_code)]

use crate::ring::chunks::Chunks;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU32, AtomicUsize};
use crate::sync::{CachePadded, Mutex};

/// The physical page that a reader looks at, plus one; 0 for none. Written by its reader only.
#[derive(Debug, Default)]
pub(super) struct Hold(CachePadded<AtomicU32>);

impl Hold {
    /// Announces physical page `page`. It is held once the caller has fenced and found it still in the table.
    pub(super) fn announce(&self, page: u16) {
        // ORD(announce:A) Release: what we read on the page that this store lets go. Pairs with ORD(needed:A).
        self.0.store(u32::from(page) + 1, Release);
    }

    /// Lets go.
    pub(super) fn clear(&self) {
        // ORD(let_go:A) Release: what we read on the page that this store lets go. Pairs with ORD(needed:A).
        self.0.store(0, Release);
    }

    fn names(&self, page: u16) -> bool {
        // ORD(needed:A) Acquire: the next writers come after what the reader read. Pairs with ORD(announce:A)
        // and ORD(let_go:A).
        self.0.load(Acquire) == u32::from(page) + 1
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
            // announcement, and the scanner's (inv. 3); the cell itself is published by its chunk. Pairs with ORD(needed:B).
            self.used.store(index + 1, Relaxed);
            index
        })
    }

    /// Gives back a cell.
    pub(super) fn unregister(&self, index: usize) {
        self.cell(index).clear();
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
}
