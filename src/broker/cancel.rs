//! Waits that somebody else may end: each call that blocks, with a [`Canceller`].
#![forbid(unsafe_code)]

use super::account::{Account, DrainError};
use super::committed::WaitError;
use super::core::Published;
use super::error::{BatchError, PublishError, Share};
use super::handle::Broker;
use super::producer::Producer;
use super::topic::Topic;
use crate::group::Position;
use crate::wait::Canceller;
use std::time::Duration;

/// How long a publish waits for room, and who may end that.
#[derive(Clone, Copy, Default)]
pub(crate) struct Patience<'a> {
    pub(crate) block: Option<Duration>,
    pub(crate) cancel: Option<&'a Canceller>,
}

impl<'a> Patience<'a> {
    /// As long as the topic allows.
    pub(crate) fn of(block: Option<Duration>) -> Self {
        Self { block, cancel: None }
    }

    fn or(block: Duration, cancel: &'a Canceller) -> Self {
        Self { block: Some(block), cancel: Some(cancel) }
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// Like [`Topic::publish_within`], and `cancel` ends the wait. One that has been used already lets nobody wait: it is
    /// then stored at once or not at all. (`Duration::MAX`: as long as the topic allows.)
    ///
    /// ```
    /// use ringlog::{Broker, Canceller, GroupConfig, PublishError, TopicConfig};
    /// use std::{thread, time::Duration};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().capacity(1).block(None))?;
    /// let group = topic.group("billing", GroupConfig::earliest())?;
    /// topic.publish(1)?; // and nobody there to take it
    /// let cancel = Canceller::new();
    /// let stop = cancel.clone();
    /// let publisher = thread::spawn(move || topic.publish_or_cancel(2, Duration::MAX, &cancel));
    /// stop.cancel();
    /// let refused = publisher.join().unwrap().unwrap_err();
    /// assert!(matches!(refused, PublishError::Cancelled { value: 2, .. }));
    /// # drop(group);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Topic::publish`], and [`PublishError::Cancelled`].
    pub fn publish_or_cancel(
        &self,
        value: T,
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<Published, PublishError<T>> {
        let partition = self.0.route(&value);
        self.publish_to_or_cancel(partition, value, limit, cancel)
    }

    /// Like [`Topic::publish_to`], for no longer than `limit`, and `cancel` ends the wait.
    ///
    /// # Errors
    ///
    /// As [`Topic::publish_or_cancel`].
    pub fn publish_to_or_cancel(
        &self,
        partition: u32,
        value: T,
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<Published, PublishError<T>> {
        let patience = Patience::or(self.0.no_longer_than(limit), cancel);
        self.0.append_patiently(partition, &mut Some(value), patience)
    }

    /// Like [`Topic::publish_batch`], for no longer than `limit`, and `cancel` ends the wait.
    ///
    /// # Errors
    ///
    /// As [`Topic::publish_batch`]; the one that stopped may be [`PublishError::Cancelled`].
    pub fn publish_batch_or_cancel(
        &self,
        values: impl IntoIterator<Item = T>,
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<Vec<Share>, BatchError<T>> {
        self.store_batch(values, Patience::or(self.0.no_longer_than(limit), cancel))
    }

    /// As [`Topic::wait_committed`], and `cancel` ends the wait.
    ///
    /// # Errors
    ///
    /// As [`Topic::wait_committed`], and [`WaitError::Cancelled`].
    pub fn wait_committed_or_cancel(
        &self,
        position: impl Into<Position>,
        groups: &[&str],
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<(), WaitError> {
        self.wait_until_committed(position.into(), groups, limit, Some(cancel))
    }
}

impl<T: Send + Sync + 'static> Producer<T> {
    /// As [`Topic::publish_or_cancel`].
    ///
    /// # Errors
    ///
    /// As [`Topic::publish_or_cancel`].
    pub fn publish_or_cancel(
        &mut self,
        value: T,
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<Published, PublishError<T>> {
        let partition = self.route(&value);
        self.publish_to_or_cancel(partition, value, limit, cancel)
    }

    /// As [`Topic::publish_to_or_cancel`].
    ///
    /// # Errors
    ///
    /// As [`Topic::publish_or_cancel`].
    pub fn publish_to_or_cancel(
        &mut self,
        partition: u32,
        value: T,
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<Published, PublishError<T>> {
        let patience = Patience::or(self.core().no_longer_than(limit), cancel);
        self.append_patiently(partition, &mut Some(value), patience)
    }

    /// As [`Topic::publish_batch_or_cancel`].
    ///
    /// # Errors
    ///
    /// As [`Topic::publish_batch_or_cancel`].
    pub fn publish_batch_or_cancel(
        &mut self,
        values: impl IntoIterator<Item = T>,
        limit: Duration,
        cancel: &Canceller,
    ) -> Result<Vec<Share>, BatchError<T>> {
        let patience = Patience::or(self.core().no_longer_than(limit), cancel);
        self.publish_gathered(Vec::new(), None, values.into_iter(), patience)
    }
}

impl Broker {
    /// As [`Broker::drain`], and `cancel` ends the wait.
    ///
    /// # Errors
    ///
    /// As [`Broker::drain`], and [`DrainError::Cancelled`].
    pub fn drain_or_cancel(&self, limit: Duration, cancel: &Canceller) -> Result<(), DrainError> {
        self.0.drain(limit, Some(cancel))
    }

    /// As [`Broker::close`]; a `cancel` ends the waiting for what is under way, not the close, which goes on as if the time
    /// were up.
    pub fn close_or_cancel(&self, limit: Option<Duration>, cancel: &Canceller) -> Account {
        self.0.close(limit, Some(cancel))
    }
}
