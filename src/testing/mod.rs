//! For tests of programs that use ringlog (feature `testing`, for `[dev-dependencies]`): handlers that record, fail, hang
//! and count; a broker on a manual clock that is single-stepped; faults that are planned.
//!
//! ```toml
//! [dev-dependencies]
//! ringlog = { version = "0.1", features = ["testing"] }
//! ```
//!
//! # Handlers
//!
//! | type | its handler | and the test |
//! |---|---|---|
//! | [`Recorder`] | notes every call: position, attempt, a clone of the record | waits for n of them, asks what came and in which order |
//! | [`Flaky`] | fails the first n calls for each record, or always for a poison record | asks how often each was tried, and what was accepted |
//! | [`Stuck`] | blocks until it is released | waits until it is in, and lets it go |
//! | [`Counter`] | counts | waits for n |
//!
//! Their waits take a deadline of real time and sleep until something happens; none of them polls.
//!
//! ```
//! use ringlog::testing::Recorder;
//! use ringlog::{Broker, GroupConfig, TopicConfig};
//! use std::time::Duration;
//!
//! let broker = Broker::new();
//! let orders = broker.create_topic("orders", TopicConfig::<String>::new())?;
//! let seen = Recorder::new();
//! orders.group("billing", GroupConfig::earliest())?.subscribe("billing-1", seen.handler())?;
//! orders.publish("first".to_string())?;
//! seen.wait_for(1, Duration::from_secs(5))?; // on real threads: until it came, or says how many did
//! assert_eq!(seen.values(), ["first"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without threads and without waiting
//!
//! A [`Lab`] is a broker on a [`ManualClock`](crate::ManualClock) with [`SequentialIds`](crate::SequentialIds) and the
//! [`Manual`](crate::Manual) executor: nothing happens until the test says so, a backoff of an hour takes no time, and the
//! same seed gives the same run, byte for byte.
//!
//! ```
//! use ringlog::testing::{Flaky, Lab};
//! use ringlog::{GroupConfig, Retry, TopicConfig};
//! use std::time::Duration;
//!
//! let lab = Lab::new(42);
//! let orders = lab.broker().create_topic("orders", TopicConfig::<u64>::new())?;
//! let hourly = GroupConfig::earliest().retry(Retry::constant(3, Duration::from_secs(3_600)));
//! let billing = orders.group("billing", hourly)?;
//! let flaky = Flaky::failing(1).poison(|order| *order == 13);
//! billing.member("billing-1").run(lab.manual()).subscribe(flaky.handler())?;
//!
//! for order in [7, 13, 8] {
//!     orders.publish(order)?;
//! }
//! lab.finish(); // steps, and moves the clock to each backoff's end
//! assert_eq!(flaky.accepted().values(), [7, 8]);
//! assert_eq!((flaky.attempts(|order| *order == 7), flaky.attempts(|order| *order == 13)), (2, 3));
//! assert_eq!((billing.stats().acked(), billing.stats().dead(), billing.lag()), (2, 1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Faults
//!
//! | fault | how |
//! |---|---|
//! | the handler panics at a record | [`Manual::panic_at`](crate::Manual::panic_at) |
//! | a member dies between two steps | [`Manual::kill`](crate::Manual::kill) |
//! | the topic is full now | [`Manual::full_now`](crate::Manual::full_now) |
//! | a wake-up is lost | [`Manual::lose_wake`](crate::Manual::lose_wake), found by [`Manual::stranded`](crate::Manual::stranded) |
//! | the clock jumps, or is turned back | [`ManualClock::set`](crate::ManualClock::set) |
//! | a handler fails, hangs | [`Flaky`], [`Stuck`] |
#![forbid(unsafe_code)]

mod board;
mod counter;
mod faults;
mod flaky;
mod lab;
mod recorder;
mod stuck;

pub use self::board::TooFew;
pub use self::counter::Counter;
pub use self::flaky::{Flaky, Planned};
pub use self::lab::Lab;
pub use self::recorder::{Recorder, Seen};
pub use self::stuck::Stuck;
