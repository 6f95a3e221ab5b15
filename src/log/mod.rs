//! One partition: a ring of records, those who wait for records and for room, and what is retained.
//!
//! The ring knows no waiting and the wait knows no data; here they meet. A publisher stores and then notifies those who
//! wait for records; a group commits and then notifies those who wait for room; both pay one load if nobody waits.
//! Every outcome is a value that says what happened and gives back what was not stored.
#![forbid(unsafe_code)]

mod account;
mod age;
mod append;
mod error;
mod handout;
mod losses;
mod partition;
mod producer;
mod read;
mod retain;
mod spans;
mod stamp;
mod tally;

pub use append::AppendCtl;
pub use error::{AppendError, Limiting};
pub use handout::{Door, Outlet};
pub use partition::{Appended, AppendedAll, Full, Log, LogConfig};
pub use producer::LogProducer;
pub use read::{Gap, Missed, Read, Relocated};
pub use retain::Retain;
pub use stamp::Timestamps;
pub use tally::LogCounts;

#[cfg(all(test, not(ringlog_loom)))]
mod tests;
