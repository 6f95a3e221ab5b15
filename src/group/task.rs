//! A member at work: the lanes it may step, and the step itself. No thread, no waiting: an executor calls it.
//!
//! # One step of one lane
//!
//! ```text
//!   look at the lane word ── not ours, paused, over ──▶ let go of it if we hold it, say so
//!         │ ours
//!   a letter waits to be handed over again? ──▶ hand over that instead (see `redrive`)
//!         │
//!   a failed record in its backoff? ──▶ say until when
//!         │
//!   ┌▶ take what is ready, one run ── nothing ──▶ Waits        ── lost ──▶ commit over the gap, count, call the hook
//!   │     │
//!   │  hand it over: one catch_unwind round the loop
//!   │     │
//!   │  write the letter of a record that is given up, while it is still ours to read
//!   │     │
//!   │  reader.advance, then commit (CAS on the cursor, with the epoch) ── refused ──▶ count, go where the cursor is
//!   │     │ stored
//!   └── with the letter, if there is one; tell who waits for progress
//! ```
//! Everything done is committed before the step looks at the lane word again, so a boundary never has anything in hand.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::{contain, drop_contained};
use super::context::{self, Here, Id};
use super::executor::{Origin, Place, Step, Task, Turn};
use super::gap::behind;
use super::handler::{Deliver, Handlers, Interrupt, Verdict};
use super::home::Home;
use super::lane::{Held, Lane};
use super::leased::{give_up, is_spent};
use super::outcome::{Failure, Outcome};
use super::record::{Batch, Lent};
use super::redrive;
use super::roster::Member;
use super::settle::{Ran, commit, finish, settle};
use super::word::{MemberId, Word};
use crate::log::Read;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::{Clock, Ticks, ticks, ticks_in};
use crate::wait::{Event, WaitPolicy};
use std::time::Duration;

/// The longest that finished records stay uncommitted, as far as handlers are even.
const COMMIT_BEHIND: Duration = Duration::from_micros(50);

/// A member's lanes and handlers.
pub(super) struct MemberTask<T: Send + Sync + 'static, D: Deliver<T>> {
    pub(super) group: Arc<Group<T>>,
    pub(super) member: MemberId,
    pub(super) name: Arc<str>,
    pub(super) left: Arc<AtomicBool>,
    /// Who steps it, for when its handlers are dropped.
    executor: Id,
    pub(super) wait: WaitPolicy,
    pub(super) slots: Vec<Slot<T>>,
    pub(super) handlers: Option<Handlers<D>>,
    pub(super) commit_behind: Ticks,
}

/// One lane that this member may step.
pub(super) struct Slot<T> {
    pub(super) lane: Arc<Lane<T>>,
    pub(super) held: Option<Box<Held<T>>>,
    /// The word as we last acted on it.
    pub(super) seen: Word,
    /// What the records of this lane have in common, under a lease.
    pub(super) home: Option<Box<Home>>,
}

impl<T: Send + Sync + 'static> Slot<T> {
    fn new(lane: Arc<Lane<T>>, home: &Home) -> Self {
        let seen = lane.word.load();
        let home = lane.watch.as_ref().map(|_| Box::new(home.of_its_own()));
        Slot { lane, held: None, seen, home }
    }
}

impl<T: Send + Sync + 'static, D: Deliver<T>> MemberTask<T, D> {
    pub(super) fn new(
        group: Arc<Group<T>>,
        (member, executor): (&Member, Id),
        wait: WaitPolicy,
        lanes: &[Arc<Lane<T>>],
        handlers: Handlers<D>,
    ) -> Self {
        let slots = lanes.iter().map(|lane| Slot::new(lane.clone(), &group.home)).collect();
        let (handlers, commit_behind) = (Some(handlers), ticks_in(COMMIT_BEHIND));
        let (member, name, left) = (member.id, member.name.clone(), member.left.clone());
        MemberTask { group, member, name, left, executor, wait, slots, handlers, commit_behind }
    }

    /// Acts on a changed lane word. `None`: the lane is in hand and may be stepped.
    #[cold]
    #[inline(never)]
    fn obey(&mut self, index: usize, turn: Turn<'_>) -> Option<Step> {
        // Handing over asks assignors, stores and hooks: user code.
        let _here = context::enter(Here { executor: self.executor, broker: self.group.broker });
        let slot = &mut self.slots[index];
        let word = slot.lane.word.load();
        slot.seen = word;
        let (mine, seized) = (word.is_of(self.member), !word.is_held_by(self.member));
        if let Some(held) = slot.held.take_if(|_| !mine || seized || word.is_ended()) {
            let next = slot.lane.let_go(self.member, held);
            slot.seen = slot.lane.word.load();
            if let Some(next) = next {
                self.group.handed_over(next, slot.lane.partition as usize);
            }
        }
        if word.is_ended() {
            return Some(Step::Ended);
        }
        if !mine {
            return Some(Step::Elsewhere);
        }
        if word.paused() != 0 {
            if let Some(held) = &mut slot.held {
                held.release();
            }
            return Some(Step::Paused);
        }
        if slot.held.is_none() {
            if let Some((word, held)) = slot.lane.take(self.member) {
                (slot.seen, slot.held) = (word, Some(held));
            }
        }
        let Some(held) = &mut slot.held else { return Some(Step::Elsewhere) };
        if let Some(gap) = held.untold.take() {
            self.group.tell(slot.lane.partition, &gap);
        }
        if held.epoch != slot.lane.gate.epoch() {
            held.resync(&slot.lane.gate);
        }
        // An end marks the word, then takes the gate to a new epoch. If that is the epoch that we have now, the mark is seen
        // here; if not, our next commit is refused. Either way nothing is acknowledged once the lane is over.
        if slot.lane.word.load().is_ended() {
            return self.obey(index, turn);
        }
        let redrives = slot.seen.redrives();
        redrives.then(|| self.redrives(index, turn))
    }

    fn redrives(&mut self, index: usize, turn: Turn<'_>) -> Step {
        let (Slot { lane, seen, .. }, Some(handlers)) = (&self.slots[index], &mut self.handlers) else {
            return Step::Elsewhere;
        };
        let interrupt = Interrupt { word: &lane.word, seen: *seen, progress: None };
        lane.counters.redriving.set(1);
        lane.counters.serving.set(turn.executor.get());
        let step = redrive::serve(&self.group, lane, handlers.of(index), interrupt, turn);
        lane.counters.serving.set(0);
        lane.counters.redriving.set(0);
        step
    }

    /// Hands over one run and settles it.
    fn run(&mut self, index: usize, turn: Turn<'_>, budget: usize) -> Ran {
        if let Some(watch) = &self.slots[index].lane.watch {
            return self.run_leased(index, turn, budget, &watch.clone());
        }
        if let Some(newest) = &self.slots[index].lane.newest {
            return self.run_newest(index, turn, &newest.clone());
        }
        let (group, Slot { lane, held, seen, .. }) = (&*self.group, &mut self.slots[index]);
        let (Some(held), Some(handlers)) = (held, &mut self.handlers) else { return Ran::Stopped(0) };
        let spent = is_spent(group, held);
        let bound = if turn.panic || spent { 1 } else { lane.bound(budget, D::BLAMES, group.commit_bound) };
        let most = held.limit(bound);
        let read = lane.own_gap(held).map_or_else(|| lane.log.read(&mut held.reader, most), Read::Gap);
        let run = match read {
            Read::Ready(run) => run,
            Read::Pending => return Ran::Nothing,
            Read::Gap(gap) => match behind(group, lane, *seen, held, gap, most) {
                Some(len) => held.reader.lent(len),
                None => return Ran::Stopped(0),
            },
        };
        let spent = spent && held.failures > 0; // not if it was lost just now
        let attempt = if spent { held.failures } else { held.failures.saturating_add(1) };
        let (home, partition) = (&group.home, lane.partition);
        let first = run.first();
        let batch = Batch { lent: Lent::Run(run), home, partition, attempt, lost: held.lost };
        if spent {
            let settled = give_up(group, lane, &batch);
            return finish(group, lane, held, 0, settled);
        }
        let (mut done, len) = (0, batch.len());
        if lane.tells {
            lane.took(first.plus(len as u64), held.epoch);
        }
        let interrupt = Interrupt { word: &lane.word, seen: *seen, progress: None };
        let verdict = contain(|| {
            if turn.panic {
                std::panic::resume_unwind(Box::new("a planned fault"));
            }
            handlers.of(index).deliver(&batch, &mut done, interrupt)
        });
        if done == len && verdict.is_ok() {
            // What comes next may have to wait, by what it did in a consumer's hands.
            let goes_on = commit(group, lane, held, done, None) && held.due.is_none();
            return if goes_on { Ran::Calls(done) } else { Ran::Stopped(done) };
        }
        let panicked = |text| Verdict { outcome: Outcome::Retry(Failure::panic(text)), blames: D::BLAMES };
        let settled = settle(group, verdict.unwrap_or_else(panicked), &batch, done);
        finish(group, lane, held, done, settled)
    }

    /// Fits the number of records between two looks at the clock to what the last ones took.
    fn adapt(&mut self, index: usize, handled: usize, took: Ticks) {
        let bound = self.group.commit_bound;
        if let Some(held) = &mut self.slots[index].held {
            if took > self.commit_behind {
                let fits = (handled as u64).saturating_mul(self.commit_behind) / took.max(1);
                held.chunk = usize::try_from(fits).unwrap_or(1).clamp(1, bound);
            } else if handled >= held.chunk {
                held.chunk = held.chunk.saturating_mul(2).clamp(1, bound);
            }
        }
    }
}

impl<T: Send + Sync + 'static, D: Deliver<T>> Task for MemberTask<T, D> {
    fn lanes(&self) -> usize {
        self.slots.len()
    }

    fn place(&self, lane: usize) -> Place {
        let (topic, group) = (self.group.topic.clone(), self.group.name.clone());
        Place { topic, group, member: self.name.clone(), partition: self.slots[lane].lane.partition }
    }

    fn step(&mut self, index: usize, turn: Turn<'_>) -> Step {
        let slot = &self.slots[index];
        if slot.held.is_none() || !slot.seen.is_plain() || slot.lane.word.differs(slot.seen) {
            if let Some(step) = self.obey(index, turn) {
                return step;
            }
        }
        let Slot { lane, held, .. } = &mut self.slots[index];
        let Some(held) = held else { return Step::Elsewhere };
        if let Some(until) = held.due {
            if self.group.clock.now() < until {
                return Step::Backoff { until };
            }
            held.due = None;
        }
        let _here = context::enter(Here { executor: turn.executor, broker: self.group.broker });
        if let Some(gap) = if lane.loses { held.lifted_over(&lane.gate) } else { None } {
            self.group.tell(lane.partition, &gap);
            return Step::Worked { handled: 0, more: true };
        }
        let chunk = if turn.adapt { held.chunk } else { self.group.commit_bound };
        lane.counters.serving.set(turn.executor.get());
        let step = self.runs(index, turn, chunk);
        let Slot { lane, held, .. } = &self.slots[index];
        if held.is_some() {
            lane.counters.serving.set(0);
        }
        step
    }

    fn ready(&self, index: usize) -> bool {
        let Slot { lane, held, .. } = &self.slots[index];
        let word = lane.word.load();
        let (mine, runs) = (word.is_of(self.member), word.paused() == 0);
        let Some(held) = held.as_ref().filter(|_| word.is_held_by(self.member)) else {
            return held.is_some() || (mine && runs && !word.is_ended());
        };
        let moved = || held.epoch != lane.gate.epoch();
        let more = || match &lane.newest {
            Some(newest) => newest.is_ready(held.next, &lane.log),
            None => held.next.precedes(lane.log.end()),
        };
        let data = || held.due.is_none() && more();
        let ready = || if word.redrives() { lane.redrives.is_ready() } else { data() };
        !mine || word.is_ended() || (runs && (moved() || ready()))
    }

    fn event(&self, index: usize) -> Option<&Event> {
        let Slot { held, seen, .. } = &self.slots[index];
        let takes_data = held.as_ref().is_some_and(|held| held.due.is_none()) && seen.is_plain();
        takes_data.then(|| self.source(index))
    }

    fn source(&self, index: usize) -> &Event {
        self.slots[index].lane.log.not_empty()
    }

    fn origin(&self, index: usize) -> Arc<dyn Origin> {
        self.slots[index].lane.log.clone()
    }

    fn next(&self, index: usize) -> Option<u64> {
        let Slot { lane, held, .. } = &self.slots[index];
        let next = held.as_ref()?.next.get();
        Some(if lane.word.load().redrives() { lane.redrives.next().unwrap_or(next) } else { next })
    }

    fn wait(&self) -> WaitPolicy {
        self.wait
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.group.clock
    }

    fn finished(&self) -> bool {
        // ORD(left:A) Acquire: the leaver's re-deal comes before; pairs with ORD(left:B), ORD(left:C). With it we do not mistake a
        // lane that is still ours for one that nobody gave us.
        self.left.load(Ordering::Acquire) && self.slots.iter().all(|slot| slot.held.is_none())
    }
}

impl<T: Send + Sync + 'static, D: Deliver<T>> MemberTask<T, D> {
    /// What was not done of the last run is not in hand any more.
    #[inline]
    fn hand_is_empty(&self, index: usize) {
        let Slot { lane, held, .. } = &self.slots[index];
        if let (true, Some(held)) = (lane.tells, held) {
            lane.took(lane.behind_the_hand(held), held.epoch);
        }
    }

    /// Runs until the budget is used up, there is nothing more, or the lane has to be looked at anew.
    #[inline]
    fn runs(&mut self, index: usize, turn: Turn<'_>, chunk: usize) -> Step {
        let (mut handled, mut chunk) = (0, chunk);
        let mut began = if turn.adapt { ticks() } else { 0 };
        loop {
            let left = turn.budget.saturating_sub(handled);
            if left == 0 {
                return Step::Worked { handled, more: true };
            }
            let ran = self.run(index, turn, left.min(chunk));
            self.hand_is_empty(index);
            match ran {
                Ran::Nothing if handled == 0 => {
                    self.slots[index].lane.check_books();
                    return Step::Waits;
                }
                Ran::Nothing => return Step::Worked { handled, more: false },
                Ran::Stopped(calls) => return Step::Worked { handled: handled + calls, more: true },
                Ran::Calls(calls) => {
                    handled += calls;
                    if turn.adapt {
                        let now = ticks();
                        self.adapt(index, calls, now.wrapping_sub(began));
                        began = now;
                        chunk = self.slots[index].held.as_ref().map_or(1, |held| held.chunk);
                    }
                    let Slot { lane, held, seen, .. } = &self.slots[index];
                    if lane.word.differs(*seen) || turn.is_ended() {
                        return Step::Worked { handled, more: true };
                    }
                    if held.as_ref().is_some_and(|held| held.reader.caught_up()) {
                        return Step::Worked { handled, more: false };
                    }
                }
            }
        }
    }
}

impl<T: Send + Sync + 'static, D: Deliver<T>> Drop for MemberTask<T, D> {
    /// Leaves, hands over every lane, and drops the handlers: user code (as are assignors, stores and hooks), contained, under
    /// no lock, and as one of our handlers, which must not wait for this thread either.
    fn drop(&mut self) {
        let _here = context::enter(Here { executor: self.executor, broker: self.group.broker });
        self.group.leave(self.member);
        for slot in &mut self.slots {
            if let Some(held) = slot.held.take() {
                if let Some(next) = slot.lane.let_go(self.member, held) {
                    self.group.handed_over(next, slot.lane.partition as usize);
                }
            }
        }
        self.group.forget(self.member);
        drop_contained(self.handlers.take());
    }
}
