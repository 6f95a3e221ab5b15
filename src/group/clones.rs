//! What waits where the newest are dropped: a queue of clones, into which the log's handing out puts them, and what stands before it.
//!
//! Pushing is for the holder of the baton alone (one at a time), popping for who holds the lane, or moves its cursor.
//!
//! | label    | operation     | order   | why this much, and why no more                                  |
//! |----------|---------------|---------|-----------------------------------------------------------------|
//! | clones:A | put, add      | Release | the time of what was put; pairs with clones:E                   |
//! | clones:B | done, add     | Release | the commit, or the move, by which it does not wait any more; pairs with clones:C |
//! | clones:C | done, load    | Acquire | the cursor, which is asked next, is not older: else what was done with would look lost; pairs with clones:B |
//! | clones:D | put, load     | Relaxed | behind the number of what was shown, which was acquired         |
//! | clones:E | put, load     | Acquire | the time of what was put; pairs with clones:A                   |
//! | clones:F | a time, store | Relaxed | before clones:A; its place was popped, which the queue orders    |
//! | clones:G | a time, load  | Relaxed | behind clones:E; what waits keeps its place while the front is locked |
//! | clones:H | put, load     | Relaxed | by the holder of the baton, who alone changes it                 |
//! | ahead:A  | ahead, store  | Relaxed | before the pop; who misses it saw the queue as it was before the cursor was moved |
//! | ahead:B  | ahead, store  | Relaxed | as above, after the take                                        |
//! | ahead:D  | ahead, store  | Relaxed | as above                                                        |
//! | ahead:F  | ahead, store  | Relaxed | as ahead:B: counted there already, but for what was in hand |
//! | ahead:C  | ahead, load   | Relaxed | compared only                                                   |
#![forbid(unsafe_code)]

use super::contain::{contain, drop_contained};
use crate::log::{Door, Log, Outlet};
use crate::ring::{Gate, TimeOf};
use crate::seq::Seq;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::fmt;
use std::sync::OnceLock;

/// A clone, of which record, and when that was published.
#[derive(Debug)]
pub struct Waiting<T> {
    /// Of which record.
    pub at: Seq,
    /// The clone.
    pub value: T,
    /// When that was published.
    pub time: Option<AtomicU64>,
}

impl<T> Waiting<T> {
    fn lent_time(&self) -> Option<Time> {
        TimeOf::of(&self.time).get().map(Time::from_nanos)
    }
}

/// See the module.
pub struct Newest<T> {
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
    /// How many stand before the queue and wait: all but the one that is in hand. Or one more, for a moment.
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
#[derive(Debug)]
pub enum Found<T> {
    /// This one.
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
    /// An empty one for `most` clones, with a time each if records are `timed`. It is to be shown the records of its log.
    pub fn of_clones(most: usize, clone: fn(&T) -> T, timed: bool) -> Self {
        Newest {
            queue: ArrayQueue::new(most),
            clone,
            door: Door::default(),
            front: Mutex::new(Front { waiting: VecDeque::new(), popped: 0, upto: None }),
            put: AtomicU64::new(0),
            done: AtomicU64::new(0),
            times: (0..if timed { most } else { 0 }).map(|_| AtomicU64::new(0)).collect(),
            ahead: AtomicU64::new(0),
            left: OnceLock::new(),
        }
    }

    /// The lane begins at its gate, which nobody has been given: or behind what was shown too early.
    pub fn begin(&self, gate: &Gate) {
        let (at, epoch) = gate.snapshot();
        let _ = gate.commit(epoch, at, self.door.settle(at));
    }

    /// The first that is left of those behind `next`, if all that was published when the lane began to ask has been shown.
    pub fn take(&self, next: Seq, log: &Log<T>) -> Found<T> {
        loop {
            let found = {
                let mut front = lock(&self.front);
                let found = front.waiting.pop_front();
                let found = match found {
                    None if log.shown().precedes(*front.upto.get_or_insert_with(|| log.end())) => return Found::NotYet,
                    None => {
                        front.upto = None;
                        front.pop(&self.queue)
                    }
                    found => found,
                };
                // What comes later than next does not go into a handler's hands now, and what comes before it waits for nobody. Only behind the pop: what comes in between finds
                // the room of one that was being taken, and is not dropped for one that does not wait.
                let waits = found.as_ref().is_some_and(|waiting| next.precedes(waiting.at));
                // ORD(ahead:B) Relaxed: what is handed over does not wait any more.
                self.ahead.store(front.waiting.len() as u64 + u64::from(waits), Relaxed);
                found
            };
            match found {
                None => return Found::Nothing,
                Some(waiting) if waiting.at.precedes(next) => self.done_with(waiting), // the cursor was moved over it
                Some(waiting) => return Found::One(waiting),
            }
        }
    }

    /// Whether a lane that comes would find something, or something decided.
    pub fn is_ready(&self, next: Seq, log: &Log<T>) -> bool {
        let (front, shown) = (lock(&self.front), log.shown());
        let decided = front.upto.is_none_or(|upto| !shown.precedes(upto));
        !front.waiting.is_empty() || log.has_undone() || (decided && (!self.queue.is_empty() || next.precedes(shown)))
    }

    /// It comes before all others: `in_hand`, because it has failed and is tried again, or waits as they do.
    pub fn put_back(&self, waiting: Waiting<T>, in_hand: bool) {
        {
            let mut front = lock(&self.front);
            front.waiting.push_front(waiting);
            // ORD(ahead:F) Relaxed: what has been counted already where it was not in hand, as it was not taken out.
            self.ahead.store(front.waiting.len() as u64 - u64::from(in_hand), Relaxed);
        }
        if self.door.is_shut() {
            self.empty();
        }
    }

    /// It does not wait any more, and is in nobody's hands.
    pub fn done_with(&self, waiting: Waiting<T>) {
        // ORD(clones:B) Release: the cursor was moved over it. Pairs with ORD(clones:C).
        self.done.fetch_add(1, Release);
        drop_contained(waiting);
    }

    /// How many are done with. To be asked before anything else is.
    pub fn done(&self) -> u64 {
        // ORD(clones:C) Acquire: the cursor, which is asked next, is not older. Pairs with ORD(clones:B).
        self.done.load(Acquire)
    }

    /// How many were put into the queue. To be asked after how many have been shown.
    pub fn put(&self) -> u64 {
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
    pub fn oldest(&self) -> Option<Time> {
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
    pub fn passed_over(&self, to: Seq) {
        let mut gone = Vec::new();
        {
            let mut front = lock(&self.front);
            front.upto = None;
            let (before, mut behind) = partition(std::mem::take(&mut front.waiting), to);
            gone.extend(before);
            // ORD(ahead:A) Relaxed: before the pop. Until we are through, one more is counted than waits, and no room is found
            // that was not there before.
            self.ahead.store((behind.len() as u64).max(1), Relaxed);
            while behind.is_empty() {
                let Some(waiting) = front.pop(&self.queue) else { break };
                if waiting.at.precedes(to) { gone.push(waiting) } else { behind.push_back(waiting) }
            }
            // ORD(ahead:D) Relaxed: so many stand there, and none is in hand any more.
            self.ahead.store(behind.len() as u64, Relaxed);
            front.waiting = behind;
        }
        gone.into_iter().for_each(|waiting| self.done_with(waiting));
    }

    /// Nothing more is taken in. What waits is to be [emptied](Self::empty) afterwards.
    pub fn shut(&self) {
        self.door.shut();
    }

    /// What nobody will take any more, once the group is closed.
    pub fn left(&self) -> &[Waiting<T>] {
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
    /// What waits goes.
    pub fn empty(&self) {
        let front = std::mem::take(&mut lock(&self.front).waiting);
        front.into_iter().for_each(drop_contained);
        while let Some(waiting) = self.queue.pop() {
            drop_contained(waiting);
        }
    }
}

impl<T> fmt::Debug for Newest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Newest").field("put", &self.put).field("done", &self.done).finish_non_exhaustive()
    }
}

impl<T> Drop for Newest<T> {
    /// Perhaps on a publisher's thread, which had it in view.
    fn drop(&mut self) {
        self.empty();
        self.left.take().into_iter().flatten().for_each(drop_contained);
    }
}
