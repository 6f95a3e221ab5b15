//! Waiting for records of a work queue, and what ends that.

use super::lab::Lab;
use super::{SECOND, filled, queue, values};
use ringlog::{Canceller, Consumer, Failure, Group, PollError, Readiness, Retry, Select, Standing};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

fn asleep(lab: &Lab) {
    while lab.clock.sleepers() == 0 {
        thread::yield_now();
    }
}

/// Polls without an end on a thread of its own, which is asleep when this returns.
fn poller(lab: &Lab, mut consumer: Consumer<u64>) -> JoinHandle<Result<Vec<u64>, PollError>> {
    let polls = thread::spawn(move || consumer.poll(9, Duration::MAX).map(|batch| values(&batch)));
    asleep(lab);
    polls
}

fn two(group: &Group<u64>) -> (Consumer<u64>, Consumer<u64>) {
    (group.consumer("one").unwrap(), group.consumer("two").unwrap())
}

#[test]
fn whoever_waits_is_woken_by_a_record_by_a_release_by_a_nack_and_by_who_leaves() {
    for how in 0..4 {
        let lab = Lab::new(1);
        let (topic, group) = filled(&lab, queue(), 1);
        let (mut one, two) = two(&group);
        let receipt = one.try_poll(1).unwrap().detach();
        let polls = poller(&lab, two);
        match how {
            0 => assert!(topic.publish(0).is_ok()),
            1 => drop(receipt),
            2 => receipt.nack(Failure::new("no")).unwrap(),
            _ => {
                receipt.leave_in_flight();
                drop(one);
            }
        }
        assert_eq!(polls.join().unwrap().unwrap(), [0]);
    }
}

#[test]
fn whoever_waits_is_woken_by_a_lease_that_ends_and_by_a_pause_that_is_over() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().lease(30 * SECOND), 1);
    let (mut one, two_) = two(&group);
    one.try_poll(1).unwrap().detach().leave_in_flight();
    let polls = poller(&lab, two_);
    lab.clock.advance(30 * SECOND);
    assert_eq!(polls.join().unwrap().unwrap(), [0]);

    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().retry(Retry::constant(3, SECOND)), 1);
    let (mut one, two_) = two(&group);
    one.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    let polls = poller(&lab, two_);
    lab.clock.advance(SECOND);
    assert_eq!(polls.join().unwrap().unwrap(), [0]);
}

#[test]
fn a_wait_ends_with_its_time_with_a_cancel_and_with_the_group() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 0);
    let (mut one, mut two) = two(&group);
    let (cancel, cancelled) = (Canceller::new(), Canceller::new());
    thread::scope(|scope| {
        let ends = scope.spawn(|| one.poll(1, SECOND).map(|batch| batch.len()));
        asleep(&lab);
        lab.clock.advance(SECOND);
        assert_eq!(ends.join().unwrap(), Ok(0));
        let ends = scope.spawn(|| two.poll_or_cancel(1, Duration::MAX, &cancel).map(|batch| batch.len()));
        asleep(&lab);
        cancel.cancel();
        assert_eq!(ends.join().unwrap(), Ok(0));
    });
    cancelled.cancel();
    assert!(one.poll_or_cancel(1, Duration::MAX, &cancelled).unwrap().is_empty());
    let polls = poller(&lab, one);
    assert!(group.delete());
    assert!(polls.join().unwrap().is_err());
}

#[test]
fn a_paused_queue_gives_nothing_and_takes_acks() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue(), 2);
    let (mut one, two) = two(&group);
    let receipt = one.try_poll(1).unwrap().detach();
    group.pause();
    assert!(one.try_poll(1).unwrap().is_empty());
    receipt.ack().unwrap();
    let polls = poller(&lab, two);
    group.resume();
    assert_eq!(polls.join().unwrap().unwrap(), [1]);
}

struct Rings(Mutex<mpsc::Sender<()>>);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn select_and_event_loops_hear_of_what_any_member_gives_back() {
    let lab = Lab::new(1);
    let (topic, group) = filled(&lab, queue(), 1);
    let (mut one, mut two) = two(&group);
    let receipt = one.try_poll(1).unwrap().detach();
    let (tell, told) = mpsc::channel();
    let waker = Waker::from(Arc::new(Rings(Mutex::new(tell))));
    assert_eq!(two.poll_ready(&waker), Readiness::Waiting { at_most: None });
    drop(receipt);
    told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(two.poll_ready(&waker), Readiness::Ready);
    two.try_poll(1).unwrap().ack().unwrap();
    thread::scope(|scope| {
        let found = scope.spawn(|| Select::new().wait(&[&one, &two], Duration::MAX));
        asleep(&lab);
        let _ = topic.publish(7).unwrap();
        assert!(found.join().unwrap().is_some());
    });
}

#[test]
fn a_consumer_may_be_of_certain_partitions_and_have_clones() {
    let lab = Lab::new(1);
    let topic = lab.topic(2, 8);
    let group = topic.group("g", queue()).unwrap();
    (0..2).for_each(|partition| assert!(topic.publish_to(partition, u64::from(partition)).is_ok()));
    let mut only = group.member("only").partition(1).consumer().unwrap();
    let batch = only.poll_owned(9, Duration::ZERO).unwrap();
    assert_eq!((batch.records[0].value, batch.receipt.partition()), (1, 1));
    assert!(only.try_poll(9).unwrap().is_empty());
    let mut all = group.consumer("all").unwrap();
    assert_eq!(values(&all.try_poll(9).unwrap()), [0], "whoever it was dealt to");
    assert_eq!(group.standing(1), Ok(Standing::InFlight { member: "only".into(), records: 1 }));
    batch.receipt.ack().unwrap();
    assert_eq!(group.stats().acked(), 1);
}

#[test]
fn an_ephemeral_queue_goes_with_its_last_consumer() {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 8);
    let group = topic.group("g", queue().ephemeral()).unwrap();
    let (mut one, two) = two(&group);
    let _ = topic.publish(1).unwrap();
    let receipt = one.try_poll(1).unwrap().detach();
    drop(two);
    assert!(topic.find_group("g").is_ok());
    drop(one);
    assert!(topic.find_group("g").is_err());
    assert!(receipt.ack().is_err());
}

#[test]
fn who_has_the_only_record_in_hand_is_not_refused_as_a_handler_is_and_makes_room_by_its_ack() {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 1);
    let group = topic.group("g", queue()).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let _ = topic.publish(0).unwrap();
    let batch = consumer.try_poll(1).unwrap();
    assert!(topic.try_publish(1).is_err());
    batch.ack().unwrap();
    assert!(topic.try_publish(1).is_ok());
}
