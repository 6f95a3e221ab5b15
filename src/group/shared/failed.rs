//! Records that were given back: how often they have failed, and when they are tried again.
#![forbid(unsafe_code)]

use super::super::claims::{Claim, Claims, Closed, RUN, Reset};
use super::keys::{Change, Keys, Way};
use crate::seq::Seq;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The records of a lane that have failed or were given back, with those of them that somebody has in hand again.
#[derive(Debug)]
pub(super) struct Failed {
    keyed: bool,
    all: Mutex<All>,
    /// How many wait to be claimed; to be asked without the lock.
    waiting: AtomicUsize,
    /// Nothing more is dealt before something is settled; likewise.
    stays: AtomicBool,
}

#[derive(Debug, Default)]
struct All {
    entries: BTreeMap<u64, Entry>,
    /// Those that wait, by the time when they are due; of those that have a key that is in order, its first.
    queue: BTreeSet<(Time, u64)>,
    /// Where keys are in order.
    keys: Option<Keys>,
}

/// What of the next records can be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deal {
    /// These.
    Hand(Claim),
    /// This one is to be buried: too many wait behind a record of its key that has failed.
    Bury(Claim),
    /// The keys from there on have to be learned first.
    Unknown(Seq),
    /// Many were passed over, and it is to be asked again.
    More,
    /// Nothing.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    failures: u32,
    epoch: u32,
    /// When it is due, while it waits.
    due: Option<Time>,
}

const _: () = assert!(RUN <= 64, "a bit for each record of a claim");

/// What a settlement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settlement {
    /// So many records are done.
    pub(super) done: u64,
    /// Others have something to do now.
    pub(super) rings: bool,
}

impl All {
    /// Puts in the queue what a change of its key put at the head.
    fn queue(&mut self, change: Change) -> bool {
        let due = |at: &u64| self.entries.get(at).and_then(|entry| entry.due);
        if let Some(at) = change.out {
            let Some(due) = due(&at) else { return false };
            self.queue.remove(&(due, at));
        }
        let Some((at, due)) = change.queued.and_then(|at| Some((at, due(&at)?))) else { return false };
        self.queue.insert((due, at))
    }

    fn put(&mut self, at: Seq, entry: Entry) {
        let failed = self.entries.insert(at.get(), entry).is_some_and(|was| was.failures > 0);
        let fails = entry.failures > 0 && !failed;
        match self.keys.as_mut().and_then(|keys| keys.back(at, fails)) {
            Some(change) => _ = self.queue(change),
            None => _ = self.queue.insert((entry.due.unwrap_or(Time::ZERO), at.get())),
        }
    }

    fn done(&mut self, at: Seq) -> bool {
        let failed = self.entries.remove(&at.get()).is_some_and(|was| was.failures > 0);
        let change = self.keys.as_mut().and_then(|keys| keys.done(at, failed));
        change.is_some_and(|change| self.queue(change))
    }
}

impl Failed {
    /// Of a lane of so many records, in which each key is in order if `keyed`.
    pub(super) fn new(capacity: u64, keyed: bool) -> Self {
        let all = All { keys: keyed.then(|| Keys::new(capacity)), ..All::default() };
        Failed { keyed, all: Mutex::new(all), waiting: AtomicUsize::new(0), stays: AtomicBool::new(false) }
    }

    /// Whether the lane is in the order of its keys.
    pub(super) fn is_keyed(&self) -> bool {
        self.keyed
    }

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

    /// Whether nothing more is dealt before something is settled.
    pub(super) fn stays(&self) -> bool {
        // ORD(failed:C) Relaxed: as failed:B.
        self.stays.load(Ordering::Relaxed)
    }

    fn set_stays(&self, stays: bool) -> bool {
        let stayed = self.stays();
        // ORD(failed:D) Relaxed: written under the lock; a hint, and who sleeps is rung after it.
        self.stays.store(stays, Ordering::Relaxed);
        stayed
    }

    /// Gives the record at `at` back, if it is still the claim's, to be tried again from `due` on. Others are to be rung.
    pub(super) fn put(&self, claims: &Claims, claim: Claim, at: Seq, failures: u32, due: Time) -> bool {
        let mut all = self.lock();
        if !claims.give_back(claim, at) {
            return false;
        }
        all.put(at, Entry { failures, epoch: claim.epoch(), due: Some(due) });
        self.set_stays(false);
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
        let (failures, epoch) = (entry.failures, entry.epoch);
        if let Some(keys) = &mut all.keys {
            keys.again(Seq::new(at));
        }
        Some((claims.take_again(Seq::new(at), epoch)?, failures))
    }

    /// Makes the records of a claim done, those that are still the claim's: their failures are forgotten. Where keys have no
    /// order, only of the one record of a claim that was taken again.
    pub(super) fn settle(&self, claims: &Claims, claim: Claim, count: impl FnOnce(u64)) -> Settlement {
        let mut all = self.lock();
        // A bit for each. Nobody but us changes a word under the lock.
        let bit = |(nth, at)| u64::from(claims.is_of(claim, at)) << nth;
        let own = claim.records().enumerate().map(bit).fold(0, |own, bit| own | bit);
        let done = claims.settle(claim, count);
        let mut rings = false;
        for (_, at) in claim.records().enumerate().filter(|(nth, _)| own >> nth & 1 == 1) {
            rings |= all.done(at);
        }
        rings |= self.set_stays(false);
        self.note(&all);
        Settlement { done, rings }
    }

    /// Takes the record at `at` away from `claim`, if it is still the claim's.
    pub(super) fn take_over(&self, claims: &Claims, claim: Claim, at: Seq) -> Option<Claim> {
        let _all = self.lock();
        claims.take_over(claim, at)
    }

    /// Deals at most `most` records that nobody has been given, from the next one on, in the order of their keys.
    /// `learned`: the keys of records from somewhere on, as [`number`](super::keys::number)s.
    pub(super) fn deal(&self, claims: &Claims, most: usize, learned: Option<(Seq, &[u64])>) -> Deal {
        let mut all = self.lock();
        let All { keys: Some(keys), entries, .. } = &mut *all else { return Deal::Nothing };
        // It is open, so nothing of before a move of the cursor is known that does not hold any more.
        let Some(mut place) = claims.upcoming() else { return Deal::Nothing };
        // Who was halted while the cursor was moved may have learned of what is in hand now, and of another key than it has.
        if let Some((from, numbers)) = learned.filter(|(from, _)| *from == place.at() || keys.knows(*from)) {
            keys.learn(from, numbers);
        }
        for _ in 0..RUN {
            if !keys.knows(place.at()) {
                return Deal::Unknown(place.at());
            }
            let way = keys.way(place.at(), most);
            if way == Way::Stay {
                self.set_stays(true);
                return Deal::Nothing;
            }
            let len = if let Way::Free(len) = way { len } else { 1 };
            let claim = claims.claim(place, len);
            match (way, claim) {
                (Way::Free(_), Some(claim)) => {
                    claim.records().for_each(|at| keys.hold(at));
                    return Deal::Hand(claim);
                }
                (Way::Bury, Some(claim)) => {
                    keys.hold_to_bury(claim.first());
                    return Deal::Bury(claim);
                }
                (_, Some(claim)) if claims.give_back(claim, claim.first()) => {
                    let entry = Entry { failures: 0, epoch: claim.epoch(), due: Some(Time::ZERO) };
                    entries.insert(claim.first().get(), entry);
                    keys.park(claim.first());
                }
                _ => {} // the cursor is being moved
            }
            let Some(next) = claims.upcoming() else { return Deal::Nothing };
            place = next;
        }
        Deal::More
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

    /// The record that is the first of those that are queued, by offset, as in [`of`](Self::of). What is parked waits for one of these,
    /// or for what is in hand.
    pub(super) fn first(&self) -> Option<(u32, Time)> {
        let all = self.lock();
        let (due, at) = all.queue.iter().min_by_key(|(_, at)| *at)?;
        all.entries.get(at).map(|entry| (entry.failures, *due))
    }

    /// Ends all claims; what has failed is forgotten with them.
    pub(super) fn reset(&self, reset: impl FnOnce() -> Reset) -> Reset {
        let mut all = self.lock();
        let reset = reset();
        (all.entries, all.queue) = Default::default();
        if let Some(keys) = &mut all.keys {
            keys.clear();
        }
        self.set_stays(false);
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
