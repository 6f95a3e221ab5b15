//! A generator good enough for dice, for tests that try what is not thought of: a seed is one game.
#![allow(dead_code, reason = "each test that includes this uses a part of it")]

#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub(crate) fn pick<V: Copy>(&mut self, from: &[V]) -> V {
        from[self.roll(from.len() as u64) as usize]
    }

    /// Others, for another thread.
    pub(crate) fn fork(&mut self) -> Self {
        Dice::new(self.roll(1 << 40))
    }
}
