//! Waiting for several consumers at once.
#![forbid(unsafe_code)]

use ringlog::{
    Broker, BrokerConfig, Canceller, Consumer, Failure, GroupConfig, ManualClock, PollError, Pollable, Retry, Select,
    Topic, TopicConfig,
};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

fn manual() -> (Arc<ManualClock>, Broker) {
    let clock = Arc::new(ManualClock::new());
    (clock.clone(), Broker::with(BrokerConfig::new().clock(clock)))
}

fn topic<T: Send + Sync + 'static>(broker: &Broker, name: &str, partitions: u32) -> Topic<T> {
    broker.create_topic(name, TopicConfig::new().partitions(partitions).capacity(16).block(None)).unwrap()
}

/// A consumer of a group of its own.
fn consumer<T: Send + Sync + 'static>(topic: &Topic<T>, config: GroupConfig<T>) -> Consumer<T> {
    topic.group("g", config).unwrap().consumer("c").unwrap()
}

/// Selects on a thread of its own, and says what came of it; the consumers come back.
fn selecting<T: Send + Sync + 'static>(
    consumers: Vec<Consumer<T>>,
    limit: Duration,
) -> mpsc::Receiver<(Option<usize>, Vec<Consumer<T>>)> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let all: Vec<&dyn Pollable> = consumers.iter().map(|consumer| consumer as &dyn Pollable).collect();
        let found = Select::new().wait(&all, limit);
        drop(all);
        let _ = tell.send((found, consumers));
    });
    told
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn whoever_has_something_is_found_whatever_its_records_are_and_all_have_their_turn() {
    let broker = Broker::new();
    let (words, numbers) = (topic::<String>(&broker, "words", 2), topic::<u64>(&broker, "numbers", 1));
    let mut text = consumer(&words, GroupConfig::earliest());
    let mut count = consumer(&numbers, GroupConfig::earliest());
    for n in 0..6 {
        words.publish_to(n % 2, n.to_string()).unwrap();
        numbers.publish(u64::from(n)).unwrap();
    }
    let (mut select, mut came) = (Select::new(), Vec::new());
    while let Some(which) = select.wait(&[&text, &count], Duration::ZERO) {
        came.push(which);
        match which {
            0 => text.try_poll(1).unwrap().ack().unwrap(),
            _ => count.try_poll(1).unwrap().ack().unwrap(),
        }
    }
    assert_eq!(came, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1], "in turns, as long as both have something");
    assert_eq!(select.wait(&[], LONG), None, "of nobody, nothing comes");
}

#[test]
fn a_record_for_any_of_them_ends_the_wait() {
    let (clock, broker) = manual();
    let topics: Vec<Topic<u64>> = (0..3).map(|n| topic(&broker, &format!("t{n}"), 2)).collect();
    let mut consumers: Vec<_> = topics.iter().map(|topic| consumer(topic, GroupConfig::earliest())).collect();
    for n in [2, 0, 1, 1] {
        let told = selecting(consumers, Duration::MAX);
        clock.wait_for_sleepers(1);
        assert!(told.try_recv().is_err(), "nothing is there");
        topics[n].publish(7).unwrap();
        let found;
        (found, consumers) = told.recv_timeout(LONG).unwrap();
        assert_eq!(found, Some(n));
        let batch = consumers[n].try_poll(10).unwrap();
        assert_eq!(batch.len(), 1);
        batch.ack().unwrap();
    }
}

#[test]
fn the_wait_is_over_when_its_time_is_or_when_it_is_cancelled() {
    let (clock, broker) = manual();
    let topic = topic::<u64>(&broker, "t", 1);
    let mut waits = consumer(&topic, GroupConfig::earliest());
    assert_eq!(Select::new().wait(&[&waits], Duration::ZERO), None);
    let told = selecting(vec![waits], SECOND);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND - Duration::from_nanos(1));
    clock.wait_for_sleepers(1);
    assert!(told.try_recv().is_err(), "not a moment too early");
    clock.advance(Duration::from_nanos(1));
    let (found, mut back) = told.recv_timeout(LONG).unwrap();
    waits = back.remove(0);
    assert_eq!(found, None);

    let cancel = Canceller::new();
    let (stop, (tell, told)) = (cancel.clone(), mpsc::channel());
    thread::spawn(move || {
        let mut select = Select::new();
        let found = select.wait_or_cancel(&[&waits], Duration::MAX, &cancel);
        tell.send((found, select.wait_or_cancel(&[&waits], Duration::MAX, &cancel), waits)).unwrap();
    });
    clock.wait_for_sleepers(1);
    stop.cancel();
    let (found, again, waits) = told.recv_timeout(LONG).unwrap();
    assert_eq!((found, again), (None, None), "one that was used lets nobody wait");
    topic.publish(1).unwrap();
    assert_eq!(Select::new().wait_or_cancel(&[&waits], LONG, &stop), Some(0), "what is there is found all the same");
}

// B-34, B-8: by the deadline, with nobody to notify
#[test]
fn a_lease_that_ends_and_a_pause_that_is_over_end_the_wait() {
    let (clock, broker) = manual();
    let [leased, paused] = ["leased", "paused"].map(|name| topic::<u64>(&broker, name, 1));
    let mut one = consumer(&leased, GroupConfig::earliest().lease(LEASE));
    let mut two = consumer(&paused, GroupConfig::earliest().retry(Retry::constant(9, 40 * SECOND)));
    leased.publish(1).unwrap();
    paused.publish(2).unwrap();
    std::mem::forget(one.try_poll(1).unwrap().detach());
    two.try_poll(1).unwrap().nack(Failure::new("not now")).unwrap();

    let mut told = selecting(vec![one, two], Duration::MAX);
    clock.wait_for_sleepers(1);
    clock.advance(LEASE - Duration::from_nanos(1));
    clock.wait_for_sleepers(1);
    assert!(told.try_recv().is_err());
    clock.advance(Duration::from_nanos(1));
    let (found, mut back) = told.recv_timeout(LONG).unwrap();
    assert_eq!(found, Some(0), "its lease is over");
    let again = back[0].try_poll(1).unwrap();
    assert_eq!((again.len(), again.get(0).unwrap().attempt()), (1, 2));
    again.ack().unwrap();

    told = selecting(back, Duration::MAX);
    clock.wait_for_sleepers(1);
    clock.advance(10 * SECOND);
    let (found, mut back) = told.recv_timeout(LONG).unwrap();
    assert_eq!((found, back[1].try_poll(1).unwrap().get(0).unwrap().attempt()), (Some(1), 2));
}

#[test]
fn what_others_leave_or_resume_and_what_is_over_ends_the_wait() {
    let (clock, broker) = manual();
    let topic = topic::<u64>(&broker, "t", 2);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (mine, other) = (group.consumer("mine").unwrap(), group.consumer("other").unwrap());
    topic.publish_to(1, 5).unwrap(); // the other one's

    let told = selecting(vec![mine], Duration::MAX);
    clock.wait_for_sleepers(1);
    drop(other);
    let (found, mut back) = told.recv_timeout(LONG).unwrap();
    assert_eq!((found, back[0].try_poll(9).unwrap().len()), (Some(0), 1), "it was left to this one, and released");

    group.pause();
    let told = selecting(back, Duration::MAX);
    clock.wait_for_sleepers(1);
    group.resume();
    let (found, back) = told.recv_timeout(LONG).unwrap();
    assert_eq!(found, Some(0));

    group.pause();
    let told = selecting(back, Duration::MAX);
    clock.wait_for_sleepers(1);
    group.delete();
    let (found, mut back) = told.recv_timeout(LONG).unwrap();
    assert_eq!(found, Some(0));
    assert!(matches!(back[0].try_poll(1), Err(PollError::Closed { .. })));
}

#[test]
fn consumers_of_several_brokers_may_be_waited_for() {
    let (one, other) = (Broker::new(), Broker::new());
    let (early, late) = (topic::<u64>(&one, "t", 1), topic::<u64>(&other, "t", 1));
    let told = selecting(
        vec![consumer(&early, GroupConfig::earliest()), consumer(&late, GroupConfig::earliest())],
        Duration::MAX,
    );
    late.publish(1).unwrap();
    assert_eq!(told.recv_timeout(LONG).unwrap().0, Some(1));
}
