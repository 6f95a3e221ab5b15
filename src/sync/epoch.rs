//! An epoch-protected cell: read under a guard that never leaves the call, replaced, retired.
//!
//! The only module that names crossbeam-epoch. A reader pins the epoch, follows the pointer, and unpins before the call
//! returns; a value that was replaced is dropped once nobody can be reading it any more. Under loom a cell that drops
//! nothing stands in, except in the models of the cells themselves (`--cfg crossbeam_loom`).
//!
//! # Orderings
//!
//! | label     | operation      | order   | why this much, and why no more                                            |
//! |-----------|----------------|---------|---------------------------------------------------------------------------|
//! | epoch_read:A    | pointer load   | Acquire | we read the value behind it; pairs with epoch_replace:A                         |
//! | epoch_replace:A | pointer swap   | AcqRel  | Release: the value before its address, pairs with epoch_read:A. Acquire: we retire what another `replace` stored, pairs with its Release |
//! | stand_in_read:A | pointer load | Acquire | as epoch_read:A, in models; pairs with stand_in_replace:A |
//! | stand_in_replace:A | pointer swap | AcqRel | as epoch_replace:A, in models; pairs with stand_in_read:A |

mod newest;

pub use newest::{Fresh, Kept, Newest, Ripe, Yard};
#[cfg(any(not(ringlog_loom), crossbeam_loom))]
pub use real::EpochCell;
#[cfg(all(ringlog_loom, not(crossbeam_loom)))]
pub use stand_in::EpochCell;

#[cfg(any(not(ringlog_loom), crossbeam_loom))]
mod real {
    use std::fmt;

    use crossbeam_epoch::{Atomic, Owned, pin};

    use crate::sync::atomic::Ordering::{AcqRel, Acquire};

    /// A value that any thread may read at any time and any thread may replace.
    pub struct EpochCell<T: Send + Sync + 'static>(Atomic<T>);

    impl<T: Send + Sync + 'static> EpochCell<T> {
        /// A cell that holds `value`.
        pub fn new(value: T) -> Self {
            Self(Atomic::new(value))
        }

        /// Reads the value. `f` must be short and run no user code: reclamation in the whole process waits for it.
        pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
            let guard = pin();
            // ORD(epoch_read:A) Acquire: `f` reads what lies behind the pointer. Pairs with ORD(epoch_replace:A).
            let shared = self.0.load(Acquire, &guard);
            // SAFETY: the pointer is never null and was unlinked, if at all, after we pinned: retired values are dropped
            // only when every guard of that time is gone, and `f` cannot keep the reference beyond the guard.
            f(unsafe { shared.deref() })
        }

        /// Puts `value` in place; the old one is dropped when nobody reads it any more.
        pub fn replace(&self, value: T) {
            let guard = pin();
            // ORD(epoch_replace:A) AcqRel: `value` before its address, and the old value before its retirement. Pairs with
            // ORD(epoch_read:A) and with itself.
            let old = self.0.swap(Owned::new(value), AcqRel, &guard);
            // SAFETY: the swap unlinked `old`, and only the one call that unlinks a value retires it.
            unsafe { guard.defer_destroy(old) }
        }
    }

    impl<T: Send + Sync + 'static> Drop for EpochCell<T> {
        fn drop(&mut self) {
            let last = std::mem::take(&mut self.0);
            // SAFETY: `&mut self`: nobody reads or replaces any more, and the pointer is never null.
            drop(unsafe { last.into_owned() });
        }
    }

    impl<T: Send + Sync + 'static> fmt::Debug for EpochCell<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("EpochCell").finish_non_exhaustive()
        }
    }
}

#[cfg(all(ringlog_loom, not(crossbeam_loom)))]
mod stand_in {
    use crate::sync::Mutex;
    use crate::sync::atomic::Ordering::{AcqRel, Acquire};
    use loom::sync::atomic::AtomicPtr;

    /// A guard of nothing: what waits for its end waits for ever, and goes with the yard.
    pub(super) struct Guard;

    pub(super) fn pin() -> Guard {
        Guard
    }

    impl Guard {
        pub(super) fn defer(&self, _: impl FnOnce() + Send + 'static) {}

        pub(super) fn flush(&self) {}
    }

    impl Drop for Guard {
        fn drop(&mut self) {}
    }

    /// The same face without epochs, for models of everything else: nothing is dropped before the cell is. The pointer
    /// is an atomic as in the real cell, so that a model sees stale values where there can be some.
    #[derive(Debug)]
    pub struct EpochCell<T: Send + Sync + 'static> {
        now: AtomicPtr<T>,
        all: Mutex<Vec<Box<T>>>,
    }

    impl<T: Send + Sync + 'static> EpochCell<T> {
        /// A cell that holds `value`.
        pub fn new(value: T) -> Self {
            let mut value = Box::new(value);
            Self { now: AtomicPtr::new(&mut *value), all: Mutex::new(vec![value]) }
        }

        /// Reads the value.
        pub fn read<R>(&self, f: impl FnOnce(&T) -> R) -> R {
            // ORD(stand_in_read:A) Acquire: as in the real cell. Pairs with ORD(stand_in_replace:A).
            let now = self.now.load(Acquire);
            // SAFETY: the values are in boxes that are kept until the cell is dropped.
            f(unsafe { &*now })
        }

        /// Puts `value` in place.
        pub fn replace(&self, value: T) {
            let mut value = Box::new(value);
            let address: *mut T = &mut *value;
            self.all.lock().unwrap().push(value);
            // ORD(stand_in_replace:A) AcqRel: as in the real cell. Pairs with ORD(stand_in_read:A) and with itself.
            self.now.swap(address, AcqRel);
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    use super::EpochCell;

    #[test]
    fn reads_the_latest_value_and_drops_each_once() {
        let counted = Arc::new(());
        let cell = EpochCell::new((1, counted.clone()));
        cell.replace((2, counted.clone()));
        assert_eq!(cell.read(|v| v.0), 2);
        drop(cell);
        for _ in 0..10_000 {
            crossbeam_epoch::pin().flush();
            if Arc::strong_count(&counted) == 1 {
                break;
            }
        }
        assert_eq!(Arc::strong_count(&counted), 1, "a retired value was not dropped");
    }

    #[test]
    fn a_reader_never_sees_a_dropped_value() {
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let cell = EpochCell::new(Box::new(0u64));
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                let mut last = 0;
                while !stop.load(SeqCst) {
                    let now = cell.read(|v| **v);
                    assert!(now >= last, "went back from {last} to {now}");
                    last = now;
                }
            });
            for n in 1..=rounds {
                cell.replace(Box::new(n));
            }
            stop.store(true, SeqCst);
        });
        assert_eq!(cell.read(|v| **v), rounds);
    }
}
