//! Who is in a group and has which partitions.
#![forbid(unsafe_code)]

use super::group::Group;
use super::member::NewMember;
use crate::group::Assignment;

impl<T: Send + Sync + 'static> Group<T> {
    /// A member without a name of its own: it gets the next one of the broker's [source](crate::BrokerConfig::ids) that no
    /// member of the group has.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, SequentialIds, TopicConfig};
    /// use std::sync::Arc;
    ///
    /// let broker = Broker::with(BrokerConfig::new().ids(Arc::new(SequentialIds::new("s"))));
    /// let group = broker.create_topic("orders", TopicConfig::<u64>::new())?.group("billing", GroupConfig::earliest())?;
    /// let names = [group.unnamed_member().subscribe(|_| ())?, group.unnamed_member().subscribe(|_| ())?];
    /// assert_eq!(names.each_ref().map(|member| member.name()), ["s1", "s2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unnamed_member(&self) -> NewMember<'_, T> {
        NewMember::new(self, None)
    }

    /// Which member has which partitions, and which are about to move: in the order they joined, those with none included.
    pub fn assignment(&self) -> Vec<Assignment> {
        self.inner().assignment()
    }
}
