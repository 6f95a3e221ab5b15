//! Drain is a barrier, close loses nothing and says what it left, and neither can hang on itself.

use ringlog::{
    Account, Broker, BrokerConfig, BrokerState, CreateError, DrainError, GroupConfig, GroupError, ManualClock,
    PublishError, TopicConfig,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, Weak, mpsc};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

//
#[test]
fn a_drain_returns_when_everything_published_is_done_and_handlers_publish_meanwhile() {
    let broker = Broker::new();
    let counts: Vec<_> = (0..4).map(|_| Arc::new(AtomicUsize::new(0))).collect();
    let topics: Vec<_> = (0..4).map(|n| broker.create_topic(&format!("t{n}"), TopicConfig::new()).unwrap()).collect();
    for n in 0..4 {
        let (count, next) = (counts[n].clone(), topics.get(n + 1).cloned());
        let group = topics[n].group("g", GroupConfig::earliest()).unwrap();
        group
            .subscribe("m", move |record| {
                count.fetch_add(1, Ordering::Relaxed);
                next.as_ref().map_or(Ok(()), |next| next.publish(**record).map(drop))
            })
            .unwrap();
    }
    for round in 1..=20 {
        for n in 0..100 {
            topics[0].publish(n).unwrap();
        }
        broker.drain(LONG).unwrap();
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == round * 100));
    }
}

//
#[test]
fn a_drain_gives_up_at_its_deadline_and_names_who_is_behind() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("orders", TopicConfig::new()).unwrap();
    let group = topic.group("billing", GroupConfig::earliest()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    group
        .subscribe("m", move |_| {
            started.send(()).unwrap();
            _ = gate.recv();
        })
        .unwrap();
    topic.publish(0).unwrap();
    start.recv().unwrap();
    assert!(matches!(broker.drain(Duration::ZERO), Err(DrainError::TimedOut { .. })));
    let draining = thread::spawn({
        let broker = broker.clone();
        move || broker.drain(SECOND)
    });
    while !draining.is_finished() {
        clock.advance(SECOND);
        thread::yield_now();
    }
    let error = draining.join().unwrap().unwrap_err();
    assert!(error.to_string().ends_with(": orders/billing has 1 left"), "{error}");
    open.send(()).unwrap();
    broker.drain(LONG).unwrap();
}

// A-69, C-27
#[test]
fn a_group_without_a_member_holds_up_neither_drain_nor_close_and_is_in_the_account() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::new()).unwrap();
    topic.group("idle", GroupConfig::earliest()).unwrap();
    let left = topic.group("left", GroupConfig::earliest()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    let hold = move |_: &ringlog::Record<'_, i32>| {
        _ = started.send(());
        _ = gate.recv();
    };
    let member = left.subscribe("m", hold).unwrap();
    topic.publish_batch(0..3).unwrap();
    start.recv().unwrap();
    let draining = thread::spawn({
        let broker = broker.clone();
        move || broker.drain(LONG)
    });
    member.leave();
    open.send(()).unwrap();
    draining.join().unwrap().unwrap();
    let account = broker.close(None);
    assert!(account.drained && account.stopped);
    assert_eq!(account.group("orders", "idle").unwrap().lag(), 3);
    assert!(account.left() >= 3);
}

// A-T17, C-20, C-X7, X17, X28
#[test]
fn what_was_published_before_a_close_is_delivered_and_nothing_is_taken_after_it() {
    for _ in 0..50 {
        let broker = Broker::new();
        let topic = broker.create_topic("orders", TopicConfig::new().partitions(2)).unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = seen.clone();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.subscribe("m", move |_| _ = count.fetch_add(1, Ordering::Relaxed)).unwrap();
        topic.publish_batch(0..10).unwrap();
        let account = broker.close(Some(LONG));
        assert_eq!((account.acked(), account.left(), seen.load(Ordering::Relaxed)), (10, 0, 10));
        assert!(account.drained && account.stopped);
        assert_eq!(broker.state(), BrokerState::Closed);
        assert!(matches!(topic.publish(1), Err(PublishError::Closed { value: 1, .. })));
        assert!(matches!(topic.group("h", GroupConfig::earliest()), Err(GroupError::Closed { .. })));
        assert!(matches!(broker.create_topic("x", TopicConfig::<u8>::new()), Err(CreateError::Closed { .. })));
        assert_eq!(broker.close(None), account, "closing again changes nothing");
    }
}

// C-3, C-33
#[test]
fn every_publish_accepted_beside_a_close_is_delivered() {
    for _ in 0..20 {
        let broker = Broker::new();
        let topic = broker.create_topic("orders", TopicConfig::new().capacity(16)).unwrap();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = seen.clone();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.subscribe("m", move |_| _ = count.fetch_add(1, Ordering::Relaxed)).unwrap();
        let start = Arc::new(Barrier::new(3));
        let publishers: Vec<_> = (0..2)
            .map(|_| {
                let (topic, start) = (topic.clone(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    (0..).take_while(|&n| topic.publish(n).is_ok()).count()
                })
            })
            .collect();
        start.wait();
        let account = broker.close(Some(LONG));
        let accepted: usize = publishers.into_iter().map(|publisher| publisher.join().unwrap()).sum();
        assert!(account.drained);
        assert_eq!((account.acked() as usize, account.left()), (accepted, 0));
        assert_eq!(seen.load(Ordering::Relaxed), accepted);
    }
}

//
#[test]
fn handlers_may_publish_while_others_are_refused() {
    let broker = Broker::new();
    let first = broker.create_topic("first", TopicConfig::new()).unwrap();
    let second = broker.create_topic("second", TopicConfig::new()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    let onward = second.clone();
    let group = first.group("g", GroupConfig::earliest()).unwrap();
    group
        .subscribe("m", move |record: &ringlog::Record<'_, i32>| {
            started.send(()).unwrap();
            _ = gate.recv();
            onward.publish(**record).map(drop)
        })
        .unwrap();
    second.group("g", GroupConfig::earliest()).unwrap().subscribe("m", |_| ()).unwrap();
    first.publish(7).unwrap();
    start.recv().unwrap();
    let closing = thread::spawn({
        let broker = broker.clone();
        move || broker.close(Some(LONG))
    });
    while broker.state() == BrokerState::Open {
        thread::yield_now();
    }
    assert!(matches!(first.publish(8), Err(PublishError::Closed { .. })));
    open.send(()).unwrap();
    let account = closing.join().unwrap();
    assert_eq!((account.acked(), account.left()), (2, 0));
}

// A-59, C-27, X28
#[test]
fn a_hung_handler_costs_a_close_its_deadline_and_its_late_ack_counts_nothing() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("orders", TopicConfig::new()).unwrap();
    let group = topic.group("hung", GroupConfig::earliest()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    group
        .subscribe("m", move |_| {
            started.send(()).unwrap();
            _ = gate.recv();
        })
        .unwrap();
    topic.publish_batch(0..3).unwrap();
    start.recv().unwrap();
    let closing = thread::spawn({
        let broker = broker.clone();
        move || broker.close(Some(SECOND))
    });
    while !closing.is_finished() {
        clock.advance(SECOND);
        thread::yield_now();
    }
    let account = closing.join().unwrap();
    assert!(!account.drained && !account.stopped);
    assert_eq!((account.acked(), account.left()), (0, 3));
    assert_eq!(account.to_string(), "0 acked, 0 dead, 3 left; orders/hung left 3; not every member had stopped");
    drop(open);
    while !group.stats().lanes.iter().all(|lane| lane.refused > 0) {
        thread::yield_now();
    }
    assert_eq!(group.stats().acked(), 0, "the account stays true");
}

//
#[test]
fn closers_at_once_get_one_account_and_the_shortest_deadline_counts() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::new()).unwrap();
    let group = topic.group("hung", GroupConfig::earliest()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    group
        .subscribe("m", move |_| {
            started.send(()).unwrap();
            _ = gate.recv();
        })
        .unwrap();
    topic.publish(0).unwrap();
    start.recv().unwrap();
    let closers: Vec<_> = (0..3)
        .map(|_| {
            let broker = broker.clone();
            thread::spawn(move || broker.close(None))
        })
        .collect();
    let account = broker.close(Some(Duration::ZERO));
    assert_eq!(account.left(), 1);
    for closer in closers {
        assert_eq!(closer.join().unwrap(), account);
    }
    drop(open);
}

//
#[test]
fn a_close_from_inside_a_handler_returns_at_once_and_stops_everything() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::new()).unwrap();
    let (sent, accounts) = mpsc::channel::<(Account, Result<(), DrainError>)>();
    let own: Arc<Mutex<Option<Broker>>> = Arc::new(Mutex::new(Some(broker.clone())));
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group
        .subscribe("m", move |_| {
            let Some(broker) = own.lock().unwrap().take() else { return };
            let drained = broker.drain(LONG);
            sent.send((broker.close(None), drained)).unwrap();
        })
        .unwrap();
    topic.publish_batch(0..3).unwrap();
    let (account, drained) = accounts.recv().unwrap();
    assert_eq!(drained, Err(DrainError::WouldDeadlock));
    assert!(!account.stopped);
    assert_eq!((account.acked(), account.left()), (0, 3), "the record in hand counts as left");
    assert_eq!(broker.close(None), account);
    assert!(matches!(topic.publish(9), Err(PublishError::Closed { .. })));
}

// X28
#[test]
fn dropping_the_last_handle_closes_without_waiting_even_inside_a_handler() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::new()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    let own = Mutex::new(Some(broker.clone()));
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group
        .subscribe("m", move |_| {
            started.send(()).unwrap();
            _ = gate.recv();
            drop(own.lock().unwrap().take());
        })
        .unwrap();
    topic.publish_batch(0..2).unwrap();
    start.recv().unwrap();
    drop(broker);
    assert!(!topic.is_closed(), "the handler has a handle");
    open.send(()).unwrap();
    while !topic.is_closed() {
        thread::yield_now();
    }
    assert!(matches!(topic.publish(9), Err(PublishError::Closed { .. })));
    drop(open);
}

/// Everything that belongs to a broker goes once it is closed and the handles are dropped.
#[test]
fn nothing_of_a_broker_is_left_over_when_its_handles_are_gone() {
    let value = Arc::new(());
    let weak: Weak<()> = Arc::downgrade(&value);
    let (gone, ended) = mpsc::channel::<()>();
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::<Arc<()>>::new().capacity(4)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let own = topic.clone();
    let member = group
        .subscribe("m", move |record| {
            let _ = (&own, &gone);
            assert!(Arc::strong_count(record.value()) > 0);
        })
        .unwrap();
    topic.publish(value).unwrap();
    broker.drain(LONG).unwrap();
    broker.close(Some(LONG));
    // The handler owns `gone` and a handle of its own topic; it is dropped when its thread has ended.
    assert!(ended.recv().is_err());
    drop((broker, topic, group, member));
    while weak.upgrade().is_some() {
        thread::yield_now();
    }
}

//
#[test]
fn a_record_whose_drop_publishes_to_its_own_topic_harms_nobody() {
    struct Echo(Option<ringlog::Topic<Echo>>);
    impl Drop for Echo {
        fn drop(&mut self) {
            if let Some(topic) = self.0.take() {
                let _ = topic.try_publish(Echo(None));
            }
        }
    }
    let broker = Broker::new();
    let topic = broker.create_topic("echo", TopicConfig::new().capacity(2)).unwrap();
    for _ in 0..10 {
        topic.publish(Echo(Some(topic.clone()))).unwrap();
    }
    broker.close(Some(SECOND));
    assert!(topic.is_closed());
}
