//! A 32-bit word to sleep on, with an optional time limit.
//!
//! Linux sleeps in the kernel's futex, through rustix. Elsewhere, under loom and under Miri's foreign targets, a mutex
//! and a condition variable stand in; the meaning is the same: `wait` returns at once unless the word still holds what
//! the caller saw, and whoever changes the word and then calls `wake` wakes a sleeper.
//!
//! # Orderings
//!
//! | label  | operation            | order   | why this much, and why no more                                        |
//! |--------|----------------------|---------|-----------------------------------------------------------------------|
//! | fwait:A | `word.load`, fallback | Relaxed | a change made before the lock was last released is seen, because the lock orders it; the caller reads the word again with its own ordering |
#![forbid(unsafe_code)]

use crate::sync::atomic::AtomicU32;
#[cfg(not(all(target_os = "linux", not(ringlog_loom))))]
use crate::sync::{Condvar, Mutex, MutexGuard, atomic::Ordering};
use std::time::Duration;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The word changed, somebody called `wake`, or the system woke us for no reason: look again.
    Woken,
    /// The time limit passed. The word may have changed all the same: look again.
    TimedOut,
}

/// A word to sleep on.
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    #[cfg(not(all(target_os = "linux", not(ringlog_loom))))]
    stand_in: (Mutex<()>, Condvar),
}

impl Futex {
    /// The bit a clock sets in the word of a sleeper whose time has come, so that the wake cannot be missed.
    ///
    /// A clock that owns sleeping has nothing else it may change. Whoever sleeps treats it as "look at the time".
    pub const TICK: u32 = 1 << 31;

    /// A word that holds `value`.
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            #[cfg(not(all(target_os = "linux", not(ringlog_loom))))]
            stand_in: (Mutex::new(()), Condvar::new()),
        }
    }

    /// The word itself. Its orderings belong to the protocol that uses it.
    #[inline(always)]
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(all(target_os = "linux", not(ringlog_loom)))]
impl Futex {
    /// Sleeps while the word holds `expected`, for `limit` at most (`None`: for ever). May return early.
    pub fn wait(&self, expected: u32, limit: Option<Duration>) -> Woken {
        use rustix::thread::futex::{Flags, Timespec, wait};
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        match wait(&self.word, Flags::PRIVATE, expected, limit.as_ref()) {
            Err(rustix::io::Errno::TIMEDOUT) => Woken::TimedOut,
            Ok(()) | Err(_) => Woken::Woken, // changed already, woken, or interrupted: the caller looks again
        }
    }

    /// Wakes up to `count` sleepers. The word must have been changed before.
    pub fn wake(&self, count: u32) {
        use rustix::thread::futex::{Flags, wake};
        // The kernel takes the count as an int. Waking can only fail for a bad address, which a reference is not.
        let _ = wake(&self.word, Flags::PRIVATE, count.min(i32::MAX as u32));
    }
}

#[cfg(not(all(target_os = "linux", not(ringlog_loom))))]
impl Futex {
    /// Sleeps while the word holds `expected`, for `limit` at most (`None`: for ever). May return early.
    ///
    /// Models have no time: there a limit returns at once, and the model's clock decides whether it may pass.
    pub fn wait(&self, expected: u32, limit: Option<Duration>) -> Woken {
        let mut guard = self.lock();
        let until = match limit {
            None => None,
            Some(_) if cfg!(ringlog_loom) => return Woken::TimedOut,
            Some(limit) => std::time::Instant::now().checked_add(limit),
        };
        // ORD(fwait:A) Relaxed: a change made before the lock was last released is seen; the waker takes the lock.
        while self.word.load(Ordering::Relaxed) == expected {
            guard = match until {
                None => self.stand_in.1.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(std::time::Instant::now());
                    if left.is_zero() {
                        return Woken::TimedOut;
                    }
                    self.stand_in.1.wait_timeout(guard, left).unwrap_or_else(std::sync::PoisonError::into_inner).0
                }
            };
        }
        Woken::Woken
    }

    /// Wakes sleepers: everyone, since the stand-in cannot count. The word must have been changed before.
    pub fn wake(&self, _count: u32) {
        drop(self.lock()); // a sleeper is either before its check, and sees the change, or inside `wait`, and is woken
        self.stand_in.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        crate::sync::lock(&self.stand_in.0)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Futex, Woken};
    use crate::sync::{Arc, atomic::Ordering, thread};
    use std::time::Duration;

    #[test]
    fn a_changed_word_is_not_slept_on() {
        assert_eq!(Futex::new(1).wait(0, None), Woken::Woken);
    }

    #[test]
    fn a_zero_limit_times_out_and_the_longest_limit_is_harmless() {
        let futex = Arc::new(Futex::new(0));
        assert_eq!(futex.wait(0, Some(Duration::ZERO)), Woken::TimedOut);
        let sleeper = thread::spawn({
            let futex = futex.clone();
            move || {
                while futex.word().load(Ordering::Acquire) == 0 {
                    assert_eq!(futex.wait(0, Some(Duration::MAX)), Woken::Woken);
                }
            }
        });
        futex.word().store(1, Ordering::Release);
        futex.wake(u32::MAX);
        sleeper.join().unwrap();
    }

    #[test]
    fn a_wake_ends_a_sleep_without_limit() {
        for _ in 0..if cfg!(miri) { 5 } else { 1000 } {
            let futex = Arc::new(Futex::new(0));
            let sleeper = thread::spawn({
                let futex = futex.clone();
                move || {
                    while futex.word().load(Ordering::Acquire) == 0 {
                        futex.wait(0, None);
                    }
                }
            });
            futex.word().store(1, Ordering::Release);
            futex.wake(1);
            sleeper.join().unwrap();
        }
    }
}
