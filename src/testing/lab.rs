//! A broker that does nothing by itself.
#![forbid(unsafe_code)]

use crate::adapter::Manual;
use crate::broker::{Broker, BrokerConfig};
use crate::sync::Arc;
use crate::time::{ManualClock, SequentialIds};
use std::time::Duration;

/// A broker on a manual clock, with sequential ids and a manual executor. Members join it by `.run(lab.manual())`.
///
/// ```
/// use ringlog::testing::{Lab, Recorder};
/// use ringlog::{GroupConfig, TopicConfig};
///
/// let lab = Lab::new(3);
/// let orders = lab.broker().create_topic("orders", TopicConfig::<u64>::new())?;
/// let group = orders.group("billing", GroupConfig::earliest())?;
/// let name = lab.broker().next_id(); // m1, m2 and so on
/// let seen = Recorder::new();
/// group.member(&name).run(lab.manual()).subscribe(seen.handler())?;
/// orders.publish(1)?;
/// assert!(seen.is_empty(), "nothing happens by itself");
/// lab.settle();
/// assert_eq!((name.as_str(), seen.values()), ("m1", vec![1]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lab {
    clock: Arc<ManualClock>,
    broker: Broker,
    manual: Manual,
}

/// After so many steps nobody believes any more that lanes will come to rest.
const STEPS_MAX: usize = 1_000_000;

impl Lab {
    /// A new broker; which lane is stepped when follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        let config = BrokerConfig::new().clock(clock.clone()).ids(Arc::new(SequentialIds::new("m")));
        Self { clock, broker: Broker::with(config), manual: Manual::new(seed) }
    }

    /// The broker.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The executor, for [`NewMember::run`](crate::NewMember::run), single steps, faults and the trace.
    pub fn manual(&self) -> &Manual {
        &self.manual
    }

    /// The clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Steps until every lane sleeps; backoffs stay what they are.
    ///
    /// # Panics
    ///
    /// If lanes are still at work after a million steps, or one sleeps though it has something to do and nobody will call
    /// it: a lost wake-up.
    #[track_caller]
    pub fn settle(&self) {
        let steps = self.manual.run(STEPS_MAX);
        assert!(steps < STEPS_MAX, "still at work after {STEPS_MAX} steps");
        let stranded = self.manual.stranded();
        assert!(stranded.is_empty(), "lost wake-ups: {stranded:?}");
    }

    /// Settles, and moves the clock to the end of each backoff until none is left.
    ///
    /// # Panics
    ///
    /// As [`settle`](Self::settle).
    #[track_caller]
    pub fn finish(&self) {
        self.settle();
        while let Some(due) = self.manual.next_due() {
            self.clock.set(due);
            self.settle();
        }
    }

    /// Moves the clock on, and settles.
    ///
    /// # Panics
    ///
    /// As [`settle`](Self::settle).
    #[track_caller]
    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.settle();
    }
}
