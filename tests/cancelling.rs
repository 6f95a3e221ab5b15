//! Each call that blocks can be ended from outside, gives back what it was given, and says so.

use ringlog::{
    BatchError, Broker, BrokerConfig, Canceller, DrainError, Group, GroupConfig, ManualClock, Position, PublishError,
    Record, Topic, TopicConfig, WaitError,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
/// Longer than anything: the time is never up on a clock that nobody moves.
const EVER: Duration = Duration::MAX;

/// A topic whose one partition is full, on a clock that nobody moves.
fn full(capacity: usize) -> (Broker, Topic<u64>, Group<u64>) {
    let broker = Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
    let topic = broker.create_topic("t", TopicConfig::new().capacity(capacity).block(None)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    topic.publish_batch(0..capacity as u64).unwrap();
    (broker, topic, group)
}

/// Runs `call` twice: with a canceller that is used while it waits (`waits` says that it does), and one that was used before.
fn cancelled<R: Send + Debug>(mut call: impl FnMut(&Canceller) -> R + Send, waits: impl Fn() -> bool) -> [R; 2] {
    let cancel = Canceller::new();
    let during = thread::scope(|scope| {
        let call = scope.spawn(|| call(&cancel));
        while !waits() {
            thread::yield_now();
        }
        cancel.cancel();
        call.join().unwrap()
    });
    [during, call(&cancel)]
}

// B-23
#[test]
fn a_cancelled_publish_gives_its_value_back_and_leaves_the_topic_as_it_was() {
    for capacity in 1..=4 {
        let (_broker, topic, group) = full(capacity);
        let waiting = || topic.counts().blocked > 0;
        for refused in cancelled(|cancel| topic.publish_or_cancel(7, EVER, cancel), waiting) {
            assert!(matches!(refused, Err(PublishError::Cancelled { value: 7, partition: 0, .. })), "{refused:?}");
            assert_eq!(refused.unwrap_err().to_string(), "t/0: cancelled while it waited for room");
        }
        for refused in
            cancelled(|cancel| topic.publish_batch_or_cancel([7], EVER, cancel), || topic.counts().blocked > 2)
        {
            match refused {
                Err(BatchError::Stopped { rest, why: PublishError::Cancelled { .. }, .. }) => assert_eq!(rest, [7]),
                other => panic!("{other:?}"),
            }
        }
        let used = Canceller::new();
        used.cancel();
        assert!(matches!(topic.publish_to_or_cancel(1, 7, EVER, &used), Err(PublishError::NoSuchPartition { .. })));
        assert!(matches!(topic.publish_to_or_cancel(0, 7, Duration::ZERO, &used), Err(PublishError::Full { .. })));
        assert_eq!((topic.end(0), group.lag()), (Some(capacity as u64), capacity as u64));
        group.delete();
        assert!(
            topic.publish_or_cancel(7, EVER, &used).is_ok(),
            "where there is room, nobody waits and it is not asked"
        );
    }
}

// B-23
#[test]
fn an_exclusive_producer_can_be_cancelled_too() {
    for capacity in 1..=4 {
        let broker = Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
        let config = TopicConfig::new().capacity(capacity).block(None);
        let (topic, mut producer) = broker.create_exclusive("t", config).unwrap();
        topic.group("g", GroupConfig::earliest()).unwrap();
        producer.publish_batch(0..capacity as u64).unwrap();
        for refused in cancelled(|cancel| producer.publish_or_cancel(7, EVER, cancel), || topic.counts().blocked > 0) {
            assert!(matches!(refused, Err(PublishError::Cancelled { value: 7, .. })), "{refused:?}");
        }
        let batch =
            cancelled(|cancel| producer.publish_batch_or_cancel([7], EVER, cancel), || topic.counts().blocked > 2);
        assert!(batch.iter().all(|refused| matches!(refused, Err(BatchError::Stopped { rest, .. }) if *rest == [7])));
        assert_eq!(topic.end(0), Some(capacity as u64), "what was given back is not there");
    }
}

// B-23
#[test]
fn of_two_who_wait_only_the_one_is_cancelled_and_the_other_gets_the_room() {
    for capacity in 1..=4 {
        let (_broker, topic, group) = full(capacity);
        let (cancel, other) = (Canceller::new(), Canceller::new());
        thread::scope(|scope| {
            let first = scope.spawn(|| topic.publish_or_cancel(7, EVER, &cancel));
            let second = scope.spawn(|| topic.publish_or_cancel(8, EVER, &other));
            while topic.counts().blocked < 2 {
                thread::yield_now();
            }
            cancel.cancel();
            assert!(first.join().unwrap().is_err());
            group.seek(0, ringlog::SeekTo::Latest).unwrap();
            assert_eq!(second.join().unwrap().unwrap().offset(), capacity as u64);
        });
    }
}

/// A member that reports each record and holds it until it is let go.
fn stuck(group: &Group<u64>) -> (Receiver<bool>, Sender<()>) {
    let ((tell, told), (go, gate)) = (channel(), channel::<()>());
    let handler = move |record: &Record<'_, u64>| {
        let _ = tell.send(record.is_closing());
        let _ = gate.recv();
        let _ = tell.send(record.is_closing());
    };
    group.subscribe("m", handler).unwrap();
    (told, go)
}

// B-23, A-69
#[test]
fn a_cancelled_drain_and_a_cancelled_wait_name_who_is_behind() {
    let (broker, topic, group) = full(2);
    let (told, go) = stuck(&group);
    told.recv_timeout(LONG).unwrap();
    for drained in cancelled(|cancel| broker.drain_or_cancel(EVER, cancel), || true) {
        match drained {
            Err(DrainError::Cancelled { behind }) => assert_eq!((&*behind[0].group, behind[0].lag), ("g", 2)),
            other => panic!("{other:?}"),
        }
    }
    let at = Position { partition: 0, offset: 1 };
    for waited in cancelled(|cancel| topic.wait_committed_or_cancel(at, &["g"], EVER, cancel), || true) {
        assert!(matches!(&waited, Err(WaitError::Cancelled { behind, .. }) if behind.len() == 1), "{waited:?}");
    }
    drop(go);
    let used = Canceller::new();
    topic.wait_committed_or_cancel(at, &["g"], EVER, &used).unwrap();
    used.cancel();
    assert_eq!(topic.wait_committed_or_cancel(at, &["g"], EVER, &used), Ok(()), "it is done: nobody waits");
    assert_eq!(broker.drain_or_cancel(EVER, &used), Ok(()));
}

// B-23, A-35, A-59
#[test]
fn a_cancelled_close_goes_on_without_waiting_and_handlers_see_that_it_is_time_to_finish() {
    let (broker, topic, group) = full(2);
    let (told, go) = stuck(&group);
    assert_eq!(told.recv_timeout(LONG), Ok(false), "nobody closes yet");
    let cancel = Canceller::new();
    thread::scope(|scope| {
        let closer = scope.spawn(|| broker.close_or_cancel(None, &cancel));
        while broker.state() == ringlog::BrokerState::Open {
            thread::yield_now();
        }
        let late = scope.spawn(|| broker.close(None));
        assert!(topic.publish(9).is_err());
        cancel.cancel();
        let account = closer.join().unwrap();
        assert_eq!((account.drained, account.stopped, account.left()), (false, false, 2));
        assert_eq!(late.join().unwrap(), account, "who waits for the same close gets its account");
    });
    drop(go);
    assert_eq!(told.recv_timeout(LONG), Ok(true));
}

// B-23
#[test]
fn who_waits_for_another_s_close_may_hurry_it() {
    let (broker, _topic, group) = full(1);
    let (told, go) = stuck(&group);
    told.recv_timeout(LONG).unwrap();
    let cancel = Canceller::new();
    thread::scope(|scope| {
        let closer = scope.spawn(|| broker.close(None));
        while broker.state() == ringlog::BrokerState::Open {
            thread::yield_now();
        }
        let hurried = scope.spawn(|| broker.close_or_cancel(None, &cancel));
        cancel.cancel();
        assert_eq!(hurried.join().unwrap(), closer.join().unwrap());
    });
    drop(go);
}
