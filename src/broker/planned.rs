//! Refusals that a test plans: the next publishes to a topic find it full. Only the feature `testing` can plan one; without
//! it nothing here is more than a constant.
//!
//! # Orderings
//!
//! | label       | operation           | order   | why this much, and why no more                                          |
//! |-------------|---------------------|---------|-------------------------------------------------------------------------|
//! | planned:A   | `left.load`         | Relaxed | whether to look; a plan is for publishes that its maker knows to be later |
//! | planned:B   | `left.fetch_update` | Relaxed | each refusal is used once; nothing is read through it                    |
//! | planned:C   | `left.store`        | Relaxed | as planned:A                                                            |
#![forbid(unsafe_code)]

use super::core::Core;
use super::error::Full;
#[cfg(feature = "testing")]
use super::error::PublishError;
#[cfg(feature = "testing")]
use crate::ring::Why;
#[cfg(feature = "testing")]
use crate::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "testing")]
use std::time::Duration;

/// How many publishes to a topic are still to be refused.
#[derive(Default)]
pub(crate) struct Planned {
    #[cfg(feature = "testing")]
    left: AtomicU64,
}

impl Planned {
    /// Whether a refusal is planned.
    #[inline(always)]
    fn any(&self) -> bool {
        // ORD(planned:A) Relaxed: only whether to look. Pairs with ORD(planned:C).
        #[cfg(feature = "testing")]
        return self.left.load(Ordering::Relaxed) > 0;
        #[cfg(not(feature = "testing"))]
        false
    }

    #[cfg(feature = "testing")]
    pub(crate) fn refuse_next(&self, publishes: u64) {
        // ORD(planned:C) Relaxed: whoever publishes later by any order there is sees it. Pairs with ORD(planned:A).
        self.left.store(publishes, Ordering::Relaxed);
    }

    #[cfg(feature = "testing")]
    fn take(&self) -> bool {
        // ORD(planned:B) Relaxed: each is used once; nothing is read through it.
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

impl<T: Send + Sync + 'static> Core<T> {
    /// Whether a refusal is planned.
    #[inline(always)]
    pub(crate) fn plans(&self) -> bool {
        self.planned.any()
    }

    /// The facts of a refusal, if one is planned: as a full partition refuses, without a wait. (The value stays where it is:
    /// it may be large, and is moved often enough.)
    #[inline(always)]
    pub(crate) fn full_as_planned(&self, partition: u32) -> Option<Box<Full>> {
        #[cfg(feature = "testing")]
        if self.plans() && self.planned.take() {
            let refused = self.explain(partition, self.log(partition)?.refusal(Why::Full, (), 1, Duration::ZERO));
            return match refused {
                PublishError::Full { full, .. } => Some(full),
                _ => None,
            };
        }
        let _ = partition;
        None
    }
}
