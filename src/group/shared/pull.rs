//! Consumers of a shared lane. What a poll gives is a claim in a hand of its own, so several may be in flight, and each of its
//! records is settled by itself.
//!
//! ```text
//!   poll:     hand, reaching ── word, left ── claim ── hand: claim, since, until
//!   settle:   hand, being settled ── letters, if any are spent ── control: epoch as it was? words exchanged ── hand: rest, or gone
//!   lease:    over, as a handler's: each record has failed once more
//!   move:     with control: the hands of epochs before it are gone
//! ```
//! A settlement holds the lane's control lock while it exchanges words: so it is all of it before a move of the cursor, or
//! refused.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::context::Id;
use super::super::fence::FencedBy;
use super::super::flight::Ticket;
use super::super::lane::Lane;
use super::super::roster::Member;
use super::super::word::MemberId;
use super::Shared;
use super::hand::{Hand, InHand};
use super::polled::Ask;
use super::settle::Work;
use super::slot::{Eyed, Reaches, again, fresh, has_fresh, may_claim};
use crate::log::Read;
use crate::ring::Reader;
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;

/// A consumer's place at a shared lane.
#[derive(Debug)]
pub(in crate::group) struct Stall {
    /// Says that there is somebody; it is always empty.
    standing: Arc<Hand>,
    /// Whether it is the turn of fresh records.
    fresh_next: bool,
    /// The runs of handlers as they were seen by who had nothing to do: a poll, or who asks whether one would find something.
    eyed: Mutex<Eyed>,
}

/// What was claimed for a poll.
#[derive(Debug)]
pub(in crate::group) struct Picked {
    pub(in crate::group) ticket: Ticket,
    pub(in crate::group) hand: Arc<Hand>,
    /// How often the first record has failed.
    pub(in crate::group) failures: u32,
}

/// A hand that is in the list of the lane's, until it is dropped or has something.
struct Reach<'a> {
    shared: &'a Shared,
    hand: Option<Arc<Hand>>,
}

impl Drop for Reach<'_> {
    fn drop(&mut self) {
        if let Some(hand) = self.hand.take() {
            self.shared.leave(&hand);
        }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// A consumer comes to a lane. `None`: it is not shared.
    pub(in crate::group) fn stand_at(&self, lane: &Lane<T>, member: &Member, executor: Id) -> Option<Stall> {
        let shared = lane.shared.as_deref()?;
        let standing = Hand::new(member.id, member.name.clone(), member.left.clone(), executor);
        shared.join(&standing);
        Some(Stall { standing, fresh_next: false, eyed: Mutex::default() })
    }

    /// It goes: what it has in flight there goes back.
    pub(in crate::group) fn leave_stall(&self, lane: &Lane<T>, stall: &Stall) {
        let Some(shared) = lane.shared.as_deref() else { return };
        for hand in shared.polled_by(stall.standing.member) {
            let _gone = self.settle_claim(lane, &hand, None, Ask::GiveBack(FencedBy::Moved), None);
        }
        shared.leave(&stall.standing);
        lane.log.not_full().wake_all();
        self.handed_over(MemberId::NOBODY, lane.partition as usize);
    }

    /// Claims at most `most` records of a lane for a consumer; else says when to look again.
    pub(in crate::group) fn pick(
        &self,
        lane: &Lane<T>,
        reader: &mut Reader<T>,
        stall: &mut Stall,
        most: usize,
    ) -> Result<Picked, Option<Time>> {
        let Some(shared) = lane.shared.as_deref() else { return Err(None) };
        let work = Work { group: self, lane, shared };
        if let Some(picked) = self.reach_for(&work, reader, stall, most) {
            return Ok(picked);
        }
        let word = lane.word.load();
        if word.is_ended() || word.paused() != 0 {
            reader.release();
            return Err(None);
        }
        let mut next = None;
        if self.lease().is_some() {
            let (ended, due) = work.end_leases(self.clock.now(), Some(stall.standing.executor));
            next = due;
            if let Some(ending) = ended {
                work.follow(ending);
                if let Some(picked) = self.reach_for(&work, reader, stall, most) {
                    return Ok(picked);
                }
            }
        }
        let (old, look) = stall.look(self, shared);
        if work.cut_all(&old) {
            if let Some(picked) = self.reach_for(&work, reader, stall, most) {
                return Ok(picked);
            }
        }
        Err(shared.failed.due().into_iter().chain(next).chain(look).min())
    }

    /// What it reaches for is seen before it looks whether it may.
    fn reach_for(&self, work: &Work<'_, T>, reader: &mut Reader<T>, stall: &mut Stall, most: usize) -> Option<Picked> {
        let Work { lane, shared, .. } = *work;
        if !may_claim(lane) {
            return None;
        }
        let hand = stall.standing.of_a_batch();
        hand.reach();
        shared.join_polled(&hand);
        let mut reach = Reach { shared, hand: Some(hand) };
        let word = lane.word.load();
        if word.is_ended() || word.paused() != 0 || stall.standing.has_left() {
            return None;
        }
        let most = if self.config.retry.allows_another(1) { most } else { 1 };
        let mut reaches = Reaches { lane, reader, hand: reach.hand.as_deref()?, seen: word };
        let (given, now) = if stall.fresh_next {
            fresh(self, &mut reaches, most).or_else(|| again(self, &mut reaches))
        } else {
            again(self, &mut reaches).or_else(|| fresh(self, &mut reaches, most))
        }?;
        // What was given back is read only now; if it is not to be had, the cursor was moved, and the claim is void.
        let Read::Ready(run) = lane.log.read(reader, given.claim.len()) else { return None };
        // By key a claim may go over the border of a page, and a batch does not: what is behind it is given back.
        let (len, whole) = (run.len(), given);
        let given = given.head(len);
        if len < whole.claim.len() {
            work.release(whole.behind(len));
        }
        let hand = reach.hand.take()?;
        let until = self.lease().map(|lease| now.after(lease.time));
        let (deadline, limit) = (until, until); // longer only if it is extended
        hand.take(InHand { given, singly: false, since: now, deadline, limit, over: false, settling: false });
        shared.join_polled(&hand); // it is there, unless the cursor was moved meanwhile
        stall.fresh_next = given.again;
        let (holder, epoch) = (hand.member, given.claim.epoch());
        let (from, to) = (given.claim.first(), given.claim.end());
        Some(Picked { ticket: Ticket { holder, epoch, from, to }, hand, failures: given.failures })
    }

    /// Whether a poll of a shared lane would find something at `now`; else when it may.
    pub(in crate::group) fn has_more_shared(&self, lane: &Lane<T>, now: Time) -> Result<(), Option<Time>> {
        let (word, Some(shared)) = (lane.word.load(), lane.shared.as_deref()) else { return Err(None) };
        if word.is_ended() || word.paused() != 0 {
            return Err(None);
        }
        if has_fresh(lane, shared) {
            return Ok(());
        }
        let deadline = |hand: &Arc<Hand>| hand.in_force().filter(|held| !held.settling)?.deadline;
        let leases = shared.hands().iter().filter_map(deadline).min();
        match shared.failed.due().into_iter().chain(leases).min() {
            Some(due) if due <= now => Ok(()),
            due => Err(due),
        }
    }
}

impl Stall {
    /// Whether a poll of `lane` would find something that handlers have taken and not begun; else when it may, if not before
    /// what is `due`.
    pub(in crate::group) fn eye<T: Send + Sync + 'static>(
        &self,
        group: &Group<T>,
        lane: &Lane<T>,
        due: Option<Time>,
    ) -> Result<(), Option<Time>> {
        let (word, Some(shared)) = (lane.word.load(), lane.shared.as_deref()) else { return Err(due) };
        if word.is_ended() || word.paused() != 0 {
            return Err(due);
        }
        let (old, look) = self.look(group, shared);
        if old.is_empty() { Err(due.into_iter().chain(look).min()) } else { Ok(()) }
    }

    /// The runs of others that have been seen for long enough, and when to look again.
    fn look<T: Send + Sync + 'static>(&self, group: &Group<T>, shared: &Shared) -> (Vec<u32>, Option<Time>) {
        let runs = shared.runs_of_others(&self.standing);
        if runs.is_empty() {
            return (Vec::new(), None);
        }
        let now = group.clock.now();
        lock(&self.eyed).look(&runs, now)
    }
}

impl Shared {
    /// The hands of the batches that a consumer has in flight.
    pub(super) fn polled_by(&self, member: MemberId) -> Vec<Arc<Hand>> {
        lock(&self.hands).iter().filter(|hand| hand.polled && hand.member == member).cloned().collect()
    }

    /// A hand of a batch comes, if it is not there; those in which nothing is any more go.
    fn join_polled(&self, hand: &Arc<Hand>) {
        let mut hands = lock(&self.hands);
        hands.retain(|other| !other.polled || !other.is_empty());
        if !hands.iter().any(|other| Arc::ptr_eq(other, hand)) {
            hands.push(hand.clone());
        }
    }

    /// A hand of a batch goes if nothing is in it any more.
    pub(super) fn leave_emptied(&self, hand: &Arc<Hand>) {
        if hand.is_empty() {
            self.leave(hand);
        }
    }

    /// The cursor was moved, to `epoch`, with the control lock: what consumers have in flight from before is void, and in
    /// nobody's hands.
    pub(super) fn void_polled(&self, epoch: u32) {
        lock(&self.hands).iter().filter(|hand| hand.polled).for_each(|hand| hand.drop_void(epoch));
    }
}
