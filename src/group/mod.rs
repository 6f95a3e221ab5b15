//! Groups and delivery: cursors, members and their deal, the lane as a state machine without threads, retry, dead letters.
//!
//! A [`Group`] holds the settings and one *lane* per partition; it gates with or without members. A member's lanes are a
//! [`Task`] which an [`Executor`] steps; everything that may stop a lane (pause, move, seek, delete) changes one word,
//! which the lane compares once per record. Nothing here runs user code under a lock.
#![forbid(unsafe_code)]

mod assign;
mod burial;
pub mod claims;
pub mod clones;
mod config;
mod conflate;
mod consumer;
pub(crate) mod contain;
pub mod context;
mod deal;
mod error;
mod executor;
mod fence;
mod figures;
mod flight;
mod gap;
#[allow(clippy::module_inception)]
mod group;
mod handing;
mod handler;
mod home;
mod hung;
mod inbox;
mod join;
mod lag;
mod lane;
mod lease;
mod leased;
mod leftover;
mod letters;
mod mover;
pub(crate) mod name;
mod newest;
mod offset_file;
mod offset_store;
mod once;
mod outcome;
mod overflow;
mod pick;
mod place;
mod position;
mod pull;
mod receipt;
mod record;
mod redrive;
mod retry;
mod roster;
mod rounds;
mod saving;
mod settle;
mod settling;
mod shared;
mod sight;
mod stats;
mod store;
mod task;
mod thread;
mod watch;
mod watermark;
pub mod word;

pub use assign::{Assignor, Deal, RoundRobinAssignor, StickyAssignor};
pub use config::{ConfigError, GroupConfig, LETTERS};
pub use consumer::{Consumer, OwnedBatch, OwnedRecord, PollError, Pollable, Polled, PolledIter, Readiness};
pub use deal::Assignment;
pub use error::{CommitError, ControlError, GroupError, OffsetError, StoreFailure, SubscribeError};
pub use executor::{Executor, Origin, Place, PlaceError, Reserved, Run, Seat, Step, Task, Turn};
pub use fence::FencedBy;
pub use gap::Gap;
pub use group::{Group, GroupSpec, KeyOf, Retire};
pub use home::Closing;
pub use hung::Expired;
pub use inbox::{Ends, Inbox};
pub use join::Join;
pub use lease::{ExtendError, Order, Straggler};
pub use leftover::LeftOverError;
pub use letters::Letter;
pub use name::{NAME_BYTES_MAX, NameError};
pub use offset_file::FileOffsets;
pub use offset_store::{GroupOffset, MemoryOffsets, OffsetStore, StoreError};
pub use once::Once;
pub use outcome::{BatchOutcome, Failure, IntoBatchOutcome, IntoOutcome, Outcome, PANIC};
pub use overflow::Overflow;
pub use pick::Pick;
pub use place::{Found, SeekTo, StartAt};
pub use position::Position;
pub use receipt::{Receipt, SettleError};
pub use record::{Batch, Record};
pub use redrive::Redriven;
pub use retry::{Backoff, Retry};
pub use sight::{Delivery, Standing};
pub use stats::{GroupStats, LaneStats};
pub use thread::drive;

pub use watermark::LagAlarm;
pub use word::{MemberId, PauseReason};
