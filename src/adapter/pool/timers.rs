//! When which task is due.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who is due: the number of a task, and which of its lanes.
pub(super) type Whose = (u64, usize);

/// A list of things by their time, and by whose they are.
///
/// | label     | operation            | order   | why this much, and why no more                                    |
/// |-----------|----------------------|---------|-------------------------------------------------------------------|
/// | timers:A, timers:B | the earliest, store and load | Relaxed | a hint; who acts on it takes the lock, and whoever put it there looks again before it sleeps |
#[derive(Debug)]
pub(super) struct Timers<I> {
    earliest: AtomicU64,
    entries: Mutex<Entries<I>>,
}

type Entries<I> = BTreeMap<(Time, Whose), I>;

impl<I> Timers<I> {
    pub(super) fn new() -> Self {
        Timers { earliest: AtomicU64::new(Time::MAX.as_nanos()), entries: Mutex::new(BTreeMap::new()) }
    }

    /// The earliest time of any.
    pub(super) fn next(&self) -> Option<Time> {
        // ORD(timers:B) Relaxed: a hint.
        let earliest = Time::from_nanos(self.earliest.load(Relaxed));
        (earliest != Time::MAX).then_some(earliest)
    }

    pub(super) fn put(&self, at: Time, whose: Whose, item: I) {
        drop(self.with(|entries| entries.insert((at, whose), item)));
    }

    /// Takes one out that is not due yet.
    pub(super) fn remove(&self, at: Time, whose: Whose) -> Option<I> {
        self.with(|entries| entries.remove(&(at, whose)))
    }

    /// What is due by `now`.
    pub(super) fn due(&self, now: Time) -> Vec<(Whose, I)> {
        if self.next().is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        let due = self.with(|entries| {
            let later = entries.split_off(&(now + Duration::from_nanos(1), (0, 0)));
            std::mem::replace(entries, later)
        });
        due.into_iter().map(|((_, whose), item)| (whose, item)).collect()
    }

    /// Takes all of it.
    pub(super) fn empty(&self) -> Vec<I> {
        self.with(std::mem::take).into_values().collect()
    }

    fn with<R>(&self, act: impl FnOnce(&mut Entries<I>) -> R) -> R {
        let mut entries = lock(&self.entries);
        let done = act(&mut entries);
        let earliest = entries.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
        // ORD(timers:A) Relaxed: a hint.
        self.earliest.store(earliest.as_nanos(), Relaxed);
        done
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Timers;
    use crate::time::Time;

    #[test]
    fn what_is_due_comes_out_and_nothing_else() {
        let (timers, at) = (Timers::new(), Time::from_nanos);
        for (whose, nanos) in [5, 3, 4, 3].into_iter().enumerate() {
            timers.put(at(nanos), (whose as u64, 0), nanos);
        }
        assert_eq!((timers.next(), timers.due(at(2)).len()), (Some(at(3)), 0));
        let due: Vec<u64> = timers.due(at(4)).into_iter().map(|((whose, _), _)| whose).collect();
        assert_eq!((due, timers.next()), (vec![1, 3, 2], Some(at(5))));
        assert_eq!((timers.remove(at(4), (0, 0)), timers.remove(at(5), (0, 0)), timers.next()), (None, Some(5), None));
        timers.put(Time::MAX, (1, 0), 7);
        assert_eq!((timers.next(), timers.empty()), (None, vec![7]), "what is never due still is there");
    }
}
