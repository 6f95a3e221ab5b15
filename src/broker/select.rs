//! Waiting for several consumers at once.
#![forbid(unsafe_code)]

use crate::group::{Pollable, context};
use crate::sync::Arc;
use crate::time::{Deadline, Time};
use crate::wait::{Canceller, Event, Sleeper, Wait};
use std::ptr;
use std::time::Duration;

/// Waits until one of several consumers has something: of one topic or of several, of whatever records, and of several brokers
/// as well, as long as their clocks keep the same pace.
///
/// ```
/// use ringlog::{Broker, GroupConfig, Select, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let orders = broker.create_topic("orders", TopicConfig::<String>::new())?;
/// let prices = broker.create_topic("prices", TopicConfig::<f64>::new())?;
/// let mut new_orders = orders.group("desk", GroupConfig::latest())?.consumer("desk-1")?;
/// let mut new_prices = prices.group("desk", GroupConfig::latest())?.consumer("desk-1")?;
/// prices.publish(9.75)?;
/// orders.publish("first".to_string())?;
///
/// let (mut select, mut seen) = (Select::new(), 0);
/// while let Some(which) = select.wait(&[&new_orders, &new_prices], Duration::from_millis(10)) {
///     seen += if which == 0 {
///         let batch = new_orders.try_poll(10)?; // one of them has something, and only `try_poll` says what
///         let len = batch.len();
///         batch.ack()?;
///         len
///     } else {
///         let batch = new_prices.try_poll(10)?;
///         let len = batch.len();
///         batch.ack()?;
///         len
///     };
/// }
/// assert_eq!(seen, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Select {
    sleeper: Option<Sleeper>,
    /// Who is looked at first.
    turn: usize,
}

impl Select {
    /// One that has not waited yet. Kept, it sees to it that nobody is passed over who has something.
    pub fn new() -> Self {
        Self::default()
    }

    /// The place among `consumers` of one that has something to hand out now, or whose polls will say that nothing will come any
    /// more ([`PollError::Closed`](crate::PollError::Closed): end the loop on it); `None` when `limit` is over, by the clock of
    /// the first one (`Duration::MAX`: for ever), or if there are none. Those that have something take turns. Like a
    /// [poll](crate::Consumer::poll) it does not wait where a broker's timer runs what is yours.
    ///
    /// Somebody else may be faster, so a `try_poll` that follows may find nothing all the same. Costs a look at each partition of
    /// each consumer, and where it has to wait, a place in the list of each. For a `Vec` of consumers:
    /// `consumers.iter().map(|one| one as &dyn Pollable).collect::<Vec<_>>()`, anew for each wait.
    pub fn wait(&mut self, consumers: &[&dyn Pollable], limit: Duration) -> Option<usize> {
        self.find(consumers, limit, None)
    }

    /// As [`wait`](Self::wait); a `cancel` ends the wait as if its time were up. Who has something is found all the same, so a loop on
    /// this goes on until there is nothing left, and then ends; to stop before, ask [`Canceller::is_cancelled`].
    pub fn wait_or_cancel(
        &mut self,
        consumers: &[&dyn Pollable],
        limit: Duration,
        cancel: &Canceller,
    ) -> Option<usize> {
        self.find(consumers, limit, Some(cancel))
    }

    /// Who has something, in turns; else after how long at the latest somebody may.
    fn look(turn: usize, consumers: &[&dyn Pollable]) -> Result<usize, Option<Duration>> {
        let mut least = None;
        for nth in 0..consumers.len() {
            let at = (turn + nth) % consumers.len();
            match consumers[at].readiness() {
                Ok(()) => return Ok(at),
                Err(until) => least = least.into_iter().chain(until).min(),
            }
        }
        Err(least)
    }

    fn find(&mut self, consumers: &[&dyn Pollable], limit: Duration, cancel: Option<&Canceller>) -> Option<usize> {
        let Select { sleeper, turn } = self;
        let clock = consumers.first()?.clock();
        if sleeper.as_ref().is_none_or(|sleeper| !Arc::ptr_eq(sleeper.clock(), clock)) {
            *sleeper = None;
        }
        let sleeper = sleeper.get_or_insert_with(|| Sleeper::new(clock.clone()));
        let limit = if context::on_timer() { Duration::ZERO } else { limit };
        let deadline = Deadline::within(Some(limit), &**clock);
        let bell = sleeper.bell().clone();
        let _registered = cancel.map(|cancel| cancel.register(&bell));
        let cancelled = || cancel.is_some_and(Canceller::is_cancelled);
        let (mut events, mut now) = (Vec::new(), Vec::new());
        let mut until = deadline.at();
        loop {
            let mut found = None;
            list(consumers, &mut events);
            let (was, mut sooner) = (until, until);
            let look = || match Self::look(*turn, consumers) {
                Ok(at) => {
                    found = Some(at);
                    true
                }
                Err(least) => {
                    sooner = earlier(least.map(|least| clock.now().after(least)), deadline.at());
                    // No reason to stay: but this sleep has to end, or to end sooner than it was told, or to be for others.
                    list(consumers, &mut now);
                    let same = now.iter().zip(&events).all(|(now, then)| ptr::eq(*now, *then));
                    cancelled()
                        || !same
                        || now.len() != events.len()
                        || sooner.is_some_and(|sooner| was.is_none_or(|was| sooner < was))
                }
            };
            let ended = sleep(sleeper, &events, until, look);
            if let Some(at) = found {
                *turn = at + 1;
                return Some(at);
            }
            if cancelled() || (ended == Wait::TimedOut && until == deadline.at()) {
                return None;
            }
            until = sooner;
        }
    }
}

/// What may change the answer of any of them, as it is now.
fn list<'a>(consumers: &[&'a dyn Pollable], into: &mut Vec<&'a Event>) {
    into.clear();
    consumers.iter().for_each(|consumer| consumer.events(into));
}

fn sleep(sleeper: &mut Sleeper, events: &[&Event], until: Option<Time>, look: impl FnMut() -> bool) -> Wait {
    sleeper.wait(events.iter().copied(), until, look)
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
