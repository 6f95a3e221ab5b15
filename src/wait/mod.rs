//! Waiting without data: an event count for threads and task wakers, the sleeper that waits on any set of them, and the
//! policies that say how long to look before sleeping. It knows no ring; the log joins the two.
#![forbid(unsafe_code)]

mod cancel;
mod event;
mod policy;
mod sleeper;

pub use cancel::{Cancellable, Canceller};
pub use event::{Event, Registration, Wake};
pub use policy::{Spin, WaitPolicy};
pub use sleeper::{Bell, Look, Sleeper, Wait, rescues};

#[cfg(all(test, not(ringlog_loom)))]
mod tests;
