//! Time as the broker sees it: monotonic readings, clocks that also own sleeping, and a source of ids.
//!
//! Everything that waits goes through a [`Clock`], so that a test which owns the clock owns every deadline too. A reading
//! is a [`Time`]: nanoseconds since the clock's origin, never the wall clock, whose steps would expire leases at random.
#![forbid(unsafe_code)]

mod coarse;
mod ids;
mod manual;
mod pace;
mod random;
mod recent;
mod span;
mod system;

pub use coarse::CoarseClock;
pub use ids::{Ids, SequentialIds};
pub use manual::ManualClock;
pub use pace::{Ticks, ticks, ticks_in};
pub use random::{Random, SeededRandom};
pub use recent::Recent;
pub use span::Span;
pub use system::SystemClock;

use crate::sync::{
    Arc, Weak,
    futex::{Futex, Woken},
};
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// A monotonic reading: nanoseconds since the clock's origin. All arithmetic saturates: 584 years is "never".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// Later than everything.
    pub const MAX: Time = Time(u64::MAX);

    /// The reading `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// `self + by`, at most [`Time::MAX`].
    pub fn after(self, by: Duration) -> Self {
        Time(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Time;

    fn add(self, by: Duration) -> Time {
        self.after(by)
    }
}

impl std::ops::Sub<Time> for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Not at all.
    Now,
    /// Until this reading of the clock. One that is past means "not at all".
    At(Time),
    /// For ever.
    Never,
}

impl Deadline {
    /// `limit` from now on `clock`; `None` is for ever, and so is what overflows.
    pub fn within(limit: Option<Duration>, clock: &dyn Clock) -> Self {
        match limit {
            None => Deadline::Never,
            Some(Duration::ZERO) => Deadline::Now,
            Some(limit) => match clock.now().after(limit) {
                Time::MAX => Deadline::Never,
                at => Deadline::At(at),
            },
        }
    }

    /// The earlier of the two.
    pub fn earlier(self, other: Deadline) -> Deadline {
        match (self, other) {
            (Deadline::Never, end) | (end, Deadline::Never) => end,
            (Deadline::Now, _) | (_, Deadline::Now) => Deadline::Now,
            (Deadline::At(one), Deadline::At(two)) => Deadline::At(one.min(two)),
        }
    }

    /// The reading at which it passes, if it ever does ([`Deadline::Now`]: the clock's origin).
    pub fn at(self) -> Option<Time> {
        match self {
            Deadline::Now => Some(Time::ZERO),
            Deadline::At(at) => Some(at),
            Deadline::Never => None,
        }
    }
}

/// A source of time that also owns sleeping.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The monotonic reading. Two calls in a row may give the same.
    fn now(&self) -> Time;

    /// The wall time that belongs to a reading.
    fn wall(&self, at: Time) -> SystemTime;

    /// The reading that belongs to a wall time, as [`wall`](Clock::wall) has it; the origin if that lies before it.
    fn reading(&self, wall: SystemTime) -> Time {
        Time::ZERO.after(wall.duration_since(self.wall(Time::ZERO)).unwrap_or(Duration::ZERO))
    }

    /// Sleeps while `word` holds `expected` and the clock has not reached `until` (`None`: for ever). May return early;
    /// the caller looks again in any case. A clock may set [`Futex::TICK`] in the word to end the sleep.
    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken;

    /// Asks the clock to call `act` after each move, on the thread that moves it, for as long as it lives. A clock that runs by
    /// itself, as most do, refuses (`false`), and whoever wants to act in time sleeps.
    fn on_move(&self, act: Weak<dyn Fn() + Send + Sync>) -> bool {
        drop(act);
        false
    }

    /// The longest a sleeper of this clock sleeps without looking again, as a safeguard. `None`: it trusts its wakes.
    fn look_again(&self) -> Option<Duration> {
        Some(Duration::from_secs(10))
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Deadline, ManualClock, Time};
    use std::time::Duration;

    #[test]
    fn time_saturates_at_both_ends() {
        assert_eq!(Time::MAX + Duration::MAX, Time::MAX);
        assert_eq!(Time::ZERO + Duration::MAX, Time::MAX);
        assert_eq!(Time::ZERO - Time::MAX, Duration::ZERO);
        assert_eq!((Time::ZERO + Duration::from_nanos(7)) - Time::ZERO, Duration::from_nanos(7));
    }

    #[test]
    fn a_deadline_is_the_earlier_one_and_overflow_is_never() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1));
        let second = Deadline::within(Some(Duration::from_secs(1)), &clock);
        assert_eq!(second, Deadline::At(Time::from_nanos(2_000_000_000)));
        assert_eq!(Deadline::within(Some(Duration::MAX), &clock), Deadline::Never);
        assert_eq!(Deadline::within(None, &clock), Deadline::Never);
        assert_eq!(Deadline::within(Some(Duration::ZERO), &clock), Deadline::Now);
        assert_eq!(Deadline::Never.earlier(second), second);
        assert_eq!(second.earlier(Deadline::Now), Deadline::Now);
        assert_eq!(second.earlier(Deadline::At(Time::MAX)), second);
    }

    #[test]
    fn time_reads_well() {
        assert_eq!(Time::from_nanos(1_000_000_001).to_string(), "1.000000001 s");
    }
}
