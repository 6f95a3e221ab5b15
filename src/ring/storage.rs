//! The memory of pages: reserved at once for those that a ring always needs, one at a time for the rest.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::ring::OutOfMemory;
use crate::ring::slot::Page;
use crate::sync::atomic::AtomicU64;

const LINE: usize = 64;

/// Memory for some pages, side by side: first all their marks, then all their slots, then, if asked for, all their times.
/// Zero is a valid state of each.
///
/// It is asked for without an alignment, and aligned here: zeroed memory of a large alignment is cleared by hand, which
/// touches all of it, where the system would have handed out pages that are zero already.
pub(super) struct Block<T> {
    memory: NonNull<u8>,
    layout: Layout,
    /// Where the marks begin: the first aligned address.
    marks_from: usize,
    marks_each: usize,
    slots_from: usize,
    slots_each: usize,
    times_from: usize,
    times_each: usize,
    pages: usize,
    /// How many times a page has: as many as slots, or none.
    times: usize,
    tagged: bool,
    of: PhantomData<T>,
}

// SAFETY: a block is memory and numbers; who may touch what in it is settled page by page.
unsafe impl<T: Send + Sync> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Block<T> {}

impl<T> Block<T> {
    /// Zeroed memory for `pages` pages of `slots` slots, with a time each if `timed`, which the system backs when it is
    /// touched.
    pub(super) fn new(pages: usize, slots: usize, tagged: bool, timed: bool) -> Result<Self, OutOfMemory> {
        let slot = Page::<T>::slot_layout(tagged);
        let align = slot.align().max(2 * LINE);
        let times = if timed { slots } else { 0 };
        let whole = |bytes: usize, unit: usize| bytes.checked_next_multiple_of(unit);
        let plan = || {
            let marks_each = whole(slots.checked_mul(Page::<T>::MARK)?, LINE)?;
            let slots_each = whole(slots.checked_mul(slot.size())?, slot.align().max(LINE))?;
            let slots_from = whole(marks_each.checked_mul(pages)?, align)?;
            let times_each = whole(times.checked_mul(size_of::<AtomicU64>())?, LINE)?;
            let times_from = whole(slots_from.checked_add(slots_each.checked_mul(pages)?)?, align)?;
            let bytes = times_from.checked_add(times_each.checked_mul(pages)?)?;
            let layout = Layout::array::<u8>(bytes.checked_add(align - 1)?).ok()?;
            Some((marks_each, slots_from, slots_each, times_from, times_each, layout))
        };
        let (marks_each, slots_from, slots_each, times_from, times_each, layout) =
            plan().ok_or(OutOfMemory { bytes: usize::MAX })?;
        // SAFETY: the size is not zero: every page has at least one mark.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(OutOfMemory { bytes: layout.size() })?;
        let marks_from = memory.addr().get().wrapping_neg() & (align - 1);
        let block = Self {
            memory,
            layout,
            marks_from,
            marks_each,
            slots_from: marks_from + slots_from,
            slots_each,
            times_from: marks_from + times_from,
            times_each,
            pages,
            times,
            tagged,
            of: PhantomData,
        };
        #[cfg(ringlog_loom)]
        (0..pages).for_each(|page| block.introduce(page, slots));
        Ok(block)
    }

    /// How large it is.
    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// The `nth` page of the block.
    pub(super) fn page(&self, nth: usize) -> Page<T> {
        // SAFETY: inside the block, by the plan in `new`.
        let marks = unsafe { self.memory.add(self.marks_from + nth * self.marks_each) };
        // SAFETY: inside the block, by the plan in `new`; one past its end for slots of no size.
        let slots = unsafe { self.memory.add(self.slots_from + nth * self.slots_each) };
        // SAFETY: by the plan in `new` there is room for both, zeroed; all that keep pages keep the ring alive (inv. 6).
        unsafe { Page::at(marks, slots, self.tagged) }
    }

    /// The times of the `nth` page's slots; none if they were not asked for.
    #[inline]
    pub(super) fn times(&self, nth: usize) -> &[AtomicU64] {
        assert!(nth < self.pages, "page {nth} of {}", self.pages);
        // SAFETY: inside the block, by the plan in `new`; one past its end where there are none.
        let times = unsafe { self.memory.add(self.times_from + nth * self.times_each) };
        // SAFETY: aligned to a line, and by the plan in `new` there is room for so many, zeroed, which are only ever touched
        // as atomics, through this function, for as long as the block is there.
        unsafe { std::slice::from_raw_parts(times.cast().as_ptr(), self.times) }
    }

    /// Makes the zeroed memory of the `nth` page known to loom, whose types have identities.
    #[cfg(ringlog_loom)]
    fn introduce(&self, nth: usize, slots: usize) {
        self.page(nth).introduce(slots);
        for time in self.times(nth) {
            // SAFETY: the block is new, nobody else knows it.
            unsafe { std::ptr::from_ref(time).cast_mut().write(AtomicU64::new(0)) }
        }
    }

    /// Touches every system page, so that no publish has to wait for one.
    pub(super) fn prefault(&mut self) {
        for at in (0..self.layout.size()).step_by(4096) {
            // SAFETY: inside the block.
            let byte = unsafe { self.memory.add(at) };
            // SAFETY: `&mut self`: nobody else is here yet, and the byte was zero.
            unsafe { byte.write_volatile(0) }
        }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; every `Page` of it is gone with the ring (inv. 6).
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Block, LINE};

    #[test]
    fn blocks_begin_where_lines_and_slots_want_it() {
        #[repr(align(256))]
        #[allow(dead_code, reason = "only its layout counts")]
        struct Wide;
        fn begins_at<T>(pages: usize, slots: usize) -> usize {
            let block = Block::<T>::new(pages, slots, true, false).unwrap();
            block.memory.addr().get() + block.marks_from
        }
        for (pages, slots) in [(1, 1), (3, 7), (10, 128), (2, if cfg!(miri) { 256 } else { 4_096 })] {
            assert_eq!(begins_at::<u8>(pages, slots) % (2 * LINE), 0);
            assert_eq!(begins_at::<Wide>(pages, slots) % 256, 0);
        }
    }

    /// Memory of this process that is backed by the system, in bytes.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn memory_is_backed_only_once_it_is_touched() {
        const MIB: usize = 1 << 20;
        let before = resident();
        // Half a gigabyte: much more than what other tests use meanwhile.
        let block = Block::<[u64; 8]>::new(8, 1 << 20, false, true).unwrap();
        let touched = resident().saturating_sub(before);
        assert!(block.bytes() > 512 * MIB);
        assert!(touched < 256 * MIB, "{} MiB are touched", touched / MIB);
    }
}
