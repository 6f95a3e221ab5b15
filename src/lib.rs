#![doc = include_str!("../README.md")]
// The layers are public inside the crate and re-exported by the `internals` feature; without it, what only models,
// benches and higher layers to come use looks unused.
#![cfg_attr(not(feature = "internals"), allow(unreachable_pub, unused_imports, dead_code))]

// L0: substrate
mod seq;
mod sync;
mod time;
// L1: the ring and the wait, which do not meet
mod ring;
mod wait;
// L2: one partition
mod log;
// L3: groups and delivery. From here up there is little protocol on memory that the layers below have not, and much that
// loom's pointers cannot do (trait objects): models are of the layers below, of the lane word, of claims and of leases.
#[cfg(not(ringlog_loom))]
mod group;
#[cfg(ringlog_loom)]
#[path = "group/models.rs"]
mod group;
// L4: the broker
#[cfg(not(ringlog_loom))]
mod broker;
// L5: adapters
#[cfg(not(ringlog_loom))]
mod adapter;
#[cfg(ringlog_loom)]
#[path = "adapter/models.rs"]
mod adapter;
// L6: what users' tests want
#[cfg(all(feature = "testing", not(ringlog_loom)))]
pub mod testing;

#[cfg(all(target_os = "linux", feature = "eventfd", not(ringlog_loom)))]
pub use adapter::EventFd;
#[cfg(not(ringlog_loom))]
pub use adapter::{Manual, Pool, PoolConfig, PoolError, Stepped, Stranded, Worker, WorkerConfig, WorkerError};
#[cfg(not(ringlog_loom))]
pub use broker::Select;
#[cfg(not(ringlog_loom))]
pub use broker::{
    Account, BatchError, Behind, Broker, BrokerConfig, BrokerState, CAPACITY_MAX, Crc32, CreateError, DrainError, Full,
    Group, JavaString, Key, Limiting, LookupError, Member, NewMember, PARTITIONS_MAX, PartitionStats, Partitioner,
    Producer, PublishCounts, PublishError, Published, Share, Stall, StalledBy, Sticky, Subscription, SubscriptionError,
    Topic, TopicConfig, WaitError,
};
#[cfg(not(ringlog_loom))]
pub use broker::{BrokerDescription, GroupDescription, TopicDescription, WhyFull};
#[cfg(not(ringlog_loom))]
pub use broker::{Bytes, Message, NewMessage, ORIGIN_HEADER, RedriveError, Republished};
#[cfg(not(ringlog_loom))]
pub use broker::{Last, LastError, LastValue, LastValues, LastValuesIter, LeaveError};
#[cfg(not(ringlog_loom))]
pub use group::{Assignment, Assignor, Deal, Delivery, LeftOverError, RoundRobinAssignor, Standing, StickyAssignor};
#[cfg(not(ringlog_loom))]
pub use group::{
    Backoff, Batch, BatchOutcome, CommitError, ConfigError, ControlError, Executor, Expired, ExtendError, Failure,
    FileOffsets, Gap, GroupConfig, GroupError, GroupOffset, GroupStats, IntoBatchOutcome, IntoOutcome, LagAlarm,
    LaneStats, Letter, MemoryOffsets, NAME_BYTES_MAX, NameError, OffsetError, OffsetStore, Once, Outcome, Pick, Place,
    PlaceError, Position, Record, Redriven, Retry, Run, SeekTo, StartAt, Step, StoreError, StoreFailure,
    SubscribeError,
};
#[cfg(not(ringlog_loom))]
pub use group::{Consumer, FencedBy, OwnedBatch, OwnedRecord, PollError, Polled, PolledIter, Receipt, SettleError};
#[cfg(not(ringlog_loom))]
pub use group::{Order, Overflow, Pollable, Readiness, Straggler};
pub use log::{Retain, Timestamps};
pub use sync::futex::{Futex, Woken};
pub use time::{Clock, CoarseClock, Ids, ManualClock, Random, SeededRandom, SequentialIds, SystemClock, Time};
pub use wait::{Canceller, WaitPolicy};

/// The layers below the public API, for this project's own models, benches and fuzzers. No promise of stability.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub mod seq {
        pub use crate::seq::*;
    }
    pub mod sync {
        pub use crate::sync::*;
    }
    pub mod time {
        pub use crate::time::*;
    }
    pub mod ring {
        pub use crate::ring::*;
    }
    pub mod wait {
        pub use crate::wait::*;
    }
    pub mod log {
        pub use crate::log::*;
    }
    pub mod group {
        pub use crate::group::*;
    }
    pub mod pool {
        pub use crate::adapter::{crew, hand, turn};
    }
}
