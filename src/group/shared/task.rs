//! A member at work in a group whose lanes are shared: the step of one lane, which is everybody's. See the module's picture.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::contain::drop_contained;
use super::super::context::{self, Here, Id};
use super::super::executor::{Origin, Place, Step, Task, Turn};
use super::super::handler::{Deliver, Handlers, Interrupt};
use super::super::lane::Lane;
use super::super::redrive;
use super::super::roster::Member;
use super::super::settle::Ran;
use super::super::word::MemberId;
use super::hand::Settles;
use super::slot::Slot;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::{Clock, Ticks, Time, ticks, ticks_in};
use crate::wait::{Event, WaitPolicy};
use std::time::Duration;

/// The longest that finished records stay unacknowledged, as far as handlers are even; and so, the longest that a member keeps
/// others from the rest of its run.
const SETTLE_BEHIND: Duration = Duration::from_micros(50);

/// A member's handlers, and its hands on every lane.
pub(in crate::group) struct ShareTask<T: Send + Sync + 'static, D: Deliver<T>> {
    pub(super) group: Arc<Group<T>>,
    member: MemberId,
    name: Arc<str>,
    pub(super) left: Arc<AtomicBool>,
    executor: Id,
    wait: WaitPolicy,
    pub(super) slots: Vec<Slot<T>>,
    pub(super) handlers: Option<Handlers<D>>,
    settle_behind: Ticks,
}

impl<T: Send + Sync + 'static, D: Deliver<T>> ShareTask<T, D> {
    pub(in crate::group) fn new(
        group: Arc<Group<T>>,
        (member, executor): (&Member, Id),
        wait: WaitPolicy,
        lanes: &[Arc<Lane<T>>],
        handlers: Handlers<D>,
    ) -> Self {
        let slots = lanes.iter().map(|lane| Slot::new(&group, lane, member, executor)).collect();
        let (handlers, settle_behind) = (Some(handlers), ticks_in(SETTLE_BEHIND));
        let (member, name, left) = (member.id, member.name.clone(), member.left.clone());
        ShareTask { group, member, name, left, executor, wait, slots, handlers, settle_behind }
    }

    pub(super) fn has_left(&self) -> bool {
        has_left(&self.left)
    }

    /// Acts on a changed lane word. The step, if it is over with that; else when a letter that waits is due.
    #[cold]
    #[inline(never)]
    fn obey(&mut self, index: usize, turn: Turn<'_>) -> Result<Option<Time>, Step> {
        // Handing over asks assignors, stores and hooks: user code.
        let _here = context::enter(Here { executor: self.executor, broker: self.group.broker });
        let left = self.has_left();
        let slot = &mut self.slots[index];
        let word = slot.lane.word.load();
        slot.seen = word;
        let mine = word.is_of(self.member) && !left;
        if let Some(held) = slot.held.take_if(|_| !mine || word.is_ended()) {
            let next = slot.lane.let_go(self.member, held).unwrap_or(MemberId::NOBODY);
            // That changed the word, so it is looked at again: what came with it is not taken for known.
            self.group.handed_over(next, slot.lane.partition as usize);
        }
        if word.is_ended() || left {
            slot.reader.release();
            if !std::mem::replace(&mut slot.gone, true) {
                // It had nothing in hand any more before this.
                self.group.handed_over(MemberId::NOBODY, slot.lane.partition as usize);
            }
            return Err(if word.is_ended() { Step::Ended } else { Step::Elsewhere });
        }
        if word.paused() != 0 {
            slot.reader.release();
            return Err(Step::Paused);
        }
        if mine && slot.held.is_none() {
            if let Some((word, held)) = slot.lane.take(self.member) {
                (slot.seen, slot.held) = (word, Some(held));
            }
        }
        let Some(held) = &mut slot.held else { return Ok(None) };
        if let Some(gap) = held.untold.take() {
            self.group.tell(slot.lane.partition, &gap);
        }
        if !slot.seen.redrives() {
            return Ok(None);
        }
        match self.redrives(index, turn) {
            Step::Backoff { until } => Ok(Some(until)),
            Step::Waits => Ok(None), // in a consumer's hands
            step => Err(step),
        }
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

    /// Fits the number of records between two looks at the clock to what the last ones took.
    fn adapt(&mut self, index: usize, handled: usize, took: Ticks) {
        let slot = &mut self.slots[index];
        if took > self.settle_behind {
            let fits = (handled as u64).saturating_mul(self.settle_behind) / took.max(1);
            slot.chunk = usize::try_from(fits).unwrap_or(1).clamp(1, self.group.commit_bound);
        } else if handled >= slot.chunk {
            slot.chunk = slot.chunk.saturating_mul(2).clamp(1, self.group.commit_bound);
        }
    }

    /// Runs until the budget is used up, there is nothing more, or the lane has to be looked at anew.
    fn runs(&mut self, index: usize, turn: Turn<'_>, letter: Option<Time>) -> Step {
        let mut handled = 0;
        let mut began = if turn.adapt { ticks() } else { 0 };
        loop {
            let left = turn.budget.saturating_sub(handled);
            if left == 0 {
                return Step::Worked { handled, more: true };
            }
            let chunk = if turn.adapt { self.slots[index].chunk } else { self.group.commit_bound };
            match self.run(index, turn, left.min(chunk)) {
                Ran::Nothing if handled == 0 => return self.idle(index, letter, turn),
                Ran::Nothing => {
                    let waits =
                        letter.is_some() || self.slots[index].shared().is_some_and(|shared| shared.failed.any());
                    return Step::Worked { handled, more: waits || self.others_run(index) };
                }
                Ran::Stopped(calls) => return Step::Worked { handled: handled + calls, more: true },
                Ran::Calls(calls) => {
                    handled += calls;
                    if turn.adapt {
                        let now = ticks();
                        self.adapt(index, calls, now.wrapping_sub(began));
                        began = now;
                    }
                    let slot = &self.slots[index];
                    if slot.lane.word.differs(slot.seen) || self.has_left() || turn.is_ended() {
                        return Step::Worked { handled, more: true };
                    }
                    if slot.reader.caught_up() && !slot.shared().is_some_and(|shared| shared.failed.any()) {
                        return Step::Worked { handled, more: letter.is_some() || self.others_run(index) };
                    }
                }
            }
        }
    }

    /// Nothing can be claimed now: until when.
    fn idle(&mut self, index: usize, letter: Option<Time>, turn: Turn<'_>) -> Step {
        let again = Step::Worked { handled: 0, more: true };
        let Ok(look) = self.look_round(index, turn) else { return again };
        let due = self.slots[index].shared().and_then(|shared| shared.failed.due());
        match due.into_iter().chain(letter).chain(look).min() {
            Some(until) if until <= self.group.clock.now() => again,
            Some(until) => Step::Backoff { until },
            None => Step::Waits,
        }
    }
}

pub(super) fn has_left(left: &AtomicBool) -> bool {
    // ORD(left:E) Acquire: the leaver's re-deal comes before. Pairs with ORD(left:B), ORD(left:C).
    left.load(Ordering::Acquire)
}

impl<T: Send + Sync + 'static, D: Deliver<T>> Task for ShareTask<T, D> {
    fn lanes(&self) -> usize {
        self.slots.len()
    }

    fn place(&self, lane: usize) -> Place {
        let (topic, group) = (self.group.topic.clone(), self.group.name.clone());
        Place { topic, group, member: self.name.clone(), partition: self.slots[lane].lane.partition }
    }

    fn step(&mut self, index: usize, turn: Turn<'_>) -> Step {
        let slot = &self.slots[index];
        if slot.unwanted {
            return Step::Elsewhere;
        }
        let word = slot.lane.word.load();
        let looks = slot.seen != word || !word.is_plain() || (word.is_of(self.member) && slot.held.is_none());
        let mut letter = None;
        if looks || slot.gone || self.has_left() {
            match self.obey(index, turn) {
                Ok(due) => letter = due,
                Err(step) => return step,
            }
        }
        let _here = context::enter(Here { executor: turn.executor, broker: self.group.broker });
        self.runs(index, turn, letter)
    }

    fn ready(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        let word = slot.lane.word.load();
        if slot.unwanted {
            return false;
        }
        if word.is_ended() || self.has_left() {
            return !slot.gone;
        }
        if word.paused() != 0 {
            return slot.held.is_some() && !word.is_of(self.member);
        }
        let Some(shared) = slot.shared() else { return false };
        let letters = word.redrives() && slot.held.is_some() && slot.lane.redrives.is_ready();
        let owns = word.is_of(self.member);
        let fresh = || shared.claims.upcoming().is_some_and(|place| place.at().precedes(slot.lane.log.end()));
        let due = || shared.failed.any() && shared.failed.next(self.group.clock.now()).is_some();
        letters || owns != slot.held.is_some() || due() || (!shared.failed.stays() && fresh())
    }

    fn event(&self, index: usize) -> Option<&Event> {
        let word = self.slots[index].lane.word.load();
        let takes_data =
            word.paused() == 0 && !word.is_ended() && !self.slots[index].gone && !self.slots[index].unwanted;
        takes_data.then(|| self.source(index))
    }

    fn source(&self, index: usize) -> &Event {
        self.slots[index].lane.log.not_empty()
    }

    fn origin(&self, index: usize) -> Arc<dyn Origin> {
        self.slots[index].lane.log.clone()
    }

    fn next(&self, index: usize) -> Option<u64> {
        let slot = &self.slots[index];
        let shared = slot.shared().filter(|_| !slot.gone && !slot.unwanted)?;
        if slot.held.is_some() && slot.lane.word.load().redrives() {
            if let Some(next) = slot.lane.redrives.next() {
                return Some(next);
            }
        }
        let again = if shared.failed.any() { shared.failed.next(self.group.clock.now()) } else { None };
        let place = shared.claims.upcoming()?.at();
        match again {
            Some(again) if !slot.fresh_next || !place.precedes(slot.lane.log.end()) => Some(again),
            _ => Some(place.get()),
        }
    }

    fn wait(&self) -> WaitPolicy {
        self.wait
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        &self.group.clock
    }

    fn finished(&self) -> bool {
        self.has_left() && self.slots.iter().all(|slot| slot.held.is_none() && slot.hand.is_empty())
    }
}

impl<T: Send + Sync + 'static, D: Deliver<T>> Drop for ShareTask<T, D> {
    /// Leaves, gives back what it has in hand, and drops the handlers: user code, contained, under no lock, and as one of our
    /// handlers.
    fn drop(&mut self) {
        let _here = context::enter(Here { executor: self.executor, broker: self.group.broker });
        self.group.leave(self.member);
        for slot in &mut self.slots {
            slot.reader.release();
            if let (Settles::Counts(given), Some(work)) = (slot.hand.settles(None), slot.work(&self.group)) {
                work.release(given);
            }
            slot.hand.put_down();
            let next =
                slot.held.take().and_then(|held| slot.lane.let_go(self.member, held)).unwrap_or(MemberId::NOBODY);
            if let Some(shared) = slot.shared() {
                shared.leave(&slot.hand);
                // Whoever waits for room may be the only one left who could make it: it looks again.
                slot.lane.log.not_full().wake_all();
            }
            self.group.handed_over(next, slot.lane.partition as usize);
        }
        self.group.forget(self.member);
        drop_contained(self.handlers.take());
    }
}
