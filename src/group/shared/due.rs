//! What ends a claim from outside, because time has passed: its lease is over, or its record is a straggler.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::claims::Claim;
use super::super::fence::EXPIRED;
use super::super::lane::Lane;
use super::super::lease::Straggler;
use super::super::letters::{Letter, Origin};
use super::super::outcome::Failure;
use super::Shared;
use super::hand::{Hand, InHand};
use super::settle::{Given, Work};
use crate::log::Read;
use crate::sync::Arc;
use crate::time::Time;
use std::time::Duration;

/// The kind of the failure that is a straggler which was given up.
const STRAGGLER: &str = "straggler";

impl<T> Group<T> {
    fn straggler_age(&self) -> Option<Duration> {
        match self.config.sharing.straggler {
            Straggler::Wait => None,
            Straggler::Bury(age) | Straggler::Evict(age) => Some(age),
        }
    }

    /// When a claim that is made now begins, and when its lease is over.
    pub(super) fn times_of_claim(&self) -> (Time, Option<Time>) {
        if !self.config.sharing.is_timed() {
            return (Time::ZERO, None);
        }
        let now = self.clock.now();
        (now, self.config.sharing.lease().map(|lease| now.after(lease.time)))
    }

    /// How many records may be claimed at once. A lease that is over is a failure of all of them: so a record that may not fail
    /// is claimed alone. And so is every one where there is a rule for stragglers, which is about one record, and it has to be
    /// that one.
    pub(super) fn longest_run(&self) -> usize {
        let alone = self.config.sharing.lease().is_some() && !self.config.retry.allows_another(1);
        if alone || self.straggler_age().is_some() { 1 } else { usize::MAX }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
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
        let hands = shared.hands();
        let next = hands.iter().filter_map(|hand| work.lease(hand, now)).min();
        let Some(age) = self.straggler_age() else { return next };
        let late = hands.iter().filter_map(|hand| work.straggler(hand, age, now)).min();
        next.into_iter().chain(late).min()
    }
}

impl<T: Send + Sync + 'static> Work<'_, T> {
    /// Renews or ends the lease of what is in `hand` if it is time; when it is.
    fn lease(&self, hand: &Hand, now: Time) -> Option<Time> {
        let held = hand.in_force()?;
        let (deadline, ticket) = (held.deadline?, held.claim.ticket());
        if now < deadline {
            return Some(deadline);
        }
        let lease = self.group.config.sharing.lease()?;
        let renewed = lease.longest.map(|longest| held.since.after(longest).min(now.after(lease.time)));
        if let Some(renewed) = renewed.filter(|renewed| now < *renewed) {
            hand.renew(ticket, renewed);
            return Some(renewed);
        }
        self.expire(&hand.end(ticket)?);
        None
    }

    /// Every record of the claim that is still the claim's has failed once more.
    fn expire(&self, held: &InHand) {
        let Shared { claims, failed, tally, .. } = self.shared;
        for (nth, at) in held.claim.records().enumerate() {
            let failures = if nth == 0 { held.failures } else { 0 }.saturating_add(1);
            if self.group.config.retry.allows_another(failures) {
                let put = failed.put(claims, held.claim, at, failures, Time::ZERO);
                tally.retried.more(u64::from(put));
                tally.leases_expired.more(u64::from(put));
            } else if let Some(claim) = failed.take_over(claims, held.claim, at) {
                tally.leases_expired.more(1);
                let failure = Failure::of_kind(EXPIRED, "its lease expired before it was acknowledged");
                self.give_up(claim, failures, failure);
            }
        }
        self.group.progress.notify();
        self.group.ring_for(self.lane.partition as usize);
    }

    /// Acts on what is in `hand` if it is a straggler that is old enough; when it may be.
    fn straggler(&self, hand: &Arc<Hand>, age: Duration, now: Time) -> Option<Time> {
        let held = hand.in_force()?;
        let old = held.since.after(age);
        if now < old {
            return Some(old);
        }
        // One as long as nothing behind it is done: it will be looked at again.
        if self.shared.claims.last_done().is_none_or(|last| !held.claim.first().precedes(last)) {
            return Some(now.after(age));
        }
        let held = hand.end(held.claim.ticket())?;
        match self.group.config.sharing.straggler {
            Straggler::Wait => {}
            Straggler::Evict(_) => {
                self.expire(&held);
                self.group.leave(hand.member);
            }
            Straggler::Bury(_) => self.bury_straggler(&held),
        }
        None
    }

    /// The first record of the claim is given up, and the others are given back.
    fn bury_straggler(&self, held: &InHand) {
        let all = Given { claim: held.claim, failures: held.failures, again: false };
        let Shared { claims, failed, .. } = self.shared;
        if let Some(claim) = failed.take_over(claims, held.claim, held.claim.first()) {
            let failure = Failure::of_kind(STRAGGLER, "it was not done although later ones were");
            self.give_up(claim, held.failures.saturating_add(1), failure);
        }
        self.release(all.behind(1));
    }

    /// Buries the one record of a claim of ours. Reads it, and calls the burying function: user code.
    pub(super) fn give_up(&self, claim: Claim, attempts: u32, failure: Failure) {
        let mut reader = self.lane.log.reader(claim.first()).covered_by(self.lane.gate.clone());
        let letter = match self.lane.log.read(&mut reader, 1) {
            Read::Ready(run) => {
                let origin = Origin {
                    topic: self.group.topic.clone(),
                    group: self.group.name.clone(),
                    partition: self.lane.partition,
                    offset: claim.first().get(),
                    attempts,
                    failed_at: self.group.clock.now(),
                    published_at: run.time_of(0).get().map(Time::from_nanos),
                };
                Letter::write(origin, run.get(0), failure, &self.group.config.bury)
            }
            // The cursor was moved over it meanwhile, and the claim is void.
            Read::Pending | Read::Gap(_) => return,
        };
        reader.release();
        self.bury(Given { claim, failures: attempts, again: true }, letter);
    }
}
