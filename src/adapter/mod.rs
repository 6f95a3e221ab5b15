//! Executors: what steps the lanes. A thread that members share ([`Worker`]), and one that takes single, reproducible
//! steps ([`Manual`]). (A member's own threads need no more than the driving loop itself, so they live with it.)
#![forbid(unsafe_code)]

#[cfg(all(target_os = "linux", feature = "eventfd"))]
mod eventfd;
mod manual;
mod rng;
mod visit;
mod worker;

#[cfg(all(target_os = "linux", feature = "eventfd"))]
pub use eventfd::EventFd;
pub use manual::{Manual, Stepped, Stranded};
pub use worker::{Worker, WorkerConfig, WorkerError};
