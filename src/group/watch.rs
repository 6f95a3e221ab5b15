//! What a push handler has in hand under a lease: since when, until when, and in which epoch. One for each lane of a group with
//! a lease; no thread, no clock.
//!
//! # A run under a lease
//!
//! ```text
//!                  begin             renew, extend              end, in time ──▶ nothing in hand; then the commit
//!   nothing in hand ────▶ in hand, until the deadline ───────┤
//!                                                              lapse ──▶ over: the epoch has ended, the failure is counted
//!                                                                          │ end, by the handler that returns late
//!                                                                          └ seized, for another member
//! ```
//! | event  | by                               | when, and what else                                                          |
//! |--------|----------------------------------|------------------------------------------------------------------------------|
//! | begin  | the holder                       | it still holds the lane; else nothing is handed out                          |
//! | extend | the handler                      | neither over nor fenced; never beyond the limit, never back                   |
//! | renew  | the timer, at the deadline       | the limit is later                                                           |
//! | lapse  | the timer, or the holder at the end | `now >= deadline`, and the limit has come; new epoch by `Gate::lapse`      |
//! | end    | the holder, when its handler returned | in time: what it acknowledges counts, as far as the cursor is concerned |
//! | seize  | the dealer                       | nothing is in hand, or what is in hand is over                               |
//!
//! All of it under one short mutex, under which nothing of the user's runs. So of an end in time and a lapse exactly one comes
//! about: what lapsed is in an epoch that has ended, and its commit is refused by the cursor; and a lane is seized only
//! from who cannot acknowledge anything before it has been here again. Locks nest as roster, this, parking place.
#![forbid(unsafe_code)]

use super::context::Id;
use super::fence::FencedBy;
use super::word::{LaneWord, MemberId};
use crate::ring::Gate;
use crate::seq::Seq;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// What is known of the record at the cursor, for who has to begin anew there: kept beside the state that travels with the
/// lane, which may be in the hands of somebody who hangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) at: Seq,
    pub(super) epoch: u32,
    pub(super) failures: u32,
    pub(super) due: Option<Time>,
    pub(super) single_until: Seq,
    pub(super) lost: u64,
    pub(super) lifted: u64,
}

/// A run that a handler has in hand, or has not returned from in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) member: MemberId,
    pub(super) executor: Id,
    pub(super) at: Seq,
    pub(super) len: u64,
    pub(super) epoch: u32,
    begun: Time,
    deadline: Time,
    over: bool,
}

#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) running: Option<Running>,
    pub(super) kept: Kept,
    ended: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// What was done may be committed.
    InTime,
    /// Its time has come, and nobody has seen to that yet.
    Due,
    /// It was over before.
    Late,
}

/// How long a member may keep what it was handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) time: Duration,
    /// As long as that, if it is renewed.
    pub(super) longest: Option<Duration>,
}

/// See the module.
pub(super) struct Watch {
    lease: Lease,
    gate: Arc<Gate>,
    now: Box<dyn Fn() -> Time + Send + Sync>,
    hand: Mutex<Hand>,
}

impl Watch {
    /// `now` tells the time.
    pub(super) fn new(
        lease: Lease,
        gate: Arc<Gate>,
        now: impl Fn() -> Time + Send + Sync + 'static,
        kept: Kept,
    ) -> Arc<Self> {
        let (now, hand) = (Box::new(now), Mutex::new(Hand { kept, ..Hand::default() }));
        Arc::new(Watch { lease, gate, now, hand })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Hand> {
        lock(&self.hand)
    }

    /// So long may a handler have a run in all.
    fn limit(&self) -> Duration {
        self.lease.longest.unwrap_or(self.lease.time)
    }

    /// A run is handed out. False: the lane was seized, and nothing may be.
    pub(super) fn begin(
        &self,
        word: &LaneWord,
        (member, executor): (MemberId, Id),
        (at, len): (Seq, u64),
        kept: Kept,
    ) -> bool {
        let now = (self.now)();
        let mut hand = self.lock();
        if !word.load().is_held_by(member) {
            return false;
        }
        debug_assert!(hand.running.is_none_or(|running| running.over), "one run at a time");
        let deadline = now.after(self.lease.time);
        let epoch = kept.epoch;
        hand.running = Some(Running { member, executor, at, len, epoch, begun: now, deadline, over: false });
        hand.kept = kept;
        true
    }

    /// The handler of `member` has returned.
    pub(super) fn end(&self, member: MemberId) -> End {
        let now = (self.now)();
        let mut hand = self.lock();
        match hand.running {
            Some(running) if running.member == member && !running.over => {
                if now < running.last(self.limit()) {
                    hand.running = None;
                    End::InTime
                } else {
                    End::Due
                }
            }
            _ => End::Late,
        }
    }

    /// What became of the record at the cursor.
    pub(super) fn keep(&self, kept: Kept) {
        self.lock().kept = kept;
    }

    /// Renews what may be renewed; says until when what is in hand may be kept then. At or before `now`: it is to lapse.
    pub(super) fn renew(&self, now: Time) -> Option<Time> {
        let mut hand = self.lock();
        let running = hand.running.as_mut().filter(|running| !running.over)?;
        let last = running.last(self.limit());
        if running.deadline <= now && self.lease.longest.is_some() {
            running.deadline = now.after(self.lease.time).min(last);
        }
        Some(running.deadline)
    }

    /// The deadline of what `epoch` has in hand is at least `by` from now, as far as the limit goes. Says how far off it is.
    fn extend(&self, epoch: u32, offset: Seq, by: Duration) -> Result<Duration, FencedBy> {
        let now = (self.now)();
        let mut hand = self.lock();
        if hand.ended {
            return Err(FencedBy::Deleted);
        }
        let limit = self.limit();
        let running = hand.running.as_mut();
        let its = running.filter(|running| !running.over && running.epoch == epoch && running.has(offset));
        let running = its.filter(|running| now < running.last(limit));
        let running = running.ok_or(FencedBy::Expired)?;
        if self.gate.epoch() != epoch {
            return Err(FencedBy::Seeked);
        }
        running.deadline = running.deadline.max(now.after(by).min(running.last(limit)));
        Ok(running.deadline.since(now))
    }

    /// The lane is over.
    pub(super) fn ended(&self) {
        self.lock().ended = true;
    }
}

impl Running {
    /// When it is over, renewed as long as it may be. The deadline is never later.
    fn last(&self, limit: Duration) -> Time {
        self.begun.after(limit)
    }

    fn has(&self, offset: Seq) -> bool {
        !offset.precedes(self.at) && offset.precedes(self.at.plus(self.len))
    }
}

impl Hand {
    /// Whether the lane may be seized from its holder.
    pub(super) fn may_be_seized(&self) -> bool {
        self.running.is_none_or(|running| running.over)
    }

    /// Ends what is in hand and due: in a new epoch, if nobody has moved the cursor. Says what that was, and whether it did.
    ///
    /// Of one record it is known whose failure it is; of several it is not, and they come again one by one.
    pub(super) fn lapse(&mut self, watch: &Watch, now: Time) -> Option<(Running, bool)> {
        let limit = watch.limit();
        let running = self.running.as_mut().filter(|running| !running.over && running.last(limit) <= now)?;
        running.over = true;
        let lapsed = watch.gate.lapse(running.epoch, running.at);
        if let Ok(epoch) = lapsed {
            (self.kept.epoch, self.kept.due) = (epoch, None);
            match running.len {
                1 => self.kept.failures = self.kept.failures.saturating_add(1),
                several => self.kept.single_until = running.at.plus(several),
            }
        }
        Some((*running, lapsed.is_ok()))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// The lease of one run, as its records know it.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) watch: Arc<Watch>,
    pub(super) epoch: u32,
}

impl Term {
    pub(super) fn extend(&self, offset: u64, by: Duration) -> Result<Duration, FencedBy> {
        self.watch.extend(self.epoch, Seq::new(offset), by)
    }
}
