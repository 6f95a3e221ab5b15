//! Layer 4: topics, routing, the registry, and how a broker drains and closes.
#![forbid(unsafe_code)]

mod account;
mod assign;
mod batch;
mod close;
mod config;
mod core;
mod error;
mod group;
mod groups;
mod handle;
mod key;
mod lag;
mod last;
mod leave;
mod letters;
mod life;
mod member;
mod message;
mod partitioner;
mod planned;
mod producer;
mod redrive;
mod registry;
mod route;
mod sight;
mod timer;
mod topic;

pub use self::account::{Account, Behind, DrainError};
pub use self::config::{BrokerConfig, CAPACITY_MAX, PARTITIONS_MAX, TopicConfig};
pub use self::core::{Position, Published};
pub use self::error::{BatchError, CreateError, Full, Limiting, LookupError, PublishError, Share};
pub use self::group::Group;
pub use self::handle::Broker;
pub use self::key::Key;
pub use self::last::{Last, LastError, LastValue, LastValues, LastValuesIter};
pub use self::leave::{LeaveError, Member};
pub use self::life::BrokerState;
pub use self::member::NewMember;
pub use self::message::{Bytes, Message, NewMessage, ORIGIN_HEADER};
pub use self::partitioner::{Crc32, JavaString, Partitioner, Sticky};
pub use self::producer::Producer;
pub use self::redrive::{RedriveError, Republished};
pub use self::sight::{PartitionStats, Stall, StalledBy};
pub use self::topic::{PublishCounts, Topic};
