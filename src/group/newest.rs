//! A mailbox that drops the newest: what waits is in a queue of its own, in clones, and who publishes puts it there.
//!
//! ```text
//!   publishers ── log::handout, in order ──▶ room? ── yes: clone ──▶ [ 41 | 42 | 47 ] ──▶ at hand ──▶ handler
//!                                              │                        at most so many
//!                                              └ no: the record has gone by, and nothing is kept of it
//! ```
//! What has gone by is not counted anywhere: of the records behind the cursor that have been shown, it is those that are
//! neither in the queue nor at hand. The lane commits over them when it comes to the next one that it has, or finds the
//! queue empty: a gap as any other.
//!
//! The queue, and what stands before it, are [`Newest`]; here is what a lane does with it.
#![forbid(unsafe_code)]

use super::Group;
use super::clones::{Found, Newest, Waiting};
use super::contain::contain;
use super::executor::Turn;
use super::handler::{Deliver, Interrupt, Verdict};
use super::lane::{Held, Lane};
use super::outcome::{Failure, Outcome};
use super::overflow::{Own, Rule};
use super::record::{Batch, Lent};
use super::settle::{Ran, commit, finish, settle};
use super::task::{MemberTask, Slot};
use crate::log::{self, Log, Outlet};
use crate::ring::TimeOf;
use crate::seq::Seq;
use crate::sync::Arc;

impl<T> Waiting<T> {
    /// As a batch is made of it.
    pub(super) fn lent(&self) -> Lent<'_, T> {
        Lent::Clone(&self.value, self.at, TimeOf::of(&self.time))
    }
}

impl<T: Send + Sync + 'static> Newest<T> {
    /// The queue of a lane to be, which is shown the records of `log` from now on; none if its group does not drop the newest.
    pub(super) fn of(own: Option<&Own<T>>, log: &Log<T>) -> Option<Arc<Self>> {
        let Own { rule: Rule::Newest(clone), most } = own? else { return None };
        let newest = Arc::new(Newest::of_clones(*most, *clone, log.has_times()));
        log.show_to(newest.clone());
        Some(newest)
    }

    /// The lane is over.
    pub(super) fn end(self: Arc<Self>, log: &Log<T>) {
        self.shut();
        let outlet: Arc<dyn Outlet<T>> = self.clone();
        log.show_no_more(&outlet);
        self.empty();
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// How many of the records up to `end` wait or are in hand, of those that were not `done` with when it began to be counted: of
    /// the others behind the cursor nothing is kept.
    pub(super) fn kept_of(&self, newest: &Newest<T>, done: u64, end: Seq) -> u64 {
        // In this order: what is shown meanwhile is counted twice rather than not at all.
        let shown = self.log.shown();
        newest.put().saturating_sub(done) + end.lag_behind(shown)
    }

    /// Commits over records that have gone by.
    fn go_over_gone(&self, group: &Group<T>, held: &mut Held<T>, to: Seq) {
        let gap = log::Gap { from: held.next, to, expired: 0, conflated: 0 };
        if !self.pass(held.epoch, &gap) {
            return held.resync(&self.gate);
        }
        held.passed(&gap);
        group.progress.notify();
        group.tell(self.partition, &gap);
    }
}

impl<T: Send + Sync + 'static, D: Deliver<T>> MemberTask<T, D> {
    /// Hands over the next of those that wait, and settles it.
    #[inline(never)]
    pub(super) fn run_newest(&mut self, index: usize, turn: Turn<'_>, newest: &Newest<T>) -> Ran {
        let (group, Slot { lane, held, seen, .. }) = (&*self.group, &mut self.slots[index]);
        let (Some(held), Some(handlers)) = (held, &mut self.handlers) else { return Ran::Stopped(0) };
        // Before anything is taken: what has been published already finds the room there was.
        lane.log.hand_out(lane.log.end(), false);
        let shown = lane.log.shown();
        let waiting = match newest.take(held.next, &lane.log) {
            Found::One(waiting) => waiting,
            Found::Nothing if held.next.precedes(shown) => {
                lane.go_over_gone(group, held, shown);
                return Ran::Stopped(0);
            }
            Found::Nothing | Found::NotYet => return Ran::Nothing,
        };
        let at = waiting.at;
        if held.next.precedes(at) {
            newest.put_back(waiting, false);
            lane.go_over_gone(group, held, at);
            return Ran::Stopped(0);
        }
        lane.took(at.plus(1), held.epoch);
        let (home, partition, attempt) = (&group.home, lane.partition, held.failures.saturating_add(1));
        let batch = Batch { lent: waiting.lent(), home, partition, attempt, lost: held.lost };
        let (mut done, interrupt) = (0, Interrupt { word: &lane.word, seen: *seen, progress: None });
        let verdict = contain(|| {
            if turn.panic {
                std::panic::resume_unwind(Box::new("a planned fault"));
            }
            handlers.of(index).deliver(&batch, &mut done, interrupt)
        });
        let ran = if done == 1 && verdict.is_ok() {
            if commit(group, lane, held, 1, None) { Ran::Calls(1) } else { Ran::Stopped(1) }
        } else {
            let panicked = |text| Verdict { outcome: Outcome::Retry(Failure::panic(text)), blames: D::BLAMES };
            let settled = settle(group, verdict.unwrap_or_else(panicked), &batch, done);
            finish(group, lane, held, done, settled)
        };
        if at.precedes(held.next) {
            newest.done_with(waiting);
        } else {
            newest.put_back(waiting, held.next == at && held.failures > 0);
        }
        ran
    }
}
