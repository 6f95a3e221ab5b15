//! What a partition lost, and why: kept as few ranges, counted once for all groups.
//!
//! Nobody counts while records go: what was overwritten, and who had not had it yet, is worked out when somebody notices
//! or asks. A group that reads on over a gap, is moved over one, or leaves, settles what it had not had; what is not
//! settled is added on request: everything between the furthest group back and the earliest record retained.
//!
//! 1. A record is *expired* if it was too old while it was retained. It is counted where the line is moved.
//! 2. Of the others that were overwritten, a record is *dropped* if some group's cursor was not past it then, unless
//!    that group had it in hand and has acknowledged it since; or if there was no group, and the last one to leave had
//!    not been past it.
//! 3. A record once counted stays counted as what it was. Below the earliest record retained nothing changes its kind.
//! 4. Ranges are forgotten once every group is past them. A group that stays behind for ever might otherwise keep any
//!    number of them: beyond [`MOST`] what it lost is settled, and the oldest ranges are thrown together, after which it
//!    learns how many records it lost, exactly, but of the oldest not how many of them for which reason.
#![forbid(unsafe_code)]

use super::{Missed, spans::Spans};
use std::ops::Range;

/// How many ranges are kept of a kind.
const MOST: usize = if cfg!(test) { 8 } else { 1_024 };

/// See the module. Offsets as plain numbers.
#[derive(Debug, Default)]
pub(super) struct Losses {
    expired: Spans,
    all_expired: u64,
    /// What was settled as lost, for whatever reason.
    lost: Spans,
    all_dropped: u64,
}

impl Losses {
    /// `range` was retained until now and is too old.
    pub(super) fn expire(&mut self, range: Range<u64>) {
        self.all_expired += range.end.saturating_sub(range.start);
        self.expired.add(range);
    }

    /// `range` is gone, and was lost to somebody.
    pub(super) fn lose(&mut self, range: Range<u64>) {
        self.all_dropped += self.dropped_of(&range);
        self.lost.add(range);
    }

    /// What of `range` would be dropped if it were lost, and is not yet.
    fn dropped_of(&self, range: &Range<u64>) -> u64 {
        self.lost.missing(range).iter().map(|part| self.missed(part).overwritten).sum()
    }

    /// Why `range`, which is gone, is.
    pub(super) fn missed(&self, range: &Range<u64>) -> Missed {
        let expired = self.expired.within(range);
        Missed { overwritten: range.end.saturating_sub(range.start) - expired, expired }
    }

    /// How many records were dropped, with those of `range`.
    pub(super) fn dropped_with(&self, range: &Range<u64>) -> u64 {
        self.all_dropped + self.dropped_of(range)
    }

    /// How many expired.
    pub(super) fn all_expired(&self) -> u64 {
        self.all_expired
    }

    /// Forgets what nobody will ask for: everything before the furthest cursor back. `owed` is gone, and will be lost to
    /// somebody when it is noticed.
    pub(super) fn tidy(&mut self, furthest_back: u64, owed: Range<u64>) {
        self.expired.forget_before(furthest_back);
        self.lost.forget_before(furthest_back);
        if self.expired.ranges() > MOST || self.lost.ranges() > MOST {
            self.lose(owed);
            while self.expired.ranges() > MOST {
                self.expired.coarsen();
            }
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Losses, MOST};
    use crate::log::Missed;

    #[test]
    fn a_record_is_counted_once_for_one_reason() {
        let mut losses = Losses::default();
        losses.expire(2..4);
        losses.lose(0..6);
        assert_eq!((losses.all_dropped, losses.all_expired()), (4, 2));
        losses.lose(1..8);
        losses.lose(3..5);
        assert_eq!(losses.all_dropped, 6);
        assert_eq!(losses.missed(&(1..7)), Missed { overwritten: 4, expired: 2 });
        assert_eq!(losses.dropped_with(&(7..10)), 8);
        assert_eq!(losses.all_dropped, 6);
    }

    #[test]
    fn what_nobody_will_ask_for_is_forgotten_and_stays_counted() {
        let mut losses = Losses::default();
        losses.lose(0..4);
        losses.expire(4..6);
        losses.tidy(6, 6..6);
        assert_eq!((losses.lost.ranges(), losses.expired.ranges()), (0, 0));
        assert_eq!((losses.all_dropped, losses.all_expired()), (4, 2));
    }

    /// One group never comes back while records are overwritten and expire by turns.
    #[test]
    fn a_group_that_stays_behind_for_ever_costs_little_and_the_sums_stay_right() {
        let mut losses = Losses::default();
        for n in 0..1_000u64 {
            losses.expire(10 * n..10 * n + 3); // and 7 are overwritten
            losses.tidy(0, 0..10 * n + 3);
            assert!(losses.expired.ranges() <= MOST && losses.lost.ranges() <= MOST);
            assert_eq!(losses.dropped_with(&(0..10 * n + 10)), 7 * n + 7);
            let Missed { overwritten, expired } = losses.missed(&(0..10 * n + 10));
            assert_eq!(overwritten + expired, 10 * n + 10);
            assert!(expired >= 3 * n + 3);
        }
        assert_eq!(losses.all_expired(), 3_000);
        losses.lose(0..10_000);
        assert_eq!(losses.all_dropped, 7_000);
    }
}
