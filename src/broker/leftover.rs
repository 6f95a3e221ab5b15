//! What a close left, record by record.
#![forbid(unsafe_code)]

use super::group::Group;
use crate::group::{LeftOverError, Record};

impl<T: Send + Sync + 'static> Group<T> {
    /// After the broker was closed: shows each record that this group had not done, partition by partition and in order, and
    /// says how many there were. No member is needed, nothing is acknowledged, and no figure changes: asked again, it shows
    /// them again. They stay as long as a handle to the topic or to this group does.
    ///
    /// These are the records that the [account](crate::Account) counts as left. What a handler has still in hand, that
    /// outlasted the close, is shown as well: it is not done, and cannot be any more. Where records have an age, those that
    /// have become too old since are not shown; [`Record::lost_before`] says how many are missing. Letters that were to be
    /// handed over again are letters again.
    ///
    /// `visit` is run on this thread under no lock; if it panics, so does the call, and nothing else has changed.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<String>::new())?;
    /// let billing = topic.group("billing", GroupConfig::earliest())?;
    /// topic.publish("alice".into())?;
    /// broker.close(Some(Duration::ZERO)); // now, whatever is left
    ///
    /// let mut left = Vec::new();
    /// billing.left_over(|order| left.push((order.offset(), order.to_string())))?;
    /// assert_eq!(left, [(0, "orders/0@0 alice".to_string())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The broker is not closed yet, or the group was deleted; see [`LeftOverError`].
    pub fn left_over(&self, visit: impl FnMut(&Record<'_, T>)) -> Result<u64, LeftOverError> {
        self.inner().left_over(visit)
    }
}
