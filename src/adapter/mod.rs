//! Executors: what steps the lanes. A thread that members share ([`Worker`]), and one that takes single, reproducible
//! steps ([`Manual`]). (A member's own threads need no more than the driving loop itself, so they live with it.)
#![forbid(unsafe_code)]

mod manual;
mod rng;
mod visit;
mod worker;

pub use manual::{Manual, Stepped, Stranded};
pub use worker::{Worker, WorkerConfig, WorkerError};
