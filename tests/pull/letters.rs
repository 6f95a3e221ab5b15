//! Letters that were sent back to a group that is polled.

use super::lab::{Inbox, Lab};
use super::{SECOND, drained, figures, peek, values};
use ringlog::{
    Consumer, Failure, FencedBy, Group, GroupConfig, Order, Pick, Record, Retry, SettleError, Standing, Straggler,
    Topic,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn reason<R: std::fmt::Debug>(settled: Result<R, SettleError>) -> FencedBy {
    match settled {
        Err(SettleError::Fenced { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Two letters, of the records 0 and 1, that are sent back, and the records 2 and 3.
fn sent_back(lab: &Lab, config: GroupConfig<u64>) -> (Topic<u64>, Group<u64>, Consumer<u64>) {
    let topic = lab.topic(1, 100);
    let group = topic.group("g", config.bury_cloned()).unwrap();
    topic.publish_batch(0..4).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    while group.letters().len() < 2 {
        let batch = consumer.try_poll(1).unwrap();
        if batch.is_empty() {
            drop(batch);
            lab.clock.advance(SECOND);
        } else if values(&batch)[0] < 2 {
            batch.nack(Failure::new("no")).unwrap();
        }
    }
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 2);
    (topic, group, consumer)
}

// X25
#[test]
fn a_poll_gives_letters_that_were_sent_back_before_what_comes_next() {
    for order in [Order::Partition, Order::Shared] {
        let lab = Lab::new(1);
        let config = GroupConfig::earliest().retry(Retry::never()).order(order);
        let (_topic, group, mut consumer) = sent_back(&lab, config);
        assert_eq!(group.standing(0), Ok(Standing::LettersWait { member: "c".into() }));
        for offset in 0..2 {
            let batch = consumer.try_poll(9).unwrap();
            assert_eq!(
                (values(&batch), batch.offsets(), batch.partition()),
                (vec![offset], offset..offset + 1, Some(0))
            );
            let record = batch.get(0).unwrap();
            assert!(record.is_redriven() && record.letter().is_some());
            assert_eq!(record.attempt(), 1);
            assert_eq!(group.standing(0), Ok(Standing::InFlight { member: "c".into(), records: 1 }));
            assert!(!drained(&lab.broker));
            batch.ack().unwrap();
        }
        while !consumer.try_poll(9).unwrap().is_empty() {
            consumer.try_poll(9).unwrap().ack().unwrap();
        }
        let stats = group.stats();
        assert!(stats.balances(), "{stats:?}");
        assert_eq!((stats.acked(), stats.dead(), stats.lag()), (4, 2, 0));
        assert!(drained(&lab.broker) && group.letters().is_empty());
    }
}

#[test]
fn a_letter_that_fails_waits_for_its_time_and_is_given_up_again() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().retry(Retry::constant(2, SECOND));
    let (_topic, group, mut consumer) = sent_back(&lab, config);
    let mut batch = consumer.try_poll(9).unwrap();
    assert!(matches!(batch.ack_through(1), Err(SettleError::NotInFlight { .. })));
    batch.nack_from(0, Failure::new("again")).unwrap();
    drop(batch);
    assert_eq!(peek(&mut consumer), [2, 3], "the next letter waits behind it; what comes from the log does not");
    lab.clock.advance(SECOND);
    let batch = consumer.try_poll(9).unwrap();
    assert_eq!((values(&batch), batch.get(0).unwrap().attempt()), (vec![0], 2));
    batch.nack(Failure::of_kind("Poison", "still")).unwrap();
    let letter = &group.letters()[0];
    assert_eq!((letter.offset(), letter.attempts(), letter.kind()), (0, 2, "Poison"));
    drop(consumer.try_poll(9).unwrap());
    let batch = consumer.try_poll(9).unwrap();
    assert_eq!((values(&batch), batch.get(0).unwrap().attempt()), (vec![1], 1), "released, which counts as nothing");
    let receipt = batch.detach();
    std::thread::spawn(move || receipt.ack()).join().unwrap().unwrap();
    assert_eq!(peek(&mut consumer), [2, 3]);
    assert_eq!(figures(&group), (2, 0, 1));
}

#[test]
fn a_letter_has_a_lease_like_a_record() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().retry(Retry::never()).lease(30 * SECOND).lease_renewed_up_to(40 * SECOND);
    let (_topic, group, mut consumer) = sent_back(&lab, config);
    let first = consumer.try_poll(9).unwrap().detach();
    assert_eq!(first.extend(99 * SECOND).unwrap(), 40 * SECOND);
    lab.clock.advance(40 * SECOND);
    let letters = group.letters();
    assert_eq!((letters.len(), letters[0].offset(), letters[0].kind()), (1, 0, "expired"));
    assert_eq!(reason(first.ack()), FencedBy::Expired);
    assert_eq!((group.stats().leases_expired(), group.stats().refused()), (1, 1));
    let waits = std::thread::scope(|scope| {
        consumer.try_poll(9).unwrap().detach().leave_in_flight();
        let polls = scope.spawn(|| {
            while !values(&consumer.poll(9, Duration::MAX).unwrap()).is_empty() {
                if let Ok(batch) = consumer.try_poll(1) {
                    if batch.get(0).is_some_and(|record| *record == 3) {
                        return batch.ack().is_ok();
                    }
                    let _done = batch.ack();
                }
            }
            false
        });
        polls.join().unwrap()
    });
    assert!(waits);
    lab.clock.advance(30 * SECOND);
    assert_eq!(group.letters().len(), 2);
    assert!(group.stats().balances());
}

#[test]
fn what_comes_between_is_said() {
    let lab = Lab::new(1);
    let (topic, group, mut consumer) = sent_back(&lab, GroupConfig::earliest().retry(Retry::never()));
    let called = consumer.try_poll(9).unwrap().detach();
    assert_eq!(group.call_back(), 2);
    assert_eq!(reason(called.ack()), FencedBy::Rewound);
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 2);
    let moved = consumer.try_poll(9).unwrap().detach();
    drop(consumer);
    assert_eq!(reason(moved.ack()), FencedBy::Moved);
    let mut consumer = group.consumer("d").unwrap();
    let gone = consumer.try_poll(9).unwrap().detach();
    assert_eq!(gone.offsets(), 0..1);
    assert!(topic.delete_group("g").is_ok());
    assert_eq!(reason(gone.ack()), FencedBy::Deleted);
}

#[test]
fn a_handler_that_takes_over_waits_for_the_letter_that_is_out() {
    let lab = Lab::new(1);
    let (_topic, group, mut consumer) = sent_back(&lab, GroupConfig::earliest().retry(Retry::never()));
    let out = consumer.try_poll(9).unwrap().detach();
    let inbox = Inbox::default();
    let seen = inbox.clone();
    group.member("h").run(&lab.manual).subscribe(move |record: &Record<'_, u64>| seen.note(record)).unwrap();
    drop(consumer);
    lab.settle();
    assert_eq!(reason(out.ack()), FencedBy::Moved, "who has left has nothing");
    assert_eq!(inbox.offsets(0), [0, 1, 2, 3]);
}

#[test]
fn of_a_letter_that_was_called_back_it_is_said_so_whatever_is_asked() {
    let lab = Lab::new(1);
    let (_topic, group, mut consumer) = sent_back(&lab, GroupConfig::earliest().retry(Retry::never()));
    let mut receipt = consumer.try_poll(1).unwrap().detach();
    group.call_back();
    assert_eq!(reason(receipt.ack_through(0)), FencedBy::Rewound);
}

#[test]
fn a_consumer_that_is_put_out_keeps_no_letter() {
    let lab = Lab::new(1);
    let config = GroupConfig::earliest().retry(Retry::never()).order(Order::Shared);
    let (_topic, group, mut slow) = sent_back(&lab, config.straggler(Straggler::Evict(SECOND)));
    let letter = slow.try_poll(9).unwrap().detach();
    let straggler = slow.try_poll(9).unwrap();
    assert_eq!(values(&straggler), [2]);
    straggler.detach().leave_in_flight();
    let mut quick = group.consumer("quick").unwrap();
    let other = quick.try_poll(9).unwrap();
    assert_eq!(values(&other), [3], "the letters wait for the one that is out");
    other.ack().unwrap();
    (0..2).for_each(|_| lab.clock.advance(SECOND)); // it has looked by then
    assert!(slow.try_poll(1).is_err(), "it is out");
    let again = quick.try_poll(9).unwrap();
    assert!(again.get(0).is_some_and(|record| record.is_redriven() && *record == 0), "{again:?}");
    again.ack().unwrap();
    assert_eq!(reason(letter.ack()), FencedBy::Moved);
    assert_eq!(peek(&mut quick), [1]);
}

/// What becomes of the lease of a letter, from 0 s on, at these seconds.
fn extended(config: GroupConfig<u64>, at: &[u32]) -> Vec<Result<Duration, FencedBy>> {
    let lab = Lab::new(1);
    let (_topic, _group, mut consumer) = sent_back(&lab, config);
    let out = consumer.try_poll(9).unwrap().detach();
    let (mut all, mut now) = (Vec::new(), 0);
    for second in at {
        lab.clock.advance((second - now) * SECOND);
        now = *second;
        all.push(out.extend(40 * SECOND).map_err(|refused| reason::<()>(Err(refused))));
    }
    all
}

#[test]
fn the_lease_of_a_letter_is_extended_as_far_as_the_limit_and_no_further() {
    let config = || GroupConfig::earliest().retry(Retry::never());
    let left = |seconds: u32| Ok(seconds * SECOND);
    assert_eq!(extended(config(), &[0, 99]), [Ok(Duration::MAX), Ok(Duration::MAX)], "there is none");
    let over = Err(FencedBy::Expired);
    assert_eq!(extended(config().lease(30 * SECOND), &[10, 29, 30]), [left(20), left(1), over]);
    let renewed = config().lease(30 * SECOND).lease_renewed_up_to(60 * SECOND);
    assert_eq!(extended(renewed, &[10, 45, 59, 60]), [left(40), left(15), left(1), over]);
}

#[test]
fn a_letter_that_is_being_buried_is_not_extended() {
    type Out = Arc<Mutex<Option<ringlog::Receipt>>>;
    let (lab, out, said) = (Lab::new(1), Out::default(), Arc::new(Mutex::new(Vec::new())));
    let (there, tell) = (out.clone(), said.clone());
    let config = GroupConfig::earliest().retry(Retry::never()).lease(SECOND).bury_with(move |value: &u64, _| {
        if let Some(receipt) = &*there.lock().unwrap() {
            tell.lock().unwrap().push(receipt.extend(SECOND).map_err(|refused| reason::<()>(Err(refused))));
        }
        *value
    });
    let topic = lab.topic(1, 100);
    let group = topic.group("g", config).unwrap();
    topic.publish(0).unwrap();
    let mut consumer = group.consumer("c").unwrap();
    consumer.try_poll(1).unwrap().nack(Failure::new("no")).unwrap();
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
    *out.lock().unwrap() = Some(consumer.try_poll(1).unwrap().detach());
    lab.clock.advance(SECOND);
    assert_eq!(*said.lock().unwrap(), [Err(FencedBy::AlreadyAcked)]);
    let late = out.lock().unwrap().take().unwrap();
    assert_eq!((reason(late.ack()), group.letters().len()), (FencedBy::Expired, 1));
}
