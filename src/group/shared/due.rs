//! What ends a claim from outside: its lease is over, its record is a straggler, or others have nothing to do and it is a run.
//!
//! Each end has two parts. The first gives on what is for others and tells who waits, and runs nothing of the user's; so the
//! timer does it for every group of the broker before it does anything else. The second ([`Ending`]) runs destructors and burying
//! functions.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::context::Id;
use super::super::fence::{EXPIRED, FencedBy};
use super::super::hung::Overdue;
use super::super::lane::Lane;
use super::super::lease::{Lease, Straggler};
use super::super::letters::{Letter, Origin};
use super::super::outcome::Failure;
use super::super::word::MemberId;
use super::Shared;
use super::hand::{Hand, InHand, Split};
use super::settle::{Given, Work};
use crate::log::Read;
use crate::seq::Seq;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::time::Time;
use std::time::Duration;

/// The kind of the failure that is a straggler which was given up.
const STRAGGLER: &str = "straggler";

/// The shortest time between two looks at one claim.
const SOON: Duration = Duration::from_millis(1);

/// Why a claim ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its lease is over.
    Lease,
    /// Its member is put out.
    Evicted,
    /// Its record is buried, however often it may fail.
    Straggles,
}

impl End {
    fn failure(self) -> Failure {
        match self {
            End::Lease => Failure::of_kind(EXPIRED, "its lease expired before it was acknowledged"),
            End::Evicted | End::Straggles => Failure::of_kind(STRAGGLER, "it was not done although later ones were"),
        }
    }
}

/// A record that is to be buried, in a hand of its own until that is done.
#[derive(Debug)]
pub(super) struct Grave {
    hand: Arc<Hand>,
    given: Given,
    end: End,
    at: Time,
}

/// What is the user's of the end of a claim.
#[derive(Debug, Default)]
#[must_use = "records that are to be buried are in nobody's hands"]
pub(in crate::group) struct Ending {
    graves: Vec<Grave>,
    /// What a member had for too long.
    overdue: Vec<Overdue>,
    /// From where to where the cursor was moved.
    passed: Option<(Seq, Seq)>,
}

/// A hand that is about to hold something, and is no member's.
fn nobodys(executor: Id) -> Arc<Hand> {
    let hand = Hand::new(MemberId::NOBODY, "".into(), Arc::new(AtomicBool::new(true)), executor);
    hand.reach();
    hand
}

/// Shows that somebody is at work on the lane, while what ended is given on.
struct Shown<'a>(&'a Shared, Arc<Hand>);

impl<'a> Shown<'a> {
    fn new(shared: &'a Shared) -> Self {
        let hand = nobodys(Id::fresh());
        shared.join(&hand);
        Shown(shared, hand)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.leave(&self.1);
    }
}

impl Lease {
    /// How long a claim may be kept in all.
    fn limit(&self) -> Duration {
        self.longest.unwrap_or(self.time)
    }
}

impl<T> Group<T> {
    fn straggler_age(&self) -> Option<Duration> {
        match self.config.sharing.straggler {
            Straggler::Wait => None,
            Straggler::Bury(age) | Straggler::Evict(age) => Some(age),
        }
    }

    /// What was claimed, in the hands of a handler from `since` on, of whom it is known or not which record it is at.
    pub(super) fn in_hand(&self, given: Given, singly: bool, since: Time) -> InHand {
        let lease = self.config.sharing.lease();
        let [deadline, limit] =
            [lease.map(|lease| since.after(lease.time)), lease.map(|lease| since.after(lease.limit()))];
        InHand { given, singly, since, deadline, limit, over: false, settling: false }
    }

    /// The time, for a claim that is about to be made, if anybody looks at it. The clock is the user's.
    pub(super) fn time_of_claim(&self) -> Time {
        if self.config.sharing.is_timed() { self.clock.now() } else { Time::ZERO }
    }

    /// How many records may be claimed at once. A lease that is over is a failure of all those of which nobody knows whether they
    /// were done: so a record that may not fail is claimed alone. And so is every one where there is a rule for stragglers, which is about
    /// one record, and how long that has been in hand.
    pub(super) fn longest_run(&self) -> usize {
        let alone = self.config.sharing.lease().is_some() && !self.config.retry.allows_another(1);
        if alone || self.straggler_age().is_some() { 1 } else { usize::MAX }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Ends the claims whose lease is over, but for what is the user's, which comes back. For the timer.
    pub(in crate::group) fn end_claims(&self, now: Time) -> Vec<(Arc<Lane<T>>, Ending)> {
        let end = |lane: &Arc<Lane<T>>| {
            let shared = lane.shared.as_deref()?;
            let (ending, _) = Work { group: self, lane, shared }.end_leases(now, None);
            Some((lane.clone(), ending?))
        };
        self.lanes.iter().filter_map(end).collect()
    }

    /// What is the user's of that.
    pub(in crate::group) fn follow_claims(&self, lane: &Lane<T>, ending: Ending) {
        if let Some(shared) = lane.shared.as_deref() {
            Work { group: self, lane, shared }.follow(ending);
        }
    }

    /// Ends the claims whose lease is over, and does what is to be done about stragglers; says when to look again. `None`: never.
    pub fn watch_claims(&self, now: Time) -> Option<Time> {
        if !self.config.sharing.is_timed() || !self.shares() || self.is_over() {
            return None;
        }
        let next = self.lanes.iter().filter_map(|lane| self.watch_claims_of(lane, now)).min();
        // What is claimed from now on is not over before that.
        let soonest = self.config.sharing.lease().map(|lease| lease.time).into_iter().chain(self.straggler_age()).min();
        let soonest = now.after(soonest.unwrap_or(Duration::MAX));
        Some(next.unwrap_or(Time::MAX).min(soonest))
    }

    fn watch_claims_of(&self, lane: &Lane<T>, now: Time) -> Option<Time> {
        let shared = lane.shared.as_deref()?;
        let work = Work { group: self, lane, shared };
        let (ending, next) = work.end_leases(now, None);
        if let Some(ending) = ending {
            work.follow(ending);
        }
        let Some(age) = self.straggler_age() else { return next };
        let last = shared.claims.last_done();
        let late = shared.hands().iter().filter_map(|hand| work.straggler(hand, (age, last), now)).min();
        next.into_iter().chain(late).min()
    }
}

impl<T: Send + Sync + 'static> Work<'_, T> {
    /// Renews or ends the leases of what is in members' hands; when to look again. Whoever buries what is spent does so as
    /// `executor`, if that is known.
    pub(super) fn end_leases(&self, now: Time, executor: Option<Id>) -> (Option<Ending>, Option<Time>) {
        let (mut all, mut next): (Option<Ending>, Option<Time>) = (None, None);
        for hand in self.shared.hands() {
            let (ended, _shown) = self.lease(&hand, now);
            match ended {
                Err(Some(due)) => next = Some(next.map_or(due, |next| next.min(due))),
                Err(None) => {}
                Ok(split) => {
                    let ending = self.end(&split, End::Lease, now, executor);
                    let all = all.get_or_insert_default();
                    all.graves.extend(ending.graves);
                    all.overdue.extend(ending.overdue);
                    all.passed = match (all.passed, ending.passed) {
                        (Some((from, _)), Some((_, to))) => Some((from, to)),
                        (one, other) => one.or(other),
                    };
                }
            }
        }
        (all, next)
    }

    /// Renews or ends the lease of what is in `hand` if it is time; else when it is.
    fn lease(&self, hand: &Hand, now: Time) -> (Result<Split, Option<Time>>, Option<Shown<'_>>) {
        let timed = |held: &InHand| Some((held.claim().ticket(), held.deadline?, held.limit?));
        let held = hand.in_force().as_ref().and_then(timed).zip(self.group.lease());
        let Some(((ticket, deadline, limit), lease)) = held else { return (Err(None), None) };
        if now < deadline {
            return (Err(Some(deadline)), None);
        }
        let renewed = limit.min(now.after(lease.time));
        if now < renewed {
            hand.renew(ticket, renewed);
            return (Err(Some(renewed)), None);
        }
        // If it is being settled, its member looks at the time; what is left of it then is looked at soon.
        let is_over = |held: &InHand| {
            let over = held.limit.is_some_and(|limit| limit <= now);
            if over {
                hand.fated(FencedBy::Expired);
            }
            over
        };
        let shown = Shown::new(self.shared);
        (hand.end(ticket, is_over).ok_or(Some(now.after(SOON))), Some(shown))
    }

    /// The claim has ended: what its handler has acknowledged is done, what it is at has failed once more, and the rest is given back.
    pub(super) fn end(&self, split: &Split, end: End, now: Time, executor: Option<Id>) -> Ending {
        let passed = self.done_for(split.done);
        let Shared { claims, failed, tally, .. } = self.shared;
        let count = if end == End::Lease { &tally.leases_expired } else { &tally.stragglers };
        let (mut graves, mut ended) = (Vec::new(), 0);
        for (nth, at) in split.begun.claim.records().enumerate() {
            let failures = if nth == 0 { split.begun.failures } else { 0 }.saturating_add(1);
            if end != End::Straggles && self.group.config.retry.allows_another(failures) {
                let put = failed.put(claims, split.begun.claim, at, failures, Time::ZERO);
                tally.retried.more(u64::from(put));
                ended += u64::from(put);
            } else if let Some(grave) = self.dig(split.begun, at, (end, failures, now), executor) {
                ended += 1;
                graves.push(grave);
            }
        }
        count.more(ended);
        self.put_back(split.behind);
        self.tell();
        let (member, lease) = (split.member, self.group.lease().filter(|_| end == End::Lease && ended > 0));
        let offset = split.begun.claim.first().get();
        let overdue = |lease: Lease| Overdue { member, offset, records: ended, lease: lease.limit() };
        Ending { graves, overdue: lease.map(overdue).into_iter().collect(), passed }
    }

    /// A run that others may have a part of.
    pub(super) fn cut(&self, hand: &Hand, ticket: u32) -> Option<Ending> {
        let split = hand.cut(ticket)?;
        let passed = self.done_for(split.done);
        self.put_back(split.behind);
        self.tell();
        Some(Ending { passed, ..Ending::default() })
    }

    /// Takes from these runs what is not begun, and does what of that is the user's. Whether it was any of them.
    pub(super) fn cut_all(&self, runs: &[u32]) -> bool {
        let hands = if runs.is_empty() { Vec::new() } else { self.shared.hands() };
        let cut = |ticket: &u32| hands.iter().find_map(|hand| self.cut(hand, *ticket));
        let endings: Vec<_> = runs.iter().filter_map(cut).collect();
        let found = !endings.is_empty();
        endings.into_iter().for_each(|ending| self.follow(ending));
        found
    }

    /// Tells who waits for records, for the cursor, and for what can be done by others only.
    fn tell(&self) {
        self.group.progress.notify();
        self.lane.log.not_full().wake_all();
        self.group.ring_for(self.lane.partition as usize);
    }

    /// Takes a record over in order to bury it: into a hand that is there before.
    fn dig(&self, from: Given, at: Seq, (end, failures, now): (End, u32, Time), executor: Option<Id>) -> Option<Grave> {
        let hand = nobodys(executor.unwrap_or_else(Id::fresh));
        self.shared.join(&hand);
        let Some(claim) = self.shared.failed.take_over(&self.shared.claims, from.claim, at) else {
            self.shared.leave(&hand);
            return None;
        };
        let given = Given { claim, failures, again: true };
        hand.take(InHand::being_settled(given, now));
        Some(Grave { hand, given, end, at: now })
    }

    /// Buries a record that nobody was handed, in a hand of its own, of which no lease and no rule for stragglers speaks; while
    /// that of who claimed it reaches. User code, as `executor`.
    pub(super) fn bury_behind(&self, given: Given, failure: Failure, executor: Id) {
        let (hand, now) = (nobodys(executor), self.group.clock.now());
        self.shared.join(&hand);
        hand.take(InHand::being_settled(given, now));
        {
            let _here = self.group.enter_as(executor);
            self.give_up(given, failure, now);
        }
        self.shared.leave(&hand);
    }

    /// What is the user's of an end.
    pub(super) fn follow(&self, Ending { graves, overdue, passed }: Ending) {
        if let Some((from, to)) = passed {
            self.lane.log.gone_on(from, to);
        }
        overdue.into_iter().for_each(|overdue| self.group.tell_overdue(self.lane.partition, overdue));
        for grave in graves {
            // Inside as a handler is that has the record in hand: it never waits for what is behind that.
            let _here = self.group.enter_as(grave.hand.executor);
            self.give_up(grave.given, grave.end.failure(), grave.at);
            self.shared.leave(&grave.hand);
            self.tell();
        }
        // Who waits for quiet may have looked while it was at work.
        self.group.progress.notify();
        self.group.retire_when_empty();
    }

    /// Gives up the one record of a claim that is in somebody's hands: reads it, writes its letter, and files that. User code.
    pub(super) fn give_up(&self, given: Given, failure: Failure, at: Time) {
        let claim = given.claim;
        let mut reader = self.lane.log.reader(claim.first()).covered_by(self.lane.gate.clone());
        let letter = match self.lane.log.read(&mut reader, 1) {
            Read::Ready(run) => {
                let origin = Origin {
                    topic: self.group.topic.clone(),
                    group: self.group.name.clone(),
                    partition: self.lane.partition,
                    offset: claim.first().get(),
                    attempts: given.failures,
                    failed_at: at,
                    published_at: run.time_of(0).get().map(Time::from_nanos),
                };
                Letter::write(origin, run.get(0), failure, &self.group.config.bury)
            }
            // The cursor was moved over it meanwhile, and the claim is void.
            Read::Pending | Read::Gap(_) => return,
        };
        reader.release();
        self.bury(given, letter);
    }

    /// Acts on what is in `hand` if it is a straggler that is old enough; when it may be.
    fn straggler(&self, hand: &Arc<Hand>, (age, last): (Duration, Option<Seq>), now: Time) -> Option<Time> {
        let held = hand.in_force().filter(|held| !held.settling)?;
        let old = held.since.after(age);
        if now < old {
            return Some(old);
        }
        // One only when something behind it is done: it will be looked at again.
        if last.is_none_or(|last| !held.claim().first().precedes(last)) {
            return Some(now.after((age / 8).max(SOON)));
        }
        let shown = Shown::new(self.shared);
        let evicts = matches!(self.group.config.sharing.straggler, Straggler::Evict(_));
        let ends = |_: &InHand| {
            hand.fated(if evicts { FencedBy::Moved } else { FencedBy::Buried });
            true
        };
        let split = hand.end(held.claim().ticket(), ends)?;
        let ending = self.end(&split, if evicts { End::Evicted } else { End::Straggles }, now, None);
        drop(shown);
        if evicts {
            self.group.leave(hand.member);
            // A letter that it polled would keep all behind it waiting, for as long as it hangs.
            self.group.lanes.iter().for_each(|lane| self.group.leave_letters(lane, hand.member));
        }
        self.follow(ending);
        None
    }
}
