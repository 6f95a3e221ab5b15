//! A member's task in a pool, and its run.
#![forbid(unsafe_code)]

use super::hand::Hand;
use super::source::Source;
use super::turn::TurnWord;
use super::{Item, Shared};
use crate::group::contain::{contain, drop_contained};
use crate::group::context::Id;
use crate::group::{Seat, Step, Task, Turn};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;
use std::fmt;
use std::sync::OnceLock;

/// Records that one lane may hand over before others have their turn.
const BUDGET: usize = 256;

/// A task, and the lanes that it is to step.
///
/// | label       | operation           | order   | why this much, and why no more                                        |
/// |-------------|---------------------|---------|-----------------------------------------------------------------------|
/// | cell_due:A, cell_due:B, cell_due:C | a lane's flag, store and swap | Relaxed | before and after the turn word's own orderings |
/// | cell_at:A, cell_at:B | a lane's place, store and load | Relaxed | under the source's lock                                |
/// | cell_timed:A, cell_timed:B, cell_timed:C, cell_timed:D | a lane's time, store and load | Relaxed | by who runs it, and by who takes the entry off the list of timers: at worst there is one entry too many |
pub(super) struct Cell {
    id: Id,
    pool: Arc<Shared>,
    word: TurnWord,
    /// Out of its place while it is run; empty for good once its member has left.
    task: Mutex<Option<Box<dyn Task>>>,
    links: OnceLock<Box<[Link]>>,
}

/// One lane of the task.
struct Link {
    source: Arc<Source>,
    at: AtomicUsize,
    due: AtomicBool,
    /// For when it stands in the list of timers; 0: it does not.
    timed: AtomicU64,
}

impl Cell {
    pub(super) fn new(pool: Arc<Shared>) -> Arc<Self> {
        let (word, task, links) = (TurnWord::new(), Mutex::new(None), OnceLock::new());
        Arc::new(Cell { id: Id::fresh(), pool, word, task, links })
    }

    /// Takes its task over, which gets its data from `sources`, lane by lane.
    pub(super) fn begin(self: &Arc<Self>, task: Box<dyn Task>, sources: Vec<Arc<Source>>) {
        let link = |source| {
            let (at, due, timed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicU64::new(0));
            Link { source, at, due, timed }
        };
        // The task first: who rings in between finds no lanes, and queues nothing. A run without a task would be the last.
        *lock(&self.task) = Some(task);
        let links = self.links.get_or_init(|| sources.into_iter().map(link).collect());
        for (lane, link) in links.iter().enumerate() {
            link.source.add(self, lane);
        }
        self.rings();
    }

    /// Has all its lanes stepped.
    pub(super) fn rings(self: &Arc<Self>) {
        let wanted = (0..self.links().len()).filter(|lane| self.want(*lane)).count();
        if wanted > 0 {
            self.pool.crew.submit(Item::Cell(self.clone()));
        }
    }

    pub(super) fn id(&self) -> Id {
        self.id
    }

    pub(super) fn pool(&self) -> &Arc<Shared> {
        &self.pool
    }

    fn links(&self) -> &[Link] {
        self.links.get().map_or(&[], |links| links)
    }

    /// Where the lane stands in its source's list.
    pub(super) fn place(&self, lane: usize) -> usize {
        // ORD(cell_at:B) Relaxed: see the table.
        self.links()[lane].at.load(Relaxed)
    }

    pub(super) fn stands(&self, lane: usize, at: usize) {
        // ORD(cell_at:A) Relaxed: see the table.
        self.links()[lane].at.store(at, Relaxed);
    }

    /// A lane has something to do. True: the caller has to queue the cell.
    pub(super) fn want(&self, lane: usize) -> bool {
        // ORD(cell_due:A) Relaxed: see the table.
        self.links()[lane].due.store(true, Relaxed);
        self.word.want()
    }

    /// Its backoff is over: as `want`.
    pub(super) fn is_due(&self, lane: usize) -> bool {
        // ORD(cell_timed:A) Relaxed: see the table.
        self.links()[lane].timed.store(0, Relaxed);
        self.want(lane)
    }

    /// Whether nobody runs it, or will. May have changed.
    pub(super) fn is_idle(&self) -> bool {
        self.word.is_idle()
    }

    /// Whether data would make a lane step. Who runs, or will, is taken to want some.
    pub(super) fn listens(&self, lane: usize) -> bool {
        lock(&self.task).as_ref().is_none_or(|task| task.event(lane).is_some())
    }

    /// Whether a step of a lane would find something. Who runs has perhaps looked too early.
    pub(super) fn is_ready(&self, lane: usize) -> bool {
        !self.word.is_idle() || lock(&self.task).as_ref().is_none_or(|task| task.ready(lane))
    }

    /// Runs it: on a thread of the pool that took it off a queue, and has `own` sources of it among what is left for later.
    /// Whether it had more to do than it was let.
    pub(super) fn run(self: &Arc<Self>, hand: &mut Hand<Item>, own: usize) -> bool {
        self.word.begin();
        let Some(mut task) = lock(&self.task).take() else { return false }; // its member has left: nobody queues it again
        if hand.enters(own, self.pool.timers.next().is_some()) {
            let _ = self.pool.grows(hand.clock()); // refused by the system: it is asked again with the next run
        }
        let stepped = contain(|| (!self.pool.is_stopping()).then(|| self.steps(&mut *task)));
        let Ok(Some(more)) = stepped.map(|more| more.filter(|_| !task.finished())) else {
            self.pool.forgets(self);
            drop_contained(task); // hands over what it holds, and drops the handler
            hand.leaves();
            self.pool.has_left(self);
            return false;
        };
        hand.leaves();
        *lock(&self.task) = Some(task);
        for link in self.links().iter().filter(|link| link.source.was_stepped()) {
            hand.put_later(Item::Source(link.source.clone()));
        }
        if more {
            let _ = self.word.want(); // it is busy, so nobody else queues it
        }
        if self.word.end() {
            hand.put(Item::Cell(self.clone()));
        }
        more
    }

    /// Steps what is due; whether there is more.
    fn steps(self: &Arc<Self>, task: &mut dyn Task) -> bool {
        let ends = Some(self.pool.stops_turns());
        let turn = Turn { executor: self.id, budget: BUDGET, adapt: true, panic: false, ends };
        let mut more = false;
        for (lane, link) in self.links().iter().enumerate() {
            if turn.is_ended() {
                return true;
            }
            // ORD(cell_due:B) Relaxed: see the table.
            if !link.due.swap(false, Relaxed) {
                continue;
            }
            match task.step(lane, turn) {
                Step::Worked { more: some, .. } if some || (link.source.is_armed() && task.ready(lane)) => {
                    // ORD(cell_due:C) Relaxed: as cell_due:A.
                    link.due.store(true, Relaxed);
                    more = true;
                }
                Step::Backoff { until } => self.waits(lane, until),
                Step::Worked { .. } | Step::Waits | Step::Paused | Step::Elsewhere | Step::Ended => {}
            }
        }
        more
    }

    fn waits(self: &Arc<Self>, lane: usize, until: Time) {
        let timed = &self.links()[lane].timed;
        // ORD(cell_timed:B) Relaxed: see the table.
        let known = timed.load(Relaxed);
        let until = until.max(Time::from_nanos(1)); // 0 says that there is none
        if known == 0 || until.as_nanos() < known {
            // ORD(cell_timed:C) Relaxed: as cell_timed:A.
            timed.store(until.as_nanos(), Relaxed);
            let whose = (self.id.get(), lane);
            drop(self.pool.timers.remove(Time::from_nanos(known), whose));
            self.pool.timers.put(until, whose, self.clone());
        }
    }

    /// Takes its lanes off the list of timers.
    pub(super) fn is_due_no_more(&self) {
        for (lane, link) in self.links().iter().enumerate() {
            // ORD(cell_timed:D) Relaxed: as cell_timed:B.
            let at = Time::from_nanos(link.timed.load(Relaxed));
            drop(self.pool.timers.remove(at, (self.id.get(), lane)));
        }
    }

    /// Takes its lanes off their sources' lists; gives out the sources that are left without any.
    pub(super) fn unlinks(&self) -> impl Iterator<Item = &Arc<Source>> {
        let links = self.links().iter().enumerate();
        links.filter(|(lane, link)| link.source.remove(self, *lane)).map(|(_, link)| &link.source)
    }
}

/// A cell as its group knows it.
#[derive(Debug)]
pub(super) struct PoolSeat(pub(super) Arc<Cell>);

impl Seat for PoolSeat {
    fn ring(&self) {
        self.0.rings();
    }

    fn executor(&self) -> Id {
        self.0.id
    }

    fn shares(&self) -> Option<Id> {
        Some(self.0.pool.id)
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cell({}, {} lanes)", self.id.get(), self.links().len())
    }
}
