//! Handing out: what a consumer may read of a lane, and that it has been handed that.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::drop_contained;
use super::flight::{Cursor, Ticket};
use super::home::Home;
use super::lane::Lane;
use super::receipt::{Bond, Loan};
use super::word::MemberId;
use crate::log;
use crate::seq::Seq;
use crate::sync::{Arc, Weak, lock};
use crate::time::Time;
use std::ops::Range;

/// What a consumer may read next.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) me: MemberId,
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
    /// Something was given up, and what comes behind it may be had.
    Again,
}

/// A batch as it was handed out.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) ticket: Ticket,
    /// How often its records have failed before, those that have.
    pub(super) failed: Vec<(Range<u64>, u32)>,
    /// How many are missing before the first.
    pub(super) lost: u64,
}

impl<T: Send + Sync + 'static> Group<T> {
    /// What the consumer `me` may read of a lane, at most so many records. If there is something, the lane stays in its hand
    /// until [`hand_out`](Self::hand_out).
    pub(super) fn look(&self, lane: &Lane<T>, me: MemberId, most: usize) -> Look {
        let word = lane.word.load();
        if !word.is_of(me) || word.is_ended() || word.paused() != 0 {
            return Look::Nothing;
        }
        let (mut told, now) = ([None, None], self.clock.now());
        let look = self.fly(lane, Some(me), None, |flight, at, _| {
            if flight.busy || flight.holder.is_some_and(|holder| holder != me) {
                return Look::Nothing;
            }
            if flight.holder.is_none() {
                if !at.committed.precedes(lane.log.end()) && !lane.loses {
                    return Look::Nothing;
                }
                match lane.open(flight, me, &self.config.retry) {
                    Some(gaps) => told = gaps,
                    None => return Look::Nothing,
                }
            }
            if let Some(due) = flight.due().filter(|due| now < *due) {
                return Look::Until(due);
            }
            if flight.next_is_spent() {
                // It is given up when what is before it is done: which may be right now.
                return if flight.next() == at.committed { Look::Again } else { Look::Nothing };
            }
            let most = flight.limit(most, &self.config.retry, now);
            flight.busy = true;
            let (from, epoch) = (flight.next(), flight.epoch());
            Look::Next(Next { me, from, epoch, first: from == lane.cursor().committed, most })
        });
        for gap in told.iter().flatten() {
            let _here = self.enter_for(lane);
            self.tell(lane.partition, gap);
        }
        look
    }

    /// Hands out `len` records from where `next` said, behind `gap` if that has been passed, unless that has changed.
    pub(super) fn hand_out(&self, lane: &Lane<T>, next: &Next, gap: Option<&log::Gap>, len: usize) -> Option<Handed> {
        let now = self.clock.now();
        let leased = self.config.sharing.lease.map(|lease| (now, lease.time));
        let mut unused = Vec::new();
        let handed = self.fly(lane, Some(next.me), None, |flight, at, _| {
            flight.busy = false;
            if flight.epoch() != next.epoch || flight.next() != next.from || lane.word.load().is_ended() {
                return None;
            }
            let mut len = len;
            if let Some(gap) = gap {
                unused = flight.passed(gap.to, gap.len());
                // What lies behind it may have failed before, too.
                let waits = flight.next_is_spent() || flight.due().is_some_and(|due| now < due);
                len = if waits { 0 } else { len.min(flight.limit(len, &self.config.retry, now)) };
            }
            if len == 0 || at.epoch != next.epoch {
                return None;
            }
            let (from, to) = (flight.next(), flight.next().plus(len as u64));
            let (failed, lost) = (flight.failed_in(from, to), flight.lost_before(from));
            Some(Handed { ticket: flight.hand_out(to, at, leased), failed, lost })
        });
        drop_contained(unused);
        handed
    }

    /// What records under a lease have in common.
    pub(super) fn lent(self: &Arc<Self>, partition: u32, bond: Bond) -> Option<Home> {
        self.config.sharing.lease?;
        // Weak: a batch that is forgotten keeps nobody alive.
        let home: Weak<Self> = Arc::downgrade(self);
        Some(self.home.lent(Loan { home, partition, bond }))
    }

    /// Whether a look at the lane would find something; else when it would.
    pub(super) fn has_more(&self, lane: &Lane<T>, me: MemberId) -> Result<(), Option<Time>> {
        let (word, now) = (lane.word.load(), self.clock.now());
        let letters = word.redrives() && word.is_of(me) && !word.is_ended() && word.paused() == 0;
        let letter = if letters { lane.redrives.for_consumer(now) } else { Err(None) };
        letter.or_else(|due| {
            let more = if lane.shared.is_some() {
                self.has_more_shared(lane, now)
            } else {
                self.has_more_of_log(lane, me, now)
            };
            more.map_err(|until| until.into_iter().chain(due).min())
        })
    }

    fn has_more_of_log(&self, lane: &Lane<T>, me: MemberId, now: Time) -> Result<(), Option<Time>> {
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
        match due.filter(|due| now < *due) {
            None => Ok(()),
            Some(due) => Err(Some(deadline.map_or(due, |deadline| deadline.min(due)))),
        }
    }
}
