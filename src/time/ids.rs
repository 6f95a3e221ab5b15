//! Where generated names come from.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use std::fmt;

/// A source of ids, injected like the clock so that tests can name what they will see.
pub trait Ids: Send + Sync + fmt::Debug + 'static {
    /// The next id. Never the same twice.
    fn next_id(&self) -> String;
}

/// `s1`, `s2`, `s3` and so on, for any prefix.
#[derive(Debug)]
pub struct SequentialIds {
    prefix: String,
    last: AtomicU64,
}

impl SequentialIds {
    /// Ids that begin with `prefix`.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), last: AtomicU64::new(0) }
    }
}

impl Ids for SequentialIds {
    fn next_id(&self) -> String {
        // ORD(next_id:A) Relaxed: wants uniqueness only, publishes nothing.
        let last = self.last.fetch_add(1, Ordering::Relaxed);
        format!("{}{}", self.prefix, last + 1)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Ids, SequentialIds};

    // A-16, C-21
    #[test]
    fn ids_count_from_one_behind_their_prefix() {
        let ids = SequentialIds::new("s");
        assert_eq!([ids.next_id(), ids.next_id()], ["s1", "s2"]);
    }
}
