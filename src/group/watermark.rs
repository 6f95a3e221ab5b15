//! A watermark on what a group lags by: who wants to know is told when it is passed, and when the group has caught up.
#![forbid(unsafe_code)]

use super::Group;
use super::config::{ConfigError, GroupConfig};
use super::gap::Hook;
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// How often the timer looks.
const LOOK: Duration = Duration::from_millis(100);

/// A group lags by more than it should, or does so no longer; see [`GroupConfig::on_lag`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LagAlarm {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The records it had not done when it was looked at.
    pub lag: u64,
    /// The watermark.
    pub high: u64,
    /// Whether the lag has reached the watermark; else it has come down to half of it.
    pub raised: bool,
}

impl fmt::Display for LagAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LagAlarm { topic, group, lag, high, raised } = self;
        let what = if *raised { "lags by" } else { "has caught up to" };
        let records = if *lag == 1 { "record" } else { "records" };
        write!(f, "{topic}: {group} {what} {lag} {records}, watermark {high}")
    }
}

/// Who wants to hear of it: user code, under no lock.
#[derive(Clone)]
pub(super) struct OnLag {
    high: u64,
    hook: Hook<LagAlarm>,
}

impl OnLag {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.high == 0 {
            return Err(ConfigError::new("on_lag", "0", "at least 1"));
        }
        Ok(())
    }

    pub(super) fn same(one: Option<&Self>, other: Option<&Self>) -> bool {
        let (high, hook) = (|it: &Self| it.high, |it: &Self| it.hook.clone());
        one.map(high) == other.map(high) && Hook::same(one.map(hook).as_ref(), other.map(hook).as_ref())
    }
}

impl fmt::Debug for OnLag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} with a function", self.high)
    }
}

impl<T> GroupConfig<T> {
    /// Calls `hook` when the group's lag, over all partitions, has reached `high` records, and again when it has come down to
    /// half of that: on the edges, not as long as it is so.
    ///
    /// The broker's timer looks ten times a second (on a clock that is moved by hand, at each move), so what goes up and
    /// down in between is not seen. The hook runs on the timer's thread, under no lock, and holds up what else the timer does;
    /// its panic stops there. Settings with another hook are other settings.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, TopicConfig};
    /// use std::{sync::{Arc, Mutex}, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let told = Arc::new(Mutex::new(Vec::new()));
    /// let noted = told.clone();
    /// let config = GroupConfig::earliest().on_lag(3, move |alarm| noted.lock().unwrap().push(alarm.to_string()));
    /// let group = topic.group("billing", config)?;
    /// topic.publish_batch(0..4)?;
    /// (0..9).for_each(|_| clock.advance(Duration::from_secs(1)));
    /// group.seek(0, ringlog::SeekTo::Latest)?;
    /// clock.advance(Duration::from_secs(1));
    /// let expected = ["orders: billing lags by 4 records, watermark 3", "orders: billing has caught up to 0 records, watermark 3"];
    /// assert_eq!(*told.lock().unwrap(), expected);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_lag(mut self, high: u64, hook: impl Fn(&LagAlarm) + Send + Sync + 'static) -> Self {
        self.on_lag = Some(OnLag { high, hook: Hook::new(hook) });
        self
    }
}

/// Whether the watermark is passed, as far as was told.
#[derive(Default)]
pub(super) struct Raised(Mutex<bool>);

impl Raised {
    /// Notes what the lag is; whether that is an edge.
    fn edge(&self, lag: u64, high: u64) -> bool {
        let mut raised = lock(&self.0);
        let edge = if *raised { lag <= high / 2 } else { lag >= high };
        *raised ^= edge;
        edge
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Whether the broker's timer is to look after it.
    pub fn wants_timer(&self) -> bool {
        self.config.on_lag.is_some() || self.config.storing.is_there() || self.config.sharing.is_timed()
    }

    /// Looks at the watermark and tells who wants to know; says when to look again, `None`: never. User code.
    pub fn watch_lag(&self, now: Time) -> Option<Time> {
        let OnLag { high, hook } = self.config.on_lag.as_ref().filter(|_| !self.is_over())?;
        let lag = self.lag();
        if self.raised.edge(lag, *high) {
            let (topic, group) = (self.topic.clone(), self.name.clone());
            let alarm = LagAlarm { topic, group, lag, high: *high, raised: lag >= *high };
            hook.tell(&alarm);
        }
        Some(now.after(LOOK))
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Raised;

    #[test]
    fn only_edges_are_told_and_half_the_watermark_is_the_lower_one() {
        for (high, lags, edges) in
            [(4, vec![0, 3, 4, 9, 3, 2, 3, 4], vec![4, 2, 4]), (1, vec![0, 1, 1, 0, 1], vec![1, 0, 1])]
        {
            let raised = Raised::default();
            let told: Vec<u64> = lags.into_iter().filter(|lag| raised.edge(*lag, high)).collect();
            assert_eq!(told, edges);
        }
    }
}
