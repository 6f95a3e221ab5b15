//! How eagerly a member looks before it sleeps.
#![forbid(unsafe_code)]

use crate::{
    sync::{processors, spin_loop},
    time::{Ticks, ticks, ticks_in},
};
use std::time::Duration;

/// How a member waits for records: what it gives of latency, throughput and processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// Looks again at once and spins longest before it sleeps.
    Latency,
    /// Leaves a partition alone for 0.7 microseconds once it has caught up with it, and spins a little before it sleeps.
    #[default]
    Balanced,
    /// Leaves a partition alone for 2.8 microseconds once it has caught up: larger batches, fewer transfers.
    Throughput,
    /// Never spins: sleeps as soon as there is nothing to do.
    Park,
}

impl WaitPolicy {
    /// How long to leave a partition alone once everything in it has been handled. Polling the line that is about to be
    /// written costs its writer more than anything else a reader can do.
    pub const fn pace(self) -> Duration {
        match self {
            WaitPolicy::Latency => Duration::ZERO,
            WaitPolicy::Balanced | WaitPolicy::Park => Duration::from_nanos(700),
            WaitPolicy::Throughput => Duration::from_nanos(2_800),
        }
    }

    /// How long to go on looking before sleeping. A sleep and its wake cost more than this; on one processor nothing is
    /// gained by it, and `Spin` does not.
    pub const fn spin(self) -> Duration {
        match self {
            WaitPolicy::Latency => Duration::from_micros(50),
            WaitPolicy::Balanced => Duration::from_micros(30),
            WaitPolicy::Throughput => Duration::from_micros(20),
            WaitPolicy::Park => Duration::ZERO,
        }
    }
}

/// The spinning before a sleep: `turn` until it says no.
#[derive(Debug)]
pub struct Spin {
    budget: Ticks,
    until: Option<Ticks>,
}

impl Spin {
    /// A spin as long as `policy` says; none where there is only one processor.
    pub fn new(policy: WaitPolicy) -> Self {
        let alone = cfg!(ringlog_loom) || processors() < 2;
        let span = if alone { Duration::ZERO } else { policy.spin() };
        Self { budget: if span.is_zero() { 0 } else { ticks_in(span) }, until: None }
    }

    /// Pauses for a moment; false once the budget is used up, from the first `turn` after `new` or `reset`.
    #[inline]
    pub fn turn(&mut self) -> bool {
        if self.budget == 0 {
            return false;
        }
        let now = ticks();
        let until = *self.until.get_or_insert(now.saturating_add(self.budget));
        if now >= until || until - now > self.budget {
            return false; // over, or the counter jumped
        }
        for _ in 0..8 {
            spin_loop();
        }
        true
    }

    /// Something was found: the next `turn` starts afresh.
    #[inline]
    pub fn reset(&mut self) {
        self.until = None;
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Spin, WaitPolicy};

    #[test]
    fn park_never_spins_and_the_others_stop() {
        assert!(!Spin::new(WaitPolicy::Park).turn());
        for policy in [WaitPolicy::Latency, WaitPolicy::Balanced, WaitPolicy::Throughput] {
            let mut spin = Spin::new(policy);
            while spin.turn() {}
            assert!(!spin.turn(), "over stays over");
        }
    }

    #[test]
    fn pace_grows_with_the_wish_for_throughput() {
        let order = [WaitPolicy::Latency, WaitPolicy::Balanced, WaitPolicy::Throughput].map(WaitPolicy::pace);
        assert!(order.is_sorted());
    }
}
