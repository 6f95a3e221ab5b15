//! Consumers where the records of a key keep their order.

use super::lab::Lab;
use super::{SECOND, values};
use ringlog::{Broker, Consumer, Failure, Group, GroupConfig, Order, PublishError, Retry, SeekTo, Topic, TopicConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

static KEYS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

fn by_key(retry: Retry) -> GroupConfig<u64> {
    GroupConfig::earliest().order(Order::Key).retry(retry)
}

/// The keys are the last digits.
fn keyed(lab: &Lab, capacity: usize, config: GroupConfig<u64>, all: &[u64]) -> (Topic<u64>, Group<u64>) {
    let topic =
        TopicConfig::new().capacity(capacity).key(|n: &u64| KEYS[(n % 10) as usize]).block(Some(Duration::ZERO));
    let topic = lab.broker.create_topic("keyed", topic).unwrap();
    let group = topic.group("g", config).unwrap();
    topic.publish_batch(all.to_vec()).unwrap();
    (topic, group)
}

fn poll(consumer: &mut Consumer<u64>) -> Vec<u64> {
    values(&consumer.try_poll(9).unwrap())
}

#[test]
fn what_is_in_flight_holds_up_its_key_and_no_other() {
    let lab = Lab::new(1);
    let (_topic, group) = keyed(&lab, 64, by_key(Retry::constant(9, SECOND)), &[1, 11, 2, 21, 12, 3]);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    let first = one.try_poll(1).unwrap().detach();
    let others = two.try_poll(9).unwrap();
    assert_eq!(values(&others), [2], "up to the next of the key that is in flight");
    others.ack().unwrap();
    let others = two.try_poll(9).unwrap();
    assert_eq!(values(&others)[0], 12);
    drop(others);
    first.nack(Failure::new("no")).unwrap();
    let mut seen = Vec::new();
    for _ in 0..9 {
        let batch = two.try_poll(9).unwrap();
        seen.extend(values(&batch));
        batch.ack().unwrap();
    }
    seen.sort_unstable();
    assert_eq!(seen, [3, 12], "1 waits for its time, and 11 and 21 for it");
    lab.clock.advance(SECOND);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let batch = one.try_poll(9).unwrap();
        seen.extend(values(&batch));
        batch.ack().unwrap();
    }
    assert_eq!((seen, group.stats().acked(), group.lag()), (vec![1, 11, 21], 6, 0));
}

// X7: "where the record waits"
#[test]
fn a_batch_may_hold_several_of_a_key_and_what_is_behind_the_one_that_failed_waits_for_it() {
    let lab = Lab::new(1);
    let (_topic, group) = keyed(&lab, 64, by_key(Retry::constant(9, SECOND)), &[1, 11, 21, 31, 2]);
    let mut consumer = group.consumer("c").unwrap();
    let mut batch = consumer.try_poll(9).unwrap();
    assert_eq!(values(&batch), [1, 11, 21, 31, 2]);
    batch.nack_from(1, Failure::new("no")).unwrap();
    drop(batch);
    let other = consumer.try_poll(9).unwrap();
    assert_eq!((values(&other), group.stats().retried()), (vec![2], 1));
    other.ack().unwrap();
    lab.clock.advance(SECOND);
    assert_eq!(poll(&mut consumer), [11]);
    group.seek(0, SeekTo::Offset(2)).unwrap();
    assert_eq!(poll(&mut consumer), [21, 31], "a seek begins anew with what is not done");
}

// X7
#[test]
fn behind_a_key_that_fails_some_wait_and_the_rest_is_buried_by_who_polls() {
    let lab = Lab::new(1);
    let (_topic, group) = keyed(&lab, 8, by_key(Retry::constant(9, SECOND)), &[1, 11, 21, 31, 41, 2]);
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    assert_eq!(poll(&mut consumer), [2]);
    let kinds: Vec<_> = group.letters().iter().map(|letter| (letter.offset(), letter.kind().to_owned())).collect();
    assert_eq!(kinds, [(3, "behind".to_owned()), (4, "behind".to_owned())]);
    assert_eq!(group.stats().in_flight(), 0);
    assert!(group.stats().balances());
}

#[test]
fn of_each_key_one_is_polled_after_the_other_is_done() {
    let (records, keys) = if cfg!(miri) { (60, 5) } else { (3_000, 5) };
    let broker = Broker::new();
    let topic =
        TopicConfig::new().capacity(4 * records as usize).key(move |n: &u64| KEYS[(n % keys) as usize]).block(None);
    let topic = broker.create_topic("keyed", topic).unwrap();
    let config = by_key(Retry::constant(1, Duration::ZERO).unlimited());
    let group = topic.group("g", config).unwrap();
    // Nothing is buried because too much waits.
    let done: Vec<AtomicBool> = (0..records).map(|_| AtomicBool::new(false)).collect();
    let failed = AtomicBool::new(false);
    let works = |name: u64| {
        let mut consumer = group.consumer(&name.to_string()).unwrap();
        let mut turn = name;
        while !failed.load(Ordering::SeqCst) && (group.lag() > 0 || topic.end(0) != Some(records)) {
            turn += 1;
            let mut batch = consumer.poll(1 + (turn % 7) as usize, Duration::from_millis(1)).unwrap();
            let (all, first) = (values(&batch), batch.offsets().start);
            for (at, n) in all.iter().enumerate() {
                let before = (n % keys..*n).step_by(keys as usize);
                let is_done = |n: u64| done[n as usize].load(Ordering::SeqCst) || all[..at].contains(&n);
                let in_order = before.into_iter().all(is_done);
                failed.fetch_or(!in_order, Ordering::SeqCst);
                assert!(in_order, "{n} of {all:?}");
            }
            let fails = (turn % 5) as usize;
            let good = if fails < 2 && !all.is_empty() { turn as usize % all.len() } else { all.len() };
            all[..good].iter().for_each(|n| assert!(!done[*n as usize].swap(true, Ordering::SeqCst)));
            if good == all.len() {
                batch.ack().unwrap();
            } else if fails == 0 {
                batch.nack_from(first + good as u64, Failure::new("no")).unwrap();
            } else {
                if good > 0 {
                    batch.ack_through(first + good as u64 - 1).unwrap();
                }
                drop(batch);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| (0..records).for_each(|n| assert!(topic.publish(n).is_ok())));
        let works = &works;
        (0..3).for_each(|name| _ = scope.spawn(move || works(name)));
    });
    let stats = group.stats();
    assert!(stats.balances(), "{stats:?}");
    assert_eq!((stats.acked(), stats.lag()), (records, 0));
}

// It is in a hand of its own meanwhile, which nobody was given, and is inside as a handler is.
#[test]
fn a_record_that_a_poll_buries_is_nobody_s_to_expire_and_its_burying_function_never_waits_for_room() {
    let lab = Lab::new(1);
    let topic = TopicConfig::new().capacity(4).key(|n: &u64| KEYS[(n % 10) as usize]).block(None);
    let topic = lab.broker.create_topic("keyed", topic).unwrap();
    let ((tell, told), again, clock) = (mpsc::channel(), topic.clone(), lab.clock.clone());
    let bury = move |value: &u64, _: &Failure| {
        let refused = matches!(again.publish(*value), Err(PublishError::WouldDeadlock { .. }));
        clock.advance(30 * SECOND);
        tell.send((*value, refused)).unwrap();
    };
    let config = by_key(Retry::constant(9, 100 * SECOND)).lease(30 * SECOND).bury_with(bury);
    let group = topic.group("g", config).unwrap();
    topic.publish_batch(vec![1, 11, 21, 2]).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    let polls = thread::spawn(move || poll(&mut consumer));
    assert_eq!(told.recv_timeout(60 * SECOND), Ok((21, true)));
    assert_eq!(polls.join().unwrap(), [2]);
    let stats = group.stats();
    assert_eq!((stats.dead(), stats.refused(), stats.lanes[0].leases_expired), (1, 0, 0));
    assert!(stats.balances());
}

#[test]
fn what_was_claimed_behind_the_border_of_a_page_is_not_acknowledged_with_what_lies_before_it() {
    const PAGE: u64 = 128; // at this capacity
    let lab = Lab::new(1);
    let (topic, group) = keyed(&lab, PAGE as usize, by_key(Retry::constant(9, SECOND)), &[]);
    let mut consumer = group.consumer("c").unwrap();
    let mut done = Vec::new();
    for n in 0..PAGE + 8 {
        topic.publish(n).unwrap();
        let batch = consumer.try_poll(9).unwrap();
        done.extend(values(&batch));
        batch.ack().unwrap();
    }
    assert_eq!(done, (0..PAGE + 8).collect::<Vec<_>>());
    // The keys on both sides are known from now on, so one claim may cross the border. A batch does not.
    group.seek(0, SeekTo::Offset(PAGE - 2)).unwrap();
    let before = consumer.try_poll(9).unwrap();
    assert_eq!(values(&before), [PAGE - 2, PAGE - 1]);
    before.ack().unwrap();
    assert_eq!((group.stats().lanes[0].committed, group.lag()), (PAGE, 8));
    let mut behind = Vec::new();
    loop {
        let batch = consumer.try_poll(9).unwrap();
        if batch.is_empty() {
            break;
        }
        behind.extend(values(&batch));
        batch.ack().unwrap();
    }
    behind.sort_unstable(); // what was given back has its turns with what is fresh
    assert_eq!((behind, group.lag()), ((PAGE..PAGE + 8).collect(), 0));
}
