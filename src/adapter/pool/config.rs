//! How large a pool is.
#![forbid(unsafe_code)]

use super::crew::Size;
use crate::sync::processors;

/// A pool was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// It would have nobody to work, or nobody to stand by.
    #[error("pool {name} of {threads} threads at work and {most} in all: at least 1, and one more in all")]
    Size {
        /// The pool.
        name: String,
        /// How many were to work at once.
        threads: usize,
        /// How many there were to be in all.
        most: usize,
    },
}

/// How many threads a pool has, and what they are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    pub(super) name: String,
    threads: usize,
    most: Option<usize>,
}

impl PoolConfig {
    /// One thread less than there are processors, at least one, named `ringlog-pool`; 64 more where handlers block.
    pub fn new() -> Self {
        let threads = processors().saturating_sub(1).max(1);
        PoolConfig { name: "ringlog-pool".to_owned(), threads, most: None }
    }

    /// The threads' name. Linux shows its first 15 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().replace('\0', " ");
        self
    }

    /// How many handlers run at once, those not counted that have not returned for long. At least 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How many threads there are at most: more than [`threads`](Self::threads). If it is not said, 64 more.
    pub fn most(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }

    pub(super) fn size(&self) -> Size {
        let most = self.most.unwrap_or_else(|| self.threads.saturating_add(64));
        Size { threads: self.threads, most }
    }

    pub(super) fn check(self) -> Result<Self, PoolError> {
        let Size { threads, most } = self.size();
        if threads == 0 || most <= threads {
            return Err(PoolError::Size { name: self.name, threads, most });
        }
        Ok(self)
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self::new()
    }
}
