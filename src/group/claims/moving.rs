//! When the cursor is moved: no claim of before holds any more.
#![forbid(unsafe_code)]

use super::claim::seqs;
use super::{Claims, Stand, pack};
use crate::seq::{Seq, Stamped};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::explore;

/// What a move of the cursor found done behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset {
    /// Records that the cursor was moved over and that were done already.
    pub passed: u64,
    /// Records that were done and are given out again.
    pub forgotten: u64,
}

/// What [`Claims::close`] found; for [`Claims::reset`].
#[derive(Debug)]
#[must_use = "nobody claims anything before it is reset"]
pub struct Closed {
    before: u64,
    /// Behind the last record that anybody was given, in this epoch or an earlier one.
    reach: Seq,
    epoch: u32,
}

impl Claims {
    /// Before the cursor is moved, with the control lock: nobody claims anything until [`reset`](Self::reset).
    pub fn close(&self) -> Closed {
        // ORD(close_claims:A) Relaxed: a claim of a place comes before or after it; its words are exchanged one by one.
        let before = self.next.swap(pack(Seq::ZERO, 0, true), Relaxed);
        let (position, epoch) = self.gate.snapshot();
        // ORD(close_claims:B) Relaxed: written with the control lock only.
        let reach = Seq::new(self.reach.load(Relaxed));
        Closed { before, reach: Stamped::from_word(before).widen(position).later(reach).later(position), epoch }
    }

    /// The cursor was not moved after all.
    pub fn reopen(&self, closed: Closed) {
        // ORD(reopen_claims:A) Relaxed: what was there, published as it was: a swap goes on the release of who opened it.
        self.next.swap(closed.before, Relaxed);
    }

    /// After it was moved from `from` to `to`, or taken to a new epoch where it stands: no claim of before holds any more. What
    /// is done behind `to` stays done if the cursor went forward.
    pub fn reset(&self, closed: Closed, from: Seq, to: Seq) -> Reset {
        let reset = self.void(closed, from, to);
        // ORD(reset_claims:C) Release: what was swept. Pairs with ORD(upcoming:A).
        self.next.swap(pack(to, self.gate.epoch(), false), Release);
        reset
    }

    /// When the lane is over, and its gate, which stands at `at`, in a new epoch: as [`reset`](Self::reset), and nobody claims
    /// anything any more.
    pub fn end(&self, closed: Closed, at: Seq) {
        self.void(closed, at, at);
    }

    fn void(&self, Closed { reach, epoch: old, .. }: Closed, from: Seq, to: Seq) -> Reset {
        let epoch = self.gate.epoch();
        let (mut reset, mut kept) = (Reset::default(), 0);
        for at in seqs(from.earlier(to), reach) {
            let was = self.sweep(at, old, epoch, !to.precedes(from) && !at.precedes(to));
            let done = was == Stand::Done && !at.precedes(from);
            match done {
                false => {}
                true if to.precedes(from) => reset.forgotten += 1,
                true if at.precedes(to) => reset.passed += 1,
                true => kept += 1,
            }
        }
        // ORD(reset_claims:A) Relaxed: as where it is read.
        self.reach.store(reach.get(), Relaxed);
        // ORD(reset_claims:B) Release: a swap, which goes on the releases of those who settled before; and what we kept that is
        // not counted yet. Pairs with ORD(settled_at:A).
        self.settled.swap(Stamped::new(to.plus(kept), epoch).word(), Release);
        reset
    }

    /// Takes one word to the new epoch, done if it was and `keep` says so, and else free. What it was.
    fn sweep(&self, at: Seq, old: u32, new: u32, keep: bool) -> Stand {
        let (was, is) = (self.about(at, old), self.about(at, new));
        // ORD(sweep_word:A) Relaxed: the exchange takes over what comes with it.
        let mut seen = self.word(at).load(Relaxed);
        loop {
            let stand = was.stand(seen);
            let word = if keep && stand == Stand::Done { is.done() } else { is.free() };
            explore();
            // ORD(sweep_word:B) Acquire: what was done with it before, for who claims it in the new epoch. Pairs with
            // ORD(swap:A). Relaxed when lost: tried again.
            match self.word(at).compare_exchange(seen, word, Acquire, Relaxed) {
                Ok(_) => return stand,
                Err(now) => seen = now,
            }
        }
    }
}
