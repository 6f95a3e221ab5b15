//! A partition as a pool sees it: the lanes on it that its members step, and whether it is to be woken.
//!
//! ```text
//!               a publish finds it in its list                 a thread takes it
//!      armed ───────────────────────────────────▶ queued ─────────────────────────▶ drying
//!        ▲                                                                            │ there has been nothing else to do
//!        │ somebody wants data                                                        ▼
//!        └──────────────────────────────────────────────────────────────────────── asleep
//!                                                 a lane of it was stepped ──────────▶ drying
//! ```
//! While its thread has nothing else to do it looks at what is drying, unless it has many lanes, for as long as it would spin before
//! it sleeps, and for so many items at most, and arms it then: what comes meanwhile costs its publisher nothing. To arm takes a
//! barrier that interrupts everybody, so many are armed behind one.
//!
//! However many lanes there are, a publish wakes the partition, and only once: from then on until it is armed again it finds
//! nobody in the list. All lanes are queued by the thread that takes it.
//!
//! # Invariants
//!
//! 1. It is armed, or on its way to a `visit`, or asleep with no idle lane that wants data, or to be left out because no lane
//!    is left.
//! 2. Who arms it looks at the lanes after that, behind a barrier: idle ones that find something are queued, and those that
//!    run are run again. So what was published before it was armed is seen by a step, and what comes after wakes it.
//!    A step that handed a failed record over again ends without a new look: so if it is armed by then, whoever stepped looks.
//! 3. It falls asleep before its lanes are asked whether they want data; who has stepped one looks whether it is asleep after
//!    that. Both take the task's lock in between, so of the two not both miss the other side.
//!
//! # Orderings
//!
//! | label        | operation       | order   | why this much, and why no more                                              |
//! |--------------|-----------------|---------|-----------------------------------------------------------------------------|
//! | source:A     | state, store    | Relaxed | handed on with the source itself, by a queue's lock; or before the tasks' locks (inv. 3) |
//! | source:B     | state, load     | Relaxed | the same                                                                    |
//! | source:C, source:D | state, CAS | Relaxed | who wins takes the source on                                                |
#![forbid(unsafe_code)]

use super::cell::Cell;
use super::hand::Hand;
use super::{Item, Shared};
use crate::group::Origin;
use crate::sync::atomic::{AtomicU8, Ordering::Relaxed};
use crate::sync::hint::heavy_barrier;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use std::fmt;
use std::task::{Wake, Waker};

/// A source of so many lanes at most is looked at again and again before it is armed.
const FEW: usize = 4;

/// What becomes of a source next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Asleep,
    Armed,
    Queued,
    Drying,
}

/// See the module.
pub(super) struct Source {
    origin: Arc<dyn Origin>,
    pool: Arc<Shared>,
    state: AtomicU8,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    lanes: Vec<Entry>,
    /// Where it stands, or stood, in the list of those to be woken.
    ticket: Option<u64>,
}

/// What `origin` is known by, as long as anybody keeps it.
pub(super) fn key(origin: &dyn Origin) -> usize {
    std::ptr::from_ref(origin).cast::<()>().addr()
}

/// A lane on it.
struct Entry {
    cell: Arc<Cell>,
    lane: usize,
}

impl Source {
    pub(super) fn new(origin: Arc<dyn Origin>, pool: Arc<Shared>) -> Arc<Self> {
        let (state, list) = (AtomicU8::new(State::Asleep as u8), Mutex::default());
        Arc::new(Source { origin, pool, state, list })
    }

    /// By what it is known.
    pub(super) fn key(&self) -> usize {
        key(&*self.origin)
    }

    fn list(&self) -> MutexGuard<'_, List> {
        lock(&self.list)
    }

    fn is(&self, state: State) -> bool {
        // ORD(source:B) Relaxed: see the module.
        self.state.load(Relaxed) == state as u8
    }

    fn becomes(&self, state: State) {
        // ORD(source:A) Relaxed: see the module.
        self.state.store(state as u8, Relaxed);
    }

    fn goes(&self, from: State, to: State) -> bool {
        // ORD(source:C) Relaxed: see the module.
        // ORD(source:D) Relaxed: the same.
        self.state.compare_exchange(from as u8, to as u8, Relaxed, Relaxed).is_ok()
    }

    /// Adds a lane; where it stands in the list is kept with it.
    pub(super) fn add(&self, cell: &Arc<Cell>, lane: usize) {
        let mut list = self.list();
        cell.stands(lane, list.lanes.len());
        list.lanes.push(Entry { cell: cell.clone(), lane });
    }

    /// Takes a lane out. True: it was the last one, and nothing wakes it any more.
    pub(super) fn remove(&self, cell: &Cell, lane: usize) -> bool {
        let mut list = self.list();
        let at = cell.place(lane);
        let gone = list.lanes.swap_remove(at);
        debug_assert!(std::ptr::eq(&*gone.cell, cell) && gone.lane == lane, "a lane stands where it says");
        if let Some(moved) = list.lanes.get(at) {
            moved.cell.stands(moved.lane, at);
        }
        let last = list.lanes.is_empty();
        let ticket = list.ticket.take_if(|_| last);
        drop(list);
        // Here its own waker may go, and with it another handle of it.
        ticket.into_iter().for_each(|ticket| self.origin.event().withdraw(ticket));
        last
    }

    /// A thread took it: queues its lanes. If there is but one, that is handed back, to be run at once. It is to be
    /// [armed](arm) once there is nothing else.
    pub(super) fn visit(&self, hand: &Hand<Item>) -> Option<Arc<Cell>> {
        if !self.is(State::Queued) {
            return None;
        }
        self.becomes(State::Drying);
        let (mut wanted, all) = self.filter(|cell, lane| cell.want(lane));
        if all == 1 {
            return wanted.pop();
        }
        hand.put_all(wanted.into_iter().map(Item::Cell));
        None
    }

    /// The lanes that `is` says so of, and how many there are in all.
    fn filter(&self, is: impl Fn(&Cell, usize) -> bool) -> (Vec<Arc<Cell>>, usize) {
        let list = self.list();
        let some = list.lanes.iter().filter(|entry| is(&entry.cell, entry.lane)).map(|entry| entry.cell.clone());
        (some.collect(), list.lanes.len())
    }

    /// Whether it is in no queue, and the next publish queues it.
    #[inline]
    pub(super) fn is_armed(&self) -> bool {
        self.is(State::Armed)
    }

    /// A lane of it was stepped. True: it is to be [armed](arm).
    #[inline]
    pub(super) fn was_stepped(&self) -> bool {
        self.is(State::Asleep) && self.goes(State::Asleep, State::Drying)
    }

    /// Enters the list of those to be woken, if an idle lane wants data. Whether it did; then a barrier and a
    /// [look](Self::look) have to follow.
    fn listens(self: &Arc<Self>) -> bool {
        self.becomes(State::Asleep);
        let mut list = self.list();
        if !list.lanes.iter().any(|entry| entry.cell.listens(entry.lane)) || !self.goes(State::Asleep, State::Armed) {
            return false;
        }
        list.ticket = Some(self.origin.event().arm_waker(&Waker::from(self.clone())));
        true
    }

    /// Looks at its lanes before it is armed. False: there are too many.
    pub(super) fn peeks(&self, hand: &Hand<Item>) -> bool {
        let few = self.list().lanes.len() <= FEW;
        if few && self.is(State::Drying) {
            self.queues_ready(hand, Cell::is_idle);
        }
        few
    }

    /// Looks at its lanes once it is armed.
    fn look(&self, hand: &Hand<Item>) {
        if !self.is(State::Armed) {
            return; // woken already: all of them will be queued
        }
        self.queues_ready(hand, |_| true);
    }

    fn queues_ready(&self, hand: &Hand<Item>, which: impl Fn(&Cell) -> bool) {
        let (ready, _) = self.filter(|cell, lane| which(cell) && cell.is_ready(lane) && cell.want(lane));
        if !ready.is_empty() {
            hand.put_all(ready.into_iter().map(Item::Cell));
        }
    }
}

/// Arms all of `sources` behind one barrier, and queues those of their lanes that have something to do.
pub(super) fn arm(mut sources: Vec<Arc<Source>>, hand: &Hand<Item>) {
    sources.retain(Source::listens);
    if !sources.is_empty() {
        heavy_barrier();
    }
    sources.iter().for_each(|source| source.look(hand));
}

impl Wake for Source {
    fn wake(self: Arc<Self>) {
        self.becomes(State::Queued);
        let pool = self.pool.clone();
        pool.crew.submit(Item::Source(self));
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} lanes)", self.list().lanes.len())
    }
}
