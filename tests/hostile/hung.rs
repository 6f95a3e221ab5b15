//! A handler that never returns: whom it hurts, and whom not.
#![forbid(unsafe_code)]

use super::{LONG, balanced, ends};
use ringlog::testing::{Counter, Stuck};
use ringlog::{Broker, GroupConfig, Run, Topic, TopicConfig, Worker};
use std::time::Duration;

fn topic(broker: &Broker) -> Topic<u64> {
    broker.create_topic("t", TopicConfig::new().partitions(2).capacity(64).block(None)).unwrap()
}

// A-59, C-1, X26
#[test]
fn a_handler_that_never_returns_holds_up_what_shares_its_worker_and_nobody_else() {
    ends(|| {
        let broker = Broker::new();
        let topic = topic(&broker);
        let (worker, other) = (Worker::spawn().unwrap(), Worker::spawn().unwrap());
        let (stuck, shares, apart, alone) = (Stuck::new(), Counter::new(), Counter::new(), Counter::new());
        let group = |name: &str| topic.group(name, GroupConfig::earliest()).unwrap();
        let groups = [group("stuck"), group("shares"), group("apart"), group("alone")];
        groups[0].member("m").run(&worker).subscribe(stuck.handler()).unwrap();
        groups[1].member("m").run(&worker).subscribe(shares.handler()).unwrap();
        groups[2].member("m").run(&other).subscribe(apart.handler()).unwrap();
        groups[3].subscribe("m", alone.handler()).unwrap();
        topic.publish_to(0, 0).unwrap();
        stuck.wait_until_in(1, LONG).unwrap();
        let before = shares.count();
        for n in 0..20 {
            topic.publish_to(n % 2, u64::from(n)).unwrap();
        }
        apart.wait_for(21, LONG).unwrap();
        alone.wait_for(21, LONG).unwrap();
        assert!(shares.wait_for(before + 1, Duration::from_millis(20)).is_err(), "it shares the worker");
        assert_eq!(stuck.entered(), 1);
        stuck.open();
        shares.wait_for(21, LONG).unwrap();
        broker.drain(LONG).unwrap();
        for group in &groups {
            balanced(&group.stats());
            assert_eq!(group.stats().acked(), 21);
        }
    });
}

// A-59, X32
#[test]
fn with_a_thread_for_each_lane_one_that_hangs_holds_up_its_own_partition_only() {
    ends(|| {
        let broker = Broker::new();
        let topic = topic(&broker);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (stuck, counter) = (Stuck::new(), Counter::new());
        let handler = |partition| {
            let (mut hang, mut count) = (stuck.handler(), counter.handler());
            move |record: &ringlog::Record<'_, u64>| if partition == 0 { hang(record) } else { count(record) }
        };
        group.member("m").run(Run::ThreadPerLane).subscribe_with(handler).unwrap();
        (0..20).for_each(|n| _ = topic.publish_to(n % 2, u64::from(n)).unwrap());
        stuck.wait_until_in(1, LONG).unwrap();
        counter.wait_for(10, LONG).unwrap();
        assert_eq!(group.lag_of(0), Ok(10));
        stuck.open();
        broker.drain(LONG).unwrap();
        balanced(&group.stats());
    });
}

// C-27
#[test]
fn a_close_gives_up_a_handler_that_never_returns_and_the_others_are_done() {
    ends(|| {
        let broker = Broker::new();
        let topic = topic(&broker);
        let (stuck, counter) = (Stuck::new(), Counter::new());
        let [slow, fast] = ["slow", "fast"].map(|name| topic.group(name, GroupConfig::earliest()).unwrap());
        slow.subscribe("m", stuck.handler()).unwrap();
        fast.subscribe("m", counter.handler()).unwrap();
        (0..10).for_each(|n| _ = topic.publish_to(0, n).unwrap());
        stuck.wait_until_in(1, LONG).unwrap();
        super::until(|| fast.stats().acked() == 10);
        let account = broker.close(Some(Duration::from_millis(20)));
        assert!(!account.stopped && !account.drained, "{account}");
        assert_eq!(account.group("t", "slow").unwrap().lag(), 10, "what it has in hand is left");
        assert_eq!(account.group("t", "fast").unwrap().acked(), 10);
        assert!(account.to_string().contains("t/slow left 10; not every member had stopped"), "{account}");
        stuck.open();
        super::until(|| slow.stats().refused() == 1);
        balanced(&slow.stats());
        assert_eq!(slow.stats().acked(), 0);
    });
}
