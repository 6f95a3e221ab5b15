//! The settings of a group that say how its members share a partition's records, and for how long they may keep them.
#![forbid(unsafe_code)]

use super::config::{ConfigError, GroupConfig};
use super::fence::FencedBy;
pub(super) use super::watch::Lease;
use crate::sync::Arc;
use crate::time::Span;
use std::time::Duration;

/// In which order a group hands out the records of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// By offset, to one member at a time (the default).
    #[default]
    Partition,
    /// A work queue: every member serves every partition, and has several of its records in hand while others have others. A
    /// record that fails holds up nobody: it comes again, to any member, when its wait is over. The cursor follows over what is
    /// done without a gap, and gates publishers: a record that takes its time (a [straggler](Straggler)) holds them up once the
    /// rest of the partition is done. Only on topics that keep their records until they are done.
    Shared,
    /// A work queue as [`Shared`](Self::Shared), in which the records of one key come by offset, one after the other is done:
    /// what has failed holds up its own key and no other. The key is the topic's ([`TopicConfig::key`](crate::TopicConfig::key)),
    /// which must have one; records without a key come in no order. "Order by key" in `docs/queues.md` says what it costs.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Order, Outcome, Record, TopicConfig};
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::new().key(|(customer, _): &(String, u32)| customer))?;
    /// let group = orders.group("billing", GroupConfig::earliest().order(Order::Key))?;
    /// let billed = Arc::new(Mutex::new(Vec::new()));
    /// for name in ["one", "two"] {
    ///     let billed = billed.clone();
    ///     let bill = move |order: &Record<'_, (String, u32)>| match (order.offset(), order.attempt()) {
    ///         (0, 1) => Outcome::retry("the bank did not answer"), // alice waits for it, and nobody else
    ///         _ => {
    ///             billed.lock().unwrap().push((**order).clone());
    ///             Outcome::Ack
    ///         }
    ///     };
    ///     group.subscribe(name, bill)?;
    /// }
    /// orders.publish_batch([("alice".into(), 1), ("bob".into(), 2), ("alice".into(), 3)])?;
    /// broker.drain(Duration::from_secs(10))?;
    /// let billed = billed.lock().unwrap();
    /// let of_alice: Vec<u32> = billed.iter().filter(|(customer, _)| customer == "alice").map(|(_, order)| *order).collect();
    /// assert_eq!((billed.len(), of_alice), (3, vec![1, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Key,
}

/// What becomes of a record that is in a handler's hands although later ones are done, once it has been there for so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Straggler {
    /// It is waited for, and holds back what it holds back (the default).
    #[default]
    Wait,
    /// It is given up, with a letter whose kind is `"straggler"`; what was handed out with it is handed to others. Its handler
    /// runs on, and is refused.
    Bury(Duration),
    /// Its member leaves the group, and it is handed to others with what was handed out with it, a failed attempt each. Its
    /// handler runs on, and is refused.
    Evict(Duration),
}

/// A lease was not extended, because the record is not this handler's any more: what it makes of it is refused. Nothing has
/// changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{topic}/{partition}@{offset} is not in hand any more: {by}; what is made of it is refused")]
#[non_exhaustive]
pub struct ExtendError {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The record.
    pub offset: u64,
    /// What came between.
    pub by: FencedBy,
}

impl Lease {
    fn validate(self) -> Result<(), ConfigError> {
        if self.time.is_zero() {
            return Err(ConfigError::new("lease", Span(self.time).to_string(), "longer than no time at all"));
        }
        match self.longest {
            Some(longest) if longest < self.time => {
                let bound = "at least as long as GroupConfig::lease";
                Err(ConfigError::new("lease_renewed_up_to", Span(longest).to_string(), bound))
            }
            _ => Ok(()),
        }
    }
}

/// The settings of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharing {
    pub(super) order: Order,
    pub(super) lease: Option<Lease>,
    /// Asked for without a lease to renew.
    renewed: Option<Duration>,
    pub(super) straggler: Straggler,
}

impl Sharing {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if let (None, Some(longest)) = (self.lease, self.renewed) {
            let bound = "set together with GroupConfig::lease";
            return Err(ConfigError::new("lease_renewed_up_to", Span(longest).to_string(), bound));
        }
        self.lease().map_or(Ok(()), Lease::validate)?;
        let age = match self.straggler {
            Straggler::Wait => return Ok(()),
            Straggler::Bury(age) | Straggler::Evict(age) => age,
        };
        if self.order == Order::Partition {
            let bound = "left to Wait, unless the order is Shared or Key: in order nothing can be done before it";
            return Err(ConfigError::new("straggler", format!("{:?}", self.straggler), bound));
        }
        if age.is_zero() {
            return Err(ConfigError::new("straggler", format!("{:?}", self.straggler), "longer than no time at all"));
        }
        Ok(())
    }

    /// The lease, with its limit.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.lease.map(|lease| Lease { longest: self.renewed, ..lease })
    }

    /// Whether anything is to be done because time has passed.
    pub(super) fn is_timed(&self) -> bool {
        self.lease.is_some() || self.straggler != Straggler::Wait
    }

    pub(super) fn differs_in(&self, other: &Self) -> Option<&'static str> {
        if self.order != other.order {
            Some("order")
        } else if self.lease != other.lease {
            Some("lease")
        } else if self.renewed != other.renewed {
            Some("lease_renewed_up_to")
        } else if self.straggler != other.straggler {
            Some("straggler")
        } else {
            None
        }
    }
}

impl<T> GroupConfig<T> {
    /// In which order records are handed out (default [`Order::Partition`]).
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Order, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let images = broker.create_topic("images", TopicConfig::<u64>::new())?;
    /// let group = images.group("thumbnails", GroupConfig::earliest().order(Order::Shared))?;
    /// for name in ["one", "two"] {
    ///     group.subscribe(name, |_image| ())?; // one of the two gets each image
    /// }
    /// images.publish_batch(0..100)?;
    /// broker.drain(Duration::from_secs(10))?;
    /// assert_eq!(group.stats().acked(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn order(mut self, order: Order) -> Self {
        self.sharing.order = order;
        self
    }

    /// How long a member may keep records: a [consumer](crate::Consumer) what it polled, a handler the record it is called with
    /// (default: as long as it likes). From `now >= deadline` on, what it makes of them is refused, each counts a failed
    /// attempt of the kind `"expired"`, and they come again at once, without a pause; or are buried, where that was their last attempt.
    ///
    /// **How long.** Longer than the slowest record takes, by a good margin. What takes longer is handled again, beside the
    /// first time, and after the attempts that [`Retry`](crate::Retry) allows it is buried, although each time succeeded. Where nobody knows how
    /// long work takes: a retry that is [unlimited](crate::Retry::unlimited), or [`lease_renewed_up_to`](Self::lease_renewed_up_to).
    ///
    /// **Consumers.** One lease for each partition, from the moment in which a batch is handed out; the next batch begins it anew. Who
    /// polls in vain, and the broker's timer, find that it is over, and wake who waits for records. Nothing renews it but that
    /// next batch, and [`Polled::extend`](crate::Polled::extend) or [`Receipt::extend`](crate::Receipt::extend). When it is over, the
    /// consumer's partitions are other members' until it polls or settles again, unless it sleeps in a poll.
    ///
    /// **Handlers.** A member that does not hang takes over at once; see [`on_expired`](Self::on_expired). Handlers are
    /// then handed one record at a time, with a short lock and a look at the clock for each. (With [`Order::Shared`] a lease is for what
    /// a member took at once, and nothing has to be taken over.) [`Record::extend`](crate::Record::extend) tells a handler
    /// whether the record is still its own.
    ///
    /// "Leases" in `docs/delivery.md` and in `docs/consumers.md` says more.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, SettleError, TopicConfig};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("billing", GroupConfig::earliest().lease(Duration::from_secs(30)))?;
    /// topic.publish(1)?;
    /// let mut consumer = group.consumer("billing-1")?;
    /// let receipt = consumer.try_poll(10)?.detach();
    /// clock.advance(Duration::from_secs(30));
    /// assert_eq!(receipt.ack().unwrap_err().to_string(), "orders/0: offset 0 cannot be settled for billing any more: its lease expired");
    /// assert_eq!(consumer.try_poll(10)?.get(0).map(|order| order.attempt()), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lease(mut self, time: Duration) -> Self {
        self.sharing.lease = Some(Lease { time, longest: None });
        self
    }

    /// A lease may be renewed, up to this long in all (default: not at all).
    ///
    /// A handler's is renewed by itself for as long as the handler runs: so this is when it is over, counted from when the record
    /// was handed over, and [`lease`](Self::lease) is the step in which it gets there. A consumer's is not renewed by itself:
    /// [`Polled::extend`](crate::Polled::extend) and [`Receipt::extend`](crate::Receipt::extend) do it, as far as this long after the last batch of the partition was handed
    /// out. So it is no limit for who polls on.
    pub fn lease_renewed_up_to(mut self, longest: Duration) -> Self {
        self.sharing.renewed = Some(longest);
        self
    }

    /// What becomes of a record that is in a handler's hands although later ones of its partition are done (default
    /// [`Straggler::Wait`]). Only with [`Order::Shared`] and [`Order::Key`].
    ///
    /// ```
    /// use ringlog::{GroupConfig, Order, Straggler};
    /// use std::time::Duration;
    ///
    /// let queue = GroupConfig::<u64>::earliest().order(Order::Shared).straggler(Straggler::Bury(Duration::from_secs(60)));
    /// # let _ = queue;
    /// ```
    pub fn straggler(mut self, rule: Straggler) -> Self {
        self.sharing.straggler = rule;
        self
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{GroupConfig, Order, Straggler};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn config() -> GroupConfig<u64> {
        GroupConfig::earliest()
    }

    fn refused(config: &GroupConfig<u64>) -> String {
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn impossible_leases_and_stragglers_are_refused_with_field_value_and_bound() {
        assert_eq!(refused(&config().lease(Duration::ZERO)), "lease is 0ns, but must be longer than no time at all");
        let shorter = config().lease(SECOND).lease_renewed_up_to(SECOND / 2);
        let text = "lease_renewed_up_to is 500ms, but must be at least as long as GroupConfig::lease";
        assert_eq!(refused(&shorter), text);
        assert!(refused(&config().lease_renewed_up_to(SECOND)).contains("together with GroupConfig::lease"));
        assert!(refused(&config().straggler(Straggler::Bury(SECOND))).contains("is Shared"));
        let queue = || config().order(Order::Shared);
        assert!(refused(&queue().straggler(Straggler::Evict(Duration::ZERO))).contains("longer than no time"));
        assert!(queue().straggler(Straggler::Evict(SECOND)).validate().is_ok());
        assert!(config().lease_renewed_up_to(SECOND).lease(SECOND).validate().is_ok(), "said in any order");
    }

    #[test]
    fn a_difference_is_named() {
        let differs = |other| config().lease(SECOND).differs_in(&other);
        assert_eq!(differs(config().lease(SECOND)), None);
        assert_eq!(differs(config()), Some("lease"));
        assert_eq!(differs(config().lease(SECOND).lease_renewed_up_to(SECOND)), Some("lease_renewed_up_to"));
        assert_eq!(differs(config().lease(SECOND).order(Order::Shared)), Some("order"));
        assert_eq!(differs(config().lease(SECOND).straggler(Straggler::Evict(SECOND))), Some("straggler"));
    }
}
