//! A topic's partitions in figures.
#![forbid(unsafe_code)]

use super::topic::{PublishCounts, Topic};
use crate::group::Standing;
use crate::log::Log;
use crate::ring::{Keeper, Kept};
use crate::seq::Seq;
use crate::sync::Arc;

/// One partition in figures, as plain data. Each is exact while nobody is at work; what moved while they were read may show
/// in one and not yet in another, and a loss that somebody is just counting may show early. At quiet points counters have
/// only grown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// The partition.
    pub partition: u32,
    /// The earliest offset retained; the end if nothing is.
    pub earliest: u64,
    /// The offset that the next record gets, which is how many were ever published.
    pub end: u64,
    /// What every group has passed: the least of their cursors. While there is no group, the earliest offset retained. It
    /// goes back when a group does.
    pub passed: u64,
    /// Publishes that found no room and waited.
    pub blocked: u64,
    /// Publishes that found no room and gave up, at once or after a wait.
    pub rejected: u64,
    /// The largest backlog there ever was right after a publish, or when one found no room: the records kept that some group
    /// had still to acknowledge (0 while there was no group, unless [everything is kept](crate::Retain::Backlog) for the first). `None` unless the topic [measures](crate::TopicConfig::measure_backlog)
    /// it. Never more than the capacity.
    pub largest_backlog: Option<u64>,
    /// Records overwritten before every group had them done, or while there was no group: only where the topic
    /// [drops its oldest](crate::TopicConfig::drop_oldest).
    pub dropped: u64,
    /// Records that went because they were older than the topic [allows](crate::TopicConfig::max_age), read or not.
    pub expired: u64,
    /// Pages of memory there are: a number that follows from the capacity, and more only where readers once stayed behind.
    pub pages: u64,
    /// Pages out of use that a reader or a publish under way may still be looking at.
    pub pages_aside: u64,
}

impl PartitionStats {
    /// How many records are retained.
    pub fn retained(&self) -> u64 {
        self.end.saturating_sub(self.earliest)
    }

    pub(super) fn of<T: Send + Sync + 'static>(partition: u32, log: &Log<T>) -> Self {
        let (earliest, end, counts) = (log.earliest().get(), log.end().get(), log.counts());
        let passed = log.low_water().map_or(earliest, Seq::get);
        let (pages, pages_aside) = (log.ring().pages_made() as u64, log.ring().pages_aside() as u64);
        Self {
            partition,
            earliest,
            end,
            passed,
            blocked: counts.blocked,
            rejected: counts.rejected,
            largest_backlog: counts.largest_backlog,
            dropped: counts.dropped,
            expired: counts.expired,
            pages,
            pages_aside,
        }
    }
}

/// Memory of a partition that cannot be used again yet, and one of those who keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The partition.
    pub partition: u32,
    /// The first offset that lies there.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// Who keeps it.
    pub by: StalledBy,
    /// Where the group stands in the partition, if it is a group's lane that keeps it, and why it stays there.
    pub because: Option<Standing>,
}

/// Who keeps a partition's memory from being used again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StalledBy {
    /// A handler of this group, which has not returned, or a lane that stays where it is with a record to try again.
    Group(Arc<str>),
    /// A publish that was stopped between taking this offset and storing its record there.
    Publish(u64),
    /// A group that has been deleted, or the partition itself for a moment.
    Other,
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// Every partition in figures, in order.
    ///
    /// ```
    /// let broker = ringlog::Broker::new();
    /// let topic = broker.create_topic("ticks", ringlog::TopicConfig::new().partitions(2).capacity(4).drop_oldest())?;
    /// (0..20).try_for_each(|n| topic.publish(n).map(drop))?;
    /// let dropped: Vec<u64> = topic.stats().iter().map(|partition| partition.dropped).collect();
    /// assert_eq!(dropped, [6, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Vec<PartitionStats> {
        (0..).zip(&self.0.logs).map(|(partition, log)| PartitionStats::of(partition, log)).collect()
    }

    /// One partition in figures; `None` if there is no such partition.
    pub fn partition_stats(&self, partition: u32) -> Option<PartitionStats> {
        self.0.log(partition).map(|log| PartitionStats::of(partition, log))
    }

    /// Why [`pages_aside`](PartitionStats::pages_aside) stays up: who keeps which memory of a partition from being used
    /// again. Empty if nobody does, which is the rule; `None` if there is no such partition. It costs a look at each page.
    ///
    /// On a topic that drops its oldest, a handler that never returns keeps one page, and nothing else.
    pub fn why_stalled(&self, partition: u32) -> Option<Vec<Stall>> {
        let name = |by| match by {
            Keeper::Reader(tag) => {
                tag.and_then(|tag| self.0.groups.named(tag)).map_or(StalledBy::Other, StalledBy::Group)
            }
            Keeper::Claim(at) => StalledBy::Publish(at.get()),
        };
        let stall = |Kept { from, to, by }| {
            let by = name(by);
            let because = if let StalledBy::Group(group) = &by { self.0.standing_of(group, partition) } else { None };
            Stall { partition, from: from.get(), to: to.get(), by, because }
        };
        Some(self.0.log(partition)?.why_stalled().into_iter().map(stall).collect())
    }

    /// How publishes fared so far, over all partitions.
    pub fn counts(&self) -> PublishCounts {
        self.0.logs.iter().map(|log| log.counts()).fold(PublishCounts::default(), |sum, log| PublishCounts {
            blocked: sum.blocked + log.blocked,
            rejected: sum.rejected + log.rejected,
            largest_backlog: sum.largest_backlog.max(log.largest_backlog),
        })
    }
}
