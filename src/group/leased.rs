//! A step under a lease: as `MemberTask::run`, with a watch on how long the handler takes.
//!
//! A handler of single records is handed one at a time, each under a lease of its own and committed by itself, so that it
//! is known which one it hangs on. One of batches has the lease for the batch; if that runs out, its records come again one by
//! one.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::contain;
use super::executor::Turn;
use super::gap::behind;
use super::handler::{Deliver, Interrupt, Verdict};
use super::lane::{Held, Lane};
use super::outcome::{Failure, Outcome};
use super::record::{Batch, Lent};
use super::settle::{Ran, Settled, commit, finish, settle};
use super::task::{MemberTask, Slot};
use super::watch::{End, Kept, Watch};
use crate::log::Read;
use crate::seq::Seq;
use crate::sync::Arc;

/// How a run under a lease ended.
enum Left {
    /// In time.
    Settled(Ran),
    /// Too late, after so many calls that are refused.
    Late { refused: usize },
}

/// Whether the record that is next is to be given up: by a lease that ran out, or in a consumer's hands; there nobody had it
/// in hand who could bury it.
pub(super) fn is_spent<T>(group: &Group<T>, held: &Held<T>) -> bool {
    held.failures > 0 && !group.config.retry.allows_another(held.failures)
}

/// Gives up that record, which is all that is in hand.
#[cold]
pub(super) fn give_up<T: Send + Sync + 'static>(group: &Group<T>, lane: &Lane<T>, batch: &Batch<'_, T>) -> Settled {
    let failure = lane.cause(Seq::new(batch.offset())).into_failure();
    settle(group, Verdict { outcome: Outcome::Reject(failure), blames: true }, batch, 0)
}

impl<T: Send + Sync + 'static, D: Deliver<T>> MemberTask<T, D> {
    /// Hands over one run and settles it, if it comes back in time.
    #[cold]
    #[inline(never)]
    pub(super) fn run_leased(&mut self, index: usize, turn: Turn<'_>, budget: usize, watch: &Arc<Watch>) -> Ran {
        match self.hand_over(index, turn, budget, watch) {
            Left::Settled(ran) => {
                if let Some(held) = &self.slots[index].held {
                    watch.keep(held.kept());
                }
                ran
            }
            Left::Late { refused } => self.come_late(index, watch, refused),
        }
    }

    fn hand_over(&mut self, index: usize, turn: Turn<'_>, budget: usize, watch: &Arc<Watch>) -> Left {
        let (group, Slot { lane, held, seen, home }) = (&*self.group, &mut self.slots[index]);
        let (Some(held), Some(handlers), Some(home)) = (held, &mut self.handlers, home) else {
            return Left::Settled(Ran::Stopped(0));
        };
        let spent = is_spent(group, held);
        let bound = lane.bound(budget, D::BLAMES, group.commit_bound);
        let most = held.limit(if turn.panic || spent || D::BLAMES { 1 } else { bound });
        let read = lane.own_gap(held).map_or_else(|| lane.log.read(&mut held.reader, most), Read::Gap);
        let (run, spent) = match read {
            Read::Ready(run) => (run, spent),
            Read::Pending => return Left::Settled(Ran::Nothing),
            Read::Gap(gap) => match behind(group, lane, *seen, held, gap, most) {
                Some(len) => (held.reader.lent(len), false),
                None => return Left::Settled(Ran::Stopped(0)),
            },
        };
        home.begin(watch, held.epoch);
        let Held { next: at, epoch, failures, single_until, lost, lifted, .. } = **held;
        let kept = Kept { at, epoch, failures, due: None, single_until, lost, lifted };
        let (first, len, partition) = (run.first(), run.len(), lane.partition);
        let attempt = if spent { failures } else { failures.saturating_add(1) };
        let batch = Batch { lent: Lent::Run(run), home, partition, attempt, lost };
        if spent {
            let settled = give_up(group, lane, &batch);
            return Left::Settled(finish(group, lane, held, 0, settled));
        }
        if !watch.begin(&lane.word, (self.member, turn.executor), (first, len as u64), kept) {
            return Left::Settled(Ran::Stopped(0));
        }
        if lane.tells {
            lane.took(first.plus(len as u64), epoch);
        }
        let (mut done, interrupt) = (0, Interrupt { word: &lane.word, seen: *seen, progress: None });
        let verdict = contain(|| {
            if turn.panic {
                std::panic::resume_unwind(Box::new("a planned fault"));
            }
            handlers.of(index).deliver(&batch, &mut done, interrupt)
        });
        let in_time = match watch.end(self.member) {
            End::InTime => true,
            End::Due => {
                group.lapse_here(lane);
                false
            }
            End::Late => false,
        };
        let all = done == len && verdict.is_ok();
        if !in_time {
            return Left::Late { refused: if all { done } else { (done + 1).min(len) } };
        }
        if all {
            let goes_on = commit(group, lane, held, done, None) && held.due.is_none();
            return Left::Settled(if goes_on { Ran::Calls(done) } else { Ran::Stopped(done) });
        }
        let panicked = |text| Verdict { outcome: Outcome::Retry(Failure::panic(text)), blames: D::BLAMES };
        let settled = settle(group, verdict.unwrap_or_else(panicked), &batch, done);
        Left::Settled(finish(group, lane, held, done, settled))
    }

    /// The handler was not back in time: nothing of what it did counts. Goes on with the lane, unless that is another's now.
    fn come_late(&mut self, index: usize, watch: &Watch, refused: usize) -> Ran {
        let partition = {
            let lane = &self.slots[index].lane;
            lane.counters.late.add_shared(refused as u64);
            lane.partition
        };
        self.group.returned(self.member, partition);
        let slot = &mut self.slots[index];
        match &mut slot.held {
            Some(held) if slot.lane.word.load().is_held_by(self.member) => {
                held.resync(&slot.lane.gate);
                held.recall(watch.lock().kept);
                slot.lane.lend(held, self.member);
            }
            _ => drop(slot.held.take()),
        }
        Ran::Stopped(refused)
    }
}
