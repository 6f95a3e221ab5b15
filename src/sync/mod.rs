//! The only place that says `std` or `loom`: atomics, threads, locks and shared pointers for the rest of the crate.
//!
//! Under `--cfg ringlog_loom` every name below is loom's; otherwise atomics of 64 bits are portable-atomic's (so that
//! targets without them work) and the rest is std's. The facade never changes what an operation means.
//!
//! # Orderings
//!
//! | label           | operation           | order   | why this much, and why no more                  |
//! |-----------------|---------------------|---------|-------------------------------------------------|
//! | thread_number:A | next number, add    | Relaxed | wants different numbers only; carries nothing   |

pub mod affinity;
pub mod barrier;
pub mod cell;
pub mod cow;
pub mod epoch;
#[cfg(all(target_os = "linux", feature = "eventfd", not(ringlog_loom)))]
pub mod eventfd;
pub mod futex;
pub mod hint;
pub mod rare;
pub mod trie;

/// Atomic types and fences.
pub mod atomic {
    #[cfg(ringlog_loom)]
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence};
    #[cfg(not(ringlog_loom))]
    pub use portable_atomic::AtomicU64;
    pub use std::sync::atomic::Ordering;
    #[cfg(not(ringlog_loom))]
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, fence};
}

#[cfg(ringlog_loom)]
pub use loom::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};
#[cfg(not(ringlog_loom))]
pub use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

/// Of the standard library in models too: loom's `Arc` has none, and what wants one is outside them.
pub use std::sync::Weak;

pub use crossbeam_utils::CachePadded;

/// Locks, whoever panicked while holding it: what this crate keeps under a lock is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks if nobody holds the lock at this moment, whoever panicked while holding it.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

/// How many processors this process may use; 1 if nobody knows.
pub fn processors() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(affinity::allowed_processors)
}

/// A number for the calling thread, which no other thread of the process ever has. At least 1, below 2^60.
///
/// A thread whose locals are gone already (on some systems, while it ends) gets another number with each call.
#[inline(always)]
pub fn thread_number() -> u64 {
    #[cfg(ringlog_loom)]
    loom::thread_local! { static NUMBER: std::cell::Cell<u64> = std::cell::Cell::new(0); }
    #[cfg(not(ringlog_loom))]
    thread_local! { static NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) }; }
    let known = NUMBER.try_with(|number| match number.get() {
        0 => {
            number.set(fresh_thread_number());
            number.get()
        }
        known => known,
    });
    known.unwrap_or_else(|_| fresh_thread_number())
}

#[cold]
#[inline(never)]
fn fresh_thread_number() -> u64 {
    // Not a model's affair: any number will do, as long as no other thread has it.
    static NEXT: portable_atomic::AtomicU64 = portable_atomic::AtomicU64::new(1);
    // ORD(thread_number:A) Relaxed: wants different numbers only; carries nothing.
    NEXT.fetch_add(1, atomic::Ordering::Relaxed)
}

/// One turn of a spin loop.
#[inline(always)]
pub fn spin_loop() {
    #[cfg(ringlog_loom)]
    loom::thread::yield_now();
    #[cfg(not(ringlog_loom))]
    std::hint::spin_loop();
}

/// The `turn`-th turn of a wait for a few stores of another thread: spins, then gives up the processor, then sleeps, because
/// that thread may need this very processor and rank below this one.
pub fn give_way(turn: u32) {
    match turn {
        0..64 => spin_loop(),
        64..128 => thread::yield_now(),
        #[cfg(not(ringlog_loom))]
        _ => drop(futex::Futex::new(0).wait(0, Some(std::time::Duration::from_micros(50)))),
        #[cfg(ringlog_loom)]
        _ => thread::yield_now(),
    }
}

/// A preemption point for models, nothing in real builds.
///
/// Loom remembers one last access per object, so that in a load-then-exchange loop a conflict with another thread's
/// earlier load can go unseen. Touching one common atomic before an exchange on a contended word, and between "claimed"
/// and "used" or "announced" and "looked again", gives it the schedules back. It is Relaxed and adds no ordering.
#[inline(always)]
pub fn explore() {
    #[cfg(ringlog_loom)]
    {
        loom::lazy_static! { static ref TOUCH: atomic::AtomicUsize = atomic::AtomicUsize::new(0); }
        TOUCH.fetch_add(1, atomic::Ordering::Relaxed);
    }
}

/// Says that this point was passed: nothing in real builds. Models ask `points` which ways an execution went.
#[inline(always)]
pub fn passed(point: &'static str) {
    #[cfg(ringlog_loom)]
    POINTS.with(|points| points.borrow_mut().push(point));
    #[cfg(not(ringlog_loom))]
    let _ = point;
}

/// The points passed since [`no_points`], in order.
#[cfg(ringlog_loom)]
pub fn points() -> Vec<&'static str> {
    POINTS.with(|points| points.borrow().clone())
}

/// Forgets them: an execution begins.
#[cfg(ringlog_loom)]
pub fn no_points() {
    POINTS.with(|points| points.borrow_mut().clear());
}

// All threads of a model run on one of the system's, so this is one list for them all, which loom does not see.
#[cfg(ringlog_loom)]
std::thread_local! { static POINTS: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) }; }
