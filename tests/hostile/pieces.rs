//! Pieces of user code that are called at odd places: keys that panic when they are hashed or compared, makers of handlers,
//! and the destructors of all the functions that a topic or a group was given.
#![forbid(unsafe_code)]

use super::{LONG, OnDrop, balanced, ends, until};
use ringlog::{Broker, Failure, GroupConfig, Outcome, Record, Retry, TopicConfig};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn panics<R>(body: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(|| drop(body()))).is_err()
}

/// A key that panics when it is hashed, if it is 13, and when it is compared, if it is 14.
#[derive(Debug)]
struct RudeKey(u64);

impl Hash for RudeKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(self.0 != 13, "hash");
        (self.0 / 10).hash(state);
    }
}

impl PartialEq for RudeKey {
    fn eq(&self, other: &Self) -> bool {
        assert!(self.0 != 14 && other.0 != 14, "eq");
        self.0 == other.0
    }
}

impl Eq for RudeKey {}

#[test]
fn a_key_that_panics_when_hashed_or_compared_reaches_its_publisher_and_nobody_else() {
    ends(|| {
        let broker = Broker::new();
        let config = TopicConfig::new().capacity(64).last_value_by_key(|n: &u64| RudeKey(*n), |n| *n);
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let sum = Arc::new(AtomicU64::new(0));
        let seen = sum.clone();
        group.subscribe("m", move |n: &Record<'_, u64>| _ = seen.fetch_add(**n, Relaxed)).unwrap();
        let last = topic.last_values::<RudeKey, u64>().unwrap();
        topic.publish(11).unwrap();
        let before = topic.end(0);
        assert!(panics(|| topic.publish(13)), "hash");
        assert!(panics(|| topic.publish_batch([12, 13])), "hash, in a batch");
        assert!(panics(|| topic.publish(14)), "compared with 11");
        assert_eq!(topic.end(0), before, "nothing of that is stored");
        assert!(panics(|| last.get(&RudeKey(13))));
        topic.publish(12).unwrap();
        broker.drain(LONG).unwrap();
        assert_eq!(sum.load(Relaxed), 11 + 12);
        assert_eq!(last.get(&RudeKey(12)).map(|value| *value), Some(12));
        balanced(&group.stats());
    });
}

//
#[test]
fn a_maker_of_handlers_that_panics_leaves_nobody_in_the_group_and_the_name_free() {
    ends(|| {
        for fatal in 0..3 {
            let broker = Broker::new();
            let topic = broker.create_topic("t", TopicConfig::<u64>::new().partitions(3)).unwrap();
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let make = |partition: u32| {
                assert!(partition != fatal, "maker");
                |_: &Record<'_, u64>| ()
            };
            assert!(panics(|| group.member("m").subscribe_with(make)));
            assert!(group.assignment().is_empty());
            group.member("m").subscribe_with(|_| |_: &Record<'_, u64>| ()).unwrap();
            topic.publish_batch(0..9).unwrap();
            broker.drain(LONG).unwrap();
            assert_eq!(group.stats().acked(), 9);
            balanced(&group.stats());
        }
    });
}

/// Panics when it is dropped, and counts that.
fn bomb(went_off: &Arc<AtomicU64>) -> OnDrop<impl FnMut() + Send + Sync + use<>> {
    let went_off = went_off.clone();
    OnDrop(move || {
        went_off.fetch_add(1, Relaxed);
        if !std::thread::panicking() {
            panic!("a function's destructor");
        }
    })
}

/// Whoever drops the last handle of a group or a topic may get the panic; it goes no further, and threads of the broker's
/// outlive it.
#[test]
fn destructors_of_the_functions_of_a_group_may_panic_and_other_groups_go_on() {
    ends(|| {
        let went_off = Arc::new(AtomicU64::new(0));
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(4)).unwrap();
        let other = topic.group("other", GroupConfig::earliest()).unwrap();
        other.subscribe("m", |_| ()).unwrap();
        let (hook, bury, handler) = (bomb(&went_off), bomb(&went_off), bomb(&went_off));
        let config = GroupConfig::earliest().retry(Retry::never()).on_gap(move |_| _ = &hook).bury_with(
            move |n: &u64, _: &Failure| {
                let _ = &bury;
                *n
            },
        );
        let group = topic.group("g", config).unwrap();
        let reject = move |_: &Record<'_, u64>| {
            let _ = &handler;
            Outcome::reject("no")
        };
        group.subscribe("m", reject).unwrap();
        topic.publish_batch(0..4).unwrap();
        broker.drain(LONG).unwrap();
        assert_eq!(group.stats().dead(), 4);
        assert!(group.delete());
        _ = panics(|| drop(group));
        until(|| went_off.load(Relaxed) == 3);
        topic.group("g", GroupConfig::earliest()).unwrap().subscribe("m", |_| ()).unwrap();
        (0..8).for_each(|n| _ = topic.publish(n).unwrap());
        broker.drain(LONG).unwrap();
        assert_eq!(other.stats().acked(), 12);
        balanced(&other.stats());
        assert!(broker.close(Some(LONG)).stopped);
    });
}
