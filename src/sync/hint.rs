//! Processor hints: prefetching, the cycle counter, and the asymmetric barrier pair.

pub use super::barrier::{barrier_is_asymmetric, heavy_barrier, light_barrier};

/// The processor's own counter, for pacing only: never goes with the clock, may differ between cores, may stand still in
/// a virtual machine that is moved. Elsewhere than on x86-64, nanoseconds since the first call.
#[inline(always)]
pub fn cycle_counter() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: RDTSC reads a register and is part of every x86-64 processor.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let since = FIRST.get_or_init(std::time::Instant::now).elapsed().as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }
}
