//! What a close left can be had record by record, without a member and without changing anything.

use ringlog::{
    Broker, BrokerConfig, Group, GroupConfig, LeftOverError, Manual, ManualClock, Record, Retain, Topic, TopicConfig,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn left(group: &Group<u64>) -> Vec<(u32, u64, u64)> {
    let mut all = Vec::new();
    let count = group.left_over(|record| all.push((record.partition(), record.offset(), **record))).unwrap();
    assert_eq!(count, all.len() as u64);
    all
}

fn setting(config: TopicConfig<u64>) -> (Broker, Topic<u64>, Group<u64>) {
    let broker = Broker::new();
    let topic = broker.create_topic("t", config).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    (broker, topic, group)
}

// A-70, X28, C-27
#[test]
fn a_close_that_waits_for_nothing_leaves_its_records_to_be_looked_at() {
    for retain in [Retain::Backlog, Retain::Recent, Retain::Unacked] {
        for capacity in 1..=4_u64 {
            let config = TopicConfig::new().partitions(2).capacity(capacity as usize).retain(retain);
            let (broker, topic, group) = setting(config);
            let done = topic.group("done", GroupConfig::earliest()).unwrap();
            let manual = Manual::new(1);
            done.member("m").run(&manual).subscribe(|_| ()).unwrap();
            (0..capacity).for_each(|n| _ = topic.publish_to(1, 10 + n).unwrap());
            manual.run(100);
            let open = LeftOverError::Open { group: "g".into() };
            assert_eq!(group.left_over(|_| unreachable!()), Err(open));
            let account = broker.close(Some(Duration::ZERO));
            assert_eq!(account.left(), capacity);
            let all: Vec<_> = (0..capacity).map(|n| (1, n, 10 + n)).collect();
            assert_eq!(left(&group), all);
            assert_eq!(left(&group), all, "asked again");
            assert_eq!(left(&done), []);
            assert!(group.stats().balances() && group.lag() == capacity, "no figure has changed");
            drop((topic, done, broker));
            assert_eq!(left(&group), all, "they stay as long as a handle does");
        }
    }
}

// A-70, X28, C-27
#[test]
fn what_a_handler_has_in_hand_that_outlasts_the_close_is_left_over_and_not_done() {
    for retain in [Retain::Backlog, Retain::Recent, Retain::Unacked] {
        for capacity in 1..=4_u64 {
            let (broker, topic, group) = setting(TopicConfig::new().capacity(capacity as usize).retain(retain));
            let ((tell, told), (go, gate)) = (channel(), channel::<()>());
            let handler = move |record: &Record<'_, u64>| {
                let _ = tell.send(record.offset());
                let _ = gate.recv();
            };
            let member = group.subscribe("m", handler).unwrap();
            topic.publish_batch(0..capacity).unwrap();
            told.recv_timeout(LONG).unwrap();
            let account = broker.close(Some(Duration::ZERO));
            assert_eq!((account.stopped, account.left()), (false, capacity));
            let all: Vec<_> = (0..capacity).map(|n| (0, n, n)).collect();
            assert_eq!(left(&group), all, "also the one in hand");
            drop(go);
            assert_eq!(told.iter().count(), 0, "it was the last");
            member.leave_drained(LONG).unwrap();
            assert_eq!(left(&group), all, "its late acknowledgement counts nothing");
            let stats = group.stats();
            assert_eq!((stats.acked(), stats.refused(), stats.balances()), (0, 1, true));
            assert_eq!(Some(&stats.lag()), account.group("t", "g").map(|group| group.lag()).as_ref());
        }
    }
}

// X28
#[test]
fn a_look_that_panics_harms_nothing_and_a_deleted_group_leaves_nothing() {
    let (broker, topic, group) = setting(TopicConfig::new().capacity(4));
    let gone = topic.group("gone", GroupConfig::earliest()).unwrap();
    topic.publish_batch(0..3).unwrap();
    gone.delete();
    broker.close(Some(Duration::ZERO));
    let look = catch_unwind(AssertUnwindSafe(|| group.left_over(|record| assert_ne!(**record, 1, "planned"))));
    assert!(look.is_err());
    assert_eq!(left(&group).len(), 3);
    assert_eq!(gone.left_over(|_| ()), Err(LeftOverError::Deleted { group: "gone".into() }));
}

// X28
#[test]
fn what_went_by_its_age_or_was_overwritten_is_told_to_be_missing() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let (age, newest) = (Duration::from_secs(10), Duration::from_secs(5));
    let old = broker.create_topic("old", TopicConfig::new().capacity(4).max_age(age)).unwrap();
    let shed = broker.create_topic("shed", TopicConfig::new().capacity(2).drop_oldest()).unwrap();
    let [one, two] = [&old, &shed].map(|topic| topic.group("g", GroupConfig::earliest()).unwrap());
    old.publish_batch(0..2).unwrap();
    clock.advance(newest);
    old.publish(2).unwrap();
    shed.publish_batch(0..2).unwrap();
    shed.publish(2).unwrap();
    broker.close(Some(Duration::ZERO));
    clock.advance(newest + Duration::from_nanos(1));
    let missing = |group: &Group<u64>| {
        let mut all = Vec::new();
        group.left_over(|record| all.push((record.offset(), record.lost_before()))).unwrap();
        all
    };
    assert_eq!(missing(&one), [(2, 2)]);
    assert_eq!(missing(&two), [(1, 1), (2, 0)]);
}
