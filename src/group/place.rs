//! Where a cursor is to go: said by the user, found in a partition.
#![forbid(unsafe_code)]

use super::config::GroupConfig;
use super::error::GroupError;
use crate::log::Log;
use crate::ring::{Peek, Start};
use crate::seq::Seq;
use crate::sync::Arc;
use crate::time::Time;
use std::time::SystemTime;

/// Where a new group begins to read. Whatever is said, it begins in `[earliest, end]` of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartAt {
    /// At the earliest record that is still retained.
    Earliest,
    /// Behind the last record: only what is published from now on.
    Latest,
    /// At this offset in every partition, or the nearest one that exists.
    Offset(u64),
    /// At the first record retained that was published at this reading of the broker's clock or later; behind the last one
    /// if all are earlier. Only on topics with [timestamps](crate::TopicConfig::timestamps). It costs a look at the time of
    /// each record retained before it.
    Time(Time),
    /// The same, by the time of day, which the broker's clock [converts](crate::Clock::reading).
    Wall(SystemTime),
    /// So many records before the end of each partition, or as many as are retained.
    LastN(u64),
    /// Where the group's [`offset_store`](crate::GroupConfig::offset_store), which it needs, says that it was; at the
    /// earliest record where nothing is stored.
    Committed,
}

/// Where a seek goes; it lands in `[earliest, end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeekTo {
    /// The earliest retained record.
    Earliest,
    /// Behind the last record.
    Latest,
    /// This offset, or the nearest one that exists.
    Offset(u64),
    /// The first record retained that was published at this reading of the broker's clock or later, or behind the last one;
    /// as [`StartAt::Time`].
    Time(Time),
    /// The same, by the time of day; as [`StartAt::Wall`].
    Wall(SystemTime),
    /// So many records before the end of the partition, or as many as are retained.
    LastN(u64),
}

impl StartAt {
    /// Whether the topic needs timestamps for it.
    pub(super) fn is_by_time(self) -> bool {
        self.place().is_by_time()
    }

    fn place(self) -> SeekTo {
        match self {
            Self::Earliest | Self::Committed => SeekTo::Earliest,
            Self::Latest => SeekTo::Latest,
            Self::Offset(offset) => SeekTo::Offset(offset),
            Self::Time(time) => SeekTo::Time(time),
            Self::Wall(wall) => SeekTo::Wall(wall),
            Self::LastN(n) => SeekTo::LastN(n),
        }
    }
}

impl SeekTo {
    /// Whether the topic needs timestamps for it.
    pub(super) fn is_by_time(self) -> bool {
        matches!(self, Self::Time(_) | Self::Wall(_))
    }
}

/// What was found out for a new group before it is made: by the user's store and clock, and by looking at many records, so
/// under no lock.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// What the store said of each partition.
    pub(super) stored: Vec<Option<u64>>,
    /// Where in each partition a start by time is.
    pub(super) places: Vec<Option<u64>>,
    /// The time.
    pub(super) now: Time,
}

impl Found {
    pub(super) fn stored(&self, partition: u32) -> Option<u64> {
        self.stored.get(partition as usize).copied().flatten()
    }

    pub(super) fn place(&self, partition: u32) -> Option<u64> {
        self.places.get(partition as usize).copied().flatten()
    }
}

impl<T: Send + Sync + 'static> GroupConfig<T> {
    /// Finds out where a group of these settings begins in `logs`. User code.
    pub(crate) fn find(&self, topic: &Arc<str>, group: &str, logs: &[Arc<Log<T>>]) -> Result<Found, GroupError> {
        let stored = self.load(topic, group, (0..).take(logs.len()))?;
        for ((stored, log), partition) in stored.iter().zip(logs).zip(0..) {
            let end = log.end().get();
            if let Some(stored) = stored.filter(|&stored| stored > end && !reached(log, stored, end)) {
                return Err(GroupError::StoredAhead {
                    topic: topic.clone(),
                    group: group.into(),
                    partition,
                    stored,
                    end,
                });
            }
        }
        let places = logs.iter().map(|log| by_time(log, self.start.place()).map(Seq::get)).collect();
        let now = logs.first().map_or(Time::ZERO, |log| log.clock().now());
        Ok(Found { stored, places, now })
    }
}

/// Whether a group may have come as far as `stored`, beyond the `end`: readers see the records of a batch before the end says
/// that they are there.
fn reached<T: Send + Sync + 'static>(log: &Log<T>, stored: u64, end: u64) -> bool {
    let near = stored - end <= log.ring().capacity().get();
    near && !matches!(log.reader(Seq::new(stored - 1)).peek(1), Peek::Pending)
}

/// Where a new cursor starts in `log`, in which a start by time was found at `place`. Runs no destructor.
pub(super) fn start_in<T: Send + Sync + 'static>(log: &Log<T>, start: StartAt, place: Option<u64>) -> Start {
    match (start, place) {
        (StartAt::Earliest | StartAt::Committed, _) => Start::Earliest,
        (StartAt::Latest, _) => Start::End,
        (_, Some(place)) => Start::At(within(log, place)),
        (_, None) => Start::At(at(log, start.place())),
    }
}

/// The place, if it is one by time; to be asked under no lock, for it takes its time.
pub(super) fn by_time<T: Send + Sync + 'static>(log: &Log<T>, to: SeekTo) -> Option<Seq> {
    match to {
        SeekTo::Time(time) => log.at_time(time),
        SeekTo::Wall(wall) => log.at_time(log.clock().reading(wall)),
        SeekTo::Earliest | SeekTo::Latest | SeekTo::Offset(_) | SeekTo::LastN(_) => None,
    }
}

/// The place, for all that are not by time. Runs no destructor.
pub(super) fn at<T: Send + Sync + 'static>(log: &Log<T>, to: SeekTo) -> Seq {
    match to {
        SeekTo::Earliest => log.earliest_only(),
        SeekTo::Latest | SeekTo::Time(_) | SeekTo::Wall(_) => log.end(),
        SeekTo::Offset(offset) => within(log, offset),
        SeekTo::LastN(n) => within(log, log.end().get().saturating_sub(n)),
    }
}

/// The offset, or the nearest one that is kept. Compared as numbers: positions compare by distance, and an offset from
/// outside may be any number.
pub(super) fn within<T: Send + Sync + 'static>(log: &Log<T>, offset: u64) -> Seq {
    Seq::new(offset.max(log.earliest_only().get()).min(log.end().get()))
}
