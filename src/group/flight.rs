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
//! have in hand ends the epoch; why, is kept for the last [`ENDS`] of them:
//!
//! | event                                               | new epoch | `next`    | failures                          |
//! |-----------------------------------------------------|-----------|-----------|-----------------------------------|
//! | the last batch is released, or nacked from o on     | no        | its first, or o | none; those from o on       |
//! | an earlier batch is released, or nacked             | yes       | its first | none; its own                     |
//! | all is nacked                                       | yes       | committed | all                               |
//! | the lease expires, at `now >= deadline`             | yes       | committed | all                               |
//! | the consumer goes                                   | yes       | committed | none                              |
//! | seek, delete, a cursor lifted from far behind       | yes, by them | the cursor | forgotten                     |
//!
//! Batches in flight are acknowledged in order: an ack covers everything before it.
#![forbid(unsafe_code)]

use super::outcome::Failure;
use super::retry::Retry;
use super::word::MemberId;
use crate::seq::Seq;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Of so many epochs it is known why they ended.
const ENDS: usize = 64;

/// The kind of the failure that is a lease that expired.
pub(super) const EXPIRED: &str = "expired";

/// Why what was handed out cannot be settled any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FencedBy {
    /// Its lease was over; it is handed out again.
    Expired,
    /// Its consumer went, and left it to others.
    Moved,
    /// The group's cursor was moved.
    Seeked,
    /// The group was deleted, or its topic, or its broker closed.
    Deleted,
    /// The cursor was so far behind that it was moved.
    Trimmed,
    /// It was nacked, or something before it was nacked or released; it is handed out again.
    Rewound,
    /// It was given up, and has a letter.
    Buried,
    /// It was acknowledged before.
    AlreadyAcked,
}

impl fmt::Display for FencedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FencedBy::Expired => "its lease expired",
            FencedBy::Moved => "its consumer has left",
            FencedBy::Seeked => "the group's cursor was moved",
            FencedBy::Deleted => "the group was deleted, or its broker closed",
            FencedBy::Trimmed => "the group was too far behind",
            FencedBy::Rewound => "it was nacked, or something before it was not acknowledged",
            FencedBy::Buried => "it was given up",
            FencedBy::AlreadyAcked => "it was acknowledged before",
        })
    }
}

/// Why a record failed.
#[derive(Debug)]
pub(super) enum Cause {
    Expired,
    /// All was nacked, without a word.
    Nacked,
    Failed(Failure),
}

impl Cause {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Cause::Expired => Failure::of_kind(EXPIRED, "its lease expired before it was acknowledged"),
            Cause::Nacked => Failure::of_kind("nacked", "it was nacked"),
            Cause::Failed(failure) => failure,
        }
    }
}

/// A call that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotInFlight(Option<Range<u64>>),
    Fenced(FencedBy),
}

/// Where the cursor is, and in which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) committed: Seq,
    pub(super) epoch: u32,
}

/// What was handed out at once, for who settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
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
    next: Seq,
    last: Seq,
    /// When what was handed out last was, and when it is over.
    leased_at: Time,
    deadline: Option<Time>,
    /// Nothing is handed out before that.
    due: Option<Time>,
    /// How often records that are not done have failed.
    failures: BTreeMap<u64, u32>,
    /// Those of them that are to be given up.
    spent: BTreeMap<u64, Cause>,
    ends: VecDeque<(u32, FencedBy)>,
    /// The last record that was given up.
    buried: Option<u64>,
    /// How many records are missing right before which one.
    lost: (Seq, u64),
    /// Settlements that came too late, in records.
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

    pub(super) fn due(&self) -> Option<Time> {
        self.due
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
        self.failures.get(&offset.get()).copied().unwrap_or(0)
    }

    /// The last record that has failed before, and is not done.
    pub(super) fn last_failed(&self) -> Option<u64> {
        self.failures.last_key_value().map(|(offset, _)| *offset)
    }

    /// How often the records of a batch have failed before, those that have.
    pub(super) fn failed_in(&self, from: Seq, to: Seq) -> Vec<(u64, u32)> {
        self.failures.range(from.get()..to.get()).map(|(offset, times)| (*offset, *times)).collect()
    }

    pub(super) fn lost_before(&self, offset: Seq) -> u64 {
        if self.lost.0 == offset { self.lost.1 } else { 0 }
    }

    /// A consumer takes the lane, which stands there, with what is known of the record at the cursor.
    pub(super) fn open(&mut self, holder: MemberId, at: Cursor, failures: u32, due: Option<Time>, lost: u64) {
        debug_assert!(self.holder.is_none() && !self.busy, "a lane is opened once");
        self.holder = Some(holder);
        (self.epoch, self.next, self.last) = (at.epoch, at.committed, at.committed);
        self.forget_done(at.committed);
        if failures > 0 {
            self.failures.insert(at.committed.get(), failures);
        } else {
            self.failures.remove(&at.committed.get());
        }
        (self.due, self.lost, self.deadline) = (due, (at.committed, lost), None);
    }

    /// The consumer lets the lane go, with nothing in flight.
    pub(super) fn close(&mut self) {
        debug_assert!(!self.busy, "nobody is at work on it");
        (self.holder, self.deadline) = (None, None);
    }

    /// Goes on behind a gap, which is committed already.
    pub(super) fn passed(&mut self, to: Seq, lost: u64) -> Vec<Cause> {
        self.lost = (to, self.lost_before(self.next) + lost);
        (self.next, self.last, self.due) = (to, to, None);
        self.forget_done(to)
    }

    /// How many of `most` records from `next` on may be handed out at once: who would be buried by one more failure is alone.
    pub(super) fn limit(&self, most: usize, retry: &Retry) -> usize {
        if retry.attempts().is_none() {
            return most;
        }
        if !retry.allows_another(1) {
            return 1;
        }
        let from = self.next.get();
        let to = from.saturating_add(most as u64);
        let last_chance = |times: u32| !retry.allows_another(times.saturating_add(1));
        let alone = self.failures.range(from..to).find(|(_, times)| last_chance(**times));
        alone.map_or(most, |(offset, _)| ((offset - from) as usize).max(1))
    }

    /// Whether the record that comes next is to be given up before anything else is done.
    pub(super) fn next_is_spent(&self) -> bool {
        self.spent.contains_key(&self.next.get())
    }

    /// Hands out everything before `to`.
    pub(super) fn hand_out(&mut self, to: Seq, lease: Option<(Time, Duration)>) -> Ticket {
        (self.last, self.next, self.due) = (self.next, to, None);
        if let Some((now, time)) = lease {
            (self.leased_at, self.deadline) = (now, Some(now.after(time)));
        }
        Ticket { epoch: self.epoch, from: self.last, to }
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
            let was = self.buried.is_some_and(|buried| (ticket.from.get()..ticket.to.get()).contains(&buried));
            if was && !at.committed.precedes(ticket.to) {
                return Err(FencedBy::Buried);
            }
            if ticket.epoch == at.epoch && !at.committed.precedes(ticket.to) {
                return Err(FencedBy::AlreadyAcked);
            }
            return Err(self.why(ticket.epoch));
        }
        if at.committed.precedes(ticket.to) { Ok(()) } else { Err(FencedBy::AlreadyAcked) }
    }

    fn why(&self, epoch: u32) -> FencedBy {
        self.ends.iter().rev().find(|(ended, _)| *ended == epoch).map_or(FencedBy::Rewound, |(_, why)| *why)
    }

    /// The cursor has gone on to `to`.
    pub(super) fn acked(&mut self, to: Seq) -> Vec<Cause> {
        if to == self.next {
            self.deadline = None;
        }
        self.forget_done(to)
    }

    /// The record before `to` was given up.
    pub(super) fn buried(&mut self, to: Seq) -> Vec<Cause> {
        self.buried = Some(to.minus(1).get());
        (self.next, self.last) = (self.next.later(to), self.last.later(to));
        self.acked(to)
    }

    fn forget_done(&mut self, committed: Seq) -> Vec<Cause> {
        let undone = self.failures.split_off(&committed.get());
        self.failures = undone;
        let undone = self.spent.split_off(&committed.get());
        std::mem::replace(&mut self.spent, undone).into_values().collect()
    }

    /// Records failed once more. The cause is the first one's; says how many are tried again.
    pub(super) fn fail(&mut self, which: Range<u64>, cause: Cause, retry: &Retry) -> (u64, Vec<Cause>) {
        let (mut again, mut unused, mut cause) = (0, Vec::new(), Some(cause));
        for offset in which {
            let times = self.failures.entry(offset).or_insert(0);
            *times = times.saturating_add(1);
            if retry.allows_another(*times) {
                again += 1;
                continue;
            }
            let expired = matches!(cause, Some(Cause::Expired));
            let why = if expired { Cause::Expired } else { cause.take().unwrap_or(Cause::Nacked) };
            unused.extend(self.spent.insert(offset, why));
        }
        unused.extend(cause);
        (again, unused)
    }

    /// What is handed out next is the record at `to`, which was handed out before: in a new epoch, if anybody else may have it
    /// in hand.
    pub(super) fn rewind(&mut self, to: Seq, why: FencedBy, bump: impl FnOnce() -> u32) {
        if to.precedes(self.last) {
            self.end_epoch(bump(), why);
        }
        (self.next, self.last) = (to, self.last.earlier(to));
    }

    /// All that is in flight comes again, in a new epoch. Says what it was.
    pub(super) fn rewind_all(&mut self, at: Cursor, why: FencedBy, bump: impl FnOnce() -> u32) -> Range<u64> {
        let was = at.committed.get()..self.next.get().max(at.committed.get());
        self.end_epoch(bump(), why);
        (self.next, self.last, self.deadline) = (at.committed, at.committed, None);
        was
    }

    /// Nothing is handed out before `due`.
    pub(super) fn wait_until(&mut self, due: Option<Time>) {
        self.due = due;
    }

    /// The lease of all that is in flight goes on until then.
    pub(super) fn extend(&mut self, deadline: Time) {
        self.deadline = Some(deadline);
    }

    fn end_epoch(&mut self, new: u32, why: FencedBy) {
        if self.ends.len() == ENDS {
            self.ends.pop_front();
        }
        self.ends.push_back((self.epoch, why));
        self.epoch = new;
    }

    /// The cursor was moved by somebody else, who ended the epoch `before`: nothing of what was known holds.
    pub(super) fn moved(&mut self, before: u32, at: Cursor, why: FencedBy) -> Vec<Cause> {
        self.epoch = before;
        self.end_epoch(at.epoch, why);
        (self.next, self.last, self.deadline, self.due) = (at.committed, at.committed, None, None);
        self.lost = (at.committed, 0);
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

    /// A member with a handler takes the lane, at `next`: whether records behind that have failed before.
    pub(super) fn lend(&mut self, next: Seq) -> (bool, Vec<Cause>) {
        let unused = std::mem::take(&mut self.spent).into_values().collect();
        self.due = None;
        (self.last_failed().is_some_and(|last| last > next.get()), unused)
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
mod tests {
    use super::{Cause, Cursor, ENDS, FencedBy, Flight, Refusal};
    use crate::group::{Failure, MemberId, Retry};
    use crate::seq::Seq;
    use crate::time::Time;
    use std::time::Duration;

    fn at(committed: u64, epoch: u32) -> Cursor {
        Cursor { committed: Seq::new(committed), epoch }
    }

    fn seq(offset: u64) -> Seq {
        Seq::new(offset)
    }

    /// Two batches out: 0..2 and 2..5.
    fn two() -> (Flight, super::Ticket, super::Ticket) {
        let mut flight = Flight::default();
        flight.open(MemberId::new(1).unwrap(), at(0, 7), 0, None, 0);
        let one = flight.hand_out(seq(2), None);
        let two = flight.hand_out(seq(5), None);
        (flight, one, two)
    }

    // B-3, B-16
    #[test]
    fn only_what_is_in_flight_is_acknowledged() {
        let (mut flight, one, two) = two();
        assert_eq!(flight.in_flight(seq(0)), Some(0..5));
        assert_eq!(flight.may_ack(seq(6), at(0, 7)), Err(Refusal::NotInFlight(Some(0..5))), "never handed out");
        flight.may_ack(seq(2), at(0, 7)).unwrap();
        drop(flight.acked(seq(2)));
        assert_eq!(flight.may_ack(seq(2), at(2, 7)), Err(Refusal::NotInFlight(Some(2..5))), "done already");
        assert_eq!(flight.is_current(one, at(2, 7)), Err(FencedBy::AlreadyAcked));
        assert_eq!(flight.is_current(two, at(2, 7)), Ok(()));
        drop(flight.acked(seq(5)));
        assert_eq!(flight.may_ack(seq(8), at(5, 7)), Err(Refusal::NotInFlight(None)));
        assert!(flight.is_idle(at(5, 7)));
    }

    #[test]
    fn the_last_batch_goes_back_in_its_epoch_and_an_earlier_one_ends_it() {
        let (mut flight, one, two) = two();
        flight.rewind(seq(2), FencedBy::Rewound, || panic!("no need for a new epoch"));
        assert_eq!((flight.next(), flight.epoch()), (seq(2), 7));
        let again = flight.hand_out(seq(5), None);
        assert_eq!(again, two);
        flight.rewind(seq(0), FencedBy::Rewound, || 8);
        assert_eq!((flight.next(), flight.epoch()), (seq(0), 8));
        assert_eq!(flight.is_current(two, at(0, 8)), Err(FencedBy::Rewound));
        assert_eq!(flight.is_current(one, at(0, 8)), Err(FencedBy::Rewound));
    }

    // B-8
    #[test]
    fn a_lease_is_over_from_its_deadline_on_and_all_of_it_comes_again() {
        let (mut flight, _, _) = two();
        let deadline = Time::ZERO.after(Duration::from_secs(30));
        let three = flight.hand_out(seq(6), Some((Time::ZERO, Duration::from_secs(30))));
        assert!(!flight.is_over(at(0, 7), Time::ZERO.after(Duration::from_secs(29))));
        assert!(flight.is_over(at(0, 7), deadline));
        assert_eq!(flight.rewind_all(at(1, 7), FencedBy::Expired, || 8), 1..6);
        assert!(!flight.is_over(at(1, 8), deadline), "once");
        assert_eq!(flight.is_current(three, at(1, 8)), Err(FencedBy::Expired));
    }

    // B-E2
    #[test]
    fn a_record_on_its_last_attempt_is_alone_and_then_it_is_spent() {
        let (mut flight, _, _) = two();
        let retry = Retry::constant(2, Duration::ZERO);
        assert_eq!(flight.limit(9, &Retry::never()), 1);
        assert_eq!(flight.fail(3..4, Cause::Nacked, &retry).0, 1);
        flight.rewind(seq(2), FencedBy::Rewound, || unreachable!());
        assert_eq!(flight.limit(9, &retry), 1, "2, which comes before it");
        flight.hand_out(seq(3), None);
        assert_eq!((flight.limit(9, &retry), flight.limit(9, &Retry::never().unlimited())), (1, 9));
        flight.hand_out(seq(4), None);
        assert_eq!(flight.fail(3..4, Cause::Failed(Failure::new("no")), &retry).0, 0);
        flight.rewind(seq(3), FencedBy::Rewound, || unreachable!());
        assert!(flight.next_is_spent());
        assert!(flight.take_spent(at(2, 7)).is_none(), "what is before it comes first");
        drop(flight.acked(seq(3)));
        let (cause, times) = flight.take_spent(at(3, 7)).unwrap();
        assert_eq!((cause.into_failure().message().as_str(), times), ("no", 2));
        assert!(flight.busy && !flight.is_idle(at(3, 7)));
    }

    #[test]
    fn what_was_given_up_is_known_as_such() {
        let (mut flight, _, two) = two();
        flight.rewind_all(at(4, 7), FencedBy::Rewound, || 8);
        drop(flight.buried(seq(5)));
        assert_eq!(flight.is_current(two, at(5, 8)), Err(FencedBy::Buried));
    }

    #[test]
    fn who_moves_the_cursor_makes_everything_void() {
        let (mut flight, one, _) = two();
        flight.fail(0..5, Cause::Expired, &Retry::never());
        assert!(flight.follow(at(0, 7), FencedBy::Seeked).is_empty());
        assert_eq!(flight.follow(at(9, 8), FencedBy::Seeked).len(), 5);
        assert_eq!((flight.next(), flight.failures_of(seq(3)), flight.in_flight(seq(9))), (seq(9), 0, None));
        assert_eq!(flight.is_current(one, at(9, 8)), Err(FencedBy::Seeked));
    }

    #[test]
    fn why_epochs_ended_is_kept_for_the_last_ones() {
        let (mut flight, one, _) = two();
        for epoch in 8..8 + ENDS as u32 {
            flight.rewind_all(at(0, epoch), FencedBy::Expired, || epoch);
        }
        assert_eq!(flight.is_current(one, at(0, 8 + ENDS as u32 - 1)), Err(FencedBy::Expired));
        flight.rewind_all(at(0, 99), FencedBy::Expired, || 99);
        assert_eq!(flight.ends.len(), ENDS);
    }
}
