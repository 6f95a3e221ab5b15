//! Joining a group: from a handler to a task on an executor.
#![forbid(unsafe_code)]

use super::Group;
use super::context::Id;
use super::error::SubscribeError;
use super::executor::{Executor, PlaceError, Reserved, Run, Seat, Task};
use super::handler::{Deliver, Handlers, PerBatch, PerRecord};
use super::lane::Lane;
use super::name;
use super::outcome::{IntoBatchOutcome, IntoOutcome};
use super::record::{Batch, Record};
use super::roster::Member;
use super::shared::ShareTask;
use super::task::MemberTask;
use super::thread::OwnThread;
use super::word::MemberId;
use crate::sync::Arc;
use crate::wait::WaitPolicy;

/// How a member joins.
#[derive(Clone, Debug)]
pub struct Join {
    /// Its name, unique within the group.
    pub name: Arc<str>,
    /// Who runs it.
    pub run: Run,
    /// How it waits.
    pub wait: WaitPolicy,
    /// The partitions that it wants, and no others; empty: it takes what it is given.
    pub only: Vec<u32>,
}

impl<T: Send + Sync + 'static> Group<T> {
    /// A member with one handler for all its lanes, which are stepped one at a time.
    pub fn subscribe<F, O>(self: &Arc<Self>, join: Join, handler: F) -> Result<MemberId, SubscribeError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        self.with_one(join, PerRecord(handler))
    }

    /// A member with a handler for each partition. `make` is called at once, on this thread, for every partition of the
    /// topic, since each could become the member's.
    pub fn subscribe_with<F, O>(
        self: &Arc<Self>,
        join: Join,
        mut make: impl FnMut(u32) -> F,
    ) -> Result<MemberId, SubscribeError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        self.with_each(join, |partition| PerRecord(make(partition)))
    }

    /// A member with one handler of whole batches. See [`IntoBatchOutcome`] for what a failure means.
    pub fn subscribe_batch<F, O>(self: &Arc<Self>, join: Join, handler: F) -> Result<MemberId, SubscribeError>
    where
        F: FnMut(&Batch<'_, T>) -> O + Send + 'static,
        O: IntoBatchOutcome + 'static,
    {
        self.with_one(join, PerBatch(handler))
    }

    /// A member with a handler of whole batches for each partition.
    pub fn subscribe_batch_with<F, O>(
        self: &Arc<Self>,
        join: Join,
        mut make: impl FnMut(u32) -> F,
    ) -> Result<MemberId, SubscribeError>
    where
        F: FnMut(&Batch<'_, T>) -> O + Send + 'static,
        O: IntoBatchOutcome + 'static,
    {
        self.with_each(join, |partition| PerBatch(make(partition)))
    }

    fn with_one<D: Deliver<T>>(self: &Arc<Self>, join: Join, handler: D) -> Result<MemberId, SubscribeError> {
        match &join.run {
            Run::ThreadPerLane => {
                Err(SubscribeError::OneHandler { group: self.name.clone(), member: join.name.clone() })
            }
            Run::OwnThread => self.on_one(&join, &OwnThread::named(&format!("{}/{}", self.name, join.name)), handler),
            Run::On(executor) => self.on_one(&join, &**executor, handler),
        }
    }

    fn on_one<D: Deliver<T>>(
        self: &Arc<Self>,
        join: &Join,
        executor: &dyn Executor,
        handler: D,
    ) -> Result<MemberId, SubscribeError> {
        self.at(join, executor.reserve(), Handlers::One(handler))
    }

    /// A member with one task for all its lanes.
    fn at<D: Deliver<T>>(
        self: &Arc<Self>,
        join: &Join,
        place: Box<dyn Reserved>,
        handlers: Handlers<D>,
    ) -> Result<MemberId, SubscribeError> {
        let seat = place.seat();
        let executor = seat.executor();
        self.enter(join, vec![seat], |member| {
            place.place(self.task((member, executor), join.wait, &self.lanes, handlers))
        })
    }

    fn with_each<D: Deliver<T>>(
        self: &Arc<Self>,
        join: Join,
        make: impl FnMut(u32) -> D,
    ) -> Result<MemberId, SubscribeError> {
        let handlers: Vec<D> = (0..).take(self.lanes.len()).map(make).collect();
        let executor: Arc<dyn Executor> = match &join.run {
            Run::ThreadPerLane => return self.on_threads(&join, handlers),
            Run::OwnThread => Arc::new(OwnThread::named(&format!("{}/{}", self.name, join.name))),
            Run::On(executor) => executor.clone(),
        };
        self.at(&join, executor.reserve(), Handlers::Each(handlers))
    }

    /// A thread for each partition, each with a task of one lane.
    fn on_threads<D: Deliver<T>>(self: &Arc<Self>, join: &Join, handlers: Vec<D>) -> Result<MemberId, SubscribeError> {
        let named = |partition: usize| OwnThread::named(&format!("{}-{}-{partition}", self.name, self.topic));
        let threads: Vec<OwnThread> = (0..self.lanes.len()).map(named).collect();
        self.enter(join, threads.iter().map(OwnThread::seat).collect(), |member| {
            let task = |((thread, lane), handler): ((&OwnThread, _), D)| {
                let who = (member, thread.seat().executor());
                self.task(who, join.wait, std::slice::from_ref(lane), Handlers::One(handler))
            };
            // All of them before the first is placed: if a thread is refused, each is dropped and takes itself off the list.
            let tasks: Vec<_> = threads.iter().zip(&self.lanes).zip(handlers).map(task).collect();
            threads.iter().zip(tasks).try_for_each(|(thread, task)| Box::new(thread.clone()).place(task))
        })
    }

    /// A task of the kind that the group's order needs.
    fn task<D: Deliver<T>>(
        self: &Arc<Self>,
        who: (&Member, Id),
        wait: WaitPolicy,
        lanes: &[Arc<Lane<T>>],
        handlers: Handlers<D>,
    ) -> Box<dyn Task> {
        if self.shares() {
            Box::new(ShareTask::new(self.clone(), who, wait, lanes, handlers))
        } else {
            Box::new(MemberTask::new(self.clone(), who, wait, lanes, handlers))
        }
    }

    /// Puts the member on the list, places its tasks, and deals.
    fn enter(
        self: &Arc<Self>,
        join: &Join,
        seats: Vec<Arc<dyn Seat>>,
        place: impl FnOnce(&Member) -> Result<(), PlaceError>,
    ) -> Result<MemberId, SubscribeError> {
        if let Err(reason) = name::check(&join.name) {
            return Err(SubscribeError::Name { group: self.name.clone(), reason });
        }
        let member = self.enrol(&join.name, seats.into(), &join.only)?;
        if let Err(reason) = place(&member) {
            self.leave(member.id);
            let (group, member) = (self.name.clone(), join.name.clone());
            return Err(SubscribeError::NotPlaced { group, member, reason });
        }
        self.welcome();
        Ok(member.id)
    }
}
