//! User code of groups of consumers that waits: for the group itself, which is refused, and for others, who are not held up.

use super::lab::Lab;
use super::{SECOND, figures, values};
use ringlog::{Broker, BrokerState, DrainError, Failure, GroupConfig, Pick, Retry, Standing, Topic, TopicConfig};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

type Said = Arc<Mutex<Vec<String>>>;

/// Drains, as it must not, and writes down what came of it.
fn drains(broker: &Broker, said: &Said) -> impl Fn() + Send + Sync + 'static {
    let (broker, said) = (broker.clone(), said.clone());
    move || {
        let drained = match broker.drain(LONG) {
            Err(DrainError::WouldDeadlock) => "refused".to_owned(),
            other => format!("{other:?}"),
        };
        said.lock().unwrap().push(drained);
    }
}

fn said(said: &Said) -> Vec<String> {
    std::mem::take(&mut said.lock().unwrap())
}

#[test]
fn a_burying_function_that_drains_is_refused_on_whatever_thread() {
    let (lab, told) = (Lab::new(1), Said::default());
    let drain = drains(&lab.broker, &told);
    let config = GroupConfig::earliest().retry(Retry::never()).lease(30 * SECOND).bury_with(move |value: &u64, _| {
        drain();
        *value
    });
    let (topic, group) = super::group(&lab, 100, config);
    topic.publish_batch(0..3).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    assert_eq!(said(&told), ["refused"], "who nacks");
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    lab.clock.advance(30 * SECOND);
    assert_eq!(said(&told), ["refused"], "the timer");
    assert_eq!(group.letters().len(), 2);
    consumer.try_poll(1).unwrap().ack().unwrap();
    assert!(lab.broker.drain(Duration::ZERO).is_ok(), "outside it is as ever");
    assert_eq!(figures(&group).2, 1);
}

#[test]
fn a_burying_function_that_publishes_to_its_own_full_topic_is_refused_on_the_timer_too() {
    let (lab, told) = (Lab::new(1), Said::default());
    let topic = lab.broker.create_topic("full", TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    let (publisher, noted) = (topic.clone(), told.clone());
    let config = GroupConfig::earliest().retry(Retry::never()).lease(SECOND).bury_with(move |value: &u64, _| {
        noted
            .lock()
            .unwrap()
            .push(publisher.publish(9).map_or_else(|refused| refused.to_string(), |_| "stored".into()));
        *value
    });
    let group = topic.group("g", config).unwrap();
    topic.publish(1).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    let clock = lab.clock.clone();
    let (tell, done) = channel();
    thread::spawn(move || {
        clock.advance(SECOND);
        tell.send(()).unwrap();
    });
    assert!(done.recv_timeout(LONG).is_ok(), "it waits for itself, and all leases with it");
    let said = said(&told);
    assert!(said.len() == 1 && said[0] != "stored", "{said:?}");
    assert_eq!(group.letters().len(), 1);
}

#[test]
fn hooks_of_gaps_and_of_leases_that_close_or_drain_do_not_wait_for_themselves() {
    let (lab, told) = (Lab::new(1), Said::default());
    let drain = drains(&lab.broker, &told);
    let config = GroupConfig::earliest().lease(SECOND).on_expired(move |_| drain());
    let (topic, group) = super::group(&lab, 100, config);
    topic.publish(1).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    lab.clock.advance(SECOND);
    assert_eq!(said(&told), ["refused"]);

    let broker = lab.broker.clone();
    let config = TopicConfig::<u64>::new().capacity(2).drop_oldest();
    let lossy = lab.broker.create_topic("lossy", config).unwrap();
    let (tell, closed) = channel();
    let tell = Mutex::new(tell);
    let on_gap = move |_: &ringlog::Gap| tell.lock().unwrap().send(broker.close(None).stopped).unwrap();
    let group = lossy.group("g", GroupConfig::earliest().on_gap(on_gap)).unwrap();
    (0..4).for_each(|_| drop(lossy.publish_batch(0..2).unwrap()));
    let mut late = group.consumer("c").unwrap();
    let poller = thread::spawn(move || late.try_poll(1).map(|batch| batch.len()).is_ok());
    assert!(closed.recv_timeout(LONG).is_ok(), "it waits for itself");
    poller.join().unwrap();
    assert_eq!(lab.broker.state(), BrokerState::Closed);
}

#[test]
fn room_that_an_ack_makes_is_known_before_another_record_is_buried() {
    let lab = Lab::new(1);
    let (through, wait) = channel();
    let (wait, waited) = (Mutex::new(wait), Arc::new(Mutex::new(None)));
    let seen = waited.clone();
    let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO)).bury_with(move |value: &u64, _| {
        *seen.lock().unwrap() = Some(wait.lock().unwrap().recv_timeout(LONG).is_ok());
        *value
    });
    let topic = lab.broker.create_topic("t", TopicConfig::<u64>::new().capacity(2).block(None)).unwrap();
    let group = topic.group("g", config).unwrap();
    topic.publish_batch(0..2).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(2).unwrap().nack(Failure::new("once")).unwrap();
    let one = consumer.try_poll(2).unwrap().detach();
    consumer.try_poll(2).unwrap().nack(Failure::new("twice")).unwrap();
    assert_eq!(figures(&group), (0, 1, 0), "the second is to be buried behind the first");
    let publisher = thread::spawn({
        let topic: Topic<u64> = topic.clone();
        move || {
            topic.publish(2).unwrap();
            through.send(()).unwrap();
        }
    });
    while lab.clock.sleepers() == 0 {
        thread::yield_now();
    }
    one.ack().unwrap();
    publisher.join().unwrap();
    assert_eq!(*waited.lock().unwrap(), Some(true), "a publisher waited for room that there was");
    assert_eq!(values(&consumer.try_poll(9).unwrap()), [2]);
}

#[test]
fn the_leases_of_all_groups_end_before_anything_is_buried() {
    let (lab, other) = (Lab::new(1), Arc::new(Mutex::new(None::<ringlog::Group<u64>>)));
    let (there, expired) = (other.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = expired.clone();
    let config = GroupConfig::earliest().retry(Retry::never()).lease(SECOND).bury_with(move |value: &u64, _| {
        let other = there.lock().unwrap().clone().unwrap();
        seen.lock().unwrap().push((other.stats().leases_expired(), other.standing(0).unwrap()));
        *value
    });
    let (topic, first) = super::group(&lab, 100, config);
    let second = topic.group("second", GroupConfig::earliest().lease(SECOND)).unwrap();
    *other.lock().unwrap() = Some(second.clone());
    topic.publish(1).unwrap();
    let (mut one, mut two) = (first.consumer("c").unwrap(), second.consumer("c").unwrap());
    std::mem::forget((one.try_poll(1).unwrap().detach(), two.try_poll(1).unwrap().detach()));
    lab.clock.advance(SECOND);
    let retrying = Standing::Retrying { attempts: 1, wait: Duration::ZERO };
    assert_eq!(*expired.lock().unwrap(), [(1, retrying)]);
    *other.lock().unwrap() = None;
}

#[test]
fn letters_that_wait_for_a_poll_are_told_of_and_a_drain_ends_by_its_limit() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let config = GroupConfig::earliest().retry(Retry::never()).bury_cloned();
    let group = topic.group("g", config).unwrap();
    topic.publish(1).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
    let standing = group.standing(0).unwrap();
    assert_eq!(standing, Standing::LettersWait { member: "c".into() });
    assert_eq!(standing.to_string(), "redriven letters wait for the next poll of 'c'");
    assert!(topic.describe().to_string().contains("wait for the next poll"));
    let limit = Duration::from_millis(20);
    assert!(matches!(broker.drain(limit), Err(DrainError::TimedOut { waited, .. }) if waited >= limit));
    drop(consumer);
    let manual = ringlog::Manual::new(1);
    let _member = group.member("m").run(&manual).subscribe(|_| ()).unwrap();
    manual.run(9);
    assert!(broker.drain(Duration::ZERO).is_ok());
}
