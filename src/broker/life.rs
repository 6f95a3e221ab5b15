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

use crate::group::context::{self, Id};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::time::{Clock, Deadline, Random};
use crate::wait::{Event, Wake};
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

/// See the module.
#[derive(Debug)]
pub(crate) struct Life {
    id: Id,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    state: AtomicU8,
    progress: Arc<Event>,
}

impl Life {
    pub(crate) fn new(clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self {
            id: Id::fresh(),
            clock,
            random,
            state: AtomicU8::new(BrokerState::Open as u8),
            progress: Arc::new(Event::new(Wake::All)),
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
        // ORD(advance:A) Relaxed: ordered by the seals, not by this. Pairs with ORD(state:A).
        self.state.fetch_max(state as u8, Ordering::Relaxed);
    }
}
