//! Models of ringlog's atomic protocols, run by loom, and the harness that keeps them honest.
//!
//! A green model can have looked at nothing: loom explores a single execution when a spawned thread's first access is
//! a load and the other actor is the model's own thread, and it skips schedules without a preemption bound. So here
//!
//! * every actor is a spawned thread; the model's own thread only spawns and joins,
//! * every model has a preemption bound (`LOOM_MAX_PREEMPTIONS` overrides it),
//! * every model names the outcomes it exists for, and fails when one of them never occurred, when one occurred that
//!   is not on its list, or when it ran fewer executions than [`Model::at_least`],
//! * a model that takes too long fails instead of stopping early with a pass, unless it says itself where it is cut
//!   ([`Model::cut_at`]), which is printed,
//! * a twin that must fail runs in a process of its own ([`must_fail`]), since loom aborts on some deadlocks.
//!
//! `scripts/models` runs them all; one file is `RUSTFLAGS="--cfg ringlog_loom" cargo test --profile models -p loom-tests --test NAME`.
#![forbid(unsafe_code)]

#[cfg(not(ringlog_loom))]
compile_error!("loom-tests are models: build them with RUSTFLAGS=\"--cfg ringlog_loom\", or they would test nothing");

#[cfg(ringlog_loom)]
mod harness;
#[cfg(ringlog_loom)]
pub use harness::{Model, Tally, model, must_fail};
