//! Records that use up their attempts in a consumer's hands.

use super::lab::Lab;
use super::{SECOND, drained, figures, group, peek, values};
use ringlog::{Consumer, Failure, FencedBy, Group, GroupConfig, Letter, Outcome, Record, Retry, SettleError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn twice() -> GroupConfig<u64> {
    GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO)).bury_cloned()
}

fn letters(group: &Group<u64>) -> Vec<(u64, u32, String, Option<u64>)> {
    let facts = |letter: Letter| {
        (letter.offset(), letter.attempts(), letter.message().to_owned(), letter.payload::<u64>().copied())
    };
    group.letters().into_iter().map(facts).collect()
}

fn nack(consumer: &mut Consumer<u64>, text: &'static str) -> usize {
    let batch = consumer.try_poll(10).unwrap();
    let len = batch.len();
    batch.nack(Failure::new(text)).unwrap();
    len
}

// B-E2
#[test]
fn a_record_on_its_last_attempt_comes_alone_and_is_buried_with_its_failure() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, twice());
    topic.publish_batch([7, 8, 9]).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    assert_eq!(nack(&mut consumer, "first"), 3);
    assert_eq!(nack(&mut consumer, "second"), 1, "alone: nobody is buried for it");
    assert_eq!(letters(&group), [(0, 2, "second".to_owned(), Some(7))]);
    assert_eq!((figures(&group), group.stats().dead()), ((1, 0, 0), 1));
    let next = consumer.try_poll(10).unwrap();
    assert_eq!((values(&next), next.get(0).map(|record| record.attempt())), (vec![8], Some(2)));
    next.ack().unwrap();
    consumer.try_poll(10).unwrap().ack().unwrap();
    assert_eq!((figures(&group), group.stats().dead()), ((3, 0, 2), 1));
}

// B-E2
#[test]
fn leases_that_expire_use_up_attempts_too_and_the_timer_buries() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, twice().lease(SECOND));
    topic.publish_batch([7, 8]).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    std::mem::forget(consumer.try_poll(10).unwrap().detach());
    lab.clock.advance(SECOND);
    let one = consumer.try_poll(10).unwrap().detach();
    let two = consumer.try_poll(10).unwrap().detach();
    assert_eq!((one.offsets(), two.offsets()), (0..1, 1..2));
    lab.clock.advance(SECOND);
    let kinds: Vec<String> = group.letters().iter().map(|letter| letter.kind().to_owned()).collect();
    assert_eq!((kinds, figures(&group), group.stats().dead()), (vec!["expired".to_owned(); 2], (2, 0, 0), 2));
    for receipt in [one, two] {
        let refused = receipt.ack().unwrap_err();
        assert!(matches!(refused, SettleError::Fenced { reason: FencedBy::Buried, .. }), "{refused:?}");
    }
    assert!(drained(&lab.broker));
}

#[test]
fn a_spent_record_behind_one_in_flight_waits_for_that() {
    let lab = Lab::new(1);
    let (topic, group) = group(&lab, 100, twice());
    topic.publish_batch([7, 8]).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    nack(&mut consumer, "both");
    let one = consumer.try_poll(10).unwrap().detach();
    consumer.try_poll(10).unwrap().nack(Failure::new("the second")).unwrap();
    assert_eq!((figures(&group), group.stats().dead()), ((0, 1, 0), 0));
    assert!(consumer.try_poll(10).unwrap().is_empty(), "it is not handed out once more");
    one.ack().unwrap();
    assert_eq!(letters(&group), [(1, 2, "the second".to_owned(), Some(8))]);
    assert_eq!((figures(&group), group.stats().dead()), ((2, 0, 1), 1));
}

// X25
#[test]
fn attempts_go_with_the_lane_from_consumers_to_handlers_and_back() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().retry(Retry::constant(4, Duration::ZERO));
    let (topic, group) = group(&lab, 100, config);
    topic.publish_batch([7, 8, 9]).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    nack(&mut consumer, "all");
    let mut batch = consumer.try_poll(10).unwrap();
    batch.nack_from(1, Failure::new("the second")).unwrap();
    drop(batch);
    drop(consumer);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let saw = seen.clone();
    let fails_at_9 = move |record: &Record<'_, u64>| {
        saw.lock().unwrap().push((**record, record.attempt()));
        if **record == 9 { Outcome::retry("not yet") } else { Outcome::Ack }
    };
    let member = group.member("h").run(&lab.manual).subscribe(fails_at_9).unwrap();
    let steps = lab.manual.run(2);
    assert!(steps > 0);
    assert_eq!(seen.lock().unwrap()[..2], [(8, 3), (9, 2)], "8 failed twice before, 9 once");
    member.leave();
    lab.manual.run(10);
    let failed = seen.lock().unwrap().iter().filter(|(value, _)| *value == 9).count() as u32;
    let mut consumer = group.consumer("d").unwrap();
    assert_eq!(consumer.try_poll(10).unwrap().get(0).map(|record| record.attempt()), Some(2 + failed));
}

#[test]
fn a_burying_function_that_panics_or_moves_the_cursor_buries_nothing_twice() {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 100);
    let moved = Arc::new(Mutex::new(None::<Group<u64>>));
    let mover = moved.clone();
    let config = GroupConfig::earliest().retry(Retry::never()).bury_with(move |value: &u64, _| {
        assert_ne!(*value, 7, "as planned");
        let group = mover.lock().unwrap().clone();
        if let (8, Some(group)) = (*value, group) {
            group.seek(0, ringlog::SeekTo::Offset(0)).unwrap();
        }
        *value
    });
    let group = topic.group("g", config).unwrap();
    topic.publish_batch([7, 8]).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    nack(&mut consumer, "7");
    assert_eq!(letters(&group), [(0, 1, "7".to_owned(), None)]);
    *moved.lock().unwrap() = Some(group.clone());
    nack(&mut consumer, "8");
    assert_eq!((letters(&group).len(), figures(&group).0), (1, 0), "the commit was refused, and with it the letter");
    *moved.lock().unwrap() = None;
    assert_eq!(peek(&mut consumer), [7]);
}
