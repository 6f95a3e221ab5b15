//! Locks for ThreadSanitizer builds (`--cfg ringlog_tsan`): std's, whose every hand-over also goes through an atomic of
//! ours.
//!
//! The standard library comes prebuilt without the sanitizer's instrumentation, so it does not see what a contended
//! lock orders and reports races that are none. Each lock here loads its word (Acquire) once it is held and counts on it
//! (Release) before it is let go; that orders nothing new, it only shows the order that is there.
//!
//! # Orderings
//!
//! | label   | operation        | order   | why                                                            |
//! |---------|------------------|---------|----------------------------------------------------------------|
//! | seen:A  | `word.load`      | Acquire | shows what the last holder did; pairs with given:A             |
//! | given:A | `word.fetch_add` | Release | shows what this holder did; pairs with seen:A                  |
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

/// A mutual exclusion lock.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    word: AtomicUsize,
    inner: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Wraps `value`.
    pub const fn new(value: T) -> Self {
        Self { word: AtomicUsize::new(0), inner: std::sync::Mutex::new(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    ///
    /// # Errors
    /// When a holder panicked.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let wrap = |inner| MutexGuard::taken(&self.word, inner);
        self.inner.lock().map(wrap).map_err(|poisoned| PoisonError::new(wrap(poisoned.into_inner())))
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    /// When it is not, or when a holder panicked.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let wrap = |inner| MutexGuard::taken(&self.word, inner);
        self.inner.try_lock().map(wrap).map_err(|why| match why {
            TryLockError::WouldBlock => TryLockError::WouldBlock,
            TryLockError::Poisoned(guard) => TryLockError::Poisoned(PoisonError::new(wrap(guard.into_inner()))),
        })
    }
}

/// The lock, held.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    word: &'a AtomicUsize,
    inner: Option<std::sync::MutexGuard<'a, T>>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    fn taken(word: &'a AtomicUsize, inner: std::sync::MutexGuard<'a, T>) -> Self {
        let guard = Self { word, inner: Some(inner) };
        guard.seen();
        guard
    }

    fn seen(&self) {
        // ORD(seen:A) Acquire: what the last holder did, for the sanitizer's eyes. Pairs with ORD(given:A).
        self.word.load(Ordering::Acquire);
    }

    fn given(&self) {
        // ORD(given:A) Release: what this holder did, for the sanitizer's eyes. Pairs with ORD(seen:A).
        self.word.fetch_add(1, Ordering::Release);
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.given();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("held until dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("held until dropped")
    }
}

/// A condition variable for these locks.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition variable.
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// Lets the lock go, waits for a notification, takes the lock again.
    ///
    /// # Errors
    /// When a holder panicked.
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let inner = guard.inner.take().expect("held until dropped");
        guard.given();
        let wrap = |inner| MutexGuard::taken(guard.word, inner);
        self.0.wait(inner).map(wrap).map_err(|poisoned| PoisonError::new(wrap(poisoned.into_inner())))
    }

    /// The same, as long as `condition` holds and no longer than `patience`.
    ///
    /// # Errors
    /// When a holder panicked.
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        patience: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let inner = guard.inner.take().expect("held until dropped");
        guard.given();
        let look = |value: &mut T| {
            guard.seen();
            let waits = condition(value);
            guard.given();
            waits
        };
        let wrap = |(inner, result)| (MutexGuard::taken(guard.word, inner), result);
        let waited = self.0.wait_timeout_while(inner, patience, look);
        waited.map(wrap).map_err(|poisoned| PoisonError::new(wrap(poisoned.into_inner())))
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
