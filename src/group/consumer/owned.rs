//! A batch of clones, for handing work on.
#![forbid(unsafe_code)]

use super::Polled;
use crate::group::receipt::Receipt;
use crate::time::Time;
use std::fmt;

/// A record of one's own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OwnedRecord<T> {
    /// The payload, a clone of the log's.
    pub value: T,
    /// The partition.
    pub partition: u32,
    /// The offset within the partition.
    pub offset: u64,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    /// When it was published, where the topic has [timestamps](crate::TopicConfig::timestamps).
    pub published_at: Option<Time>,
}

/// What [`Consumer::poll_owned`](crate::Consumer::poll_owned) gives: clones of the records, in order, and the receipt for them.
#[must_use = "dropping the receipt releases the records"]
pub struct OwnedBatch<T> {
    /// The records; none if the wait was over first.
    pub records: Vec<OwnedRecord<T>>,
    /// With which they are settled.
    pub receipt: Receipt,
}

impl<T: Clone + Send + Sync + 'static> OwnedBatch<T> {
    pub(super) fn of(batch: Polled<'_, T>) -> Self {
        let own = |record: crate::group::Record<'_, T>| OwnedRecord {
            value: record.value().clone(),
            partition: record.partition(),
            offset: record.offset(),
            attempt: record.attempt(),
            published_at: record.published_at(),
        };
        let records = batch.iter().map(own).collect();
        OwnedBatch { records, receipt: batch.detach() }
    }
}

impl<T> fmt::Debug for OwnedBatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedBatch({:?})", self.receipt)
    }
}
