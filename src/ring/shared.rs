//! Publishing by any number of producers.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::ring::batch::Batch;
use crate::ring::bias::Stand;
use crate::ring::release::contain;
use crate::ring::tail::Look;
use crate::ring::times::{At, Stamp, Unstamped};
use crate::ring::{Body, Refused, Why};
use crate::seq::Seq;
use crate::sync::explore;

/// More than the pages that a batch of at most the capacity can touch.
const SPAN: usize = 12;
/// How many slots ahead of a claim by exchange the line is asked for: the next exchange waits until it is here.
const AHEAD: usize = 8;

/// Positions that are ours alone.
struct Claim<P> {
    nth: u64,
    count: u64,
    /// The page or the pages they lie on.
    pages: P,
    stand: Stand,
}

impl<T: Send + Sync + 'static> Body<T> {
    /// Publishes one value.
    ///
    /// A producer that is stopped between its claim and its mark delays what comes after it; the claim itself is lock-free,
    /// but that a thread which takes the ring from the one that had it to itself waits for a publish under way there.
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
        self.push_from(from, Unstamped)
    }

    /// The same on a timed ring, with a time for readers to find beside the record. Without one they find any.
    ///
    /// # Panics
    /// As [`try_push_from`](Self::try_push_from).
    #[inline(always)]
    pub fn try_push_from_at(&self, from: &mut Option<T>, time: u64) -> Result<Seq, Why> {
        self.push_from(from, At(time))
    }

    #[inline(always)]
    fn push_from(&self, from: &mut Option<T>, stamp: impl Stamp) -> Result<Seq, Why> {
        assert!(from.is_some(), "there is a value to publish");
        let claim = self.claim(1, |nth| self.find(self.geometry.page(nth)))?;
        let (page, slot) = (self.pages.page(claim.pages), self.geometry.slot(claim.nth));
        if matches!(claim.stand, Stand::Shared) && slot + AHEAD < self.geometry.slots() {
            page.prefetch(slot + AHEAD);
        }
        let old = page.put_tagged_from(slot, from);
        stamp.put(&self.pages, claim.pages, slot..slot + 1);
        explore();
        page.tag(slot, self.geometry.page(claim.nth));
        page.mark(slot);
        let at = self.finish(&claim);
        contain(old);
        Ok(at)
    }

    /// Publishes all of `values`, which are consecutive and then gone from the vector, or none of them.
    ///
    /// # Panics
    /// When the ring has an exclusive producer.
    pub fn try_push_all(&self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        self.push_all(values, Unstamped)
    }

    /// The same on a timed ring, with a time for all of them.
    ///
    /// # Panics
    /// When the ring has an exclusive producer.
    pub fn try_push_all_at(&self, values: &mut Vec<T>, time: u64) -> Result<Range<Seq>, Why> {
        self.push_all(values, At(time))
    }

    fn push_all(&self, values: &mut Vec<T>, stamp: impl Stamp) -> Result<Range<Seq>, Why> {
        let count = values.len() as u64;
        if count > self.geometry.capacity().get() {
            return Err(Why::TooLarge);
        }
        let claim = self.claim(count, |nth| self.find_all(nth, count))?;
        let mut batch = Batch::new(values);
        for ((number, slot, len), physical) in self.geometry.parts(claim.nth, count).zip(claim.pages) {
            stamp.put(&self.pages, physical, slot..slot + len);
            batch.put(self.pages.page(physical), number, slot, len);
        }
        let first = self.finish(&claim);
        batch.finish();
        Ok(first..first.plus(count))
    }

    /// Claims `count` positions, on the pages that `find` names.
    #[inline(always)]
    fn claim<P>(&self, count: u64, find: impl Fn(u64) -> Result<Option<P>, Why>) -> Result<Claim<P>, Why> {
        loop {
            let stand = self.producing.bias.stand();
            let granted = self.granted();
            let Look::Open(nth) = self.tail.look() else { return Err(Why::Sealed) };
            if self.room(granted, nth) < count {
                self.raise(nth, count)?;
                continue;
            }
            // Before the claim (inv. 4): found after it, it might already be another page.
            let Some(pages) = find(nth)? else { continue };
            let won = match stand {
                Stand::Owner(hand) => self.producing.bias.enter(hand),
                Stand::Shared => self.tail.claim(nth, count),
            };
            if won {
                explore();
                return Ok(Claim { nth, count, pages, stand });
            }
        }
    }

    /// Its positions are all marked: an owner moves the tail only now.
    #[inline(always)]
    fn finish<P>(&self, claim: &Claim<P>) -> Seq {
        if let Stand::Owner(hand) = claim.stand {
            self.tail.finish(claim.nth + claim.count);
            self.producing.bias.leave(hand);
        }
        self.tail.seq(claim.nth)
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
