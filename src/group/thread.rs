//! A thread that drives tasks: step what has work, leave alone what was just emptied, spin, sleep.
//!
//! # A round
//!
//! Lanes are visited in the order of their partition, so that groups of one partition follow each other over the same
//! records while they are in the cache. A lane that is not ours, paused or over is left out until somebody rings. A lane
//! that has caught up with its producer is left alone for the policy's pace: polling the line that is about to be
//! written is the largest single loss there is. When nothing worked, the policy's spin, then sleep on the lanes' events,
//! the earliest backoff and the bell.
#![forbid(unsafe_code)]

use super::contain::drop_contained;
use super::context::Id;
use super::executor::{Executor, PlaceError, Reserved, Seat, Step, Task, Turn};
use super::inbox::{Ends, Inbox};
use crate::sync::{Arc, spin_loop, thread};
use crate::time::{Ticks, Time, ticks, ticks_in};
use crate::wait::{Sleeper, Spin, WaitPolicy};
use std::fmt;

/// Records that one lane may hand over before the next lane's turn.
const BUDGET: usize = 4_096;

/// Drives the tasks that come into `inbox` on this thread, until it is told to stop or `ends` says so. Tasks left are
/// dropped, which hands their lanes over; so they are when a step panics, and the panic goes on.
pub fn drive(inbox: &Arc<Inbox>, ends: Ends) {
    let _closed = Closed(inbox);
    let Some(mut sleeper) = inbox.first() else { return };
    let mut driver = Driver { id: inbox.id(), tasks: Vec::new(), slots: Vec::new() };
    let mut spin = Spin::new(WaitPolicy::Park);
    loop {
        if inbox.wants_attention() {
            let news = inbox.news();
            if news.stopping {
                return;
            }
            driver.take_in(news.tasks);
            if driver.tasks.is_empty() && (ends == Ends::WhenEmpty || news.abandoned) {
                return;
            }
            spin = Spin::new(driver.policy());
        }
        match driver.round(inbox) {
            Round::Worked => spin.reset(),
            Round::Paced => spin_loop(),
            // It let go of its last lane in this very round, and nobody else will ring for that.
            Round::Idle { .. } if driver.has_finished() => inbox.ring(),
            Round::Idle { .. } if spin.turn() => {}
            Round::Idle { until } => {
                driver.sleep(&mut sleeper, inbox, until);
                spin.reset();
            }
        }
    }
}

struct Closed<'a>(&'a Inbox);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Driver {
    id: Id,
    tasks: Vec<Box<dyn Task>>,
    slots: Vec<Visit>,
}

/// One lane of one task.
#[derive(Clone, Debug)]
struct Visit {
    task: usize,
    lane: usize,
    pace: Ticks,
    /// Left alone until then.
    paced_until: Option<Ticks>,
    /// Left out until somebody rings.
    dormant: bool,
}

enum Round {
    Worked,
    Paced,
    Idle { until: Option<Time> },
}

impl Driver {
    /// Adds tasks, drops finished ones, and plans the round anew, with every lane awake.
    fn take_in(&mut self, new: Vec<Box<dyn Task>>) {
        self.tasks.extend(new);
        let (gone, stay): (Vec<_>, Vec<_>) = self.tasks.drain(..).partition(|task| task.finished());
        self.tasks = stay;
        // Each might have the last handle of its group, and with it what the user put into that: others go on here.
        gone.into_iter().for_each(drop_contained);
        let mut slots = Vec::new();
        for (task, member) in self.tasks.iter().enumerate() {
            let pace = ticks_in(member.wait().pace());
            for lane in 0..member.lanes() {
                let place = member.place(lane);
                let visit = Visit { task, lane, pace, paced_until: None, dormant: false };
                slots.push(((place.topic, place.partition), visit));
            }
        }
        slots.sort_by(|one, two| one.0.cmp(&two.0));
        self.slots = slots.into_iter().map(|(_, visit)| visit).collect();
    }

    fn has_finished(&self) -> bool {
        self.tasks.iter().any(|task| task.finished())
    }

    /// The most eager of the members' policies.
    fn policy(&self) -> WaitPolicy {
        let policies = self.tasks.iter().map(|task| task.wait());
        policies.max_by_key(|policy| policy.spin()).unwrap_or(WaitPolicy::Park)
    }

    fn round(&mut self, inbox: &Inbox) -> Round {
        let ends = Some(inbox.attention());
        let turn = Turn { executor: self.id, budget: BUDGET, adapt: true, panic: false, ends };
        let (mut worked, mut paced, mut until) = (false, false, None::<Time>);
        for visit in &mut self.slots {
            if turn.is_ended() {
                return Round::Worked; // there are news
            }
            if visit.dormant {
                continue;
            }
            if visit.is_paced() {
                paced = true;
                continue;
            }
            match self.tasks[visit.task].step(visit.lane, turn) {
                Step::Worked { more, .. } => {
                    worked = true;
                    if !more && visit.pace > 0 {
                        visit.paced_until = Some(ticks().wrapping_add(visit.pace));
                    }
                }
                Step::Waits => {}
                Step::Backoff { until: due } => until = Some(until.map_or(due, |earliest| earliest.min(due))),
                Step::Paused | Step::Elsewhere | Step::Ended => visit.dormant = true,
            }
        }
        match (worked, paced) {
            (true, _) => Round::Worked,
            (false, true) => Round::Paced,
            (false, false) => Round::Idle { until },
        }
    }

    fn sleep(&self, sleeper: &mut Sleeper, inbox: &Inbox, until: Option<Time>) {
        let awake = || self.slots.iter().filter(|visit| !visit.dormant);
        let events = awake().filter_map(|visit| self.tasks[visit.task].event(visit.lane));
        let ready = || inbox.wants_attention() || awake().any(|visit| self.tasks[visit.task].ready(visit.lane));
        sleeper.wait(events, until, ready);
    }
}

impl Drop for Driver {
    /// One by one and contained, as in [`take_in`](Self::take_in): a second panic would end the process.
    fn drop(&mut self) {
        self.tasks.drain(..).for_each(drop_contained);
    }
}

impl Visit {
    fn is_paced(&mut self) -> bool {
        let Some(until) = self.paced_until else { return false };
        let left = until.wrapping_sub(ticks());
        if left == 0 || left > self.pace {
            self.paced_until = None; // over, or the counter jumped
            return false;
        }
        true
    }
}

/// A thread for one task, started when the task comes and ended when its member has left.
#[derive(Clone)]
pub(super) struct OwnThread {
    name: String,
    inbox: Arc<Inbox>,
}

impl OwnThread {
    pub(super) fn named(name: &str) -> Self {
        // A thread's name must not contain NUL; a group's may.
        OwnThread { name: name.replace('\0', " "), inbox: Inbox::new() }
    }
}

impl Executor for OwnThread {
    fn reserve(&self) -> Box<dyn Reserved> {
        Box::new(self.clone())
    }
}

impl Reserved for OwnThread {
    fn seat(&self) -> Arc<dyn Seat> {
        self.inbox.clone()
    }

    fn place(self: Box<Self>, task: Box<dyn Task>) -> Result<(), PlaceError> {
        self.inbox.push(task)?;
        let inbox = self.inbox.clone();
        let spawned = thread::Builder::new().name(self.name).spawn(move || drive(&inbox, Ends::WhenEmpty));
        spawned.map(drop).map_err(|error| {
            self.inbox.close();
            PlaceError::NoThread(error.to_string())
        })
    }
}

impl fmt::Debug for OwnThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnThread({})", self.name)
    }
}
