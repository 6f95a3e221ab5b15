//! What consumers do to a lane: take it, hand out its next run (`handing`), settle (`settling`), give up (`burial`), let it
//! go. See `flight` for the states; here they meet the cursor, the lane word and the letters.
//!
//! ```text
//!   one operation:   lock ── follow the cursor, if it was moved ── lease over? all of it comes again
//!                      │
//!                      ├── the operation itself: hand out, ack (compare-and-swap on the cursor), nack, release
//!                      │
//!                      └── nothing in flight any more? park what is known, let the lane go ── unlock
//!                    then, under no lock: say that there is room, ring; and only then what is the user's: drop, write the
//!                    letter of who is spent, file it with the commit
//! ```
//! A lane that a consumer holds has its state parked all the same: the consumer reads with a reader of its own.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::drop_contained;
use super::context::{self, Entered, Here, Id};
use super::fence::{Cause, FencedBy};
use super::flight::{Cursor, Flight};
use super::hung::Overdue;
use super::lane::{Held, Lane};
use super::record::Batch;
use super::retry::Retry;
use super::word::MemberId;
use crate::log;
use crate::seq::Seq;
use crate::sync::lock;
use crate::time::Time;
use std::ops::Range;

/// What is to be done once the lock is open.
#[derive(Default)]
pub(super) struct News {
    /// The lane was let go: who holds it no more, and whose it is.
    pub(super) passed_on: Option<(MemberId, MemberId)>,
    /// Records come again that whoever waits does not know of.
    pub(super) again: bool,
    /// Something was in flight when the operation began.
    pub(super) flew: bool,
    /// The cursor has gone on: there may be room.
    pub(super) room: bool,
    /// The record at the cursor is to be given up.
    pub(super) spent: bool,
    pub(super) unused: Vec<Cause>,
    /// A lease was over.
    pub(super) overdue: Option<Overdue>,
    /// Whose, if that was found out by somebody else.
    pub(super) missed: Option<MemberId>,
}

impl<T: Send + Sync + 'static> Lane<T> {
    pub(super) fn cursor(&self) -> Cursor {
        let (committed, epoch) = self.gate.snapshot();
        Cursor { committed, epoch }
    }

    /// What consumers have in flight from `committed` on, what was settled too late, and how many leases expired.
    pub(super) fn in_flight(&self, committed: Seq) -> (u64, u64, u64) {
        let Some(flight) = self.flight.get() else { return (0, 0, 0) };
        let flight = lock(flight);
        let current = flight.in_flight(committed).filter(|_| flight.epoch() == self.gate.epoch());
        (current.map_or(0, |range| range.end - range.start), flight.refused, flight.lapsed)
    }

    /// `me`, a member with a handler, has taken the lane: what has failed in a consumer's hands goes on from there.
    pub(super) fn lend(&self, held: &mut Held<T>, me: MemberId) {
        held.carries = self.flight.get().is_some_and(|flight| lock(flight).carries(held.next));
        if held.carries {
            let last = lock(&self.flight).last_failed().unwrap_or(0);
            held.single_until = held.single_until.later(Seq::new(last).plus(1));
        }
        if let Some(watch) = &self.watch {
            let mut hand = watch.lock();
            // Unless it was seized meanwhile: then that is another's to say.
            if self.word.load().is_held_by(me) {
                hand.kept = held.kept();
            }
        }
    }

    /// Why the record in hand is to be given up, if it is, and was before it was handed to anybody.
    #[cold]
    pub(super) fn cause(&self, at: Seq) -> Cause {
        lock(&self.flight).take_cause(at).unwrap_or(Cause::Expired)
    }

    /// How often the record that is now next has failed in a consumer's hands, and before when it is not tried again.
    #[cold]
    pub(super) fn carried(&self, held: &mut Held<T>) -> (u32, Option<Time>) {
        if !held.carries {
            return (0, None);
        }
        let flight = lock(&self.flight);
        held.carries = flight.carries(held.next);
        (flight.failures_of(held.next), flight.due_of(held.next))
    }

    /// Takes the lane for a consumer. `None`: it is not to be had; else what is missing and has not been told.
    pub(super) fn open(&self, flight: &mut Flight, me: MemberId, retry: &Retry) -> Option<[Option<log::Gap>; 2]> {
        self.word.take(me).ok()?;
        let mut parked = lock(&self.parked);
        let held = parked.as_mut()?;
        if held.epoch != self.gate.epoch() {
            held.resync(&self.gate);
        }
        let lifted = if self.loses { held.lifted_over(&self.gate) } else { None };
        let at = Cursor { committed: held.next, epoch: held.epoch };
        flight.open(me, at, held.failures, held.due, held.lost, retry);
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
        let me = flight.holder.unwrap_or(MemberId::NOBODY);
        flight.close();
        // It cannot have been seized: consumers do not hang, they come back to an expired lease.
        let word = self.word.let_go(me).unwrap_or_else(|word| word);
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
        news.flew = flight.in_flight(at.committed).is_some();
        news.unused = flight.follow(at, why);
        if now.is_some_and(|now| flight.is_over(at, now)) {
            let (member, lease) = (flight.holder.unwrap_or(MemberId::NOBODY), flight.length());
            let which = flight.rewind_all(at, FencedBy::Expired, || self.gate.bump());
            let records = which.end - which.start;
            news.overdue = Some(Overdue { member, offset: which.start, records, lease });
            flight.lapsed += records;
            self.failed(group, flight, which, Cause::Expired, &mut news);
            news.again = true;
        }
        news
    }

    fn failed<U>(&self, group: &Group<U>, flight: &mut Flight, which: Range<u64>, cause: Cause, news: &mut News) {
        let first = Seq::new(which.start);
        let (again, unused) = flight.fail(which, cause, &group.config.retry, |_| None);
        self.counters.retried.add(again);
        self.notice.waits(first.get(), flight.epoch(), flight.failures_of(first), None);
        news.unused.extend(unused);
    }

    /// What is true when all is done: a lane with nothing in flight is not held.
    pub(super) fn tidy(&self, flight: &mut Flight, news: &mut News) {
        let at = self.cursor();
        news.unused.extend(flight.follow(at, FencedBy::Trimmed));
        let Some(holder) = flight.holder else { return };
        if self.tells {
            self.took(flight.next(), at.epoch);
        }
        news.spent = flight.has_spent(at);
        if flight.is_idle(at) && !news.spent {
            news.passed_on = Some((holder, self.shut(flight, at)));
            news.again |= self.loses && news.flew; // there may be a gap that was not to be passed before
        }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// One operation on what is in flight: see the module. `by` whom, if by a consumer. `in_hand`: the batch, if the caller
    /// has it still.
    pub(super) fn fly<R>(
        &self,
        lane: &Lane<T>,
        by: Option<MemberId>,
        in_hand: Option<&Batch<'_, T>>,
        act: impl FnOnce(&mut Flight, Cursor, &mut bool) -> R,
    ) -> R {
        let (result, news) = self.fly_untold(lane, by, act);
        self.spread(lane, news, in_hand);
        result
    }

    /// The part under the lock. The caller spreads the news.
    pub(super) fn fly_untold<R>(
        &self,
        lane: &Lane<T>,
        by: Option<MemberId>,
        act: impl FnOnce(&mut Flight, Cursor, &mut bool) -> R,
    ) -> (R, News) {
        let now = self.config.sharing.lease.map(|_| self.clock.now());
        let mut flight = lock(&lane.flight);
        let mut news = lane.catch_up(self, &mut flight, now);
        let at = lane.cursor();
        let result = act(&mut flight, at, &mut news.again);
        lane.tidy(&mut flight, &mut news);
        news.room = lane.cursor() != at;
        news.missed = news.overdue.filter(|overdue| by != Some(overdue.member)).map(|overdue| overdue.member);
        (result, news)
    }

    /// First who waits is told, then comes what is the user's: that may take its time, or wait for those.
    pub(super) fn spread(&self, lane: &Lane<T>, news: News, in_hand: Option<&Batch<'_, T>>) {
        self.pass_on(lane, &news);
        self.follow_up(lane, news, in_hand);
    }

    /// What is the user's.
    pub(super) fn follow_up(&self, lane: &Lane<T>, news: News, in_hand: Option<&Batch<'_, T>>) {
        if !news.unused.is_empty() {
            let _here = self.enter_for(lane);
            drop_contained(news.unused);
        }
        if news.spent {
            self.bury_spent(lane, in_hand);
        }
        if let Some(overdue) = news.overdue {
            let _here = self.enter_for(lane);
            self.tell_overdue(lane.partition, overdue);
        }
    }

    /// Tells who waits: for room, for the cursor, for records. Of the user's only assignors run, where somebody takes over.
    pub(super) fn pass_on(&self, lane: &Lane<T>, news: &News) {
        let partition = lane.partition as usize;
        if news.room {
            lane.log.not_full().notify();
            self.progress.notify();
        }
        match news.passed_on {
            Some((holder, owner)) if holder != owner => self.handed_over(owner, partition),
            _ if news.again => self.ring_for(partition),
            _ => {}
        }
        if let Some(member) = news.missed {
            self.misses(member, lane.partition);
        }
    }

    /// What is the user's runs for whose lane it is, so that it is known that waiting for the group here never ends.
    #[cold]
    pub(super) fn enter_for(&self, lane: &Lane<T>) -> Entered {
        let owner = lane.word.load().owner();
        let seat = lock(&self.roster).find(owner).and_then(|member| member.seat(lane.partition as usize)).cloned();
        self.enter_as(seat.map_or_else(Id::fresh, |seat| seat.executor()))
    }

    pub(super) fn enter_as(&self, executor: Id) -> Entered {
        context::enter_too(Here { executor, broker: self.broker })
    }

    /// What was in flight and was let go of, or has become void, is not the lane's reason to be held any more.
    pub(super) fn settle_down(&self, lane: &Lane<T>) {
        self.fly(lane, None, None, |_, _, _| ());
    }

    /// Ends the leases that are over and gives up what is spent, which is user code; says when to look again. `None`: never.
    pub fn watch_leases(&self, now: Time) -> Option<Time> {
        let lease = self.config.sharing.lease().filter(|_| !self.is_over())?;
        // Somebody may be at work in a lane with nothing in flight, whose last lease is long over.
        let deadline = |lane| {
            self.fly(lane, None, None, |flight, at, _| {
                flight.deadline().filter(|_| flight.in_flight(at.committed).is_some())
            })
        };
        let letters = self.lanes.iter().filter(|lane| lane.word.load().redrives());
        let letters = letters.filter_map(|lane| self.end_letter(lane, now)).min();
        let first = self.lanes.iter().filter_map(|lane| deadline(lane)).chain(letters).min();
        // What is handed out from now on is not over before that.
        Some(first.unwrap_or(Time::MAX).min(now.after(lease.time)))
    }
}
