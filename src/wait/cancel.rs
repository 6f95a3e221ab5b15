//! Cancelling waits from outside.
//!
//! `cancel` sets the flag, then takes the lock and rings every bell registered. A waiter registers its bell under the same
//! lock and looks at the flag after that: either its registration came first, and it is rung, or the lock shows it the
//! flag. Nothing here is on a hot path.
//!
//! # Orderings
//!
//! | label          | operation         | order   | why this much, and why no more                                              |
//! |----------------|-------------------|---------|-----------------------------------------------------------------------------|
//! | cancel:A       | `cancelled.store` | Release | what was done before the cancel is seen by who is cancelled; pairs with is_cancelled:A |
//! | is_cancelled:A | `cancelled.load`  | Acquire | the other half                                                              |
#![forbid(unsafe_code)]

use super::sleeper::Bell;
use crate::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    lock,
};

/// Ends blocking calls early: those that were given it, now and later. Clones cancel the same calls.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cancelled: AtomicBool,
    bells: Mutex<Vec<Bell>>,
}

impl Canceller {
    /// One that has not cancelled anything.
    pub fn new() -> Self {
        Self(Arc::new(Shared { cancelled: AtomicBool::new(false), bells: Mutex::new(Vec::new()) }))
    }

    /// Ends the calls that wait with it, and lets no later one wait. What such a call held it gives back.
    pub fn cancel(&self) {
        // ORD(cancel:A) Release: what was done before. Pairs with ORD(is_cancelled:A).
        self.0.cancelled.store(true, Ordering::Release);
        let bells = lock(&self.0.bells).clone();
        bells.iter().for_each(Bell::ring);
    }

    /// Whether it has been used.
    pub fn is_cancelled(&self) -> bool {
        // ORD(is_cancelled:A) Acquire: pairs with ORD(cancel:A).
        self.0.cancelled.load(Ordering::Acquire)
    }

    #[doc(hidden)]
    /// Rings `bell` on [`cancel`](Canceller::cancel) for as long as the registration lives. Look at
    /// [`is_cancelled`](Canceller::is_cancelled) after registering.
    pub fn register(&self, bell: &Bell) -> Cancellable<'_> {
        lock(&self.0.bells).push(bell.clone());
        Cancellable { canceller: self, bell: bell.clone() }
    }
}

impl Default for Canceller {
    fn default() -> Self {
        Self::new()
    }
}

/// A bell's registration with a [`Canceller`]. Dropping it ends it; a ring that is on its way may still come.
#[derive(Debug)]
#[must_use = "dropping it unregisters the bell"]
pub struct Cancellable<'a> {
    canceller: &'a Canceller,
    bell: Bell,
}

impl Drop for Cancellable<'_> {
    fn drop(&mut self) {
        let mut bells = lock(&self.canceller.0.bells);
        if let Some(at) = bells.iter().position(|bell| bell.is_same(&self.bell)) {
            bells.swap_remove(at);
        }
    }
}
