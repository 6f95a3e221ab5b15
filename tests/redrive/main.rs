//! Redrive: letters that come back to their group, in order, before what comes next; and letters that go anywhere.
mod called_back;
#[path = "../lab/mod.rs"]
mod lab;

use lab::{CAPACITIES, Lab, balanced};
use ringlog::{Batch, BatchOutcome, Group, GroupConfig, Outcome, Pick, Record, Retry, SeekTo, StartAt, Topic};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What a handler saw of a record: offset, value, attempt, whether it was redriven.
type Seen = Arc<Mutex<Vec<(u64, u64, u32, bool)>>>;

fn take(seen: &Seen) -> Vec<(u64, u64, u32, bool)> {
    std::mem::take(&mut seen.lock().unwrap())
}

fn config(attempts: u32) -> GroupConfig<u64> {
    GroupConfig::new(StartAt::Earliest).retry(Retry::constant(attempts, ms(5))).bury_cloned()
}

/// A switch that decides whether records fail.
#[derive(Clone, Debug, Default)]
struct Broken(Arc<AtomicBool>);

impl Broken {
    fn set(&self, broken: bool) {
        self.0.store(broken, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A member that fails with odd values while it is broken.
fn member(lab: &Lab, group: &Group<u64>, name: &str, seen: &Seen, broken: &Broken) {
    let (seen, broken) = (seen.clone(), broken.clone());
    let handler = move |r: &Record<'_, u64>| {
        seen.lock().unwrap().push((r.offset(), **r, r.attempt(), r.is_redriven()));
        if broken.is_set() && **r % 2 == 1 { Err("broken") } else { Ok(()) }
    };
    group.member(name).run(&lab.manual).subscribe(handler).unwrap();
}

/// A group of one attempt, broken, that has buried `1, 3, .. n` of `0..n`.
fn buried(lab: &Lab, topic: &Topic<u64>, n: u64) -> (Group<u64>, Seen, Broken) {
    let (seen, broken) = (Seen::default(), Broken::default());
    broken.set(true);
    let group = topic.group("g", config(1)).unwrap();
    member(lab, &group, "m", &seen, &broken);
    lab.feed(topic, 0, 0..n);
    lab.finish();
    take(&seen);
    (group, seen, broken)
}

// C-18, A-28, A-10, A-34
#[test]
fn letters_come_back_in_order_before_the_next_record_and_the_books_balance() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64);
        let topic = lab.topic(1, capacity);
        let (group, seen, broken) = buried(&lab, &topic, 8);
        assert_eq!((balanced(&group).dead(), group.letters().len(), group.lag()), (4, 4, 0));
        group.pause();
        lab.feed(&topic, 0, [100]);
        broken.set(false);
        let done = group.redrive(Pick::all()).unwrap();
        assert_eq!((done.queued, done.without_record, done.no_room), (4, 0, 0));
        let stats = balanced(&group);
        assert_eq!((stats.replayed(), stats.lag(), stats.letters), (4, 5, 0));
        assert_eq!(group.redriving().iter().map(|letter| letter.offset()).collect::<Vec<_>>(), [1, 3, 5, 7]);
        lab.settle();
        assert!(take(&seen).is_empty(), "a paused lane hands nothing over");
        let third = ringlog::Position { partition: 0, offset: 5 };
        assert_eq!(group.delivery(third), Ok(ringlog::Delivery::Redriven));
        group.resume();
        lab.settle();
        let want = [(1, 1, 1, true), (3, 3, 1, true), (5, 5, 1, true), (7, 7, 1, true), (8, 100, 1, false)];
        assert_eq!(take(&seen), want);
        assert_eq!(group.delivery(third), Ok(ringlog::Delivery::Passed));
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.dead(), stats.lag(), stats.skipped()), (9, 4, 0, 0));
        assert_eq!((stats.lanes[0].committed, group.letters().len(), group.redriving().len()), (9, 0, 0));
    }
}

// X20
#[test]
fn what_fails_again_is_tried_as_often_as_a_new_record_and_becomes_a_new_letter() {
    for capacity in CAPACITIES {
        let lab = Lab::new(3);
        let topic = lab.topic(1, capacity);
        let (seen, broken) = (Seen::default(), Broken::default());
        broken.set(true);
        let group = topic.group("g", config(3)).unwrap();
        member(&lab, &group, "m", &seen, &broken);
        lab.feed(&topic, 0, [1]);
        lab.finish();
        assert_eq!(take(&seen).len(), 3);
        lab.clock.advance(ms(100));
        let before = group.letters()[0].failed_at();
        assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
        lab.feed(&topic, 0, [2]);
        lab.settle();
        assert_eq!(take(&seen), [(0, 1, 1, true)], "the record behind it waits");
        assert_eq!((group.lag(), balanced(&group).retried()), (2, 3));
        lab.clock.advance(ms(5) - Duration::from_nanos(1));
        lab.settle();
        assert!(take(&seen).is_empty(), "not before its time");
        lab.finish();
        assert_eq!(take(&seen), [(0, 1, 2, true), (0, 1, 3, true), (1, 2, 1, false)]);
        let (stats, letters) = (balanced(&group), group.letters());
        assert_eq!((stats.acked(), stats.dead(), stats.replayed(), stats.lag()), (1, 2, 1, 0));
        assert_eq!((letters.len(), letters[0].offset(), letters[0].attempts()), (1, 0, 3));
        assert!(letters[0].failed_at() > before);
    }
}

#[test]
fn a_redriven_record_shows_the_letter_it_comes_from_to_handlers_of_records_and_of_batches() {
    let lab = Lab::new(4);
    let topic = lab.topic(1, 4);
    for name in ["single", "batch"] {
        let group = topic.group(name, config(1)).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let see = move |r: &Record<'_, u64>| {
            let letter = r.letter().map(|letter| letter.message().to_owned());
            noted.lock().unwrap().push((r.offset(), r.ends_batch(), letter));
            if r.is_redriven() { Ok(()) } else { Err("first time") }
        };
        if name == "single" {
            group.member("m").run(&lab.manual).subscribe(see).unwrap();
        } else {
            let all = move |batch: &Batch<'_, u64>| {
                assert_eq!(batch.is_redriven(), batch.letter().is_some());
                let outcomes: Vec<_> = batch.iter().map(|r| see(&r)).collect();
                match outcomes.iter().position(Result::is_err) {
                    Some(at) => BatchOutcome::after(at, Outcome::reject("first time")),
                    None => BatchOutcome::after(batch.len(), Outcome::Ack),
                }
            };
            group.member("m").run(&lab.manual).subscribe_batch(all).unwrap();
        }
        let at = topic.end(0).unwrap();
        lab.feed(&topic, 0, [7]);
        lab.finish();
        group.redrive(Pick::all()).unwrap();
        lab.finish();
        let last = seen.lock().unwrap().last().cloned().unwrap();
        assert_eq!(last, (at, true, Some("first time".to_owned())));
        assert_eq!((balanced(&group).lag(), group.letters().len()), (0, 0));
        topic.delete_group(name).unwrap();
    }
}

#[test]
fn what_cannot_be_redriven_stays_a_letter_and_is_counted() {
    let lab = Lab::new(5);
    let topic = lab.topic(1, 16);
    let broken = Broken::default();
    broken.set(true);
    let facts = || GroupConfig::latest().retry(Retry::never());
    for (name, config) in [("facts", facts()), ("text", facts().bury_with(|value: &u64, _| value.to_string()))] {
        let group = topic.group(name, config).unwrap();
        member(&lab, &group, "m", &Seen::default(), &broken);
        lab.feed(&topic, 0, [1, 3]);
        lab.finish();
        let done = group.redrive(Pick::all()).unwrap();
        assert_eq!((done.queued, done.without_record, done.no_room), (0, 2, 0), "{name}");
        assert_eq!((group.letters().len(), balanced(&group).replayed()), (2, 0));
        topic.delete_group(name).unwrap();
    }
}

#[test]
fn a_full_queue_leaves_the_rest_among_the_letters() {
    let lab = Lab::new(5);
    let topic = lab.topic(1, 16);
    let group = topic.group("small", config(1).letters(2)).unwrap();
    let (inside, seen) = (group.clone(), Seen::default());
    let noted = seen.clone();
    let handler = move |r: &Record<'_, u64>| {
        if r.is_redriven() {
            noted.lock().unwrap().push((r.offset(), **r, r.attempt(), true));
            return Ok(());
        }
        if **r == 2 {
            assert_eq!(inside.redrive(Pick::all()).unwrap().queued, 2);
        }
        Err("no")
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, 0..3);
    while group.letters().is_empty() || group.redriving().len() < 2 {
        lab.manual.step().expect("the third is still to come");
    }
    let done = group.redrive(Pick::all()).unwrap();
    assert_eq!((done.queued, done.no_room, group.letters().len()), (0, 1, 1));
    lab.settle();
    assert_eq!(take(&seen), [(0, 0, 1, true), (1, 1, 1, true)]);
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 1);
    lab.settle();
    assert_eq!((balanced(&group).acked(), balanced(&group).dead(), group.lag()), (3, 3, 0));
}

#[test]
fn a_pick_takes_the_oldest_or_those_that_a_function_wants() {
    let lab = Lab::new(6);
    let topic = lab.topic(1, 16);
    let (group, seen, broken) = buried(&lab, &topic, 10);
    broken.set(false);
    assert_eq!(group.redrive(Pick::first(1)).unwrap().queued, 1);
    assert_eq!(group.redrive(Pick::when(|letter| letter.offset() > 3).at_most(2)).unwrap().queued, 2);
    lab.finish();
    assert_eq!(take(&seen).iter().map(|seen| seen.0).collect::<Vec<_>>(), [1, 5, 7]);
    assert_eq!(group.letters().iter().map(|letter| letter.offset()).collect::<Vec<_>>(), [3, 9]);
    let out = group.drain_letters(Pick::when(|letter| letter.offset() == 9));
    assert_eq!((out.len(), out[0].payload::<u64>(), group.letters().len()), (1, Some(&9), 1));
    balanced(&group);
}

//
#[test]
fn the_queue_belongs_to_the_lane_and_survives_members_that_die_and_join() {
    for seed in 0..20 {
        let lab = Lab::new(seed);
        let topic = lab.topic(1, 4);
        let (group, seen, broken) = buried(&lab, &topic, 8);
        broken.set(false);
        assert_eq!(group.redrive(Pick::all()).unwrap().queued, 4);
        for round in 0..3 {
            lab.manual.step();
            lab.manual.kill("g", if round == 0 { "m" } else { "again" });
            assert_eq!(balanced(&group).lag() + balanced(&group).acked(), 8, "no member, nothing lost");
            member(&lab, &group, "again", &seen, &broken);
        }
        lab.finish();
        assert_eq!(take(&seen).iter().map(|seen| seen.0).collect::<Vec<_>>(), [1, 3, 5, 7]);
        assert_eq!((balanced(&group).acked(), group.lag()), (8, 0));
    }
}

// A-8, C-E1
#[test]
fn a_seek_leaves_what_is_queued_where_it_is_and_both_are_handed_over() {
    let lab = Lab::new(7);
    let topic = lab.topic(1, 8);
    let (group, seen, broken) = buried(&lab, &topic, 4);
    broken.set(false);
    group.pause();
    group.redrive(Pick::all()).unwrap();
    group.seek(0, SeekTo::Offset(2)).unwrap();
    assert_eq!((balanced(&group).replayed(), group.lag()), (4, 4));
    group.resume();
    lab.finish();
    let want = [(1, 1, 1, true), (3, 3, 1, true), (2, 2, 1, false), (3, 3, 1, false)];
    assert_eq!(take(&seen), want);
    assert_eq!((balanced(&group).acked(), group.lag()), (6, 0));
}

#[test]
fn redriven_letters_pass_a_record_that_waits_for_its_next_attempt() {
    let lab = Lab::new(8);
    let topic = lab.topic(1, 8);
    let group = topic.group("g", config(2)).unwrap();
    let (seen, broken) = (Seen::default(), Broken::default());
    broken.set(true);
    member(&lab, &group, "m", &seen, &broken);
    lab.feed(&topic, 0, [1]);
    lab.finish();
    lab.feed(&topic, 0, [3]);
    lab.settle();
    take(&seen);
    broken.set(false);
    group.redrive(Pick::all()).unwrap();
    lab.settle();
    assert_eq!(take(&seen), [(0, 1, 1, true)]);
    lab.finish();
    assert_eq!(take(&seen), [(1, 3, 2, false)], "it waited for its time, and kept its attempts");
    balanced(&group);
}

// A-E5
#[test]
fn a_redriven_record_keeps_its_time_and_counts_as_lag_in_time() {
    let lab = Lab::new(13);
    let topic = lab
        .broker
        .create_topic("timed", ringlog::TopicConfig::<u64>::new().timestamps(ringlog::Timestamps::Exact))
        .unwrap();
    let group = topic.group("g", config(1)).unwrap();
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let handler = move |r: &Record<'_, u64>| {
        noted.lock().unwrap().push(r.published_at().map(|at| at.as_nanos()));
        if r.is_redriven() { Ok(()) } else { Err("no") }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.clock.advance(ms(1));
    topic.publish(1).unwrap();
    lab.settle();
    lab.clock.advance(ms(9));
    assert_eq!(group.lag_time(), Some(Duration::ZERO));
    group.redrive(Pick::all()).unwrap();
    assert_eq!(group.lag_time(), Some(ms(9)));
    lab.settle();
    assert_eq!((times.lock().unwrap().as_slice(), group.lag_time()), (&[Some(1_000_000); 2][..], Some(Duration::ZERO)));
}

#[test]
fn a_planned_panic_hits_a_redriven_record_and_buries_it_again() {
    for newcomer in [false, true] {
        let lab = Lab::new(12);
        let topic = lab.topic(1, 4);
        let (group, seen, broken) = buried(&lab, &topic, 2);
        broken.set(false);
        if newcomer {
            lab.manual.kill("g", "m");
        }
        lab.manual.panic_at("g", 0, 1);
        group.redrive(Pick::all()).unwrap();
        if newcomer {
            member(&lab, &group, "again", &seen, &broken);
        }
        lab.finish();
        assert!(take(&seen).is_empty());
        assert_eq!((group.letters().len(), group.letters()[0].kind(), balanced(&group).dead()), (1, "panic", 2));
    }
}

/// Whoever sees that everything is done finds the letter as well.
//
#[test]
fn a_letter_is_there_as_soon_as_a_drain_says_that_all_is_done() {
    let broker = ringlog::Broker::new();
    let topic = broker.create_topic("orders", ringlog::TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", config(1)).unwrap();
    group.subscribe("m", |_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
    for n in 0..500 {
        topic.publish(n).unwrap();
        while group.lag() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(group.letters().len() as u64, n + 1);
    }
}

// A-T4
#[test]
fn letters_redriven_while_everybody_is_at_work_are_each_handled_once() {
    let broker = ringlog::Broker::new();
    let topic = broker.create_topic("orders", ringlog::TopicConfig::<u64>::new().partitions(2).capacity(8)).unwrap();
    let group = topic.group("g", config(1)).unwrap();
    let done: Seen = Seen::default();
    for name in ["a", "b"] {
        let done = done.clone();
        let handler = move |r: &Record<'_, u64>| {
            if !r.is_redriven() && **r % 3 == 0 {
                return Err("not at first");
            }
            done.lock().unwrap().push((r.offset(), **r, 1, r.is_redriven()));
            Ok(())
        };
        group.subscribe(name, handler).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3_000).for_each(|n| assert!(topic.publish(n).unwrap().kept)));
        scope.spawn(|| {
            while done.lock().unwrap().len() < 3_000 {
                group.redrive(Pick::all()).unwrap();
                std::thread::yield_now();
            }
        });
    });
    broker.drain(Duration::from_secs(60)).unwrap();
    let mut values: Vec<u64> = take(&done).iter().map(|seen| seen.1).collect();
    values.sort_unstable();
    assert_eq!(values, (0..3_000).collect::<Vec<_>>());
    let stats = balanced(&group);
    assert_eq!((stats.replayed(), stats.dead(), stats.acked(), stats.letters), (1_000, 1_000, 3_000, 0));
}
