//! What consumers of a lane have in flight: handed out and not settled. A state machine without threads.
//!
//! ```text
//!        committed         last         next                       end
//!   done     |   in flight   |  in flight |  not handed out          |
//!            '---------------'------------'--------------------------'
//!                             the batch that was handed out last
//! ```
//! The cursor (committed, and the epoch that acks must name) is the gate's, and the truth; the rest is here, under one short
//! mutex of the lane that no push member takes while it is at work. Nothing of the user's runs or is dropped under it: what is
//! to be dropped comes back to the caller.
//!
//! # Epochs
//!
//! Who settles names the epoch in which it was handed the records. Whatever makes records come again that somebody may still
//! have in hand ends the epoch; why, and how much of it was done, is kept for the last [`past::ENDS`] of them:
//!
//! | event                                               | new epoch | `next`    | failures                          |
//! |-----------------------------------------------------|-----------|-----------|-----------------------------------|
//! | the last batch is released, or nacked from o on     | no        | its first, or o | none; those from o on       |
//! | an earlier batch is released, or nacked             | yes       | committed | none; its own                     |
//! | all is nacked                                       | yes       | committed | all                               |
//! | the lease expires, at `now >= deadline`             | yes       | committed | all                               |
//! | the consumer goes                                   | yes       | committed | none                              |
//! | seek, delete, a cursor lifted from far behind       | yes, by them | the cursor | forgotten                     |
//!
//! Batches in flight are acknowledged in order: an ack covers everything before it.
#![forbid(unsafe_code)]

mod failures;
mod past;

use super::fence::{Cause, FencedBy, Refusal};
use super::retry::Retry;
use super::word::MemberId;
use crate::seq::Seq;
use crate::time::Time;
use failures::Failures;
use past::Past;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Where the cursor is, and in which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) committed: Seq,
    pub(super) epoch: u32,
}

/// What was handed out at once, for who settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// To whom.
    pub(super) holder: MemberId,
    pub(super) epoch: u32,
    pub(super) from: Seq,
    pub(super) to: Seq,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// The consumer that holds the lane: as long as anything is in flight, and while it looks for more.
    pub(super) holder: Option<MemberId>,
    /// Somebody is reading, or burying, outside the lock: the holder stays.
    pub(super) busy: bool,
    /// The epoch under which all this is.
    epoch: u32,
    /// Before this all is done that was handed out in this epoch.
    done: Seq,
    next: Seq,
    last: Seq,
    /// When what was handed out last was, and when it is over.
    leased_at: Time,
    deadline: Option<Time>,
    /// How often records that are not done have failed, and before when they are not handed out again.
    failures: Failures,
    /// Those of them that are to be given up.
    spent: BTreeMap<u64, Cause>,
    past: Past,
    /// How many records are missing right before which one.
    lost: (Seq, u64),
    /// Acks that came too late, in records.
    pub(super) refused: u64,
    /// Records whose lease expired.
    pub(super) lapsed: u64,
}

impl Flight {
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// When the lease of what is in flight began.
    pub(super) fn leased_at(&self) -> Time {
        self.leased_at
    }

    /// How long it lasts in all.
    pub(super) fn length(&self) -> Duration {
        self.deadline.map_or(Duration::ZERO, |deadline| deadline.since(self.leased_at))
    }

    /// Before when nothing is handed out at `next`.
    pub(super) fn due(&self) -> Option<Time> {
        self.due_of(self.next)
    }

    /// The same of the record at `at`.
    pub(super) fn due_of(&self, at: Seq) -> Option<Time> {
        self.failures.due(at.get())
    }

    /// The epoch in which it is.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// What is in flight.
    pub(super) fn in_flight(&self, committed: Seq) -> Option<Range<u64>> {
        (self.holder.is_some() && committed.precedes(self.next)).then(|| committed.get()..self.next.get())
    }

    pub(super) fn failures_of(&self, offset: Seq) -> u32 {
        self.failures.of(offset.get())
    }

    /// The last record that has failed before, and is not done.
    pub(super) fn last_failed(&self) -> Option<u64> {
        self.failures.last()
    }

    /// How often the records of a batch have failed before, those that have.
    pub(super) fn failed_in(&self, from: Seq, to: Seq) -> Vec<(Range<u64>, u32)> {
        self.failures.within(from.get()..to.get()).map(|(which, times, _)| (which, times)).collect()
    }

    pub(super) fn lost_before(&self, offset: Seq) -> u64 {
        if self.lost.0 == offset { self.lost.1 } else { 0 }
    }

    /// A consumer takes the lane, which stands there, with what is known of the record at the cursor.
    pub(super) fn open(
        &mut self,
        holder: MemberId,
        at: Cursor,
        failures: u32,
        due: Option<Time>,
        lost: u64,
        retry: &Retry,
    ) {
        debug_assert!(self.holder.is_none() && !self.busy, "a lane is opened once");
        self.holder = Some(holder);
        self.go_by(at.epoch, FencedBy::AlreadyAcked);
        (self.epoch, self.done, self.next, self.last) = (at.epoch, at.committed, at.committed, at.committed);
        // What is spent and done is dropped with the next ack, which is not under the lock.
        self.failures.forget_before(at.committed.get());
        self.failures.set(at.committed.get(), failures, due);
        if failures > 0 && !retry.allows_another(failures) {
            // By a lease that ran out: nobody had it in hand who could have given it up.
            self.spent.entry(at.committed.get()).or_insert(Cause::Expired);
        }
        (self.lost, self.deadline) = ((at.committed, lost), None);
    }

    /// The consumer lets the lane go, with nothing in flight.
    pub(super) fn close(&mut self) {
        debug_assert!(!self.busy, "nobody is at work on it");
        (self.holder, self.deadline) = (None, None);
    }

    /// Goes on behind a gap, which is committed already.
    pub(super) fn passed(&mut self, to: Seq, lost: u64) -> Vec<Cause> {
        self.lost = (to, self.lost_before(self.next) + lost);
        (self.done, self.next, self.last) = (to, to, to);
        self.forget_done(to)
    }

    /// How many of `most` records from `next` on may be handed out at `now` at once: who would be buried by one more failure
    /// is alone, and who failed waits for its time.
    pub(super) fn limit(&self, most: usize, retry: &Retry, now: Time) -> usize {
        if !retry.allows_another(1) {
            return 1;
        }
        let from = self.next.get();
        let last_chance = |times: u32| !retry.allows_another(times.saturating_add(1));
        let known = self.failures.within(from..from.saturating_add(most as u64));
        let mut ends = known.filter(|(_, times, due)| last_chance(*times) || due.is_some_and(|due| now < due));
        ends.next().map_or(most, |(which, ..)| ((which.start - from) as usize).max(1))
    }

    /// Whether the record that comes next is to be given up before anything else is done.
    pub(super) fn next_is_spent(&self) -> bool {
        self.spent.contains_key(&self.next.get())
    }

    /// Hands out everything before `to`: the lease of all that is in flight begins anew, and is over no earlier than it was.
    pub(super) fn hand_out(&mut self, to: Seq, at: Cursor, lease: Option<(Time, Duration)>) -> Ticket {
        let before = self.deadline.filter(|_| self.in_flight(at.committed).is_some());
        (self.last, self.next) = (self.next, to);
        if let Some((now, time)) = lease {
            (self.leased_at, self.deadline) = (now, before.max(Some(now.after(time))));
        }
        Ticket { holder: self.holder.unwrap_or(MemberId::NOBODY), epoch: self.epoch, from: self.last, to }
    }

    /// Whether the cursor may go to `to`: everything before it was handed out and is not done.
    pub(super) fn may_ack(&self, to: Seq, at: Cursor) -> Result<(), Refusal> {
        let refused = || Refusal::NotInFlight(self.in_flight(at.committed));
        let there = self.holder.is_some() && at.committed.precedes(to) && !self.next.precedes(to);
        there.then_some(()).ok_or_else(refused)
    }

    /// Whether anything of what was handed out then is in flight still.
    pub(super) fn is_current(&self, ticket: Ticket, at: Cursor) -> Result<(), FencedBy> {
        if ticket.epoch != at.epoch || self.holder.is_none() || self.next.precedes(ticket.to) {
            let was = self.past.is_any_buried(ticket.from..ticket.to);
            if was && !at.committed.precedes(ticket.to) {
                return Err(FencedBy::Buried);
            }
            // When the lane was let go, all of its epoch was done, whatever has become of the cursor since.
            let let_go = self.holder.is_none() && ticket.epoch == self.epoch;
            if (let_go || ticket.epoch == at.epoch) && !at.committed.precedes(ticket.to) {
                return Err(FencedBy::AlreadyAcked);
            }
            return Err(self.why(ticket.epoch));
        }
        if at.committed.precedes(ticket.to) { Ok(()) } else { Err(FencedBy::AlreadyAcked) }
    }

    /// Why an epoch ended.
    pub(super) fn why(&self, epoch: u32) -> FencedBy {
        self.past.why(epoch).unwrap_or(FencedBy::Rewound)
    }

    /// An ack of what was handed out then, as far as `to`, comes too late: counts the records that were not acknowledged in time.
    pub(super) fn refuse(&mut self, ticket: Ticket, to: Seq) {
        let is_current = ticket.epoch == self.epoch;
        let done = if is_current { Some(self.done) } else { self.past.done(ticket.epoch) };
        self.refused += to.lag_behind(done.map_or(ticket.from, |done| ticket.from.later(done)));
    }

    /// The cursor has gone on to `to`.
    pub(super) fn acked(&mut self, to: Seq) -> Vec<Cause> {
        self.done = to;
        if to == self.next {
            self.deadline = None;
        }
        self.forget_done(to)
    }

    /// The record before `to` was given up.
    pub(super) fn buried(&mut self, to: Seq) -> Vec<Cause> {
        self.past.buried(to.minus(1));
        (self.next, self.last) = (self.next.later(to), self.last.later(to));
        self.acked(to)
    }

    fn forget_done(&mut self, committed: Seq) -> Vec<Cause> {
        self.failures.forget_before(committed.get());
        let undone = self.spent.split_off(&committed.get());
        std::mem::replace(&mut self.spent, undone).into_values().collect()
    }

    /// Records failed once more, and are not tried again before the time that `due` says after so many failures. The cause is
    /// the first one's that is given up; says how many are tried again.
    pub(super) fn fail(
        &mut self,
        which: Range<u64>,
        cause: Cause,
        retry: &Retry,
        due: impl Fn(u32) -> Option<Time>,
    ) -> (u64, Vec<Cause>) {
        let (mut again, mut unused, mut cause) = (0, Vec::new(), Some(cause));
        let spent = &mut self.spent;
        self.failures.add(which, |which, times| {
            if retry.allows_another(times) {
                again += which.end - which.start;
                return due(times);
            }
            for offset in which {
                let expired = matches!(cause, Some(Cause::Expired));
                let why = if expired { Cause::Expired } else { cause.take().unwrap_or(Cause::Nacked) };
                unused.extend(spent.insert(offset, why));
            }
            None
        });
        unused.extend(cause);
        (again, unused)
    }

    /// A record is gone, and the failures of it with it: who reads on finds a gap.
    pub(super) fn forget(&mut self, at: Seq) {
        self.failures.forget(at.get());
    }

    /// What is handed out next is the record at `to`, which was handed out before. If anybody else may have it in hand, that is
    /// in a new epoch, in which nobody can settle what lies before it either: then all of it comes again.
    pub(super) fn rewind(&mut self, to: Seq, at: Cursor, why: FencedBy, bump: impl FnOnce() -> u32) {
        if to.precedes(self.last) {
            self.rewind_all(at, why, bump);
        } else {
            self.next = to;
        }
    }

    /// All that is in flight comes again, in a new epoch. Says what it was.
    pub(super) fn rewind_all(&mut self, at: Cursor, why: FencedBy, bump: impl FnOnce() -> u32) -> Range<u64> {
        let was = at.committed.get()..self.next.get().max(at.committed.get());
        self.done = at.committed;
        self.end_epoch(bump(), why);
        (self.next, self.last, self.deadline) = (at.committed, at.committed, None);
        was
    }

    /// The lease of all that is in flight goes on until then.
    pub(super) fn extend(&mut self, deadline: Time) {
        self.deadline = Some(deadline);
    }

    fn end_epoch(&mut self, new: u32, why: FencedBy) {
        self.past.ended(self.epoch, why, self.done);
        self.epoch = new;
    }

    /// Nobody had the lane who polls, and its epoch is another now: what was handed out in the last one here was done by then.
    fn go_by(&mut self, epoch: u32, why: FencedBy) {
        if epoch != self.epoch {
            self.end_epoch(epoch, why);
        }
    }

    /// The cursor was moved by somebody else, who ended the epoch `before`: nothing of what was known holds.
    pub(super) fn moved(&mut self, before: u32, at: Cursor, why: FencedBy) -> Vec<Cause> {
        self.go_by(before, why);
        self.end_epoch(at.epoch, why);
        (self.done, self.next, self.last, self.deadline) = (at.committed, at.committed, at.committed, None);
        self.lost = (at.committed, 0);
        self.past.forget_buried(at.committed);
        self.failures.clear();
        std::mem::take(&mut self.spent).into_values().collect()
    }

    /// The same, if it was moved without a word.
    pub(super) fn follow(&mut self, at: Cursor, why: FencedBy) -> Vec<Cause> {
        if self.holder.is_none() || self.epoch == at.epoch {
            return Vec::new();
        }
        self.moved(self.epoch, at, why)
    }

    /// A member with a handler takes the lane, at `next`: whether records behind that have failed before. When they are due,
    /// and why some of them are to be given up, is kept.
    pub(super) fn carries(&self, next: Seq) -> bool {
        self.last_failed().is_some_and(|last| last > next.get())
    }

    /// Why a record is to be given up, if it was a consumer in whose hands it failed last.
    pub(super) fn take_cause(&mut self, offset: Seq) -> Option<Cause> {
        self.spent.remove(&offset.get())
    }

    /// Whether the lease of what is in flight is over.
    pub(super) fn is_over(&self, at: Cursor, now: Time) -> bool {
        self.in_flight(at.committed).is_some() && self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Takes the record at the cursor, if it is to be given up and nobody is about to.
    pub(super) fn take_spent(&mut self, at: Cursor) -> Option<(Cause, u32)> {
        if !self.has_spent(at) {
            return None;
        }
        let cause = self.spent.remove(&at.committed.get())?;
        self.busy = true;
        Some((cause, self.failures_of(at.committed)))
    }

    /// Whether the record at the cursor is to be given up, and nobody is about to.
    pub(super) fn has_spent(&self, at: Cursor) -> bool {
        self.holder.is_some() && !self.busy && self.next == at.committed && self.next_is_spent()
    }

    /// Whether the consumer has no reason to hold the lane any longer.
    pub(super) fn is_idle(&self, at: Cursor) -> bool {
        self.holder.is_some() && !self.busy && self.next == at.committed
    }
}

/// The pause after so many failures, as the dice fell.
pub(super) fn pause(retry: &Retry, failures: u32, roll: u64) -> Duration {
    if retry.has_jitter() { retry.jittered(failures, roll) } else { retry.delay_after(failures) }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests;
