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

/// Asks for the cache line at `line`, to write to it soon. Only a hint: any address is harmless.
#[inline(always)]
pub fn prefetch_write<T>(line: *const T) {
    #[cfg(all(target_arch = "x86_64", not(ringlog_loom), not(miri)))]
    // SAFETY: prefetchw changes no memory, register or flag, and ignores addresses that are not mapped.
    unsafe {
        core::arch::asm!("prefetchw [{0}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(ringlog_loom), not(miri))))]
    let _ = line;
}
