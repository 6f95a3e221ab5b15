//! Effectively once, as far as a consumer remembers.
mod lab;

use lab::{Inbox, Lab, balanced};
use ringlog::{GroupConfig, Once, Outcome, Pick, Record, Retry, SeekTo};
use std::time::Duration;

// A-E2
#[test]
fn what_comes_again_takes_no_effect_again_within_the_window() {
    for window in [1, 2, 3, 4, 1_000] {
        let lab = Lab::new(window as u64);
        let topic = lab.topic(2, 16);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (once, effects) = (Once::new(window), Inbox::default());
        for name in ["a", "b"] {
            let (once, effects) = (once.clone(), effects.clone());
            let handler = move |r: &Record<'_, u64>| {
                if once.first(r) {
                    effects.note(r);
                    once.done(r);
                }
            };
            group.member(name).run(&lab.manual).subscribe(handler).unwrap();
        }
        lab.feed(&topic, 0, 0..8);
        lab.feed(&topic, 1, 0..8);
        lab.settle();
        effects.take();
        let back = 8_u64.saturating_sub(window as u64);
        lab.manual.kill("g", "a");
        group.replay(SeekTo::Offset(back)).unwrap();
        lab.settle();
        assert!(effects.take().is_empty(), "window {window}");
        group.replay(SeekTo::Offset(back.saturating_sub(1))).unwrap();
        lab.settle();
        assert_eq!(!effects.take().is_empty(), back > 0, "further back is new: window {window}");
        balanced(&group);
    }
}

#[test]
fn a_record_that_fails_stays_new_and_one_that_failed_after_its_effect_is_done() {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 4);
    let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO)).bury_cloned();
    let group = topic.group("g", config).unwrap();
    let (once, effects) = (Once::new(4), Inbox::default());
    let noted = effects.clone();
    let handler = move |r: &Record<'_, u64>| {
        let taken = once.run(r, || {
            if **r == 0 && r.attempt() == 1 && !r.is_redriven() {
                return Err("before its effect");
            }
            noted.note(r);
            Ok(())
        });
        match (taken, **r) {
            (Err(error), _) => Outcome::retry(error),
            (Ok(_), 1) if !r.is_redriven() => Outcome::reject("after its effect"),
            (Ok(_), _) => Outcome::Ack,
        }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, 0..2);
    lab.finish();
    assert_eq!(effects.take(), [(0, 0, 2), (0, 1, 1)]);
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
    lab.finish();
    assert!(effects.take().is_empty());
    assert_eq!((balanced(&group).acked(), group.letters().len()), (2, 0));
}
