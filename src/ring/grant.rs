//! The cold step: how far producers may go, and a page to go there. No lock; any number of producers at once.
#![forbid(unsafe_code)]

use crate::ring::gate::FAR;
use crate::ring::table::{Found, Table};
use crate::ring::{Body, Producers, Why};
use crate::seq::Stamped;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{explore, passed};

/// How often producers look for cursors that are `FAR` behind, in records: often enough that none gets twice as far.
const LOOK_BACK: u64 = FAR / 4;

impl<T: Send + Sync + 'static> Body<T> {
    /// How many records from the tail `nth` on producers have been promised room for.
    ///
    /// More than the capacity is never promised: what looks so is a word or a tail that is out of date.
    #[inline(always)]
    pub(super) fn room(&self, granted: Stamped, nth: u64) -> u64 {
        let ahead = granted.ahead_of(self.tail.seq(nth));
        if ahead <= self.geometry.capacity().get() { ahead } else { 0 }
    }

    /// The promise, in passing.
    #[inline(always)]
    pub(super) fn granted(&self) -> Stamped {
        // ORD(granted:A) Acquire: what groups did before the commits that made the room. Pairs with ORD(raise:B).
        Stamped::from_word(self.producing.promise.granted.load(Acquire))
    }

    /// Promises room for `count` records from the tail `nth` on, or for more of them, as far as the gates allow.
    ///
    /// `Ok` means "look again": somebody may have taken what was promised.
    #[cold]
    pub(super) fn raise(&self, nth: u64, count: u64) -> Result<(), Why> {
        loop {
            // ORD(raise:A) Acquire: a join whose stamp is in the word has put its gate on the list. Pairs
            // with ORD(stamp:A).
            let granted = Stamped::from_word(self.producing.promise.granted.load(Acquire));
            if self.tail.is_sealed() {
                return Err(Why::Sealed);
            }
            if self.tail.end() != nth || self.room(granted, nth) >= count {
                return Ok(());
            }
            let allowed = self.allowed(granted, nth, count);
            if allowed < count {
                return Err(if count > 1 && self.narrowest() < count { Why::TooLarge } else { Why::Full });
            }
            let upto = allowed.min(count.max(self.geometry.capacity().eighth()));
            let raised = granted.at(self.tail.seq(nth + upto));
            explore();
            // ORD(raise:B) AcqRel: Release: what the gates showed, for whoever claims under the promise; pairs
            // with ORD(granted:A). Acquire: keeps the chain of stamps whole; pairs with ORD(stamp:A).
            // Relaxed on failure: somebody joined, sought or raised; we look at everything again.
            if self.producing.promise.granted.compare_exchange(granted.word(), raised.word(), AcqRel, Relaxed).is_ok() {
                let before = self.tail.nth(granted.widen(self.tail.seq(nth)));
                if before / LOOK_BACK != (nth + upto) / LOOK_BACK && (self.sheds() || self.pages.overwrites()) {
                    self.lift_those_far_behind(nth);
                }
                return Ok(());
            }
        }
    }

    /// Takes cursors that were left so far behind that their words would soon say something else to where the log begins.
    #[cold]
    fn lift_those_far_behind(&self, nth: u64) {
        let (here, to) = (self.tail.seq(nth), self.earliest());
        self.gates.read(|gates| gates.each(|gate| gate.catch_up(here, to)));
    }

    /// How many records from `nth` on the gates leave room for, or no more of that than may be promised; what lies below the
    /// floor is nobody's any more.
    fn allowed(&self, granted: Stamped, nth: u64, count: u64) -> u64 {
        let (here, capacity, floor) = (self.tail.seq(nth), self.geometry.capacity(), self.floor_seq());
        let wanted = (count, capacity.eighth());
        let narrowest = &self.producing.promise.narrowest;
        self.gates.read(|gates| narrowest.allowed(gates, granted, (here, floor), capacity.get(), wanted))
    }

    /// How many records there is room for when everybody has caught up.
    #[cold]
    pub fn narrowest(&self) -> u64 {
        let mut least = self.geometry.capacity().get();
        self.gates.read(|gates| {
            gates.each_gating(|gate| least = least.min(gate.gating().waiting().unwrap_or(least)));
        });
        least
    }

    /// A new stamp: every `raise` that scanned the gates before fails. Returns the first position not promised.
    pub(super) fn stamp(&self) -> u64 {
        explore();
        // ORD(stamp:A) AcqRel: Release: our gate on the list, or where it was moved to, before the stamp; pairs
        // with ORD(raise:A). Acquire: we go on with the chain of those before us; pairs with ORD(raise:B).
        let granted = Stamped::from_word(self.producing.promise.granted.fetch_add(Stamped::ONE_STAMP, AcqRel));
        self.producing.promise.narrowest.forget(granted);
        self.tail.nth(granted.widen(self.tail.end_seq()))
    }

    /// Where page `page` lies; `None` when the caller has to look at the tail anew: it has been replaced, or destructors ran
    /// on the way, which may have published on this very thread.
    #[inline(always)]
    pub(super) fn find(&self, page: u64) -> Result<Option<u16>, Why> {
        match self.table.look_newest(page) {
            Found::Here(physical) => Ok(Some(physical)),
            _ => self.install(page),
        }
    }

    /// The same, once it has been seen to be missing. Only for pages that start below what is granted (inv. 2).
    #[cold]
    fn install(&self, page: u64) -> Result<Option<u16>, Why> {
        loop {
            let old = match self.table.look(page) {
                Found::Here(physical) => return Ok(Some(physical)),
                Found::Gone => return Ok(None),
                Found::Missing(old) => old,
            };
            let spare = self.pages.spare(&self.holds).map_err(|_| Why::OutOfMemory)?;
            if self.lossy || self.is_prompt() {
                self.lift_floor(self.geometry.first_mapped(page));
            }
            self.pages.anew(spare, self.geometry.page_start(page));
            let installed = self.table.install(page, old, spare);
            if installed {
                // Retired only now: as long as its entry stands, a reader may still take hold of it.
                if let Some(physical) = Table::physical(old) {
                    self.pages.retire(physical, page.wrapping_sub(self.geometry.pages() as u64));
                }
            } else {
                passed("page lost");
                self.pages.give_back(spare);
            }
            if self.is_prompt() && self.producers() == Producers::Shared {
                return Ok(None); // taking a spare there may run destructors
            }
            if installed {
                return Ok(Some(spare));
            }
        }
    }
}
