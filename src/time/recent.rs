//! A reading of a clock that may be a little old, for who reads it very often.
#![forbid(unsafe_code)]

use super::{Clock, Ticks, Time, ticks, ticks_in};
use crate::sync::{
    Arc, CachePadded, Weak,
    atomic::{AtomicU64, Ordering},
};
use std::{fmt, time::Duration};

/// How old a reading gets before the next look.
const SPAN: Duration = Duration::from_millis(1);

/// The last reading of a clock, looked at again when about a millisecond has passed by the processor's counter. Of several
/// at once who look again each keeps the later reading, so that it never goes back. A clock that somebody moves is always
/// asked: what it says is meant.
pub struct Recent {
    clock: Arc<dyn Clock>,
    by_hand: bool,
    span: Ticks,
    last: CachePadded<Last>,
}

struct Last {
    looked: AtomicU64,
    nanos: AtomicU64,
}

impl Recent {
    /// Of `clock`, looked at now.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let nobody: Weak<fn()> = Weak::new();
        let by_hand = clock.on_move(nobody);
        let (looked, nanos) = (AtomicU64::new(ticks()), AtomicU64::new(clock.now().as_nanos()));
        Self { clock, by_hand, span: ticks_in(SPAN), last: CachePadded::new(Last { looked, nanos }) }
    }

    /// A reading, about a millisecond old at the most, or two where several threads look again at once.
    #[inline]
    pub fn now(&self) -> Time {
        let now = ticks();
        // ORD(recent:A) Relaxed: when to look again, a guess.
        if self.by_hand || now.wrapping_sub(self.last.looked.load(Ordering::Relaxed)) >= self.span {
            return self.look(now);
        }
        // ORD(recent:B) Relaxed: any recent reading will do.
        Time::from_nanos(self.last.nanos.load(Ordering::Relaxed))
    }

    #[cold]
    fn look(&self, at: Ticks) -> Time {
        let now = self.clock.now();
        if self.by_hand {
            return now;
        }
        // ORD(recent:C) Relaxed: a number that only grows and carries nothing.
        let before = self.last.nanos.fetch_max(now.as_nanos(), Ordering::Relaxed);
        // ORD(recent:D) Relaxed: as recent:A.
        self.last.looked.store(at, Ordering::Relaxed);
        now.max(Time::from_nanos(before))
    }
}

impl fmt::Debug for Recent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recent").field("clock", &self.clock).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Recent, SPAN};
    use crate::{
        sync::Arc,
        time::{Clock, ManualClock, SystemClock, Time},
    };

    #[test]
    fn a_clock_that_is_moved_is_believed_at_once() {
        let clock = Arc::new(ManualClock::new());
        let recent = Recent::new(clock.clone());
        for nanos in [1, 7, 3] {
            clock.set(Time::from_nanos(nanos));
            assert_eq!(recent.now(), Time::from_nanos(nanos));
        }
    }

    #[test]
    fn a_clock_that_runs_is_followed_and_never_goes_back() {
        let clock = Arc::new(SystemClock::new());
        let recent = Recent::new(clock.clone());
        let (begun, mut last) = (clock.now(), recent.now());
        while clock.now() - begun < SPAN * 20 {
            let now = recent.now();
            assert!(now >= last && now <= clock.now());
            last = now;
        }
        assert!(recent.now() > begun, "it has been looked at again");
    }
}
