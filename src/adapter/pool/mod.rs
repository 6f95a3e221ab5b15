//! A few threads for many members.
//!
//! ```text
//!   a publish ──▶ the partition's event ──▶ source ──▶ crew: lobby ──▶ a thread's bench ──▶ cell: one member's task
//!                                             ▲                                                │ steps
//!                                             └───────────── armed, once it has run dry ◀──────┘
//! ```
//! A member's task is a [`cell`]; a partition that some of them read is a [`source`]; who works on what, sleeps, and sees others
//! hang is the [`crew`]'s affair. What a publisher pays is one entry in one queue, when it finds the partition armed: however
//! many members read it. (The idea is the actor model's, as in Erlang or Tokio: a task is idle, queued or running, and is in one
//! queue at most. Stealing half of another's queue is Cilk's.)
#![forbid(unsafe_code)]

mod cell;
mod config;
pub mod crew;
pub mod hand;
mod source;
mod timers;
pub mod turn;
mod work;

use self::cell::{Cell, PoolSeat};
use self::crew::Crew;
use self::hand::Hand;
use self::source::Source;
use self::timers::Timers;
use crate::group::context::{self, Id};
use crate::group::{Executor, PlaceError, Reserved, Run, Seat, Task};
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, MutexGuard, lock, thread};
use crate::time::Clock;
use std::collections::HashMap;
use std::fmt;

pub use self::config::{PoolConfig, PoolError};

/// A few threads for many members: `.run(&pool)`. Clones are the same pool.
///
/// Made for thousands of subscriptions, most of them idle at a time: one that is idle takes no processor time, and a publish
/// pays the same for one member of a partition as for a hundred thousand. A member's partitions are stepped one at a time, by
/// whichever thread comes first; a turn is 256 records of each of its partitions at most.
///
/// A handler that takes long keeps one thread. If a member's turn is not over after some 5 to 10 ms of the broker's clock, another
/// thread works in its place, up to [`most`](PoolConfig::most) in all, and then what waits in the pool waits for turns to end. So
/// handlers that take tens of microseconds each, with much to do, get more threads too. A thread that is not needed any more
/// ends after two seconds. One more than the threads that work stands by, asleep, as long as anything is going on.
///
/// A handler does not wait for room that only another member of its own pool could make: all threads could be waiting for one
/// another then. Such a publish is refused like one to a partition that its own thread steps
/// ([`PublishError::WouldDeadlock`](crate::PublishError::WouldDeadlock)). Members' [`WaitPolicy`](crate::WaitPolicy) has no
/// effect in a pool.
///
/// Dropping the last handle does not stop it: it goes on until its members have left. [`stop`](Pool::stop) has them leave.
/// All of its members are timed by one clock, that of its first member: brokers on other clocks want pools of their own.
///
/// ```
/// use ringlog::{Broker, GroupConfig, Pool, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let pool = Pool::new();
/// for player in 0..1_000 {
///     let mailbox = broker.create_topic(&format!("player-{player}"), TopicConfig::<u64>::mailbox().capacity(4))?;
///     mailbox.group("inbox", GroupConfig::earliest())?.member("only").run(&pool).subscribe(|_| ())?;
/// }
/// broker.topic::<u64>("player-7")?.publish(1)?;
/// assert_eq!(broker.close(Some(Duration::from_secs(2))).acked(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.is_abandoned();
    }
}

/// What there is to do.
#[derive(Debug)]
enum Item {
    Source(Arc<Source>),
    Cell(Arc<Cell>),
}

/// What a pool's threads share.
struct Shared {
    id: Id,
    name: String,
    crew: Arc<Crew<Item>>,
    timers: Timers<Arc<Cell>>,
    stopping: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: Option<Arc<dyn Clock>>,
    /// By the address of what they are of, which they keep.
    sources: HashMap<usize, Arc<Source>>,
    /// The members that have not left.
    cells: HashMap<Id, Arc<Cell>>,
    abandoned: bool,
}

impl Pool {
    /// A pool of one thread less than there are processors, and at least one: publishers want one too. Threads are started
    /// when there is something for them to do.
    pub fn new() -> Self {
        Self::of(PoolConfig::new())
    }

    /// A pool of one's own size.
    ///
    /// # Errors
    ///
    /// No threads, or fewer in all than are to work and one that stands by.
    pub fn with(config: PoolConfig) -> Result<Self, PoolError> {
        config.check().map(Self::of)
    }

    fn of(config: PoolConfig) -> Self {
        let (size, name) = (config.size(), config.name);
        let (timers, stopping, state) = (Timers::new(), AtomicBool::new(false), Mutex::default());
        let crew = Arc::new(Crew::new(size));
        Pool(Arc::new(Handle(Arc::new(Shared { id: Id::fresh(), name, crew, timers, stopping, state }))))
    }

    /// How many threads it has at the moment.
    pub fn threads(&self) -> usize {
        self.shared().crew.threads()
    }

    /// How many members have not left.
    pub fn members(&self) -> usize {
        self.shared().state().cells.len()
    }

    /// Has it end: who is busy stops behind what it has in hand (a few records at most, those of 50 microseconds), its members
    /// leave, their partitions go to others; ephemeral groups, and with them mailboxes, go with what lies in them: unsubscribe
    /// first. Does not wait. A member that would join afterwards is refused.
    pub fn stop(&self) {
        self.shared().stops();
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Whether its members are to leave.
    ///
    /// | label     | operation             | order   | why this much, and why no more                                   |
    /// |-----------|-----------------------|---------|------------------------------------------------------------------|
    /// | stopping:A, stopping:B | store and load | Relaxed | handed on with the cells that are then queued            |
    fn is_stopping(&self) -> bool {
        // ORD(stopping:B) Relaxed: see the table.
        self.stopping.load(Relaxed)
    }

    /// What ends a turn early.
    fn stops_turns(&self) -> &AtomicBool {
        &self.stopping
    }

    fn stops(&self) {
        let cells: Vec<_> = {
            let state = self.state();
            // ORD(stopping:A) Relaxed: see the table.
            self.stopping.store(true, Relaxed);
            if state.cells.is_empty() {
                self.ends();
            }
            state.cells.values().cloned().collect()
        };
        cells.iter().for_each(Cell::rings);
    }

    fn is_abandoned(&self) {
        let mut state = self.state();
        state.abandoned = true;
        if state.cells.is_empty() {
            self.ends();
        }
    }

    /// Nobody is left, and nobody comes. What still stands in lists is of members that have left, and would keep us.
    fn ends(&self) {
        self.crew.ends();
        drop(self.timers.empty());
    }

    /// The member of a cell is about to leave: nothing wakes that any more.
    fn forgets(&self, cell: &Cell) {
        let mut state = self.state();
        let empty = cell.unlinks().map(|source| source.key());
        let sources: Vec<_> = empty.filter_map(|key| state.sources.remove(&key)).collect();
        drop(state);
        cell.is_due_no_more();
        drop(sources); // and with them perhaps the last handle of a log, and what users put there
    }

    /// It has.
    fn has_left(&self, cell: &Cell) {
        let mut state = self.state();
        let gone = state.cells.remove(&cell.id());
        if state.cells.is_empty() && (state.abandoned || self.is_stopping()) {
            self.ends();
        }
        drop(state);
        drop(gone);
    }

    /// Starts another thread, if it may.
    fn grows(self: &Arc<Self>, clock: &Arc<dyn Clock>) -> Result<(), PlaceError> {
        if !self.crew.grows() {
            return Ok(());
        }
        let (pool, clock) = (self.clone(), clock.clone());
        let body = move || {
            context::belong_to(pool.id);
            let hand = Hand::new(&pool.crew, clock);
            work::until_the_end(&pool, hand);
        };
        thread::Builder::new().name(self.name.clone()).spawn(body).map(drop).map_err(|error| {
            self.crew.shrinks();
            PlaceError::NoThread(error.to_string())
        })
    }

    fn place(self: &Arc<Self>, cell: &Arc<Cell>, task: Box<dyn Task>) -> Result<(), (PlaceError, Box<dyn Task>)> {
        let clock = task.clock().clone();
        let mut state = self.state();
        if self.is_stopping() || self.crew.is_over() {
            return Err((PlaceError::Stopped, task));
        }
        let known = state.clock.get_or_insert_with(|| clock.clone());
        if !std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&clock)) {
            return Err((PlaceError::OtherClock, task));
        }
        if self.crew.threads() == 0 {
            if let Err(refusal) = self.grows(&clock) {
                return Err((refusal, task));
            }
        }
        let sources = (0..task.lanes()).map(|lane| {
            let origin = task.origin(lane);
            let of = |origin| Source::new(origin, self.clone());
            state.sources.entry(source::key(&*origin)).or_insert_with(|| of(origin)).clone()
        });
        let sources = sources.collect();
        state.cells.insert(cell.id(), cell.clone());
        cell.begin(task, sources);
        Ok(())
    }
}

/// A place in a pool for one member.
struct PoolPlace(Arc<Cell>);

impl Reserved for PoolPlace {
    fn seat(&self) -> Arc<dyn Seat> {
        Arc::new(PoolSeat(self.0.clone()))
    }

    fn place(self: Box<Self>, task: Box<dyn Task>) -> Result<(), PlaceError> {
        // A refused task is dropped here, outside the lock.
        self.0.pool().place(&self.0, task).map_err(|(refusal, _task)| refusal)
    }
}

impl Executor for Pool {
    fn reserve(&self) -> Box<dyn Reserved> {
        Box::new(PoolPlace(Cell::new(self.shared().clone())))
    }
}

impl From<&Pool> for Run {
    fn from(pool: &Pool) -> Run {
        Run::On(Arc::new(pool.clone()))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({}, {} members, {} threads)", self.shared().name, self.members(), self.threads())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({})", self.name)
    }
}
