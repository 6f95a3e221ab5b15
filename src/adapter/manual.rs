//! The executor that does nothing by itself: each call takes one step, of a lane that a seed chooses.
//!
//! With a [`ManualClock`](crate::time::ManualClock) it makes a broker deterministic: the same seed and the same calls give
//! the same trace, byte for byte. A lane sleeps here as it would on a thread: it is stepped again only when its event was
//! notified, its member was rung, or its backoff is over. So a wake-up that nobody sends is not covered up by somebody
//! looking again, but shows in [`Manual::stranded`].
#![forbid(unsafe_code)]

use super::rng::Rng;
use super::visit::{Losses, Visit};
use crate::group::contain::drop_contained;
use crate::group::context::Id;
use crate::group::{Executor, Place, PlaceError, Reserved, Run, Seat, Step, Task, Turn};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::time::{Clock, Time};
use std::fmt::{self, Write as _};
use std::ops::ControlFlow;

/// The largest budget of a step is 2 to the power of this.
const BUDGET_BITS: usize = 4;

/// What one call did.
#[derive(Clone, Debug)]
pub struct Stepped {
    /// Which lane was stepped.
    pub place: Place,
    /// What came of it.
    pub step: Step,
}

/// A lane that has something to do, is asleep, and was not called: somewhere a wake-up was lost.
#[derive(Clone, Debug)]
pub struct Stranded {
    /// Which lane.
    pub place: Place,
    /// The next offset it would hand over, if it is held.
    pub next: Option<u64>,
}

/// A single-stepping executor: `.run(&manual)`. Clones are the same one. It is for one thread at a time.
///
/// ```
/// use ringlog::{Broker, BrokerConfig, GroupConfig, Manual, ManualClock, Record, Retry, TopicConfig};
/// use std::{sync::Arc, time::Duration};
///
/// let clock = Arc::new(ManualClock::new());
/// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
/// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
/// let once_a_minute = GroupConfig::earliest().retry(Retry::constant(2, Duration::from_secs(60)));
/// let group = topic.group("billing", once_a_minute)?;
/// let manual = Manual::new(42);
/// group.member("billing-1").run(&manual).subscribe(|_: &Record<'_, u64>| Err::<(), _>("no"))?;
///
/// topic.publish(7)?;
/// manual.run(100); // until all sleep: the record failed, and waits for its second attempt
/// assert_eq!((group.stats().retried(), group.stats().dead()), (1, 0));
/// clock.set(manual.next_due().expect("a backoff")); // no thread sleeps here, so the clock does not know of it
/// manual.run(100);
/// assert_eq!((group.stats().dead(), group.lag()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Manual(Arc<Shared>);

struct Shared {
    seat: Arc<ManualSeat>,
    state: Mutex<State>,
}

/// How groups call the executor, apart from its state so that the two do not keep each other alive.
#[derive(Debug)]
struct ManualSeat {
    id: Id,
    rung: AtomicBool,
}

impl Seat for ManualSeat {
    fn ring(&self) {
        // ORD(rung:A) Release: what the ringer changed. Pairs with ORD(rung:B).
        self.rung.store(true, Ordering::Release);
    }

    fn executor(&self) -> Id {
        self.id
    }
}

struct State {
    rng: Rng,
    steps: u64,
    last_task: u64,
    /// `None`: being stepped.
    tasks: Vec<(u64, Option<Box<dyn Task>>)>,
    visits: Vec<Visit>,
    clock: Option<Arc<dyn Clock>>,
    lost: Arc<Losses>,
    panics: Vec<(Arc<str>, u32, u64)>,
    trace: String,
}

impl Manual {
    /// An executor whose choices follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let seat = Arc::new(ManualSeat { id: Id::fresh(), rung: AtomicBool::new(false) });
        let state = State {
            rng: Rng::new(seed),
            steps: 0,
            last_task: 0,
            tasks: Vec::new(),
            visits: Vec::new(),
            clock: None,
            lost: Losses::new(),
            panics: Vec::new(),
            trace: String::new(),
        };
        Manual(Arc::new(Shared { seat, state: Mutex::new(state) }))
    }

    /// Steps one lane that is awake, or whose backoff is over. `None`: all sleep.
    pub fn step(&self) -> Option<Stepped> {
        self.forget_finished();
        let (at, mut task, turn) = {
            let mut state = self.lock();
            if self.0.seat.heard() {
                state.visits.iter_mut().for_each(Visit::wake);
            }
            let at = state.choose()?;
            let (task, turn) = state.begin(at, self.0.seat.id)?;
            (at, task, turn)
        };
        // Under no lock: here the handler runs, and may itself publish, subscribe, or control its group.
        let step = task.step(at.lane, turn);
        let (stepped, orphan) = self.lock().finish(at, task, turn, step);
        drop_contained(orphan); // under no lock, as in `kill`
        Some(stepped)
    }

    /// Steps until all lanes sleep, or `limit` steps were taken; returns how many.
    pub fn run(&self, limit: usize) -> usize {
        (0..limit).take_while(|_| self.step().is_some()).count()
    }

    /// When the next backoff is over; `None` if nobody waits for a time. Move the clock there with
    /// [`ManualClock::set`](crate::ManualClock::set): no thread sleeps, so `advance_to_next` does not see it.
    pub fn next_due(&self) -> Option<Time> {
        self.lock().visits.iter().filter_map(|visit| visit.due).min()
    }

    /// Has the handler of `group` panic instead of being called with this record: once, on its next delivery. A plan for a
    /// group, a partition or an offset that never comes is kept without a word; see [`Manual::planned`].
    /// In a group [by key](crate::Order::Key) it is sure to meet that record only if nothing before it waits for its key: else it
    /// may meet another one instead, or none.
    pub fn panic_at(&self, group: &str, partition: u32, offset: u64) {
        self.lock().panics.push((group.into(), partition, offset));
    }

    /// The panics that are planned and have not happened: group, partition, offset. A test that ends with some here has not
    /// tested what it meant to.
    pub fn planned(&self) -> Vec<(Arc<str>, u32, u64)> {
        self.lock().panics.clone()
    }

    /// A member dies between two steps: its task is dropped as it would be if its thread ended. False: no such member.
    pub fn kill(&self, group: &str, member: &str) -> bool {
        let victims = self.lock().remove(|place| &*place.group == group && &*place.member == member);
        let any = !victims.is_empty();
        // Under no lock: handlers are dropped with it, and perhaps the last handle of a group, with what the user put into that.
        victims.into_iter().for_each(drop_contained);
        any
    }

    /// Loses a wake-up on purpose: after `others` more that come through, the next one does not reach its lane.
    pub fn lose_wake(&self, others: u64) {
        self.lock().lost.lose(others);
    }

    /// The lanes that have something to do, are asleep, and were not called. Empty unless a wake-up was lost.
    pub fn stranded(&self) -> Vec<Stranded> {
        if self.0.seat.is_rung() {
            return Vec::new();
        }
        let state = self.lock();
        let asleep = state.visits.iter().filter(|visit| !visit.is_awake());
        let stuck = asleep.filter_map(|visit| {
            let task = state.task(visit.task)?;
            task.ready(visit.lane).then(|| Stranded { place: visit.place.clone(), next: task.next(visit.lane) })
        });
        stuck.collect()
    }

    /// What happened so far: a line for each step.
    pub fn trace(&self) -> String {
        self.lock().trace.clone()
    }

    /// Adds a line of your own to the trace.
    pub fn note(&self, line: fmt::Arguments<'_>) {
        let text = line.to_string(); // under no lock: it formats what it is given
        let mut state = self.lock();
        state.trace.push_str(&text);
        state.trace.push('\n');
    }

    fn forget_finished(&self) {
        let gone = {
            let mut state = self.lock();
            let finished = |task: &Option<Box<dyn Task>>| task.as_ref().is_some_and(|task| task.finished());
            let ids: Vec<u64> = state.tasks.iter().filter(|(_, task)| finished(task)).map(|(id, _)| *id).collect();
            state.take_out(&ids)
        };
        gone.into_iter().for_each(drop_contained);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Where a step was begun.
#[derive(Clone, Copy)]
struct At {
    task: u64,
    lane: usize,
}

impl State {
    fn task(&self, id: u64) -> Option<&dyn Task> {
        self.tasks.iter().find(|(one, _)| *one == id).and_then(|(_, task)| task.as_deref())
    }

    fn choose(&mut self) -> Option<At> {
        let now = self.clock.as_ref()?.now();
        let runnable = |visit: &&Visit| visit.is_runnable(now) && self.task(visit.task).is_some();
        let at: Vec<At> =
            self.visits.iter().filter(runnable).map(|visit| At { task: visit.task, lane: visit.lane }).collect();
        (!at.is_empty()).then(|| at[self.rng.below(at.len())])
    }

    /// Takes the task out and decides on its turn.
    fn begin(&mut self, at: At, executor: Id) -> Option<(Box<dyn Task>, Turn<'static>)> {
        let slot = self.tasks.iter_mut().find(|(id, _)| *id == at.task)?;
        let task = slot.1.take()?;
        let mut turn =
            Turn { executor, budget: 1 << self.rng.below(BUDGET_BITS), adapt: false, panic: false, ends: None };
        let place = task.place(at.lane);
        if let ControlFlow::Break(fault) = self.fault(&place, task.next(at.lane), &mut turn.budget) {
            turn.panic = fault;
        }
        Some((task, turn))
    }

    /// Whether a fault is planned for the very next record. For a later one, the budget ends before it; while it is not
    /// known what is next, there is none.
    fn fault(&mut self, place: &Place, next: Option<u64>, budget: &mut usize) -> ControlFlow<bool> {
        let here =
            |(group, partition, _): &&(Arc<str>, u32, u64)| *group == place.group && *partition == place.partition;
        let planned: Vec<u64> = self.panics.iter().filter(here).map(|(_, _, offset)| *offset).collect();
        let Some(next) = next else {
            if !planned.is_empty() {
                *budget = 0;
            }
            return ControlFlow::Continue(());
        };
        for offset in planned {
            if offset == next {
                let this = |(group, partition, at): &(Arc<str>, u32, u64)| {
                    *group == place.group && *partition == place.partition && *at == offset
                };
                if let Some(at) = self.panics.iter().position(this) {
                    self.panics.remove(at);
                }
                *budget = 1;
                return ControlFlow::Break(true);
            }
            if offset > next {
                *budget = (*budget).min(usize::try_from(offset - next).unwrap_or(usize::MAX));
            }
        }
        ControlFlow::Continue(())
    }

    /// Puts the task back; one that was killed by its own handler comes back, to be dropped.
    fn finish(&mut self, at: At, task: Box<dyn Task>, turn: Turn<'_>, step: Step) -> (Stepped, Option<Box<dyn Task>>) {
        let place = task.place(at.lane);
        self.steps += 1;
        let (now, fault) = (task.clock().now(), if turn.panic { " with a planned panic" } else { "" });
        let next = task.next(at.lane).map_or("-".to_owned(), |next| next.to_string());
        let _ = writeln!(
            self.trace,
            "{} {now} {}/{} {}/{} budget {}{fault}: {step:?}, next {next}",
            self.steps, place.topic, place.partition, place.group, place.member, turn.budget,
        );
        if let (true, Some(next), Step::Waits) = (turn.panic, task.next(at.lane), step) {
            self.panics.push((place.group.clone(), place.partition, next)); // the record has not come yet
        }
        if let Some(visit) = self.visits.iter_mut().find(|visit| visit.task == at.task && visit.lane == at.lane) {
            visit.settle(step, task.event(at.lane));
            let sleeps =
                step == Step::Waits || task.event(at.lane).is_some_and(|_| matches!(step, Step::Backoff { .. }));
            if sleeps && task.ready(at.lane) {
                visit.wake(); // it came between the step and the alarm, as a sleeper's last look would find
            }
        }
        let orphan = match self.tasks.iter_mut().find(|(id, _)| *id == at.task) {
            Some(slot) => slot.1.replace(task),
            None => Some(task),
        };
        (Stepped { place, step }, orphan)
    }

    fn add(&mut self, task: Box<dyn Task>) {
        self.last_task += 1;
        let id = self.last_task;
        for lane in 0..task.lanes() {
            self.visits.push(Visit::new(id, lane, task.place(lane), self.lost.clone()));
        }
        self.tasks.push((id, Some(task)));
    }

    fn remove(&mut self, which: impl Fn(&Place) -> bool) -> Vec<Box<dyn Task>> {
        let ids: Vec<u64> = self.visits.iter().filter(|visit| which(&visit.place)).map(|visit| visit.task).collect();
        self.take_out(&ids)
    }

    /// Takes tasks out with their visits. (The alarms of one that is being stepped, and has itself killed, hang until they
    /// go off.)
    fn take_out(&mut self, ids: &[u64]) -> Vec<Box<dyn Task>> {
        for visit in self.visits.iter().filter(|visit| ids.contains(&visit.task)) {
            if let Some(task) = self.task(visit.task) {
                visit.disarm(task.source(visit.lane));
            }
        }
        self.visits.retain(|visit| !ids.contains(&visit.task));
        self.tasks.extract_if_in(ids)
    }
}

/// Taking tasks out by their numbers.
trait ExtractIfIn {
    fn extract_if_in(&mut self, ids: &[u64]) -> Vec<Box<dyn Task>>;
}

impl ExtractIfIn for Vec<(u64, Option<Box<dyn Task>>)> {
    fn extract_if_in(&mut self, ids: &[u64]) -> Vec<Box<dyn Task>> {
        let (out, kept) = std::mem::take(self).into_iter().partition(|(id, _)| ids.contains(id));
        *self = kept;
        let out: Vec<(u64, Option<Box<dyn Task>>)> = out;
        out.into_iter().filter_map(|(_, task)| task).collect()
    }
}

impl ManualSeat {
    fn heard(&self) -> bool {
        // ORD(rung:B) Acquire: we act on what the ringer changed. Pairs with ORD(rung:A).
        self.rung.swap(false, Ordering::Acquire)
    }

    fn is_rung(&self) -> bool {
        // ORD(rung:C) Relaxed: only whether.
        self.rung.load(Ordering::Relaxed)
    }
}

impl Executor for Manual {
    fn reserve(&self) -> Box<dyn Reserved> {
        Box::new(self.clone())
    }
}

impl Reserved for Manual {
    fn seat(&self) -> Arc<dyn Seat> {
        self.0.seat.clone()
    }

    fn place(self: Box<Self>, task: Box<dyn Task>) -> Result<(), PlaceError> {
        let clock = task.clock().clone();
        let mut state = self.lock();
        let known = state.clock.get_or_insert_with(|| clock.clone());
        if !std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(&clock)) {
            drop(state);
            return Err(PlaceError::OtherClock);
        }
        state.add(task);
        Ok(())
    }
}

impl From<&Manual> for Run {
    fn from(manual: &Manual) -> Run {
        Run::On(Arc::new(manual.clone()))
    }
}

impl fmt::Debug for Manual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(f, "Manual({} tasks, {} steps)", state.tasks.len(), state.steps)
    }
}
