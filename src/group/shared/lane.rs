//! What a shared lane is asked, and how it is moved and ended.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::claims::{Closed, Reset, Stand};
use super::super::context::{self, Id};
use super::super::lane::Lane;
use super::super::sight::{Delivery, Standing};
use super::super::word::MemberId;
use super::Shared;
use super::hand::{Hand, InHand};
use crate::ring::Moved;
use crate::seq::Seq;
use crate::sync::{Arc, lock};
use crate::time::Time;
use std::time::Duration;

impl Shared {
    /// How many tasks serve it.
    pub(super) fn members(&self) -> usize {
        lock(&self.hands).iter().filter(|hand| !hand.polled && hand.member != MemberId::NOBODY).count()
    }

    /// After the cursor was moved, with the control lock.
    pub(in crate::group) fn moved(&self, closed: Closed, Moved { from, to }: Moved) -> Reset {
        let reset = self.failed.reset(|| self.claims.reset(closed, from, to));
        self.void_polled(self.claims.epoch());
        reset
    }

    /// When the lane is over, and its gate in a new epoch.
    pub(in crate::group) fn end(&self, closed: Closed, at: Seq) {
        self.failed.end(&self.claims, closed, at);
        self.void_polled(self.claims.epoch());
    }

    /// Whether nobody has anything in hand.
    pub(in crate::group) fn is_quiet(&self) -> bool {
        self.hands().iter().all(|hand| hand.is_empty())
    }

    /// Whether a member has something in hand, of the past or not.
    pub(in crate::group) fn is_in_hand_of(&self, member: MemberId) -> bool {
        self.hands().iter().any(|hand| hand.member == member && !hand.is_empty())
    }

    /// Whether an executor has a record in hand.
    pub(in crate::group) fn is_served_by(&self, executor: u64) -> bool {
        self.hands().iter().any(|hand| hand.executor.get() == executor && hand.held().is_some())
    }

    /// Who has the record at `at` in hand, or else any, and whether what it has is still its own: who has lost that comes last.
    pub(in crate::group) fn holder(&self, at: Seq) -> Option<(Standing, bool)> {
        let held = |hand: Arc<Hand>| Some((hand.held().filter(|held| !hand.polled || !held.over)?, hand));
        let hands = self.hands().into_iter().filter(|hand| hand.member != MemberId::NOBODY);
        let rank = |(held, _): &(InHand, Arc<Hand>)| (held.over, !held.claim().has(at));
        let (held, hand) = hands.filter_map(held).min_by_key(rank)?;
        let member = hand.name.clone();
        if !hand.polled {
            return Some((Standing::AtWork { member }, !held.over));
        }
        let mine = self.polled_by(hand.member).into_iter().filter_map(|hand| hand.in_force());
        Some((Standing::InFlight { member, records: mine.map(|held| held.claim().len() as u64).sum() }, true))
    }

    /// Whether waiting on `executor` for the cursor to pass `at`, or for room, might never end.
    ///
    /// For a record: it has that in hand itself, or nobody else serves. For room whoever has anything in hand waits for itself:
    /// of two that wait for room, each with a record in hand, each would take the other for one that goes on. And who buries
    /// here may be the only one who ever ends what others have in hand: for him nobody serves.
    fn waits_for(&self, executor: Id, at: Option<Seq>) -> bool {
        let hands = self.hands();
        let (own, others): (Vec<_>, Vec<_>) = hands.iter().partition(|hand| hand.executor == executor);
        let has = |hand: &Hand| match at {
            None => !hand.is_empty(),
            Some(at) => hand.in_force().is_some_and(|held| held.claim().has(at)),
        };
        let buries = |hand: &Hand| hand.member == MemberId::NOBODY;
        own.iter().any(|hand| buries(hand) || has(hand))
            || (!own.is_empty() && !others.iter().any(|hand| hand.serves()))
    }

    /// How many records are in members' hands.
    pub(in crate::group) fn in_hand(&self) -> u64 {
        self.hands().iter().filter_map(|hand| hand.in_force()).map(|held| held.claim().len() as u64).sum()
    }

    /// The runs in other hands than `own` of which others may be given a part; `None`: about to be claimed, and perhaps one.
    pub(super) fn runs_of_others(&self, own: &Arc<Hand>) -> Vec<Option<u32>> {
        let hands = lock(&self.hands);
        hands.iter().filter(|hand| !Arc::ptr_eq(hand, own)).filter_map(|hand| hand.run()).collect()
    }

    /// What has failed and waits: how often, and when it is tried again.
    pub(in crate::group) fn retrying(&self, now: Time) -> Option<(u32, Duration)> {
        let (failures, due) = self.failed.first().filter(|(failures, _)| *failures > 0)?;
        Some((failures, due.since(now)))
    }

    /// Where a record behind the cursor stands; `None`: it is done.
    pub(in crate::group) fn delivery(&self, at: Seq, now: Time) -> Option<Delivery> {
        Some(match (self.claims.stand(at), self.failed.of(at)) {
            (Stand::Done, _) => return None,
            (Stand::Claimed(_), _) => Delivery::InHand,
            (Stand::Pooled, Some((attempts, due))) if attempts > 0 => {
                Delivery::RetryScheduled { attempts, wait: due.map_or(Duration::ZERO, |due| due.since(now)) }
            }
            (Stand::Pooled | Stand::Free, _) => Delivery::Pending,
        })
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Whether the record at `at` is done although the cursor may not have passed it.
    pub(in crate::group) fn is_done(&self, at: Seq) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.claims.stand(at) == Stand::Done)
    }

    /// Whether no member has anything of it in hand.
    pub(in crate::group) fn is_quiet(&self) -> bool {
        !self.word.load().is_held() && self.shared.as_ref().is_none_or(|shared| shared.is_quiet())
    }

    /// Whether an executor is at work for it.
    pub(in crate::group) fn is_served_by(&self, executor: u64) -> bool {
        self.counters.serving.get() == executor
            || self.shared.as_ref().is_some_and(|shared| shared.is_served_by(executor))
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Whether its members share their lanes.
    pub(in crate::group) fn shares(&self) -> bool {
        self.lanes.iter().any(|lane| lane.shared.is_some())
    }

    /// In a group whose lanes are shared: whether waiting on this thread for the record at `offset`, or for room, would never end.
    /// `None` in others.
    pub(in crate::group) fn shared_waits_here(&self, partition: usize, offset: Option<u64>) -> Option<bool> {
        let lane = &self.lanes[partition];
        let shared = lane.shared.as_ref()?;
        Some(context::any(|here| shared.waits_for(here.executor, offset.map(Seq::new))))
    }
}
