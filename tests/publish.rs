//! What a publish says when it cannot store, how long it waits, and that it gives everything back.

use ringlog::{
    BatchError, Broker, BrokerConfig, GroupConfig, Manual, ManualClock, PublishError, Retain, SeekTo, Timestamps,
    Topic, TopicConfig, Worker,
};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn manual() -> (Arc<ManualClock>, Broker) {
    let clock = Arc::new(ManualClock::new());
    (clock.clone(), Broker::with(BrokerConfig::new().clock(clock)))
}

/// Until somebody waits for room.
fn await_blocked<T: Send + Sync + 'static>(topic: &Topic<T>, publishers: u64) {
    while topic.counts().blocked < publishers {
        thread::yield_now();
    }
}

// C-5
#[test]
fn offsets_are_dense_from_zero_in_each_partition() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().partitions(2).capacity(4)).unwrap();
    let at: Vec<_> = (0..6).map(|n| topic.publish(n).unwrap().position).collect();
    assert_eq!(at.iter().map(|at| at.offset).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
}

// B-V2, A-47, A-14, X6
#[test]
fn a_full_partition_names_topic_partition_capacity_wait_group_and_lag() {
    let (clock, broker) = manual();
    let topic = broker.create_topic("orders", TopicConfig::new().capacity(2).block(Some(SECOND))).unwrap();
    topic.group("billing", GroupConfig::earliest()).unwrap();
    topic.publish(0_u32).unwrap();
    topic.publish(1).unwrap();
    let refused = topic.try_publish(2).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "orders/0 full (2 records): group 'billing' has 2 unacknowledged (Topic::why_full tells why)"
    );
    let full = refused.full().unwrap();
    assert_eq!((&*full.topic, full.partition, full.capacity, full.waited), ("orders", 0, 2, Duration::ZERO));
    let limiting = full.limiting.as_ref().unwrap();
    assert_eq!((&*limiting.group, limiting.lag), ("billing", 2));
    assert_eq!(refused.into_value(), 2);

    let waiting = thread::spawn({
        let topic = topic.clone();
        move || topic.publish(3)
    });
    await_blocked(&topic, 1);
    clock.advance(SECOND);
    let refused = waiting.join().unwrap().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "orders/0 full (2 records) after 1s: group 'billing' has 2 unacknowledged (Topic::why_full tells why)"
    );
    assert!(matches!(refused, PublishError::Full { value: 3, .. }));
    assert_eq!(topic.end(0), Some(2), "a publish that gave up has claimed nothing");
    assert_eq!(topic.counts().rejected, 2);
}

// X6
#[test]
fn a_full_partition_says_how_old_its_limiting_group_s_oldest_record_is_where_records_have_times() {
    let kinds: [fn(TopicConfig<u32>) -> TopicConfig<u32>; 4] = [
        |config| config,
        |config| config.timestamps(Timestamps::Coarse),
        |config| config.timestamps(Timestamps::Exact),
        |config| config.max_age(100 * SECOND),
    ];
    for (nth, kind) in kinds.into_iter().enumerate() {
        let (clock, broker) = manual();
        let config = kind(TopicConfig::new().capacity(2).block(Some(Duration::ZERO)));
        let (topic, mut producer) = broker.create_exclusive("orders", config).unwrap();
        let [slow, quick] = ["slow", "quick"].map(|name| topic.group(name, GroupConfig::earliest()).unwrap());
        producer.publish(0).unwrap();
        clock.advance(SECOND);
        producer.publish(1).unwrap();
        quick.commit(0, 0, 2).unwrap();
        clock.advance(2 * SECOND);

        let refused = producer.publish(2).unwrap_err();
        let limiting = refused.full().unwrap().limiting.clone().unwrap();
        assert_eq!((&*limiting.group, limiting.lag), ("slow", 2));
        assert_eq!(limiting.oldest_unacked_age, (nth > 0).then_some(3 * SECOND), "from the oldest record on");
        let since = if nth > 0 { ", the oldest for 3s" } else { "" };
        let said = format!("group 'slow' has 2 unacknowledged{since} (Topic::why_full tells why)");
        assert!(refused.to_string().ends_with(&said), "{refused}");

        // The next one is younger: the age is that of what the cursor stands at, whichever way one publishes.
        slow.commit(0, 0, 1).unwrap();
        producer.publish(2).unwrap();
        let Err(BatchError::Stopped { why, .. }) = producer.publish_batch([3]) else { panic!("it is full") };
        let limiting = why.full().unwrap().limiting.clone().unwrap();
        assert_eq!(limiting.oldest_unacked_age, (nth > 0).then_some(2 * SECOND));
    }
}

// A-T3, A-23, X2
#[test]
fn a_backlog_without_groups_fills_up_and_no_group_is_named() {
    let broker = Broker::new();
    let config = TopicConfig::new().capacity(2).retain(Retain::Backlog).block(Some(Duration::ZERO));
    let topic = broker.create_topic("orders", config).unwrap();
    topic.publish(0).unwrap();
    topic.publish(1).unwrap();
    let refused = topic.publish(2).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "orders/0 full (2 records): no group is there that could read it; with Retain::Backlog it is kept until one comes"
    );
    assert_eq!(refused.full().unwrap().limiting, None);

    let (got, seen) = mpsc::channel();
    let group = topic.group("billing", GroupConfig::earliest()).unwrap();
    group.subscribe("m", move |record| got.send(**record).unwrap()).unwrap();
    assert_eq!([seen.recv().unwrap(), seen.recv().unwrap()], [0, 1]);
    broker.drain(SECOND).unwrap();
    topic.publish(2).unwrap();
    assert_eq!(seen.recv().unwrap(), 2);
}

// B-9, C-14, X5
#[test]
fn each_publish_may_say_how_long_it_waits_but_not_longer_than_the_topic() {
    let (clock, broker) = manual();
    let topic = broker.create_topic("a", TopicConfig::new().capacity(1).block(Some(SECOND))).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap();
    topic.publish(0).unwrap();
    for (n, limit, waits) in [(1, SECOND / 2, SECOND / 2), (2, 5 * SECOND, SECOND)] {
        let waiting = thread::spawn({
            let topic = topic.clone();
            move || topic.publish_within(0, limit)
        });
        await_blocked(&topic, n);
        clock.advance(waits);
        let refused = waiting.join().unwrap().unwrap_err();
        assert_eq!(refused.full().unwrap().waited, waits);
    }
    assert!(matches!(topic.publish_within(0, Duration::ZERO), Err(PublishError::Full { .. })));
}

// A-T21, A-48, X34, C-33
#[test]
fn closing_wakes_a_blocked_publisher_and_appends_nothing() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().capacity(1).block(None)).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap();
    topic.publish(0).unwrap();
    let blocked = thread::spawn({
        let topic = topic.clone();
        move || topic.publish(1)
    });
    await_blocked(&topic, 1);
    broker.close(Some(Duration::ZERO));
    assert!(matches!(blocked.join().unwrap(), Err(PublishError::Closed { value: 1, .. })));
    assert_eq!(topic.end(0), Some(1));
}

// C-14, C-15
#[test]
fn a_blocked_publisher_holds_up_nobody_else() {
    let broker = Broker::new();
    let config = || TopicConfig::new().capacity(1).partitions(2).block(None);
    let topic = broker.create_topic("a", config()).unwrap();
    let other = broker.create_topic("b", config()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    topic.publish_to(0, 0).unwrap();
    let blocked = thread::spawn({
        let topic = topic.clone();
        move || topic.publish_to(0, 1)
    });
    await_blocked(&topic, 1);
    topic.publish_to(1, 2).unwrap();
    other.publish_to(0, 3).unwrap();
    topic.group("late", GroupConfig::latest()).unwrap().subscribe("m", |_| ()).unwrap();
    assert_eq!(group.seek(0, SeekTo::Latest).unwrap(), 1);
    assert_eq!(blocked.join().unwrap().unwrap().offset(), 1, "the seek made room");
    assert!(group.delete());
}

// C-X1, C-22, B-15, X2
#[test]
fn what_nobody_hears_takes_its_offset_and_is_not_kept() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().capacity(2).retain(Retain::Unacked)).unwrap();
    for n in 0..5 {
        let published = topic.try_publish(n).unwrap();
        assert_eq!((published.offset(), published.kept), (n, false));
    }
    topic.group("g", GroupConfig::earliest()).unwrap();
    let heard = topic.try_publish(5).unwrap();
    assert_eq!((heard.offset(), heard.kept), (5, true));
    let recent = broker.create_topic("b", TopicConfig::new().capacity(2)).unwrap();
    assert!((0..5).all(|n| recent.try_publish(n).unwrap().kept));
}

#[test]
fn the_exclusive_producer_is_the_only_way_in_and_publishes_in_place() {
    let broker = Broker::new();
    let config = TopicConfig::new().capacity(2).block(Some(Duration::ZERO));
    let (topic, mut producer) = broker.create_exclusive("a", config).unwrap();
    assert!(matches!(topic.publish(String::from("x")), Err(PublishError::Exclusive { .. })));
    assert!(matches!(topic.publish_batch(["x".into()]), Err(BatchError::Stopped { .. })));
    let (got, seen) = mpsc::channel();
    topic
        .group("g", GroupConfig::earliest())
        .unwrap()
        .subscribe("m", move |r| got.send(r.to_string()).unwrap())
        .unwrap();
    for n in 0..10 {
        producer
            .publish_in_place(0, String::new, |text| {
                text.clear();
                text.push_str(&n.to_string());
            })
            .unwrap();
        assert_eq!(seen.recv().unwrap(), format!("a/0@{n} {n}"));
        broker.drain(SECOND).unwrap();
    }
    assert_eq!(producer.publish_batch(["x", "y"].map(str::to_owned)).unwrap()[0].offsets, 10..12);
    assert!(matches!(producer.publish_to(1, String::new()), Err(PublishError::NoSuchPartition { .. })));
    broker.close(Some(SECOND));
    assert!(matches!(producer.publish("late".into()), Err(PublishError::Closed { .. })));
    assert!(matches!(producer.publish_in_place(0, String::new, |_| ()), Err(PublishError::Closed { .. })));
}

// C-23, C-X8
#[test]
fn a_handler_that_would_wait_for_itself_is_refused_and_told_so() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().capacity(1).block(None)).unwrap();
    let group = topic.group("loop", GroupConfig::earliest()).unwrap();
    let (got, seen) = mpsc::channel();
    let again = topic.clone();
    group
        .subscribe("m", move |record| {
            if **record == 0 {
                got.send(again.publish(1)).unwrap();
            }
        })
        .unwrap();
    topic.publish(0).unwrap();
    let refused = seen.recv().unwrap().unwrap_err();
    assert!(matches!(refused, PublishError::WouldDeadlock { value: 1, .. }), "{refused}");
    assert_eq!(&*refused.full().unwrap().limiting.as_ref().unwrap().group, "loop");
    broker.drain(SECOND).unwrap();
    topic.publish(2).unwrap();
    let account = broker.close(Some(SECOND));
    assert_eq!((account.acked(), account.left()), (2, 0));
}

// C-23
#[test]
fn a_handler_may_wait_for_a_group_that_another_thread_serves() {
    let broker = Broker::new();
    let first = broker.create_topic("first", TopicConfig::new()).unwrap();
    let second = broker.create_topic("second", TopicConfig::new().capacity(1).block(None)).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    second.group("slow", GroupConfig::earliest()).unwrap().subscribe("m", move |_| _ = gate.recv()).unwrap();
    let onward = second.clone();
    let forward = move |record: &ringlog::Record<'_, i32>| onward.publish(**record).map(drop);
    first.group("forward", GroupConfig::earliest()).unwrap().subscribe("m", forward).unwrap();
    first.publish_batch(0..3).unwrap();
    await_blocked(&second, 1);
    (0..3).for_each(|_| open.send(()).unwrap());
    broker.drain(10 * SECOND).unwrap();
    assert_eq!(second.end(0), Some(3));
}

#[test]
fn a_handler_stops_waiting_when_the_lane_it_waits_for_becomes_its_own_thread_s() {
    // On a manual clock nobody looks again by chance.
    let broker = Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
    let source = broker.create_topic("source", TopicConfig::new()).unwrap();
    let full = broker.create_topic("full", TopicConfig::new().capacity(1).block(None)).unwrap();
    let sink = full.group("sink", GroupConfig::earliest()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let slow = sink.subscribe("slow", move |_| _ = gate.recv()).unwrap();
    let worker = Worker::spawn().unwrap();
    let ((got, seen), onward) = (mpsc::channel(), full.clone());
    let forward = move |record: &ringlog::Record<'_, i32>| got.send(onward.publish(**record)).unwrap();
    source.group("forward", GroupConfig::earliest()).unwrap().member("m").run(&worker).subscribe(forward).unwrap();
    source.publish_batch(0..2).unwrap();
    assert!(seen.recv().unwrap().is_ok());
    await_blocked(&full, 1);
    sink.member("next").run(&worker).subscribe(|_| ()).unwrap();
    assert!(slow.leave());
    let refused = seen.recv_timeout(10 * SECOND).expect("still waiting for its own thread").unwrap_err();
    assert!(matches!(refused, PublishError::WouldDeadlock { value: 1, .. }), "{refused}");
    drop(open);
    broker.close(Some(Duration::ZERO));
}

#[test]
fn a_quiet_publish_is_read_by_who_is_awake_and_wakes_nobody() {
    let broker = Broker::new();
    let topic = broker.create_topic("samples", TopicConfig::new().capacity(4)).unwrap();
    let (lines, mut producer) = broker.create_exclusive("lines", TopicConfig::new().capacity(4)).unwrap();
    let manual = Manual::new(1);
    for topic in [&topic, &lines] {
        let group = topic.group("readers", GroupConfig::earliest()).unwrap();
        group.member("only").run(&manual).subscribe(|_| ()).unwrap();
    }
    let lag = || (topic.find_group("readers").unwrap().lag(), lines.find_group("readers").unwrap().lag());
    // Both are awake at first.
    assert_eq!(topic.publish_quietly(0).unwrap().offset(), 0);
    assert_eq!(producer.publish_quietly(0).unwrap().offset(), 0);
    manual.run(100);
    assert_eq!(lag(), (0, 0));
    // Now they sleep.
    topic.publish_quietly(1).unwrap();
    producer.publish_quietly(1).unwrap();
    manual.run(100);
    assert_eq!(lag(), (1, 1), "a quiet publish woke somebody");
    topic.wake();
    manual.run(100);
    assert_eq!(lag(), (0, 1));
    producer.publish(2).unwrap();
    manual.run(100);
    assert_eq!(lag(), (0, 0));
}

#[test]
fn a_quiet_publish_that_finds_no_room_never_waits_and_gives_the_value_back() {
    let broker = Broker::new();
    let topic = broker.create_topic("samples", TopicConfig::new().capacity(1).block(None)).unwrap();
    let (lines, mut producer) = broker.create_exclusive("lines", TopicConfig::new().capacity(1).block(None)).unwrap();
    for topic in [&topic, &lines] {
        topic.group("slow", GroupConfig::earliest()).unwrap();
    }
    topic.publish_quietly(0).unwrap();
    producer.publish_quietly(0).unwrap();
    let refused = [topic.publish_quietly(7).unwrap_err(), producer.publish_quietly(7).unwrap_err()];
    assert!(refused.iter().all(|error| matches!(error, PublishError::Full { value: 7, .. })), "{refused:?}");
    assert!(matches!(lines.publish_quietly(8), Err(PublishError::Exclusive { value: 8, .. })));
    broker.close(Some(Duration::ZERO));
    let refused = [topic.publish_quietly(9).unwrap_err(), producer.publish_quietly(9).unwrap_err()];
    assert!(refused.iter().all(|error| matches!(error, PublishError::Closed { value: 9, .. })), "{refused:?}");
}
