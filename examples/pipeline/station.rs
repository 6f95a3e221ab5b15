//! A job at work: its state behind a lock, and what is measured about it while it runs.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use crate::flights::Departure;
use crate::jobs::{Job, Verdict};

/// The longest time the histograms tell apart from a longer one: an hour, in nanoseconds.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Counts that the progress display reads while the group works.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    done: AtomicU64,
    rejected: AtomicU64,
    retried: AtomicU64,
}

impl Meter {
    /// Departures handled well.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Departures handled, well or not.
    pub(crate) fn seen(&self) -> u64 {
        self.done() + self.rejected.load(Ordering::Relaxed)
    }

    /// Deliveries that were not the first of their departure.
    pub(crate) fn retried(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }
}

/// What a station holds under its lock.
#[derive(Debug)]
pub(crate) struct Work<J> {
    pub(crate) job: J,
    /// Nanoseconds from publish to the first time the handler saw it.
    pub(crate) latency: Histogram<u64>,
}

/// One group's job. Clones share it: one goes into the handler, one stays to be asked at the end.
#[derive(Debug)]
pub(crate) struct Station<J> {
    pub(crate) name: &'static str,
    pub(crate) meter: Arc<Meter>,
    work: Arc<Mutex<Work<J>>>,
}

impl<J> Clone for Station<J> {
    fn clone(&self) -> Self {
        Self { name: self.name, meter: Arc::clone(&self.meter), work: Arc::clone(&self.work) }
    }
}

impl<J: Job> Station<J> {
    pub(crate) fn new(name: &'static str, job: J) -> Self {
        let work = Work { job, latency: empty() };
        Self { name, meter: Arc::default(), work: Arc::new(Mutex::new(work)) }
    }

    /// Handles one delivery. The lock is free unless somebody asks at the same moment: a group has one thread here.
    pub(crate) fn handle(&self, departure: &Departure, attempt: u32) -> Verdict {
        let mut work = self.work();
        if attempt == 1 {
            let waited = departure.published.elapsed().as_nanos();
            work.latency.saturating_record(u64::try_from(waited).unwrap_or(u64::MAX).max(1));
        } else {
            self.meter.retried.fetch_add(1, Ordering::Relaxed);
        }
        let verdict = work.job.handle(departure, attempt);
        match verdict {
            Verdict::Done => self.meter.done.fetch_add(1, Ordering::Relaxed),
            Verdict::Poison(_) => self.meter.rejected.fetch_add(1, Ordering::Relaxed),
            Verdict::Again(_) => 0,
        };
        verdict
    }

    pub(crate) fn work(&self) -> MutexGuard<'_, Work<J>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A histogram up to an hour, exact to three digits.
pub(crate) fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are constants and valid")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::Station;
    use crate::flights::{Code, Departure};
    use crate::jobs::{Notices, Verdict};

    #[test]
    fn a_retried_departure_is_handled_once_and_timed_once() {
        let code = Code::new("X").expect("short");
        let (carrier, origin, dest) = (code, code, code);
        let one =
            Departure { row: 1, line: 2, key: None, carrier, origin, dest, delay: None, published: Instant::now() };
        let station = Station::new("notices", Notices::failing(1));
        assert!(matches!(station.handle(&one, 1), Verdict::Again(_)));
        assert_eq!((station.meter.done(), station.meter.retried()), (0, 0));
        assert_eq!(station.handle(&one, 2), Verdict::Done);
        assert_eq!((station.meter.done(), station.meter.retried()), (1, 1));
        assert_eq!(station.work().latency.len(), 1);
    }
}
