//! Where a cursor is to go: said by the user, found in a partition.
#![forbid(unsafe_code)]

use crate::log::Log;
use crate::ring::Start;
use crate::seq::Seq;
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

/// Where a new cursor starts in `log`. Runs no destructor.
pub(super) fn start_in<T: Send + Sync + 'static>(log: &Log<T>, start: StartAt) -> Start {
    match start {
        StartAt::Earliest | StartAt::Committed => Start::Earliest,
        StartAt::Latest => Start::End,
        _ => Start::At(by_time(log, start.place()).unwrap_or_else(|| at(log, start.place()))),
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
