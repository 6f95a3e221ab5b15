//! Joining a group.
#![forbid(unsafe_code)]

use super::group::Group;
use super::leave::Member;
use super::life::BrokerState;
use crate::group::{
    Batch, Consumer, Group as Inner, IntoBatchOutcome, IntoOutcome, Join, MemberId, Record, Run, SubscribeError,
};
use crate::sync::Arc;
use crate::wait::WaitPolicy;
use std::fmt;

/// A member about to join: who runs it, how it waits, and finally its handler. Made by [`Group::member`].
///
/// A handler returns `()`, a `Result` or an [`Outcome`](crate::Outcome). An error, and a panic, is a failure: the record
/// is handed over again as the group's retry allows, then becomes a dead letter. Meanwhile later records of the same
/// partition wait. (A panic is caught after the panic hook has run, which prints it unless another hook was set.)
#[must_use = "a member joins when it is given a handler"]
pub struct NewMember<'a, T> {
    group: &'a Group<T>,
    name: Option<&'a str>,
    run: Run,
    wait: WaitPolicy,
    only: Vec<u32>,
}

impl<'a, T: Send + Sync + 'static> NewMember<'a, T> {
    pub(super) fn new(group: &'a Group<T>, name: Option<&'a str>) -> Self {
        Self { group, name, run: Run::default(), wait: WaitPolicy::default(), only: Vec::new() }
    }

    /// Who runs the handler (default [`Run::OwnThread`]).
    pub fn run(mut self, run: impl Into<Run>) -> Self {
        self.run = run.into();
        self
    }

    /// How eagerly it looks for records before it sleeps (default [`WaitPolicy::Balanced`]).
    pub fn wait(mut self, policy: WaitPolicy) -> Self {
        self.wait = policy;
        self
    }

    /// Joins with one handler for all its partitions, called for one record at a time.
    ///
    /// # Errors
    ///
    /// Name bad or taken, group or broker closed, no thread for it; see [`SubscribeError`].
    pub fn subscribe<F, O>(self, handler: F) -> Result<Member<T>, SubscribeError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        self.enter(|group, join| group.subscribe(join, handler))
    }

    /// Joins with a handler for each partition, so that several may run side by side. `make` is called at once for each
    /// partition of the topic, since each could become this member's.
    ///
    /// # Errors
    ///
    /// As [`NewMember::subscribe`].
    pub fn subscribe_with<F, O>(self, make: impl FnMut(u32) -> F) -> Result<Member<T>, SubscribeError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        self.enter(|group, join| group.subscribe_with(join, make))
    }

    /// Joins with one handler that takes whole batches: consecutive records of one partition.
    ///
    /// It returns `()`, a `Result`, or a [`BatchOutcome`](crate::BatchOutcome) that says how far it got:
    ///
    /// ```
    /// use ringlog::{Batch, BatchOutcome, Broker, GroupConfig, Outcome, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("rows", GroupConfig::earliest())?;
    /// group.member("rows-1").subscribe_batch(|batch: &Batch<'_, u64>| {
    ///     let good = batch.iter().take_while(|order| **order != 2).count();
    ///     let then = if good < batch.len() { Outcome::reject("two") } else { Outcome::Ack };
    ///     BatchOutcome::after(good, then) // the records before are done, `then` is about the one behind them
    /// })?;
    /// topic.publish_batch(0..5)?;
    /// broker.drain(Duration::from_secs(2))?;
    /// assert_eq!((group.stats().acked(), group.stats().dead()), (4, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`NewMember::subscribe`].
    pub fn subscribe_batch<F, O>(self, handler: F) -> Result<Member<T>, SubscribeError>
    where
        F: FnMut(&Batch<'_, T>) -> O + Send + 'static,
        O: IntoBatchOutcome + 'static,
    {
        self.enter(|group, join| group.subscribe_batch(join, handler))
    }

    /// Joins with a batch handler for each partition; see [`NewMember::subscribe_with`].
    ///
    /// # Errors
    ///
    /// As [`NewMember::subscribe`].
    pub fn subscribe_batch_with<F, O>(self, make: impl FnMut(u32) -> F) -> Result<Member<T>, SubscribeError>
    where
        F: FnMut(&Batch<'_, T>) -> O + Send + 'static,
        O: IntoBatchOutcome + 'static,
    {
        self.enter(|group, join| group.subscribe_batch_with(join, make))
    }

    /// It takes this partition and no other, before any member that takes what it is dealt; called more than once, these. Of
    /// several that want one, the first that joined has it. The group's assignor is not asked about it.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().partitions(2))?;
    /// let group = topic.group("billing", GroupConfig::earliest())?;
    /// let (only, other) = (group.member("second").partition(1).consumer()?, group.consumer("others")?);
    /// let partitions: Vec<Vec<u32>> = group.assignment().into_iter().map(|of| of.partitions).collect();
    /// assert_eq!(partitions, [[1], [0]]);
    /// # drop((only, other));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn partition(mut self, partition: u32) -> Self {
        self.only.push(partition);
        self
    }

    /// Joins as a member that polls, on whatever thread has it: [`run`](Self::run) and [`wait`](Self::wait) say nothing to it.
    ///
    /// # Errors
    ///
    /// Name bad or taken, group or broker closed, no such partition; see [`SubscribeError`].
    pub fn consumer(self) -> Result<Consumer<T>, SubscribeError> {
        let Self { group, name, only, .. } = self;
        let inner = group.inner();
        if group.life().state() != BrokerState::Open {
            return Err(SubscribeError::Closed { group: inner.name().clone() });
        }
        let name: Arc<str> = name.map_or_else(|| generated(group), Into::into);
        inner.consumer(name, &only)
    }

    fn enter(
        self,
        join: impl FnOnce(&Arc<Inner<T>>, Join) -> Result<MemberId, SubscribeError>,
    ) -> Result<Member<T>, SubscribeError> {
        let Self { group, name, run, wait, only } = self;
        let inner = group.inner();
        if group.life().state() != BrokerState::Open {
            return Err(SubscribeError::Closed { group: inner.name().clone() });
        }
        let name: Arc<str> = name.map_or_else(|| generated(group), Into::into);
        let id = join(inner, Join { name: name.clone(), run, wait, only })?;
        Ok(Member { group: inner.clone(), name, id, life: group.shared_life().clone() })
    }
}

/// How many names that are taken already a source of identifiers may give in a row.
const TAKEN_MOST: usize = 64;

/// A name for a member that was given none: the next one of the broker's source that no member has.
fn generated<T: Send + Sync + 'static>(group: &Group<T>) -> Arc<str> {
    let mut name: Arc<str> = group.life().next_id().into();
    for _ in 0..TAKEN_MOST {
        if !group.inner().has_member(&name) {
            break;
        }
        name = group.life().next_id().into();
    }
    name
}

impl<T> fmt::Debug for NewMember<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewMember").field("name", &self.name).field("run", &self.run).finish_non_exhaustive()
    }
}
