//! A cheap reading for pacing: how long to leave a partition alone, how long to spin.
#![forbid(unsafe_code)]

use crate::sync::hint::cycle_counter;
use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A reading of the processor's counter, or a distance between two.
pub type Ticks = u64;

/// The reading now: a few nanoseconds on x86-64, as dear as `Instant::now` elsewhere. Good for waits of up to
/// milliseconds within one thread, for nothing else.
#[inline(always)]
pub fn ticks() -> Ticks {
    cycle_counter()
}

/// How many ticks `span` has. The first call compares the counter with the clock for about 50 microseconds.
pub fn ticks_in(span: Duration) -> Ticks {
    static PER_MICRO: OnceLock<u64> = OnceLock::new();
    let per_micro = *PER_MICRO.get_or_init(|| calibrate(Duration::from_micros(50)));
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    u64::try_from(u128::from(nanos) * u128::from(per_micro) / 1000).unwrap_or(u64::MAX)
}

/// Ticks in a microsecond, at least one, so that a counter that stands still gives no endless wait.
fn calibrate(span: Duration) -> u64 {
    let (begun, first) = (Instant::now(), ticks());
    let elapsed = loop {
        let elapsed = begun.elapsed();
        if elapsed >= span {
            break elapsed;
        }
        crate::sync::spin_loop();
    };
    let counted = u128::from(ticks().saturating_sub(first));
    u64::try_from(counted * 1000 / elapsed.as_nanos().max(1)).unwrap_or(1).max(1)
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{ticks, ticks_in};
    use std::time::Duration;

    #[test]
    fn spans_keep_their_order_and_extremes_are_harmless() {
        assert_eq!(ticks_in(Duration::ZERO), 0);
        assert!(ticks_in(Duration::from_micros(1)) < ticks_in(Duration::from_millis(1)));
        assert!(ticks_in(Duration::MAX) >= ticks_in(Duration::from_secs(3600)));
    }

    #[test]
    fn readings_pass() {
        let until = ticks() + ticks_in(Duration::from_micros(10));
        while ticks() < until {
            std::hint::spin_loop();
        }
    }
}
