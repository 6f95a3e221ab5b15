//! The settings of a group.
#![forbid(unsafe_code)]

use super::letters::Bury;
use super::outcome::Failure;
use super::retry::Retry;
use crate::sync::Arc;
use std::any::Any;
use std::fmt;

/// A setting with an impossible value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, but must be {bound}")]
pub struct ConfigError {
    /// Which setting.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is allowed.
    pub bound: &'static str,
}

impl ConfigError {
    /// A refusal of `value` for `field`.
    pub fn new(field: &'static str, value: impl Into<String>, bound: &'static str) -> Self {
        ConfigError { field, value: value.into(), bound }
    }
}

/// Where a new group begins to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the earliest record that is still retained.
    Earliest,
    /// Behind the last record: only what is published from now on.
    Latest,
    /// At this offset in every partition, or the nearest one that exists.
    Offset(u64),
}

/// Where a seek goes; it lands in `[earliest, end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// The earliest retained record.
    Earliest,
    /// Behind the last record.
    Latest,
    /// This offset, or the nearest one that exists.
    Offset(u64),
}

/// The settings of a group over a topic of `T`. Made by [`earliest`](Self::earliest), [`latest`](Self::latest) or
/// [`at`](Self::at): where a new group starts must be said.
pub struct GroupConfig<T> {
    pub(super) start: StartAt,
    pub(super) retry: Retry,
    pub(super) letters: usize,
    pub(super) bury: Bury<T>,
}

/// Letters kept by default.
pub const LETTERS: usize = 1_024;
/// Letters kept at most.
const LETTERS_MAX: usize = 1 << 30;

impl<T> GroupConfig<T> {
    /// A group that starts where `start` says, with the default retry and 1,024 letters of facts only.
    pub fn new(start: StartAt) -> Self {
        GroupConfig { start, retry: Retry::default(), letters: LETTERS, bury: Bury::Facts }
    }

    /// Starts at the earliest retained record.
    pub fn earliest() -> Self {
        Self::new(StartAt::Earliest)
    }

    /// Starts behind the last record.
    pub fn latest() -> Self {
        Self::new(StartAt::Latest)
    }

    /// Starts at `offset` in every partition.
    pub fn at(offset: u64) -> Self {
        Self::new(StartAt::Offset(offset))
    }

    /// Attempts and backoff.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How many letters are kept; the oldest goes first and is counted. With 0, burying only counts.
    pub fn letters(mut self, capacity: usize) -> Self {
        self.letters = capacity;
        self
    }

    /// A letter keeps a clone of its record. A clone that panics leaves the letter without one.
    pub fn bury_cloned(mut self) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.bury = Bury::Cloned(Arc::new(|value: &T, _| Some(Arc::new(value.clone()) as Arc<dyn Any + Send + Sync>)));
        self
    }

    /// A letter keeps what `make` returns; if it panics, nothing.
    pub fn bury_with<D: Send + Sync + 'static>(
        mut self,
        make: impl Fn(&T, &Failure) -> D + Send + Sync + 'static,
    ) -> Self {
        self.bury = Bury::With(Arc::new(move |value, failure| Some(Arc::new(make(value, failure)) as _)));
        self
    }

    /// Checks every setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.retry.validate()?;
        if self.letters > LETTERS_MAX {
            return Err(ConfigError::new("letters", self.letters.to_string(), "at most 2^30"));
        }
        Ok(())
    }

    /// The first setting in which `other` differs; functions are equal when they are the same one.
    pub fn differs_in(&self, other: &Self) -> Option<&'static str> {
        if self.start != other.start {
            Some("start")
        } else if self.retry != other.retry {
            Some("retry")
        } else if self.letters != other.letters {
            Some("letters")
        } else if !self.bury.same(&other.bury) {
            Some("bury")
        } else {
            None
        }
    }

    /// Where a new group starts.
    pub fn start(&self) -> StartAt {
        self.start
    }
}

impl<T> Clone for GroupConfig<T> {
    fn clone(&self) -> Self {
        GroupConfig { start: self.start, retry: self.retry.clone(), letters: self.letters, bury: self.bury.clone() }
    }
}

impl<T> fmt::Debug for GroupConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupConfig")
            .field("start", &self.start)
            .field("retry", &self.retry)
            .field("letters", &self.letters)
            .field("bury", &self.bury)
            .finish()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{GroupConfig, StartAt};
    use crate::group::Retry;

    #[test]
    fn equal_settings_are_equal_and_a_difference_is_named() {
        let base = || GroupConfig::<String>::earliest();
        assert_eq!(base().differs_in(&base()), None);
        assert_eq!(base().differs_in(&GroupConfig::new(StartAt::Offset(3))), Some("start"));
        assert_eq!(base().differs_in(&base().retry(Retry::never())), Some("retry"));
        assert_eq!(base().differs_in(&base().letters(1)), Some("letters"));
        assert_eq!(base().differs_in(&base().bury_cloned()), Some("bury"));
        assert_eq!(base().bury_cloned().differs_in(&base().bury_cloned()), None);
        let with = base().bury_with(|value, _| value.len());
        assert_eq!(with.differs_in(&with.clone()), None);
    }
}
