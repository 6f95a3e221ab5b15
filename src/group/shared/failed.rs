//! Records that were given back: how often they have failed, and when they are tried again.
#![forbid(unsafe_code)]

use super::super::claims::{Claim, Claims, Closed, Reset};
use crate::seq::Seq;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The records of a lane that have failed or were given back, with those of them that somebody has in hand again.
#[derive(Debug, Default)]
pub(super) struct Failed {
    all: Mutex<All>,
    /// How many wait to be claimed; to be asked without the lock.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct All {
    entries: BTreeMap<u64, Entry>,
    /// Those that wait, by the time when they are due.
    queue: BTreeSet<(Time, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    epoch: u32,
    /// When it is due, while it waits.
    due: Option<Time>,
}

impl Failed {
    fn lock(&self) -> MutexGuard<'_, All> {
        lock(&self.all)
    }

    fn note(&self, all: &All) {
        // ORD(failed:A) Relaxed: a hint; who sleeps is rung after it.
        self.waiting.store(all.queue.len(), Ordering::Relaxed);
    }

    /// Whether any wait.
    pub(super) fn any(&self) -> bool {
        // ORD(failed:B) Relaxed: as where it is written.
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Gives the record at `at` back, if it is still the claim's, to be tried again from `due` on.
    pub(super) fn put(&self, claims: &Claims, claim: Claim, at: Seq, failures: u32, due: Time) -> bool {
        let mut all = self.lock();
        if !claims.give_back(claim, at) {
            return false;
        }
        all.entries.insert(at.get(), Entry { failures, epoch: claim.epoch(), due: Some(due) });
        all.queue.insert((due, at.get()));
        self.note(&all);
        true
    }

    /// Claims the record that has been due for longest; with how often it has failed.
    pub(super) fn take(&self, claims: &Claims, now: Time) -> Option<(Claim, u32)> {
        let mut all = self.lock();
        let &(due, at) = all.queue.first().filter(|(due, _)| *due <= now)?;
        all.queue.remove(&(due, at));
        self.note(&all);
        let entry = all.entries.get_mut(&at)?;
        entry.due = None;
        let failures = entry.failures;
        Some((claims.take_again(Seq::new(at), entry.epoch)?, failures))
    }

    /// Makes the one record of a claim done that was taken again: its failures are forgotten.
    pub(super) fn settle(&self, claims: &Claims, claim: Claim, count: impl FnOnce(u64)) -> u64 {
        let mut all = self.lock();
        let done = claims.settle(claim, count);
        if done > 0 {
            all.entries.remove(&claim.first().get());
        }
        done
    }

    /// The one that would be taken at `now`.
    pub(super) fn next(&self, now: Time) -> Option<u64> {
        self.lock().queue.first().filter(|(due, _)| *due <= now).map(|(_, at)| *at)
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Time> {
        if self.any() { self.lock().queue.first().map(|(due, _)| *due) } else { None }
    }

    /// How often a record has failed, and when it is due if it waits.
    pub(super) fn of(&self, at: Seq) -> Option<(u32, Option<Time>)> {
        self.lock().entries.get(&at.get()).map(|entry| (entry.failures, entry.due))
    }

    /// The record that is the first of those that wait, by offset, as in [`of`](Self::of).
    pub(super) fn first(&self) -> Option<(u32, Time)> {
        self.lock().entries.values().find_map(|entry| Some((entry.failures, entry.due?)))
    }

    /// Ends all claims; what has failed is forgotten with them.
    pub(super) fn reset(&self, reset: impl FnOnce() -> Reset) -> Reset {
        let mut all = self.lock();
        let reset = reset();
        (all.entries, all.queue) = Default::default();
        self.note(&all);
        reset
    }

    /// As [`reset`](Self::reset), and nothing is claimed afterwards.
    pub(super) fn end(&self, claims: &Claims, closed: Closed, at: Seq) {
        self.reset(|| {
            claims.end(closed, at);
            Reset::default()
        });
    }
}
