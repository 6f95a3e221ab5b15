//! The tail: how far the log has been claimed, and whether it is sealed.
#![forbid(unsafe_code)]

use crate::ring::Producers;
use crate::seq::Seq;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::hint::{heavy_barrier, light_barrier};
use crate::sync::{CachePadded, explore, give_way, passed};

/// The word, and what its lowest bit means (positions are counted from the ring's first offset, so they never wrap):
///
/// | producers | bits 63..1              | bit 0                                                                     |
/// |-----------|-------------------------|---------------------------------------------------------------------------|
/// | shared    | records claimed so far (by its owner: published) | SEALED: no claim succeeds any more               |
/// | exclusive | records published so far | BUSY: the producer is between its look at `sealed` and its next position |
#[derive(Debug)]
pub(super) struct Tail {
    word: CachePadded<AtomicU64>,
    /// Exclusive producers only.
    sealed: AtomicBool,
    producers: Producers,
    first: Seq,
}

/// What a shared claim finds.
pub(super) enum Look {
    Open(u64),
    Sealed,
}

impl Tail {
    pub(super) fn new(producers: Producers, first: Seq) -> Self {
        let (word, sealed) = (CachePadded::new(AtomicU64::new(0)), AtomicBool::new(false));
        Self { word, sealed, producers, first }
    }

    #[inline(always)]
    pub(super) fn producers(&self) -> Producers {
        self.producers
    }

    /// The offset of the `nth` record.
    #[inline(always)]
    pub(super) fn seq(&self, nth: u64) -> Seq {
        self.first.plus(nth)
    }

    /// The place of `seq` in the log, counted from its first record.
    #[inline(always)]
    pub(super) fn nth(&self, seq: Seq) -> u64 {
        seq.lag_behind(self.first)
    }

    /// One past the last position claimed (shared) or published (exclusive, or shared with an owner).
    #[inline]
    pub(super) fn end(&self) -> u64 {
        // ORD(end:A) Acquire: what an exclusive producer published below it. Pairs with ORD(finish:A) and ORD(begin:A).
        self.word.load(Acquire) >> 1
    }

    /// As [`Tail::end`], as an offset.
    #[inline]
    pub(super) fn end_seq(&self) -> Seq {
        self.seq(self.end())
    }

    pub(super) fn is_sealed(&self) -> bool {
        match self.producers {
            // ORD(is_sealed:A) Relaxed: a flag that only rises; what was claimed before it is in the same word.
            Producers::Shared => self.word.load(Relaxed) & 1 == 1,
            // ORD(is_sealed:B) Relaxed: a flag that only rises.
            Producers::Exclusive => self.sealed.load(Relaxed),
        }
    }

    /// Shared: the next position to claim.
    #[inline(always)]
    pub(super) fn look(&self) -> Look {
        // ORD(claim:A) Relaxed: a guess, which the exchange checks.
        let word = self.word.load(Relaxed);
        if word & 1 == 1 { Look::Sealed } else { Look::Open(word >> 1) }
    }

    /// Shared: claims `count` positions from `nth` on, if that is still the tail and not sealed.
    #[inline(always)]
    pub(super) fn claim(&self, nth: u64, count: u64) -> bool {
        explore();
        // ORD(claim:B) Relaxed: it hands out positions and carries nothing; the right to write comes from the entry,
        // found before, which this exchange proves (inv. 4). A failed one reads nothing.
        let won = self.word.compare_exchange(nth << 1, (nth + count) << 1, Relaxed, Relaxed).is_ok();
        if won {
            passed("by exchange");
        }
        won
    }

    /// Exclusive: enters the stretch that a sealer waits for; false when sealed.
    #[inline(always)]
    pub(super) fn begin(&self, nth: u64) -> bool {
        // ORD(begin:A) Release: the end has not changed, but whoever reads it from this store must find what lies below it
        // published. Pairs with ORD(end:A). Before the load below by the barrier pair.
        self.word.store(nth << 1 | 1, Release);
        light_barrier();
        // ORD(begin:B) Relaxed: either we see the flag or the sealer, behind its heavy barrier, sees us busy.
        if self.sealed.load(Relaxed) {
            self.finish(nth);
            return false;
        }
        true
    }

    /// Exclusive: leaves it, with everything below `nth` published. The owner of a shared ring moves the tail so, too.
    #[inline(always)]
    pub(super) fn finish(&self, nth: u64) {
        // ORD(finish:A) Release: the records and marks before the end that covers them. Pairs with ORD(end:A)
        // and ORD(seal:C).
        self.word.store(nth << 1, Release);
    }

    /// Seals, for ever, and returns the final end.
    pub(super) fn seal(&self) -> u64 {
        match self.producers {
            // ORD(seal:A) Relaxed: claims and seal are ordered by this one word.
            Producers::Shared => self.word.fetch_or(1, Relaxed) >> 1,
            Producers::Exclusive => {
                // ORD(seal:B) Relaxed: before the load below by the barrier pair.
                self.sealed.store(true, Relaxed);
                heavy_barrier();
                let mut turns = 0_u32;
                loop {
                    // ORD(seal:C) Acquire: the end is final, and what lies below it is published. Pairs
                    // with ORD(finish:A).
                    let word = self.word.load(Acquire);
                    if word & 1 == 0 {
                        return word >> 1;
                    }
                    give_way(turns);
                    turns = turns.saturating_add(1);
                }
            }
        }
    }
}
