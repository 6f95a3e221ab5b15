//! What happened to appends so far: how many waited and gave up, how large the backlog was; and what who gives up is told.
//!
//! # The largest backlog
//!
//! A backlog is what some group has still to commit of what is kept: `end - slowest cursor`. Right after each append, and
//! before anybody is woken for it, the one that stored looks at the cursors as they are then, so what is noted is never more than
//! there was. Whoever finds no room looks as well. It costs a look at every cursor, and those who did not ask for it do not
//! even ask whether they did: it is part of what makes a partition not a plain one.
//!
//! # Orderings
//!
//! | label   | operation     | order   | why this much, and why no more |
//! |---------|---------------|---------|--------------------------------|
//! | count:A, counts:A, counts:B, counts:C | the counters  | Relaxed | counters, read as such |
//! | measure:A, measure:B | `largest`, load and max | Relaxed | a figure that only grows; cursors are read by their own rules |
#![forbid(unsafe_code)]

use super::{AppendError, Limiting, Log, retain::OWN};
use crate::{
    ring::Why,
    seq::Seq,
    sync::atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

/// What happened to appends so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Appends that found the partition full and waited.
    pub blocked: u64,
    /// Appends that gave up because it was full.
    pub rejected: u64,
    /// Records that were overwritten before every group had committed them, or while there was no group.
    pub dropped: u64,
    /// Records that became too old while they were kept.
    pub expired: u64,
    /// The largest backlog there was right after an append, where that is measured.
    pub largest_backlog: Option<u64>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Tally {
    blocked: AtomicU64,
    rejected: AtomicU64,
    /// Where it is measured.
    largest: Option<AtomicU64>,
}

impl Tally {
    pub(super) fn new(measured: bool) -> Self {
        Self { largest: measured.then(AtomicU64::default), ..Self::default() }
    }

    /// An append finds no room and is going to wait.
    pub(super) fn waits(&self) {
        count(&self.blocked);
    }
}

fn count(counter: &AtomicU64) {
    // ORD(count:A) Relaxed: a counter.
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<T: Send + Sync + 'static> Log<T> {
    /// What happened to appends so far.
    pub fn counts(&self) -> LogCounts {
        let Tally { blocked, rejected, largest } = &self.tally;
        // ORD(counts:A) Relaxed: a counter.
        let blocked = blocked.load(Ordering::Relaxed);
        // ORD(counts:B) Relaxed: a counter.
        let rejected = rejected.load(Ordering::Relaxed);
        // ORD(counts:C) Relaxed: a figure.
        let largest_backlog = largest.as_ref().map(|largest| largest.load(Ordering::Relaxed));
        self.look();
        let (dropped, expired) = self.gates.lost(self.ring());
        LogCounts { blocked, rejected, dropped, expired, largest_backlog }
    }

    /// How many records up to `end` some group has still to commit, of those that are kept; 0 where nobody wants any.
    fn backlog(&self, end: Seq) -> u64 {
        self.ring().slowest().map_or(0, |slowest| {
            let from = if self.sheds() { slowest.later(self.ring().earliest()) } else { slowest };
            end.lag_behind(from)
        })
    }

    /// The log goes up to `end` now: notes the backlog, where that is measured.
    #[inline]
    pub(super) fn measure(&self, end: Seq) {
        if let Some(largest) = &self.tally.largest {
            self.note_backlog(largest, end);
        }
    }

    #[inline(never)]
    fn note_backlog(&self, largest: &AtomicU64, end: Seq) {
        let backlog = self.backlog(end);
        // ORD(measure:A) Relaxed: spares the exchange where there is nothing to note.
        if largest.load(Ordering::Relaxed) < backlog {
            // ORD(measure:B) Relaxed: a figure that only grows.
            largest.fetch_max(backlog, Ordering::Relaxed);
        }
    }

    /// The group that is furthest behind, if a group is what holds producers back.
    pub fn limiting(&self) -> Option<Limiting> {
        let (gate, _) = self.ring().tightest()?;
        let (position, taken) = gate.places();
        let end = self.end();
        let waiting = gate.gating().waiting().map(|most| (end.lag_behind(taken), most));
        let position = position.later(self.ring().floor_seq());
        (gate.tag() != OWN).then(|| Limiting { tag: gate.tag(), lag: end.lag_behind(position), waiting })
    }

    /// What to tell the caller whose attempt failed.
    #[cold]
    pub fn refusal<V>(&self, why: Why, value: V, len: usize, waited: Duration) -> AppendError<V> {
        match why {
            Why::Full => {
                count(&self.tally.rejected);
                self.measure(self.end());
                AppendError::Full { value, limiting: self.limiting(), waited }
            }
            Why::Sealed => AppendError::Closed(value),
            Why::TooLarge => AppendError::TooLarge { value, len, capacity: self.ring().narrowest() },
            Why::OutOfMemory => AppendError::OutOfMemory(value),
        }
    }

    /// Whether a producer would find room now.
    pub fn has_room(&self) -> bool {
        self.ring().has_room()
    }
}
