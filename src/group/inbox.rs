//! The way into a driving thread: tasks, rings and the order to stop, for a thread that may not run yet.
#![forbid(unsafe_code)]

use super::context::Id;
use super::executor::{PlaceError, Reserved, Seat, Task};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, lock};
use crate::time::Clock;
use crate::wait::{Bell, Sleeper};
use std::fmt;

/// When a driving thread ends on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Once it has had a task and has none any more.
    WhenEmpty,
    /// Once nobody can give it a task any more, and it has none.
    WhenAbandoned,
}

/// What a driving thread shares with everybody else.
pub struct Inbox {
    id: Id,
    /// Something of the below changed, or somebody rang. Set before the bell is rung.
    attention: AtomicBool,
    state: Mutex<State>,
    first: Condvar,
}

#[derive(Default)]
struct State {
    clock: Option<Arc<dyn Clock>>,
    bell: Option<Bell>,
    sleeper: Option<Sleeper>,
    tasks: Vec<Box<dyn Task>>,
    stopping: bool,
    abandoned: bool,
}

/// What came in since the driver last looked.
#[derive(Debug)]
pub(super) struct News {
    pub(super) tasks: Vec<Box<dyn Task>>,
    pub(super) stopping: bool,
    pub(super) abandoned: bool,
}

impl Inbox {
    /// An inbox that nobody reads yet.
    pub fn new() -> Arc<Self> {
        let (id, attention) = (Id::fresh(), AtomicBool::new(false));
        Arc::new(Inbox { id, attention, state: Mutex::default(), first: Condvar::new() })
    }

    /// The executor's identity.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Adds a task; a refused one is dropped, outside the lock. The first one brings the clock.
    pub fn push(&self, task: Box<dyn Task>) -> Result<(), PlaceError> {
        let clock = task.clock().clone();
        let refused = {
            let mut state = lock(&self.state);
            match state.accept(&clock) {
                Ok(()) => {
                    state.tasks.push(task);
                    self.first.notify_all();
                    None
                }
                Err(refusal) => Some((refusal, task)),
            }
        };
        match refused {
            Some((refusal, _task)) => Err(refusal),
            None => {
                self.ring();
                Ok(())
            }
        }
    }

    /// Has the driver end at its next look. It hands its lanes over; the handler at work is not interrupted.
    pub fn stop(&self) {
        lock(&self.state).stopping = true;
        self.first.notify_all();
        self.ring();
    }

    /// Says that no task will come any more.
    pub fn abandon(&self) {
        lock(&self.state).abandoned = true;
        self.first.notify_all();
        self.ring();
    }

    /// Whether it was told to stop, or its driver has ended.
    pub fn is_stopping(&self) -> bool {
        lock(&self.state).stopping
    }

    /// Waits for the first task and returns the place to sleep; `None` if there will not be one.
    pub(super) fn first(&self) -> Option<Sleeper> {
        let mut state = lock(&self.state);
        loop {
            let over = state.stopping || (state.abandoned && state.tasks.is_empty());
            if let Some(sleeper) = state.sleeper.take_if(|_| !over) {
                return Some(sleeper);
            }
            if over {
                return None;
            }
            state = self.first.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    #[inline(always)]
    pub(super) fn wants_attention(&self) -> bool {
        // ORD(attention:A) Relaxed: only whether to look; what there is, is read under the lock or after attention:B.
        self.attention.load(Ordering::Relaxed)
    }

    /// Set while somebody wants attention.
    pub(super) fn attention(&self) -> &AtomicBool {
        &self.attention
    }

    /// Everything new. The flag is cleared first, so what comes later sets it again.
    pub(super) fn news(&self) -> News {
        // ORD(attention:B) Acquire: what the ringer changed before it rang. Pairs with ORD(attention:C).
        self.attention.swap(false, Ordering::Acquire);
        let mut state = lock(&self.state);
        let (stopping, abandoned) = (state.stopping, state.abandoned);
        News { tasks: std::mem::take(&mut state.tasks), stopping, abandoned }
    }

    /// No driver reads this any more: refuses from now on, and drops what still lies here.
    pub fn close(&self) {
        let rest = {
            let mut state = lock(&self.state);
            state.stopping = true;
            (std::mem::take(&mut state.tasks), state.sleeper.take())
        };
        drop(rest);
    }
}

impl State {
    fn accept(&mut self, clock: &Arc<dyn Clock>) -> Result<(), PlaceError> {
        if self.stopping {
            return Err(PlaceError::Stopped);
        }
        let known = self.clock.get_or_insert_with(|| clock.clone());
        if !std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(clock)) {
            return Err(PlaceError::OtherClock);
        }
        if self.bell.is_none() {
            let sleeper = Sleeper::new(clock.clone());
            self.bell = Some(sleeper.bell().clone());
            self.sleeper = Some(sleeper);
        }
        Ok(())
    }
}

impl Seat for Inbox {
    fn ring(&self) {
        // ORD(attention:C) Release: what we changed comes before. Pairs with ORD(attention:B).
        self.attention.store(true, Ordering::Release);
        let bell = lock(&self.state).bell.clone();
        if let Some(bell) = bell {
            bell.ring();
        }
    }

    fn executor(&self) -> Id {
        self.id
    }
}

impl Reserved for Arc<Inbox> {
    fn seat(&self) -> Arc<dyn Seat> {
        self.clone()
    }

    fn place(self: Box<Self>, task: Box<dyn Task>) -> Result<(), PlaceError> {
        self.push(task)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbox({})", self.id.get())
    }
}
