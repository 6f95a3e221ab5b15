//! What a handler writes and a test reads, and waits for.
#![forbid(unsafe_code)]

use crate::sync::{Condvar, Mutex, lock};
use std::time::Duration;

/// Less happened in time than a test waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("waited {waited:?} for {wanted} {}, but there were {came}", one_or_many(*wanted, what))]
#[non_exhaustive]
pub struct TooFew {
    /// What was waited for.
    pub what: &'static str,
    /// How many.
    pub wanted: usize,
    /// How many there were when the time was up.
    pub came: usize,
    /// How long was waited, in real time.
    pub waited: Duration,
}

/// "calls", or "call" where it is one.
fn one_or_many(n: usize, what: &str) -> &str {
    if n == 1 { what.strip_suffix('s').unwrap_or(what) } else { what }
}

/// A value under a lock, and who waits for it to change. No code of a user's runs under it.
#[derive(Debug, Default)]
pub(super) struct Board<S> {
    state: Mutex<S>,
    changed: Condvar,
}

impl<S> Board<S> {
    pub(super) fn change<R>(&self, by: impl FnOnce(&mut S) -> R) -> R {
        let result = by(&mut lock(&self.state));
        self.changed.notify_all();
        result
    }

    pub(super) fn read<R>(&self, what: impl FnOnce(&S) -> R) -> R {
        what(&lock(&self.state))
    }

    /// Sleeps until `count` says at least `wanted`, or `limit` of real time is over.
    pub(super) fn wait_for(
        &self,
        what: &'static str,
        wanted: usize,
        limit: Duration,
        count: impl Fn(&S) -> usize,
    ) -> Result<(), TooFew> {
        let few = |state: &mut S| count(state) < wanted;
        let (state, _) = self
            .changed
            .wait_timeout_while(lock(&self.state), limit, few)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let came = count(&state);
        if came < wanted { Err(TooFew { what, wanted, came, waited: limit }) } else { Ok(()) }
    }

    /// Sleeps until `done`.
    pub(super) fn wait_until(&self, done: impl Fn(&mut S) -> bool) {
        let mut state = lock(&self.state);
        while !done(&mut state) {
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}
