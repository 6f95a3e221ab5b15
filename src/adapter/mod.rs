//! Executors: what steps the lanes. A thread that members share ([`Worker`]), a few threads for many members ([`Pool`]), and
//! one that takes single, reproducible steps ([`Manual`]). (A member's own threads need no more than the driving loop itself, so they live with it.)
#![forbid(unsafe_code)]

#[cfg(all(target_os = "linux", feature = "eventfd"))]
mod eventfd;
mod manual;
mod pool;
mod rng;
mod visit;
mod worker;

#[cfg(all(target_os = "linux", feature = "eventfd"))]
pub use eventfd::EventFd;
pub use manual::{Manual, Stepped, Stranded};
pub use pool::{Pool, PoolConfig, PoolError, crew, hand, turn};
pub use worker::{Worker, WorkerConfig, WorkerError};
