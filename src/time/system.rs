//! The system's monotonic clock.
#![forbid(unsafe_code)]

use super::{Clock, Time};
use crate::sync::{
    Arc,
    atomic::Ordering,
    futex::{Futex, Woken},
};
use std::time::{Duration, Instant, SystemTime};

/// The system's monotonic clock; its origin is its making, its wall time the system's at that moment plus what passed.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
    wall: SystemTime,
}

impl SystemClock {
    /// A clock whose origin is now.
    pub fn new() -> Self {
        Self { origin: Instant::now(), wall: SystemTime::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        Time::ZERO.after(self.origin.elapsed())
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.wall.checked_add(at - Time::ZERO).unwrap_or(self.wall)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        let limit = until.map(|until| until - self.now());
        if limit == Some(Duration::ZERO) {
            // ORD(system_sleep:A) Relaxed: only whether it changed; the caller reads it again with its own ordering.
            let changed = word.word().load(Ordering::Relaxed) != expected;
            return if changed { Woken::Woken } else { Woken::TimedOut };
        }
        word.wait(expected, limit)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::SystemClock;
    use crate::{
        sync::{
            Arc,
            futex::{Futex, Woken},
        },
        time::{Clock, Time},
    };
    use std::time::Duration;

    #[test]
    fn readings_do_not_go_back_and_wall_time_follows() {
        let clock = SystemClock::new();
        let (one, two) = (clock.now(), clock.now());
        assert!(one <= two);
        let later = clock.wall(one + Duration::from_secs(5)).duration_since(clock.wall(one)).unwrap();
        assert_eq!(later, Duration::from_secs(5));
        let _harmless = clock.wall(Time::MAX);
    }

    #[test]
    fn a_deadline_in_the_past_does_not_sleep_and_one_soon_passes() {
        let (clock, word) = (SystemClock::new(), Arc::new(Futex::new(0)));
        assert_eq!(clock.sleep(&word, 0, Some(Time::ZERO)), Woken::TimedOut);
        assert_eq!(clock.sleep(&word, 1, Some(Time::ZERO)), Woken::Woken);
        let until = clock.now() + Duration::from_micros(200);
        while clock.sleep(&word, 0, Some(until)) == Woken::Woken {}
        assert!(clock.now() >= until);
    }
}
