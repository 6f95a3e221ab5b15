//! A task's word: idle, queued, running, and whether something came meanwhile.
//!
//! ```text
//!             want (queues it)            begin
//!    idle ─────────────────────▶ queued ────────▶ running ── end, nothing came ──▶ idle
//!                                   ▲                │ want
//!                                   │                ▼
//!                                   └── end ── running, wanted
//! ```
//! | word          | means                        | left by                                          |
//! |---------------|------------------------------|--------------------------------------------------|
//! | 0             | idle: in no queue            | `want`, whose caller queues it                   |
//! | BUSY + WANTED | queued, or running and to be run again | `begin` by who took it off a queue, `end` by who runs it |
//! | BUSY          | running                      | `want`, `end`                                    |
//!
//! # Invariants
//!
//! 1. A task is in one queue at most, and run by one thread at a time: only who found the word idle queues it, and who runs
//!    it queues it again without its having been idle.
//! 2. What was there before a `want` is seen by a run that begins after it: by the one that this queued, by the next one, or
//!    by the one that was queued and had not begun.
//!
//! # Orderings
//!
//! | label        | operation          | order   | why this much, and why no more                                             |
//! |--------------|--------------------|---------|----------------------------------------------------------------------------|
//! | turn_want:A  | BUSY and WANTED, fetch_or | Release | what there is to do comes before; pairs with turn_begin:A (inv. 2). Always a read-modify-write, also where nothing changes: a load could miss a `begin` that has been. Not Acquire: the queue hands the task on |
//! | turn_begin:A | WANTED off, fetch_and | Acquire | the run sees what was wanted; the `want`s before it form one release sequence |
//! | turn_end:A   | BUSY off, CAS      | Release | what the run did comes before the next one's: its queuer's `want` is a read-modify-write of this store, and carries it on to turn_begin:A |
//! | turn_end:B   | CAS, lost          | Relaxed | it is queued again, and then begun                                         |
//! | turn_idle:A  | load               | Relaxed | a hint: who acts on it takes the task's lock                               |
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::explore;

const BUSY: u8 = 1;
const WANTED: u8 = 2;

/// See the module.
#[derive(Debug, Default)]
pub struct TurnWord(AtomicU8);

impl TurnWord {
    /// An idle one.
    pub fn new() -> Self {
        TurnWord(AtomicU8::new(0))
    }

    /// There is something to do. True: the caller has to queue it.
    #[inline]
    #[must_use]
    pub fn want(&self) -> bool {
        explore();
        // ORD(turn_want:A) Release: what there is to do. Pairs with ORD(turn_begin:A).
        self.0.fetch_or(BUSY | WANTED, Ordering::Release) & BUSY == 0
    }

    /// It was taken off a queue, and is run.
    #[inline]
    pub fn begin(&self) {
        explore();
        // ORD(turn_begin:A) Acquire: what is to be done. Pairs with ORD(turn_want:A) and, through it, ORD(turn_end:A).
        self.0.fetch_and(!WANTED, Ordering::Acquire);
    }

    /// The run is over. True: something came meanwhile, and the caller has to queue it.
    #[inline]
    #[must_use]
    pub fn end(&self) -> bool {
        explore();
        // ORD(turn_end:A) Release: what the run did. Pairs with ORD(turn_begin:A).
        // ORD(turn_end:B) Relaxed: whoever begins it anew sees what came.
        self.0.compare_exchange(BUSY, 0, Ordering::Release, Ordering::Relaxed).is_err()
    }

    /// Whether it is in no queue and nobody runs it. May have changed.
    #[inline]
    pub fn is_idle(&self) -> bool {
        // ORD(turn_idle:A) Relaxed: a hint.
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::TurnWord;

    // C-30
    #[test]
    fn inv1_it_is_queued_once_until_it_has_been_idle() {
        let word = TurnWord::new();
        assert!(word.is_idle());
        assert!(word.want() && !word.want());
        word.begin();
        assert!(!word.is_idle() && !word.end() && word.is_idle());
        assert!(word.want());
        word.begin();
        assert!(!word.want(), "who runs it queues it");
        assert!(word.end() && !word.is_idle());
        word.begin();
        assert!(!word.end());
    }
}
