//! The threads of a pool, and what they take their work from.
//!
//! ```text
//!   submit, from anywhere ──▶ the lobby ──── a chunk ────▶ a thread's bench: queue, later
//!                                                              │  half of a queue, by a thread that has nothing;
//!                                                              ▼  all of it, and `later`, of one that is stuck
//!                                                          another's bench
//! ```
//! `size` threads work at once. One more stands by: a handler that does not return must not keep what waits behind it, and
//! nobody else is there to see it. A thread in user code at the same call for two looks, `PATIENCE` apart, is *stuck*, and does
//! not count; so another one works in its place, and one more is started to stand by, up to `most`. One that is not needed any
//! more goes after `LINGER`.
//!
//! # Who writes what
//!
//! | word      | written by                                      | read by                                    |
//! |-----------|-------------------------------------------------|--------------------------------------------|
//! | `lobby`   | submitters and takers, under its lock           | the same, and who parks                    |
//! | `waiting` | the same, still under the lock: its length      | spinners, as a hint                        |
//! | `awake`   | who parks (- 1) and gets up (+ 1)               | submitters, who enters user code           |
//! | `watched` | who parks until a tick (0 → 1), and ends that   | the same                                   |
//! | `runs`    | its thread: odd in user code                    | who stands by                              |
//! | a bench   | its thread and thieves, under its lock          | the same                                   |
//!
//! # Invariants
//!
//! 1. Who parks has said so (`awake`) before it looks into the lobby, under the lobby's lock; who submits asks for `awake` and
//!    `watched` after it has put something there, under the same lock. So of the two, not both miss the other side.
//! 2. While something waits and nobody is awake, somebody has been notified.
//! 3. While anybody is awake, somebody is parked until a tick, or the next submission notifies, or the next to enter user code
//!    with something left behind does; and if nobody is parked then, it starts another, below `most`. The two notify also while
//!    fewer than `size` threads are awake.
//! 4. An item is in the lobby, on one bench, or in one thread's hands.
//!
//! # Orderings
//!
//! | label        | operation            | order   | why this much, and why no more                                        |
//! |--------------|----------------------|---------|-----------------------------------------------------------------------|
//! | crew_hint:A, crew_hint:B | `waiting`, store and load | Relaxed | a hint; who acts on it takes the lock, who parks does too |
//! | crew_awake:A, crew_awake:B, crew_awake:C | `awake`, add, sub, load | Relaxed | the lobby's lock orders it for submitters (inv. 1), the event's barriers for who enters user code (inv. 3) |
//! | crew_watch:A, crew_watch:B, crew_watch:C | `watched`, CAS, store, load | Relaxed | as `awake` |
//! | crew_threads:A, crew_threads:B, crew_threads:C | `threads`, load, CAS | Relaxed | a number to keep within bounds              |
//! | crew_runs:A, crew_runs:B | `runs`, store and load | Relaxed | looked at twice, milliseconds apart; carries nothing        |
//! | crew_has:A, crew_has:B, crew_has:C, crew_has:D | a bench's lengths, store and load | Relaxed | a hint; who acts on it takes the lock                |
//! | crew_over:A, crew_over:B | `over`, store and load | Relaxed | before the lobby's lock, under which submitters ask; and before a wake of all, by whose barriers who parks sees it |
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::sync::cow::Cow;
use crate::sync::{Arc, CachePadded, Mutex, lock};
use crate::wait::{Event, Wake};
use std::collections::VecDeque;
use std::time::Duration;

/// Between two looks of who stands by.
pub const PATIENCE: Duration = Duration::from_millis(5);
/// How long a thread that is not needed stays.
pub const LINGER: Duration = Duration::from_secs(2);
/// So many items are taken out of the lobby at once.
pub(super) const CHUNK: usize = 32;
/// Who has so many turns' work of its own looks into the lobby all the same.
pub(super) const LOBBY_EVERY: u32 = 32;

/// How many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// At work at once, those that are stuck not counted.
    pub threads: usize,
    /// In all.
    pub most: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Crew<I> {
    pub(super) size: Size,
    lobby: CachePadded<Mutex<VecDeque<I>>>,
    waiting: CachePadded<AtomicUsize>,
    pub(super) work: Event,
    awake: AtomicUsize,
    watched: AtomicUsize,
    threads: AtomicUsize,
    over: AtomicBool,
    pub(super) benches: Cow<Vec<Arc<Bench<I>>>>,
}

/// What one thread has to do.
#[derive(Debug)]
pub(super) struct Bench<I> {
    runs: CachePadded<AtomicU64>,
    has: AtomicUsize,
    later: AtomicUsize,
    places: Mutex<Places<I>>,
}

#[derive(Debug)]
pub(super) struct Places<I> {
    pub(super) queue: VecDeque<I>,
    /// What can be done once there is nothing else.
    pub(super) later: Vec<I>,
}

impl<I> Places<I> {
    /// Takes all of it.
    pub(super) fn empty(&mut self) -> VecDeque<I> {
        let mut all = std::mem::take(&mut self.queue);
        all.extend(std::mem::take(&mut self.later));
        all
    }

    /// Takes half of what is queued, and, if its thread is `away`, what can be done later.
    pub(super) fn half(&mut self, away: bool) -> VecDeque<I> {
        let mut some = self.queue.split_off(self.queue.len() / 2);
        if away {
            some.extend(std::mem::take(&mut self.later));
        }
        some
    }
}

impl<I> Bench<I> {
    pub(super) fn new() -> Arc<Self> {
        let places = Mutex::new(Places { queue: VecDeque::new(), later: Vec::new() });
        Arc::new(Bench {
            runs: CachePadded::new(AtomicU64::new(0)),
            has: AtomicUsize::new(0),
            later: AtomicUsize::new(0),
            places,
        })
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Places<I>) -> R) -> R {
        let mut places = lock(&self.places);
        let done = act(&mut places);
        // ORD(crew_has:A) Relaxed: a hint.
        self.has.store(places.queue.len(), Relaxed);
        // ORD(crew_has:C) Relaxed: a hint.
        self.later.store(places.later.len(), Relaxed);
        done
    }

    pub(super) fn has(&self) -> usize {
        // ORD(crew_has:B) Relaxed: as above.
        self.has.load(Relaxed)
    }

    pub(super) fn has_later(&self) -> usize {
        // ORD(crew_has:D) Relaxed: as above.
        self.later.load(Relaxed)
    }

    pub(super) fn runs(&self) -> u64 {
        // ORD(crew_runs:B) Relaxed: compared with what it was a while ago.
        self.runs.load(Relaxed)
    }

    /// Whether its thread is in user code.
    pub(super) fn is_away(&self) -> bool {
        self.runs() % 2 == 1
    }

    /// Whether there is something that another thread may take: not the one thing that its own is about to.
    pub(super) fn may_give(&self) -> bool {
        if self.is_away() { self.has() > 0 || self.has_later() > 0 } else { self.has() > 1 }
    }

    pub(super) fn counts(&self) {
        // ORD(crew_runs:A) Relaxed: one writer.
        self.runs.store(self.runs() + 1, Relaxed);
    }
}

impl<I> Crew<I> {
    /// Nobody yet.
    pub fn new(size: Size) -> Self {
        Crew {
            size,
            lobby: CachePadded::new(Mutex::new(VecDeque::new())),
            waiting: CachePadded::new(AtomicUsize::new(0)),
            work: Event::new(Wake::One),
            awake: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            threads: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            benches: Cow::new(Vec::new()),
        }
    }

    /// Something to do, from anywhere. Takes a lock for a moment, and wakes a thread if none would see it in time.
    pub fn submit(&self, item: I) {
        self.admits([item].into_iter());
        if self.awake() < self.size.threads || !self.is_watched() {
            self.work.notify();
        }
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        // ORD(crew_threads:A) Relaxed: a figure.
        self.threads.load(Relaxed)
    }

    /// Whether another thread may be started, which it then is.
    #[must_use]
    pub fn grows(&self) -> bool {
        let may = |threads| (threads < self.size.most).then_some(threads + 1);
        self.recount(may)
    }

    /// One has ended.
    pub fn shrinks(&self) {
        self.recount(|threads| threads.checked_sub(1));
    }

    pub(super) fn recount(&self, to: impl FnMut(usize) -> Option<usize>) -> bool {
        // ORD(crew_threads:B) Relaxed: a number within bounds.
        // ORD(crew_threads:C) Relaxed: the same.
        self.threads.fetch_update(Relaxed, Relaxed, to).is_ok()
    }

    /// Everybody ends at his next look; what is not done, or comes later, is dropped.
    pub fn ends(&self) {
        // ORD(crew_over:A) Relaxed: before the lock, and the wake.
        self.over.store(true, Relaxed);
        let rest = self.with_lobby(std::mem::take);
        self.work.wake_all();
        drop(rest); // under no lock
    }

    /// Puts items into the lobby, if it is not over.
    pub(super) fn admits(&self, mut items: impl Iterator<Item = I>) {
        self.with_lobby(|lobby| {
            if !self.is_over() {
                lobby.extend(&mut items);
            }
        });
        items.for_each(drop); // refused ones, under no lock
    }

    /// Whether it was told to end.
    pub fn is_over(&self) -> bool {
        // ORD(crew_over:B) Relaxed: see crew_over:A.
        self.over.load(Relaxed)
    }

    pub(super) fn with_lobby<R>(&self, act: impl FnOnce(&mut VecDeque<I>) -> R) -> R {
        let mut lobby = lock(&self.lobby);
        let done = act(&mut lobby);
        // ORD(crew_hint:A) Relaxed: a hint.
        self.waiting.store(lobby.len(), Relaxed);
        done
    }

    /// Whether there is something in the lobby, by its lock (inv. 1).
    pub(super) fn is_waited_for(&self) -> bool {
        !lock(&self.lobby).is_empty()
    }

    pub(super) fn waiting(&self) -> usize {
        // ORD(crew_hint:B) Relaxed: as above.
        self.waiting.load(Relaxed)
    }

    pub(super) fn awake(&self) -> usize {
        // ORD(crew_awake:C) Relaxed: see inv. 1 and 3.
        self.awake.load(Relaxed)
    }

    pub(super) fn gets_up(&self) {
        // ORD(crew_awake:A) Relaxed: see inv. 3.
        self.awake.fetch_add(1, Relaxed);
    }

    pub(super) fn lies_down(&self) {
        // ORD(crew_awake:B) Relaxed: see inv. 1.
        self.awake.fetch_sub(1, Relaxed);
    }

    /// Whether somebody parked looks again soon.
    pub fn is_watched(&self) -> bool {
        // ORD(crew_watch:C) Relaxed: see inv. 1 and 3.
        self.watched.load(Relaxed) != 0
    }

    pub(super) fn watches(&self) -> bool {
        // ORD(crew_watch:A) Relaxed: see inv. 1 and 3.
        self.watched.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
    }

    pub(super) fn watches_no_more(&self) {
        // ORD(crew_watch:B) Relaxed: see inv. 1 and 3.
        self.watched.store(0, Relaxed);
    }
}
