//! Settling what a consumer polled of a shared lane: all that is asked for, or nothing. See `pull`.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::contain::drop_contained;
use super::super::fence::{Cause, FencedBy, Refusal};
use super::super::flight::{Ticket, pause};
use super::super::lane::Lane;
use super::super::letters::{Letter, Origin};
use super::super::outcome::Failure;
use super::super::record::Batch;
use super::super::word::MemberId;
use super::Shared;
use super::due::End;
use super::hand::{Hand, Settles};
use super::settle::{Given, Work};
use crate::log::Read;
use crate::seq::Seq;
use crate::sync::{Arc, lock};
use crate::time::Time;
use std::time::Duration;

/// What is to become of a claim.
#[derive(Debug)]
pub(in crate::group) enum Ask {
    /// It is done, or what comes before this and this is.
    Ack(Option<u64>),
    /// It failed; or this did, what is before it is done, and the rest goes back.
    Nack(Option<u64>, Cause),
    /// It goes back, for that reason.
    GiveBack(FencedBy),
}

/// What becomes of the records of a claim, in their order; what is not named stays in hand.
struct Plan {
    done: usize,
    failed: usize,
    back: usize,
    fate: FencedBy,
}

impl Ask {
    /// How many records are to be acknowledged, of those from `from` on that were not yet.
    fn asked(&self, from: Seq, Ticket { to, .. }: Ticket) -> u64 {
        match *self {
            Ask::Ack(None) => to.lag_behind(from),
            Ask::Ack(Some(through)) => through.saturating_add(1).min(to.get()).saturating_sub(from.get()),
            Ask::Nack(..) | Ask::GiveBack(_) => 0,
        }
    }

    /// `None`: what it names is not there.
    fn plan(&self, given: Given) -> Option<Plan> {
        let (first, len) = (given.claim.first().get(), given.claim.len());
        let index = |offset: u64| offset.checked_sub(first).map(|at| at as usize).filter(|at| *at < len);
        let (done, failed, back, fate) = match *self {
            Ask::Ack(None) => (len, 0, 0, FencedBy::AlreadyAcked),
            Ask::Ack(Some(through)) => (index(through)? + 1, 0, 0, FencedBy::AlreadyAcked),
            Ask::Nack(None, _) => (0, len, 0, FencedBy::Rewound),
            Ask::Nack(Some(from), _) => (index(from)?, 1, len - index(from)? - 1, FencedBy::Rewound),
            Ask::GiveBack(why) => (0, 0, len, why),
        };
        Some(Plan { done, failed, back, fate })
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Everything up to `offset` is done that the consumer `me` has in flight of a lane.
    pub(in crate::group) fn ack_claims(&self, lane: &Lane<T>, me: MemberId, offset: u64) -> Result<(), Refusal> {
        let Some(shared) = lane.shared.as_deref() else { return Err(Refusal::NotInFlight(None)) };
        let mine = |hand: Arc<Hand>| Some((hand.in_force()?.claim(), hand));
        let mut all: Vec<_> = shared.polled_by(me).into_iter().filter_map(mine).collect();
        all.sort_by_key(|(claim, _)| claim.first().get());
        if !all.iter().any(|(claim, _)| claim.has(Seq::new(offset))) {
            let hull = all.first().zip(all.last()).map(|((first, _), (last, _))| first.first().get()..last.end().get());
            return Err(Refusal::NotInFlight(hull));
        }
        for (claim, hand) in all.iter().filter(|(claim, _)| claim.first().get() <= offset) {
            let through = offset.min(claim.end().get() - 1);
            self.settle_claim(lane, hand, None, Ask::Ack(Some(through)), None)?;
        }
        Ok(())
    }

    /// All that the consumer `me` has in flight of a lane failed; whether there was anything.
    pub(in crate::group) fn nack_claims(&self, lane: &Lane<T>, me: MemberId) -> bool {
        let all = lane.shared.as_deref().map_or_else(Vec::new, |shared| shared.polled_by(me));
        let nack = |hand: &Arc<Hand>| self.settle_claim(lane, hand, None, Ask::Nack(None, Cause::Nacked), None);
        all.iter().filter(|hand| nack(hand).is_ok()).count() > 0
    }

    /// The lease of a claim goes on for `by` from now, as far as the group allows; says how long that is.
    pub(in crate::group) fn extend_claim(
        &self,
        lane: &Lane<T>,
        (hand, ticket): (&Arc<Hand>, Ticket),
        by: Duration,
    ) -> Result<Duration, Refusal> {
        let now = self.clock.now();
        let longest = self.lease().and_then(|lease| lease.longest);
        match hand.extend(now, by, longest) {
            _ if lane.gate.epoch() != ticket.epoch => Err(Refusal::Fenced(self.why_over(lane, hand, Some(ticket)))),
            Some(Ok(left)) => Ok(left),
            Some(Err(())) => Err(Refusal::Fenced(self.run_out(lane, hand, now))),
            None => Err(Refusal::Fenced(self.why_over(lane, hand, Some(ticket)))),
        }
    }

    /// Its lease is over, and its consumer finds out himself; unless somebody settles it who has looked at the time before, or
    /// it was ended meanwhile. Why it cannot be settled any more.
    fn run_out(&self, lane: &Lane<T>, hand: &Arc<Hand>, now: Time) -> FencedBy {
        let Some(shared) = lane.shared.as_deref() else { return FencedBy::Expired };
        let work = Work { group: self, lane, shared };
        let ending = hand.end_own().map(|split| work.end(&split, End::Lease, now, Some(hand.executor)));
        shared.leave_emptied(hand);
        let Some(ending) = ending else { return hand.fate().unwrap_or(FencedBy::AlreadyAcked) };
        work.follow(ending);
        FencedBy::Expired
    }

    /// Why what was in a hand cannot be settled any more.
    fn why_over(&self, lane: &Lane<T>, hand: &Hand, ticket: Option<Ticket>) -> FencedBy {
        let moved = ticket.filter(|ticket| ticket.epoch != lane.gate.epoch());
        match (hand.fate(), moved) {
            (Some(fate), _) => fate,
            (None, _) if lane.word.load().is_ended() => FencedBy::Deleted,
            (None, Some(ticket)) => lock(&lane.flight).why(ticket.epoch),
            (None, None) => FencedBy::AlreadyAcked,
        }
    }

    /// Does with a claim as it is asked, or nothing. `in_hand`: the batch, if the caller has it still. User code.
    pub(in crate::group) fn settle_claim(
        &self,
        lane: &Lane<T>,
        hand: &Arc<Hand>,
        ticket: Option<Ticket>,
        ask: Ask,
        in_hand: Option<&Batch<'_, T>>,
    ) -> Result<(), Refusal> {
        let Some(shared) = lane.shared.as_deref() else { return Err(Refusal::NotInFlight(None)) };
        let work = Work { group: self, lane, shared };
        let now = self.clock.now();
        let asked = ticket.map_or(0, |ticket| ask.asked(hand.rest(ticket), ticket));
        let refused = |why| {
            shared.tally.refused.more(if why == FencedBy::AlreadyAcked { 0 } else { asked });
            Err(Refusal::Fenced(why))
        };
        let given = match hand.settles(self.lease().map(|_| now)) {
            Settles::Counts(given) => given,
            Settles::Due => return refused(self.run_out(lane, hand, now)),
            Settles::Late => {
                shared.leave_emptied(hand);
                return refused(self.why_over(lane, hand, ticket));
            }
        };
        let Some(plan) = ask.plan(given) else {
            let rest = given.claim.first().get()..given.claim.end().get();
            self.keep(&work, hand, given);
            return Err(Refusal::NotInFlight(Some(rest)));
        };
        let failing = given.behind(plan.done).head(plan.failed);
        let failures = failing.failures.saturating_add(1);
        let spent = plan.failed > 0 && !self.config.retry.allows_another(failures);
        let (roll, mut letter, mut unused) = (self.roll(), None, None);
        match ask {
            Ask::Nack(_, cause) if spent => {
                let _here = self.enter_as(hand.executor);
                letter = self.letter_of(lane, failing, failures, (cause.into_failure(), now), in_hand);
            }
            Ask::Nack(_, cause) => unused = Some(cause),
            _ => {}
        }
        let wrote = work.write_down(given, &plan, (letter, spent), |failures| {
            let pause = pause(&self.config.retry, failures, roll);
            if pause.is_zero() { Time::ZERO } else { now.after(pause) }
        });
        let fate = if spent { FencedBy::Buried } else { plan.fate };
        let why = if wrote.stands { fate } else { self.why_over(lane, hand, Some(epoch_of(given))) };
        let rest = given.behind(plan.done + plan.failed + plan.back);
        if wrote.stands && !rest.claim.is_empty() {
            self.keep(&work, hand, rest);
        } else {
            hand.fated(why);
            hand.put_down();
            shared.leave(hand);
        }
        self.tell_settled(lane, hand, wrote.rings, wrote.lost);
        drop_contained(unused);
        if wrote.stands { Ok(()) } else { refused(why) }
    }

    /// After a settlement: first who waits, then what is the user's, which is destructors and who is told of letters.
    fn tell_settled(&self, lane: &Lane<T>, hand: &Hand, rings: bool, lost: Option<Letter>) {
        let passed = self.pass_over(lane);
        if rings {
            self.ring_for(lane.partition as usize);
        }
        self.progress.notify();
        if hand.has_left() {
            self.handed_over(MemberId::NOBODY, lane.partition as usize);
        }
        let _here = self.enter_as(hand.executor);
        if let Some((from, to)) = passed {
            lane.log.gone_on(from, to);
        }
        self.lose(lost);
    }

    /// What is left of a claim stays in hand, unless its consumer has gone meanwhile.
    fn keep(&self, work: &Work<'_, T>, hand: &Arc<Hand>, rest: Given) {
        hand.resumes(rest);
        if hand.has_left() {
            let _gone = self.settle_claim(work.lane, hand, None, Ask::GiveBack(FencedBy::Moved), None);
        }
    }

    /// The letter of a record that is given up. `None`: it is not to be had, for the cursor was moved. User code.
    fn letter_of(
        &self,
        lane: &Lane<T>,
        one: Given,
        attempts: u32,
        (failure, failed_at): (Failure, Time),
        in_hand: Option<&Batch<'_, T>>,
    ) -> Option<Letter> {
        let at = one.claim.first();
        let (topic, group, partition) = (self.topic.clone(), self.name.clone(), lane.partition);
        let origin =
            |published_at| Origin { topic, group, partition, offset: at.get(), attempts, failed_at, published_at };
        if let Some(batch) = in_hand {
            let index = at.get().checked_sub(batch.offset()).map(|index| index as usize);
            if let Some(index) = index.filter(|index| *index < batch.len()) {
                let origin = origin(batch.get(index).published_at());
                return Some(Letter::write(origin, batch.value(index), failure, &self.config.bury));
            }
        }
        let mut reader = lane.log.reader(at).covered_by(lane.gate.clone());
        let Read::Ready(run) = lane.log.read(&mut reader, 1) else { return None };
        let origin = origin(run.time_of(0).get().map(Time::from_nanos));
        Some(Letter::write(origin, run.get(0), failure, &self.config.bury))
    }
}

/// As a ticket, for who wants to know only in which epoch it was.
fn epoch_of(given: Given) -> Ticket {
    let (from, to) = (given.claim.first(), given.claim.end());
    Ticket { holder: MemberId::NOBODY, epoch: given.claim.epoch(), from, to }
}

/// What a settlement did.
struct Wrote {
    /// All of it; nothing, if the cursor was moved before.
    stands: bool,
    /// Others have something to do now.
    rings: bool,
    /// A letter that went for want of room.
    lost: Option<Letter>,
}

impl<T: Send + Sync + 'static> Work<'_, T> {
    /// Exchanges the words, all of them or none. What has failed is buried if it is `spent`, if its letter could be written.
    fn write_down(
        &self,
        given: Given,
        plan: &Plan,
        (letter, spent): (Option<Letter>, bool),
        due: impl Fn(u32) -> Time,
    ) -> Wrote {
        let mut wrote = Wrote { stands: false, rings: plan.failed + plan.back > 0, lost: None };
        let _outlives_the_lock = letter.clone();
        let _control = lock(&self.lane.control);
        let same = given.claim.epoch() == self.lane.gate.epoch() && !self.lane.word.load().is_ended();
        if !same || letter.is_some() != spent {
            return wrote;
        }
        let made = self.make_done(given.head(plan.done), |done| self.shared.tally.acked.more(done));
        wrote.rings |= made.rings;
        let failing = given.behind(plan.done).head(plan.failed);
        let put = match letter {
            Some(letter) => {
                let (filed, settlement) = self.file(failing, letter);
                wrote.lost = filed.unwrap_or(None);
                wrote.rings |= settlement.rings;
                settlement.done as usize
            }
            None => self.put_failed(failing, due),
        };
        let back = self.put_back(given.behind(plan.done + plan.failed).head(plan.back));
        // Nobody else ends it while it is being settled, nor moves the cursor while we have the lock.
        wrote.stands = (made.done as usize, put, back) == (plan.done, plan.failed, plan.back);
        debug_assert!(wrote.stands, "{given:?} was another's: {made:?}, {put} failed, {back} back");
        wrote
    }

    /// Each of the records has failed once more, and is tried again from when `due` says. How many were the claim's.
    fn put_failed(&self, failing: Given, due: impl Fn(u32) -> Time) -> usize {
        let Shared { claims, failed, tally, .. } = self.shared;
        let mut all = 0;
        for (nth, at) in failing.claim.records().enumerate() {
            let failures = if nth == 0 { failing.failures } else { 0 }.saturating_add(1);
            let put = failed.put(claims, failing.claim, at, failures, due(failures));
            tally.retried.more(u64::from(put));
            all += usize::from(put);
        }
        all
    }
}
