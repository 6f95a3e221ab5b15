//! After the handler: what is done, what is given back, what is given up.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::claims::Claim;
use super::super::lane::Lane;
use super::super::letters::Letter;
use super::Shared;
use super::failed::Settlement;
use crate::seq::Seq;
use crate::time::Time;
use std::time::Duration;

/// A lane whose records are settled one by one.
pub(super) struct Work<'a, T> {
    pub(super) group: &'a Group<T>,
    pub(super) lane: &'a Lane<T>,
    pub(super) shared: &'a Shared,
}

/// Records of a claim, with how often the first of them has failed. Only one record at a time is claimed again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) claim: Claim,
    pub(super) failures: u32,
    pub(super) again: bool,
}

impl Given {
    /// What comes behind its first `len` records.
    pub(super) fn behind(self, len: usize) -> Self {
        let failures = if len == 0 { self.failures } else { 0 };
        Given { claim: self.claim.behind(len), failures, ..self }
    }

    /// Its first `len` records.
    pub(super) fn head(self, len: usize) -> Self {
        Given { claim: self.claim.head(len), ..self }
    }
}

impl<T: Send + Sync + 'static> Work<'_, T> {
    pub(super) fn make_done(&self, given: Given, count: impl FnOnce(u64)) -> Settlement {
        let Shared { claims, failed, .. } = self.shared;
        if given.again || failed.is_keyed() {
            failed.settle(claims, given.claim, count)
        } else {
            Settlement { done: claims.settle(given.claim, count), rings: false }
        }
    }

    /// The records are acknowledged; false if any were not the claim's any more. The reader has put them down before.
    pub(super) fn done(&self, given: Given) -> bool {
        if given.claim.is_empty() {
            return true;
        }
        let done = self.make_done(given, |done| self.shared.tally.acked.more(done));
        self.after(given.claim, done)
    }

    /// The same in another's place, who has not put them down; from where to where the cursor was moved.
    pub(super) fn done_for(&self, given: Given) -> Option<(Seq, Seq)> {
        if given.claim.is_empty() {
            return None;
        }
        self.make_done(given, |done| self.shared.tally.acked.more(done));
        self.group.pass_over(self.lane)
    }

    fn after(&self, claim: Claim, Settlement { done, rings }: Settlement) -> bool {
        if rings {
            self.group.ring_for(self.lane.partition as usize);
        }
        let late = claim.len() as u64 - done;
        let passed = self.group.pass_over(self.lane);
        if done > 0 {
            self.group.progress.notify();
        }
        // Only now: destructors run.
        if late > 0 {
            self.late(claim, late);
        }
        if let Some((from, to)) = passed {
            self.lane.log.gone_on(from, to);
        }
        late == 0
    }

    /// What was in hand may have kept what everybody is past.
    #[cold]
    pub(super) fn late(&self, claim: Claim, late: u64) {
        self.shared.tally.refused.more(late);
        self.lane.log.gone_on(claim.first(), claim.end());
    }

    /// The one record is given up: its letter is filed in one step with the exchange that makes it done.
    #[cold]
    pub(super) fn bury(&self, given: Given, letter: Letter) {
        let (filed, settlement) = self.file(given, letter);
        self.after(given.claim, settlement);
        self.group.lose(filed.unwrap_or(None));
    }

    /// Files a letter with the exchange; what went for want of room. An error: the record is not the claim's any more.
    pub(super) fn file(&self, given: Given, letter: Letter) -> (Result<Option<Letter>, ()>, Settlement) {
        let mut settlement = Settlement::default();
        let commit = || {
            settlement = self.make_done(given, |done| self.shared.tally.dead.more(done));
            if settlement.done == 0 { Err(()) } else { Ok(()) }
        };
        (self.group.letters.file(letter, commit), settlement)
    }

    /// The one record has failed so often, and is tried again after this time, by anybody.
    #[cold]
    pub(super) fn fail(&self, given: Given, failures: u32, after: Duration) {
        let due = if after.is_zero() { Time::ZERO } else { self.group.clock.now().after(after) };
        let Shared { claims, failed, tally, .. } = self.shared;
        if failed.put(claims, given.claim, given.claim.first(), failures, due) {
            tally.retried.more(1);
            self.group.ring_for(self.lane.partition as usize);
        } else {
            self.late(given.claim, 1);
        }
    }

    /// The records are given back, which counts as nothing. How many were still the claim's.
    #[cold]
    pub(super) fn release(&self, given: Given) -> usize {
        let put = self.put_back(given);
        self.group.ring_for(self.lane.partition as usize);
        if put < given.claim.len() {
            self.lane.log.gone_on(given.claim.first(), given.claim.end());
        }
        put
    }

    /// The same, but for the telling, and for destructors.
    pub(super) fn put_back(&self, given: Given) -> usize {
        let Shared { claims, failed, .. } = self.shared;
        let failures = |nth| if nth == 0 { given.failures } else { 0 };
        let put = |(nth, at): &(usize, Seq)| failed.put(claims, given.claim, *at, failures(*nth), Time::ZERO);
        given.claim.records().enumerate().filter(put).count()
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Moves the cursor over what is done, where members share the lane.
    pub(in crate::group) fn go_over(&self, lane: &Lane<T>) {
        if let Some((from, to)) = self.pass_over(lane) {
            // Last: it runs destructors.
            lane.log.gone_on(from, to);
        }
    }

    /// The same, but for the destructors; from where to where.
    pub(in crate::group) fn pass_over(&self, lane: &Lane<T>) -> Option<(Seq, Seq)> {
        let moved = lane.shared.as_ref().and_then(|shared| shared.claims.advance())?;
        lane.log.not_full().notify();
        self.progress.notify();
        Some(moved)
    }
}
