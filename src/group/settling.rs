//! Settling: what is in flight is done, has failed, comes again, or is kept for longer.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::{contain, drop_contained};
use super::fence::{Cause, FencedBy, Refusal};
use super::flight::{Cursor, Flight, Ticket, pause};
use super::lane::Lane;
use super::outcome::Failure;
use super::receipt::SettleError;
use super::record::Batch;
use super::word::MemberId;
use crate::ring::Fenced;
use crate::seq::Seq;
use crate::sync::lock;
use std::ops::Range;
use std::time::Duration;

/// Who settles.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// Who has this batch.
    Batch(Ticket),
    /// The consumer itself: all that is in flight.
    All(MemberId),
}

impl Who {
    fn member(self) -> MemberId {
        match self {
            Who::Batch(ticket) => ticket.holder,
            Who::All(me) => me,
        }
    }
}

/// The records of a batch that fail, or the one at `from`: then all that was handed out before it is done, as by an ack up to
/// there. Says what comes again, and what was done. `None`: the cursor was moved at that very moment.
fn fail_from<T: Send + Sync + 'static>(
    lane: &Lane<T>,
    flight: &mut Flight,
    mut at: Cursor,
    ticket: Ticket,
    from: Option<u64>,
    unused: &mut Vec<Cause>,
) -> Result<(Range<u64>, Range<Seq>), Option<Refusal>> {
    flight.is_current(ticket, at).map_err(|why| Some(Refusal::Fenced(why)))?;
    if from.is_some_and(|offset| offset < at.committed.get()) {
        return Err(Some(Refusal::Fenced(FencedBy::AlreadyAcked)));
    }
    let first = from.map_or(ticket.from, Seq::new).later(at.committed);
    let mut done = at.committed..at.committed;
    if from.is_some() && at.committed.precedes(first) {
        unused.extend(go_on(lane, flight, at, first)?);
        (done.end, at.committed) = (first, first);
    }
    flight.rewind(first, at, FencedBy::Rewound, || lane.gate.bump());
    Ok((first.get()..from.map_or(ticket.to.get(), |_| first.get() + 1), done))
}

/// Everything before `to` is done, all of which is in flight. `None`: the cursor was moved at that very moment.
fn go_on<T: Send + Sync + 'static>(
    lane: &Lane<T>,
    flight: &mut Flight,
    at: Cursor,
    to: Seq,
) -> Result<Vec<Cause>, Option<Refusal>> {
    flight.may_ack(to, at).map_err(Some)?;
    let done = to.since(at.committed);
    // Counted before, as when a handler does it: who sees the cursor there finds the books right.
    lane.counters.acked.add(done);
    match lane.gate.commit(at.epoch, at.committed, to) {
        Ok(()) => Ok(flight.acked(to)),
        Err(Fenced { .. }) => {
            lane.counters.acked.take_back(done);
            Err(None)
        }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Everything of what `who` has up to `through`, or all of it, is done.
    pub(super) fn ack(&self, lane: &Lane<T>, who: Who, through: Option<u64>) -> Result<(), SettleError> {
        self.is_back(who.member());
        loop {
            let (acked, mut news) =
                self.fly_untold(lane, Some(who.member()), |flight, at, _| self.ack_at(lane, flight, at, who, through));
            self.pass_on(lane, &news);
            let acked = acked.map(|(done, unused)| {
                news.unused.extend(unused);
                self.tell_of(lane, &done);
            });
            self.follow_up(lane, news, None);
            match acked {
                Err(Some(refusal)) => return Err(self.refused(lane, who, through, refusal)),
                Err(None) => {} // the cursor was moved at that very moment: why, is known by now
                Ok(()) => return Ok(()),
            }
        }
    }

    /// After a commit; who waits for it has been told with the [news](super::pull::News).
    pub(super) fn tell_of(&self, lane: &Lane<T>, done: &Range<Seq>) {
        if done.start != done.end {
            // Runs destructors, as after every commit.
            lane.log.gone_on(done.start, done.end);
        }
    }

    fn ack_at(
        &self,
        lane: &Lane<T>,
        flight: &mut Flight,
        at: Cursor,
        who: Who,
        through: Option<u64>,
    ) -> Result<(Range<Seq>, Vec<Cause>), Option<Refusal>> {
        let current = flight.in_flight(at.committed);
        let behind = |offset: u64| Seq::new(offset.saturating_add(1));
        let to = match (who, through) {
            (Who::Batch(ticket), None) => ticket.to,
            (Who::Batch(ticket), Some(offset)) if !(ticket.from.get()..ticket.to.get()).contains(&offset) => {
                return Err(Some(Refusal::NotInFlight(current)));
            }
            (Who::Batch(_), Some(offset)) => behind(offset),
            (Who::All(me), _) if flight.holder != Some(me) => return Err(Some(Refusal::NotInFlight(None))),
            (Who::All(_), None) => flight.next(),
            (Who::All(_), Some(offset)) => behind(offset),
        };
        if let Who::Batch(ticket) = who {
            if let Err(why) = flight.is_current(ticket, at) {
                flight.refuse(ticket, to);
                return Err(Some(Refusal::Fenced(why)));
            }
        }
        go_on(lane, flight, at, to).map(|unused| (at.committed..to, unused))
    }

    /// What `who` has failed: all of it, or the record at `from`, before which all is done, and the rest comes again uncounted.
    /// All of that or nothing; whether there was anything.
    pub(super) fn nack(
        &self,
        lane: &Lane<T>,
        who: Who,
        from: Option<u64>,
        mut failure: Option<Failure>,
        in_hand: Option<&Batch<'_, T>>,
    ) -> Result<bool, SettleError> {
        self.is_back(who.member());
        let (now, roll) = (self.clock.now(), self.roll());
        if let (Who::Batch(ticket), Some(offset)) = (who, from) {
            if !(ticket.from.get()..ticket.to.get()).contains(&offset) {
                let in_flight = lock(&lane.flight).in_flight(lane.cursor().committed);
                return Err(self.refused(lane, who, from, Refusal::NotInFlight(in_flight)));
            }
        }
        loop {
            let mut unused = Vec::new();
            let nacked = self.fly(lane, Some(who.member()), in_hand, |flight, at, again| {
                let (which, done) = match who {
                    Who::All(me) if flight.holder != Some(me) => return Ok(None),
                    Who::All(_) if flight.in_flight(at.committed).is_none() => return Ok(None),
                    Who::All(_) => {
                        (flight.rewind_all(at, FencedBy::Rewound, || lane.gate.bump()), at.committed..at.committed)
                    }
                    Who::Batch(ticket) => fail_from(lane, flight, at, ticket, from, &mut unused)?,
                };
                let first = Seq::new(which.start);
                let cause = failure.take().map_or(Cause::Nacked, Cause::Failed);
                let due = |failures| {
                    let pause = pause(&self.config.retry, failures, roll);
                    (!pause.is_zero()).then(|| now.after(pause))
                };
                let (tried_again, left) = flight.fail(which, cause, &self.config.retry, due);
                lane.counters.retried.add(tried_again);
                unused.extend(left);
                *again = true;
                let failures = flight.failures_of(first);
                if self.config.retry.allows_another(failures) {
                    lane.notice.waits(first.get(), flight.epoch(), failures, flight.due_of(first));
                }
                Ok(Some(done))
            });
            drop_contained(unused);
            match nacked {
                Err(Some(refusal)) => return Err(self.refused(lane, who, from, refusal)),
                Err(None) => {} // as in `ack`
                Ok(None) => return Ok(false),
                Ok(Some(done)) => {
                    self.tell_of(lane, &done);
                    return Ok(true);
                }
            }
        }
    }

    /// Any number, where the pauses of this group have jitter. User code.
    pub(super) fn roll(&self) -> u64 {
        let dice = || contain(|| self.random.next_u64()).unwrap_or(0);
        if self.config.retry.has_jitter() { dice() } else { 0 }
    }

    /// What of a batch is in flight comes again, uncounted.
    pub(super) fn release(&self, lane: &Lane<T>, ticket: Ticket) {
        self.is_back(ticket.holder);
        self.fly(lane, Some(ticket.holder), None, |flight, at, again| {
            if flight.is_current(ticket, at).is_ok() {
                let first = ticket.from.later(at.committed);
                flight.rewind(first, at, FencedBy::Rewound, || lane.gate.bump());
                *again = true;
            }
        });
    }

    /// The consumer goes: what is in flight comes again, uncounted, and the lane is let go.
    pub(super) fn release_all(&self, lane: &Lane<T>, me: MemberId) {
        self.fly(lane, Some(me), None, |flight, at, again| {
            if flight.holder == Some(me) && flight.in_flight(at.committed).is_some() {
                flight.rewind_all(at, FencedBy::Moved, || lane.gate.bump());
                *again = true;
            }
        });
    }

    /// The lease goes on for `by` from now, as far as the group allows; says how long that is.
    pub(super) fn extend(&self, lane: &Lane<T>, ticket: Ticket, by: Duration) -> Result<Duration, SettleError> {
        let now = self.clock.now();
        let longest = self.config.sharing.lease().and_then(|lease| lease.longest);
        self.is_back(ticket.holder);
        let extended = self.fly(lane, Some(ticket.holder), None, |flight, at, _| {
            flight.is_current(ticket, at).map_err(Refusal::Fenced)?;
            let Some(deadline) = flight.deadline() else { return Ok(Duration::MAX) };
            let last = longest.map_or(deadline, |longest| flight.leased_at().after(longest));
            let until = now.after(by).min(last).max(deadline);
            flight.extend(until);
            Ok(until.since(now))
        });
        extended.map_err(|refusal| self.refused(lane, Who::Batch(ticket), None, refusal))
    }

    #[cold]
    pub(super) fn refused(&self, lane: &Lane<T>, who: Who, offset: Option<u64>, refusal: Refusal) -> SettleError {
        let (topic, group, partition) = (self.home.topic.clone(), self.name.clone(), lane.partition);
        match (refusal, who) {
            (Refusal::Fenced(reason), Who::Batch(ticket)) => {
                SettleError::Fenced { topic, group, partition, offsets: ticket.from.get()..ticket.to.get(), reason }
            }
            (Refusal::Fenced(reason), Who::All(_)) => {
                let at = offset.unwrap_or(0);
                SettleError::Fenced { topic, group, partition, offsets: at..at.saturating_add(1), reason }
            }
            (Refusal::NotInFlight(in_flight), Who::Batch(ticket)) => {
                let offset = offset.unwrap_or(ticket.to.get() - 1);
                SettleError::NotInFlight { topic, group, partition, offset, in_flight }
            }
            (Refusal::NotInFlight(in_flight), Who::All(_)) => {
                SettleError::NotInFlight { topic, group, partition, offset: offset.unwrap_or(0), in_flight }
            }
        }
    }
}
