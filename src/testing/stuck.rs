//! A handler that hangs until the test lets it go.
#![forbid(unsafe_code)]

use super::board::{Board, TooFew};
use crate::group::Record;
use crate::sync::Arc;
use std::time::Duration;

#[derive(Debug, Default)]
struct State {
    entered: usize,
    left: usize,
    /// How many calls may return, all in all.
    released: usize,
    open: bool,
}

/// Its handlers block in every call until the test releases them. Dropping it opens it for good, so that a test that
/// fails leaves no thread behind.
///
/// For real threads: on the [`Manual`](crate::Manual) executor a handler that blocks is the test's own thread.
///
/// ```
/// use ringlog::testing::Stuck;
/// use ringlog::{Broker, GroupConfig, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let ticks = broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(1).block(Some(Duration::ZERO)))?;
/// let stuck = Stuck::new();
/// ticks.group("slow", GroupConfig::earliest())?.subscribe("slow-1", stuck.handler())?;
/// ticks.publish(1)?;
/// stuck.wait_until_in(1, Duration::from_secs(5))?; // it has the record in hand
/// assert!(ticks.publish(2).is_err(), "the only slot is taken");
/// stuck.release(1);
/// broker.drain(Duration::from_secs(5))?;
/// ticks.publish(3)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Stuck(Arc<Board<State>>);

impl Stuck {
    /// One that holds every call.
    pub fn new() -> Self {
        Self(Arc::new(Board::default()))
    }

    /// A handler that blocks until it is released, and then acknowledges.
    pub fn handler<T: 'static>(&self) -> impl FnMut(&Record<'_, T>) + Clone + Send + 'static + use<T> {
        let board = self.0.clone();
        move |_: &Record<'_, T>| {
            board.change(|state| state.entered += 1);
            board.wait_until(|state| {
                let go = state.open || state.left < state.released;
                state.left += usize::from(go);
                go
            });
        }
    }

    /// Sleeps until handlers were called at least `calls` times.
    ///
    /// # Errors
    ///
    /// There were fewer calls within `limit` of real time; says how many.
    pub fn wait_until_in(&self, calls: usize, limit: Duration) -> Result<(), TooFew> {
        self.0.wait_for("calls", calls, limit, |state| state.entered)
    }

    /// Lets so many calls return, those that are still to come included.
    pub fn release(&self, calls: usize) {
        self.0.change(|state| state.released = state.released.saturating_add(calls));
    }

    /// Lets every call return, now and from now on.
    pub fn open(&self) {
        self.0.change(|state| state.open = true);
    }

    /// How many calls are blocked at this moment.
    pub fn inside(&self) -> usize {
        self.0.read(|state| state.entered - state.left)
    }

    /// How many calls there were.
    pub fn entered(&self) -> usize {
        self.0.read(|state| state.entered)
    }
}

impl Default for Stuck {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.open();
    }
}
