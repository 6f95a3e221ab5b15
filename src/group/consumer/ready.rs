//! Whether a poll would find something: for those who wait elsewhere, on another event loop or for several consumers at once.
//!
//! Both register first and look then. What may change the answer either notifies the log's event (records came, the log
//! closed) or rings the consumer's bell (a lane is its own now, goes on, was handed back, or is over), which is an event as
//! well. What comes by time alone (a lease that ends, a pause before another attempt) is told to the caller, who has a clock.
#![forbid(unsafe_code)]

use super::Consumer;
use super::poll::is_out;
use crate::group::contain::contain;
use crate::sync::Arc;
use crate::time::{Clock, Time};
use crate::wait::Event;
use std::fmt;
use std::task::Waker;
use std::time::Duration;

/// What [`Consumer::poll_ready`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Readiness {
    /// A poll would find something now: records, or that no more will come. No waker is registered.
    Ready,
    /// It would not, and the waker is registered.
    Waiting {
        /// Ask again after so long, also if nobody has woken you: then a lease ends, or a pause before another attempt. `None`:
        /// there is nothing of that kind.
        at_most: Option<Duration>,
    },
}

mod sealed {
    /// Nobody outside has one.
    pub trait Sealed {}

    impl<T: Send + Sync + 'static> Sealed for super::Consumer<T> {}
}

/// What a [`Select`](crate::Select) can wait for: a [`Consumer`], whatever its records are. Nothing else can be one.
pub trait Pollable: sealed::Sealed + fmt::Debug {
    /// Whether a poll would find something now; else after how long at the latest it may.
    #[doc(hidden)]
    fn readiness(&self) -> Result<(), Option<Duration>>;
    /// What may change the answer; which those are, changes as well.
    #[doc(hidden)]
    fn events<'a>(&'a self, into: &mut Vec<&'a Event>);
    #[doc(hidden)]
    fn clock(&self) -> &Arc<dyn Clock>;
}

impl<T: Send + Sync + 'static> Pollable for Consumer<T> {
    fn readiness(&self) -> Result<(), Option<Duration>> {
        self.group.is_back(self.id);
        let now = self.sleeper.clock().now();
        self.has_more(now).map_err(|until| until.map(|until| until.since(now)))
    }

    fn events<'a>(&'a self, into: &mut Vec<&'a Event>) {
        into.push(&self.doorbell.rung);
        // What comes to lanes of others is no news, and the bell says when one becomes its own.
        let own = self.hands.iter().filter(|hand| hand.is_of(self.id));
        into.extend(own.map(|hand| hand.lane.log.not_empty()));
    }

    fn clock(&self) -> &Arc<dyn Clock> {
        self.sleeper.clock()
    }
}

impl<T: Send + Sync + 'static> Consumer<T> {
    /// Whether a poll would find something now. If not, `waker` is woken once when it may: for event loops of other libraries.
    ///
    /// The waker stays registered until it is woken, until the next call, or as long as the consumer lives, and is woken by
    /// whichever thread changes something: it should only hand the news on. It may be woken for nothing. Ask again before
    /// every wait, and after `at_most` also without being woken. On Linux a descriptor can be had that becomes readable:
    /// `EventFd` (feature `eventfd`). Waits for nobody; costs a look at each partition.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Readiness, TopicConfig};
    /// use std::{sync::Arc, task::{Wake, Waker}, thread::{self, Thread}};
    ///
    /// struct Unpark(Thread); // what your event loop has to be told by
    /// impl Wake for Unpark {
    ///     fn wake(self: Arc<Self>) {
    ///         self.0.unpark();
    ///     }
    /// }
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let mut consumer = topic.group("billing", GroupConfig::latest())?.consumer("billing-1")?;
    /// let waker = Waker::from(Arc::new(Unpark(thread::current())));
    /// # let publisher = topic.clone();
    /// # thread::spawn(move || publisher.publish(7));
    /// while let Readiness::Waiting { at_most } = consumer.poll_ready(&waker) {
    ///     at_most.map_or_else(thread::park, thread::park_timeout); // or whatever else it waits for
    /// }
    /// assert_eq!(consumer.try_poll(10)?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn poll_ready(&mut self, waker: &Waker) -> Readiness {
        self.call_off();
        self.set_alarm(None, waker);
        for hand in 0..self.hands.len() {
            // Where it is not ours the bell says so when it is, and what producers do there is no news before.
            if self.hands[hand].is_of(self.id) {
                self.set_alarm(Some(hand), waker);
            }
        }
        match self.readiness() {
            Err(at_most) => Readiness::Waiting { at_most },
            Ok(()) => {
                self.call_off();
                Readiness::Ready
            }
        }
    }

    fn set_alarm(&mut self, hand: Option<usize>, waker: &Waker) {
        let ticket = self.source(hand).register_waker(waker).stay();
        self.alarms.push((hand, ticket));
    }

    /// Whose records it may wait for; else its own bell.
    fn source(&self, hand: Option<usize>) -> &Event {
        hand.map_or(&self.doorbell.rung, |hand| self.hands[hand].lane.log.not_empty())
    }

    /// Takes back the waker that was registered last: drops it, which is user code.
    pub(super) fn call_off(&mut self) {
        for (hand, ticket) in std::mem::take(&mut self.alarms) {
            let _ = contain(|| self.source(hand).withdraw(ticket));
        }
    }

    /// Whether a poll would find something at `now`, a lease that is over or a group that is included; else when it may.
    fn has_more(&self, now: Time) -> Result<(), Option<Time>> {
        if is_out(&self.left) {
            return Ok(());
        }
        let mut until = None;
        for hand in &self.hands {
            match hand.has_more(&self.group, self.id) {
                Err(time) if time.is_none_or(|time| now < time) => until = until.into_iter().chain(time).min(),
                _ => return Ok(()),
            }
        }
        Err(until)
    }
}
