//! Topics that are made when they are first asked for.
#![forbid(unsafe_code)]

use super::config::{BrokerConfig, TopicConfig};
use crate::sync::Arc;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;

type Rule<T> = Box<dyn Fn(&str) -> Option<TopicConfig<T>> + Send + Sync>;

/// For each type of record, how a topic of that name is made, if at all.
#[derive(Clone, Default)]
pub(crate) struct Auto(BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Auto {
    /// The settings for a topic of records `T` that is not there. User code.
    pub(crate) fn settings<T: 'static>(&self, name: &str) -> Option<TopicConfig<T>> {
        let rule = self.0.get(&TypeId::of::<T>())?.downcast_ref::<Rule<T>>()?;
        rule(name)
    }
}

impl fmt::Debug for Auto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules", self.0.len())
    }
}

impl BrokerConfig {
    /// [`Broker::topic`](crate::Broker::topic) makes a topic that is not there, if it is to hold records `T`: with the
    /// settings that `rule` gives for its name; `None` makes none. (Default: no rule; looking for a topic makes none.) A
    /// rule for each type; of two for one type the later counts. Of several calls at once one makes the topic, and the others
    /// find it. [`Broker::create_topic`](crate::Broker::create_topic) stays as strict as it is.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, LookupError, TopicConfig};
    ///
    /// let rooms = |name: &str| name.starts_with("room/").then(|| TopicConfig::<String>::new().capacity(64));
    /// let broker = Broker::with(BrokerConfig::new().auto_create(rooms));
    /// broker.topic::<String>("room/kitchen")?.publish("soup is ready".into())?;
    /// assert!(matches!(broker.topic::<String>("hall"), Err(LookupError::Unknown { .. })));
    /// assert!(matches!(broker.topic::<u64>("room/bath"), Err(LookupError::Unknown { .. })), "a rule for another type");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The rule is the caller's code, run on its thread, under no lock; if it panics, the look-up does, and no topic is made.
    /// It is not to look for the same topic itself.
    #[must_use]
    pub fn auto_create<T: Send + Sync + 'static>(
        mut self,
        rule: impl Fn(&str) -> Option<TopicConfig<T>> + Send + Sync + 'static,
    ) -> Self {
        let rule: Rule<T> = Box::new(rule);
        self.auto.0.insert(TypeId::of::<T>(), Arc::new(rule));
        self
    }
}
