//! One lane as the manual executor keeps it: awake, asleep on an event, or out until somebody rings.
#![forbid(unsafe_code)]

use crate::group::{Place, Step};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::time::Time;
use crate::wait::Event;
use std::task::{Wake, Waker};

/// A lane's alarm: what an event's notification reaches.
#[derive(Debug)]
pub(super) struct Alarm {
    awake: AtomicBool,
    /// Whether it hangs in the event's list: an entry there goes off once.
    armed: AtomicBool,
    lost: Arc<Losses>,
}

/// Wake-ups that are to be lost on purpose: how many come through before one is swallowed.
#[derive(Debug)]
pub(super) struct Losses(AtomicU64);

impl Losses {
    const NONE: u64 = u64::MAX;

    pub(super) fn new() -> Arc<Self> {
        Arc::new(Losses(AtomicU64::new(Self::NONE)))
    }

    pub(super) fn lose(&self, after: u64) {
        // ORD(lose:A) Relaxed: a plan for one thread's test.
        self.0.store(after, Ordering::Relaxed);
    }

    /// Whether this one is lost.
    fn swallows(&self) -> bool {
        // ORD(lose:B) Relaxed: as the plan.
        let left = self.0.load(Ordering::Relaxed);
        let next = if left == 0 { Self::NONE } else { left - 1 };
        if left != Self::NONE {
            // ORD(lose:C) Relaxed: as the plan.
            self.0.store(next, Ordering::Relaxed);
        }
        left == 0
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        // ORD(armed:A) Relaxed: only the lane's visit acts on it, after it saw `awake` or a ring.
        self.armed.store(false, Ordering::Relaxed);
        if !self.lost.swallows() {
            // ORD(alarm:A) Release: what the notifier published. Pairs with ORD(alarm:B).
            self.awake.store(true, Ordering::Release);
        }
    }
}

/// One lane of one task.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) task: u64,
    pub(super) lane: usize,
    pub(super) place: Place,
    alarm: Arc<Alarm>,
    /// Where the alarm hung last in its event's list.
    ticket: Option<u64>,
    /// When a failed record is tried again.
    pub(super) due: Option<Time>,
}

impl Visit {
    pub(super) fn new(task: u64, lane: usize, place: Place, lost: Arc<Losses>) -> Self {
        let alarm = Arc::new(Alarm { awake: AtomicBool::new(true), armed: AtomicBool::new(false), lost });
        Visit { task, lane, place, alarm, ticket: None, due: None }
    }

    pub(super) fn is_awake(&self) -> bool {
        // ORD(alarm:B) Acquire: the step sees what the notifier published. Pairs with ORD(alarm:A), ORD(alarm:C).
        self.alarm.awake.load(Ordering::Acquire)
    }

    /// Whether it may be stepped at `now`.
    pub(super) fn is_runnable(&self, now: Time) -> bool {
        self.is_awake() || self.due.is_some_and(|due| due <= now)
    }

    pub(super) fn wake(&mut self) {
        // ORD(alarm:C) Release: what the ringer changed. Pairs with ORD(alarm:B).
        self.alarm.awake.store(true, Ordering::Release);
        self.due = None;
    }

    /// Takes note of what a step said. `listen` is the event of a lane that waits for data.
    pub(super) fn settle(&mut self, step: Step, event: Option<&Event>) {
        self.due = None;
        match step {
            Step::Worked { .. } => self.wake(),
            Step::Backoff { until } => {
                self.fall_asleep();
                self.due = Some(until);
                event.into_iter().for_each(|event| self.arm(event)); // where others are handed over meanwhile
            }
            Step::Waits => {
                self.fall_asleep();
                event.into_iter().for_each(|event| self.arm(event));
            }
            Step::Paused | Step::Elsewhere | Step::Ended => self.fall_asleep(),
        }
    }

    fn fall_asleep(&self) {
        // ORD(alarm:D) Relaxed: only we read it, and look at the data after this.
        self.alarm.awake.store(false, Ordering::Relaxed);
    }

    /// Hangs the alarm into the event's list, where it stays until it goes off.
    fn arm(&mut self, event: &Event) {
        // ORD(armed:B) Relaxed: who finds it unset hangs it up; nothing is read through it.
        if !self.alarm.armed.swap(true, Ordering::Relaxed) {
            self.ticket = Some(event.register_waker(&Waker::from(self.alarm.clone())).stay());
        }
    }

    /// Takes the alarm out of the list: the lane will not be visited again.
    pub(super) fn disarm(&self, event: &Event) {
        self.ticket.into_iter().for_each(|ticket| event.withdraw(ticket));
    }
}
