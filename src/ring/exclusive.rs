//! Publishing by the one producer of an exclusive ring.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;

use crate::ring::slot::{Batch, Page, contain};
use crate::ring::tail::Tail;
use crate::ring::{Body, Refused, Why};
use crate::seq::Seq;
use crate::sync::Arc;

/// The one producer of an exclusive ring.
///
/// Its tail is private, so that publishing is wait-free between two grants: one comparison, the record, its mark, and
/// the tail for others to see.
pub struct Exclusive<T> {
    /// The position to publish next.
    next: u64,
    /// Where the room ends that was granted on this page.
    limit: u64,
    /// A position's slot on its page: one less than the slots of a page.
    mask: u64,
    page: Page<T>,
    tail: Arc<Tail>,
    ring: Arc<Body<T>>,
}

impl<T: Send + Sync + 'static> Exclusive<T> {
    pub(super) fn new(ring: Arc<Body<T>>) -> Self {
        // No room at first, so this page is never written before the first grant names one.
        let (page, mask, tail) = (*ring.pages.page(0), ring.geometry.slots() as u64 - 1, ring.tail.clone());
        Self { next: 0, limit: 0, mask, page, tail, ring }
    }

    /// Publishes the value in `from`, which is empty then; a refusal leaves it there.
    ///
    /// For values that have an address already: it is moved straight into its slot, and nowhere else on the way.
    ///
    /// # Panics
    /// When there is no value.
    #[inline(always)]
    pub fn try_push_from(&mut self, from: &mut Option<T>) -> Result<Seq, Why> {
        if self.next == self.limit {
            self.grant()?;
        }
        if !self.tail.begin(self.next) {
            return Err(Why::Sealed);
        }
        let slot = self.slot();
        let old = self.page.put_bare_from(slot, from);
        let at = self.publish(slot);
        contain(old);
        Ok(at)
    }

    /// Publishes one value. What you did before is visible to whoever receives the record.
    #[inline]
    pub fn try_push(&mut self, value: T) -> Result<Seq, Refused<T>> {
        if self.next == self.limit {
            if let Err(why) = self.grant() {
                return Err(Refused { value, why });
            }
        }
        if !self.tail.begin(self.next) {
            return Err(Refused { value, why: Why::Sealed });
        }
        let slot = self.slot();
        let old = self.page.put_bare(slot, value);
        let at = self.publish(slot);
        contain(old);
        Ok(at)
    }

    /// Publishes in place, and uses the memory of earlier records again: `fill` gets the value that lies in the slot,
    /// which `fresh` makes if there is none.
    ///
    /// A panic of either publishes nothing; what `fill` had done stays in the slot for the next one. The same when the
    /// ring turns out to be sealed.
    #[inline]
    pub fn try_push_with(&mut self, fresh: impl FnOnce() -> T, fill: impl FnOnce(&mut T)) -> Result<Seq, Why> {
        if self.next == self.limit {
            self.grant()?;
        }
        let slot = self.slot();
        fill(self.page.lend(slot, fresh));
        if !self.tail.begin(self.next) {
            return Err(Why::Sealed);
        }
        Ok(self.publish(slot))
    }

    /// Publishes all of `values`, which are consecutive and then gone from the vector, or none of them.
    pub fn try_push_all(&mut self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        let (first, count) = (self.next, values.len() as u64);
        if count > self.ring.geometry.capacity().get() {
            return Err(Why::TooLarge);
        }
        self.reserve(count)?;
        if !self.tail.begin(first) {
            return Err(Why::Sealed);
        }
        let mut batch = Batch::new(values);
        for (number, slot, len) in self.ring.geometry.parts(first, count) {
            // Found by `reserve`, and replaced by nobody but this producer.
            if let Ok(Some(physical)) = self.ring.find(number) {
                batch.put(self.ring.pages.page(physical), number, slot, len);
            }
        }
        self.tail.finish(first + count);
        batch.finish();
        self.go_to(first + count);
        Ok(self.tail.seq(first)..self.tail.seq(first + count))
    }

    #[inline(always)]
    fn slot(&self) -> usize {
        (self.next & self.mask) as usize
    }

    #[inline(always)]
    fn publish(&mut self, slot: usize) -> Seq {
        let nth = self.next;
        self.page.mark(slot);
        self.next = nth + 1;
        self.tail.finish(nth + 1);
        self.tail.seq(nth)
    }

    /// Room for one more.
    #[cold]
    #[inline(never)]
    fn grant(&mut self) -> Result<(), Why> {
        self.reserve(1)?;
        self.go_to(self.next);
        Ok(())
    }

    /// Room for `count` more, with the pages they need.
    fn reserve(&mut self, count: u64) -> Result<(), Why> {
        let ring = &self.ring;
        while ring.room(ring.granted(), self.next) < count {
            ring.raise(self.next, count)?;
        }
        for (number, _, _) in ring.geometry.parts(self.next, count) {
            ring.find(number)?;
        }
        Ok(())
    }

    /// Goes on at `next`, with what room is left on its page, if that page is there.
    fn go_to(&mut self, next: u64) {
        self.next = next;
        self.limit = next;
        let room = self.ring.room(self.ring.granted(), next);
        if room == 0 {
            return;
        }
        if let Ok(Some(physical)) = self.ring.find(self.ring.geometry.page(next)) {
            self.page = *self.ring.pages.page(physical);
            self.limit = (next + room).min((next | self.mask) + 1);
        }
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").field("next", &self.tail.seq(self.next)).finish_non_exhaustive()
    }
}
