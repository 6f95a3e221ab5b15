//! What a broker's timer runs of the user's, and that it waits for nobody there.

use super::SECOND;
use super::lab::Lab;
use ringlog::{
    Broker, Canceller, Consumer, Group, GroupConfig, Position, PublishError, Retain, Retry, Select, Topic, TopicConfig,
    WaitError,
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

/// Polls for ever, in each of the ways there are, and tells what it was given.
fn polls(
    consumer: Consumer<u64>,
    tell: Sender<(&'static str, Vec<u64>)>,
) -> impl Fn(&'static str) + Send + Sync + Clone {
    let all = Arc::new(Mutex::new((consumer, Canceller::new(), tell)));
    move |what| {
        let (consumer, cancel, tell) = &mut *all.lock().unwrap();
        let mut seen: Vec<u64> = consumer.poll(1, Duration::MAX).unwrap().iter().map(|record| *record).collect();
        seen.extend(consumer.poll_or_cancel(1, Duration::MAX, cancel).unwrap().iter().map(|record| *record));
        seen.extend(Select::new().wait(&[consumer], Duration::MAX).map(|which| which as u64));
        tell.send((what, seen)).unwrap();
    }
}

/// A group whose only record is given up when its lease is over, and its letter lost: each of that is told to `told`, on the timer.
fn told_by_the_timer(broker: &Broker, lease: Duration, told: impl Fn(&'static str) + Send + Sync + Clone + 'static) {
    let (bury, expired, lost) = (told.clone(), told.clone(), told);
    let config =
        GroupConfig::earliest().retry(Retry::never()).lease(lease).letters(0).bury_with(move |value: &u64, _| {
            bury("bury");
            *value
        });
    let config = config.on_expired(move |_| expired("expired")).on_letter_lost(move |_| lost("lost"));
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    topic.publish(1).unwrap();
    // It is never heard of again: only the timer can find out.
    std::mem::forget(hangs(&topic.group("g", config).unwrap()));
}

/// Of whatever broker: the timer of this one would have to end the wait for a lease, and that of another one may wait for this.
#[test]
fn a_poll_on_the_timer_gives_what_is_there_and_does_not_wait() {
    for case in 0..8 {
        let (stands_still, its_own, there) = (case & 1 != 0, case & 2 != 0, case & 4 != 0);
        let (lab, running, other) = (Lab::new(1), Broker::new(), Broker::new());
        let broker = if stands_still { &lab.broker } else { &running };
        let polled = if its_own { broker } else { &other };
        let polled = polled.create_topic("polled", TopicConfig::<u64>::new()).unwrap();
        let (tell, told) = channel();
        let poll = polls(polled.group("g", GroupConfig::earliest()).unwrap().consumer("c").unwrap(), tell);
        if there {
            polled.publish(7).unwrap();
        }
        told_by_the_timer(broker, if stands_still { SECOND } else { Duration::from_millis(1) }, poll);
        let clock = lab.clock.clone();
        let moves = thread::spawn(move || clock.advance(SECOND));
        let mut said: Vec<_> = (0..3).map(|_| told.recv_timeout(LONG).expect("the timer waits")).collect();
        said.sort_unstable();
        let seen = if there { vec![7, 7, 0] } else { vec![] };
        assert_eq!(said, ["bury", "expired", "lost"].map(|what| (what, seen.clone())), "{case}");
        moves.join().unwrap();
    }
}
