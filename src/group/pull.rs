//! What consumers do to a lane: take it, hand out its next run, settle, let it go. See [`flight`](super::flight) for the
//! states; here they meet the cursor, the lane word and the letters.
//!
//! ```text
//!   one operation:   lock ── follow the cursor, if it was moved ── lease over? all of it comes again
//!                      │
//!                      ├── the operation itself: hand out, ack (compare-and-swap on the cursor), nack, release
//!                      │
//!                      └── nothing in flight any more? park what is known, let the lane go ── unlock
//!                    then, under no lock: drop, ring, write the letter of who is spent, file it with the commit
//! ```
//! A lane that a consumer holds has its state parked all the same: the consumer reads with a reader of its own.
#![forbid(unsafe_code)]

use super::Group;
use super::flight::{Cause, Cursor, FencedBy, Flight, Refusal, Ticket, pause};
use super::lane::{Held, Lane};
use super::letters::{Letter, Origin};
use super::outcome::Failure;
use super::receipt::SettleError;
use super::record::{Batch, Lent};
use super::word::MemberId;
use crate::log::{self, Read};
use crate::ring::Fenced;
use crate::seq::Seq;
use crate::sync::lock;
use crate::time::Time;
use std::ops::Range;
use std::time::Duration;

/// What is to be done once the lock is open.
#[derive(Default)]
struct News {
    /// The lane was let go: who holds it no more, and whose it is.
    passed_on: Option<(MemberId, MemberId)>,
    /// Records come again that whoever waits does not know of.
    again: bool,
    /// The record at the cursor is to be given up.
    spent: bool,
    unused: Vec<Cause>,
}

/// Who settles.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// Who has this batch.
    Batch(Ticket),
    /// The consumer itself: all that is in flight.
    All(MemberId),
}

/// What a consumer may read next.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) from: Seq,
    pub(super) epoch: u32,
    /// Nothing before it is in flight: it is at the cursor.
    pub(super) first: bool,
    pub(super) most: usize,
}

/// What a look at a lane found.
#[derive(Debug)]
pub(super) enum Look {
    Next(Next),
    /// Nothing is to be had.
    Nothing,
    /// Nothing before that.
    Until(Time),
}

impl<T: Send + Sync + 'static> Lane<T> {
    pub(super) fn cursor(&self) -> Cursor {
        let (committed, epoch) = self.gate.snapshot();
        Cursor { committed, epoch }
    }

    /// What consumers have in flight from `committed` on, what was settled too late, and how many leases expired.
    pub(super) fn in_flight(&self, committed: Seq) -> (u64, u64, u64) {
        let flight = lock(&self.flight);
        let current = flight.in_flight(committed).filter(|_| flight.epoch() == self.gate.epoch());
        (current.map_or(0, |range| range.end - range.start), flight.refused, flight.lapsed)
    }

    /// A member with a handler has taken the lane: what has failed in a consumer's hands goes on from there.
    pub(super) fn lend(&self, held: &mut Held<T>) {
        let unused = {
            let mut flight = lock(&self.flight);
            let (carries, unused) = flight.lend(held.next);
            held.carries = carries;
            unused
        };
        if held.carries {
            let last = lock(&self.flight).last_failed().unwrap_or(0);
            held.single_until = held.single_until.later(Seq::new(last).plus(1));
        }
        drop(unused);
    }

    /// How often the record that is now next has failed in a consumer's hands.
    #[cold]
    pub(super) fn carried(&self, held: &mut Held<T>) -> u32 {
        if !held.carries {
            return 0;
        }
        let flight = lock(&self.flight);
        held.carries = flight.last_failed().is_some_and(|last| last > held.next.get());
        flight.failures_of(held.next)
    }

    /// Takes the lane for a consumer. `None`: it is not to be had; else what is missing and has not been told.
    fn open(&self, flight: &mut Flight, me: MemberId) -> Option<[Option<log::Gap>; 2]> {
        self.word.take(me).ok()?;
        let mut parked = lock(&self.parked);
        let held = parked.as_mut()?;
        if held.epoch != self.gate.epoch() {
            held.resync(&self.gate);
        }
        let lifted = if self.loses { held.lifted_over(&self.gate) } else { None };
        let at = Cursor { committed: held.next, epoch: held.epoch };
        flight.open(me, at, held.failures, held.due, held.lost);
        Some([held.untold.take(), lifted])
    }

    /// Lets the lane go, with nothing in flight; says whose it is now.
    fn shut(&self, flight: &mut Flight, at: Cursor) -> MemberId {
        let mut parked = lock(&self.parked);
        if let Some(held) = parked.as_mut() {
            (held.next, held.epoch) = (at.committed, at.epoch);
            (held.failures, held.due) = (flight.failures_of(at.committed), flight.due());
            (held.single_until, held.lost, held.carries) = (Seq::ZERO, flight.lost_before(at.committed), false);
            held.reader.jump(at.committed);
        }
        flight.close();
        let word = self.word.let_go();
        if word.is_ended() {
            *parked = None; // a reader with nothing in hand: no code of the user's
        }
        word.owner()
    }

    /// What is true before anything is done: the cursor may have been moved, a lease may be over.
    fn catch_up<U>(&self, group: &Group<U>, flight: &mut Flight, now: Option<Time>) -> News {
        let mut news = News::default();
        let at = self.cursor();
        let why = if self.word.load().is_ended() { FencedBy::Deleted } else { FencedBy::Trimmed };
        news.unused = flight.follow(at, why);
        if now.is_some_and(|now| flight.is_over(at, now)) {
            let which = flight.rewind_all(at, FencedBy::Expired, || self.gate.bump());
            flight.lapsed += which.end - which.start;
            self.failed(group, flight, which, Cause::Expired, &mut news);
            news.again = true;
        }
        news
    }

    fn failed<U>(&self, group: &Group<U>, flight: &mut Flight, which: Range<u64>, cause: Cause, news: &mut News) {
        let (again, unused) = flight.fail(which, cause, &group.config.retry);
        self.counters.retried.add(again);
        news.unused.extend(unused);
    }

    /// What is true when all is done: a lane with nothing in flight is not held.
    fn tidy(&self, flight: &mut Flight, news: &mut News) {
        let at = self.cursor();
        news.unused.extend(flight.follow(at, FencedBy::Trimmed));
        let Some(holder) = flight.holder else { return };
        if self.loses {
            self.gate.take(flight.next(), at.epoch);
        }
        news.spent = flight.has_spent(at);
        if flight.is_idle(at) && !news.spent {
            news.passed_on = Some((holder, self.shut(flight, at)));
        }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// One operation on what is in flight: see the module. `in_hand`: the batch, if the caller has it still.
    fn fly<R>(
        &self,
        lane: &Lane<T>,
        in_hand: Option<&Batch<'_, T>>,
        act: impl FnOnce(&mut Flight, Cursor, &mut bool) -> R,
    ) -> R {
        let now = self.config.sharing.lease.map(|_| self.clock.now());
        let (result, news) = {
            let mut flight = lock(&lane.flight);
            let mut news = lane.catch_up(self, &mut flight, now);
            let result = act(&mut flight, lane.cursor(), &mut news.again);
            lane.tidy(&mut flight, &mut news);
            (result, news)
        };
        self.spread(lane, news, in_hand);
        result
    }

    fn spread(&self, lane: &Lane<T>, news: News, in_hand: Option<&Batch<'_, T>>) {
        let News { passed_on, again, spent, unused } = news;
        drop(unused);
        let partition = lane.partition as usize;
        match passed_on {
            Some((holder, owner)) if holder != owner => self.handed_over(owner, partition),
            _ if again => self.ring_for(partition),
            _ => {}
        }
        if spent {
            self.bury_spent(lane, in_hand);
        }
    }

    /// What was in flight and was let go of, or has become void, is not the lane's reason to be held any more.
    pub(super) fn settle_down(&self, lane: &Lane<T>) {
        self.fly(lane, None, |_, _, _| ());
    }

    /// Ends the leases that are over; says when to look again. `None`: never.
    pub fn watch_leases(&self, now: Time) -> Option<Time> {
        let lease = self.config.sharing.lease().filter(|_| !self.is_over())?;
        let deadline = |lane| self.fly(lane, None, |flight, _, _| flight.deadline());
        let first = self.lanes.iter().filter_map(|lane| deadline(lane)).min();
        // What is handed out from now on is not over before that.
        Some(first.unwrap_or(Time::MAX).min(now.after(lease.time)))
    }

    // ---- handing out ---------------------------------------------------------------------------------------------

    /// What the consumer `me` may read of a lane, at most so many records. If there is something, the lane stays in its hand
    /// until [`hand_out`](Self::hand_out).
    pub(super) fn look(&self, lane: &Lane<T>, me: MemberId, most: usize) -> Look {
        let word = lane.word.load();
        if !word.is_of(me) || word.is_ended() || word.paused() != 0 {
            return Look::Nothing;
        }
        let (mut told, now) = ([None, None], self.clock.now());
        let look = self.fly(lane, None, |flight, at, _| {
            if flight.busy || flight.holder.is_some_and(|holder| holder != me) {
                return Look::Nothing;
            }
            if flight.holder.is_none() {
                if !at.committed.precedes(lane.log.end()) && !lane.loses {
                    return Look::Nothing;
                }
                match lane.open(flight, me) {
                    Some(gaps) => told = gaps,
                    None => return Look::Nothing,
                }
            }
            if let Some(due) = flight.due().filter(|due| now < *due) {
                return Look::Until(due);
            }
            if flight.next_is_spent() {
                return Look::Nothing; // it is given up when what is before it is done
            }
            let most = flight.limit(most, &self.config.retry);
            flight.busy = true;
            let (from, epoch) = (flight.next(), flight.epoch());
            Look::Next(Next { from, epoch, first: from == lane.cursor().committed, most })
        });
        told.iter().flatten().for_each(|gap| self.tell(lane.partition, gap));
        look
    }

    /// Hands out `len` records from where `next` said, behind `gap` if that has been passed, unless that has changed. With them
    /// comes how often they have failed, and how many are missing before the first.
    pub(super) fn hand_out(
        &self,
        lane: &Lane<T>,
        next: &Next,
        gap: Option<&log::Gap>,
        len: usize,
    ) -> Option<(Ticket, Vec<(u64, u32)>, u64)> {
        let leased = self.config.sharing.lease.map(|lease| (self.clock.now(), lease.time));
        let mut unused = Vec::new();
        let handed = self.fly(lane, None, |flight, at, _| {
            flight.busy = false;
            if flight.epoch() != next.epoch || flight.next() != next.from || lane.word.load().is_ended() {
                return None;
            }
            if let Some(gap) = gap {
                unused = flight.passed(gap.to, gap.len());
            }
            if len == 0 || at.epoch != next.epoch {
                return None;
            }
            let (from, to) = (flight.next(), flight.next().plus(len as u64));
            let (failed, lost) = (flight.failed_in(from, to), flight.lost_before(from));
            Some((flight.hand_out(to, leased), failed, lost))
        });
        drop(unused);
        handed
    }

    /// Whether a look at the lane would find something; else when it would.
    pub(super) fn has_more(&self, lane: &Lane<T>, me: MemberId) -> Result<(), Option<Time>> {
        let word = lane.word.load();
        if !word.is_of(me) || word.is_ended() || word.paused() != 0 {
            return Err(None);
        }
        let flight = lock(&lane.flight);
        let Cursor { committed, epoch } = lane.cursor();
        let (next, due) = match flight.holder {
            None => (committed, flight.due()),
            Some(holder) if holder != me || flight.busy => return Err(None),
            Some(_) if flight.epoch() != epoch => return Ok(()),
            Some(_) => (flight.next(), flight.due()),
        };
        let deadline = flight.deadline().filter(|_| flight.holder.is_some());
        let blocked = committed.precedes(next)
            && (flight.next_is_spent() || (lane.loses && next.precedes(lane.log.earliest_only())));
        if blocked || !next.precedes(lane.log.end()) {
            return Err(deadline);
        }
        drop(flight);
        match due.filter(|due| self.clock.now() < *due) {
            None => Ok(()),
            Some(due) => Err(Some(deadline.map_or(due, |deadline| deadline.min(due)))),
        }
    }

    // ---- settling ------------------------------------------------------------------------------------------------

    /// Everything of what `who` has up to `through`, or all of it, is done.
    pub(super) fn ack(&self, lane: &Lane<T>, who: Who, through: Option<u64>) -> Result<(), SettleError> {
        loop {
            let acked = self.fly(lane, None, |flight, at, _| self.ack_at(lane, flight, at, who, through));
            match acked {
                Err(Some(refusal)) => return Err(self.refused(lane, who, through, refusal)),
                Err(None) => {} // the cursor was moved at that very moment: why, is known by now
                Ok((done, unused)) => {
                    drop(unused);
                    self.tell_of(lane, &done);
                    return Ok(());
                }
            }
        }
    }

    fn tell_of(&self, lane: &Lane<T>, done: &Range<Seq>) {
        if done.start != done.end {
            lane.log.not_full().notify();
            self.progress.notify();
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
                flight.refused += ticket.to.since(ticket.from);
                return Err(Some(Refusal::Fenced(why)));
            }
        }
        flight.may_ack(to, at).map_err(Some)?;
        let done = to.since(at.committed);
        // Counted before, as when a handler does it: who sees the cursor there finds the books right.
        lane.counters.acked.add(done);
        match lane.gate.commit(at.epoch, at.committed, to) {
            Ok(()) => Ok((at.committed..to, flight.acked(to))),
            Err(Fenced { .. }) => {
                lane.counters.acked.take_back(done);
                Err(None)
            }
        }
    }

    /// What `who` has failed: all of it, or the record at `from`, before which all is done, and the rest comes again uncounted.
    pub(super) fn nack(
        &self,
        lane: &Lane<T>,
        who: Who,
        from: Option<u64>,
        mut failure: Option<Failure>,
        in_hand: Option<&Batch<'_, T>>,
    ) -> Result<(), SettleError> {
        let (now, roll) = (self.clock.now(), self.roll());
        if let (Who::Batch(ticket), Some(offset)) = (who, from) {
            if !(ticket.from.get()..ticket.to.get()).contains(&offset) {
                let in_flight = lock(&lane.flight).in_flight(lane.cursor().committed);
                return Err(self.refused(lane, who, from, Refusal::NotInFlight(in_flight)));
            }
        }
        if let Some(before) = from.and_then(|offset| offset.checked_sub(1)) {
            if self.cursor_is_before(lane, who, before) {
                self.ack_before(lane, who, before)?;
            }
        }
        let mut unused = Vec::new();
        let nacked = self.fly(lane, in_hand, |flight, at, again| {
            let which = match who {
                Who::All(me) if flight.holder != Some(me) => return Ok(()),
                Who::All(_) if flight.in_flight(at.committed).is_none() => return Ok(()),
                Who::All(_) => flight.rewind_all(at, FencedBy::Rewound, || lane.gate.bump()),
                Who::Batch(ticket) => {
                    flight.is_current(ticket, at).map_err(Refusal::Fenced)?;
                    if from.is_some_and(|offset| offset < at.committed.get()) {
                        return Err(Refusal::Fenced(FencedBy::AlreadyAcked));
                    }
                    let first = from.map_or(ticket.from, Seq::new).later(at.committed);
                    flight.rewind(first, FencedBy::Rewound, || lane.gate.bump());
                    first.get()..from.map_or(ticket.to.get(), |_| first.get() + 1)
                }
            };
            let first = Seq::new(which.start);
            let cause = failure.take().map_or(Cause::Nacked, Cause::Failed);
            let (tried_again, left) = flight.fail(which, cause, &self.config.retry);
            lane.counters.retried.add(tried_again);
            unused = left;
            *again = true;
            let failures = flight.failures_of(first);
            if self.config.retry.allows_another(failures) {
                let pause = pause(&self.config.retry, failures, roll);
                flight.wait_until((!pause.is_zero()).then(|| now.after(pause)));
                lane.notice.waits(first.get(), flight.epoch(), failures, flight.due());
            }
            Ok(())
        });
        drop(unused);
        nacked.map_err(|refusal| self.refused(lane, who, from, refusal))
    }

    fn cursor_is_before(&self, lane: &Lane<T>, who: Who, offset: u64) -> bool {
        let starts = match who {
            Who::Batch(ticket) => ticket.from.get(),
            Who::All(_) => 0,
        };
        lane.cursor().committed.get() <= offset && starts <= offset
    }

    fn ack_before(&self, lane: &Lane<T>, who: Who, offset: u64) -> Result<(), SettleError> {
        match self.ack(lane, who, Some(offset)) {
            // Others were faster, and acknowledged it with something behind it.
            Err(SettleError::NotInFlight { .. }) if lane.cursor().committed.get() > offset => Ok(()),
            done => done,
        }
    }

    /// Any number, where the pauses of this group have jitter. User code.
    fn roll(&self) -> u64 {
        let dice = || super::contain::contain(|| self.random.next_u64()).unwrap_or(0);
        if self.config.retry.has_jitter() { dice() } else { 0 }
    }

    /// What of a batch is in flight comes again, uncounted.
    pub(super) fn release(&self, lane: &Lane<T>, ticket: Ticket) {
        self.fly(lane, None, |flight, at, again| {
            if flight.is_current(ticket, at).is_ok() {
                let first = ticket.from.later(at.committed);
                flight.rewind(first, FencedBy::Rewound, || lane.gate.bump());
                *again = true;
            }
        });
    }

    /// The consumer goes: what is in flight comes again, uncounted, and the lane is let go.
    pub(super) fn release_all(&self, lane: &Lane<T>, me: MemberId) {
        self.fly(lane, None, |flight, at, again| {
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
        let extended = self.fly(lane, None, |flight, at, _| {
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
    fn refused(&self, lane: &Lane<T>, who: Who, offset: Option<u64>, refusal: Refusal) -> SettleError {
        let (group, partition) = (self.name.clone(), lane.partition);
        match (refusal, who) {
            (Refusal::Fenced(reason), Who::Batch(ticket)) => {
                SettleError::Fenced { group, partition, offsets: ticket.from.get()..ticket.to.get(), reason }
            }
            (Refusal::Fenced(reason), Who::All(_)) => {
                let at = offset.unwrap_or(0);
                SettleError::Fenced { group, partition, offsets: at..at.saturating_add(1), reason }
            }
            (Refusal::NotInFlight(in_flight), Who::Batch(ticket)) => {
                let offset = offset.unwrap_or(ticket.to.get() - 1);
                SettleError::NotInFlight { group, partition, offset, in_flight }
            }
            (Refusal::NotInFlight(in_flight), Who::All(_)) => {
                SettleError::NotInFlight { group, partition, offset: offset.unwrap_or(0), in_flight }
            }
        }
    }

    // ---- giving up -----------------------------------------------------------------------------------------------

    /// Gives up the records at the cursor whose attempts are used up, one after the other: the letter is written under no
    /// lock, and filed in one step with the commit.
    #[cold]
    fn bury_spent(&self, lane: &Lane<T>, in_hand: Option<&Batch<'_, T>>) {
        loop {
            let (taken, at) = {
                let mut flight = lock(&lane.flight);
                let at = lane.cursor();
                (if flight.epoch() == at.epoch { flight.take_spent(at) } else { None }, at)
            };
            let Some((cause, attempts)) = taken else { break };
            let letter = self.write_letter(lane, at.committed, attempts, cause.into_failure(), in_hand);
            let (out, news) = self.file_spent(lane, at, letter);
            let more = news.spent;
            self.spread(lane, News { spent: false, ..news }, None);
            self.tell_of(lane, &(at.committed..at.committed.plus(1)));
            self.lose(out);
            if !more {
                break;
            }
        }
    }

    /// `None`: it cannot be read any more; who reads on finds out why.
    fn write_letter(
        &self,
        lane: &Lane<T>,
        at: Seq,
        attempts: u32,
        failure: Failure,
        in_hand: Option<&Batch<'_, T>>,
    ) -> Option<Letter> {
        let origin = |published_at| Origin {
            topic: self.topic.clone(),
            group: self.name.clone(),
            partition: lane.partition,
            offset: at.get(),
            attempts,
            failed_at: self.clock.now(),
            published_at,
        };
        let index = |batch: &&Batch<'_, T>| at.get().checked_sub(batch.offset()).map(|index| index as usize);
        if let Some((batch, index)) = in_hand.and_then(|batch| Some((batch, index(&batch)?))) {
            if index < batch.len() {
                let origin = origin(batch.get(index).published_at());
                return Some(Letter::write(origin, batch.value(index), failure, &self.config.bury));
            }
        }
        let mut reader = lane.log.reader(at).covered_by(lane.gate.clone());
        let Read::Ready(run) = lane.log.read(&mut reader, 1) else { return None };
        let batch = Batch { lent: Lent::Run(run), home: &self.home, partition: lane.partition, attempt: 1, lost: 0 };
        Some(Letter::write(origin(batch.get(0).published_at()), batch.value(0), failure, &self.config.bury))
    }

    /// Files the letter with the commit, if nobody has moved the cursor meanwhile; says what went for want of room.
    fn file_spent(&self, lane: &Lane<T>, at: Cursor, letter: Option<Letter>) -> (Option<Letter>, News) {
        let (mut news, to) = (News { again: true, ..News::default() }, at.committed.plus(1));
        let _outlives_the_lock = letter.clone();
        let mut flight = lock(&lane.flight);
        flight.busy = false;
        let mut out = None;
        if let Some(letter) = letter {
            lane.counters.dead.add(1);
            match self.letters.file(letter, || lane.gate.commit(at.epoch, at.committed, to)) {
                Ok(lost) => {
                    out = lost;
                    news.unused = flight.buried(to);
                }
                Err(Fenced { .. }) => lane.counters.dead.take_back(1),
            }
        }
        lane.tidy(&mut flight, &mut news);
        (out, news)
    }
}
