//! Subscribers beside each other: whom a record reaches, and what one of them costs the others.

use ringlog::{Broker, Group, GroupConfig, Retry, Topic, TopicConfig};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn topic(broker: &Broker, name: &str) -> Topic<u64> {
    broker.create_topic(name, TopicConfig::new().capacity(16)).unwrap()
}

/// What a member saw.
type Seen = Arc<Mutex<Vec<u64>>>;

fn collect(group: &Group<u64>, member: &str) -> (ringlog::Member<u64>, Seen) {
    let seen = Seen::default();
    let inside = seen.clone();
    let member = group.subscribe(member, move |record| inside.lock().unwrap().push(**record)).unwrap();
    (member, seen)
}

// C-T2
#[test]
fn a_record_reaches_the_groups_of_its_own_topic_only() {
    let broker = Broker::new();
    let (orders, prices) = (topic(&broker, "orders"), topic(&broker, "prices"));
    let (_, of_orders) = collect(&orders.group("g", GroupConfig::earliest()).unwrap(), "m");
    let (_, of_prices) = collect(&prices.group("g", GroupConfig::earliest()).unwrap(), "m");
    orders.publish(1).unwrap();
    broker.drain(LONG).unwrap();
    assert_eq!((of_orders.lock().unwrap().clone(), of_prices.lock().unwrap().clone()), (vec![1], vec![]));
}

// C-T3: the stuck one is still stuck when the fast one has everything.
#[test]
fn a_stuck_group_leaves_a_fast_one_undisturbed() {
    let broker = Broker::new();
    let topic = topic(&broker, "orders");
    let (release, held) = mpsc::channel::<()>();
    let (entered, stuck_now) = mpsc::channel();
    let stuck = topic.group("stuck", GroupConfig::earliest()).unwrap();
    stuck
        .subscribe("m", move |_| {
            entered.send(()).unwrap();
            let _ = held.recv();
        })
        .unwrap();
    let (fast_saw, fast_sees) = mpsc::channel();
    let fast = topic.group("fast", GroupConfig::earliest()).unwrap();
    fast.subscribe("m", move |record| fast_saw.send(**record).unwrap()).unwrap();
    topic.publish(0).unwrap();
    stuck_now.recv_timeout(LONG).unwrap();
    (1..10).for_each(|n| _ = topic.publish(n).unwrap());
    for n in 0..10 {
        assert_eq!(fast_sees.recv_timeout(LONG), Ok(n));
    }
    assert_eq!(stuck.lag(), 10);
    drop(release);
    broker.drain(LONG).unwrap();
    assert_eq!(stuck.stats().acked(), 10);
}

// C-25: neither by a panic nor by an error, however often.
#[test]
fn failures_reach_neither_the_publisher_nor_other_groups() {
    let broker = Broker::new();
    let topic = topic(&broker, "orders");
    let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::from_nanos(1)));
    let failing = topic.group("failing", config).unwrap();
    failing.subscribe("m", |record| if **record % 2 == 0 { panic!("on purpose") } else { Err("on purpose") }).unwrap();
    let other = topic.group("other", GroupConfig::earliest()).unwrap();
    let (_, seen) = collect(&other, "m");
    (0..100).for_each(|n| _ = topic.publish_within(n, LONG).unwrap());
    broker.drain(LONG).unwrap();
    assert_eq!(*seen.lock().unwrap(), (0..100).collect::<Vec<_>>());
    let (others, failings) = (other.stats(), failing.stats());
    assert_eq!((others.acked(), others.retried(), others.dead()), (100, 0, 0));
    assert_eq!((failings.acked(), failings.retried(), failings.dead()), (0, 100, 100));
}

// C-T9, B-20
#[test]
fn nothing_arrives_after_leaving_and_the_next_member_goes_on_from_there() {
    let broker = Broker::new();
    let topic = topic(&broker, "orders");
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (member, first) = collect(&group, "m");
    topic.publish(1).unwrap();
    broker.drain(LONG).unwrap();
    assert!(member.leave());
    topic.publish(2).unwrap();
    // Its thread has ended once the handler is dropped, and with it the handler's side of what it saw.
    while Arc::strong_count(&first) > 1 {
        thread::yield_now();
    }
    assert_eq!(*first.lock().unwrap(), [1]);
    let again = topic.group("g", GroupConfig::earliest()).unwrap();
    assert_eq!(again.lag(), 1, "the same group, where it was");
    let (_, second) = collect(&again, "m");
    broker.drain(LONG).unwrap();
    assert_eq!((first.lock().unwrap().clone(), second.lock().unwrap().clone()), (vec![1], vec![2]));
}
