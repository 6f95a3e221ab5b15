//! What few of many have: made when somebody first wants to change it, two words until then.
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

/// A value that is the default one until somebody asks for it. Who only wants to look asks [`get`](Self::get).
pub struct Rare<T>(OnceLock<Box<T>>);

impl<T> Rare<T> {
    /// It, if anybody ever asked for it.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get().map(|made| &**made)
    }
}

impl<T: Default> Deref for Rare<T> {
    type Target = T;

    /// It; made now, if nobody asked for it before.
    fn deref(&self) -> &T {
        self.0.get_or_init(Box::default)
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: fmt::Debug> fmt::Debug for Rare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Rare;
    use std::cell::Cell;

    #[test]
    fn it_is_made_when_it_is_asked_for_and_not_when_it_is_looked_at() {
        let rare: Rare<Cell<u8>> = Rare::default();
        assert!(rare.get().is_none());
        rare.set(3);
        assert_eq!((rare.get().map(Cell::get), size_of::<Rare<[u64; 30]>>()), (Some(3), 16));
    }
}
