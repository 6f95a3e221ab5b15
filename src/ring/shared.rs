//! Publishing by any number of producers.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::ring::slot::{Batch, contain};
use crate::ring::tail::Look;
use crate::ring::{Body, Producers, Refused, Why};
use crate::seq::Seq;
use crate::sync::explore;

/// More than the pages that a batch of at most the capacity can touch.
const SPAN: usize = 12;
/// How many slots ahead of a claim the line is asked for.
const AHEAD: usize = 8;

/// Positions that are ours alone, and the pages they lie on.
struct Claim {
    nth: u64,
    pages: [u16; SPAN],
}

impl<T: Send + Sync + 'static> Body<T> {
    /// Publishes one value.
    ///
    /// The claim is lock-free; a producer that is stopped between its claim and its mark delays what comes after it.
    /// What you did before is visible to whoever receives the record.
    ///
    /// # Panics
    /// When the ring has an exclusive producer.
    #[inline]
    pub fn try_push(&self, value: T) -> Result<Seq, Refused<T>> {
        let mut from = Some(value);
        match (self.try_push_from(&mut from), from) {
            (Ok(at), _) => Ok(at),
            (Err(why), Some(value)) => Err(Refused { value, why }),
            (Err(_), None) => unreachable!("a refusal leaves the value where it was"),
        }
    }

    /// Publishes the value in `from`, which is empty then; a refusal leaves it there.
    ///
    /// For values that have an address already: it is moved straight into its slot, and nowhere else on the way.
    ///
    /// # Panics
    /// When there is no value, or the ring has an exclusive producer.
    #[inline(always)]
    pub fn try_push_from(&self, from: &mut Option<T>) -> Result<Seq, Why> {
        assert!(from.is_some(), "there is a value to publish");
        let claim = self.claim_one()?;
        Ok(self.fill(claim, from))
    }

    /// Puts a value into the slot claimed and publishes it.
    #[inline(always)]
    fn fill(&self, (nth, physical): (u64, u16), from: &mut Option<T>) -> Seq {
        let (page, number, slot) = (self.pages.page(physical), self.geometry.page(nth), self.geometry.slot(nth));
        if slot + AHEAD < self.geometry.slots() {
            page.prefetch(slot + AHEAD);
        }
        let old = page.put_tagged_from(slot, from);
        explore();
        page.tag(slot, number);
        page.mark(slot);
        contain(old);
        self.tail.seq(nth)
    }

    /// Publishes all of `values`, which are consecutive and then gone from the vector, or none of them.
    ///
    /// # Panics
    /// When the ring has an exclusive producer.
    pub fn try_push_all(&self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        let count = values.len() as u64;
        let claim = self.claim(count)?;
        let mut batch = Batch::new(values);
        let parts = self.geometry.parts(claim.nth, count);
        for ((number, slot, len), physical) in parts.zip(claim.pages) {
            batch.put(self.pages.page(physical), number, slot, len);
        }
        batch.finish();
        Ok(self.tail.seq(claim.nth)..self.tail.seq(claim.nth + count))
    }

    #[inline]
    fn claim_one(&self) -> Result<(u64, u16), Why> {
        assert!(self.tail.producers() == Producers::Shared, "this ring has one exclusive producer: publish through it");
        loop {
            let granted = self.granted();
            let Look::Open(nth) = self.tail.look() else { return Err(Why::Sealed) };
            if self.room(granted, nth) == 0 {
                self.raise(nth, 1)?;
                continue;
            }
            // Before the claim (inv. 4): found after it, it might already be another page.
            let Some(physical) = self.find(self.geometry.page(nth))? else { continue };
            if self.tail.claim(nth, 1) {
                explore();
                return Ok((nth, physical));
            }
        }
    }

    fn claim(&self, count: u64) -> Result<Claim, Why> {
        assert!(self.tail.producers() == Producers::Shared, "this ring has one exclusive producer: publish through it");
        if count > self.geometry.capacity().get() {
            return Err(Why::TooLarge);
        }
        loop {
            let granted = self.granted();
            let Look::Open(nth) = self.tail.look() else { return Err(Why::Sealed) };
            if self.room(granted, nth) < count {
                self.raise(nth, count)?;
                continue;
            }
            let Some(pages) = self.find_all(nth, count)? else { continue };
            if self.tail.claim(nth, count) {
                explore();
                return Ok(Claim { nth, pages });
            }
        }
    }

    fn find_all(&self, nth: u64, count: u64) -> Result<Option<[u16; SPAN]>, Why> {
        let mut pages = [0; SPAN];
        for ((number, _, _), place) in self.geometry.parts(nth, count).zip(&mut pages) {
            let Some(physical) = self.find(number)? else { return Ok(None) };
            *place = physical;
        }
        Ok(Some(pages))
    }
}
