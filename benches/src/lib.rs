//! What ringlog's benchmarks share: the machine, the rounds, the peers and the scenarios.
#![forbid(unsafe_code)]

pub mod event;
pub mod exchange;
pub mod judge;
pub mod latency;
pub mod machine;
pub mod many;
pub mod ours;
pub mod peers;
pub mod rounds;
pub mod scenarios;
