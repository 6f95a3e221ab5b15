//! What a broker's timer runs of the user's, and that it waits for nobody there.

use super::SECOND;
use super::lab::Lab;
use ringlog::{
    Broker, Consumer, Group, GroupConfig, Position, PublishError, Retain, Retry, Topic, TopicConfig, WaitError,
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// Publishes, for as long as it takes, and tells what came of it.
fn publishes<E>(topic: &Topic<u64>, tell: Sender<&'static str>) -> impl Fn(&E) + Send + Sync + 'static {
    let (topic, tell) = (topic.clone(), Mutex::new(tell));
    move |_| {
        let said = match topic.publish(9) {
            Ok(_) => "stored",
            Err(PublishError::WouldDeadlock { .. }) => "refused",
            Err(PublishError::Full { .. }) => "full",
            Err(_) => "something else",
        };
        tell.lock().unwrap().send(said).unwrap();
    }
}

/// Of one record, so that it is full with that.
fn full(broker: &Broker, name: &str) -> Topic<u64> {
    let topic = broker.create_topic(name, TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    topic.publish(1).unwrap();
    topic
}

/// A consumer that hangs with the record.
fn hangs(group: &Group<u64>) -> Consumer<u64> {
    let mut consumer = group.consumer("c").unwrap();
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    consumer
}

#[test]
fn a_hook_of_leases_does_not_wait_for_room_whoever_is_to_make_it() {
    let lab = Lab::new(1);
    let (tell, told) = channel();
    let topic = full(&lab.broker, "its own");
    let config = GroupConfig::earliest().lease(SECOND).on_expired(publishes(&topic, tell));
    let _hung = hangs(&topic.group("g", config).unwrap());

    // Held back by a group of another broker, which has nobody yet; and by no group.
    let (elsewhere, (tell_too, told_too)) = (Broker::new(), channel());
    let other = full(&elsewhere, "another broker's");
    let _nobody = other.group("g", GroupConfig::earliest()).unwrap();
    let watched = topic.group("watched", GroupConfig::earliest().lease(SECOND).on_expired(publishes(&other, tell_too)));
    let _hung_too = hangs(&watched.unwrap());
    let kept = TopicConfig::<u64>::new().capacity(1).block(None).retain(Retain::Backlog);
    let kept = lab.broker.create_topic("kept for who comes", kept).unwrap();
    kept.publish(1).unwrap();
    let (tell_of_kept, told_of_kept) = channel();
    let config = GroupConfig::earliest().lease(SECOND).on_expired(publishes(&kept, tell_of_kept));
    let _hung_three = hangs(&topic.group("kept", config).unwrap());

    let clock = lab.clock.clone();
    let moves = thread::spawn(move || clock.advance(SECOND));
    assert_eq!(told.recv_timeout(LONG), Ok("refused"));
    assert_eq!(told_too.recv_timeout(LONG), Ok("refused"));
    assert_eq!(told_of_kept.recv_timeout(LONG), Ok("full"));
    moves.join().unwrap();
    // Whoever moves a clock is a timer only as long as he does.
    assert!(matches!(topic.try_publish(9), Err(PublishError::Full { .. })));
}

#[test]
fn a_hook_of_letters_does_not_wait_on_the_thread_of_a_clock_that_runs() {
    let (broker, (tell, told)) = (Broker::new(), channel());
    let topic = full(&broker, "t");
    let other = broker.create_topic("other", TopicConfig::<u64>::new()).unwrap();
    let config = GroupConfig::earliest().retry(Retry::never()).lease(Duration::from_millis(1)).letters(0).bury_cloned();
    let config = config.on_letter_lost(publishes(&topic, tell));
    let _held_back = topic.group("g", GroupConfig::earliest()).unwrap();
    other.publish(1).unwrap();
    let _hung = hangs(&other.group("g", config).unwrap());
    assert_eq!(told.recv_timeout(LONG), Ok("refused"));
}

#[test]
fn a_hook_does_not_wait_for_a_commit_either() {
    let (lab, told) = (Lab::new(1), Arc::new(Mutex::new(None)));
    let topic = full(&lab.broker, "t");
    let (waiter, noted) = (topic.clone(), told.clone());
    let config = GroupConfig::earliest().lease(SECOND).on_expired(move |expired| {
        *noted.lock().unwrap() =
            Some(waiter.wait_committed(Position { partition: 0, offset: expired.offset }, &["nobody yet"], LONG));
    });
    let _hung = hangs(&topic.group("g", config).unwrap());
    let _nobody = topic.group("nobody yet", GroupConfig::earliest()).unwrap();
    let (clock, (tell, moved)) = (lab.clock.clone(), channel());
    thread::spawn(move || {
        clock.advance(SECOND);
        tell.send(()).unwrap();
    });
    assert!(moved.recv_timeout(LONG).is_ok(), "it waits");
    assert!(matches!(told.lock().unwrap().take(), Some(Err(WaitError::WouldDeadlock { .. }))));
}
