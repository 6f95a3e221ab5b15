//! Where groups stand: as a copy, put back, set by who knows better, and kept in their stores.
#![forbid(unsafe_code)]

use super::core::Core;
use super::group::Group;
use super::handle::Broker;
use super::registry::AnyTopic;
use super::timer::Timed;
use super::topic::Topic;
use crate::group::{CommitError, ControlError, Group as Inner, GroupError, GroupOffset, OffsetError, StoreFailure};
use crate::sync::{Arc, Weak};
use crate::time::Time;

impl<T: Send + Sync + 'static> Timed for Inner<T> {
    fn first(&self, now: Time) -> Option<Box<dyn FnOnce() + '_>> {
        let ended = self.end_leases(now)?;
        Some(Box::new(move || self.follow_ended(ended)))
    }

    fn tick(&self, now: Time) -> Option<Time> {
        let saved = self.save_due(now);
        let leases = {
            let _here = self.enter_timer();
            [self.watch_leases(now), self.expire_leases(now), self.watch_claims(now)]
        };
        [saved, self.watch_lag(now)].into_iter().chain(leases).flatten().min()
    }
}

impl<T: Send + Sync + 'static> Core<T> {
    /// A group was made: from now on the timer looks after it, if it wants that.
    pub(super) fn look_after(&self, group: &Arc<Inner<T>>) -> Result<(), GroupError> {
        if !group.wants_timer() {
            return Ok(());
        }
        let timed: Weak<dyn Timed> = Arc::<Inner<T>>::downgrade(group);
        self.life.timer().watch(timed).map_err(|error| {
            self.groups.remove(group);
            group.delete();
            GroupError::NoTimer { group: group.name().clone(), why: error.kind() }
        })
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Where the group stands: the next offset to be read of each partition. A copy; each is right at some moment during
    /// the call.
    pub fn offsets(&self) -> Vec<GroupOffset> {
        self.inner().offsets()
    }

    /// Moves the cursors to where `offsets` say that this group stood, each as by a [`seek`](Self::seek), and says where they
    /// landed. Entries of other groups and topics are passed over, so that [`Broker::offsets`] may be given as it is.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("billing", GroupConfig::earliest())?;
    /// let before = broker.offsets();
    /// group.subscribe("billing-1", |_| ())?;
    /// topic.publish_batch(0..3)?;
    /// broker.drain(Duration::from_secs(2))?;
    /// assert_eq!(group.offsets()[0].next, 3);
    /// assert_eq!(group.restore(&before)?[0].next, 0); // it all comes again
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An entry of this group is of a partition that the topic has not: nothing is moved then. The group was deleted, or its
    /// broker closed.
    pub fn restore(&self, offsets: &[GroupOffset]) -> Result<Vec<GroupOffset>, ControlError> {
        self.inner().restore(offsets)
    }

    /// Moves the cursor of a partition to `new` if it is at `expected`, and says where it landed, between the earliest offset
    /// retained and the end: for acknowledging from outside. Compared and set at one moment, whoever is at work.
    ///
    /// As after a [`seek`](Self::seek), what a handler has in hand is not acknowledged by its return, and what lies between is
    /// counted as skipped or replayed.
    ///
    /// # Errors
    ///
    /// [`CommitError::Elsewhere`] with where the cursor is, and nothing has changed; no such partition; the group was
    /// deleted, or its broker closed.
    ///
    /// ```
    /// use ringlog::{Broker, CommitError, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("billing", GroupConfig::earliest())?;
    /// topic.publish_batch(0..3)?;
    /// assert_eq!(group.commit(0, 0, 2)?, 2);
    /// assert!(matches!(group.commit(0, 0, 3), Err(CommitError::Elsewhere { found: 2, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(&self, partition: u32, expected: u64, new: u64) -> Result<u64, CommitError> {
        self.inner().commit(partition, expected, new)
    }

    /// As [`Group::seek`] to an offset, but instead of the nearest one that exists it takes none: an offset that is gone, or
    /// lies beyond the end, is an error that says where the log begins or ends, and the cursor stays where it is.
    ///
    /// What is there when it is looked at may go before the cursor arrives, where records may: then it lands at the earliest,
    /// and says so.
    ///
    /// # Errors
    ///
    /// [`OffsetError::Gone`], [`OffsetError::Beyond`]; no such partition; the group was deleted, or its broker closed.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(2).drop_oldest())?;
    /// let group = topic.group("screen", GroupConfig::latest())?;
    /// topic.publish_batch(0..2)?;
    /// topic.publish_batch(2..4)?;
    /// let refused = group.seek_exact(0, 1).unwrap_err();
    /// assert_eq!(refused.to_string(), "offset 1 was trimmed from ticks/0; earliest is 2");
    /// assert_eq!(group.seek_exact(0, 2)?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seek_exact(&self, partition: u32, offset: u64) -> Result<u64, OffsetError> {
        self.inner().seek_exact(partition, offset)
    }

    /// Saves in the group's [store](crate::GroupConfig::offset_store) what has changed since it was saved, and returns when
    /// that has been done, on this thread; without a store, and from the store or its hook, it does
    /// nothing. Waits while another thread saves.
    ///
    /// # Errors
    ///
    /// What the store failed with, which is counted and reported too.
    pub fn save_offsets(&self) -> Result<(), StoreFailure> {
        self.inner().save()
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// Where each group of the topic stands, by group and partition; as [`Group::offsets`].
    pub fn offsets(&self) -> Vec<GroupOffset> {
        AnyTopic::offsets(&*self.0)
    }
}

impl Broker {
    /// Where each group stands, by topic, group and partition; as [`Group::offsets`].
    pub fn offsets(&self) -> Vec<GroupOffset> {
        self.inner().topics.all().iter().flat_map(|topic| topic.offsets()).collect()
    }
}
