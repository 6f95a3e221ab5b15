//! Delivery: order, retry, dead letters, panics, batches. Single-stepped on a manual clock.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced, group};
use ringlog::{BatchOutcome, GroupConfig, Outcome, Record, Retry};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

// A-4, A-T1, A-5, A-6, C-T1
#[test]
fn every_group_gets_every_record_in_offset_order() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64);
        let topic = lab.topic(2, capacity);
        let inboxes = ["a", "b", "c"].map(|name| {
            let inbox = Inbox::default();
            let seen = inbox.clone();
            let group = topic.group(name, GroupConfig::earliest()).unwrap();
            group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
            (inbox, group)
        });
        lab.feed(&topic, 0, 0..50);
        lab.feed(&topic, 1, 0..30);
        lab.settle();
        for (inbox, group) in &inboxes {
            assert_eq!(inbox.offsets(0), (0..50).collect::<Vec<_>>());
            assert_eq!(inbox.offsets(1), (0..30).collect::<Vec<_>>());
            assert_eq!((balanced(group).acked(), group.lag()), (80, 0));
        }
    }
}

// A-9, B-E2, C-X4, A-10, A-30, A-34, A-37, A-56, C-17, C-T4
#[test]
fn a_failing_record_is_retried_in_place_after_its_backoff_and_then_buried() {
    for capacity in CAPACITIES {
        let lab = Lab::new(1);
        let topic = lab.topic(1, capacity);
        let config = GroupConfig::earliest().retry(Retry::exponential(3)).bury_cloned();
        let group = topic.group("g", config).unwrap();
        let inbox = Inbox::default();
        let seen = inbox.clone();
        let handler = move |r: &Record<'_, u64>| {
            seen.note(r);
            if **r == 1 { Err(format!("cannot process {}", **r)) } else { Ok(()) }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        lab.feed(&topic, 0, [0]);
        lab.settle();
        lab.feed(&topic, 0, [1]);
        lab.settle();
        assert_eq!(inbox.take(), [(0, 0, 1), (0, 1, 1)]);
        assert_eq!((balanced(&group).retried(), group.lag()), (1, 1));
        lab.clock.advance(ms(1) - Duration::from_nanos(1));
        lab.settle();
        assert!(inbox.take().is_empty(), "not before its time");
        lab.clock.advance(Duration::from_nanos(1));
        lab.settle();
        assert_eq!(inbox.take(), [(0, 1, 2)]);
        lab.clock.advance(ms(2));
        lab.settle();
        lab.feed(&topic, 0, [2]);
        lab.settle();
        assert_eq!(inbox.take(), [(0, 1, 3), (0, 2, 1)], "the next record waited, and no wait after the last attempt");
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.dead(), stats.retried(), stats.lag()), (2, 1, 2, 0));
        let letters = group.letters();
        let letter = &letters[0];
        assert_eq!((letter.offset(), letter.attempts(), letter.payload::<u64>()), (1, 3, Some(&1)));
        assert_eq!((letter.message(), letter.group(), letter.topic()), ("cannot process 1", "g", "orders"));
    }
}

// A-T2, C-T5
#[test]
fn what_fails_once_comes_again_and_what_always_fails_is_buried_and_holds_nobody_up() {
    for capacity in CAPACITIES {
        let lab = Lab::new(12);
        let topic = lab.topic(1, capacity);
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::exponential(3)).bury_cloned()).unwrap();
        let (inbox, done) = (Inbox::default(), Inbox::default());
        let (seen, acked) = (inbox.clone(), done.clone());
        let handler = move |r: &Record<'_, u64>| {
            seen.note(r);
            if r.attempt() == 1 || **r == 1 {
                return Err("not now");
            }
            acked.note(r);
            Ok(())
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        for n in 0..3 {
            lab.feed(&topic, 0, [n]);
            lab.finish();
        }
        assert_eq!(done.take(), [(0, 0, 2), (0, 2, 2)]);
        assert_eq!(inbox.len(), 2 + 3 + 2);
        let (stats, letters) = (balanced(&group), group.letters());
        assert_eq!((stats.dead(), stats.acked(), stats.lag(), letters.len()), (1, 2, 0, 1));
        assert_eq!((letters[0].attempts(), letters[0].payload::<u64>()), (3, Some(&1)));
    }
}

#[test]
fn reject_buries_at_once_and_retry_after_waits_as_it_says() {
    let lab = Lab::new(2);
    let topic = lab.topic(1, 4);
    let group = group(&topic);
    let inbox = Inbox::default();
    let seen = inbox.clone();
    let handler = move |r: &Record<'_, u64>| {
        seen.note(r);
        match **r {
            0 => Outcome::reject("poison"),
            1 if r.attempt() == 1 => Outcome::retry_after(ms(77), "later"),
            _ => Outcome::Ack,
        }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, 0..2);
    lab.settle();
    assert_eq!(lab.manual.next_due().unwrap().as_nanos(), 77_000_000);
    lab.finish();
    assert_eq!(inbox.take(), [(0, 0, 1), (0, 1, 1), (0, 1, 2)]);
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.retried()), (1, 1, 1));
    assert_eq!(group.letters()[0].message(), "poison");
}

//
#[test]
fn a_panic_is_a_failure_of_its_own_kind_and_the_lane_goes_on() {
    let lab = Lab::new(3);
    let topic = lab.topic(1, 1_000);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::never())).unwrap();
    group
        .member("m")
        .run(&lab.manual)
        .subscribe(|r| {
            if **r % 3 == 1 {
                std::panic::resume_unwind(Box::new(format!("no {}", **r)));
            }
        })
        .unwrap();
    lab.feed(&topic, 0, 0..30);
    lab.settle();
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.lag()), (20, 10, 0));
    let letters = group.letters();
    assert!(letters.iter().all(|letter| letter.kind() == "panic"));
    assert_eq!(letters[0].message(), "no 1");
}

//
#[test]
fn attempts_survive_a_change_of_members_and_a_stop_in_the_middle_of_a_backoff_commits_nothing() {
    let lab = Lab::new(4);
    let topic = lab.topic(1, 2);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(4, ms(10)))).unwrap();
    let inbox = Inbox::default();
    let failing = |inbox: Inbox| {
        move |r: &Record<'_, u64>| {
            inbox.note(r);
            Err::<(), _>("no")
        }
    };
    lab.feed(&topic, 0, [7]);
    for attempt in 1..=4 {
        let member = group.member("m").run(&lab.manual).subscribe(failing(inbox.clone())).unwrap();
        lab.settle();
        assert_eq!(inbox.take(), [(0, 0, attempt)]);
        assert_eq!(group.lag(), u64::from(attempt < 4));
        assert!(member.leave() && !member.leave());
        lab.settle();
        lab.clock.advance(ms(10));
    }
    assert_eq!((balanced(&group).dead(), group.letters()[0].attempts()), (1, 4));
}

//
#[test]
fn an_ack_after_a_seek_is_refused_and_changes_nothing() {
    for capacity in [2, 3, 4, 1_000] {
        let lab = Lab::new(5);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        let inbox = Inbox::default();
        let (seen, seeker) = (inbox.clone(), group.clone());
        let mut calls = 0;
        let handler = move |r: &Record<'_, u64>| {
            seen.note(r);
            calls += 1;
            if calls == 2 {
                // As another thread would while this handler is at work.
                assert_eq!(seeker.seek(0, ringlog::SeekTo::Offset(0)), Ok(0));
            }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        lab.feed(&topic, 0, [10]);
        lab.settle();
        lab.feed(&topic, 0, [11]);
        lab.settle();
        assert_eq!(inbox.offsets(0), [0, 1, 0, 1]);
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.refused(), stats.replayed(), stats.lag()), (3, 1, 1, 0));
    }
}

// X20
#[test]
fn a_record_whose_commit_is_refused_is_not_buried_either() {
    let lab = Lab::new(11);
    let topic = lab.topic(1, 4);
    let group = group(&topic);
    let seeker = group.clone();
    let mut calls = 0;
    let handler = move |_: &Record<'_, u64>| {
        calls += 1;
        if calls == 1 {
            seeker.seek(0, ringlog::SeekTo::Earliest).unwrap();
        }
        Outcome::reject("poison")
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, [0]);
    lab.settle();
    let stats = balanced(&group);
    assert_eq!((stats.dead(), stats.refused(), stats.letters), (1, 1, 1), "delivered twice, buried once");
}

#[test]
fn a_failed_batch_is_handed_out_one_by_one_so_that_only_the_poison_is_buried() {
    let lab = Lab::new(6);
    let topic = lab.topic(1, 1_000);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO))).unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    group
        .member("m")
        .run(&lab.manual)
        .subscribe_batch(move |batch| {
            seen.lock().unwrap().push(batch.len());
            if batch.iter().any(|r| *r == 13) { Err("13") } else { Ok(()) }
        })
        .unwrap();
    lab.feed(&topic, 0, 0..40);
    lab.finish();
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.lag()), (39, 1, 0));
    let letters = group.letters();
    assert_eq!((letters.len(), letters[0].offset(), letters[0].attempts()), (1, 13, 2));
    let sizes = sizes.lock().unwrap();
    assert!(sizes.iter().any(|size| *size > 1), "batches came: {sizes:?}");
}

#[test]
fn a_batch_handler_can_name_how_many_are_done_and_what_the_next_one_needs() {
    let lab = Lab::new(7);
    let topic = lab.topic(1, 1_000);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    group
        .member("m")
        .run(&lab.manual)
        .subscribe_batch(move |batch| {
            log.lock().unwrap().extend(batch.iter().map(|r| (r.offset(), r.attempt())));
            match batch.iter().position(|r| *r % 10 == 9 && r.attempt() < 3) {
                Some(at) => BatchOutcome::after(at, Outcome::retry("once more")),
                None => BatchOutcome::after(batch.len(), Outcome::Ack),
            }
        })
        .unwrap();
    lab.feed(&topic, 0, 0..30);
    lab.finish();
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.retried()), (30, 0, 6));
    assert!(seen.lock().unwrap().contains(&(9, 3)));
}

#[test]
fn ends_batch_is_said_of_the_last_record_that_is_ready() {
    let lab = Lab::new(8);
    let topic = lab.topic(1, 1_000);
    let group = group(&topic);
    let flushed = Arc::new(Mutex::new((0, 0)));
    let state = flushed.clone();
    group
        .member("m")
        .run(&lab.manual)
        .subscribe(move |r| {
            let mut state = state.lock().unwrap();
            state.0 += 1;
            if r.ends_batch() {
                state.1 = state.0;
            }
        })
        .unwrap();
    for n in 0..20 {
        lab.feed(&topic, 0, 0..n);
        lab.settle();
        let (seen, flushed) = *flushed.lock().unwrap();
        assert_eq!(seen, flushed, "all that was seen was flushed");
    }
}

// A-26, C-5
#[test]
fn a_record_says_where_it_lies_and_derefs_to_its_payload() {
    let lab = Lab::new(9);
    let topic = lab.topic(3, 4);
    let text = Arc::new(Mutex::new(String::new()));
    let out = text.clone();
    group(&topic)
        .member("m")
        .run(&lab.manual)
        .subscribe(move |r| {
            assert_eq!((r.topic(), r.partition(), r.offset(), **r, *r.value()), ("orders", 2, 0, 99, 99));
            *out.lock().unwrap() = format!("{r} {r:?}");
        })
        .unwrap();
    lab.feed(&topic, 2, [99]);
    lab.settle();
    assert_eq!(*text.lock().unwrap(), "orders/2@0 99 orders/2@0 99");
}

// C-18
#[test]
fn burying_with_a_function_keeps_what_it_makes_and_the_oldest_letter_goes() {
    let lab = Lab::new(10);
    let topic = lab.topic(1, 4);
    let config = GroupConfig::earliest()
        .retry(Retry::never())
        .letters(2)
        .bury_with(|value: &u64, failure| format!("{value}: {}", failure.message()));
    let group = topic.group("g", config).unwrap();
    group.member("m").run(&lab.manual).subscribe(|_| Err::<(), _>("no")).unwrap();
    lab.feed(&topic, 0, 0..5);
    lab.settle();
    let kept: Vec<_> = group.letters().iter().map(|letter| letter.payload::<String>().cloned().unwrap()).collect();
    assert_eq!(kept, ["3: no", "4: no"]);
    let stats = balanced(&group);
    assert_eq!((stats.dead(), stats.letters, stats.letters_lost), (5, 2, 3));
}
