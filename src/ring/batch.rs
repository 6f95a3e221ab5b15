//! Many records at once into slots.
//!
//! The functions are as sound as those of `slot`: for callers that keep the invariants of the module `ring`, which claimed
//! the slots, once (inv. 1), on pages found before the claim (inv. 4).

use crate::ring::release::contain;
use crate::ring::slot::{Cell, Page, move_words};

/// Moves the value in `from`, where there must be one, to the end of `values`, word by word as into a slot.
#[inline(always)]
pub fn push_from<T>(values: &mut Vec<T>, from: &mut Option<T>) {
    values.reserve(1);
    let value: *const T = from.as_ref().expect("there is a value to move");
    let len = values.len();
    // SAFETY: room for one more was just reserved.
    let place = unsafe { values.as_mut_ptr().add(len) };
    // SAFETY: from one valid place to another; the value moved from is forgotten at once.
    unsafe { move_words(value, place) };
    std::mem::forget(from.take());
    // SAFETY: the value lies there now.
    unsafe { values.set_len(len + 1) }
}

/// A batch on its way into slots, and the old values on their way out: they move into the room that the new ones leave.
pub(super) struct Batch<'a, T> {
    values: &'a mut Vec<T>,
    len: usize,
    moved: usize,
    old: usize,
}

impl<'a, T> Batch<'a, T> {
    /// Takes all of `values`, which are this batch's from now on and must all be put.
    pub(super) fn new(values: &'a mut Vec<T>) -> Self {
        let len = values.len();
        // SAFETY: 0 is within the capacity; the elements are moved out one by one by `put`.
        unsafe { values.set_len(0) };
        Self { values, len, moved: 0, old: 0 }
    }

    /// Publishes the next `count` values in slots `from..` of `page`, which has number `number`.
    pub(super) fn put(&mut self, page: &Page<T>, number: u64, from: usize, count: usize) {
        debug_assert!(self.moved + count <= self.len, "more slots than values");
        if page.tagged() {
            (from..from + count).for_each(|i| self.move_one(page, page.tagged_cell(i), i));
            (from..from + count).for_each(|i| page.tag(i, number));
        } else {
            (from..from + count).for_each(|i| self.move_one(page, page.bare_cell(i), i));
        }
        (from..from + count).for_each(|i| page.mark(i));
    }

    /// Moves the next value into `cell` of slot `i`.
    #[inline(always)]
    fn move_one(&mut self, page: &Page<T>, cell: *const Cell<T>, i: usize) {
        // SAFETY: within the vector's room.
        let next = unsafe { self.values.as_ptr().add(self.moved) };
        self.moved += 1;
        // SAFETY: inv. 1: the slot is the claimant's alone; the value is below `len` and is not used again.
        if let Some(old) = page.refill(cell, i, |slot| unsafe { slot.copy_from_nonoverlapping(next, 1) }) {
            // SAFETY: within the vector's room: there are no more old values than moved ones.
            let room = unsafe { self.values.as_mut_ptr().add(self.old) };
            // SAFETY: what lay there was moved out.
            unsafe { room.write(old) };
            self.old += 1;
        }
    }

    /// Drops the old values, now that all marks are set.
    pub(super) fn finish(self) {
        debug_assert!(self.moved == self.len, "a value was not put");
        for i in 0..self.old {
            // SAFETY: within the vector's room.
            let old = unsafe { self.values.as_ptr().add(i) };
            // SAFETY: `put` wrote an old value there, and it is read once.
            contain(unsafe { old.read() });
        }
    }
}
