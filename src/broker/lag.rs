//! What a group lags by, in time.
#![forbid(unsafe_code)]

use super::group::Group;
use crate::group::ControlError;
use std::time::Duration;

impl<T: Send + Sync + 'static> Group<T> {
    /// How old the oldest record is that is not done, over all partitions, by the broker's clock; zero if all are done.
    /// `None` on topics without [timestamps](crate::TopicConfig::timestamps).
    ///
    /// A hint while anybody is at work. Waits for nobody; costs a look at one page of each partition.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, Timestamps, TopicConfig};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().timestamps(Timestamps::Exact))?;
    /// let group = topic.group("audit", GroupConfig::earliest())?;
    /// assert_eq!(group.lag_time(), Some(Duration::ZERO));
    /// topic.publish(1)?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(group.lag_time(), Some(Duration::from_secs(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lag_time(&self) -> Option<Duration> {
        self.inner().lag_time()
    }

    /// [`Group::lag_time`] of one partition.
    ///
    /// # Errors
    ///
    /// No such partition.
    pub fn lag_time_of(&self, partition: u32) -> Result<Option<Duration>, ControlError> {
        self.inner().lag_time_of(partition)
    }

    /// How old the oldest record is that waits, over all partitions, by the broker's clock: that is published, and neither handed
    /// over nor lost to this group. Zero if none does; `None` on topics without [timestamps](crate::TopicConfig::timestamps).
    ///
    /// With [`LaneStats::waiting`](crate::LaneStats::waiting) it says how a subscriber's mailbox is, in records and in time. In a
    /// [work queue](crate::Order::Shared) it is the oldest that is not done, if any waits.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, Overflow, Timestamps, TopicConfig};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let topic = broker.create_topic("prices", TopicConfig::<u64>::new().timestamps(Timestamps::Exact))?;
    /// let chart = topic.group("chart", GroupConfig::latest().overflow(Overflow::drop_oldest(2)))?;
    /// for price in 0..5 {
    ///     topic.publish(price)?;
    ///     clock.advance(Duration::from_secs(1));
    /// }
    /// assert_eq!((chart.stats().waiting(), chart.waiting_time()), (2, Some(Duration::from_secs(2))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiting_time(&self) -> Option<Duration> {
        self.inner().waiting_time()
    }
}
