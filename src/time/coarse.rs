//! A clock whose reading is a cached number that workers refresh.
#![forbid(unsafe_code)]

use super::{Clock, Time};
use crate::sync::{
    Arc, CachePadded,
    atomic::{AtomicU64, Ordering},
    futex::{Futex, Woken},
};
use std::time::{Duration, SystemTime};

/// Another clock, read seldom: `now` is the last reading anybody took, one load. A sleeper refreshes it when it wakes;
/// besides, it moves when somebody calls [`refresh`](CoarseClock::refresh) and not otherwise. As the clock of a broker
/// whose threads never sleep it has to be refreshed from outside, or no backoff ends.
#[derive(Debug)]
pub struct CoarseClock {
    exact: Arc<dyn Clock>,
    last: CachePadded<AtomicU64>,
}

impl CoarseClock {
    /// A coarse reading of `exact`.
    pub fn new(exact: Arc<dyn Clock>) -> Self {
        let last = CachePadded::new(AtomicU64::new(exact.now().as_nanos()));
        Self { exact, last }
    }

    /// Reads the exact clock and keeps the reading, unless somebody kept a later one.
    pub fn refresh(&self) -> Time {
        let now = self.exact.now();
        // ORD(refresh:A) Relaxed: a number that only grows and carries nothing; `fetch_max` keeps it growing.
        let before = self.last.fetch_max(now.as_nanos(), Ordering::Relaxed);
        now.max(Time::from_nanos(before))
    }

    /// The clock behind it.
    pub fn exact(&self) -> &Arc<dyn Clock> {
        &self.exact
    }
}

impl Clock for CoarseClock {
    #[inline]
    fn now(&self) -> Time {
        // ORD(coarse_now:A) Relaxed: any recent reading will do.
        Time::from_nanos(self.last.load(Ordering::Relaxed))
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.exact.wall(at)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        let woken = self.exact.sleep(word, expected, until);
        self.refresh();
        woken
    }

    fn look_again(&self) -> Option<Duration> {
        self.exact.look_again()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::CoarseClock;
    use crate::{
        sync::Arc,
        time::{Clock, ManualClock, Time},
    };
    use std::time::Duration;

    #[test]
    fn it_stands_until_refreshed_and_never_goes_back() {
        let exact = Arc::new(ManualClock::new());
        let coarse = CoarseClock::new(exact.clone());
        exact.advance(Duration::from_secs(3));
        assert_eq!(coarse.now(), Time::ZERO);
        assert_eq!(coarse.refresh(), Time::ZERO + Duration::from_secs(3));
        exact.set(Time::ZERO);
        assert_eq!(coarse.refresh(), Time::ZERO + Duration::from_secs(3));
        assert_eq!(coarse.now(), Time::ZERO + Duration::from_secs(3));
    }
}
