//! Where chance comes from.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// A source of random numbers, injected like the clock so that a test can repeat what it saw. Not for secrets.
pub trait Random: Send + Sync + fmt::Debug + 'static {
    /// The next number; each is equally likely.
    fn next_u64(&self) -> u64;
}

/// SplitMix64 (Steele, Lea and Flood 2014): the same seed gives the same numbers on every machine, in the order in which they
/// are asked for.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Numbers that are others in each process and for each source.
    pub fn unseeded() -> Self {
        Self::new(RandomState::new().hash_one(0_u8))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        // ORD(next_u64:A) Relaxed: wants different numbers only, publishes nothing.
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Random, SeededRandom};

    #[test]
    fn the_sequence_is_the_published_one() {
        let random = SeededRandom::new(1_234_567);
        assert_eq!([random.next_u64(), random.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }
}
