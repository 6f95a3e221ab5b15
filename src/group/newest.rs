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
//! Pushing is for the holder of the baton alone (one at a time), popping for who holds the lane.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::{contain, drop_contained};
use super::executor::Turn;
use super::handler::{Deliver, Interrupt, Verdict};
use super::lane::{Held, Lane};
use super::outcome::{Failure, Outcome};
use super::overflow::{Own, Rule};
use super::record::{Batch, Lent};
use super::settle::{Ran, commit, finish, settle};
use super::task::{MemberTask, Slot};
use crate::log::{self, Door, Log, Outlet};
use crate::ring::{Gate, TimeOf};
use crate::seq::Seq;
use crate::sync::atomic::AtomicU64;
use crate::sync::{Arc, Mutex, lock};
use crossbeam_queue::ArrayQueue;
use std::sync::OnceLock;

/// A clone, of which record, and when that was published.
pub(super) struct Waiting<T> {
    pub(super) at: Seq,
    pub(super) value: T,
    pub(super) time: Option<AtomicU64>,
}

impl<T> Waiting<T> {
    /// As a batch is made of it.
    pub(super) fn lent(&self) -> Lent<'_, T> {
        Lent::Clone(&self.value, self.at, TimeOf::of(&self.time))
    }
}

/// See the module.
pub(super) struct Newest<T> {
    queue: ArrayQueue<Waiting<T>>,
    clone: fn(&T) -> T,
    door: Door,
    /// The one that was taken out of the queue and is not done.
    at_hand: Mutex<Option<Waiting<T>>>,
    /// What was there when the group was closed.
    left: OnceLock<Vec<Waiting<T>>>,
}

impl<T: Send + Sync + 'static> Outlet<T> for Newest<T> {
    fn offer(&self, at: Seq, value: &T, time: Option<u64>) -> bool {
        if !self.door.lets_in(at) || self.queue.is_full() {
            return false;
        }
        match contain(|| (self.clone)(value)) {
            Ok(value) => self.queue.push(Waiting { at, value, time: time.map(AtomicU64::new) }).is_ok(),
            Err(_) => false,
        }
    }
}

impl<T: Send + Sync + 'static> Newest<T> {
    /// The queue of a lane to be, which is shown the records of `log` from now on; none if its group does not drop the newest.
    pub(super) fn of(own: Option<&Own<T>>, log: &Log<T>) -> Option<Arc<Self>> {
        let Own { rule: Rule::Newest(clone), most } = own? else { return None };
        let (clone, queue, door) = (*clone, ArrayQueue::new(*most), Door::default());
        let newest = Arc::new(Newest { queue, clone, door, at_hand: Mutex::new(None), left: OnceLock::new() });
        log.show_to(newest.clone());
        Some(newest)
    }

    /// The lane begins at its gate, which nobody has been given: or behind what was shown too early.
    pub(super) fn begin(&self, gate: &Gate) {
        let (at, epoch) = gate.snapshot();
        let _ = gate.commit(epoch, at, self.door.settle(at));
    }

    /// The first that is left of those behind `next`.
    fn take(&self, next: Seq) -> Option<Waiting<T>> {
        loop {
            let at_hand = lock(&self.at_hand).take();
            let waiting = at_hand.or_else(|| self.queue.pop())?;
            if !waiting.at.precedes(next) {
                return Some(waiting);
            }
            drop_contained(waiting); // the cursor was moved over it
        }
    }

    fn put_back(&self, waiting: Waiting<T>) {
        *lock(&self.at_hand) = Some(waiting);
    }

    /// How many wait.
    pub(super) fn len(&self) -> u64 {
        self.queue.len() as u64 + u64::from(lock(&self.at_hand).is_some())
    }

    /// The lane is over.
    pub(super) fn end(self: Arc<Self>, log: &Log<T>) {
        self.door.shut();
        let outlet: Arc<dyn Outlet<T>> = self.clone();
        log.show_no_more(&outlet);
        drop_contained(lock(&self.at_hand).take());
        while let Some(waiting) = self.queue.pop() {
            drop_contained(waiting);
        }
    }

    /// What nobody will take any more, once the group is closed.
    pub(super) fn left(&self) -> &[Waiting<T>] {
        self.left.get_or_init(|| {
            let at_hand = lock(&self.at_hand).take();
            at_hand.into_iter().chain(std::iter::from_fn(|| self.queue.pop())).collect()
        })
    }
}

impl<T> Drop for Newest<T> {
    /// Perhaps on a publisher's thread, which had it in view.
    fn drop(&mut self) {
        while let Some(waiting) = self.queue.pop() {
            drop_contained(waiting);
        }
        drop_contained(lock(&self.at_hand).take());
        self.left.take().into_iter().flatten().for_each(drop_contained);
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Of how many of the records behind the cursor, up to `end`, nothing is kept.
    pub(super) fn gone_by(&self, newest: &Newest<T>, (committed, taken, end): (Seq, Seq, Seq)) -> u64 {
        // The number first: what is shown meanwhile counts as waiting, and not as gone.
        let unseen = end.lag_behind(self.log.shown());
        let there = newest.len() + taken.since(committed) + unseen;
        end.since(committed).saturating_sub(there)
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
    pub(super) fn run_newest(&mut self, index: usize, turn: Turn, newest: &Newest<T>) -> Ran {
        let (group, Slot { lane, held, seen, .. }) = (&*self.group, &mut self.slots[index]);
        let (Some(held), Some(handlers)) = (held, &mut self.handlers) else { return Ran::Stopped(0) };
        // Before anything is taken: what has been published already finds the room there was.
        lane.log.hand_out(false);
        let shown = lane.log.shown();
        let Some(waiting) = newest.take(held.next) else {
            if !held.next.precedes(shown) {
                return Ran::Nothing;
            }
            lane.go_over_gone(group, held, shown);
            return Ran::Stopped(0);
        };
        let at = waiting.at;
        if held.next.precedes(at) {
            newest.put_back(waiting);
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
            drop_contained(waiting);
        } else {
            newest.put_back(waiting);
        }
        ran
    }
}
