//! Pauses before another attempt, record by record.

use super::lab::{Inbox, Lab};
use super::{SECOND, group, peek};
use ringlog::{Failure, GroupConfig, Record, Retry};

/// A pause of a second after the first failure, and of one more after each further one.
fn slow() -> GroupConfig<u64> {
    GroupConfig::earliest().retry(Retry::linear(9, SECOND))
}

#[test]
fn a_record_that_failed_more_often_keeps_its_longer_pause_when_earlier_ones_fail() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, slow());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let first = consumer.try_poll(2).unwrap().detach();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    lab.clock.advance(SECOND);
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap(); // 2, until the third second is over
    first.nack(Failure::new("no, either")).unwrap();
    assert!(peek(&mut consumer).is_empty());
    lab.clock.advance(SECOND);
    assert_eq!(peek(&mut consumer), [0, 1], "2 waits for its own time");
    consumer.try_poll(9).unwrap().ack().unwrap();
    assert!(peek(&mut consumer).is_empty());
    lab.clock.advance(SECOND);
    assert_eq!(peek(&mut consumer), [2, 3]);
}

#[test]
fn a_handler_that_takes_over_keeps_to_the_pause_of_a_record_behind_the_cursor() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, slow());
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    let first = consumer.try_poll(2).unwrap().detach();
    consumer.try_poll(2).unwrap().nack(Failure::new("no")).unwrap();
    drop(first);
    drop(consumer);
    let inbox = Inbox::default();
    let seen = inbox.clone();
    group.member("h").run(&lab.manual).subscribe(move |record: &Record<'_, u64>| seen.note(record)).unwrap();
    lab.settle();
    assert_eq!(inbox.take(), [(0, 0, 1), (0, 1, 1)]);
    assert_eq!(lab.manual.next_due(), Some(ringlog::Time::ZERO.after(SECOND)));
    lab.clock.advance(SECOND);
    lab.settle();
    assert_eq!(inbox.take(), [(0, 2, 2), (0, 3, 2)]);
}
