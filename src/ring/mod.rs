//! HEADER

mod chunks;
mod exclusive;
mod gate;
mod grant;
mod hold;
mod pages;
mod reader;
mod run;
mod shared;
mod slot;
mod storage;
mod table;
mod tail;
mod types;

pub use exclusive::Exclusive;
pub use gate::Gate;
pub use reader::{Peek, Reader};
pub use run::{Records, Run};
pub use types::{Fenced, Moved, Options, OutOfMemory, Producers, Refused, Start, Why};

use std::fmt;
use std::ops::Deref;

use crate::seq::{Capacity, Geometry, Seq, Stamped};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::epoch::EpochCell;
use crate::sync::{Arc, CachePadded, Mutex};

use hold::Holds;
use pages::Pages;
use table::Table;
use tail::Tail;

type Shared = Arc<Gate>;

/// Pages beyond those in the table that a ring has from the start.
const SPARES: usize = 2;

/// One partition's records: published once, in place, and read by any number of readers.
pub struct Ring<T>(Arc<Body<T>>);

/// What a ring, its readers and its producers share; a ring gives way to it.
pub struct Body<T> {
    geometry: Geometry,
    tail: Arc<Tail>,
    granted: CachePadded<AtomicU64>,
    table: Table,
    pages: Pages<T>,
    holds: Holds,
    gates: EpochCell<Vec<Shared>>,
    joining: Mutex<Vec<Shared>>,
    exclusive_taken: AtomicBool,
}

impl<T: Send + Sync + 'static> Ring<T> {
    /// A ring. Its pages are reserved at once and touched one by one as they are needed (or now, if `prefault`).
    pub fn new(options: Options) -> Result<Arc<Self>, OutOfMemory> {
        Self::with_spares(options, SPARES)
    }

    /// A ring with another number of spare pages: with none, pages come round soonest, which is what models want.
    pub fn with_spares(options: Options, spares: usize) -> Result<Arc<Self>, OutOfMemory> {
        let Options { capacity, producers, prefault, first } = options;
        let geometry = Geometry::new(capacity);
        let shared = producers == Producers::Shared;
        let body = Body {
            geometry,
            tail: Arc::new(Tail::new(producers, first)),
            granted: CachePadded::new(AtomicU64::new(Stamped::new(first, 0).word())),
            table: Table::new(geometry.pages()),
            pages: Pages::new(geometry.pages() + spares, geometry.slots(), shared, prefault)?,
            holds: Holds::new(),
            gates: EpochCell::new(Vec::new()),
            joining: Mutex::new(Vec::new()),
            exclusive_taken: AtomicBool::new(false),
        };
        Ok(Arc::new(Self(Arc::new(body))))
    }

    /// The one producer of an exclusive ring; `None` for a shared one, and the second time.
    pub fn exclusive(&self) -> Option<Exclusive<T>> {
        // ORD(exclusive:A) Relaxed: it only says who was first.
        let mine = self.producers() == Producers::Exclusive && !self.exclusive_taken.swap(true, Relaxed);
        mine.then(|| Exclusive::new(self.0.clone()))
    }

    /// A reader that starts at `at`. It holds nobody back; give its group a gate for that.
    pub fn reader(&self, at: Seq) -> Reader<T> {
        Reader::new(self.0.clone(), at)
    }
}

impl<T> Deref for Ring<T> {
    type Target = Body<T>;

    #[inline(always)]
    fn deref(&self) -> &Body<T> {
        &self.0
    }
}

impl<T: Send + Sync + 'static> Body<T> {
    /// How many records it holds, exactly.
    pub fn capacity(&self) -> Capacity {
        self.geometry.capacity()
    }

    /// Who may publish.
    pub fn producers(&self) -> Producers {
        self.tail.producers()
    }

    /// One past the last offset claimed (shared producers) or published (an exclusive one).
    #[inline]
    pub fn end(&self) -> Seq {
        self.tail.end_seq()
    }

    /// The first offset that a new reader may start at: everything from there on is retained at this moment. It lags the
    /// end by the capacity less what producers have been promised, at most an eighth.
    pub fn earliest(&self) -> Seq {
        let granted = self.granted();
        self.tail.seq(self.retained(self.tail.nth(granted.widen(self.tail.end_seq()))))
    }

    /// The first position retained when everything below `granted` is promised.
    fn retained(&self, granted: u64) -> u64 {
        granted.saturating_sub(self.geometry.capacity().get())
    }

    /// No claim succeeds afterwards. Returns the final end: an exclusive producer has published all below it, shared ones
    /// have claimed it and are about to. Waits for a publish of an exclusive producer that is under way, in which no user
    /// code runs.
    pub fn seal(&self) -> Seq {
        self.tail.seq(self.tail.seal())
    }

    /// True once sealed.
    pub fn is_sealed(&self) -> bool {
        self.tail.is_sealed()
    }

    /// Adds a gate, as near to where it is wanted as what is retained allows; `position()` says where. From there on its
    /// group misses nothing.
    pub fn join(&self, want: Start, tag: u64) -> Arc<Gate> {
        let at = match want {
            Start::At(seq) => self.within(seq),
            Start::End => self.end(),
            Start::Earliest => self.earliest(),
        };
        let gate = Arc::new(Gate::new(at, tag, self.tail.clone()));
        self.change_gates(|gates| gates.push(gate.clone()));
        self.settle(&gate, Stamped::new(at, 0), at);
        gate
    }

    /// Removes a gate: it holds nobody back any more, and commits in its epoch fail.
    pub fn leave(&self, gate: &Gate) {
        gate.bump();
        self.change_gates(|gates| gates.retain(|other| !std::ptr::eq(&**other, gate)));
    }

    /// Moves a gate, from any thread, in a new epoch; as near to where it is wanted as what is retained allows.
    pub fn seek(&self, gate: &Gate, want: Seq) -> Moved {
        let to = self.within(want);
        let before = gate.force(to);
        let to = self.settle(gate, before.at(to).bumped(), to);
        Moved { from: gate.widen(before), to }
    }

    /// The slowest gate: where it stands, and its tag.
    pub fn limiting(&self) -> Option<(Seq, u64)> {
        let end = self.end();
        let place = |gate: &Shared| (gate.read().widen(end), gate.tag());
        self.gates.read(|gates| gates.iter().map(place).max_by_key(|(at, _)| end.lag_behind(*at)))
    }

    /// Pages that have left the table and wait until nobody needs them, or until somebody looks whether they do.
    pub fn pages_aside(&self) -> usize {
        self.pages.aside()
    }

    /// Pages in memory: the N in the table, two spares, and what readers and stalled claims once made necessary beyond
    /// that: at most one for each reader, unfinished claim and producer at work.
    pub fn pages_made(&self) -> usize {
        self.pages.made()
    }

    /// `want`, or the nearest offset retained.
    fn within(&self, want: Seq) -> Seq {
        let end = self.end();
        want.later(self.earliest()).earlier(end)
    }

    /// Makes the position `at` of a gate that anybody can see hold against grants, or the first one that still can be.
    fn settle(&self, gate: &Gate, placed: Stamped, at: Seq) -> Seq {
        let kept = self.tail.seq(self.retained(self.stamp()));
        if at.precedes(kept) {
            gate.lift(placed, kept);
        }
        at.later(kept)
    }

    fn change_gates(&self, change: impl FnOnce(&mut Vec<Shared>)) {
        let mut gates = self.joining.lock().unwrap_or_else(|e| e.into_inner());
        change(&mut gates);
        self.gates.replace(gates.clone());
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Debug for Body<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("capacity", &self.geometry.capacity().get())
            .field("producers", &self.tail.producers())
            .field("end", &self.tail.end_seq())
            .field("sealed", &self.tail.is_sealed())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests;
