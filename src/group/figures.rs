//! A lane in figures: what it has done, what lies before it, and what it has lost.
//!
//! # What a lane loses
//!
//! Records may go without asking it: on a topic that drops its oldest, and where they have an age. It finds out when it reads
//! on; until then, which for a lane that is paused or whose handler hangs may be long, its figures are computed when
//! somebody asks:
//!
//! ```text
//!     start        committed        in hand up to      earliest              end
//!       |  acked, dead ..  | being handled |    lost, and unnoticed  |  retained  |
//!                          '-- pending ----'                         '- pending --'
//! ```
//! What is in hand is delivered, gone or not, and is no loss of this group. Up to where that is, is said in the gate, with
//! the epoch, so that a seek makes it void at once. What moves the cursor and is counted (a gap, a seek) happens under the
//! control lock, and so does the adding up: nothing is missing or counted twice while it turns from unnoticed to counted.
#![forbid(unsafe_code)]

use super::lane::Lane;
use super::overflow::sort;
use super::stats::{Counters, LaneStats, Tally};
use super::word::MemberId;
use crate::log::Missed;
use crate::seq::Seq;
use crate::sync::lock;

/// A cursor and what lies behind it, at one moment.
#[derive(Clone, Copy)]
pub(super) struct View {
    committed: Seq,
    end: Seq,
    pending: u64,
    /// How many of them are in a handler's hand, where that is known.
    in_hand: u64,
    /// What is lost and nobody has noticed yet.
    missed: Missed,
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// How many letters are queued to be handed over again, the one in hand included.
    fn letters_queued(&self) -> u64 {
        self.redrives.get().map_or(0, |redrives| redrives.len())
    }

    pub(super) fn lag(&self) -> u64 {
        self.view().pending + self.letters_queued()
    }

    /// How many records before `goal` are not done, and how many letters wait to be handed over again.
    pub(super) fn left_before(&self, goal: u64) -> u64 {
        let View { committed, pending, .. } = self.view();
        goal.saturating_sub(committed.get()).min(pending) + self.letters_queued()
    }

    /// Up to where records were in hand when the group was closed without waiting for them.
    pub(super) fn in_hand_at_the_end(&self, committed: Seq) -> Seq {
        self.stopped.get().map_or(committed, |stopped| committed.later(*stopped))
    }

    /// The cursor, and what lies behind it. The end is read before the earliest: so pending is never more than what is in
    /// hand and what the partition can hold, whatever is published meanwhile.
    pub(super) fn view(&self) -> View {
        if let Some(last) = self.over.get() {
            return *last;
        }
        // In this order: what is done, taken or published meanwhile is not mistaken for a loss.
        let done = self.newest.as_ref().map_or(0, |newest| newest.done());
        let end = self.log.end();
        let earliest = if self.loses && self.newest.is_none() { self.log.earliest_only() } else { Seq::ZERO };
        let (committed, taken) = self.gate.places();
        let (end, taken) = (end.later(committed), taken.later(self.in_hand_at_the_end(committed)));
        let mut missed = Missed::default();
        if let Some(newest) = &self.newest {
            missed.overwritten = end.since(committed).saturating_sub(self.kept_of(newest, done, end));
        } else if self.loses {
            let earliest = earliest.earlier(end);
            let line = self.line(taken, end).map_or(earliest, |line| line.later(earliest));
            if taken.precedes(line) {
                missed = self.log.missed(taken, line);
                missed.overwritten = line.since(taken) - missed.expired;
            }
        }
        let pending = match &self.shared {
            Some(shared) => shared.claims.pending(end),
            None => end.since(committed) - missed.overwritten - missed.expired,
        };
        View { committed, end, pending, in_hand: taken.since(committed), missed }
    }

    pub(super) fn stats(&self) -> LaneStats {
        let _control = (self.loses || self.shared.is_some()).then(|| lock(&self.control));
        self.figures()
    }

    fn figures(&self) -> LaneStats {
        let Counters { acked, dead, retried, refused, late, lapsed, replayed, skipped, expired, .. } = &self.counters;
        let Counters { dropped, conflated, .. } = &self.counters;
        let word = self.word.load();
        let View { committed, end, pending, in_hand, missed } = self.view();
        let (overwritten, shed, merged) = sort(self.own.as_ref(), missed.overwritten);
        let (in_flight, too_late, expired_there) = self.in_flight(committed);
        let none = Tally::default();
        let (tally, letters) = (
            self.shared.as_ref().map_or(&none, |shared| &shared.tally),
            self.redrives.get().map_or(&none, |redrives| &redrives.tally),
        );
        let in_flight = in_flight + self.shared.as_ref().map_or(0, |shared| shared.in_hand());
        LaneStats {
            partition: self.partition,
            start: self.start.get(),
            committed: committed.get(),
            end: end.get(),
            acked: acked.get() + tally.acked.get() + letters.acked.get(),
            dead: dead.get() + tally.dead.get() + letters.dead.get(),
            retried: retried.get() + tally.retried.get() + letters.retried.get(),
            refused: refused.get() + late.get() + too_late + tally.refused.get() + letters.refused.get(),
            replayed: replayed.get(),
            skipped: skipped.get() + overwritten + self.gate.lifted().0,
            dropped: dropped.get() + shed,
            conflated: conflated.get() + merged,
            expired: expired.get() + missed.expired,
            pending: pending + self.letters_queued(),
            waiting: pending.saturating_sub(in_hand.max(in_flight)) + self.letters_queued(),
            in_flight,
            leases_expired: expired_there + lapsed.get() + tally.leases_expired.get() + letters.leases_expired.get(),
            stragglers: self.shared.as_ref().map_or(0, |shared| shared.claims.behind_done()),
            stragglers_ended: tally.stragglers.get(),
            paused: word.paused(),
            owned: word.target() != MemberId::NOBODY,
        }
    }

    /// Checks the books, in debug builds. The caller holds the lane and has committed what it did, so with the control
    /// lock nothing moves the cursor; if somebody has that lock, it is not the moment.
    pub(super) fn check_books(&self) {
        if cfg!(debug_assertions) {
            let Ok(_control) = self.control.try_lock() else { return };
            if !self.word.load().is_ended() {
                let stats = self.figures();
                debug_assert!(stats.balances(), "the books do not balance: {stats:?}");
            }
        }
    }
}
