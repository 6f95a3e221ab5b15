//! What one member's task has in hand of one lane, and how far its handler has got with it.
//!
//! ```text
//!            reach            take               settles                 resumes
//!    empty ───────▶ reaching ──────▶ in hand ──────────────▶ being settled ──────▶ in hand, what is left of it
//!      ▲               │                │ ▲                        │
//!      └── put down ───┴────────────────┴─┼────────────────────────┘
//!                                         └ cut: all that is not begun is taken from it;  end: all of it
//! ```
//! A member reaches before it looks at the lane word and at whether it has left, and claims after that. So whoever has told it
//! to stop, and then looks at its hand, either finds that it is not empty, or it finds that it has to stop.
//!
//! # How far a run has got
//!
//! A handler of single records begins each by [`Progress::begins`]; who cuts the run finds out where it is. Both write first and
//! look then, with a barrier between, which costs the handler nothing: so either the handler finds that its run was cut, and
//! does not begin the record, or the other one finds that it has begun it. What comes before the record at hand was
//! acknowledged by the handler, since it has gone on. Of a handler of batches nothing is known but that it has not returned.
//!
//! | label    | operation     | order   | why this much, and why no more                                                           |
//! |----------|---------------|---------|------------------------------------------------------------------------------------------|
//! | begins:A | `at`, store   | Release | what the handler did with those before, for who settles them in its place; pairs with cut:B |
//! | begins:B | `cut`, load   | Relaxed | decides whether to go on; the barrier orders it                                             |
//! | cut:A    | `cut`, store  | Relaxed | the barrier orders it; under the hand's lock                                                |
//! | cut:B    | `at`, load    | Acquire | the other half of begins:A                                                                |
//! | cut:C    | `cut`, store  | Relaxed | of a new run, by its own member, under the hand's lock                                     |
//! | rest:A, rest:B | `rest`, store and load | Relaxed | a number for a figure: how much was asked for in vain                        |
#![forbid(unsafe_code)]

use super::super::claims::Claim;
use super::super::context::Id;
use super::super::fence::FencedBy;
use super::super::flight::Ticket;
use super::super::word::MemberId;
use super::settle::Given;
use crate::ring::Gate;
use crate::seq::Seq;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::hint::{heavy_barrier, light_barrier};
use crate::sync::{Arc, Mutex, lock};
use crate::time::{Clock, Time};
use std::sync::OnceLock;
use std::time::Duration;

/// Written by its task, and by who ends claims. What is in hand is there until the handler has returned, whatever became of
/// the claim.
#[derive(Debug)]
pub(in crate::group) struct Hand {
    pub(super) member: MemberId,
    pub(super) name: Arc<str>,
    pub(super) executor: Id,
    left: Arc<AtomicBool>,
    /// It is that of one batch that a consumer was handed.
    pub(super) polled: bool,
    /// What has become of that, for who settles it too late.
    fate: OnceLock<FencedBy>,
    /// What of it was settled lies before this.
    rest: AtomicU64,
    grip: Mutex<Grip>,
    pub(super) progress: Progress,
}

#[derive(Clone, Copy, Debug)]
enum Grip {
    Empty,
    Reaching,
    Holds(InHand),
}

/// A claim in a handler's hands.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHand {
    pub(super) given: Given,
    /// Whether it is known which of its records the handler is at.
    pub(super) singly: bool,
    /// When it was handed out, until when, and until when at the latest; if anybody looks at the time.
    pub(super) since: Time,
    pub(super) deadline: Option<Time>,
    pub(super) limit: Option<Time>,
    /// The claim was ended, and the handler has not returned.
    pub(super) over: bool,
    /// What its handler made of it is being written down.
    pub(super) settling: bool,
}

/// A run, as far as its handler has got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Its handler has acknowledged these.
    pub(super) done: Given,
    /// It is at this one, or these.
    pub(super) begun: Given,
    /// These it has not begun, and will not.
    pub(super) behind: Given,
    /// Whose it is.
    pub(super) member: MemberId,
}

/// Whether what the handler made of its run counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Settles {
    /// Of this it does. The rest was done, or given to others, in its place.
    Counts(Given),
    /// Its time is up, and nobody has seen to that yet.
    Due,
    /// The claim is over.
    Late,
}

impl Hand {
    pub(super) fn new(member: MemberId, name: Arc<str>, left: Arc<AtomicBool>, executor: Id) -> Arc<Self> {
        let (grip, progress) = (Mutex::new(Grip::Empty), Progress::default());
        let (polled, fate, rest) = (false, OnceLock::new(), AtomicU64::new(0));
        Arc::new(Hand { member, name, executor, left, polled, fate, rest, grip, progress })
    }

    /// Another hand of the same consumer.
    pub(super) fn of_a_batch(&self) -> Arc<Self> {
        let (member, name, left, executor) = (self.member, self.name.clone(), self.left.clone(), self.executor);
        let (grip, progress) = (Mutex::new(Grip::Empty), Progress::default());
        let (polled, fate, rest) = (true, OnceLock::new(), AtomicU64::new(0));
        Arc::new(Hand { member, name, executor, left, polled, fate, rest, grip, progress })
    }

    /// That has become of it; said once.
    pub(super) fn fated(&self, fate: FencedBy) {
        self.fate.get_or_init(|| fate);
    }

    /// Of `ticket`, where what was not settled begins.
    pub(super) fn rest(&self, ticket: Ticket) -> Seq {
        // ORD(rest:B) Relaxed: a figure.
        ticket.from.later(Seq::new(self.rest.load(Ordering::Relaxed)))
    }

    pub(super) fn fate(&self) -> Option<FencedBy> {
        self.fate.get().copied()
    }

    /// Whether its member was told to leave.
    pub(super) fn has_left(&self) -> bool {
        // ORD(left:F) Acquire: as where it is set. Pairs with ORD(left:B), ORD(left:C).
        self.left.load(Ordering::Acquire)
    }

    /// Something is about to be claimed. From now on the hand is not empty.
    pub(super) fn reach(&self) {
        *lock(&self.grip) = Grip::Reaching;
    }

    pub(super) fn take(&self, held: InHand) {
        let mut grip = lock(&self.grip);
        self.progress.begin(held.given.claim.first());
        *grip = Grip::Holds(held);
    }

    pub(super) fn put_down(&self) {
        *lock(&self.grip) = Grip::Empty;
    }

    pub(super) fn held(&self) -> Option<InHand> {
        match *lock(&self.grip) {
            Grip::Holds(held) => Some(held),
            Grip::Empty | Grip::Reaching => None,
        }
    }

    /// What of it is not over.
    pub(super) fn in_force(&self) -> Option<InHand> {
        self.held().filter(|held| !held.over)
    }

    /// Whether nothing is in hand, nor about to be.
    pub(super) fn is_empty(&self) -> bool {
        match &*lock(&self.grip) {
            Grip::Empty => true,
            Grip::Reaching => false,
            // Nobody is at work there whose return is waited for.
            Grip::Holds(held) => self.polled && held.over,
        }
    }

    /// Whether its member will do something, of its own accord, that takes the lane on.
    pub(super) fn serves(&self) -> bool {
        self.held().map_or(!self.polled && !self.has_left(), |held| !held.over)
    }

    fn with<R>(&self, act: impl FnOnce(&mut InHand) -> Option<R>) -> Option<R> {
        match &mut *lock(&self.grip) {
            Grip::Holds(held) => act(held),
            Grip::Empty | Grip::Reaching => None,
        }
    }

    /// The run that others may be given a part of: its ticket. One that is about to be claimed may be one: `Some(None)`.
    pub(super) fn run(&self) -> Option<Option<u32>> {
        match &*lock(&self.grip) {
            Grip::Empty => None,
            Grip::Reaching => Some(None),
            Grip::Holds(held) => held.is_long().then(|| Some(held.given.claim.ticket())),
        }
    }

    /// Takes from the run `ticket` what its handler has not begun, and what is done.
    pub(super) fn cut(&self, ticket: u32) -> Option<Split> {
        self.with(|held| {
            let is_it = held.is_long() && held.given.claim.ticket() == ticket;
            let split = is_it.then(|| self.split(held))?;
            held.given = split.begun;
            Some(split)
        })
    }

    /// Ends the claim `ticket`, if it is in hand and in force, and `when` says so. Not while its member settles it.
    pub(super) fn end(&self, ticket: u32, when: impl FnOnce(&InHand) -> bool) -> Option<Split> {
        self.with(|held| {
            let ends = !held.over && !held.settling && held.given.claim.ticket() == ticket && when(held);
            ends.then(|| self.end_it(held))
        })
    }

    /// Its own member ends it, whose time is up. Not while it is settled, which several may do with what a consumer has.
    pub(super) fn end_own(&self) -> Option<Split> {
        self.with(|held| {
            (!held.over && !held.settling).then(|| {
                self.fated(FencedBy::Expired);
                self.end_it(held)
            })
        })
    }

    fn end_it(&self, held: &mut InHand) -> Split {
        held.over = true;
        self.split(held)
    }

    /// How far it has got; and it gets no further.
    fn split(&self, held: &InHand) -> Split {
        let (given, at, member) = (held.given, self.progress.cut(), self.member);
        let (first, last) = (given.claim.first(), given.claim.len().saturating_sub(1));
        let begun = if held.singly { at.lag_behind(first).min(last as u64) as usize } else { 0 };
        let len = if held.singly { 1 } else { given.claim.len() };
        let (done, rest) = (given.head(begun), given.behind(begun));
        Split { done, begun: rest.head(len), behind: rest.behind(len), member }
    }

    /// The handler has returned, at `now` if anybody looks at the time: does it count? Until [`resumes`](Self::resumes), or until it
    /// is put down, nobody else ends it.
    pub(super) fn settles(&self, now: Option<Time>) -> Settles {
        let settles = self.with(|held| {
            if held.over || (self.polled && held.settling) {
                return None;
            }
            if held.limit.zip(now).is_some_and(|(limit, now)| limit <= now) {
                return Some(Settles::Due);
            }
            held.settling = true;
            Some(Settles::Counts(held.given))
        });
        settles.unwrap_or(Settles::Late)
    }

    /// What is left of it is handed over now.
    pub(super) fn resumes(&self, given: Given) {
        // ORD(rest:A) Relaxed: a figure.
        self.rest.store(given.claim.first().get(), Ordering::Relaxed);
        self.with(|held| {
            (held.given, held.settling) = (given, false);
            Some(())
        });
    }

    /// As a consumer asks: until when it may be kept, from now on; an error if its time is up. `None`: it is not in hand.
    pub(super) fn extend(&self, now: Time, by: Duration, longest: Option<Duration>) -> Option<Result<Duration, ()>> {
        self.with(|held| {
            if held.over || held.settling {
                return None;
            }
            let Some(deadline) = held.deadline else { return Some(Ok(Duration::MAX)) };
            if deadline <= now {
                return Some(Err(()));
            }
            let last = longest.map_or(deadline, |longest| held.since.after(longest));
            let until = now.after(by).min(last).max(deadline);
            (held.deadline, held.limit) = (Some(until), Some(until));
            Some(Ok(until.since(now)))
        })
    }

    /// The cursor was moved, to `epoch`: what a consumer has in flight from before is void. If it is being settled, its member
    /// finds out. What was claimed since is not: claims are open before this is called.
    pub(super) fn drop_void(&self, epoch: u32) {
        let mut grip = lock(&self.grip);
        if matches!(&*grip, Grip::Holds(held) if !held.settling && held.claim().epoch() != epoch) {
            *grip = Grip::Empty;
        }
    }

    /// Sets another deadline, if the claim is in force.
    pub(super) fn renew(&self, ticket: u32, deadline: Time) {
        self.with(|held| {
            let is_it = held.given.claim.ticket() == ticket && !held.over;
            is_it.then(|| held.deadline = Some(deadline))
        });
    }
}

impl InHand {
    /// In a hand of which nothing is expected but that it is buried.
    pub(super) fn being_settled(given: Given, since: Time) -> Self {
        InHand { given, singly: false, since, deadline: None, limit: None, over: false, settling: true }
    }

    pub(super) fn claim(&self) -> Claim {
        self.given.claim
    }

    /// Whether some of it may not have begun.
    fn is_long(&self) -> bool {
        self.singly && !self.over && !self.settling && self.given.claim.len() > 1
    }
}

/// A hand as records know it that are in it under a lease.
#[derive(Debug)]
pub(in crate::group) struct Grasp {
    hand: Arc<Hand>,
    gate: Arc<Gate>,
    clock: Arc<dyn Clock>,
}

impl Grasp {
    pub(super) fn new(hand: Arc<Hand>, gate: Arc<Gate>, clock: Arc<dyn Clock>) -> Self {
        Grasp { hand, gate, clock }
    }

    /// The deadline is at least `by` from now, as far as the limit goes. Says how far off it is.
    pub(in crate::group) fn extend(&self, offset: u64, by: Duration) -> Result<Duration, FencedBy> {
        let now = self.clock.now();
        let extended = self.hand.with(|held| {
            let limit = held.limit.filter(|limit| !held.over && now < *limit && held.claim().has(Seq::new(offset)))?;
            if held.claim().epoch() != self.gate.epoch() {
                return Some(Err(if self.gate.is_gone() { FencedBy::Deleted } else { FencedBy::Seeked }));
            }
            let deadline = held.deadline.unwrap_or(limit).max(now.after(by).min(limit));
            held.deadline = Some(deadline);
            Some(Ok(deadline.since(now)))
        });
        extended.unwrap_or(Err(FencedBy::Expired))
    }
}

/// How far a handler has got in its run.
#[derive(Debug, Default)]
pub(in crate::group) struct Progress {
    at: AtomicU64,
    cut: AtomicBool,
}

impl Progress {
    /// A run begins, with its first record.
    fn begin(&self, first: Seq) {
        // ORD(cut:C) Relaxed: see the table. Pairs with ORD(begins:B).
        self.cut.store(false, Ordering::Relaxed);
        self.begins(first.get());
    }

    /// The handler is about to be called with the record at `offset`, and has acknowledged those of the run before it. False: it
    /// must not be called.
    #[inline(always)]
    pub(in crate::group) fn begins(&self, offset: u64) -> bool {
        // ORD(begins:A) Release: what was done with those before. Pairs with ORD(cut:B).
        self.at.store(offset, Ordering::Release);
        light_barrier();
        // ORD(begins:B) Relaxed: see the table. Pairs with ORD(cut:A), ORD(cut:C).
        !self.cut.load(Ordering::Relaxed)
    }

    fn cut(&self) -> Seq {
        // ORD(cut:A) Relaxed: see the table. Pairs with ORD(begins:B).
        self.cut.store(true, Ordering::Relaxed);
        heavy_barrier();
        // ORD(cut:B) Acquire: what was done with those before. Pairs with ORD(begins:A).
        Seq::new(self.at.load(Ordering::Acquire))
    }
}
