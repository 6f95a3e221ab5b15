//! A handler that fails as planned.
#![forbid(unsafe_code)]

use super::board::Board;
use super::recorder::Recorder;
use crate::group::{Position, Record};
use crate::sync::Arc;
use std::collections::HashMap;
use std::fmt;

/// Why a [`Flaky`] handler failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Planned {
    /// It fails so often for every record.
    #[error("planned failure {call} of {of}")]
    Passing {
        /// Which call for this record it was, from 1.
        call: u32,
        /// How many fail.
        of: u32,
    },
    /// It always fails for this record.
    #[error("poison, call {call}")]
    Poison {
        /// Which call for this record it was, from 1.
        call: u32,
    },
}

/// How often each record was tried, by topic and position.
type Calls = HashMap<(Arc<str>, Position), u32>;

type IsPoison<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

/// Fails the first calls for each record, and always for a poison record; what it accepts it records. Clones are the same
/// one.
///
/// Calls are counted by position, across members and replays: a record that was accepted once is accepted again.
///
/// ```
/// use ringlog::testing::{Flaky, Lab};
/// use ringlog::{GroupConfig, TopicConfig};
///
/// let lab = Lab::new(7);
/// let orders = lab.broker().create_topic("orders", TopicConfig::<&str>::new())?;
/// let shipping = orders.group("shipping", GroupConfig::earliest())?; // three attempts
/// let flaky = Flaky::failing(1).poison(|order: &&str| order.ends_with("cancelled"));
/// shipping.member("shipping-1").run(lab.manual()).subscribe(flaky.handler())?;
/// orders.publish_batch(["alice:paid", "bob:cancelled"])?;
/// lab.finish();
/// assert_eq!(flaky.accepted().values(), ["alice:paid"]);
/// assert_eq!(flaky.attempts(|order| order.starts_with("bob")), 3);
/// assert_eq!(shipping.letters()[0].message(), "poison, call 3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Flaky<T> {
    fails: u32,
    poison: Option<IsPoison<T>>,
    calls: Arc<Board<Calls>>,
    tried: Recorder<T>,
    accepted: Recorder<T>,
}

impl<T: Clone + Send + Sync + 'static> Flaky<T> {
    /// Fails the first `times` calls for each record; with 0, only for poison.
    pub fn failing(times: u32) -> Self {
        let calls = Arc::new(Board::default());
        Self { fails: times, poison: None, calls, tried: Recorder::new(), accepted: Recorder::new() }
    }

    /// Fails always for records of which `is_poison` is true.
    #[must_use]
    pub fn poison(mut self, is_poison: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.poison = Some(Arc::new(is_poison));
        self
    }

    /// The handler.
    pub fn handler(&self) -> impl FnMut(&Record<'_, T>) -> Result<(), Planned> + Clone + Send + 'static + use<T> {
        let flaky = self.clone();
        move |record: &Record<'_, T>| flaky.call(record)
    }

    /// What was accepted.
    pub fn accepted(&self) -> &Recorder<T> {
        &self.accepted
    }

    /// Every call, those that failed included.
    pub fn tried(&self) -> &Recorder<T> {
        &self.tried
    }

    /// How many calls there were for records of which `which` is true.
    pub fn attempts(&self, which: impl Fn(&T) -> bool) -> usize {
        self.tried.seen().iter().filter(|seen| which(&seen.value)).count()
    }

    fn call(&self, record: &Record<'_, T>) -> Result<(), Planned> {
        self.tried.note(record);
        let key = (record.topic().into(), record.position());
        let call = self.calls.change(|calls| {
            let call = calls.entry(key).or_default();
            *call += 1;
            *call
        });
        if self.poison.as_ref().is_some_and(|is_poison| is_poison(record)) {
            return Err(Planned::Poison { call });
        }
        if call <= self.fails {
            return Err(Planned::Passing { call, of: self.fails });
        }
        self.accepted.note(record);
        Ok(())
    }
}

impl<T> Clone for Flaky<T> {
    fn clone(&self) -> Self {
        Self {
            fails: self.fails,
            poison: self.poison.clone(),
            calls: self.calls.clone(),
            tried: self.tried.clone(),
            accepted: self.accepted.clone(),
        }
    }
}

impl<T> fmt::Debug for Flaky<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flaky(fails {} times, tried {:?}, accepted {:?})", self.fails, self.tried, self.accepted)
    }
}
