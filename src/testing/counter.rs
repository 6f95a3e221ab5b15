//! A handler that counts.
#![forbid(unsafe_code)]

use super::board::{Board, TooFew};
use crate::group::Record;
use crate::sync::Arc;
use std::time::Duration;

/// Counts the calls of its handlers; for records that cannot be cloned, or are too many to be kept. Clones are the same one.
///
/// ```
/// use ringlog::testing::Counter;
/// use ringlog::{Broker, GroupConfig, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let ticks = broker.create_topic("ticks", TopicConfig::<u64>::new())?;
/// let counter = Counter::new();
/// ticks.group("screen", GroupConfig::earliest())?.subscribe("screen-1", counter.handler())?;
/// ticks.publish_batch(0..1_000)?;
/// counter.wait_for(1_000, Duration::from_secs(5))?;
/// assert_eq!(counter.count(), 1_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<Board<usize>>);

impl Counter {
    /// One that stands at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handler that counts, and acknowledges.
    pub fn handler<T: 'static>(&self) -> impl FnMut(&Record<'_, T>) + Clone + Send + 'static + use<T> {
        let board = self.0.clone();
        move |_: &Record<'_, T>| board.change(|count| *count += 1)
    }

    /// How many calls there were.
    pub fn count(&self) -> usize {
        self.0.read(|count| *count)
    }

    /// Sleeps until there were at least `calls` calls.
    ///
    /// # Errors
    ///
    /// There were fewer within `limit` of real time; says how many.
    pub fn wait_for(&self, calls: usize, limit: Duration) -> Result<(), TooFew> {
        self.0.wait_for("calls", calls, limit, |count| *count)
    }
}
