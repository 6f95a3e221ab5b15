//! What of the groups a model can see: the lane word, claims, and leases, by handlers and by consumers, with the code itself
//! and seams around it. Only in model builds, in place of the module.
#![forbid(unsafe_code)]
#![allow(unreachable_pub, dead_code, unused_imports, reason = "most of these files is not for models")]

pub mod claims;
pub mod clones;
mod contain;
mod fence;
mod flight;
mod outcome;
pub mod pulled;
mod retry;
mod watch;
pub mod watched;
pub mod word;

pub use fence::FencedBy;

/// Stands in: nothing is configured in a model.
mod config {
    /// Never made.
    #[derive(Debug)]
    pub(super) struct ConfigError;

    impl ConfigError {
        pub(super) fn new(_what: &str, _said: impl Into<String>, _bound: &str) -> Self {
            ConfigError
        }
    }
}

/// Stands in: who steps a lane is kept with a lease, and not looked at.
mod context {
    /// Anybody.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Id;
}

/// Of work queues the hands, and what was given back and waits; and what was given to hands, without who settles it.
pub mod shared {
    pub mod dealt;
    mod failed;
    mod hand;
    pub mod handed;
    mod keys;

    mod settle {
        use crate::group::claims::Claim;

        #[derive(Clone, Copy, Debug)]
        pub(super) struct Given {
            pub(super) claim: Claim,
            pub(super) failures: u32,
            pub(super) again: bool,
        }

        impl Given {
            pub(super) fn behind(self, len: usize) -> Self {
                Given { claim: self.claim.behind(len), ..self }
            }

            pub(super) fn head(self, len: usize) -> Self {
                Given { claim: self.claim.head(len), ..self }
            }
        }
    }
}
