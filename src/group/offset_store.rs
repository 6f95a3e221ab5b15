//! Offsets outside the cursors: one as plain data, and where a group's may be kept.
#![forbid(unsafe_code)]

use crate::sync::{Arc, Mutex, lock};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// Where a group stands in one partition, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The next offset to be read: everything before it is done.
    pub next: u64,
}

impl fmt::Display for GroupOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {} at {}", self.topic, self.partition, self.group, self.next)
    }
}

/// What a store may fail with.
pub type StoreError = Box<dyn Error + Send + Sync>;

/// Where offsets are kept that outlive a group: of your own, [in memory](MemoryOffsets) or [in a file](crate::FileOffsets).
///
/// The cursors are the truth: a store is read when a group is made and written behind, never when a record is
/// acknowledged, so what is stored may be older than the cursor, and after a crash a little is handed over again. Called
/// under no lock, on the thread that makes or deletes a group, or closes the broker, and on that of the broker's timer; a
/// panic counts as an error.
pub trait OffsetStore: Send + Sync + 'static {
    /// The next offset to be read by `group` in a partition of `topic`; `None` if none was saved.
    ///
    /// # Errors
    ///
    /// It cannot be said: the group is not made then.
    fn load(&self, topic: &str, group: &str, partition: u32) -> Result<Option<u64>, StoreError>;

    /// Keeps `offsets`, those of one group that have changed, in place of what was saved for the same partitions before.
    ///
    /// # Errors
    ///
    /// Not all of them could be kept. It is reported, and tried again.
    fn save(&self, offsets: &[GroupOffset]) -> Result<(), StoreError>;
}

/// Offsets in memory: for groups that come and go while the process lives, and for tests.
#[derive(Debug, Default)]
pub struct MemoryOffsets(Mutex<Table>);

/// Offsets by topic, group and partition.
pub(super) type Table = BTreeMap<(Arc<str>, Arc<str>, u32), u64>;

impl MemoryOffsets {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that is kept, in order.
    pub fn all(&self) -> Vec<GroupOffset> {
        listed(&lock(&self.0))
    }

    /// Forgets a group of a topic; deleting a group does not, so that it may be made again and go on. Whether it knew it.
    pub fn forget(&self, topic: &str, group: &str) -> bool {
        forget(&mut lock(&self.0), topic, group)
    }
}

impl OffsetStore for MemoryOffsets {
    fn load(&self, topic: &str, group: &str, partition: u32) -> Result<Option<u64>, StoreError> {
        Ok(lock(&self.0).get(&(topic.into(), group.into(), partition)).copied())
    }

    fn save(&self, offsets: &[GroupOffset]) -> Result<(), StoreError> {
        put(&mut lock(&self.0), offsets);
        Ok(())
    }
}

pub(super) fn listed(table: &Table) -> Vec<GroupOffset> {
    let offset = |((topic, group, partition), next): (&(Arc<str>, Arc<str>, u32), &u64)| GroupOffset {
        topic: topic.clone(),
        group: group.clone(),
        partition: *partition,
        next: *next,
    };
    table.iter().map(offset).collect()
}

pub(super) fn forget(table: &mut Table, topic: &str, group: &str) -> bool {
    let before = table.len();
    table.retain(|(its_topic, its_group, _), _| **its_topic != *topic || **its_group != *group);
    table.len() < before
}

pub(super) fn put(table: &mut Table, offsets: &[GroupOffset]) {
    table.extend(offsets.iter().map(|offset| {
        let GroupOffset { topic, group, partition, next } = offset.clone();
        ((topic, group, partition), next)
    }));
}
