//! The peers, each behind the same two ends. Every one spins: what a spinning peer waits with is part of the row's name.
pub mod broadcast;
pub mod channel;
pub mod disruptor;
pub mod spsc;
pub mod tasks;
