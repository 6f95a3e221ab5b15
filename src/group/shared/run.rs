//! One run: claimed, handed over, and settled; and what a member looks at that finds nothing to claim.
#![forbid(unsafe_code)]

use super::super::contain::contain;
use super::super::executor::Turn;
use super::super::handler::{Deliver, Interrupt, Verdict};
use super::super::outcome::{Failure, Outcome};
use super::super::record::{Batch, Lent};
use super::super::settle::{Ran, Settled, settle};
use super::due::End;
use super::hand::Settles;
use super::settle::{Given, Work};
use super::slot::{Reaches, Slot, again, fresh, may_claim};
use super::task::{ShareTask, has_left};
use crate::log::Read;
use crate::time::Time;

/// What a look for work found.
enum Claimed {
    Nothing,
    /// The lane, or the member, has to be looked at anew.
    Stopped,
    Given(Given),
}

/// How far a handler came with a run.
struct Called {
    done: usize,
    /// Whether the one behind them has failed, as 1.
    failed: usize,
    /// What becomes of that; `None`: all are done.
    settled: Option<Settled>,
}

impl<T: Send + Sync + 'static, D: Deliver<T>> ShareTask<T, D> {
    /// Claims something to hand over. What it reaches for is seen before it looks whether it may.
    fn claim(&mut self, index: usize, most: usize) -> Claimed {
        let (group, left, slot) = (&*self.group, &self.left, &mut self.slots[index]);
        if !may_claim(&slot.lane) {
            return Claimed::Nothing;
        }
        slot.hand.reach();
        if slot.lane.word.differs(slot.seen) || has_left(left) {
            return Claimed::Stopped;
        }
        let Slot { lane, reader, hand, seen, fresh_next, .. } = slot;
        let mut reaches = Reaches { lane, reader, hand, seen: *seen };
        let claimed = if *fresh_next {
            fresh(group, &mut reaches, most).or_else(|| again(group, &mut reaches))
        } else {
            again(group, &mut reaches).or_else(|| fresh(group, &mut reaches, most))
        };
        let Some((given, now)) = claimed else { return Claimed::Nothing };
        slot.fresh_next = given.again;
        slot.hand.take(group.in_hand(given, D::BLAMES, now));
        Claimed::Given(given)
    }

    /// Claims something, hands it over, and settles it.
    pub(super) fn run(&mut self, index: usize, turn: Turn<'_>, most: usize) -> Ran {
        let ran = match self.claim(index, if turn.panic { 1 } else { most }) {
            Claimed::Given(given) => self.hand_over(index, turn, given),
            Claimed::Stopped => Ran::Stopped(0),
            Claimed::Nothing => Ran::Nothing,
        };
        self.slots[index].hand.put_down();
        ran
    }

    /// Calls the handler with what is left of a claim, as far as it goes in one go. `None`: with nothing.
    fn call(&mut self, index: usize, turn: Turn<'_>, rest: &Given) -> Option<Called> {
        let group = &*self.group;
        let (Some(handlers), slot) = (&mut self.handlers, &mut self.slots[index]) else { return None };
        let Slot { lane, reader, seen, hand, home, .. } = slot;
        if !hand.progress.begins(rest.claim.first().get()) {
            return None;
        }
        // Not to be had: the cursor was moved meanwhile, and the claim is void.
        let Read::Ready(run) = lane.log.read(reader, rest.claim.len()) else { return None };
        let home = home.as_ref().unwrap_or(&group.home);
        let (partition, attempt) = (lane.partition, rest.failures.saturating_add(1));
        let batch = Batch { lent: Lent::Run(run), home, partition, attempt, lost: 0 };
        let (mut done, len) = (0, batch.len());
        let interrupt = Interrupt { word: &lane.word, seen: *seen, progress: Some(&hand.progress) };
        let verdict = contain(|| {
            if turn.panic {
                std::panic::resume_unwind(Box::new("a planned fault"));
            }
            handlers.of(index).deliver(&batch, &mut done, interrupt)
        });
        let settled = if done == len && verdict.is_ok() {
            None
        } else {
            let panicked = |text| Verdict { outcome: Outcome::Retry(Failure::panic(text)), blames: D::BLAMES };
            Some(settle(group, verdict.unwrap_or_else(panicked), &batch, done))
        };
        // Nothing of what is settled now is looked at any more.
        let failed = usize::from(matches!(settled, Some(Settled::Again { .. } | Settled::Buried(_))));
        done = if matches!(settled, Some(Settled::Singly { .. })) { 0 } else { done };
        reader.advance(rest.claim.first().plus((done + failed) as u64));
        reader.put_down();
        Some(Called { done, failed, settled })
    }

    fn hand_over(&mut self, index: usize, turn: Turn<'_>, mut rest: Given) -> Ran {
        let mut calls = 0;
        while !rest.claim.is_empty() {
            let Some(Called { done, failed, settled }) = self.call(index, turn, &rest) else { break };
            calls += done + failed;
            let (group, slot) = (&*self.group, &self.slots[index]);
            let Some(work) = slot.work(group) else { break };
            let now = group.lease().map(|_| group.clock.now());
            let given = match slot.hand.settles(now) {
                Settles::Counts(given) => given,
                refused => {
                    let overdue = match refused {
                        Settles::Due => slot.hand.end_own(),
                        _ => None,
                    };
                    // What was done before that was written down in its place.
                    let late = if D::BLAMES { 1 } else { (done + failed).max(1) };
                    work.late(rest.claim, late as u64);
                    if let Some((split, now)) = overdue.zip(now) {
                        work.follow(work.end(&split, End::Lease, now, Some(turn.executor)));
                    }
                    return Ran::Stopped(calls.max(1));
                }
            };
            let in_its_place = given.claim.first().lag_behind(rest.claim.first()) as usize;
            if in_its_place > 0 {
                slot.lane.log.gone_on(rest.claim.first(), given.claim.first());
            }
            let done = done.saturating_sub(in_its_place);
            let (whole, one) = (work.done(given.head(done)), given.behind(done).head(1));
            rest = given.behind(done + failed);
            match settled {
                None if whole => {}
                None => break,
                Some(Settled::Again { after, failures }) => {
                    work.fail(one, failures, after);
                    // What is behind it of its key has to wait.
                    if work.shared.failed.is_keyed() && !rest.claim.is_empty() {
                        work.release(rest);
                        return Ran::Stopped(calls);
                    }
                }
                Some(Settled::Buried(letter)) => work.bury(one, letter),
                Some(Settled::Singly { .. }) => {
                    work.shared.tally.retried.more(u64::from(work.release(rest) > 0));
                    return Ran::Stopped(calls + 1);
                }
                Some(Settled::Untouched) => {
                    work.release(rest);
                    return Ran::Stopped(calls.max(1));
                }
            }
            slot.hand.resumes(rest);
            if slot.lane.word.differs(slot.seen) || self.has_left() {
                break;
            }
        }
        self.give_back(index);
        if rest.claim.is_empty() { Ran::Calls(calls) } else { Ran::Stopped(calls) }
    }

    /// What is still in hand is given back.
    fn give_back(&mut self, index: usize) {
        self.slots[index].reader.put_down();
        let slot = &self.slots[index];
        if let (Settles::Counts(given), Some(work)) = (slot.hand.settles(None), slot.work(&self.group)) {
            if !given.claim.is_empty() {
                work.release(given);
            }
        }
    }

    /// Whether others have runs in hand, so that this lane is to be looked at once more before it is left alone.
    pub(super) fn others_run(&self, index: usize) -> bool {
        let slot = &self.slots[index];
        slot.shared().is_some_and(|shared| !shared.runs_of_others(&slot.hand).is_empty())
    }

    /// Looks at what others have in hand: ends what is over, and takes from a run what is not begun, if that has been so for a
    /// while. When to look again; an error: something was given back.
    pub(super) fn look_round(&mut self, index: usize, turn: Turn<'_>) -> Result<Option<Time>, ()> {
        let (group, slot) = (&*self.group, &mut self.slots[index]);
        let Some(shared) = slot.lane.shared.as_deref() else { return Ok(None) };
        let (work, mut found, mut next) = (Work { group, lane: &slot.lane, shared }, false, None);
        if group.lease().is_some() {
            let (ending, _) = work.end_leases(group.clock.now(), Some(turn.executor));
            found = ending.map(|ending| work.follow(ending)).is_some();
        }
        let runs = shared.runs_of_others(&slot.hand);
        if !runs.is_empty() {
            let (old, look) = slot.eyed.look(&runs, group.clock.now());
            next = look;
            found |= work.cut_all(&old);
        }
        if found { Err(()) } else { Ok(next) }
    }
}
