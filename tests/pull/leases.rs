//! Leases: over at their deadline, never before, and once.

use super::lab::Lab;
use super::{SECOND, figures, forever, group, peek, values};
use ringlog::{
    Broker, BrokerConfig, Clock, Failure, FencedBy, Futex, GroupConfig, Manual, ManualClock, Readiness, Record, Retry,
    SettleError, Time, TopicConfig, Woken,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::task::Waker;
use std::thread;
use std::time::{Duration, SystemTime};

fn reason(settled: Result<(), SettleError>) -> FencedBy {
    match settled {
        Err(SettleError::Fenced { reason, .. }) => reason,
        other => panic!("not fenced: {other:?}"),
    }
}

const TICK: Duration = Duration::from_nanos(1);

// B-8, B-29
#[test]
fn a_lease_is_over_at_its_deadline_and_not_before_and_all_in_flight_comes_again() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(30 * SECOND));
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let one = consumer.try_poll(2).unwrap().detach();
    lab.clock.advance(20 * SECOND);
    let two = consumer.try_poll(2).unwrap().detach(); // which begins it anew
    lab.clock.advance(30 * SECOND - TICK);
    assert_eq!((figures(&group), group.stats().leases_expired()), ((0, 4, 0), 0));
    lab.clock.advance(TICK);
    assert_eq!((figures(&group), group.stats().leases_expired()), ((0, 0, 0), 4), "the timer has seen it");
    lab.clock.advance(300 * SECOND);
    assert_eq!((group.stats().leases_expired(), group.stats().retried()), (4, 4), "once");
    assert_eq!((reason(one.ack()), reason(two.nack(Failure::new("late")))), (FencedBy::Expired, FencedBy::Expired));
    let again = consumer.try_poll(9).unwrap();
    assert_eq!((values(&again), again.get(3).map(|record| record.attempt())), (vec![0, 1, 2, 3], Some(2)));
    again.ack().unwrap();
    lab.clock.advance(300 * SECOND);
    assert_eq!((figures(&group), group.stats().leases_expired()), ((4, 0, 4), 4));
}

#[test]
fn an_acknowledged_batch_has_no_lease_and_a_released_one_none_either() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(SECOND));
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(2).unwrap().ack().unwrap();
    lab.clock.advance(2 * SECOND);
    drop(consumer.try_poll(2).unwrap());
    lab.clock.advance(2 * SECOND);
    assert_eq!(group.stats().leases_expired(), 0);
    assert_eq!(peek(&mut consumer), [2, 3]);
}

#[test]
fn a_lease_is_extended_as_far_as_the_group_allows_and_never_shortened() {
    let lab = Lab::new(1);
    let config = forever().lease(10 * SECOND).lease_renewed_up_to(25 * SECOND);
    let (topic, group) = group(&lab, 100, config);
    topic.publish(1).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    assert_eq!(receipt.extend(SECOND).unwrap(), 10 * SECOND, "not shortened");
    lab.clock.advance(9 * SECOND);
    assert_eq!(receipt.extend(10 * SECOND).unwrap(), 10 * SECOND);
    lab.clock.advance(9 * SECOND);
    assert_eq!(receipt.extend(10 * SECOND).unwrap(), 7 * SECOND, "25 seconds in all");
    lab.clock.advance(7 * SECOND - TICK);
    assert_eq!(group.stats().leases_expired(), 0);
    lab.clock.advance(TICK);
    assert_eq!(group.stats().leases_expired(), 1);
    assert_eq!(reason(receipt.extend(SECOND).map(drop)), FencedBy::Expired);
}

#[test]
fn without_a_limit_a_lease_is_not_extended_and_without_a_lease_there_is_nothing_to_extend() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(10 * SECOND));
    topic.publish(1).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    lab.clock.advance(4 * SECOND);
    assert_eq!(receipt.extend(10 * SECOND).unwrap(), 6 * SECOND);
    let none = topic.group("none", forever()).unwrap();
    let mut other = none.consumer("c").unwrap();
    assert_eq!(other.try_poll(1).unwrap().detach().extend(SECOND).unwrap(), Duration::MAX);
}

// B-34
#[test]
fn a_consumer_that_waits_for_records_wakes_when_its_lease_is_over() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(30 * SECOND));
    topic.publish(5).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    let clock = lab.clock.clone();
    let waiter = thread::spawn(move || values(&consumer.poll(9, Duration::MAX).unwrap()));
    while clock.sleepers() == 0 {
        thread::yield_now();
    }
    clock.advance(30 * SECOND);
    assert_eq!(waiter.join().unwrap(), [5]);
}

// B-E4
#[test]
fn a_lane_that_moves_goes_over_when_the_lease_is_over() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(30 * SECOND));
    topic.publish_batch(0..2).unwrap();
    let mut one = group.consumer("a").unwrap();
    let receipt = one.try_poll(2).unwrap().detach();
    let mut two = group.member("b").partition(0).consumer().unwrap();
    assert!(two.try_poll(2).unwrap().is_empty() && one.try_poll(2).unwrap().is_empty(), "in flight still");
    lab.clock.advance(30 * SECOND);
    assert!(one.try_poll(2).unwrap().is_empty(), "another's by now");
    let batch = two.try_poll(2).unwrap();
    assert_eq!((values(&batch), batch.get(0).map(|record| record.attempt())), (vec![0, 1], Some(2)));
    assert_eq!(reason(receipt.ack()), FencedBy::Expired);
    batch.ack().unwrap();
    assert_eq!(figures(&group), (2, 0, 2));
}

#[test]
fn an_ack_at_the_deadline_is_refused_also_if_nobody_has_looked_at_the_clock_before() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(SECOND));
    topic.publish_batch(0..3).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let batch = consumer.try_poll(3).unwrap();
    let first = batch.get(0).map(|record| *record.value());
    lab.clock.advance(SECOND);
    assert_eq!((first, batch.get(2).map(|record| *record)), (Some(0), Some(2)), "what is borrowed stays valid");
    assert_eq!(reason(batch.ack()), FencedBy::Expired);
    assert_eq!(figures(&group), (0, 0, 0));
}

// B-29, B-E4, X9: as of a handler that hangs.
#[test]
fn a_consumer_that_hangs_is_left_behind_until_it_polls_or_settles_again() {
    for how in ["polls", "settles", "asks", "leaves"] {
        let (lab, told) = (Lab::new(1), Arc::new(Mutex::new(Vec::new())));
        let noted = told.clone();
        let config = forever().lease(30 * SECOND).on_expired(move |it| noted.lock().unwrap().push(it.to_string()));
        let (topic, group) = group(&lab, 100, config);
        topic.publish_batch(0..4).unwrap();
        let mut one = group.consumer("a").unwrap();
        let mut two = group.consumer("b").unwrap();
        let receipt = one.try_poll(2).unwrap().detach();
        lab.clock.advance(30 * SECOND - TICK);
        assert!(peek(&mut two).is_empty() && told.lock().unwrap().is_empty());
        lab.clock.advance(TICK);
        let said = told.lock().unwrap().pop().unwrap();
        assert!(said.ends_with("/0@0: 'a' of g has had 2 records for 30s, 'b' takes over"), "{said}");
        assert_eq!(group.assignment()[1].partitions, [0]);
        let batch = two.try_poll(3).unwrap();
        assert_eq!((values(&batch), batch.get(0).map(|record| record.attempt())), (vec![0, 1, 2], Some(2)));
        match how {
            "polls" => assert!(peek(&mut one).is_empty(), "in flight elsewhere"),
            "settles" => assert_eq!(reason(receipt.ack()), FencedBy::Expired),
            "asks" => assert!(matches!(one.poll_ready(Waker::noop()), Readiness::Waiting { .. })),
            _ => drop(one),
        }
        batch.ack().unwrap();
        assert_eq!(group.assignment()[0].partitions, [0], "its share again, or all that is left of the group");
        assert_eq!(figures(&group), (3, 0, 3));
        assert!(told.lock().unwrap().is_empty());
    }
}

#[test]
fn a_consumer_that_hangs_alone_is_told_and_keeps_its_partition() {
    let (lab, told) = (Lab::new(1), Arc::new(Mutex::new(Vec::new())));
    let noted = told.clone();
    let config = forever().lease(SECOND).on_expired(move |it| noted.lock().unwrap().push(it.to_string()));
    let (topic, group) = group(&lab, 100, config);
    topic.publish(7).unwrap();
    let mut consumer = group.consumer("a").unwrap();
    std::mem::forget(consumer.try_poll(2).unwrap().detach());
    lab.clock.advance(10 * SECOND);
    let said = told.lock().unwrap().pop().unwrap();
    assert!(said.ends_with("/0@0: 'a' of g has had a record for 1s, nobody takes over"), "{said}");
    assert_eq!((group.assignment()[0].partitions.clone(), peek(&mut consumer)), (vec![0], vec![7]));
    // And whoever comes takes over from it.
    std::mem::forget(consumer.try_poll(2).unwrap().detach());
    lab.clock.advance(SECOND);
    assert_eq!(peek(&mut group.consumer("b").unwrap()), [7]);
}

#[test]
fn a_consumer_that_waits_in_a_poll_does_not_hang_whatever_it_has_forgotten() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(30 * SECOND));
    topic.publish(5).unwrap();
    let mut consumer = group.consumer("a").unwrap();
    let other = group.consumer("b").unwrap();
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    let clock = lab.clock.clone();
    let waiter = thread::spawn(move || values(&consumer.poll(9, Duration::MAX).unwrap()));
    while clock.sleepers() == 0 {
        thread::yield_now();
    }
    clock.advance(30 * SECOND);
    assert_eq!((waiter.join().unwrap(), group.assignment()[0].member.to_string()), (vec![5], "b".into()));
    drop(other);
}

// As Kafka's standby: the second one that wants the partition.
#[test]
fn a_standby_takes_over_from_a_consumer_that_hangs() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, forever().lease(30 * SECOND));
    let mut active = group.member("active").partition(0).consumer().unwrap();
    let mut standby = group.member("standby").partition(0).consumer().unwrap();
    let mut third = group.consumer("third").unwrap();
    topic.publish(5).unwrap();
    std::mem::forget(active.try_poll(1).unwrap().detach());
    lab.clock.advance(30 * SECOND);
    assert_eq!((peek(&mut third), peek(&mut standby)), (vec![], vec![5]));
    assert_eq!((peek(&mut active), peek(&mut standby)), (vec![5], vec![]));
}

#[test]
fn a_lease_that_was_extended_is_not_shortened_by_a_poll() {
    let lab = Lab::new(1);
    let config = forever().lease(30 * SECOND).lease_renewed_up_to(300 * SECOND);
    let (topic, group) = group(&lab, 100, config);
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let one = consumer.try_poll(2).unwrap().detach();
    assert_eq!(one.extend(200 * SECOND).unwrap(), 200 * SECOND);
    let two = consumer.try_poll(2).unwrap().detach();
    lab.clock.advance(200 * SECOND - TICK);
    assert_eq!((one.ack(), two.ack(), figures(&group)), (Ok(()), Ok(()), (4, 0, 4)));
    topic.publish(4).unwrap();
    std::mem::forget(consumer.try_poll(2).unwrap().detach());
    lab.clock.advance(30 * SECOND);
    assert_eq!(figures(&group), (4, 0, 4), "of what is done nothing is left that would prolong the next one");
}

#[test]
fn a_batch_in_hand_and_its_records_are_extended_like_a_receipt() {
    let lab = Lab::new(1);
    let config = forever().lease(10 * SECOND).lease_renewed_up_to(25 * SECOND);
    let (topic, group) = group(&lab, 100, config);
    topic.publish_batch(0..2).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let batch = consumer.try_poll(2).unwrap();
    assert_eq!(batch.extend(SECOND).unwrap(), 10 * SECOND, "not shortened");
    assert_eq!(batch.get(1).unwrap().extend(20 * SECOND).unwrap(), 20 * SECOND);
    lab.clock.advance(20 * SECOND - TICK);
    assert_eq!(figures(&group), (0, 2, 0));
    assert_eq!(batch.extend(20 * SECOND).unwrap(), 5 * SECOND + TICK, "25 seconds in all");
    lab.clock.advance(5 * SECOND + TICK);
    let refused = batch.get(0).unwrap().extend(SECOND).unwrap_err();
    assert_eq!((refused.by, refused.offset), (FencedBy::Expired, 0));
    assert_eq!(reason(batch.extend(SECOND).map(drop)), FencedBy::Expired);
    drop(batch);
    assert_eq!(consumer.poll(0, Duration::ZERO).unwrap().extend(SECOND).unwrap(), Duration::ZERO, "of nothing");
}

/// A clock that moves on all by itself, once it has been asked so many times.
#[derive(Debug)]
struct Jumps(ManualClock, AtomicUsize);

impl Clock for Jumps {
    fn now(&self) -> Time {
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) == Ok(1) {
            self.0.advance(60 * SECOND);
        }
        self.0.now()
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.0.wall(at)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        self.0.sleep(word, expected, until)
    }

    fn on_move(&self, _: Weak<dyn Fn() + Send + Sync>) -> bool {
        true
    }
}

// B-7: "a refused call changes nothing", also if the lease ends in the middle of it.
#[test]
fn a_nack_from_the_middle_is_done_or_nothing_of_it_is() {
    for calls in 1..6 {
        let clock = Arc::new(Jumps(ManualClock::new(), AtomicUsize::new(0)));
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
        let group = topic.group("g", forever().lease(30 * SECOND)).unwrap();
        topic.publish_batch(0..4).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        let mut receipt = consumer.try_poll(4).unwrap().detach();
        clock.1.store(calls, Ordering::SeqCst);
        let nacked = receipt.nack_from(2, Failure::new("no"));
        assert_eq!(figures(&group).2, if nacked.is_ok() { 2 } else { 0 }, "{calls}: {nacked:?}");
        assert_eq!(group.stats().refused(), 0, "{nacked:?}");
    }
}

#[test]
fn a_record_whose_last_attempt_expired_in_a_handler_is_given_up_by_the_consumer_that_takes_over() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, GroupConfig::earliest().lease(30 * SECOND).retry(Retry::never()));
    let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(gate);
    let hangs = move |record: &Record<'_, u64>| {
        let _ = tell.send(record.offset());
        let _ = gate.lock().unwrap().recv();
    };
    group.subscribe("slow", hangs).unwrap();
    topic.publish_batch(0..2).unwrap();
    at.recv().unwrap();
    let mut consumer = group.consumer("c").unwrap();
    lab.clock.advance(30 * SECOND);
    assert_eq!(peek(&mut consumer), [1], "the poll goes on behind what it gives up");
    let letters = group.letters();
    assert_eq!((letters[0].offset(), letters[0].attempts(), letters[0].kind()), (0, 1, "expired"));
    drop(go);
}

#[test]
fn a_record_that_was_given_up_in_a_consumer_s_hands_is_buried_for_that_reason_by_the_next_handler() {
    for lease in [None, Some(30 * SECOND)] {
        let lab = Lab::new(1);
        let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO));
        let (topic, group) = group(&lab, 100, lease.map_or(config.clone(), |lease| config.lease(lease)));
        topic.publish_batch(0..2).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        consumer.try_poll(2).unwrap().nack(Failure::new("first")).unwrap();
        let one = consumer.try_poll(2).unwrap().detach();
        consumer.try_poll(2).unwrap().nack(Failure::of_kind("Poison", "the reason")).unwrap();
        drop(consumer);
        drop(one);
        let (manual, seen) = (Manual::new(1), Arc::new(Mutex::new(Vec::new())));
        let noted = seen.clone();
        let handler = move |record: &Record<'_, u64>| noted.lock().unwrap().push((record.offset(), record.attempt()));
        group.member("m").run(&manual).subscribe(handler).unwrap();
        manual.run(9);
        assert_eq!(*seen.lock().unwrap(), [(0, 2)], "{lease:?}");
        let letters = group.letters();
        assert_eq!((letters[0].offset(), letters[0].attempts(), letters[0].kind()), (1, 2, "Poison"));
        assert_eq!(figures(&group), (2, 0, 1));
    }
}

#[test]
fn a_nack_in_a_consumer_s_hands_counts_also_if_its_partition_is_seized_from_who_had_it_next() {
    let lab = Lab::new(1);
    let topic = lab.topic(2, 100);
    let config = forever().lease(30 * SECOND).retry(Retry::constant(9, 600 * SECOND));
    let group = topic.group("g", config).unwrap();
    topic.publish_to(1, 5).unwrap();
    let mut consumer = group.member("c").partition(1).consumer().unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    drop(consumer);
    let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(gate);
    let hangs = move |record: &Record<'_, u64>| {
        let _ = tell.send(record.partition());
        let _ = gate.lock().unwrap().recv();
    };
    let slow = Manual::new(1);
    group.member("slow").run(&slow).subscribe(hangs).unwrap();
    slow.run(9); // has 1 now, and may not touch its record yet
    topic.publish_to(0, 7).unwrap();
    let (other, seen) = (Manual::new(2), Arc::new(Mutex::new(Vec::new())));
    thread::scope(|scope| {
        scope.spawn(|| slow.run(1));
        assert_eq!(at.recv(), Ok(0));
        lab.clock.advance(30 * SECOND);
        let noted = seen.clone();
        let handler =
            move |record: &Record<'_, u64>| noted.lock().unwrap().push((record.partition(), record.attempt()));
        group.member("other").run(&other).subscribe(handler).unwrap();
        other.run(30);
        assert_eq!(*seen.lock().unwrap(), [(0, 2)], "its pause goes on");
        lab.clock.advance(570 * SECOND);
        other.run(30);
        assert_eq!(*seen.lock().unwrap(), [(0, 2), (1, 2)]);
        drop(go);
    });
}
