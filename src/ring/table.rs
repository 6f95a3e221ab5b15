//! The table: which physical page holds which page of the log.
#![forbid(unsafe_code)]

use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::explore;

/// One entry per place, side by side (there are 2 to 10): one changes with each page.
///
/// ```text
///   63                              16 15          0
///   ┌─────────────────────────────────┬─────────────┐
///   │  page number, modulo 2^48       │ physical + 1│      physical + 1 = 0: nothing yet
///   └─────────────────────────────────┴─────────────┘
/// ```
///
/// Page n lies in place n mod N, and only ever gives way to page n + N. The number never recurs (2^48 pages), so that an
/// entry that is unchanged was never changed.
#[derive(Debug)]
pub(super) struct Table {
    entries: Box<[AtomicU64]>,
    /// A copy of the newest entry, or of one that was the newest a moment ago: it spares producers the division.
    newest: AtomicU64,
}

/// What the table says about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It lies there.
    Here(u16),
    /// It has been replaced by a later one.
    Gone,
    /// It has not been installed; what its place holds.
    Missing(u64),
}

impl Table {
    pub(super) fn new(places: usize) -> Self {
        // Nothing lies there, as page i - N: what comes before the first page of place i.
        let before = |place: u64| AtomicU64::new(place.wrapping_sub(places as u64) << 16);
        Self { entries: (0..places as u64).map(before).collect(), newest: before(places as u64 - 1) }
    }

    fn entry(&self, page: u64) -> &AtomicU64 {
        &self.entries[(page % self.entries.len() as u64) as usize]
    }

    /// The word that says page `page` lies at `physical`.
    fn word(page: u64, physical: u16) -> u64 {
        page << 16 | (u64::from(physical) + 1)
    }

    fn judge(word: u64, page: u64) -> Found {
        match ((word & !0xffff).wrapping_sub(page << 16) as i64, Self::physical(word)) {
            (0, Some(physical)) => Found::Here(physical),
            (1.., Some(_)) => Found::Gone,
            _ => Found::Missing(word),
        }
    }

    /// Where page `page` is. Of a `Here` nothing is known but that it was so; see inv. 3 and 4.
    #[inline]
    pub(super) fn look(&self, page: u64) -> Found {
        // ORD(look:A) Acquire: the page's cleared marks, and that all earlier users are done with it. Pairs
        // with ORD(install:A).
        Self::judge(self.entry(page).load(Acquire), page)
    }

    /// For producers, who want the newest page nearly always.
    #[inline(always)]
    pub(super) fn look_newest(&self, page: u64) -> Found {
        // ORD(newest:A) Acquire: as in `look`. Pairs with ORD(newest:B).
        match Self::judge(self.newest.load(Acquire), page) {
            Found::Here(physical) => Found::Here(physical),
            _ => self.look(page),
        }
    }

    /// True when page `page` still lies at `physical`. Announce, fence, then ask.
    pub(super) fn still(&self, page: u64, physical: u16) -> bool {
        explore();
        // ORD(still:A) Relaxed: equal to what `look` acquired, so the same installation. It comes after the announcement
        // by the fence between them, which pairs with the one in `scan`.
        self.entry(page).load(Relaxed) == Self::word(page, physical)
    }

    /// Puts `physical` in the place of `old`, as page `page`. False when somebody else did so.
    pub(super) fn install(&self, page: u64, old: u64, physical: u16) -> bool {
        let new = Self::word(page, physical);
        explore();
        // ORD(install:A) AcqRel: Release: the cleared marks, and what `spare` saw of the page's earlier users, before
        // the entry; pairs with ORD(look:A). Acquire: we retire the page that `old` names, after all
        // that made it; pairs with itself.
        // Relaxed on failure: we look again.
        let won = self.entry(page).compare_exchange(old, new, AcqRel, Relaxed).is_ok();
        if won {
            // ORD(newest:B) Release: as in the entry. Pairs with ORD(newest:A). Two of these may pass each other; an
            // older entry only costs producers the look into the table.
            self.newest.store(new, Release);
        }
        won
    }

    /// The physical page that the word `old` names.
    #[inline(always)]
    pub(super) fn physical(old: u64) -> Option<u16> {
        (old as u16).checked_sub(1)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Found, Table};

    impl Table {
        /// As if page `page - 3` had just been there.
        fn force(&self, page: u64) -> u64 {
            let word = Self::word(page - 3, 9);
            self.entry(page).store(word, std::sync::atomic::Ordering::Relaxed);
            word
        }
    }

    #[test]
    fn a_place_tells_what_is_here_gone_and_missing() {
        for start in [0, 1, 2, 5, (1 << 32) - 2, (1 << 48) - 3, (1 << 48) - 2, (1 << 48) - 1, 1 << 48] {
            let table = Table::new(3);
            let Found::Missing(mut old) =
                (if start < 3 { table.look(start) } else { Found::Missing(table.force(start)) })
            else {
                panic!("{start} is there")
            };
            for page in [start, start + 3, start + 6] {
                assert!(table.install(page, old, 7));
                assert!(!table.install(page, old, 8), "won twice");
                assert_eq!(table.look(page), Found::Here(7));
                assert_eq!(table.look_newest(page), Found::Here(7));
                assert!(table.still(page, 7) && !table.still(page, 6));
                let Found::Missing(word) = table.look(page + 3) else { panic!("{page} + 3 is not there") };
                assert_eq!(Table::physical(word), Some(7));
                old = word;
            }
            assert_eq!(table.look(start), Found::Gone);
        }
        assert_eq!(Table::physical(0), None);
    }
}
