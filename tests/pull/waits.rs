//! Waiting for records, and what ends it.

use super::lab::Lab;
use super::{SECOND, forever, group, values};
use ringlog::{Broker, BrokerState, Canceller, PollError, TopicConfig};
use std::thread;
use std::time::Duration;

// A-49, B-5, B-33
#[test]
fn a_poll_that_waits_ends_with_the_first_record_or_with_its_time() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    let mut consumer = group.consumer("c").unwrap();
    let clock = lab.clock.clone();
    let asleep = || {
        while clock.sleepers() == 0 {
            thread::yield_now();
        }
    };
    let waiter = thread::spawn(move || {
        let empty = consumer.poll(9, SECOND).unwrap().is_empty();
        (consumer, empty)
    });
    asleep();
    clock.advance(SECOND);
    let (mut consumer, empty) = waiter.join().unwrap();
    assert!(empty);
    let waiter = thread::spawn(move || values(&consumer.poll(9, Duration::MAX).unwrap()));
    asleep();
    topic.publish(3).unwrap();
    assert_eq!(waiter.join().unwrap(), [3]);
}

// A-49, B-23
#[test]
fn a_cancelled_poll_is_empty_and_takes_what_is_there_without_waiting() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    let mut consumer = group.consumer("c").unwrap();
    let (cancel, clock) = (Canceller::new(), lab.clock.clone());
    let stop = cancel.clone();
    let waiter = thread::spawn(move || {
        assert!(consumer.poll_or_cancel(9, Duration::MAX, &cancel).unwrap().is_empty());
        assert!(cancel.is_cancelled());
        topic.publish(1).unwrap();
        values(&consumer.poll_or_cancel(9, Duration::MAX, &cancel).unwrap())
    });
    while clock.sleepers() == 0 {
        thread::yield_now();
    }
    stop.cancel();
    assert_eq!(waiter.join().unwrap(), [1]);
}

#[test]
fn a_deleted_group_and_a_closed_broker_wake_who_waits() {
    for close in [false, true] {
        let lab = Lab::new(1);
        let (_topic, group) = group(&lab, 100, forever());
        let mut consumer = group.consumer("c").unwrap();
        let waiter = thread::spawn(move || consumer.poll(9, Duration::MAX).map(|batch| batch.len()));
        while lab.clock.sleepers() == 0 {
            thread::yield_now();
        }
        if close {
            lab.broker.close(Some(Duration::ZERO));
        } else {
            group.delete();
        }
        let ended = waiter.join().unwrap();
        assert!(matches!(ended, Err(PollError::Closed { .. })), "{ended:?}");
    }
}

#[test]
fn a_release_from_another_thread_and_a_resume_wake_who_waits() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever());
    topic.publish(4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    let wait = |mut consumer: ringlog::Consumer<u64>| {
        let waiter = thread::spawn(move || {
            let got = values(&consumer.poll(9, Duration::MAX).unwrap());
            (consumer, got)
        });
        while lab.clock.sleepers() == 0 {
            thread::yield_now();
        }
        waiter
    };
    let waiter = wait(consumer);
    drop(receipt);
    let (consumer, got) = waiter.join().unwrap();
    assert_eq!(got, [4]);
    group.pause();
    let waiter = wait(consumer);
    group.resume();
    assert_eq!(waiter.join().unwrap().1, [4]);
}

// X28
#[test]
fn a_drain_and_a_close_wait_for_what_is_in_flight() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", forever()).unwrap();
    topic.publish_batch(0..3).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let mut all = consumer.try_poll(9).unwrap().detach();
    assert_eq!(group.stats().in_flight(), 3, "nothing is left to be handed out");
    assert!(broker.drain(Duration::ZERO).is_err(), "what is in flight holds it up by itself");
    all.ack_through(0).unwrap();
    assert!(broker.drain(Duration::ZERO).is_err());
    all.ack_through(2).unwrap();
    assert!(broker.drain(Duration::ZERO).is_ok());
    topic.publish_batch(0..3).unwrap();
    let first = consumer.try_poll(1).unwrap().detach();
    let draining = thread::spawn({
        let broker = broker.clone();
        move || broker.drain(60 * SECOND)
    });
    first.ack().unwrap();
    let rest = consumer.try_poll(9).unwrap().detach();
    rest.ack().unwrap();
    draining.join().unwrap().unwrap();

    topic.publish_batch(6..9).unwrap();
    let closing = thread::spawn({
        let broker = broker.clone();
        move || broker.close(Some(60 * SECOND))
    });
    while broker.state() == BrokerState::Open {
        thread::yield_now();
    }
    while let Ok(batch) = consumer.poll(2, Duration::from_millis(1)) {
        let receipt = batch.detach();
        thread::spawn(move || receipt.ack()).join().unwrap().unwrap();
    }
    let account = closing.join().unwrap();
    assert_eq!((account.left(), account.stopped), (0, true));
}
