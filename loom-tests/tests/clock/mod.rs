//! The manual clock as a trait object: loom's `Arc` becomes one only from a `std` one that nobody else has.
use loom::sync::Arc;
use ringlog::internals::{
    sync::futex::{Futex, Woken},
    time::{Clock, ManualClock, Time},
};
use std::time::{Duration, SystemTime};

#[derive(Debug)]
struct Shared(Arc<ManualClock>);

/// A handle on `clock` for those who sleep on it.
pub(crate) fn handle(clock: &Arc<ManualClock>) -> Arc<dyn Clock> {
    let handle: std::sync::Arc<dyn Clock> = std::sync::Arc::new(Shared(clock.clone()));
    Arc::from_std(handle)
}

impl Clock for Shared {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.0.wall(at)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        self.0.sleep(word, expected, until)
    }

    fn look_again(&self) -> Option<Duration> {
        self.0.look_again()
    }
}
