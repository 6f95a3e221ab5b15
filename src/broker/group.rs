//! The handle of a group, and how a topic makes, finds and deletes groups.
#![forbid(unsafe_code)]

use super::core::Core;
use super::groups::Groups;
use super::leave::Member;
use super::life::{BrokerState, Life};
use super::member::NewMember;
use super::topic::Topic;
use crate::group::{
    ControlError, Found, Group as Inner, GroupConfig, GroupError, GroupSpec, GroupStats, IntoOutcome, LaneStats,
    Record, SeekTo, SubscribeError,
};
use crate::sync::Arc;
use std::fmt;

/// A consumer group of a topic: a handle, cheap to clone.
///
/// The group reads every record of the topic, with a cursor of its own for each partition. It holds the settings and the
/// cursors; members come and go. It exists without a member, and holds back publishers all the same; on a topic that
/// [drops its oldest](crate::TopicConfig::drop_oldest) no group holds anybody back, and one that is late loses records.
pub struct Group<T> {
    inner: Arc<Inner<T>>,
    siblings: Groups<T>,
    life: Arc<Life>,
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// The group of that name, made by `config` if there is none. From its making on it holds back publishers, where groups
    /// do.
    ///
    /// Idempotent: an existing group is returned if `config` is equal to its settings. Of several calls at once one
    /// makes it.
    ///
    /// # Errors
    ///
    /// Bad name, impossible setting, existing group with other settings (names the first field), topic deleted or
    /// broker closed; see [`GroupError`].
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// topic.group("audit", GroupConfig::earliest())?;
    /// topic.group("audit", GroupConfig::earliest())?;
    /// assert!(topic.group("audit", GroupConfig::latest()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&self, name: &str, config: GroupConfig<T>) -> Result<Group<T>, GroupError> {
        self.group_unless(name, config.clone(), |there| there.check(&config))
    }

    /// The group of that name if `refuse` lets it pass, made by `config` if there is none.
    pub(super) fn group_unless(
        &self,
        name: &str,
        config: GroupConfig<T>,
        mut refuse: impl FnMut(&Inner<T>) -> Result<(), GroupError>,
    ) -> Result<Group<T>, GroupError> {
        let core = &*self.0;
        let closed = || GroupError::Closed { topic: core.name.clone(), group: name.into() };
        if core.life.state() != BrokerState::Open {
            return Err(closed());
        }
        let inner = loop {
            // Stores and clocks are the user's, and so they are asked before the list is being changed.
            let found = match core.groups.find(name) {
                None => Some(config.find(&core.name, name, &core.logs)?),
                Some(_) => None,
            };
            let (mut made, mut gone) = (false, false);
            // A handle goes in, so that nothing of the user's is dropped while the list is being changed.
            let settings = found.is_some().then(|| core.groups.settings(&config));
            let make = || {
                (made, gone) = (found.is_some(), found.is_none());
                let (found, settings) = found.zip(settings.clone()).ok_or_else(closed)?;
                Inner::new(GroupSpec { found, ..self.spec(name, settings) })
            };
            // One that is just going does not go by its settings any more.
            let accept = |there: &Inner<T>| if there.is_retired() { Ok(()) } else { refuse(there) };
            match core.groups.get_or_make(name, accept, make, closed) {
                Err(_) if gone => {} // it was there, and was deleted before we had it
                Ok(inner) if made => break core.look_after(&inner).map(|()| inner)?,
                Ok(found) if found.is_retired() => drop(core.groups.remove(&found)), // an ephemeral group that is just going
                done => break done?,
            }
        };
        core.logs.iter().for_each(|log| log.sweep()); // only now, for destructors may look at the list
        Ok(core.group_handle(inner))
    }

    /// The group of that name, if there is one.
    ///
    /// # Errors
    ///
    /// [`GroupError::Unknown`] if there is none.
    pub fn find_group(&self, name: &str) -> Result<Group<T>, GroupError> {
        let unknown = || GroupError::Unknown { topic: self.0.name.clone(), group: name.into() };
        self.0.groups.find(name).map(|inner| self.0.group_handle(inner)).ok_or_else(unknown)
    }

    /// The groups there are, by name. Others may come and go at once.
    pub fn groups(&self) -> Vec<Group<T>> {
        self.0.groups.all().into_iter().map(|inner| self.0.group_handle(inner)).collect()
    }

    /// Deletes a group; see [`Group::delete`].
    ///
    /// # Errors
    ///
    /// [`GroupError::Unknown`] if there is none.
    pub fn delete_group(&self, name: &str) -> Result<(), GroupError> {
        let unknown = || GroupError::Unknown { topic: self.0.name.clone(), group: name.into() };
        if self.find_group(name)?.delete() { Ok(()) } else { Err(unknown()) }
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    fn spec(&self, name: &str, config: Arc<GroupConfig<T>>) -> GroupSpec<T> {
        let core = &self.0;
        // The list holds the group, so the group holds it weakly.
        let topic = Arc::downgrade(core);
        GroupSpec {
            topic: core.name.clone(),
            name: name.into(),
            logs: core.logs.to_vec(),
            config,
            key: core.key.clone(),
            found: Found::default(),
            clock: core.life.clock().clone(),
            random: core.life.random().clone(),
            progress: core.life.progress().clone(),
            broker: core.life.id(),
            closing: core.life.closing().clone(),
            retire: Box::new(move |group| _ = topic.upgrade().map(|topic| topic.groups.remove(group))),
        }
    }
}

impl<T: Send + Sync + 'static> Core<T> {
    fn group_handle(&self, inner: Arc<Inner<T>>) -> Group<T> {
        Group { inner, siblings: self.groups.clone(), life: self.life.clone() }
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    pub(super) fn inner(&self) -> &Arc<Inner<T>> {
        &self.inner
    }

    /// All groups of the topic.
    pub(super) fn siblings(&self) -> Vec<Arc<Inner<T>>> {
        self.siblings.all()
    }

    pub(super) fn life(&self) -> &Life {
        &self.life
    }

    pub(super) fn shared_life(&self) -> &Arc<Life> {
        &self.life
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// The settings it was made by.
    pub fn config(&self) -> &GroupConfig<T> {
        self.inner.config()
    }

    /// Adds a member with a thread of its own, whose handler is called for one record at a time.
    ///
    /// # Errors
    ///
    /// Name bad or taken, group or broker closed, no thread for it; see [`SubscribeError`].
    pub fn subscribe<F, O>(&self, name: &str, handler: F) -> Result<Member<T>, SubscribeError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        self.member(name).subscribe(handler)
    }

    /// A member with settings of its own; give it a handler to have it join.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Run, TopicConfig, WaitPolicy};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().partitions(4))?;
    /// let group = topic.group("sums", GroupConfig::earliest())?;
    /// group.member("sums-1").run(Run::ThreadPerLane).wait(WaitPolicy::Park).subscribe_with(|_partition| {
    ///     let mut sum = 0; // one for each partition
    ///     move |order| sum += **order
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn member<'a>(&'a self, name: &'a str) -> NewMember<'a, T> {
        NewMember::new(self, Some(name))
    }

    /// Moves the cursor of a partition and says where it landed, between the earliest offset retained and the end.
    ///
    /// Takes effect at once, whoever is at work: a handler finishes its record, whose acknowledgement is refused. What
    /// lies between is counted as replayed or as skipped (or as expired, if it was too old); no hook is called for what was
    /// lost there. Lock-free for publishers.
    ///
    /// # Errors
    ///
    /// No such partition, or the group was deleted, or its broker closed; see [`ControlError`].
    pub fn seek(&self, partition: u32, to: SeekTo) -> Result<u64, ControlError> {
        self.inner.seek(partition, to)
    }

    /// Moves every partition's cursor, as [`Group::seek`], to the same place; says where each landed.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, SeekTo, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let audit = topic.group("audit", GroupConfig::earliest())?;
    /// audit.subscribe("audit-1", |_| ())?;
    /// topic.publish_batch(0..3)?;
    /// broker.drain(Duration::from_secs(2))?;
    ///
    /// audit.pause();
    /// assert_eq!(audit.replay(SeekTo::Earliest)?, [0]);
    /// assert_eq!(audit.lag(), 3);
    /// audit.resume();
    /// broker.drain(Duration::from_secs(2))?;
    /// assert_eq!((audit.stats().acked(), audit.stats().replayed()), (6, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The group was deleted, or its broker closed; see [`ControlError`].
    pub fn replay(&self, from: SeekTo) -> Result<Vec<u64>, ControlError> {
        (0..).take(self.inner.stats().lanes.len()).map(|partition| self.seek(partition, from)).collect()
    }

    /// Pauses the group. Does not wait for the records in hand: of those that a lane has taken it hands over at most one
    /// more, which says that it [ends a batch](crate::Record::ends_batch).
    pub fn pause(&self) {
        self.inner.pause();
    }

    /// Takes [`Group::pause`] back; partitions that were paused on their own stay so.
    pub fn resume(&self) {
        self.inner.resume();
    }

    /// Pauses one partition.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn pause_partition(&self, partition: u32) -> Result<(), ControlError> {
        self.inner.pause_partition(partition)
    }

    /// Takes [`Group::pause_partition`] back.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn resume_partition(&self, partition: u32) -> Result<(), ControlError> {
        self.inner.resume_partition(partition)
    }

    /// The records that are not done, over all partitions: what is in hand, and what is retained from the cursor on. A hint
    /// while anybody is at work.
    pub fn lag(&self) -> u64 {
        self.inner.lag()
    }

    /// The records of one partition that are not done.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn lag_of(&self, partition: u32) -> Result<u64, ControlError> {
        self.inner.lag_of(partition)
    }

    /// The group in figures; exact while nobody is at work.
    pub fn stats(&self) -> GroupStats {
        self.inner.stats()
    }

    /// One partition of the group in figures.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn stats_of(&self, partition: u32) -> Result<LaneStats, ControlError> {
        self.inner.stats_of(partition)
    }

    /// Deletes the group: its members leave without being waited for, its cursors hold nobody back any more, what its
    /// handlers still have in hand is not acknowledged, and its name is free. Whether this call did it.
    ///
    /// Its offsets are saved, if it has a store for them, before its name is free and once more when its cursors stand still;
    /// if another thread is saving at the time, it is left to that one and not waited for. So a group of the same name that is
    /// made at once may begin a little before where this one ended, and be handed some records again.
    pub fn delete(&self) -> bool {
        let _reported = self.inner.save_behind();
        let removed = self.siblings.remove(&self.inner);
        self.inner.delete();
        removed
    }
}

impl<T> Clone for Group<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), siblings: self.siblings.clone(), life: self.life.clone() }
    }
}

impl<T> fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
