//! Settings that belong together.
#![forbid(unsafe_code)]

use super::config::TopicConfig;
use super::handle::Broker;
use super::partitioner::JavaString;
use crate::group::{GroupConfig, Overflow, Retry};
use crate::log::{Retain, Timestamps};
use std::time::Duration;

impl Broker {
    /// How long a close waits that nobody has a better number for: `broker.close(Some(Broker::CLOSE_LIMIT))`.
    pub const CLOSE_LIMIT: Duration = Duration::from_secs(2);
}

impl<T> TopicConfig<T> {
    /// A retained log, pushed to groups: one partition of 1,024 records, kept until every group has passed them and their room is
    /// needed ([`Retain::Backlog`]), publishes that wait one second at most, and coarse times, so that groups may start and
    /// seek by time. Keys go by crc32, and what has none in turn.
    ///
    /// For topics of which a group that comes late may miss nothing. Without a group a partition fills up, and from then on
    /// every publish waits and fails until there is one; [`new`](Self::new) keeps nobody waiting for groups to come. Members
    /// that are to have a thread for each partition say [`Run::ThreadPerLane`](crate::Run::ThreadPerLane). What the preset sets against
    /// the defaults is a table in `docs/recipes.md` ("The handbook preset").
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Run, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::handbook().partitions(2).key(|order: &String| order))?;
    /// orders.publish("first".to_string())?; // kept for whoever comes
    /// let billing = orders.group("billing", GroupConfig::handbook())?;
    /// billing.member("billing-1").run(Run::ThreadPerLane).subscribe_with(|_partition| |order| println!("{}", **order))?;
    /// assert_eq!(broker.close(Some(Broker::CLOSE_LIMIT)).acked(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn handbook() -> Self {
        let kept = Self::new().capacity(1_024).retain(Retain::Backlog).timestamps(Timestamps::Coarse);
        kept.partitions(1).block(Some(Duration::from_secs(1)))
    }
}

impl<T> TopicConfig<T> {
    /// A log that groups work off under leases: `partitions` of `capacity` records each, which are dropped as soon as every
    /// group has acknowledged them ([`Retain::Unacked`]; nobody listening, nothing kept), keys that go where Java's `String.hashCode` says
    /// ([`JavaString`]), and publishes that wait as long as their caller says.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::leased(2, 3).key(|order: &String| order))?;
    /// let billing = orders.group("billing", GroupConfig::leased())?;
    /// let mut consumer = billing.consumer("billing-1")?;
    /// orders.publish_within("user-a".to_string(), Duration::ZERO)?;
    /// consumer.poll(10, Duration::from_millis(100))?.ack()?;
    /// assert!(orders.describe().partitions.iter().all(|partition| partition.retained() == 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn leased(partitions: u32, capacity: usize) -> Self {
        Self::new()
            .partitions(partitions)
            .capacity(capacity)
            .retain(Retain::Unacked)
            .partitioner(JavaString)
            .block(None)
            .measure_backlog(true)
    }
}

impl<T> TopicConfig<T> {
    /// A topic of mailboxes: one partition, so that there is one order of everything for everybody; nothing is kept but for who
    /// listens ([`Retain::Unacked`]); and publishes that wait for as long as a subscriber lets them. Each subscriber is a group by
    /// itself and says how many records may wait for it: [`GroupConfig::mailbox`].
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Overflow, TopicConfig};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let broker = Broker::new();
    /// let prices = broker.create_topic("prices", TopicConfig::mailbox())?;
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let kept = seen.clone();
    /// let risk = prices.group("risk", GroupConfig::mailbox(Overflow::block(64)))?;
    /// risk.unnamed_member().subscribe(move |price| kept.lock().unwrap().push(**price))?;
    /// (0..100).try_for_each(|price| prices.publish(price).map(drop))?;
    /// broker.close(None);
    /// assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<u64>>());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn mailbox() -> Self {
        Self::new().partitions(1).capacity(8_192).retain(Retain::Unacked).block(None)
    }
}

impl<T: Clone + Send + Sync + 'static> GroupConfig<T> {
    /// A subscriber with a mailbox: it gets what is published from now on, as much of it as `overflow` lets wait; three attempts, after
    /// 100 and 200 ms, while what comes behind waits; 1,024 letters with clones of their records; and it goes when its member leaves.
    /// See [`TopicConfig::mailbox`].
    pub fn mailbox(overflow: Overflow<T>) -> Self {
        let pauses = Retry::linear(3, Duration::from_millis(100));
        Self::latest().overflow(overflow).retry(pauses).letters(1_024).bury_cloned().ephemeral()
    }
}

impl<T> GroupConfig<T> {
    /// A group with leases: starts behind the last record; what is not acknowledged within 30 seconds is handed out again, as
    /// is what was nacked, at once and as often as it takes; nothing is ever buried.
    ///
    /// A consumer has one lease for each partition, and every batch begins it anew. A handler has one for each record, and is not
    /// renewed: after 30 seconds with one record another member takes over. See [`lease`](Self::lease) and [`TopicConfig::leased`].
    pub fn leased() -> Self {
        Self::latest().retry(Retry::constant(1, Duration::ZERO).unlimited()).letters(0).lease(Duration::from_secs(30))
    }
}

impl<T: Clone + Send + Sync + 'static> GroupConfig<T> {
    /// A group that keeps what it gives up on: starts at the earliest record, delivers a record three times at most with pauses
    /// of 1 ms and 2 ms (doubled up to 50 ms where there are more attempts), and keeps 1,024 letters with clones of their records.
    ///
    /// Against the defaults: the start is said, pauses have a shorter cap, and letters keep their records, so that they can
    /// be [redriven](crate::Group::redrive). See [`TopicConfig::handbook`].
    pub fn handbook() -> Self {
        let pauses = Retry::exponential(3).first(Duration::from_millis(1)).factor(2.0).max(Duration::from_millis(50));
        Self::earliest().retry(pauses).letters(1_024).bury_cloned()
    }
}
