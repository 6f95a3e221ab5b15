//! The manual executor: the same seed gives the same trace, faults can be planned, and a lost wake-up shows.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced, group};
use ringlog::{GroupConfig, Retry, Step};
use std::time::Duration;

/// A busy run with members that come, go and die, failures, a seek and a pause.
fn run(seed: u64, capacity: usize) -> String {
    let lab = Lab::new(seed);
    let topic = lab.topic(3, capacity);
    let config = GroupConfig::earliest().retry(Retry::exponential(2));
    let (one, two) = (topic.group("one", config).unwrap(), topic.group("two", GroupConfig::latest()).unwrap());
    let flaky = |r: &ringlog::Record<'_, u64>| if **r % 5 == 4 { Err("flaky") } else { Ok(()) };
    let first = one.member("a").run(&lab.manual).subscribe(flaky).unwrap();
    two.member("t").run(&lab.manual).subscribe_with(|_| |_: &ringlog::Record<'_, u64>| ()).unwrap();
    for round in 0..30 {
        let published = topic.publish_to(round % 3, u64::from(round)).is_ok();
        lab.manual.note(format_args!("published {round}: {published}"));
        lab.manual.run(2);
        match round {
            5 => drop(one.member("b").run(&lab.manual).subscribe(flaky).unwrap()),
            10 => assert!(first.leave()),
            15 => drop(two.seek(0, ringlog::SeekTo::Earliest).unwrap()),
            18 => two.pause(),
            20 => assert!(lab.manual.kill("one", "b")),
            22 => drop(one.member("c").run(&lab.manual).subscribe(flaky).unwrap()),
            25 => two.resume(),
            _ => lab.clock.advance(Duration::from_micros(700)),
        }
    }
    lab.finish();
    for group in [&one, &two] {
        assert_eq!(balanced(group).lag(), 0);
        lab.manual.note(format_args!("{:?}", group.stats()));
    }
    lab.manual.trace()
}

//
#[test]
fn the_same_seed_gives_the_same_trace_byte_for_byte() {
    for capacity in CAPACITIES {
        for seed in 0..20 {
            let trace = run(seed, capacity);
            assert_eq!(trace.as_bytes(), run(seed, capacity).as_bytes());
            assert!(trace.lines().count() > 50);
        }
        let different: std::collections::HashSet<_> = (0..20).map(|seed| run(seed, capacity)).collect();
        assert!(different.len() > 15, "the seed chooses");
    }
}

#[test]
fn a_wake_up_lost_on_purpose_is_found() {
    for others in 0..5 {
        let lab = Lab::new(others);
        let topic = lab.topic(2, 8);
        let group = group(&topic);
        let inbox = Inbox::default();
        let seen = inbox.clone();
        group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
        lab.settle();
        lab.manual.lose_wake(others);
        let mut found = None;
        for n in 0..6 {
            topic.publish_to(1, n).unwrap();
            while lab.manual.step().is_some() {}
            found = found.or_else(|| lab.manual.stranded().first().cloned());
        }
        let stranded = found.expect("one lane has a record, sleeps, and was not called");
        assert_eq!((stranded.place.partition, stranded.next), (1, Some(others)));
        assert_eq!(inbox.offsets(1), (0..others).collect::<Vec<_>>(), "nobody looked again by chance");
        group.seek(1, ringlog::SeekTo::Offset(others)).unwrap();
        lab.settle();
        assert_eq!(inbox.offsets(1), (0..6).collect::<Vec<_>>(), "a ring gets it going again");
    }
}

#[test]
fn a_lane_is_stepped_only_when_it_was_called() {
    let lab = Lab::new(1);
    let topic = lab.topic(2, 8);
    group(&topic).member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
    lab.settle();
    assert!(lab.manual.step().is_none());
    topic.publish_to(1, 0).unwrap();
    let stepped = lab.manual.step().unwrap();
    assert_eq!((stepped.place.partition, stepped.step), (1, Step::Worked { handled: 1, more: false }));
    assert_eq!(lab.manual.step().unwrap().step, Step::Waits);
    assert!(lab.manual.step().is_none());
}

//
#[test]
fn a_planned_panic_strikes_the_record_it_names() {
    for capacity in CAPACITIES {
        for seed in 0..10 {
            let lab = Lab::new(seed);
            let topic = lab.topic(2, capacity);
            let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO));
            let group = topic.group("g", config).unwrap();
            let inbox = Inbox::default();
            let seen = inbox.clone();
            lab.manual.panic_at("g", 0, 3);
            lab.manual.panic_at("g", 0, 5);
            lab.manual.panic_at("g", 0, 5);
            lab.manual.panic_at("g", 0, 99);
            assert_eq!(lab.manual.planned().len(), 4);
            group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
            lab.feed(&topic, 0, 0..8);
            lab.feed(&topic, 1, 0..8);
            lab.finish();
            assert_eq!(lab.manual.planned(), [("g".into(), 0, 99)], "that one never came");
            assert_eq!(inbox.offsets(0), [0, 1, 2, 3, 4, 6, 7]);
            assert_eq!(inbox.offsets(1), (0..8).collect::<Vec<_>>());
            let stats = balanced(&group);
            assert_eq!((stats.dead(), stats.retried(), stats.lag()), (1, 2, 0));
            assert_eq!((group.letters()[0].offset(), group.letters()[0].kind()), (5, "panic"));
        }
    }
}

//
#[test]
fn a_member_that_dies_between_two_steps_leaves_everything_to_the_others() {
    for seed in 0..20 {
        let lab = Lab::new(seed);
        let topic = lab.topic(3, 4);
        let group = group(&topic);
        let inbox = Inbox::default();
        for name in ["a", "b", "c"] {
            let seen = inbox.clone();
            group.member(name).run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
        }
        for (n, victim) in [(0, "a"), (1, "c")] {
            (0..3).for_each(|partition| lab.feed(&topic, partition, [n]));
            lab.manual.run(2);
            assert!(lab.manual.kill("g", victim) && !lab.manual.kill("g", victim));
        }
        lab.settle();
        (0..3).for_each(|partition| assert_eq!(inbox.offsets(partition), [0, 1]));
        assert_eq!(group.assignment().len(), 1);
        balanced(&group);
    }
}

#[test]
fn settings_whose_destructor_panics_do_not_unwind_into_who_steps() {
    struct Rude;
    impl Drop for Rude {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("not so quietly"));
        }
    }
    let lab = Lab::new(1);
    let kept = lab.topic(1, 4);
    let (group, inbox) = (group(&kept), Inbox::default());
    let seen = inbox.clone();
    group.member("m").run(&lab.manual).subscribe(move |record: &ringlog::Record<'_, u64>| seen.note(record)).unwrap();
    for kill in [false, true] {
        let going = lab.broker.create_topic("going", ringlog::TopicConfig::<u64>::new()).unwrap();
        let rude = Rude;
        let config = GroupConfig::earliest().on_gap(move |_| {
            let _kept = &rude;
        });
        going.group("going", config).unwrap().member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
        lab.broker.delete_topic("going").unwrap();
        drop(going);
        // The member's task has the last handle of the group now.
        assert!(!kill || lab.manual.kill("going", "m"));
        lab.feed(&kept, 0, 0..1);
        lab.settle();
    }
    assert_eq!(inbox.offsets(0), [0, 1]);
}
