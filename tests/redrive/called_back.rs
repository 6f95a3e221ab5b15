//! Letters called back on their way to their group: by order, by a close, by a deletion, at any moment.

use crate::lab::{CAPACITIES, Lab, balanced};
use crate::{buried, config, ms, take};
use ringlog::{ControlError, Group, Outcome, Pick, Record, Retry};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

//
#[test]
fn a_drain_waits_for_what_is_queued_and_a_close_that_may_not_makes_letters_of_it() {
    let lab = Lab::new(9);
    let topic = lab.topic(1, 8);
    let (group, seen, broken) = buried(&lab, &topic, 6);
    assert!(lab.broker.drain(Duration::ZERO).is_ok());
    broken.set(false);
    group.redrive(Pick::first(2)).unwrap();
    assert!(lab.broker.drain(Duration::ZERO).is_err());
    lab.finish();
    assert!(lab.broker.drain(Duration::ZERO).is_ok());
    group.redrive(Pick::all()).unwrap();
    let account = lab.broker.close(Some(Duration::ZERO));
    lab.settle();
    assert!(!account.drained);
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.replayed(), stats.skipped(), stats.lag()), (5, 3, 1, 0));
    assert_eq!((group.letters()[0].offset(), group.redriving().len()), (5, 0), "it is a letter again");
    assert_eq!(take(&seen).len(), 2);
    let refused = group.redrive(Pick::all());
    assert_eq!(refused, Err(ControlError::Deleted { group: "g".into() }));
    assert_eq!(group.letters().len(), 1);
}

//
#[test]
fn a_close_makes_letters_of_what_lanes_had_queued_with_a_member_and_without() {
    for manned in [false, true] {
        let broker = ringlog::Broker::new();
        let topic = broker.create_topic("orders", ringlog::TopicConfig::<u64>::new()).unwrap();
        let group = topic.group("g", config(1)).unwrap();
        let member = group.subscribe("m", |_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
        topic.publish_batch(0..3).unwrap();
        broker.drain(Duration::from_secs(60)).unwrap();
        group.pause();
        if !manned {
            member.leave();
        }
        assert_eq!(group.redrive(Pick::all()).unwrap().queued, 3);
        let account = broker.close(Some(ms(20)));
        assert_eq!((account.drained, account.left()), (!manned, 0));
        assert_eq!((group.letters().len(), group.redriving().len(), balanced(&group).skipped()), (3, 0, 3));
    }
}

#[test]
fn deleting_a_group_and_calling_back_make_letters_of_what_is_queued() {
    let lab = Lab::new(10);
    let topic = lab.topic(2, 8);
    let (group, ..) = buried(&lab, &topic, 6);
    group.redrive(Pick::all()).unwrap();
    assert_eq!((group.call_back(), group.call_back()), (3, 0));
    lab.settle();
    assert_eq!(group.letters().iter().map(|letter| letter.offset()).collect::<Vec<_>>(), [1, 3, 5]);
    group.redrive(Pick::all()).unwrap();
    assert!(group.delete());
    assert_eq!((group.letters().len(), balanced(&group).lag(), balanced(&group).skipped()), (3, 0, 6));
    assert!(group.redrive(Pick::all()).is_err());
}
#[test]
fn a_handler_may_redrive_and_call_back_what_it_has_in_hand_which_then_is_refused() {
    let lab = Lab::new(11);
    let topic = lab.topic(1, 8);
    let group = topic.group("g", config(1)).unwrap();
    let (inside, calls) = (group.clone(), Arc::new(Mutex::new(Vec::new())));
    let noted = calls.clone();
    let handler = move |r: &Record<'_, u64>| {
        let call = noted.lock().unwrap().len();
        noted.lock().unwrap().push((r.offset(), r.is_redriven()));
        match call {
            0 => Err("bury me"),
            1 => {
                assert_eq!(inside.redrive(Pick::all()).unwrap().queued, 1);
                Ok(())
            }
            2 => {
                assert_eq!(inside.call_back(), 1, "the one in hand");
                Err("nobody listens")
            }
            _ => Ok(()),
        }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, 0..3);
    lab.settle();
    assert_eq!(*calls.lock().unwrap(), [(0, false), (1, false), (0, true), (2, false)]);
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.refused(), stats.replayed(), stats.skipped()), (2, 1, 1, 1, 1));
    assert_eq!((group.letters().len(), group.letters()[0].message()), (1, "bury me"));
}

#[test]
fn what_a_handler_makes_of_a_letter_called_back_does_not_touch_the_one_that_is_queued_now() {
    for outcome in [0, 1, 2] {
        let lab = Lab::new(14);
        let topic = lab.topic(1, 8);
        let group = topic.group("g", config(2)).unwrap();
        let (inside, seen) = (group.clone(), Arc::new(Mutex::new(Vec::new())));
        let noted = seen.clone();
        let handler = move |r: &Record<'_, u64>| {
            if !r.is_redriven() {
                return Outcome::reject("bury");
            }
            noted.lock().unwrap().push(r.offset());
            if noted.lock().unwrap().len() > 1 {
                return Outcome::Ack;
            }
            assert_eq!(inside.call_back(), 2);
            inside.redrive(Pick::when(|letter| letter.offset() == 1)).unwrap();
            [Outcome::Ack, Outcome::retry("again"), Outcome::reject("no")].into_iter().nth(outcome).unwrap()
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        lab.feed(&topic, 0, 0..2);
        lab.settle();
        group.redrive(Pick::all()).unwrap();
        lab.finish();
        assert_eq!(*seen.lock().unwrap(), [0, 1]);
        let (stats, letters) = (balanced(&group), group.letters());
        assert_eq!((stats.refused(), stats.acked(), stats.dead(), stats.lag()), (1, 1, 2, 0));
        assert_eq!((letters.len(), letters[0].offset(), letters[0].message()), (1, 0, "bury"));
    }
}

// A lane that waits for the next attempt of a letter goes on with its records as soon as that is called back.
#[test]
fn a_lane_wakes_when_what_it_waits_for_is_called_back() {
    for capacity in CAPACITIES {
        let lab = Lab::new(7);
        let (topic, seen) = (lab.topic(1, capacity), Arc::new(Mutex::new(Vec::new())));
        let take = || std::mem::take(&mut *seen.lock().unwrap());
        let group = topic.group("g", config(2).retry(Retry::constant(2, Duration::from_secs(3_600)))).unwrap();
        let broken = Arc::new(AtomicBool::new(true));
        let handler = {
            let (broken, seen) = (broken.clone(), seen.clone());
            move |r: &Record<'_, u64>| {
                seen.lock().unwrap().push((r.offset(), r.is_redriven()));
                match (broken.load(Ordering::Relaxed), r.is_redriven()) {
                    (false, _) => Outcome::Ack,
                    (true, false) => Outcome::reject("broken"),
                    (true, true) => Outcome::retry("still broken"),
                }
            }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        topic.publish(1).unwrap();
        lab.manual.run(100);
        assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
        lab.manual.run(100);
        assert_eq!(take(), [(0, false), (0, true)]);
        broken.store(false, Ordering::Relaxed);
        topic.publish(2).unwrap();
        lab.manual.run(100);
        assert_eq!(take(), [], "it comes behind the letter, which waits for an hour");
        assert_eq!(group.call_back(), 1);
        assert!(lab.manual.stranded().is_empty());
        lab.manual.run(100);
        assert_eq!(take(), [(1, false)]);
        balanced(&group);
    }
}

// What a handler makes of a letter is refused once it was called back, even if the same letter is queued anew by then.
#[test]
fn a_letter_that_was_called_back_and_queued_anew_is_handed_over_anew() {
    let lab = Lab::new(8);
    let topic = lab.topic(1, 4);
    let (calls, again) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(None::<Group<u64>>)));
    let group = topic.group("g", config(1)).unwrap();
    let handler = {
        let (calls, again) = (calls.clone(), again.clone());
        move |r: &Record<'_, u64>| {
            if !r.is_redriven() {
                return Outcome::reject("first");
            }
            *calls.lock().unwrap() += 1;
            if let Some(group) = again.lock().unwrap().take() {
                assert_eq!(group.call_back(), 1);
                assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
            }
            Outcome::Ack
        }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    topic.publish(1).unwrap();
    lab.manual.run(100);
    *again.lock().unwrap() = Some(group.clone());
    group.redrive(Pick::all()).unwrap();
    lab.manual.run(100);
    let stats = group.stats();
    assert_eq!((*calls.lock().unwrap(), stats.acked(), stats.refused(), stats.letters), (2, 1, 1, 0));
    balanced(&group);
}

// Whichever lane is called back first, and at a close that is whichever nobody has in hand: the oldest letter comes first.
#[test]
fn letters_that_are_called_back_stand_where_they_were_among_all() {
    let lab = Lab::new(9);
    let topic = lab.topic(3, 4);
    let group = topic.group("g", config(1)).unwrap();
    group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
    for partition in [1, 0, 2, 0, 1] {
        lab.feed(&topic, partition, 0..1);
        lab.settle();
    }
    let order = || group.letters().iter().map(|letter| (letter.partition(), letter.offset())).collect::<Vec<_>>();
    let buried = order();
    assert_eq!(buried, [(1, 0), (0, 0), (2, 0), (0, 1), (1, 1)]);
    group.pause();
    assert_eq!(group.redrive(Pick::when(|letter| letter.offset() == 0)).unwrap().queued, 3);
    assert_eq!(order(), [(0, 1), (1, 1)]);
    assert_eq!((group.call_back(), order()), (3, buried));
    balanced(&group);
}
