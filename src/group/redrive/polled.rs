//! Letters that a consumer polls: one at a time, as a batch of its own, which is settled by its receipt.
//!
//! The letter stays at the head of the queue while it is out, as one that a handler has in hand does. Each time it goes out it has
//! a ticket of its own: so what was handed out before is refused. While it is out, the next one waits, and so does a handler
//! that takes over the lane; what comes from the log does not, for a consumer may have several batches in flight.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::contain::drop_contained;
use super::super::fence::{Cause, FencedBy, Refusal};
use super::super::flight::Ticket;
use super::super::handler::Verdict;
use super::super::lane::Lane;
use super::super::letters::Letter;
use super::super::outcome::Outcome;
use super::super::record::{Batch, Lent};
use super::super::settle::{Settled, settle};
use super::super::shared::Ask;
use super::super::word::MemberId;
use super::{Entry, Queue, Redrives};
use crate::seq::Seq;
use crate::sync::Arc;
use crate::time::Time;
use std::time::Duration;

/// Of so many letters that were out it is known what became of them.
const PAST: usize = 64;

/// In whose hands a letter is, since when and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    member: MemberId,
    since: Time,
    deadline: Option<Time>,
    /// What is made of it is being written down.
    settling: bool,
}

/// A letter, handed to a consumer.
#[derive(Debug)]
pub(in crate::group) struct Posted<T> {
    pub(in crate::group) letter: Letter,
    pub(in crate::group) value: Arc<T>,
    pub(in crate::group) failures: u32,
    pub(in crate::group) number: u64,
    pub(in crate::group) ticket: Ticket,
}

/// Whether a letter can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Now,
    At(Time),
    Never,
}

impl<T> Queue<T> {
    fn when(&self, now: Time) -> When {
        match self.entries.front() {
            None => When::Never,
            Some(head) => match (head.out, head.due) {
                (Some(out), _) => out.deadline.filter(|_| !out.settling).map_or(When::Never, When::At),
                (None, Some(due)) if now < due => When::At(due),
                (None, _) => When::Now,
            },
        }
    }

    /// The head is in nobody's hands any more, if it is this one.
    fn take_back(&mut self, number: u64, why: FencedBy) -> bool {
        self.last += 1;
        let fresh = self.last;
        let Some(head) = self.head(number) else { return false };
        (head.out, head.ticket) = (None, fresh);
        self.remember(number, why);
        true
    }

    fn remember(&mut self, number: u64, why: FencedBy) {
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back((number, why));
    }
}

impl<T> Redrives<T> {
    /// Whether the letter that is next is in a consumer's hands.
    pub(in crate::group) fn out_with(&self) -> Option<MemberId> {
        self.lock().entries.front().and_then(|head| head.out).map(|out| out.member)
    }

    /// Whether a consumer would be handed a letter at `now`; else when it may, an error.
    pub(in crate::group) fn for_consumer(&self, now: Time) -> Result<(), Option<Time>> {
        match self.lock().when(now) {
            When::Now => Ok(()),
            When::At(time) if time <= now => Ok(()),
            When::At(time) => Err(Some(time)),
            When::Never => Err(None),
        }
    }

    fn post(&self, me: MemberId, now: Time, lease: Option<Duration>) -> Result<Entry<T>, Option<Time>> {
        let mut queue = self.lock();
        match queue.when(now) {
            When::Now => {}
            When::At(time) => return Err(Some(time)),
            When::Never => return Err(None),
        }
        queue.last += 1;
        let (last, deadline) = (queue.last, lease.map(|lease| now.after(lease)));
        let head = queue.entries.front_mut().ok_or(None)?;
        (head.ticket, head.due) = (last, None);
        head.out = Some(Out { member: me, since: now, deadline, settling: false });
        Ok(head.clone())
    }

    /// The letter that went out by that number, which nobody else settles from now on; an error: what has become of it.
    fn claim_out(&self, number: u64, now: Time) -> Result<(Entry<T>, bool), FencedBy> {
        let mut queue = self.lock();
        let past = queue.past.iter().rev().find(|(known, _)| *known == number).map(|(_, why)| *why);
        let Some(head) = queue.head(number) else { return Err(past.unwrap_or(FencedBy::Rewound)) };
        let Some(out) = head.out.as_mut().filter(|out| !out.settling) else { return Err(FencedBy::AlreadyAcked) };
        out.settling = true;
        let over = out.deadline.is_some_and(|deadline| deadline <= now);
        Ok((head.clone(), over))
    }

    /// The number of the one that is out, and over at `now`; else when it will be, an error.
    fn overdue(&self, now: Time) -> Result<u64, Option<Time>> {
        let queue = self.lock();
        let head = queue.entries.front().ok_or(None)?;
        let deadline = head.out.filter(|out| !out.settling).and_then(|out| out.deadline).ok_or(None)?;
        if deadline <= now { Ok(head.ticket) } else { Err(Some(deadline)) }
    }

    /// The offset of the one that went out by that number, if it is.
    fn offset_of(&self, number: u64) -> Option<u64> {
        self.lock().head(number).map(|head| head.letter.offset())
    }

    fn numbers_of(&self, me: MemberId) -> Option<u64> {
        let queue = self.lock();
        queue.entries.front().filter(|head| head.out.is_some_and(|out| out.member == me)).map(|head| head.ticket)
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// A letter that waits in a lane of the consumer `me`, if there is one; else when there may be.
    pub(in crate::group) fn poll_letter(&self, lane: &Lane<T>, me: MemberId) -> Result<Posted<T>, Option<Time>> {
        let word = lane.word.load();
        if !word.redrives() || !word.is_of(me) || word.is_ended() || word.paused() != 0 {
            return Err(None);
        }
        let lease = self.config.sharing.lease().map(|lease| lease.time);
        let now = self.clock.now();
        self.end_letter(lane, now);
        let Entry { ticket: number, letter, value, failures, .. } = lane.redrives.post(me, now, lease)?;
        let from = Seq::new(letter.offset());
        let ticket = Ticket { holder: me, epoch: lane.gate.epoch(), from, to: from.plus(1) };
        Ok(Posted { letter, value, failures, number, ticket })
    }

    /// Ends the lease of a letter that is out, if it is over; else says when it is. User code.
    pub(in crate::group) fn end_letter(&self, lane: &Lane<T>, now: Time) -> Option<Time> {
        match lane.redrives.get().map_or(Err(None), |redrives| redrives.overdue(now)) {
            Err(deadline) => deadline,
            Ok(number) => {
                // Refused, if somebody settles it at this very moment.
                let _ended = self.settle_letter(lane, number, Ask::GiveBack(FencedBy::Expired));
                None
            }
        }
    }

    /// The consumer goes: what it has of letters goes back.
    pub(in crate::group) fn leave_letters(&self, lane: &Lane<T>, me: MemberId) {
        if let Some(number) = lane.redrives.get().and_then(|redrives| redrives.numbers_of(me)) {
            let _gone = self.settle_letter(lane, number, Ask::GiveBack(FencedBy::Moved));
        }
    }

    /// The lease of a letter goes on; says for how long from now on.
    pub(in crate::group) fn extend_letter(
        &self,
        lane: &Lane<T>,
        number: u64,
        by: Duration,
    ) -> Result<Duration, Refusal> {
        let now = self.clock.now();
        self.end_letter(lane, now);
        let longest = self.config.sharing.lease().and_then(|lease| lease.longest);
        let mut queue = lane.redrives.lock();
        let past = queue.past.iter().rev().find(|(known, _)| *known == number).map(|(_, why)| *why);
        let out = queue.head(number).and_then(|head| head.out.as_mut());
        if out.as_ref().is_some_and(|out| out.settling) {
            return Err(Refusal::Fenced(FencedBy::AlreadyAcked));
        }
        let Some(out) = out else { return Err(Refusal::Fenced(past.unwrap_or(FencedBy::Rewound))) };
        let Some(deadline) = out.deadline else { return Ok(Duration::MAX) };
        let last = longest.map_or(deadline, |longest| out.since.after(longest));
        let until = now.after(by).min(last).max(deadline);
        out.deadline = Some(until);
        Ok(until.since(now))
    }

    /// Does with a letter that is out as it is asked, or nothing. User code.
    pub(in crate::group) fn settle_letter(&self, lane: &Lane<T>, number: u64, ask: Ask) -> Result<(), Refusal> {
        if lane.word.load().is_ended() {
            return Err(Refusal::Fenced(FencedBy::Deleted));
        }
        // Of one that is not out any more it is said what became of it, whatever is asked.
        let offset = lane.redrives.offset_of(number);
        let elsewhere = |asked: &Option<u64>| offset.is_some() && asked.is_some() && *asked != offset;
        if matches!(&ask, Ask::Ack(asked) | Ask::Nack(asked, _) if elsewhere(asked)) {
            return Err(Refusal::NotInFlight(offset.map(|offset| offset..offset + 1)));
        }
        let is_ack = matches!(ask, Ask::Ack(_));
        let refused = |why| {
            lane.redrives.tally.refused.more(u64::from(is_ack && why != FencedBy::AlreadyAcked));
            Refusal::Fenced(why)
        };
        let (head, over) = lane.redrives.claim_out(number, self.clock.now()).map_err(refused)?;
        let expired = over || matches!(ask, Ask::GiveBack(FencedBy::Expired));
        let (failure, fate) = match ask {
            _ if expired => (Some(Cause::Expired), FencedBy::Expired),
            Ask::Ack(_) => (None, FencedBy::AlreadyAcked),
            Ask::Nack(_, cause) => (Some(cause), FencedBy::Rewound),
            Ask::GiveBack(why) => {
                lane.redrives.lock().take_back(number, why);
                self.ring_for(lane.partition as usize);
                drop_contained(head);
                return Ok(());
            }
        };
        let _here = self.enter_for(lane);
        let settled = failure.map(|cause| {
            let (home, partition, attempt) = (&self.home, lane.partition, head.failures.saturating_add(1));
            let batch = Batch { lent: Lent::Redriven(&*head.value, &head.letter), home, partition, attempt, lost: 0 };
            settle(self, Verdict { outcome: Outcome::Retry(cause.into_failure()), blames: true }, &batch, 0)
        });
        let stored = self.write_down(lane, &head, settled, (fate, expired));
        self.progress.notify();
        self.ring_for(lane.partition as usize);
        drop_contained(head);
        match stored {
            true if over => Err(refused(FencedBy::Expired)),
            true => Ok(()),
            false => Err(refused(FencedBy::Rewound)),
        }
    }

    /// What became of a letter that was out; `None`: it is done. False: it was called back meanwhile.
    fn write_down(
        &self,
        lane: &Lane<T>,
        head: &Entry<T>,
        settled: Option<Settled>,
        (fate, expired): (FencedBy, bool),
    ) -> bool {
        let tally = &lane.redrives.tally;
        let number = head.ticket;
        let mut buried = match settled {
            Some(Settled::Again { after, failures }) => {
                let due = (!after.is_zero() && !expired).then(|| self.clock.now().after(after));
                let mut queue = lane.redrives.lock();
                let stored = queue.take_back(number, fate);
                if let Some(head) = queue.entries.front_mut().filter(|_| stored) {
                    (head.failures, head.due) = (failures, due);
                }
                tally.retried.more(u64::from(stored));
                tally.leases_expired.more(u64::from(stored && expired));
                return stored;
            }
            Some(Settled::Buried(letter)) => Some(letter),
            _ => None,
        };
        let fate = if buried.is_some() && !expired { FencedBy::Buried } else { fate };
        let popped = lane.redrives.pop(&lane.word, number, || match buried.take() {
            None => {
                tally.acked.more(1);
                None
            }
            Some(letter) => {
                tally.dead.more(1);
                tally.leases_expired.more(u64::from(expired));
                self.letters.add(letter)
            }
        });
        let Some((old, lost)) = popped else { return false };
        lane.redrives.lock().remember(number, fate);
        self.lose(lost);
        drop_contained(old);
        true
    }
}
