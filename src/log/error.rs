//! What can become of an append that stored nothing.
#![forbid(unsafe_code)]

use std::{fmt, time::Duration};

/// The group that holds producers back, by its gate's tag, and how many records it still has to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limiting {
    /// The tag its gate was joined with.
    pub tag: u64,
    /// Records between its cursor and the end.
    pub lag: u64,
    /// How many of them wait, and how many may, where that is what holds producers back.
    pub waiting: Option<(u64, u64)>,
}

/// Nothing was stored. `V` is what comes back: the record, or nothing for a batch, whose records stay in the caller's
/// vector.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AppendError<V> {
    /// The partition is full, and stayed so for as long as the call could wait. Wait longer, or make `limiting` faster.
    #[error("partition full after waiting {waited:?}: {}", Held(*limiting))]
    Full {
        /// What was not stored.
        value: V,
        /// The slowest group; none where no group is what limits.
        limiting: Option<Limiting>,
        /// How long the call waited, from when it found no room; its deadline may have been set before.
        waited: Duration,
    },
    /// The partition was closed, before or during the wait. Nothing can be stored any more.
    #[error("partition closed: nothing was stored")]
    Closed(V),
    /// The call's canceller was used.
    #[error("append cancelled while it waited for room")]
    Cancelled(V),
    /// The partition is full, and who would have to make room is the caller itself, so that waiting could never end.
    /// Publish from another thread, or let the group that handles this record have room.
    #[error("append refused: waiting for room would wait for this very thread, {}", Held(Some(*limiting)))]
    WouldDeadlock {
        /// What was not stored.
        value: V,
        /// The group that this thread serves.
        limiting: Limiting,
    },
    /// The batch has more records than the partition holds. Split it.
    #[error("batch of {len} records is larger than the capacity of {capacity}")]
    TooLarge {
        /// What was not stored.
        value: V,
        /// How many records the batch has.
        len: usize,
        /// How many the partition holds.
        capacity: u64,
    },
    /// A page was needed and the allocator refused. Try again when memory is free.
    #[error("no memory for another page of the partition")]
    OutOfMemory(V),
}

impl<V> AppendError<V> {
    /// What was not stored.
    pub fn into_value(self) -> V {
        match self {
            Self::Full { value, .. } | Self::WouldDeadlock { value, .. } | Self::TooLarge { value, .. } => value,
            Self::Closed(value) | Self::Cancelled(value) | Self::OutOfMemory(value) => value,
        }
    }

    /// The same error about something else.
    pub fn map<W>(self, with: impl FnOnce(V) -> W) -> AppendError<W> {
        match self {
            Self::Full { value, limiting, waited } => AppendError::Full { value: with(value), limiting, waited },
            Self::Closed(value) => AppendError::Closed(with(value)),
            Self::Cancelled(value) => AppendError::Cancelled(with(value)),
            Self::WouldDeadlock { value, limiting } => AppendError::WouldDeadlock { value: with(value), limiting },
            Self::TooLarge { value, len, capacity } => AppendError::TooLarge { value: with(value), len, capacity },
            Self::OutOfMemory(value) => AppendError::OutOfMemory(with(value)),
        }
    }
}

impl<V> fmt::Debug for AppendError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limiting, waited, .. } => {
                f.debug_struct("Full").field("limiting", limiting).field("waited", waited).finish_non_exhaustive()
            }
            Self::Closed(_) => f.write_str("Closed(..)"),
            Self::Cancelled(_) => f.write_str("Cancelled(..)"),
            Self::WouldDeadlock { limiting, .. } => {
                f.debug_struct("WouldDeadlock").field("limiting", limiting).finish_non_exhaustive()
            }
            Self::TooLarge { len, capacity, .. } => {
                f.debug_struct("TooLarge").field("len", len).field("capacity", capacity).finish_non_exhaustive()
            }
            Self::OutOfMemory(_) => f.write_str("OutOfMemory(..)"),
        }
    }
}

/// Who holds producers back, in words.
struct Held(Option<Limiting>);

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Limiting { tag, lag, .. }) => write!(f, "group #{tag} is {lag} records behind"),
            None => f.write_str("no group has taken the records that are kept"),
        }
    }
}
