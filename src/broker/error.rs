//! What can go wrong, one type per operation: who, where, how many, and what to do next; values come back inside.
#![forbid(unsafe_code)]

use crate::group::{ConfigError, NameError};
use crate::sync::Arc;
use crate::time::Span;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Why a topic was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name is taken. Look the topic up, or choose another name.
    #[error("topic '{topic}' already exists; get it by `topic` or `topic_or_create`, or choose another name")]
    Exists {
        /// The name asked for.
        topic: Arc<str>,
    },
    /// The name is taken by a topic of other records.
    #[error("topic '{topic}' exists and holds {holds}, not {asked}")]
    WrongType {
        /// The name asked for.
        topic: Arc<str>,
        /// The type of the records it holds.
        holds: &'static str,
        /// The type asked for.
        asked: &'static str,
    },
    /// The text cannot be a name.
    #[error("topic {0}")]
    Name(#[from] NameError),
    /// A setting is outside its bounds.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The memory for the records was refused. Ask for a smaller capacity.
    #[error("topic '{topic}': no memory for {partitions} partitions of {capacity} records")]
    OutOfMemory {
        /// The name asked for.
        topic: Arc<str>,
        /// The partitions asked for.
        partitions: u32,
        /// The records per partition asked for.
        capacity: usize,
    },
    /// Records of the topic are to have an age, and the system refused the thread that watches it, of which there is one a
    /// broker. Try again when there are fewer threads.
    #[error("topic '{topic}' not created: no thread for the timer ({why})")]
    NoTimer {
        /// The name asked for.
        topic: Arc<str>,
        /// What the system said.
        why: std::io::ErrorKind,
    },
    /// The broker is closing or closed.
    #[error("topic '{topic}' not created: the broker is closed")]
    Closed {
        /// The name asked for.
        topic: Arc<str>,
    },
}

/// Why a topic was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LookupError {
    /// There is no topic of that name (never was, or it was deleted).
    #[error("unknown topic '{topic}'")]
    Unknown {
        /// The name asked for.
        topic: String,
    },
    /// The topic holds records of another type.
    #[error("topic '{topic}' holds {holds}, not {asked}")]
    WrongType {
        /// The name asked for.
        topic: Arc<str>,
        /// The type of the records it holds.
        holds: &'static str,
        /// The type asked for.
        asked: &'static str,
    },
    /// There is none, the broker's [rule](crate::BrokerConfig::auto_create) says how to make it, and that failed.
    #[error("unknown topic '{topic}', and none was made: {why}")]
    NotMade {
        /// The name asked for.
        topic: String,
        /// Why not.
        why: Box<CreateError>,
    },
}

/// How a partition is full: the facts behind [`PublishError::Full`] and [`PublishError::WouldDeadlock`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Full {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition without room.
    pub partition: u32,
    /// The records it holds at most.
    pub capacity: u64,
    /// How long the publish waited, from when it found no room: a little less than its limit, which counts from the call (and
    /// zero if the limit was up by then). The call itself never gives up before its limit.
    pub waited: Duration,
    /// The group that is furthest behind, if a group is what holds the room (it may have moved on since).
    pub limiting: Option<Limiting>,
}

/// The group whose unacknowledged records take the room.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limiting {
    /// The group's name.
    pub group: Arc<str>,
    /// The records of this partition it has not acknowledged.
    pub lag: u64,
    /// How old the oldest of them is, by the broker's clock; zero if it has caught up just now. `None` on topics without
    /// [timestamps](crate::TopicConfig::timestamps).
    pub oldest_unacked_age: Option<Duration>,
    /// How many records wait for it, if it has an [overflow](crate::GroupConfig::overflow) of its own.
    pub waiting: Option<u64>,
    /// How many may.
    pub may_wait: Option<u64>,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = if self.capacity == 1 { "record" } else { "records" };
        write!(f, "{}/{} full ({} {records})", self.topic, self.partition, self.capacity)?;
        if !self.waited.is_zero() {
            write!(f, " after {}", Span(self.waited))?;
        }
        match &self.limiting {
            Some(Limiting { group, lag, oldest_unacked_age, waiting, may_wait }) => {
                write!(f, ": group '{group}' has ")?;
                if let (Some(waiting), Some(most)) = (waiting, may_wait) {
                    write!(f, "{waiting} of {most} waiting and ")?;
                }
                write!(f, "{lag} unacknowledged")?;
                if let Some(age) = oldest_unacked_age.filter(|age| !age.is_zero()) {
                    write!(f, ", the oldest for {}", Span(age))?;
                }
                write!(f, " (Topic::why_full tells why)")
            }
            None => {
                write!(f, ": no group is there that could read it; with Retain::Backlog it is kept until one comes")
            }
        }
    }
}

/// Why a record was not stored. Each variant gives the value back.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PublishError<T> {
    /// There was no room within the time allowed. Wait longer, shed the value, or see to the group named.
    #[error("{full}")]
    Full {
        /// The value.
        value: T,
        /// Where, and who is behind.
        full: Box<Full>,
    },
    /// The broker is closing or closed, as it is when its last handle was dropped; handlers may publish a little longer than
    /// others.
    #[error("topic '{topic}' takes no more records: the broker is closed, or its last handle was dropped")]
    Closed {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
    },
    /// The topic was deleted. Drop this handle.
    #[error("topic '{topic}' was deleted")]
    Deleted {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
    },
    /// The publish comes from a handler, there is no room, and only this very thread, or the [pool](crate::Pool) that it is of,
    /// could make some. Acknowledge first, publish to another topic, or give the group that limits a worker or a pool of its own. Or it comes from what a broker's timer
    /// runs (hooks, burying functions, stores): there nobody waits for room, whoever could make some. Have another thread publish.
    #[error(
        "{full}, and only the thread, or the pool, that publishes could make some: let another one run that group, or use try_publish"
    )]
    WouldDeadlock {
        /// The value.
        value: T,
        /// Where, and who is behind.
        full: Box<Full>,
    },
    /// More records at once than may ever [wait](crate::Overflow::block) for one of the topic's groups. Publish smaller batches.
    #[error(
        "{records} records at once for {topic}/{partition}, where a group has no more than {most} waiting; publish smaller batches"
    )]
    TooMany {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
        /// How many there were.
        records: usize,
        /// How many may wait.
        most: u64,
    },
    /// The partition asked for, by the caller or by a partitioner, does not exist.
    #[error("topic '{topic}' has no partition {partition}, only {partitions}")]
    NoSuchPartition {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
        /// The partition asked for.
        partition: u32,
        /// The number of partitions.
        partitions: u32,
    },
    /// The topic was created with an exclusive producer. Publish through that.
    #[error("topic '{topic}' has an exclusive producer; publish through that")]
    Exclusive {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
    },
    /// The canceller that was given was used, and there was no room.
    #[error("{topic}/{partition}: cancelled while it waited for room")]
    Cancelled {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
    },
    /// A page of the partition could not be allocated. Free memory, or prefault the topic.
    #[error("{topic}/{partition}: no memory for another page")]
    OutOfMemory {
        /// The value.
        value: T,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
    },
}

impl<T> PublishError<T> {
    /// The value that was not stored.
    pub fn into_value(self) -> T {
        self.split().0
    }

    /// The value that was not stored, and the rest of the error.
    pub fn split(self) -> (T, PublishError<()>) {
        match self {
            Self::Full { value, full } => (value, PublishError::Full { value: (), full }),
            Self::Closed { value, topic } => (value, PublishError::Closed { value: (), topic }),
            Self::Deleted { value, topic } => (value, PublishError::Deleted { value: (), topic }),
            Self::WouldDeadlock { value, full } => (value, PublishError::WouldDeadlock { value: (), full }),
            Self::TooMany { value, topic, partition, records, most } => {
                (value, PublishError::TooMany { value: (), topic, partition, records, most })
            }
            Self::NoSuchPartition { value, topic, partition, partitions } => {
                (value, PublishError::NoSuchPartition { value: (), topic, partition, partitions })
            }
            Self::Exclusive { value, topic } => (value, PublishError::Exclusive { value: (), topic }),
            Self::Cancelled { value, topic, partition } => {
                (value, PublishError::Cancelled { value: (), topic, partition })
            }
            Self::OutOfMemory { value, topic, partition } => {
                (value, PublishError::OutOfMemory { value: (), topic, partition })
            }
        }
    }

    /// The facts, if the partition was full.
    pub fn full(&self) -> Option<&Full> {
        match self {
            Self::Full { full, .. } | Self::WouldDeadlock { full, .. } => Some(full),
            _ => None,
        }
    }
}

impl<T> fmt::Debug for PublishError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Self::Full { .. } => "Full",
            Self::Closed { .. } => "Closed",
            Self::Deleted { .. } => "Deleted",
            Self::WouldDeadlock { .. } => "WouldDeadlock",
            Self::TooMany { .. } => "TooMany",
            Self::NoSuchPartition { .. } => "NoSuchPartition",
            Self::Exclusive { .. } => "Exclusive",
            Self::Cancelled { .. } => "Cancelled",
            Self::OutOfMemory { .. } => "OutOfMemory",
        };
        write!(f, "{variant}({self})")
    }
}

/// Records of one batch that stand side by side in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The partition.
    pub partition: u32,
    /// The offsets they took: dense, and in the order of the batch.
    pub offsets: Range<u64>,
    /// Whether they were kept; see [`Published::kept`](crate::Published::kept).
    pub kept: bool,
}

/// Why a batch was not stored, or not all of it: nothing of what is given back was stored.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BatchError<T> {
    /// More records for one partition than it can ever hold at once. Nothing was stored; publish smaller batches.
    #[error(
        "{len} or more records for {topic}/{partition}, which holds {capacity}; nothing was stored, publish smaller batches"
    )]
    TooLarge {
        /// All values that were taken from the source, in order inside each partition.
        rest: Vec<T>,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: u32,
        /// The records for it when the batch was given up.
        len: usize,
        /// The records it holds at most.
        capacity: usize,
    },
    /// A partition refused its share. The shares in `stored` are stored whole, everything else is in `rest`.
    #[error("batch stopped with {} records left over: {why}", rest.len())]
    Stopped {
        /// What was stored before, partition by partition.
        stored: Vec<Share>,
        /// The values not stored, in order inside each partition.
        rest: Vec<T>,
        /// What the partition said.
        why: PublishError<()>,
    },
}

impl<T> BatchError<T> {
    /// What was stored all the same.
    pub fn stored(&self) -> &[Share] {
        match self {
            Self::TooLarge { .. } => &[],
            Self::Stopped { stored, .. } => stored,
        }
    }

    /// The values that were not stored, in order inside each partition.
    pub fn into_rest(self) -> Vec<T> {
        match self {
            Self::TooLarge { rest, .. } | Self::Stopped { rest, .. } => rest,
        }
    }
}

impl<T> fmt::Debug for BatchError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchError({self})")
    }
}
