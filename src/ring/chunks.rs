//! A list that only grows and never moves what it holds, so that it can be read while it grows.
#![forbid(unsafe_code)]

use crate::sync::rare::Rare;
use std::sync::OnceLock;

/// Loom does not see that a `OnceLock` orders what is made in it: there the first chunk is made before there are threads, and
/// has to do.
const FIRST: usize = if cfg!(ringlog_loom) { 8 } else { 1 };
const MORE: usize = 26;

type Chunk<V> = OnceLock<Box<[V]>>;

/// Up to 2^27 values less one, made as they are needed, in chunks of 1, 2, 4, ..; an index never changes its meaning. Few rings
/// have more than one.
#[derive(Debug)]
pub(super) struct Chunks<V> {
    first: Chunk<V>,
    more: Rare<[Chunk<V>; MORE]>,
}

impl<V: Default> Chunks<V> {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        let chunks = Self { first: OnceLock::new(), more: Rare::default() };
        if cfg!(ringlog_loom) {
            chunks.make(0);
        }
        chunks
    }

    /// Which chunk holds value `index`, and where in it.
    fn place(index: usize) -> (usize, usize) {
        let chunk = (index / FIRST + 1).ilog2() as usize;
        (chunk, index - FIRST * ((1 << chunk) - 1))
    }

    /// The value at `index`, if its chunk has been made.
    pub(super) fn get(&self, index: usize) -> Option<&V> {
        let (chunk, at) = Self::place(index);
        let chunk = if chunk == 0 { &self.first } else { self.more.get()?.get(chunk - 1)? };
        chunk.get()?.get(at)
    }

    /// The value at `index`, made if need be.
    ///
    /// # Panics
    /// When `index` is 2^27 - 1 or more.
    pub(super) fn make(&self, index: usize) -> &V {
        let (chunk, at) = Self::place(index);
        let values = if chunk == 0 { &self.first } else { &self.more[chunk - 1] };
        &values.get_or_init(|| (0..FIRST << chunk).map(|_| V::default()).collect())[at]
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Chunks;

    #[test]
    fn every_index_has_its_own_place() {
        let mut last = (0, usize::MAX);
        for index in 0..if cfg!(miri) { 200 } else { 10_000 } {
            let (chunk, at) = Chunks::<u8>::place(index);
            assert!(at < super::FIRST << chunk);
            assert!(
                (chunk, at) == (last.0, last.1.wrapping_add(1)) || (chunk, at) == (last.0 + 1, 0),
                "{index}: {last:?} then {chunk} {at}"
            );
            last = (chunk, at);
        }
    }

    #[test]
    fn what_was_not_made_is_absent() {
        let chunks = Chunks::<std::sync::atomic::AtomicU32>::new();
        assert!(chunks.get(0).is_none() && chunks.get(usize::MAX / 2).is_none());
        chunks.make(20).store(7, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(chunks.get(20).unwrap().load(std::sync::atomic::Ordering::Relaxed), 7);
        assert!(chunks.get(0).is_none() && chunks.get(14).is_none() && chunks.get(15).is_some());
    }
}
