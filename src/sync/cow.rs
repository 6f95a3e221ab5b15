//! A read-mostly value that is copied on change (`ArcSwap`; a mutex stands in under loom, which cannot see into it).
//!
//! Readers take the current value without a lock; writers copy it, change the copy and put it in place, one writer at a
//! time. A reader keeps the value it took for as long as it likes: old values go when their last reader goes.
#![forbid(unsafe_code)]

use crate::sync::{Arc, Mutex, lock};
use std::{convert::Infallible, fmt};

/// A shared, copy-on-change value. Clones are handles to the same value.
pub struct Cow<T>(Arc<Shared<T>>);

struct Shared<T> {
    current: current::Current<T>,
    /// Held by the one writer. No user code runs under it: the closures are this crate's own.
    writer: Mutex<()>,
}

impl<T> Cow<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared { current: current::Current::new(Arc::new(value)), writer: Mutex::new(()) }))
    }

    /// The current value.
    pub fn load(&self) -> Arc<T> {
        self.0.current.load()
    }

    /// A handle that keeps the last value it saw, for readers that look often: one comparison when nothing changed.
    pub fn cached(&self) -> Cached<T> {
        Cached { seen: self.load(), cow: self.clone() }
    }

    /// Replaces the value by `change(&current)` and returns the new one. Changes happen one after the other.
    pub fn update(&self, change: impl FnOnce(&T) -> T) -> Arc<T> {
        match self.try_update(|now| Ok::<_, Infallible>((change(now), ()))) {
            Ok((new, ())) => new,
            Err(never) => match never {},
        }
    }

    /// Replaces the value if `change(&current)` gives a new one, and hands out what `change` adds; an error changes
    /// nothing. So "create unless it exists" is one step.
    pub fn try_update<R, E>(&self, change: impl FnOnce(&T) -> Result<(T, R), E>) -> Result<(Arc<T>, R), E> {
        let _only = lock(&self.0.writer);
        let (new, more) = change(&self.load())?;
        let new = Arc::new(new);
        self.0.current.store(new.clone());
        Ok((new, more))
    }
}

impl<T> Clone for Cow<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Cow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cow").field(&self.load()).finish()
    }
}

impl<T: Default> Default for Cow<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// A reader's own handle on a [`Cow`]. It keeps one value alive: the one it saw last.
pub struct Cached<T> {
    seen: Arc<T>,
    cow: Cow<T>,
}

impl<T> Cached<T> {
    /// The current value.
    #[inline]
    pub fn load(&mut self) -> &Arc<T> {
        if !self.cow.0.current.is(&self.seen) {
            self.seen = self.cow.load();
        }
        &self.seen
    }
}

impl<T> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self { seen: self.seen.clone(), cow: self.cow.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Cached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cached").field(&self.seen).finish()
    }
}

#[cfg(not(ringlog_loom))]
mod current {
    use super::Arc;
    use arc_swap::ArcSwap;

    pub(super) struct Current<T>(ArcSwap<T>);

    impl<T> Current<T> {
        pub(super) fn new(value: Arc<T>) -> Self {
            Self(ArcSwap::new(value))
        }

        #[inline]
        pub(super) fn load(&self) -> Arc<T> {
            self.0.load_full()
        }

        /// Whether `seen` is still in place. The caller keeps it alive, so its address is nobody else's.
        #[inline]
        pub(super) fn is(&self, seen: &Arc<T>) -> bool {
            Arc::ptr_eq(&self.0.load(), seen)
        }

        pub(super) fn store(&self, value: Arc<T>) {
            self.0.store(value);
        }
    }
}

#[cfg(ringlog_loom)]
mod current {
    use super::Arc;
    use crate::sync::Mutex;

    pub(super) struct Current<T>(Mutex<Arc<T>>);

    impl<T> Current<T> {
        pub(super) fn new(value: Arc<T>) -> Self {
            Self(Mutex::new(value))
        }

        pub(super) fn load(&self) -> Arc<T> {
            self.0.lock().unwrap().clone()
        }

        pub(super) fn is(&self, seen: &Arc<T>) -> bool {
            Arc::ptr_eq(&self.0.lock().unwrap(), seen)
        }

        pub(super) fn store(&self, value: Arc<T>) {
            let old = std::mem::replace(&mut *self.0.lock().unwrap(), value);
            drop(old);
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Cow;
    use crate::sync::{Arc, thread};

    #[test]
    fn a_reader_keeps_what_it_took_and_the_next_look_sees_the_change() {
        let cow = Cow::new(vec![1]);
        let (old, mut cached) = (cow.load(), cow.cached());
        cow.update(|now| now.iter().copied().chain([2]).collect());
        assert_eq!((old.as_slice(), cached.load().as_slice()), (&[1][..], &[1, 2][..]));
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let cow = Cow::new(1);
        assert_eq!(cow.try_update(|_| Err::<(i32, ()), _>("no")).unwrap_err(), "no");
        assert_eq!(*cow.load(), 1);
    }

    #[test]
    fn no_change_is_lost_among_writers() {
        let (cow, rounds) = (Cow::new(0_usize), if cfg!(miri) { 5 } else { 2000 });
        let writers: Vec<_> = (0..3)
            .map(|_| {
                thread::spawn({
                    let cow = cow.clone();
                    move || (0..rounds).for_each(|_| drop(cow.update(|now| now + 1)))
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(*cow.load(), 3 * rounds);
    }

    #[test]
    fn a_panic_in_a_change_leaves_the_value_and_the_cell_usable() {
        let cow = Cow::new(1);
        let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cow.update(|_| panic!("on purpose"))));
        assert!(changed.is_err());
        assert_eq!(*cow.update(|now| now + 1), 2);
    }

    #[test]
    fn values_go_with_their_last_reader() {
        let counted = Arc::new(());
        let cow = Cow::new(counted.clone());
        let mut cached = cow.cached();
        cow.update(|_| Arc::new(()));
        assert_eq!(Arc::strong_count(&counted), 2, "the cached handle still has it");
        cached.load();
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
