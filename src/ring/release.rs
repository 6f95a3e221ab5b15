//! Prompt release: a record is dropped as soon as every cursor is past it, once, by whoever made it so.
//!
//! On a prompt ring nothing lies on a page when it is used again: its records have been *released* one by one, by the
//! threads that moved cursors over them (a group's commit, mostly). Of several that are past at the same time, one
//! exchange on the page's word decides who drops what.
//!
//! ```text
//!   page 5, slots of 8            40    41    42    43    44    45    46    47
//!                               ┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┐
//!   marks                       │  D  │  D  │  P  │  P  │  P  │  P  │     │     │    D dropped, P published
//!                               └─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
//!                                           ▲           ▲           ▲
//!                                           │           │           └ cursor of B: 46
//!                                           │           └ cursor of A was 42, now 44: A's commit
//!                                           └ released: 42
//!   A: looks at the cursors: everybody is past 44; released 42 -> 44; drops 42, 43
//!
//!      whoever moved a cursor                    a reader                       who comes in at x, or seeks there
//!      ----------------------                    --------                       ---------------------------------
//!      the cursor: p -> q                        hand = p                       a cursor at x, on the list
//!      fence                                     fence                          fence
//!      low = the lowest cursor                   own cursor at p, or before?    front > x?
//!      front = max(front, low)                     yes: reads from p on           yes: cursor to front, and then as on
//!      fence                                       no:  hand = 0, looks anew           the left, for x -> front
//!      low = min(low, lowest cursor)             hand = 0
//!      low = min(low, hands on this page)        the cursor: p -> q, as on the left
//!      exchange released r -> low
//!      drop r..low
//! ```
//!
//! Where nobody listens at all, and where a cursor went past a record before it was published, there is nobody to move
//! a cursor over it: then who publishes it releases it. `late` says for which positions that is: all below it. It is
//! raised before the marks are looked at, by whoever may have gone past unpublished records; publishers look at it after
//! their mark. That is the asymmetric barrier again: publishers pay for a load.
//!
//! # Who writes what
//!
//! | word                | written by                                                         | read by                    |
//! |---------------------|--------------------------------------------------------------------|----------------------------|
//! | `released` of a physical page | who makes it page n, to its first position; releasers, by CAS, upwards | releasers    |
//! | mark: DROPPED       | the releaser that took the slot                                    | who wants to use the page again |
//! | `front`             | releasers, by maximum                                              | who comes in, who seeks    |
//! | `late`              | sweepers, by maximum; all (`u64::MAX`) by the last who leaves, and the place of who comes in first | publishers |
//! | hand                | its reader: once per run                                           | releasers                  |
//! | `gone` of a cursor  | who takes it off the list, before                                  | its reader                 |
//!
//! # Invariants
//!
//! 1. `released` of a physical page only grows: it is a position, and a page is used again only for later ones. So an
//!    exchange r -> m that succeeds gives its thread the slots of r..m, which nobody else is ever given.
//! 2. What is given so is read by nobody: (a) A reader reads from p on only while its hand shows p and after it has seen its
//!    cursor, on the list, at p, or before it (what lies between was handed out and is not done). Of the two fences between
//!    {cursor seen past the record, or off the list} and {hands read} on the one side, {hand} and {cursor looked at} on the
//!    other, one is first: the releaser sees the hand, or the reader sees the cursor gone on; and if it came back since, it
//!    came in at `front` or later, as in (b). (b) Who comes in below `front` is lifted to it before anybody is given the cursor; who comes
//!    in while `front` rises is seen by the second look at the cursors, or sees it risen.
//! 3. Every record is released, promptly: of those who move cursors over it, the one whose fence comes last sees all the
//!    others' cursors past it, and it released the page up to there unless a hand, an unpublished record or a cursor about to
//!    be lifted stopped it. Then that hand's reader (its cursor was moved away under it), that record's publisher (`late`),
//!    or that cursor's owner comes later and goes on from there: each of them fences after its own store.
//! 4. Records are released in their order on a page, and pages apart from each other: a hand keeps what comes behind it on its
//!    own page, and nothing else.
//! 5. A page is used again when all its marks say DROPPED and no hold names it. On a lossy ring, where a page may go before
//!    everybody is past it, who wants it releases the rest, once it has left the table and nobody holds it.
//! 6. User code (destructors) runs in a releaser only, contained, holding nothing: the slot it came from is free already. So
//!    a destructor that never returns keeps what its thread was given on that page, and nothing else.
//!
//! # Orderings
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | anew:A | `released`, store | Release | the marks of this use before its first position; pairs with kept_from:A |
//! | forget:A | `released`, store | Relaxed | the page was never in the table |
//! | kept_from:A | `released`, load | Acquire | the marks read next are those of this use or later ones; pairs with anew:A |
//! | give:A | `released`, CAS | Relaxed | decides who; the records were acquired with their marks and read no more (inv. 2). On failure it is looked at anew |
//! | standing:A | mark, load | Acquire | the record, for whoever drops it; pairs with mark:A |
//! | all_dropped:A | mark, load | Acquire | the next writers come after these; pairs with drop_record:A |
//! | written:A | mark, load | Acquire | the time beside the record; pairs with mark:A, drop_record:A |
//! | empty:A | mark, store | Relaxed | goes on with anew:A and the entry |
//! | front:A | `front`, max | Relaxed | before front:B by the fences release_page:A and come_in:A |
//! | front:B | `front`, load | Relaxed | see front:A |
//! | late:A | `late`, load | Relaxed | after our marks by the barrier pair; carries nothing |
//! | late:B | `late`, max | Relaxed | before the marks are read by the barrier pair |
//! | late:C | `late`, store | Relaxed | the same: the sweep that follows has the barrier |
//! | late:D | `late`, CAS | Relaxed | who reads the old value releases what it need not, and finds our cursor |
//! | published:C | light barrier | SeqCst | our marks before late:A; pairs with sweep:A |
//! | sweep:A | heavy barrier | SeqCst | late:B, late:C before the marks; pairs with published:C |
//! | past:A | `fence` | SeqCst | our cursor, mark or cleared hand before the cursors are read (inv. 3); pairs with itself and release_page:A |
//! | release_page:A | `fence` | SeqCst | the cursors read, and `front`, before cursors and hands are read again (inv. 2); pairs with in_hand:A, come_in:A, past:A |
//! | in_hand:A | `fence` | SeqCst | the hand before the look at the cursor (inv. 2); pairs with release_page:A |
//! | come_in:A | `fence` | SeqCst | our cursor on the list before `front` is read (inv. 2); pairs with release_page:A |
#![forbid(unsafe_code)]

use std::mem::needs_drop;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ring::slot::{DROPPED, EMPTY, PUBLISHED, Page};
use crate::ring::table::Found;
use crate::ring::{Body, Gate};
use crate::seq::Seq;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU64, fence};
use crate::sync::hint::{heavy_barrier, light_barrier};
use crate::sync::{CachePadded, explore};

/// Everybody is late: nobody listens.
const ALL: u64 = u64::MAX;

/// What a prompt ring has of its own.
#[derive(Debug)]
pub(super) struct Lines {
    /// Nobody comes in below.
    front: CachePadded<AtomicU64>,
    /// Who publishes below it releases what it published.
    late: CachePadded<AtomicU64>,
    /// The number of a cursor that stood far back when somebody looked.
    furthest: AtomicU64,
}

impl Default for Lines {
    fn default() -> Self {
        let word = |value| CachePadded::new(AtomicU64::new(value));
        Self { front: word(0), late: word(ALL), furthest: AtomicU64::new(0) }
    }
}

/// How far the records of a physical page have been released:
///
/// ```text
///   63                                            1  0
///   ┌──────────────────────────────────────────────┬───┐
///   │  the first position there that has not been  │ N │      N: none is left
///   └──────────────────────────────────────────────┴───┘
/// ```
#[derive(Debug)]
pub(super) struct Released(AtomicU64);

impl Default for Released {
    fn default() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }
}

impl Released {
    const NONE: u64 = 1;

    /// The page, whose marks are empty, is to hold the positions from `first` on.
    pub(super) fn anew(&self, first: u64) {
        // ORD(anew:A) Release: the empty marks before the position that they are for. Pairs with ORD(kept_from:A).
        self.0.store(first << 1, Release);
    }

    /// The page holds nothing after all.
    pub(super) fn forget(&self) {
        // ORD(forget:A) Relaxed: the page was never in the table, so there was nothing to release.
        self.0.store(Self::NONE, Relaxed);
    }

    /// The first position that has not been released; `None` when nothing is left.
    pub(super) fn kept_from(&self) -> Option<u64> {
        // ORD(kept_from:A) Acquire: the marks that are read next are of this use of the page. Pairs with ORD(anew:A).
        let word = self.0.load(Acquire);
        (word & Self::NONE == 0).then_some(word >> 1)
    }

    /// Gives the caller the positions `from..to`, of which `to` may be the page's end; false if somebody was given some of
    /// them.
    pub(super) fn give(&self, from: u64, to: u64, end: u64) -> bool {
        let new = to << 1 | if to == end { Self::NONE } else { 0 };
        explore();
        // ORD(give:A) Relaxed: it says who drops them. On failure the word is looked at anew.
        self.0.compare_exchange(from << 1, new, Relaxed, Relaxed).is_ok()
    }
}

impl<T> Page<T> {
    /// How many slots from `from` on, and before `to`, hold a record of this use that nobody has dropped, without a gap.
    pub(super) fn standing(&self, from: usize, to: usize) -> usize {
        // ORD(standing:A) Acquire: the record, for whoever drops it. Pairs with ORD(mark:A).
        (from..to).take_while(|i| self.mark_of(*i).load(Acquire) == PUBLISHED).count()
    }

    /// True when every record of this use has been dropped.
    pub(super) fn all_dropped(&self, slots: usize) -> bool {
        // ORD(all_dropped:A) Acquire: the next writers come after these. Pairs with ORD(drop_record:A).
        (0..slots).all(|i| self.mark_of(i).load(Acquire) == DROPPED)
    }

    /// Makes the marks of a page on which nothing lies ready for its next use. Somebody may look at them meanwhile.
    pub(super) fn empty(&self, slots: usize) {
        // ORD(empty:A) Relaxed: the page is the caller's alone, and goes on with its entry.
        (0..slots).for_each(|i| self.mark_of(i).store(EMPTY, Relaxed));
    }

    /// How many slots from `from` on, and before `to`, have held a record of page number `page`, without a gap. Their records
    /// may have been dropped.
    pub(super) fn written(&self, page: u64, from: usize, to: usize) -> usize {
        if self.tagged() {
            return self.published(page, from, to);
        }
        // ORD(written:A) Acquire: what lies beside the record. Pairs with ORD(mark:A) and ORD(drop_record:A).
        let there = |i: &usize| matches!(self.mark_of(*i).load(Acquire), PUBLISHED | DROPPED);
        (from..to).take_while(there).count()
    }
}

impl<T> Body<T> {
    /// Whether records are dropped as soon as every cursor is past them. Then whoever moves a cursor calls
    /// [`release`](Self::release) or [`sweep`](Self::sweep) afterwards, whoever publishes [`published`](Self::published):
    /// outside every lock, for that is where destructors run.
    #[inline(always)]
    pub fn is_prompt(&self) -> bool {
        self.lines.is_some()
    }

    /// `count` records from `first` on have been published. If nobody will ever come past them, they are dropped.
    #[inline]
    pub fn published(&self, first: Seq, count: u64) {
        let Some(lines) = &self.lines else { return };
        explore();
        // ORD(published:C) SeqCst: the marks before `late`. Pairs with ORD(sweep:A).
        light_barrier();
        // ORD(late:A) Relaxed: either we see it raised, or who raised it, behind its heavy barrier, sees our marks.
        if self.tail.nth(first) < lines.late.load(Relaxed) {
            self.release_range(first, count);
        }
    }

    /// A cursor has gone, or tried to go, from `from` to `to`: what everybody is past is dropped.
    #[inline]
    pub fn release(&self, from: Seq, to: Seq) {
        if self.is_prompt() {
            self.release_range(from, to.lag_behind(from));
        }
    }

    /// The pages that hold the `count` records from `from` on.
    #[inline(never)]
    pub(super) fn release_range(&self, from: Seq, count: u64) {
        // Whoever stands where we came from, or before, has it still to come past, and releases it then (inv. 3).
        self.past();
        let Some(low) = self.lowest_above(Some(self.tail.nth(from))) else { return };
        for (number, _, _) in self.geometry.parts(self.tail.nth(from), count) {
            let complete = match self.table.look(number) {
                Found::Here(physical) => self.release_page(physical, low),
                _ => false,
            };
            if !complete {
                return self.sweep();
            }
        }
    }

    /// The same after cursors came, left or were moved: all pages, and those who are late are told so.
    #[cold]
    pub fn sweep(&self) {
        let Some(lines) = &self.lines else { return };
        self.past();
        // Of many, one who stands far back: all from there on is released when he comes past it, and `late` may be too high.
        let (bound, sure) = match self.far_back() {
            Some(bound) => (bound, false),
            None => (self.lowest_of_all(), true),
        };
        // ORD(late:B) Relaxed: before the marks are read by the barrier pair.
        lines.late.fetch_max(bound, Relaxed);
        // ORD(sweep:A) SeqCst: `late` before the marks. Pairs with ORD(published:C).
        heavy_barrier();
        let kept_before = |physical| self.pages.kept_from(physical).is_some_and(|from| from < bound);
        if !sure && !self.pages.numbers().any(kept_before) {
            return;
        }
        let low = if sure { bound } else { self.lowest_of_all() };
        for physical in self.pages.numbers() {
            self.release_page(physical, low);
        }
    }

    /// Releases what lies on a page below `low`; false if it met a record there that is not published yet.
    fn release_page(&self, physical: u16, low: u64) -> bool {
        let (Some(lines), Some(from)) = (&self.lines, self.pages.kept_from(physical)) else { return true };
        let limit = low.min(self.geometry.page_end(from));
        if limit <= from {
            return true;
        }
        // ORD(front:A) Relaxed: before the cursors are read again by the fence.
        lines.front.fetch_max(limit, Relaxed);
        explore();
        // ORD(release_page:A) SeqCst: the cursors that made the limit, and `front`, before the second look at the cursors
        // and the look at the hands. Pairs with ORD(in_hand:A), ORD(come_in:A), ORD(past:A).
        fence(SeqCst);
        let Some(low) = self.lowest_above(Some(from)) else { return true };
        let limit = limit.min(low);
        let limit = limit.min(self.holds.lowest_hand(|at| self.geometry.page(at) == self.geometry.page(from)));
        self.pages.release(physical, limit)
    }

    /// What the caller stored is known to whoever looks at it after we have looked at theirs.
    fn past(&self) {
        explore();
        // ORD(past:A) SeqCst: our cursor, mark or cleared hand before the others' cursors, hands and marks. Pairs with
        // ORD(past:A), ORD(release_page:A).
        fence(SeqCst);
    }

    /// Where a cursor stands, for what is released: below the floor nothing is kept for it.
    fn place_of(&self) -> impl Fn(&Gate) -> u64 {
        let (end, floor) = (self.tail.end_seq(), self.floor());
        move |gate| self.tail.nth(gate.read().widen(end)).max(floor)
    }

    /// The lowest cursor; without any, the end. `None`: somebody stands at `from` or before.
    fn lowest_above(&self, from: Option<u64>) -> Option<u64> {
        let (lines, end, place) = (self.lines.as_ref()?, self.tail.end(), self.place_of());
        self.gates.read(|gates| match gates.lowest_above(from, &lines.furthest, place) {
            ControlFlow::Continue(low) => Some(low.unwrap_or(end)),
            ControlFlow::Break(()) => None,
        })
    }

    fn lowest_of_all(&self) -> u64 {
        self.lowest_above(None).unwrap_or(0)
    }

    /// Where one of many cursors stands that stood far back when somebody looked.
    fn far_back(&self) -> Option<u64> {
        let (lines, place) = (self.lines.as_ref()?, self.place_of());
        self.gates.read(|gates| gates.far_back(&lines.furthest).map(|gate| place(gate)))
    }

    /// A cursor has been put on the list: where nobody comes in below.
    pub(super) fn come_in(&self) -> Seq {
        let Some(lines) = &self.lines else { return self.tail.seq(0) };
        explore();
        // ORD(come_in:A) SeqCst: our cursor on the list before `front`. Pairs with ORD(release_page:A).
        fence(SeqCst);
        // ORD(front:B) Relaxed: see the fence.
        self.tail.seq(lines.front.load(Relaxed))
    }

    /// Somebody listens, from `at` on.
    pub(super) fn listen(&self, at: Seq) {
        if let Some(lines) = &self.lines {
            // ORD(late:D) Relaxed: a publisher that has seen the old value finds our cursor.
            let _ = lines.late.compare_exchange(ALL, self.tail.nth(at), Relaxed, Relaxed);
        }
    }

    /// Nobody listens any more. Under the lock under which cursors come and go; a sweep follows.
    pub(super) fn nobody_listens(&self) {
        if let Some(lines) = &self.lines {
            // ORD(late:C) Relaxed: the sweep has the barrier.
            lines.late.store(ALL, Relaxed);
        }
    }

    /// The reader whose hand has just shown where it is: its hand is seen, or it sees what was done without it.
    pub(super) fn show_hand(&self) {
        explore();
        // ORD(in_hand:A) SeqCst: the hand before the look at the cursor. Pairs with ORD(release_page:A).
        fence(SeqCst);
    }
}

/// Drops `value`; a panic of its destructor ends here.
pub(super) fn contain<T>(value: T) {
    if needs_drop::<T>() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
            std::mem::forget(payload); // its own destructor might panic in turn
        }
    }
}
