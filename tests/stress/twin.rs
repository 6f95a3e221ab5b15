//! A hand-over that is broken on purpose: the flag is stored without Release. If a sanitizer run is quiet about this
//! one, its quiet about the ring means nothing.
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

struct Slot {
    mark: AtomicU64,
    taken: AtomicU64,
    value: UnsafeCell<String>,
}

// SAFETY: it is not; this is the bug. The value is handed over by `mark` and `taken`, which order nothing.
unsafe impl Sync for Slot {}

/// Hands strings from one thread to another through a slot whose mark is Relaxed.
pub(crate) fn relaxed_publish() {
    let slot = Slot { mark: AtomicU64::new(0), taken: AtomicU64::new(0), value: UnsafeCell::new(String::new()) };
    let slot = Arc::new(slot);
    let writer = {
        let slot = slot.clone();
        thread::spawn(move || {
            for n in 1..=1_000 {
                while slot.taken.load(Ordering::Acquire) + 1 != n {
                    thread::yield_now();
                }
                // SAFETY: the reader is done with the last value; it released `taken`.
                unsafe { *slot.value.get() = n.to_string() };
                slot.mark.store(n, Ordering::Relaxed);
            }
        })
    };
    let mut length = 0;
    for n in 1..=1_000 {
        while slot.mark.load(Ordering::Acquire) != n {
            thread::yield_now();
        }
        // SAFETY: not so: `mark` was not released, so this races with the writer. That is what must be reported.
        let value: &String = unsafe { &*slot.value.get() };
        length += value.len();
        slot.taken.store(n, Ordering::Release);
    }
    writer.join().expect("the writer ends");
    println!("twin: handed over {length} bytes, unseen by anyone");
}
