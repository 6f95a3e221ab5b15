//! A cell that keeps the newest of what is offered to it, read from any thread without waiting.
//!
//! ```text
//!            get: pin, load, count + 1, unpin
//!  Newest ──▶ Node ◀── Kept (a reader's)          offer: pin, compare, exchange, unpin
//!               │ replaced
//!               ▼
//!  Yard   fresh: retired nodes ──(sweep)──▶ aging, under one token ──(token: over)──▶ Ripe: dropped by who swept
//! ```
//!
//! A node is an `Arc`: the cell owns one count of it, each reader one more. When an offer takes a node's place, the cell's
//! count goes to the yard, and is given up once no reader can be between its load and its own count. How long that is, is
//! for crossbeam-epoch to say, but it gets no value to drop: only a *token*, a flag that is raised when everybody who was
//! pinned at the time has unpinned. So destructors of values run neither in the collector, on whatever thread, nor under
//! a guard or a lock, but where the swept nodes are dropped by whoever called [`Yard::sweep`].
//!
//! 1. A node is in a cell, or in one list of the yard, or nowhere; it is retired once, by the offer that took its place.
//! 2. `aging` is filled from `fresh` before its token is handed to the collector; so everything in it was out of its cell
//!    before, and who may still be looking at it was pinned before.
//! 3. While a token is out, `aging` does not change.
//! 4. Each cell keeps its yard alive, and a look at a cell borrows it; so when the yard is dropped nobody looks at anything
//!    in it.
//!
//! Progress: `get` and `peek` are wait-free; `offer` is lock-free (an exchange that fails has met another that did not);
//! `sweep` never waits: of several at once, one sweeps. Unless some thread of the process stays pinned, the yard holds no
//! more than about twice [`EVERY`] nodes.
//!
//! # Orderings
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | newest_get:A | `now`, load | Acquire | the value behind it is read; pairs with newest_put:A |
//! | newest_peek:A | `now`, load | Acquire | the same; pairs with newest_put:A |
//! | newest_look:A | `now`, load | Acquire | the value that we compare with and retire; pairs with newest_put:A |
//! | newest_put:A | `now`, CAS | Release | the value before its address; pairs with newest_get:A, newest_peek:A, newest_look:A, newest_put:B. Not Acquire: what it replaces was acquired when it was read |
//! | newest_put:B | `now`, CAS lost | Acquire | as newest_look:A; pairs with newest_put:A |
//! | yard_retire:A | `fresh`, load | Relaxed | a guess, that the exchange checks |
//! | yard_retire:B | `next`, store | Relaxed | published by the exchange below |
//! | yard_retire:D | `retired`, add | Relaxed | a counter |
//! | yard_retire:C | `fresh`, CAS | Release | the node's link, and that it left its cell, before it is in the list; pairs with yard_sweep:B |
//! | yard_sweep:A | token, load | Acquire | the counts that readers took before they unpinned; pairs with yard_over:A |
//! | yard_sweep:B | `fresh`, swap | Acquire | links, and that the nodes have left their cells before the token goes out; pairs with yard_retire:C |
//! | yard_sweep:C | token, store | Relaxed | the collector's queue takes it to the one who raises it |
//! | yard_sweep:D | `retired`, load | Relaxed | a counter |
//! | yard_sweep:E | `swept`, load | Relaxed | a hint: at worst two sweep at once, and one finds the lock taken |
//! | yard_sweep:F | `swept`, store | Relaxed | the same |
//! | yard_over:A | token, store | Release | what was done before everybody unpinned; pairs with yard_sweep:A |
//! | yard_ripe:A | `next`, load | Relaxed | the list is ours |
//! | last_look:A | `now`, load | Relaxed | the cell is ours |
//! | last_sweep:A | `fresh`, load | Relaxed | the yard is ours |

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;

#[cfg(all(ringlog_loom, not(crossbeam_loom)))]
use super::stand_in::pin;
#[cfg(any(not(ringlog_loom), crossbeam_loom))]
use crossbeam_epoch::pin;

use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use crate::sync::{Arc, Mutex, explore, try_lock};

/// So many nodes are retired before a sweep does something: a token costs as much as a dozen publishes.
const EVERY: usize = if cfg!(ringlog_loom) { 1 } else { 32 };

struct Node<T> {
    next: AtomicPtr<Node<T>>,
    item: T,
}

/// A value that nobody else has seen yet.
pub struct Fresh<T> {
    node: Arc<Node<T>>,
}

impl<T> Fresh<T> {
    /// Allocates, once.
    pub fn new(item: T) -> Self {
        Self { node: Arc::new(Node { next: AtomicPtr::new(null_mut()), item }) }
    }
}

impl<T> Deref for Fresh<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.node.item
    }
}

impl<T> DerefMut for Fresh<T> {
    fn deref_mut(&mut self) -> &mut T {
        match Arc::get_mut(&mut self.node) {
            Some(node) => &mut node.item,
            None => unreachable!("it was shown to somebody"),
        }
    }
}

/// A value that was the newest when it was taken.
pub struct Kept<T> {
    node: Arc<Node<T>>,
}

impl<T> Deref for Kept<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.node.item
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { node: self.node.clone() }
    }
}

/// The cell. Empty at first.
pub struct Newest<T: Send + Sync + 'static> {
    /// Null, or a node of which the cell owns one count.
    now: AtomicPtr<Node<T>>,
    yard: Arc<Yard<T>>,
}

impl<T: Send + Sync + 'static> Newest<T> {
    /// An empty cell, whose values are retired to `yard`.
    pub fn new(yard: Arc<Yard<T>>) -> Self {
        Self { now: AtomicPtr::new(null_mut()), yard }
    }

    /// The newest value.
    #[inline]
    pub fn get(&self) -> Option<Kept<T>> {
        let guard = pin();
        // ORD(newest_get:A) Acquire: the value behind the pointer. Pairs with ORD(newest_put:A).
        let now = self.now.load(Acquire);
        if now.is_null() {
            return None;
        }
        // SAFETY: the node was in the cell when we were pinned, so the cell's count of it is given up after we unpin.
        unsafe { Arc::increment_strong_count(now.cast_const()) };
        // SAFETY: the count is the one just added.
        let node = unsafe { Arc::from_raw(now.cast_const()) };
        drop(guard);
        Some(Kept { node })
    }

    /// Looks at the newest value. `f` is short and runs no user code: reclamation in the whole process waits for it.
    pub fn peek<R>(&self, f: impl FnOnce(&T) -> R) -> Option<R> {
        let _guard = pin();
        // ORD(newest_peek:A) Acquire: the value behind the pointer. Pairs with ORD(newest_put:A).
        let now = self.now.load(Acquire);
        // SAFETY: as in `get`; the reference ends before the guard does.
        unsafe { now.as_ref() }.map(|node| f(&node.item))
    }

    /// Puts `new` in place, unless what is there is at least as new; then `new` comes back. `newer` is asked with each
    /// value met, may change `new`, and runs no user code.
    pub fn offer(&self, mut new: Fresh<T>, mut newer: impl FnMut(&mut T, &T) -> bool) -> Result<(), Fresh<T>> {
        let _guard = pin();
        // ORD(newest_look:A) Acquire: the value behind the pointer. Pairs with ORD(newest_put:A).
        let mut now = self.now.load(Acquire);
        loop {
            // SAFETY: as in `get`; the reference ends before the guard does.
            let there = unsafe { now.as_ref() };
            if !there.is_none_or(|node| newer(&mut new, &node.item)) {
                return Err(new);
            }
            explore();
            let ours = Arc::into_raw(new.node).cast_mut();
            // ORD(newest_put:A) Release: the value before its address. Pairs with ORD(newest_get:A), ORD(newest_peek:A),
            // ORD(newest_look:A), ORD(newest_put:B).
            // ORD(newest_put:B) Acquire: the value of who was first. Pairs with ORD(newest_put:A).
            match self.now.compare_exchange(now, ours, Release, Acquire) {
                Ok(_) => break,
                Err(other) => now = other,
            }
            // SAFETY: the exchange failed, so the count that `into_raw` gave out is still ours, and the only one.
            new = Fresh { node: unsafe { Arc::from_raw(ours.cast_const()) } };
        }
        if !now.is_null() {
            self.yard.retire(now);
        }
        Ok(())
    }
}

impl<T: Send + Sync + 'static> Drop for Newest<T> {
    fn drop(&mut self) {
        // Nobody reads or offers any more: what is there is retired like all before it, and goes with the yard.
        // ORD(last_look:A) Relaxed: whoever dropped us has seen all that was done.
        let now = self.now.load(Relaxed);
        if !now.is_null() {
            self.yard.retire(now);
        }
    }
}

/// Where replaced values wait until nobody can be about to count them.
pub struct Yard<T> {
    /// A list by `Node::next`, newest first; of each node it owns one count.
    fresh: AtomicPtr<Node<T>>,
    /// How many were ever retired, modulo its size; and how many when somebody last swept.
    retired: AtomicUsize,
    swept: AtomicUsize,
    aging: Mutex<Aging<T>>,
}

struct Aging<T> {
    nodes: Ripe<T>,
    /// Raised by the collector.
    over: Arc<AtomicBool>,
    /// Whether a token is out.
    out: bool,
}

impl<T: Send + Sync + 'static> Yard<T> {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        let aging = Aging { nodes: Ripe(null_mut()), over: Arc::new(AtomicBool::new(false)), out: false };
        let [retired, swept] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Arc::new(Self { fresh: AtomicPtr::new(null_mut()), retired, swept, aging: Mutex::new(aging) })
    }

    /// Takes over the cell's count of a node that has left it.
    fn retire(&self, node: *mut Node<T>) {
        // SAFETY: the count is alive, and the node's link is for its one retirement (inv. 1).
        let link = unsafe { &(*node).next };
        // ORD(yard_retire:A) Relaxed: a guess.
        let mut first = self.fresh.load(Relaxed);
        loop {
            // ORD(yard_retire:B) Relaxed: published by the exchange.
            link.store(first, Relaxed);
            // ORD(yard_retire:C) Release: the link, and our unlinking, before the list. Pairs with ORD(yard_sweep:B).
            match self.fresh.compare_exchange_weak(first, node, Release, Relaxed) {
                Ok(_) => break,
                Err(other) => first = other,
            }
        }
        // ORD(yard_retire:D) Relaxed: a counter.
        self.retired.fetch_add(1, Relaxed);
    }

    /// If enough nodes were retired since the last time: gets reclamation on by a step, and hands over what nobody can be
    /// about to count any more. Drop it outside every lock: what it owns may be the last of a value.
    #[inline]
    pub fn sweep(&self) -> Ripe<T> {
        // ORD(yard_sweep:D) Relaxed: a counter.
        let retired = self.retired.load(Relaxed);
        // ORD(yard_sweep:E) Relaxed: a hint.
        if retired.wrapping_sub(self.swept.load(Relaxed)) < EVERY {
            return Ripe(null_mut());
        }
        // ORD(yard_sweep:F) Relaxed: a hint.
        self.swept.store(retired, Relaxed);
        self.get_on()
    }

    #[cold]
    #[inline(never)]
    fn get_on(&self) -> Ripe<T> {
        let Some(mut aging) = try_lock(&self.aging) else { return Ripe(null_mut()) };
        let token = self.begin(&mut aging);
        drop(aging);
        if let Some(over) = token {
            let guard = pin();
            // ORD(yard_over:A) Release: after everybody has unpinned who was pinned. Pairs with ORD(yard_sweep:A).
            guard.defer(move || over.store(true, Release));
            guard.flush();
        }
        // Each of these is good for one epoch, and a token is over after two, unless somebody stays pinned.
        pin().flush();
        pin().flush();
        try_lock(&self.aging).map_or(Ripe(null_mut()), |mut aging| aging.ripe())
    }

    /// Sends fresh nodes on their way, if no others are.
    fn begin(&self, aging: &mut Aging<T>) -> Option<Arc<AtomicBool>> {
        if aging.out {
            return None;
        }
        // ORD(yard_sweep:B) Acquire: links, and that these have left their cells. Pairs with ORD(yard_retire:C).
        let fresh = self.fresh.swap(null_mut(), Acquire);
        if fresh.is_null() {
            return None;
        }
        aging.nodes = Ripe(fresh);
        aging.out = true;
        // ORD(yard_sweep:C) Relaxed: the collector's queue carries it.
        aging.over.store(false, Relaxed);
        Some(aging.over.clone())
    }
}

impl<T> Aging<T> {
    fn ripe(&mut self) -> Ripe<T> {
        // ORD(yard_sweep:A) Acquire: the counts that readers have taken. Pairs with ORD(yard_over:A).
        if self.out && self.over.load(Acquire) {
            self.out = false;
            return std::mem::replace(&mut self.nodes, Ripe(null_mut()));
        }
        Ripe(null_mut())
    }
}

impl<T> Drop for Yard<T> {
    fn drop(&mut self) {
        // ORD(last_sweep:A) Relaxed: whoever dropped us has seen all that was done.
        drop(Ripe(self.fresh.load(Relaxed)));
    }
}

/// Values that are out of use, given up one by one as it is dropped.
#[must_use = "where it is dropped, destructors of values run"]
pub struct Ripe<T>(*mut Node<T>);

// SAFETY: it is a list of counts of nodes, and moving it moves those.
unsafe impl<T: Send + Sync> Send for Ripe<T> {}

impl<T> Drop for Ripe<T> {
    fn drop(&mut self) {
        while !self.0.is_null() {
            // SAFETY: the list owns a count of each of its nodes, and no reader is between its load and its count.
            let node = unsafe { Arc::from_raw(self.0.cast_const()) };
            // ORD(yard_ripe:A) Relaxed: the list is ours.
            self.0 = node.next.load(Relaxed);
            drop(node);
        }
    }
}

impl<T> fmt::Debug for Fresh<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Newest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Newest").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Yard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yard").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Ripe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ripe").field("empty", &self.0.is_null()).finish()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
#[path = "tests.rs"]
mod tests;
