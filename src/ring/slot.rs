//! The slots of a page and their marks: where records lie, in place.
//!
//! ```text
//!   bare   (exclusive producers)          marks   [1][1][1][0][2][2]..     one byte a slot; readers poll them
//!                                         slots   [T][T][T][ ][t][t]..     t: an old value, still to be dropped
//!   tagged (shared producers)             marks   [1][1][1][0][2][2]..     only `spare` and `Drop` read them
//!                                         slots   [n+1,T][n+1,T]..         n: the page's number; readers poll it
//!   prompt rings                          marks   [3][3][1][1][0][0]..     3: dropped; the next use begins with 0
//! ```
//!
//! The boundary of safety is the module `ring`: nothing below is reachable from outside it, and its functions are sound
//! for callers that keep its invariants (numbered in the module's header). Who may call what:
//!
//! | functions                           | caller                                                                 |
//! |-------------------------------------|------------------------------------------------------------------------|
//! | `put_*`, `stage`, `tag`, `mark`, `batch` | who claimed the slot, once (inv. 1), on the page found before the claim (inv. 4) |
//! | `unstage`                           | who staged there and has not published since                           |
//! | `published`, `record`               | who holds the page (inv. 3), up to what it saw marked                  |
//! | `all_marked`, `all_dropped`, `clear`, `empty` | who took the page out of RETIRED (inv. 5)                    |
//! | `drop_record`                       | who was given the slot by the exchange on `released` (`release`, inv. 1) |
//! | `drop_values`                       | `Drop` of the ring                                                     |
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | drop_record:A | mark, store | Release | the record is out before the slot is empty; pairs with all_dropped:A |

use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, needs_drop, offset_of};
use std::ptr::NonNull;

use crate::ring::release::contain;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicU8, AtomicU64};
use crate::sync::{cell::UnsafeCell, hint::prefetch_write};

/// Nothing has ever lain in the slot.
pub(super) const EMPTY: u8 = 0;
/// The record of this use of the page lies in the slot.
pub(super) const PUBLISHED: u8 = 1;
/// A record of an earlier use lies in the slot, for the next writer to drop.
const OLD: u8 = 2;
/// The record of this use has been taken out and dropped: nothing lies in the slot (prompt rings, see `release`).
pub(super) const DROPPED: u8 = 3;

pub(super) type Cell<T> = UnsafeCell<MaybeUninit<T>>;

/// The tag comes first.
#[repr(C)]
struct Tagged<T> {
    tag: AtomicU64,
    value: Cell<T>,
}

/// Where a page lies. Copied freely: what it points to lives as long as the ring, which all that keep one keep alive.
pub(super) struct Page<T> {
    marks: NonNull<AtomicU8>,
    slots: NonNull<u8>,
    /// From slot to slot, in bytes.
    stride: usize,
    /// From the start of a slot to its record: 0 on bare pages only.
    value: usize,
    of: PhantomData<T>,
}

impl<T> Clone for Page<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Page<T> {}

// SAFETY: a page moves `T`s between threads (producers in, dropping producers out) and lends `&T` to readers.
unsafe impl<T: Send + Sync> Send for Page<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Page<T> {}

impl<T> Page<T> {
    /// Makes the zeroed memory known to loom, whose types have identities.
    #[cfg(ringlog_loom)]
    pub(super) fn introduce(&self, slots: usize) {
        for i in 0..slots {
            // SAFETY: `i` is below the number of slots, inside the block.
            let mark = unsafe { self.marks.add(i) };
            // SAFETY: the block is new, nobody else knows it.
            unsafe { mark.write(AtomicU8::new(EMPTY)) }
            let cell = self.cell(i).cast_mut();
            // SAFETY: as above.
            unsafe { cell.write(UnsafeCell::new(MaybeUninit::uninit())) }
            if self.tagged() {
                let tag = self.tagged_slot(i).cast::<AtomicU64>().cast_mut();
                // SAFETY: as above.
                unsafe { tag.write(AtomicU64::new(0)) }
            }
        }
    }

    #[inline(always)]
    pub(super) fn mark_of(&self, i: usize) -> &AtomicU8 {
        // SAFETY: `i` is a slot of the page (masked by `Geometry::slot`, or below its bound), inside the block.
        let mark = unsafe { self.marks.add(i) };
        // SAFETY: alive as long as the ring, and only ever touched as an atomic, but for `clear`.
        unsafe { mark.as_ref() }
    }

    #[inline(always)]
    fn tagged_slot(&self, i: usize) -> *const Tagged<T> {
        // SAFETY: as in `mark_of`; only asked of tagged pages.
        unsafe { self.slots.cast::<Tagged<T>>().add(i) }.as_ptr()
    }

    #[inline(always)]
    fn tag_of(&self, i: usize) -> &AtomicU64 {
        let tag = self.tagged_slot(i).cast::<AtomicU64>();
        // SAFETY: as in `mark_of`; the tag is the slot's first field and only ever touched as an atomic.
        unsafe { &*tag }
    }

    #[inline(always)]
    pub(super) fn bare_cell(&self, i: usize) -> *const Cell<T> {
        // SAFETY: as in `mark_of`; only asked of bare pages.
        unsafe { self.slots.cast::<Cell<T>>().add(i) }.as_ptr()
    }

    #[inline(always)]
    pub(super) fn tagged_cell(&self, i: usize) -> *const Cell<T> {
        self.tagged_slot(i).cast::<u8>().wrapping_add(offset_of!(Tagged<T>, value)).cast()
    }

    #[inline(always)]
    fn cell(&self, i: usize) -> *const Cell<T> {
        self.slots.as_ptr().wrapping_add(i * self.stride + self.value).cast()
    }

    /// True when a slot carries a tag beside its record.
    #[inline(always)]
    pub(super) fn tagged(&self) -> bool {
        self.value != 0
    }

    /// The size of a mark.
    pub(super) const MARK: usize = size_of::<AtomicU8>();

    /// How large a slot is, and how aligned.
    pub(super) const fn slot_layout(tagged: bool) -> Layout {
        if tagged { Layout::new::<Tagged<T>>() } else { Layout::new::<Cell<T>>() }
    }

    /// The page whose marks and slots lie there.
    ///
    /// # Safety
    /// For as long as any copy of the page is used: room for `slots` marks at `marks` and for as many slots, of
    /// `slot_layout(tagged)`, at `place`, zeroed, and touched through pages only.
    pub(super) unsafe fn at(marks: NonNull<u8>, place: NonNull<u8>, tagged: bool) -> Self {
        let value = if tagged { offset_of!(Tagged<T>, value) } else { 0 };
        let stride = Self::slot_layout(tagged).size();
        Self { marks: marks.cast(), slots: place, stride, value, of: PhantomData }
    }

    /// True when an earlier value lies in slot `i`, which has no record of this use yet.
    #[inline(always)]
    fn has_old(&self, i: usize) -> bool {
        // ORD(has_old:A) Relaxed: nobody but the claimant writes this mark now; whoever cleared it did so before it
        // installed the page, which our Acquire of the entry saw.
        self.mark_of(i).load(Relaxed) == OLD
    }

    /// Has `put` write to `cell` of slot `i`; gives back what lay there.
    #[inline(always)]
    pub(super) fn refill(&self, cell: *const Cell<T>, i: usize, put: impl FnOnce(*mut T)) -> Option<T> {
        // SAFETY: a cell of this page, alive as long as the ring.
        let cell = unsafe { &*cell };
        cell.with_mut(|slot| {
            let taken = needs_drop::<T>() && self.has_old(i);
            // SAFETY: inv. 1: the slot is the claimant's alone, and its mark says that a value lies in it. It is
            // overwritten at once, so it is read out once.
            let old = taken.then(|| unsafe { slot.cast::<T>().read() });
            put(slot.cast());
            old
        })
    }

    /// Moves the value in `from`, where there must be one, word by word into `cell` of slot `i`; gives back what lay there.
    #[inline(always)]
    fn replace_from(&self, cell: *const Cell<T>, i: usize, from: &mut Option<T>) -> Option<T> {
        let value: *const T = from.as_ref().expect("there is a value to publish");
        // SAFETY: as in `put_bare`; the value moved from is forgotten at once.
        let old = self.refill(cell, i, |slot| unsafe { move_words(value, slot) });
        std::mem::forget(from.take());
        old
    }

    /// As `put_bare`, out of `from`.
    #[inline(always)]
    pub(super) fn put_bare_from(&self, i: usize, from: &mut Option<T>) -> Option<T> {
        self.replace_from(self.bare_cell(i), i, from)
    }

    /// The same on a tagged page.
    #[inline(always)]
    pub(super) fn put_tagged_from(&self, i: usize, from: &mut Option<T>) -> Option<T> {
        self.replace_from(self.tagged_cell(i), i, from)
    }

    /// Moves `value` into slot `i` of a bare page; gives back what lay there, to be dropped once the mark is seen.
    #[inline(always)]
    pub(super) fn put_bare(&self, i: usize, value: T) -> Option<T> {
        // SAFETY: inv. 1: the slot is the claimant's alone until it is marked.
        self.refill(self.bare_cell(i), i, |slot| unsafe { slot.write(value) })
    }

    /// Says that the value just put into slot `i` of a bare page is not published.
    #[inline(always)]
    pub(super) fn stage(&self, i: usize) {
        if needs_drop::<T>() {
            // ORD(stage:A) Relaxed: only this producer, and `Drop` behind everybody, read the mark before it is published.
            self.mark_of(i).store(OLD, Relaxed);
        }
    }

    /// Takes back the value that was staged in slot `i`.
    pub(super) fn unstage(&self, i: usize) -> T {
        // ORD(unstage:A) Relaxed: as in `stage`. First of all, so that the value is not there twice.
        self.mark_of(i).store(EMPTY, Relaxed);
        // SAFETY: a cell of this page, alive as long as the ring.
        let cell = unsafe { &*self.bare_cell(i) };
        // SAFETY: inv. 1: the slot is the exclusive producer's alone; a value was staged there and is read once.
        cell.with_mut(|slot| unsafe { slot.cast::<T>().read() })
    }

    /// Publishes slot `i`.
    #[inline(always)]
    pub(super) fn mark(&self, i: usize) {
        // ORD(mark:A) Release: the record (and its tag) before its mark. Pairs with ORD(published:A), ORD(all_marked:A),
        // ORD(standing:A) and ORD(written:A).
        self.mark_of(i).store(PUBLISHED, Release);
    }

    /// Publishes slot `i` of a tagged page to readers; `mark` then says that its writer has finished.
    #[inline(always)]
    pub(super) fn tag(&self, i: usize, page: u64) {
        // ORD(tag:A) Release: the record before its tag. Pairs with ORD(published:B).
        self.tag_of(i).store(page.wrapping_add(1), Release);
    }

    /// Asks for the line of slot `i`, to write to it soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, i: usize) {
        prefetch_write(self.slots.as_ptr().wrapping_add(i * self.stride));
    }

    /// How many slots from `from` on, and before `to`, hold a record of page number `page`, without a gap.
    #[inline]
    pub(super) fn published(&self, page: u64, from: usize, to: usize) -> usize {
        let mut i = from;
        if self.tagged() {
            let tag = page.wrapping_add(1);
            // ORD(published:B) Acquire: we read the record. Pairs with ORD(tag:A).
            while i < to && self.tag_of(i).load(Acquire) == tag {
                i += 1;
            }
        } else {
            // ORD(published:A) Acquire: we read the record. Pairs with ORD(mark:A).
            while i < to && self.mark_of(i).load(Acquire) == PUBLISHED {
                i += 1;
            }
        }
        i - from
    }

    /// The record in slot `i`.
    #[inline(always)]
    pub(super) fn record<'a>(&self, i: usize) -> &'a T {
        // SAFETY: a cell of this page, alive as long as the ring.
        let cell = unsafe { &*self.cell(i) };
        // SAFETY: inv. 3: the reader saw the record published and holds its page for 'a; nobody writes to it until then.
        cell.with(|slot| unsafe { &*slot.cast::<T>() })
    }

    /// Ensures that a value lies in slot `i` of a bare page, and lends it, unpublished.
    pub(super) fn lend(&mut self, i: usize, fresh: impl FnOnce() -> T) -> &mut T {
        // SAFETY: a cell of this page, alive as long as the ring.
        let cell = unsafe { &*self.bare_cell(i) };
        // ORD(lend:A) Relaxed: as in `has_old`.
        if self.mark_of(i).load(Relaxed) == EMPTY {
            let value = fresh();
            // SAFETY: inv. 1: the slot is the exclusive producer's alone, and empty.
            cell.with_mut(|slot| unsafe { slot.cast::<T>().write(value) });
            // ORD(lend:B) Relaxed: only this producer, and `Drop` behind everybody, read the mark before it is published.
            self.mark_of(i).store(OLD, Relaxed);
        }
        // SAFETY: inv. 1, and a value lies there; the borrow of `self` is the borrow of the producer's only handle.
        cell.with_mut(|slot| unsafe { &mut *slot.cast::<T>() })
    }

    /// True when every claim on the page has been finished.
    pub(super) fn all_marked(&self, slots: usize) -> bool {
        // ORD(all_marked:A) Acquire: the next writers come after these. Pairs with ORD(mark:A).
        (0..slots).all(|i| self.mark_of(i).load(Acquire) == PUBLISHED)
    }

    /// Takes the record out of slot `i`, says so, and drops it.
    pub(super) fn drop_record(&self, i: usize) {
        // SAFETY: a cell of this page, alive as long as the ring.
        let cell = unsafe { &*self.cell(i) };
        // SAFETY: the slot was given to this thread alone, once, and a record stands in it (`release`, inv. 1); nobody
        // reads it any more or ever again (`release`, inv. 2).
        let record = cell.with_mut(|slot| unsafe { slot.cast::<T>().read() });
        // ORD(drop_record:A) Release: the record is out before the slot is empty. Pairs with ORD(all_dropped:A)
        // and ORD(written:A).
        self.mark_of(i).store(DROPPED, Release);
        contain(record);
    }

    /// Makes the marks of a page that is full of old records ready for its next use.
    pub(super) fn clear(&self, slots: usize) {
        // SAFETY: inv. 5: the page is the caller's alone: no claim is unfinished, nobody holds it, it is in no entry.
        #[cfg(not(ringlog_loom))]
        unsafe {
            self.marks.as_ptr().write_bytes(OLD, slots)
        };
        #[cfg(ringlog_loom)]
        for i in 0..slots {
            // SAFETY: `i` is below the number of slots, inside the block.
            let mut mark = unsafe { self.marks.add(i) };
            // SAFETY: inv. 5, as above; loom checks it.
            unsafe { mark.as_mut() }.with_mut(|mark| *mark = OLD);
        }
    }

    /// Drops every value that lies on the page, each once, whatever their destructors do.
    pub(super) fn drop_values(&self, slots: usize) {
        if !needs_drop::<T>() {
            return;
        }
        for i in 0..slots {
            // ORD(drop_values:A) Relaxed: the ring is going: its last handle saw everybody leave.
            if !matches!(self.mark_of(i).load(Relaxed), EMPTY | DROPPED) {
                // SAFETY: a cell of this page, alive as long as the ring.
                let cell = unsafe { &*self.cell(i) };
                // SAFETY: nobody else is left, a value lies there, and the slot is visited once.
                contain(cell.with_mut(|slot| unsafe { slot.cast::<T>().read() }));
            }
        }
    }
}

/// Copies a value word by word: whoever publishes has usually just built it field by field. A load wider than the stores
/// it reads from is not served by the store buffer: it waits until they are in the cache, and so for every store before
/// them, those into the last slot among them: several times slower. Volatile keeps the words from being merged.
///
/// # Safety
/// `from` valid to read and `to` to write a `T`, both aligned for it, apart from each other; the value is at `to` afterwards,
/// and nobody uses the one at `from`.
#[inline(always)]
pub(super) unsafe fn move_words<T>(from: *const T, to: *mut T) {
    type Word = MaybeUninit<u64>;
    const MOST: usize = 16;
    let words = size_of::<T>() / size_of::<Word>();
    if words > MOST || size_of::<T>() % size_of::<Word>() != 0 || align_of::<T>() < align_of::<Word>() {
        // SAFETY: by the contract.
        return unsafe { to.copy_from_nonoverlapping(from, 1) };
    }
    for at in 0..words {
        // SAFETY: within the value.
        let place = unsafe { from.cast::<Word>().add(at) };
        // SAFETY: within the value, and aligned.
        let word = unsafe { place.read_volatile() };
        // SAFETY: within the value's new place.
        let place = unsafe { to.cast::<Word>().add(at) };
        // SAFETY: as above, and aligned.
        unsafe { place.write(word) }
    }
}
