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
//! Pushing is for the holder of the baton alone (one at a time), popping for who holds the lane, or moves its cursor.
//!
//! | label    | operation     | order   | why this much, and why no more                                  |
//! |----------|---------------|---------|-----------------------------------------------------------------|
//! | clones:A | put, add      | Release | the time of what was put; pairs with clones:E                   |
//! | clones:B | done, add     | Relaxed | a figure                                                        |
//! | clones:C | done, load    | Acquire | what is asked next is not older; pairs with nothing: a load     |
//! | clones:D | put, load     | Relaxed | behind the number of what was shown, which was acquired         |
//! | clones:E | put, load     | Acquire | the time of what was put; pairs with clones:A                   |
//! | clones:F | a time, store | Relaxed | before clones:A; its place was popped, which the queue orders    |
//! | clones:G | a time, load  | Relaxed | behind clones:E; what waits keeps its place while the front is locked |
//! | clones:H | put, load     | Relaxed | by the holder of the baton, who alone changes it                 |
//! | ahead:A  | ahead, store  | Relaxed | before the pop; who misses it saw the queue as it was before the cursor was moved |
//! | ahead:B  | ahead, store  | Relaxed | as above, after the take                                        |
//! | ahead:D  | ahead, store  | Relaxed | as above                                                        |
//! | ahead:C  | ahead, load   | Relaxed | compared only                                                   |
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
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
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

    fn lent_time(&self) -> Option<Time> {
        TimeOf::of(&self.time).get().map(Time::from_nanos)
    }
}

/// See the module.
pub(super) struct Newest<T> {
    queue: ArrayQueue<Waiting<T>>,
    clone: fn(&T) -> T,
    door: Door,
    front: Mutex<Front<T>>,
    /// How many were put into the queue, and how many of them are done with. What is between waits, or is in hand.
    put: AtomicU64,
    done: AtomicU64,
    /// When what waits in the queue was published: the nth that was put there in place n modulo their number. Empty where
    /// records have no times.
    times: Box<[AtomicU64]>,
    /// How many of those that wait stand before the queue, and not in it.
    ahead: AtomicU64,
    /// What was there when the group was closed.
    left: OnceLock<Vec<Waiting<T>>>,
}

/// What stands before the queue. Only who moves the cursor puts more than one there.
struct Front<T> {
    waiting: VecDeque<Waiting<T>>,
    /// How many have left the queue.
    popped: u64,
    /// Nothing more is taken before so much has been shown: so much had been published when the lane came for it.
    upto: Option<Seq>,
}

impl<T> Front<T> {
    fn pop(&mut self, queue: &ArrayQueue<Waiting<T>>) -> Option<Waiting<T>> {
        let popped = queue.pop();
        self.popped += u64::from(popped.is_some());
        popped
    }
}

/// What a lane finds that comes for the next one.
enum Found<T> {
    One(Waiting<T>),
    /// Nothing waits.
    Nothing,
    /// It is not decided yet what does.
    NotYet,
}

impl<T: Send + Sync + 'static> Outlet<T> for Newest<T> {
    fn offer(&self, at: Seq, value: &T, time: Option<u64>) {
        if !self.door.lets_in(at) || self.is_full() {
            return;
        }
        let Ok(value) = contain(|| (self.clone)(value)) else { return };
        // Only the holder of the baton puts anything there: so there is room still.
        self.note_time(time);
        if self.queue.push(Waiting { at, value, time: time.map(AtomicU64::new) }).is_ok() {
            // ORD(clones:A) Release: the time of what was put. Pairs with ORD(clones:E).
            self.put.fetch_add(1, Release);
        }
        if self.door.is_shut() {
            self.empty();
        }
    }
}

impl<T: Send + Sync + 'static> Newest<T> {
    /// The queue of a lane to be, which is shown the records of `log` from now on; none if its group does not drop the newest.
    pub(super) fn of(own: Option<&Own<T>>, log: &Log<T>) -> Option<Arc<Self>> {
        let Own { rule: Rule::Newest(clone), most } = own? else { return None };
        let newest = Arc::new(Newest {
            queue: ArrayQueue::new(*most),
            clone: *clone,
            door: Door::default(),
            front: Mutex::new(Front { waiting: VecDeque::new(), popped: 0, upto: None }),
            put: AtomicU64::new(0),
            done: AtomicU64::new(0),
            times: (0..if log.has_times() { *most } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            ahead: AtomicU64::new(0),
            left: OnceLock::new(),
        });
        log.show_to(newest.clone());
        Some(newest)
    }

    /// The lane begins at its gate, which nobody has been given: or behind what was shown too early.
    pub(super) fn begin(&self, gate: &Gate) {
        let (at, epoch) = gate.snapshot();
        let _ = gate.commit(epoch, at, self.door.settle(at));
    }

    /// The first that is left of those behind `next`, if all that was published when the lane began to ask has been shown.
    fn take(&self, next: Seq, log: &Log<T>) -> Found<T> {
        loop {
            let found = {
                let mut front = lock(&self.front);
                let found = front.waiting.pop_front();
                if found.is_some() && front.waiting.is_empty() {
                    // ORD(ahead:B) Relaxed: it does not wait any more.
                    self.ahead.store(0, Relaxed);
                }
                match found {
                    None if log.shown().precedes(*front.upto.get_or_insert_with(|| log.end())) => return Found::NotYet,
                    None => {
                        front.upto = None;
                        front.pop(&self.queue)
                    }
                    found => found,
                }
            };
            match found {
                None => return Found::Nothing,
                Some(waiting) if waiting.at.precedes(next) => self.done_with(waiting), // the cursor was moved over it
                Some(waiting) => return Found::One(waiting),
            }
        }
    }

    /// Whether a lane that comes would find something, or something decided.
    pub(super) fn is_ready(&self, next: Seq, log: &Log<T>) -> bool {
        let (front, shown) = (lock(&self.front), log.shown());
        let decided = front.upto.is_none_or(|upto| !shown.precedes(upto));
        !front.waiting.is_empty() || log.has_undone() || (decided && (!self.queue.is_empty() || next.precedes(shown)))
    }

    fn put_back(&self, waiting: Waiting<T>) {
        lock(&self.front).waiting.push_front(waiting);
        if self.door.is_shut() {
            self.empty();
        }
    }

    /// It does not wait any more, and is in nobody's hands.
    fn done_with(&self, waiting: Waiting<T>) {
        // ORD(clones:B) Relaxed: a figure.
        self.done.fetch_add(1, Relaxed);
        drop_contained(waiting);
    }

    /// How many are done with. To be asked before anything else is.
    pub(super) fn done(&self) -> u64 {
        // ORD(clones:C) Acquire: what is asked next is not older.
        self.done.load(Acquire)
    }

    /// How many were put into the queue. To be asked after how many have been shown.
    pub(super) fn put(&self) -> u64 {
        // ORD(clones:D) Relaxed: behind the number of what was shown, which was acquired.
        self.put.load(Relaxed)
    }

    fn is_full(&self) -> bool {
        // ORD(ahead:C) Relaxed: compared only.
        self.queue.len() as u64 + self.ahead.load(Relaxed) >= self.queue.capacity() as u64
    }

    /// When the next one is put into the queue, that was published.
    fn note_time(&self, time: Option<u64>) {
        // ORD(clones:H) Relaxed: only who has the baton changes it.
        let place = self.put.load(Relaxed) % (self.times.len() as u64).max(1);
        if let (Some(time), Some(noted)) = (time, self.times.get(place as usize)) {
            // ORD(clones:F) Relaxed: before the addition, which releases it.
            noted.store(time, Relaxed);
        }
    }

    /// When the first that waits was published; `None` if nothing does, or records have no times.
    pub(super) fn oldest(&self) -> Option<Time> {
        if let Some(left) = self.left.get() {
            return left.first()?.lent_time();
        }
        let front = lock(&self.front);
        if let Some(first) = front.waiting.front() {
            return first.lent_time();
        }
        // ORD(clones:E) Acquire: the time of what was put. Pairs with ORD(clones:A).
        let waits = front.popped < self.put.load(Acquire);
        let noted = self.times.get((front.popped % (self.times.len() as u64).max(1)) as usize);
        // ORD(clones:G) Relaxed: behind the load above, which acquired it.
        noted.filter(|_| waits).map(|noted| Time::from_nanos(noted.load(Relaxed)))
    }

    /// The cursor was moved to `to`: what waits before it gives its place away.
    pub(super) fn passed_over(&self, to: Seq) {
        let mut gone = Vec::new();
        {
            let mut front = lock(&self.front);
            front.upto = None;
            let (before, mut behind) = partition(std::mem::take(&mut front.waiting), to);
            gone.extend(before);
            // ORD(ahead:A) Relaxed: before the pop. Until we are through, one more is counted than waits, and no room is found
            // that was not there before.
            self.ahead.store(u64::from(behind.is_empty()), Relaxed);
            while behind.is_empty() {
                let Some(waiting) = front.pop(&self.queue) else { break };
                if waiting.at.precedes(to) { gone.push(waiting) } else { behind.push_back(waiting) }
            }
            if behind.is_empty() {
                // ORD(ahead:D) Relaxed: nothing stands there.
                self.ahead.store(0, Relaxed);
            }
            front.waiting = behind;
        }
        gone.into_iter().for_each(|waiting| self.done_with(waiting));
    }

    /// The lane is over.
    pub(super) fn end(self: Arc<Self>, log: &Log<T>) {
        self.door.shut();
        let outlet: Arc<dyn Outlet<T>> = self.clone();
        log.show_no_more(&outlet);
        self.empty();
    }

    /// What nobody will take any more, once the group is closed.
    pub(super) fn left(&self) -> &[Waiting<T>] {
        self.left.get_or_init(|| {
            let front = std::mem::take(&mut lock(&self.front).waiting);
            front.into_iter().chain(std::iter::from_fn(|| self.queue.pop())).collect()
        })
    }
}

/// What lies before `to`, and what does not.
fn partition<T>(all: VecDeque<Waiting<T>>, to: Seq) -> (Vec<Waiting<T>>, VecDeque<Waiting<T>>) {
    let (mut before, mut behind) = (Vec::new(), VecDeque::new());
    for waiting in all {
        if waiting.at.precedes(to) { before.push(waiting) } else { behind.push_back(waiting) }
    }
    (before, behind)
}

impl<T> Newest<T> {
    fn empty(&self) {
        let front = std::mem::take(&mut lock(&self.front).waiting);
        front.into_iter().for_each(drop_contained);
        while let Some(waiting) = self.queue.pop() {
            drop_contained(waiting);
        }
    }
}

impl<T> Drop for Newest<T> {
    /// Perhaps on a publisher's thread, which had it in view.
    fn drop(&mut self) {
        self.empty();
        self.left.take().into_iter().flatten().for_each(drop_contained);
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
            newest.done_with(waiting);
        } else {
            newest.put_back(waiting);
        }
        ran
    }
}
