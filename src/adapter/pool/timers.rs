//! When which task is due.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A list of things by their time.
///
/// | label     | operation            | order   | why this much, and why no more                                    |
/// |-----------|----------------------|---------|-------------------------------------------------------------------|
/// | timers:A, timers:B | the earliest, store and load | Relaxed | a hint; who acts on it takes the lock, and whoever put it there looks again before it sleeps |
#[derive(Debug)]
pub(super) struct Timers<I> {
    earliest: AtomicU64,
    list: Mutex<List<I>>,
}

#[derive(Debug)]
struct List<I> {
    /// By time, and then by when they were put there.
    entries: BTreeMap<(Time, Reverse<u64>), I>,
    last: u64,
}

impl<I> Timers<I> {
    pub(super) fn new() -> Self {
        let list = List { entries: BTreeMap::new(), last: 0 };
        Timers { earliest: AtomicU64::new(Time::MAX.as_nanos()), list: Mutex::new(list) }
    }

    /// The earliest time of any.
    pub(super) fn next(&self) -> Option<Time> {
        // ORD(timers:B) Relaxed: a hint.
        let earliest = Time::from_nanos(self.earliest.load(Relaxed));
        (earliest != Time::MAX).then_some(earliest)
    }

    pub(super) fn put(&self, at: Time, item: I) {
        self.with(|list| {
            list.last += 1;
            list.entries.insert((at, Reverse(list.last)), item);
        });
    }

    /// What is due by `now`.
    pub(super) fn due(&self, now: Time) -> Vec<(Time, I)> {
        if self.next().is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        self.with(|list| {
            let later = list.entries.split_off(&(now + std::time::Duration::from_nanos(1), Reverse(u64::MAX)));
            std::mem::replace(&mut list.entries, later).into_iter().map(|((at, _), item)| (at, item)).collect()
        })
    }

    /// Takes all of it.
    pub(super) fn empty(&self) -> impl Sized {
        self.with(|list| std::mem::take(&mut list.entries))
    }

    fn with<R>(&self, act: impl FnOnce(&mut List<I>) -> R) -> R {
        let mut list = lock(&self.list);
        let done = act(&mut list);
        let earliest = list.entries.first_key_value().map_or(Time::MAX, |((at, _), _)| *at);
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
        for nanos in [5, 3, 4, 3] {
            timers.put(at(nanos), nanos);
        }
        assert_eq!((timers.next(), timers.due(at(2)).len()), (Some(at(3)), 0));
        let mut due: Vec<u64> = timers.due(at(4)).into_iter().map(|(_, nanos)| nanos).collect();
        due.sort_unstable();
        assert_eq!((due, timers.next()), (vec![3, 3, 4], Some(at(5))));
        assert_eq!((timers.due(Time::MAX).len(), timers.next()), (1, None));
    }
}
