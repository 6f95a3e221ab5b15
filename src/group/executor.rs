//! The seam between delivery and whatever runs it: a member's lanes are a [`Task`], an [`Executor`] steps tasks, and a
//! [`Seat`] is how a group gets an executor's attention.
#![forbid(unsafe_code)]

use super::context::Id;
use crate::log::Log;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::{Clock, Time};
use crate::wait::{Event, WaitPolicy};
use std::fmt;

/// One call of [`Task::step`].
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Who steps.
    pub executor: Id,
    /// At most this many records.
    pub budget: usize,
    /// Whether the time that records take may change how many are handed over in one go. Off where every step must be
    /// reproducible.
    pub adapt: bool,
    /// A planned fault: the next record's handler panics instead of being called.
    pub panic: bool,
    /// Ends the turn early once it is set: asked whenever finished records are committed.
    pub ends: Option<&'a AtomicBool>,
}

impl Turn<'_> {
    /// Whether the turn is to end early.
    ///
    /// | label        | operation | order   | why this much, and why no more                                        |
    /// |--------------|-----------|---------|-----------------------------------------------------------------------|
    /// | turn_ended:A | load      | Relaxed | only whether; the executor looks at what there is by its own orderings |
    #[inline]
    pub fn is_ended(&self) -> bool {
        // ORD(turn_ended:A) Relaxed: see the table.
        self.ends.is_some_and(|ends| ends.load(Ordering::Relaxed))
    }
}

/// What a step did, or what the lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Records were handed to the handler.
    Worked {
        /// How many calls were made, failed ones included.
        handled: usize,
        /// Whether there may be more to do at once.
        more: bool,
    },
    /// Nothing to do until data comes.
    Waits,
    /// A failed record waits for its next attempt.
    Backoff {
        /// When that is.
        until: Time,
    },
    /// Paused; a resume rings the bell.
    Paused,
    /// The lane belongs to somebody else, or to nobody yet.
    Elsewhere,
    /// The lane is over: its group was deleted.
    Ended,
}

/// Where a lane belongs, for executors that keep lanes of one partition side by side and for traces.
#[derive(Clone, Debug)]
pub struct Place {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The member.
    pub member: Arc<str>,
    /// The partition.
    pub partition: u32,
}

/// Where lanes get their data from.
pub trait Origin: Send + Sync {
    /// What is notified when there is more.
    fn event(&self) -> &Event;
}

impl<T: Send + Sync + 'static> Origin for Log<T> {
    fn event(&self) -> &Event {
        self.not_empty()
    }
}

/// The lanes of one member, as an executor sees them. Dropping it hands over whatever it holds and makes its member
/// leave: that is how a thread that ends, for whatever reason, leaves nothing behind.
pub trait Task: Send {
    /// How many lanes this task may step: one for each partition it could be given.
    fn lanes(&self) -> usize;
    /// Where a lane belongs.
    fn place(&self, lane: usize) -> Place;
    /// Steps one lane. It never blocks, apart from what the handler does.
    fn step(&mut self, lane: usize, turn: Turn<'_>) -> Step;
    /// Whether a step would find something to do: data, or an order from a control. What a backoff waits for is not
    /// asked here.
    fn ready(&self, lane: usize) -> bool;
    /// What is notified when a lane gets data; `None` while data would not make it step.
    fn event(&self, lane: usize) -> Option<&Event>;
    /// The same, whatever the lane is doing: where an alarm may still hang.
    fn source(&self, lane: usize) -> &Event;
    /// What that belongs to.
    fn origin(&self, lane: usize) -> Arc<dyn Origin>;
    /// The next offset that a lane held by this task will hand over.
    fn next(&self, lane: usize) -> Option<u64>;
    /// The member's way of waiting.
    fn wait(&self) -> WaitPolicy;
    /// The clock that backoffs are measured on.
    fn clock(&self) -> &Arc<dyn Clock>;
    /// Whether the member has left and holds nothing any more; the task can be dropped.
    fn finished(&self) -> bool;
}

impl fmt::Debug for dyn Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({} lanes)", self.lanes())
    }
}

/// How to get an executor's attention.
pub trait Seat: Send + Sync + fmt::Debug {
    /// Makes the executor look at all its lanes soon. Never blocks, from any thread; a ring while it is awake is kept.
    fn ring(&self);
    /// The executor.
    fn executor(&self) -> Id;
    /// Whether it sleeps until there is something: then it does not hang, whatever it has forgotten to settle.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Whether it is a consumer's, which calls no handler.
    fn polls(&self) -> bool {
        false
    }

    /// The threads that it has in common with other executors, if it has: while one of them waits for another, there may be
    /// nobody to step that.
    fn shares(&self) -> Option<Id> {
        None
    }
}

/// Why an executor did not take a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// It was stopped, or its thread has ended.
    #[error("the executor has stopped")]
    Stopped,
    /// It already serves members that are timed by another clock.
    #[error("the executor already serves members of a broker with another clock")]
    OtherClock,
    /// The operating system refused a thread.
    #[error("the system refused a thread: {0}")]
    NoThread(String),
}

/// Something that steps tasks: [`Worker`](crate::Worker), [`Pool`](crate::Pool), [`Manual`](crate::Manual). Not to be
/// implemented outside.
pub trait Executor: Send + Sync + fmt::Debug {
    /// A place for one task.
    fn reserve(&self) -> Box<dyn Reserved>;
}

/// A place for one task with an [`Executor`]: its seat is known before the task is.
pub trait Reserved {
    /// How to get the attention of what will step the task.
    fn seat(&self) -> Arc<dyn Seat>;
    /// Hands the task over; from now on its lanes are stepped. A refused task is dropped.
    fn place(self: Box<Self>, task: Box<dyn Task>) -> Result<(), PlaceError>;
}

/// Who runs a member's handler.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Run {
    /// A thread of its own, all lanes one at a time (the default).
    #[default]
    OwnThread,
    /// A thread for each partition; needs a handler for each (`subscribe_with`).
    ThreadPerLane,
    /// An executor shared with other members.
    On(Arc<dyn Executor>),
}
