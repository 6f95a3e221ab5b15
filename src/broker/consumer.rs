//! Consumers: joining a group to poll it.
#![forbid(unsafe_code)]

use super::group::Group;
use crate::group::{Consumer, SubscribeError};

impl<T: Send + Sync + 'static> Group<T> {
    /// Adds a member that polls: see [`Consumer`]. It leaves when it is dropped.
    ///
    /// # Errors
    ///
    /// Name bad or taken, group or broker closed; see [`SubscribeError`].
    pub fn consumer(&self, name: &str) -> Result<Consumer<T>, SubscribeError> {
        self.member(name).consumer()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use crate::broker::{Broker, BrokerConfig, Select, TopicConfig};
    use crate::group::{Failure, GroupConfig, Retry};
    use crate::time::{Clock, ManualClock};
    use std::sync::{Arc, Mutex, OnceLock};
    use std::thread;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_consumer_is_woken_by_what_comes_to_its_own_partitions_alone() {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().partitions(2)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (one, mut other) = (group.consumer("one").unwrap(), group.consumer("other").unwrap());
        let waiting = || [0, 1].map(|partition| topic.0.log(partition).unwrap().not_empty().waiting());
        let asleep = || {
            while clock.sleepers() == 0 {
                thread::yield_now();
            }
        };
        let poller = thread::spawn(move || {
            [(); 2].map(|()| {
                let batch = other.poll(1, Duration::MAX).unwrap();
                let partition = batch.partition();
                batch.ack().unwrap();
                partition
            })
        });
        asleep();
        assert_eq!(waiting(), [0, 1]);
        // What becomes its own is listened to from then on.
        drop(one);
        while waiting() != [1, 1] {
            thread::yield_now();
        }
        topic.publish_to(0, 1).unwrap();
        while waiting() != [1, 1] {
            thread::yield_now();
        }
        topic.publish_to(1, 1).unwrap();
        assert_eq!(poller.join().unwrap(), [Some(0), Some(1)]);
    }

    #[test]
    fn a_select_is_woken_by_what_comes_to_its_consumers_own_partitions_alone() {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().partitions(2)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (one, mut other) = (group.consumer("one").unwrap(), group.consumer("other").unwrap());
        let waiting = || [0, 1].map(|partition| topic.0.log(partition).unwrap().not_empty().waiting());
        let selects = thread::spawn(move || {
            let mut select = Select::new();
            [(); 2].map(|()| {
                assert_eq!(select.wait(&[&other], Duration::MAX), Some(0));
                let batch = other.try_poll(1).unwrap();
                let partition = batch.partition();
                batch.ack().unwrap();
                partition
            })
        });
        while waiting() != [0, 1] {
            thread::yield_now();
        }
        topic.publish_to(0, 1).unwrap();
        assert_eq!(waiting(), [0, 1]);
        // What becomes its own is listened to from then on.
        drop(one);
        while waiting() != [1, 1] {
            thread::yield_now();
        }
        topic.publish_to(1, 1).unwrap();
        assert_eq!(selects.join().unwrap(), [Some(0), Some(1)]);
    }

    #[test]
    fn who_buries_past_the_deadline_does_not_keep_the_timer_busy() {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
        let (inner, said) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(None)));
        let (group, late, moves) = (inner.clone(), said.clone(), clock.clone());
        let config = GroupConfig::earliest().retry(Retry::never()).lease(SECOND).bury_with(move |value: &u64, _| {
            moves.advance(2 * SECOND);
            let group: &crate::broker::Group<u64> = group.get().unwrap();
            *late.lock().unwrap() = Some((moves.now(), group.inner().watch_leases(moves.now())));
            *value
        });
        assert!(inner.set(topic.group("g", config).unwrap()).is_ok());
        topic.publish(1).unwrap();
        let mut consumer = inner.get().unwrap().consumer("c").unwrap();
        consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
        let (now, next) = said.lock().unwrap().unwrap();
        assert_eq!(next, Some(now.after(SECOND)));
    }
}
