//! Where the log begins: what is further back was overwritten, or somebody said that it is over.
//!
//! ```text
//!   ring    | the log begins at the latest of
//!   --------+----------------------------------------------------------------------------------------
//!   gated   | floor, granted - capacity      a promise may be kept at any moment, so it counts as kept
//!   lossy   | floor, end - capacity          exactly one record goes with each that comes
//! ```
//!
//! The floor is a number that only grows: `raise_floor` raises it to what its caller has found to be too old, and on a
//! lossy ring whoever takes a page out of the table raises it to the first position behind that page, *before*. So
//! whatever the log begins with or comes after lies in the table, or has not been written yet; and who finds a page
//! gone finds that the log begins behind it.
#![forbid(unsafe_code)]

use crate::ring::Body;
use crate::seq::Seq;
use crate::sync::atomic::Ordering::Relaxed;

impl<T: Send + Sync + 'static> Body<T> {
    /// The first offset that a new reader may start at: everything from there on is retained at this moment. On a lossy
    /// ring it lags the end by the capacity exactly; else by the capacity less what producers have been promised, at most
    /// an eighth. Nothing below [`raise_floor`](Self::raise_floor)'s line is retained.
    pub fn earliest(&self) -> Seq {
        let end = self.tail.end();
        // Nobody is ahead of what was promised, and on a lossy ring the promise takes nothing away.
        let ahead = if self.lossy { end } else { self.tail.nth(self.granted().widen(self.tail.seq(end))) };
        self.tail.seq(self.retained(ahead).max(self.floor()))
    }

    /// The first position retained when everything below `ahead` counts as written.
    pub(super) fn retained(&self, ahead: u64) -> u64 {
        ahead.saturating_sub(self.geometry.capacity().get())
    }

    /// Nothing before `to` is retained any more, whatever gates stand there. Never further than the end, never back.
    pub fn raise_floor(&self, to: Seq) {
        let end = self.tail.end_seq();
        self.lift_floor(self.tail.nth(to.earlier(end)));
    }

    pub(super) fn lift_floor(&self, nth: u64) {
        // ORD(floor:B) Relaxed: see the table.
        self.floor.fetch_max(nth, Relaxed);
    }

    /// The floor, as an offset.
    pub fn floor_seq(&self) -> Seq {
        self.tail.seq(self.floor())
    }

    /// Whether records may go that a cursor stands at: then readers look before each run.
    pub fn sheds(&self) -> bool {
        self.lossy || self.aged
    }

    /// Whether the log begins behind position `nth`. The promise is looked at first, which producers change rarely, and the
    /// tail only when the promise cannot tell.
    #[inline]
    pub(super) fn is_gone(&self, nth: u64) -> bool {
        if nth < self.floor() {
            return true;
        }
        self.lossy
            && self.granted().ahead_of(self.tail.seq(nth)) > self.geometry.capacity().get()
            && nth < self.retained(self.tail.end())
    }
}

impl<T> Body<T> {
    #[inline]
    pub(super) fn floor(&self) -> u64 {
        // ORD(floor:A) Relaxed: see the table.
        self.floor.load(Relaxed)
    }
}
