//! Faults of the broker's, planned on the manual executor.
#![forbid(unsafe_code)]

use crate::adapter::Manual;
use crate::broker::Topic;

impl Manual {
    /// The next `publishes` publishes to `topic` are refused as full, whoever makes them and whatever room there is: without
    /// a wait, counted as rejected, their values given back. A batch uses one for each partition it has a share for. With 0
    /// a plan is taken back. The trace notes it.
    ///
    /// (With the feature `testing` only.)
    ///
    /// ```
    /// use ringlog::testing::Lab;
    /// use ringlog::{PublishError, TopicConfig};
    ///
    /// let lab = Lab::new(1);
    /// let orders = lab.broker().create_topic("orders", TopicConfig::<u64>::new())?;
    /// lab.manual().full_now(&orders, 1);
    /// assert!(matches!(orders.publish(7), Err(PublishError::Full { value: 7, .. })));
    /// assert_eq!(orders.publish(7)?.offset(), 0);
    /// assert_eq!(orders.counts().rejected, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn full_now<T: Send + Sync + 'static>(&self, topic: &Topic<T>, publishes: u64) {
        topic.0.planned.refuse_next(publishes);
        self.note(format_args!("{} is full for {publishes} publishes", topic.name()));
    }
}
