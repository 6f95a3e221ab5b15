//! What of the adapters a model can see: how a pool's threads rest, and when they run what. Only in model builds, in place of
//! the module.
#![forbid(unsafe_code)]
#![allow(unreachable_pub, dead_code, reason = "most of these files is not for models")]

pub mod pool {
    pub mod crew;
    pub mod hand;
    pub mod turn;
}

pub use pool::{crew, hand, turn};
