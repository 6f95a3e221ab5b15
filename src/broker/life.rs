//! What every topic of a broker knows of it: who it is, its clock, and whether it still takes records.
//!
//! Topics point here and not at the broker, so that no handle keeps a broker alive and nothing forms a circle.
//!
//! | state      | who may publish      | next                                            |
//! |------------|----------------------|-------------------------------------------------|
//! | `Open`     | everybody            | `Draining` by the first close                   |
//! | `Draining` | handlers only        | `Closed`, when drained or at the deadline       |
//! | `Closed`   | nobody               | none                                            |
//!
//! The state refuses early; what makes the end of a partition final is its seal. A publish that read `Open` just before
//! a close is therefore stored before the seal, and counted, or refused by it.
//!
//! # Orderings
//!
//! | label     | operation         | order   | why this much, and why no more                                            |
//! |-----------|-------------------|---------|---------------------------------------------------------------------------|
//! | state:A   | `state.load`      | Relaxed | an early refusal, nothing is read through it; the seal decides, and orders |
//! | advance:A | `state.fetch_max` | Relaxed | as state:A; a close is ordered by its lock and by the seals                |
#![forbid(unsafe_code)]

use super::timer::Timer;
use crate::group::Closing;
use crate::group::context::{self, Id};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::time::{Clock, Deadline, Ids, Random};
use crate::wait::{Canceller, Event, Sleeper, Wait, Wake};
use std::time::Duration;

/// Whether a broker takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum BrokerState {
    /// From everybody.
    Open = 0,
    /// From handlers only: a close is waiting for what is under way.
    Draining = 1,
    /// From nobody.
    Closed = 2,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    TimedOut,
    Cancelled,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Life {
    id: Id,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    state: AtomicU8,
    progress: Arc<Event>,
    closing: Closing,
    ids: Arc<dyn Ids>,
    timer: Timer,
}

impl Life {
    pub(crate) fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>, ids: Arc<dyn Ids>) -> Self {
        let timer = Timer::new(clock.clone());
        Self {
            id: Id::fresh(),
            clock,
            random,
            timer,
            state: AtomicU8::new(BrokerState::Open as u8),
            progress: Arc::new(Event::new(Wake::All)),
            closing: Closing::default(),
            ids,
        }
    }

    pub(crate) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn random(&self) -> &Arc<dyn Random> {
        &self.random
    }

    /// Happens on every commit, hand-over and stop of any lane, and when a close goes on: for those who wait for the
    /// whole broker to get somewhere.
    pub(crate) fn progress(&self) -> &Arc<Event> {
        &self.progress
    }

    /// Whether it is closing, for handlers.
    pub(crate) fn closing(&self) -> &Closing {
        &self.closing
    }

    /// A name that nobody gave. User code.
    pub(crate) fn next_id(&self) -> String {
        self.ids.next_id()
    }

    /// Waits until `done`, looking again at every progress, or until the time is up or `cancel` is used.
    pub(crate) fn wait_until(
        &self,
        deadline: Deadline,
        cancel: Option<&Canceller>,
        mut done: impl FnMut() -> bool,
    ) -> Ended {
        let mut sleeper = Sleeper::new(self.clock.clone());
        let bell = sleeper.bell().clone();
        let _registered = cancel.map(|cancel| cancel.register(&bell));
        let until = deadline.at();
        loop {
            if cancel.is_some_and(Canceller::is_cancelled) {
                return if done() { Ended::Done } else { Ended::Cancelled };
            }
            match sleeper.wait([&*self.progress], until, &mut done) {
                Wait::Ready => return Ended::Done,
                Wait::TimedOut => return Ended::TimedOut,
                Wait::Rung => {}
            }
        }
    }

    /// What happens because time passes, until the broker is closed.
    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    pub(crate) fn within(&self, limit: Option<Duration>) -> Deadline {
        Deadline::within(limit, &*self.clock)
    }

    #[inline]
    pub(crate) fn state(&self) -> BrokerState {
        // ORD(state:A) Relaxed: an early refusal only; the seal of each partition decides. Pairs with ORD(advance:A).
        match self.state.load(Ordering::Relaxed) {
            0 => BrokerState::Open,
            1 => BrokerState::Draining,
            _ => BrokerState::Closed,
        }
    }

    /// Whether a publish from this thread may go on to its partition.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        self.state() == BrokerState::Open || self.admits_late()
    }

    #[cold]
    #[inline(never)]
    fn admits_late(&self) -> bool {
        self.state() == BrokerState::Draining && self.inside()
    }

    /// Whether this thread runs a handler of this broker.
    pub(crate) fn inside(&self) -> bool {
        context::inside(self.id)
    }

    /// Goes on to `state`, never back.
    pub(crate) fn advance(&self, state: BrokerState) {
        self.closing.begin();
        // ORD(advance:A) Relaxed: ordered by the seals, not by this. Pairs with ORD(state:A).
        self.state.fetch_max(state as u8, Ordering::Relaxed);
    }
}
