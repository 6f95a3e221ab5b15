//! Publishing by the one producer of an exclusive ring.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Range;

use crate::ring::batch::Batch;
use crate::ring::release::contain;
use crate::ring::slot::Page;
use crate::ring::tail::Tail;
use crate::ring::times::{At, Stamp, Unstamped};
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
    /// How many records lie in their slots from there on, not published yet.
    staged: u64,
    /// Where the room ends that was granted on this page, which is the one of `next + staged`.
    end: u64,
    /// The same for who publishes at `next`; no room while anything is staged.
    limit: u64,
    /// A position's slot on its page: one less than the slots of a page.
    mask: u64,
    page: Page<T>,
    physical: u16,
    tail: Arc<Tail>,
    ring: Arc<Body<T>>,
}

impl<T: Send + Sync + 'static> Exclusive<T> {
    pub(super) fn new(ring: Arc<Body<T>>) -> Self {
        // No room at first, so this page is never written before the first grant names one.
        let (page, mask, tail) = (*ring.pages.page(0), ring.geometry.slots() as u64 - 1, ring.tail.clone());
        Self { next: 0, staged: 0, end: 0, limit: 0, mask, page, physical: 0, tail, ring }
    }

    /// Publishes the value in `from`, which is empty then; a refusal leaves it there.
    ///
    /// For values that have an address already: it is moved straight into its slot, and nowhere else on the way.
    ///
    /// # Panics
    /// When there is no value.
    #[inline(always)]
    pub fn try_push_from(&mut self, from: &mut Option<T>) -> Result<Seq, Why> {
        self.push_from(from, Unstamped)
    }

    /// The same on a timed ring, with a time for readers to find beside the record. Without one they find any.
    ///
    /// # Panics
    /// When there is no value.
    #[inline(always)]
    pub fn try_push_from_at(&mut self, from: &mut Option<T>, time: u64) -> Result<Seq, Why> {
        self.push_from(from, At(time))
    }

    #[inline(always)]
    fn push_from(&mut self, from: &mut Option<T>, stamp: impl Stamp) -> Result<Seq, Why> {
        if self.next == self.limit {
            self.grant()?;
        }
        if !self.tail.begin(self.next) {
            return Err(Why::Sealed);
        }
        let slot = self.slot();
        let old = self.page.put_bare_from(slot, from);
        stamp.put(&self.ring.pages, self.physical, slot..slot + 1);
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
        self.push_with(fresh, fill, Unstamped)
    }

    /// The same on a timed ring, with a time.
    #[inline]
    pub fn try_push_with_at(
        &mut self,
        fresh: impl FnOnce() -> T,
        fill: impl FnOnce(&mut T),
        time: u64,
    ) -> Result<Seq, Why> {
        self.push_with(fresh, fill, At(time))
    }

    #[inline(always)]
    fn push_with(
        &mut self,
        fresh: impl FnOnce() -> T,
        fill: impl FnOnce(&mut T),
        stamp: impl Stamp,
    ) -> Result<Seq, Why> {
        if self.next == self.limit {
            self.grant()?;
        }
        let slot = self.slot();
        fill(self.page.lend(slot, fresh));
        if !self.tail.begin(self.next) {
            return Err(Why::Sealed);
        }
        stamp.put(&self.ring.pages, self.physical, slot..slot + 1);
        Ok(self.publish(slot))
    }

    /// Puts a value into its slot without publishing it: batches are built in place, value by value.
    ///
    /// [`publish_staged`](Self::publish_staged) publishes what was staged, [`unstage`](Self::unstage) gives it back. Until
    /// either, publishing anything else panics. The record that lay in the slot is dropped here, whatever becomes of
    /// the batch: so no more than an eighth of the capacity can be staged, which is also the most that producers are
    /// promised before they need it. Beyond that it is refused as if the ring were full.
    #[inline]
    pub fn stage(&mut self, value: T) -> Result<(), Refused<T>> {
        match self.room_to_stage() {
            Ok(slot) => {
                let old = self.page.put_bare(slot, value);
                self.count_staged(slot, old);
                Ok(())
            }
            Err(why) => Err(Refused { value, why }),
        }
    }

    /// As [`stage`](Self::stage), for a value that has an address already; a refusal leaves it there.
    ///
    /// # Panics
    /// When there is no value.
    #[inline(always)]
    pub fn stage_from(&mut self, from: &mut Option<T>) -> Result<(), Why> {
        let slot = self.room_to_stage()?;
        let old = self.page.put_bare_from(slot, from);
        self.count_staged(slot, old);
        Ok(())
    }

    /// The slot behind what is staged.
    #[inline(always)]
    fn room_to_stage(&mut self) -> Result<usize, Why> {
        let at = self.next + self.staged;
        if at == self.end {
            self.turn(at)?;
        }
        Ok((at & self.mask) as usize)
    }

    /// The value in `slot` is staged; what lay there before is dropped.
    #[inline(always)]
    fn count_staged(&mut self, slot: usize, old: Option<T>) {
        self.page.stage(slot);
        (self.staged, self.limit) = (self.staged + 1, self.next);
        contain(old);
    }

    /// Publishes what was staged, all at once; it stays staged when the ring is sealed.
    #[inline]
    pub fn publish_staged(&mut self) -> Result<Range<Seq>, Why> {
        self.publish_all_staged(Unstamped)
    }

    /// The same on a timed ring, with a time for all of them.
    #[inline]
    pub fn publish_staged_at(&mut self, time: u64) -> Result<Range<Seq>, Why> {
        self.publish_all_staged(At(time))
    }

    #[inline(always)]
    fn publish_all_staged(&mut self, stamp: impl Stamp) -> Result<Range<Seq>, Why> {
        let (first, count) = (self.next, self.staged);
        if !self.tail.begin(first) {
            return Err(Why::Sealed);
        }
        for (number, slot, len) in self.ring.geometry.parts(first, count) {
            // Found by `stage`, and replaced by nobody but this producer.
            if let Ok(Some(physical)) = self.ring.find(number) {
                let page = self.ring.pages.page(physical);
                stamp.put(&self.ring.pages, physical, slot..slot + len);
                (slot..slot + len).for_each(|slot| page.mark(slot));
            }
        }
        (self.next, self.staged, self.limit) = (first + count, 0, self.end);
        self.tail.finish(self.next);
        Ok(self.tail.seq(first)..self.tail.seq(self.next))
    }

    /// How many records are staged.
    pub fn staged(&self) -> usize {
        self.staged as usize
    }

    /// Moves what was staged to the end of `values`.
    pub fn unstage(&mut self, values: &mut Vec<T>) {
        values.reserve(self.staged());
        self.take_back(|value| values.push(value));
    }

    /// Drops what was staged.
    pub fn abandon(&mut self) {
        if self.staged > 0 {
            self.take_back(contain);
        }
    }

    /// Shows `take` each value that was staged, and stages none any more.
    fn take_back(&mut self, mut take: impl FnMut(T)) {
        for (number, slot, len) in self.ring.geometry.parts(self.next, self.staged) {
            if let Ok(Some(physical)) = self.ring.find(number) {
                let page = self.ring.pages.page(physical);
                (slot..slot + len).for_each(|slot| take(page.unstage(slot)));
            }
        }
        self.staged = 0;
        self.aim(self.next);
    }

    /// Publishes all of `values`, which are consecutive and then gone from the vector, or none of them.
    pub fn try_push_all(&mut self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        self.push_all(values, Unstamped)
    }

    /// The same on a timed ring, with a time for all of them.
    pub fn try_push_all_at(&mut self, values: &mut Vec<T>, time: u64) -> Result<Range<Seq>, Why> {
        self.push_all(values, At(time))
    }

    fn push_all(&mut self, values: &mut Vec<T>, stamp: impl Stamp) -> Result<Range<Seq>, Why> {
        self.assert_nothing_staged();
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
                stamp.put(&self.ring.pages, physical, slot..slot + len);
                batch.put(self.ring.pages.page(physical), number, slot, len);
            }
        }
        self.next = first + count;
        self.tail.finish(self.next);
        batch.finish();
        self.aim(self.next);
        Ok(self.tail.seq(first)..self.tail.seq(self.next))
    }

    /// The page is that of what is staged: a record put around it would lie on a page that is not its own.
    fn assert_nothing_staged(&self) {
        assert!(self.staged == 0, "publish or take back what is staged first");
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
    #[inline(always)]
    fn grant(&mut self) -> Result<(), Why> {
        self.assert_nothing_staged();
        self.turn(self.next)
    }

    /// Room for a record at `at`, behind those that are staged.
    #[cold]
    #[inline(never)]
    fn turn(&mut self, at: u64) -> Result<(), Why> {
        let count = at - self.next + 1;
        if count > self.ring.geometry.capacity().eighth() {
            return Err(Why::Full);
        }
        self.reserve(count)?;
        self.aim(at);
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

    /// Goes on at `at`, with what room is left on its page, if that page is there.
    fn aim(&mut self, at: u64) {
        (self.end, self.limit) = (at, self.next);
        let room = self.ring.room(self.ring.granted(), at);
        if room == 0 {
            return;
        }
        if let Ok(Some(physical)) = self.ring.find(self.ring.geometry.page(at)) {
            (self.page, self.physical) = (*self.ring.pages.page(physical), physical);
            self.end = (at + room).min((at | self.mask) + 1);
            self.limit = if self.staged == 0 { self.end } else { self.next };
        }
    }
}

impl<T> fmt::Debug for Exclusive<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").field("next", &self.tail.seq(self.next)).finish_non_exhaustive()
    }
}
