//! The asymmetric barrier: a store, then a load, that the processor must not swap, paid for by the side that can afford it.
//!
//! ```text
//!        often: a publisher                          rarely: whoever parks, or seals
//!        ------------------                          -------------------------------
//!    A   store  "there is a record"             C    store  "I sleep"
//!        light_barrier()                             heavy_barrier()
//!    B   load   "does anybody sleep?"           D    load   "is there a record?"
//! ```
//!
//! The pair promises that not both loads miss the other side's store: B sees C, or D sees A. With fences on both sides
//! that is the textbook store-buffer case. On Linux the light side is a compiler fence only and the heavy side is
//! `membarrier(PRIVATE_EXPEDITED)`, which makes every running thread of the process pass a full barrier:
//! wherever the publisher stands, either its store A comes before that barrier, and D sees it, or B comes after it, and
//! sees C. A thread that is not running passed a barrier when it was switched out.
//!
//! No checker sees `membarrier`; `tests/litmus.rs` tries the pair on the real machine, beside a twin without it that must
//! be seen to fail. Models, Miri, other systems, kernels that refuse, and `--cfg ringlog_fence_only` use fences on both
//! sides.
//!
//! # Which of the two                 `MODE`, one word for the process, read by every light barrier
//!
//! | from    | to         | by                                                                                    |
//! |---------|------------|---------------------------------------------------------------------------------------|
//! | UNKNOWN | ASYMMETRIC | the first barrier of either kind, where the kernel knows the call and registers us     |
//! | UNKNOWN | FENCES     | the same, where it does not                                                            |
//! | ASYMMETRIC | FENCES  | a heavy barrier whose call failed twice in spite of the registration                   |
//!
//! A light barrier that still reads UNKNOWN or FENCES executes the full fence, which is right beside either heavy side.
//! The last row is the only step towards weaker company: a publisher that read ASYMMETRIC just before it has at most one
//! store in flight. No kernel on record takes it; the heavy side then also gives up the processor once, which drains it.
//!
//! # Orderings
//!
//! | label   | operation          | order   | why this much, and why no more                                            |
//! |---------|--------------------|---------|---------------------------------------------------------------------------|
//! | light:A | `fence`            | SeqCst  | a store before a load; pairs with heavy:A                                 |
//! | heavy:A | `fence`            | SeqCst  | the same on the other side; pairs with light:A                            |
//! | mode:A  | `MODE.load`        | Relaxed | the word says which instruction to use and carries nothing; see above     |
//! | mode:B  | `MODE.store`       | Relaxed | the same                                                                  |
//! | light:B | `compiler_fence`   | SeqCst  | keeps the compiler from swapping the two; the processor is kept by membarrier |
#![forbid(unsafe_code)]

use crate::sync::atomic::{Ordering, fence};

/// The publisher's side: between the store that publishes and the load that looks for sleepers.
#[inline(always)]
pub fn light_barrier() {
    #[cfg(all(target_os = "linux", not(any(ringlog_loom, miri, ringlog_fence_only))))]
    if kernel::is_known_asymmetric() {
        // ORD(light:B) SeqCst: the compiler only; see the table.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        return;
    }
    light_fence();
}

/// Where fences serve, or nobody knows yet.
#[cfg_attr(all(target_os = "linux", not(any(ringlog_loom, miri, ringlog_fence_only))), cold, inline(never))]
fn light_fence() {
    let _ = barrier_is_asymmetric();
    // ORD(light:A) SeqCst: the caller's store before its load. Pairs with ORD(heavy:A).
    fence(Ordering::SeqCst);
}

/// The sleeper's (or sealer's) side: between the store that announces it and the second look.
pub fn heavy_barrier() {
    #[cfg(all(target_os = "linux", not(any(ringlog_loom, miri, ringlog_fence_only))))]
    if kernel::barrier_everywhere() {
        return;
    }
    // ORD(heavy:A) SeqCst: the caller's store before its load. Pairs with ORD(light:A).
    fence(Ordering::SeqCst);
}

/// Whether the light side costs no fence here. Asks the kernel on the first call.
pub fn barrier_is_asymmetric() -> bool {
    #[cfg(all(target_os = "linux", not(any(ringlog_loom, miri, ringlog_fence_only))))]
    return kernel::is_asymmetric();
    #[cfg(not(all(target_os = "linux", not(any(ringlog_loom, miri, ringlog_fence_only)))))]
    return false;
}

#[cfg(all(target_os = "linux", not(any(ringlog_loom, miri, ringlog_fence_only))))]
mod kernel {
    use crate::sync::atomic::{AtomicU8, Ordering};
    use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

    const UNKNOWN: u8 = 0;
    const ASYMMETRIC: u8 = 1;
    const FENCES: u8 = 2;
    static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline(always)]
    fn mode() -> u8 {
        // ORD(mode:A) Relaxed: says which instruction to use, carries nothing.
        MODE.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn is_known_asymmetric() -> bool {
        mode() == ASYMMETRIC
    }

    pub(super) fn is_asymmetric() -> bool {
        match mode() {
            ASYMMETRIC => true,
            FENCES => false,
            _ => probe(),
        }
    }

    /// Asks the kernel and registers the process. Racing callers ask twice and hear the same.
    #[cold]
    #[inline(never)]
    fn probe() -> bool {
        let known = membarrier_query();
        let able = known.contains_command(MembarrierCommand::PrivateExpedited)
            && known.contains_command(MembarrierCommand::RegisterPrivateExpedited)
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
            && membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        // ORD(mode:B) Relaxed: as above.
        MODE.store(if able { ASYMMETRIC } else { FENCES }, Ordering::Relaxed);
        able
    }

    /// A full barrier on every running thread of the process, this one included; false where fences serve instead.
    pub(super) fn barrier_everywhere() -> bool {
        is_asymmetric() && (membarrier(MembarrierCommand::PrivateExpedited).is_ok() || insist())
    }

    #[cold]
    #[inline(never)]
    fn insist() -> bool {
        if probe() {
            return true;
        }
        std::thread::yield_now(); // the header's last row
        false
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{barrier_is_asymmetric, heavy_barrier, light_barrier};

    #[test]
    fn both_sides_can_be_called_in_any_order() {
        light_barrier();
        heavy_barrier();
        light_barrier();
        assert_eq!(barrier_is_asymmetric(), barrier_is_asymmetric());
    }
}
