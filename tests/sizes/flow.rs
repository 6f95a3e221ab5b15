//! Records on their way: two groups, failures, many producers and members, members that change.
#![forbid(unsafe_code)]

use super::{Event, cases, done, event, topic};
use ringlog::testing::{Counter, Flaky, Recorder};
use ringlog::{Broker, GroupConfig, Record, Retry, Run, SeekTo, SubscribeError, TopicConfig};
use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

fn soon(attempts: u32) -> GroupConfig<Event> {
    GroupConfig::earliest().retry(Retry::constant(attempts, Duration::from_micros(1)))
}

// A-T1
#[test]
fn two_groups_each_get_every_record_on_their_own_cursors() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 2, slots);
        let (one, two) = (topic.group("billing", soon(3)).unwrap(), topic.group("audit", soon(3)).unwrap());
        let (billed, audited) = (Recorder::new(), Recorder::new());
        one.subscribe("m", billed.handler()).unwrap();
        two.member("m").run(Run::ThreadPerLane).subscribe_with(|_| audited.handler()).unwrap();
        for n in 0..times {
            for text in ["alice:created", "bob:created", "alice:paid"] {
                topic.publish(event(text, n)).unwrap();
            }
        }
        done(&broker, &[&one, &two]);
        for seen in [&billed, &audited] {
            assert_eq!(seen.len(), 3 * times);
            let alice = seen.values_where(|event| event.account == "alice");
            let expected = (0..times).flat_map(|n| [event("alice:created", n), event("alice:paid", n)]);
            assert!(alice.into_iter().eq(expected), "{slots} slots");
        }
        assert_eq!(one.lag(), 0);
    }
}

// A-T2
#[test]
fn what_fails_once_comes_again_and_poison_is_buried_in_its_place() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 1, slots);
        let group = topic.group("g", soon(3).bury_cloned()).unwrap();
        let flaky = Flaky::failing(1).poison(|event: &Event| event.what == "cancelled");
        group.subscribe("m", flaky.handler()).unwrap();
        for n in 0..times {
            for text in ["alice:paid", "bob:cancelled", "alice:shipped"] {
                topic.publish(event(text, n)).unwrap();
            }
        }
        done(&broker, &[&group]);
        let expected = (0..times).flat_map(|n| [event("alice:paid", n), event("alice:shipped", n)]);
        assert!(flaky.accepted().values().into_iter().eq(expected));
        assert_eq!(flaky.attempts(|event| event.what == "paid"), 2 * times);
        assert_eq!(flaky.attempts(|event| event.what == "cancelled"), 3 * times);
        let letters = group.letters();
        assert_eq!(
            (letters.len(), group.stats().dead(), group.stats().retried()),
            (times, times as u64, 4 * times as u64)
        );
        for (n, letter) in letters.iter().enumerate() {
            assert_eq!((letter.attempts(), letter.payload::<Event>()), (3, Some(&event("bob:cancelled", n))));
        }
    }
}

// A-T4, A-12
#[test]
fn eight_producers_and_two_members_each_record_once_and_every_position_once() {
    const THREADS: usize = 8;
    for (slots, times) in cases() {
        let each = 50 * times;
        let broker = Broker::new();
        let config = TopicConfig::new().partitions(4).capacity(slots).block(None);
        let topic = broker.create_topic("events", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let seen = Recorder::new();
        for name in ["a", "b"] {
            group.subscribe(name, seen.handler()).unwrap();
        }
        let start = Barrier::new(THREADS);
        let publish = |thread: usize| {
            let (topic, start) = (topic.clone(), &start);
            move || {
                start.wait();
                (0..each).map(|n| topic.publish(thread * each + n).unwrap().position).collect::<Vec<_>>()
            }
        };
        let published: Vec<_> = thread::scope(|scope| {
            let all: Vec<_> = (0..THREADS).map(|thread| scope.spawn(publish(thread))).collect();
            all.into_iter().flat_map(|publisher| publisher.join().unwrap()).collect()
        });
        done(&broker, &[&group]);
        let all = THREADS * each;
        assert_eq!(published.iter().collect::<HashSet<_>>().len(), all);
        assert_eq!((0..4).map(|partition| topic.end(partition).unwrap()).sum::<u64>(), all as u64);
        let mut values = seen.values();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..all), "{slots} slots, {times} times");
        for partition in 0..4 {
            assert!(seen.offsets(partition).is_sorted());
        }
    }
}

// A-T10, A-60
#[test]
fn of_many_who_join_by_one_name_one_does() {
    const THREADS: usize = 4;
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 2, slots);
        let group = topic.group("g", soon(3)).unwrap();
        let counter = Counter::new();
        let start = Barrier::new(THREADS);
        let join = || {
            let (mut members, mut twice) = (Vec::new(), 0);
            for n in 0..times.min(20) {
                start.wait();
                match group.subscribe(&format!("m{n}"), counter.handler()) {
                    Ok(member) => members.push(member),
                    Err(SubscribeError::Duplicate { .. }) => twice += 1,
                    Err(other) => panic!("{other}"),
                }
                _ = topic.try_publish(event("alice:paid", n)); // something to do, if there is room
            }
            start.wait(); // all have tried
            members.iter().for_each(|member| assert!(member.leave()));
            (members.len(), twice)
        };
        let joined: Vec<(usize, usize)> = thread::scope(|scope| {
            let all: Vec<_> = (0..THREADS).map(|_| scope.spawn(join)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (members, twice) = joined.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!((members, twice), (times.min(20), times.min(20) * (THREADS - 1)));
        assert!(group.assignment().is_empty());
    }
}

// A-T16, A-72
#[test]
fn members_that_change_while_producers_run_neither_lose_nor_repeat() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = broker.create_topic("n", TopicConfig::new().partitions(3).capacity(slots).block(None)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let seen = Recorder::new();
        group.subscribe("stays", seen.handler()).unwrap();
        let each = 30 * times;
        thread::scope(|scope| {
            let publish = |from: usize| {
                let topic = topic.clone();
                move || (from..from + each).for_each(|n| _ = topic.publish(n).unwrap())
            };
            let publishers = [scope.spawn(publish(0)), scope.spawn(publish(each))];
            let mut round = 0;
            while round < 5 || !publishers.iter().all(|publisher| publisher.is_finished()) && round < 50 {
                let member = group.subscribe(&format!("m{round}"), seen.handler()).unwrap();
                thread::yield_now();
                assert!(member.leave());
                round += 1;
            }
        });
        done(&broker, &[&group]);
        let mut values = seen.values();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..2 * each), "{slots} slots, {times} times: once each");
        (0..3).for_each(|partition| assert!(seen.offsets(partition).is_sorted_by(|a, b| a < b)));
    }
}

// A-T19, A-56
#[test]
fn a_handler_that_fails_and_panics_does_not_end_its_worker() {
    let printing = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&"as planned") {
            printing(panic);
        }
    }));
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 1, slots);
        let group = topic.group("g", soon(2)).unwrap();
        let seen = Recorder::new();
        let handler = |event: &Record<'_, Event>| match event.what {
            "cancelled" => panic!("as planned"),
            "shipped" => Err("as planned"),
            _ => Ok(()),
        };
        group.subscribe("m", seen.around(handler)).unwrap();
        for n in 0..times {
            for text in ["alice:paid", "bob:cancelled", "alice:shipped"] {
                topic.publish(event(text, n)).unwrap();
            }
        }
        done(&broker, &[&group]);
        let times = times as u64;
        assert_eq!((group.stats().acked(), group.stats().dead(), seen.len() as u64), (times, 2 * times, 5 * times));
    }
}

// A-T12, A-67
#[test]
fn a_replay_delivers_everything_again() {
    for (slots, times) in cases() {
        let broker = Broker::new();
        let topic = topic(&broker, 2, slots);
        let group = topic.group("g", soon(3)).unwrap();
        let seen = Recorder::new();
        group.subscribe("m", seen.handler()).unwrap();
        let of_each = slots.min(3 * times);
        for n in 0..of_each {
            for text in ["alice:paid", "bob:paid"] {
                topic.publish(event(text, n)).unwrap();
            }
        }
        for round in 1..4 {
            done(&broker, &[&group]);
            assert_eq!(seen.len(), 2 * of_each * round);
            assert_eq!(seen.offsets(0).len(), of_each * round);
            assert_eq!(group.replay(SeekTo::Offset(0)).unwrap(), [0, 0]);
        }
        done(&broker, &[&group]);
        let bob: Vec<usize> = seen.values_where(|event| event.account == "bob").iter().map(|event| event.n).collect();
        assert_eq!(bob, (0..of_each).cycle().take(4 * of_each).collect::<Vec<_>>());
    }
}

// A-T20, A-T22, A-40, A-41
#[test]
fn keyless_records_are_spread_in_turn_or_in_runs_of_sixteen() {
    const THREADS: usize = 4;
    for (slots, times) in cases() {
        for run in [1, 16] {
            let broker = Broker::new();
            let config = TopicConfig::new().partitions(4).capacity(slots).block(None);
            let config = if run == 16 { config.partitioner(ringlog::Sticky::default()) } else { config };
            let topic = broker.create_topic("n", config).unwrap();
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let counter = Counter::new();
            group.subscribe("m", counter.handler()).unwrap();
            let each = 16 * times; // in all a multiple of every round there is
            thread::scope(|scope| {
                (0..THREADS).for_each(|_| drop(scope.spawn(|| (0..each).for_each(|n| _ = topic.publish(n).unwrap()))));
            });
            done(&broker, &[&group]);
            let expected = (THREADS * each / 4) as u64;
            assert_eq!([0, 1, 2, 3].map(|partition| topic.end(partition).unwrap()), [expected; 4]);
            assert_eq!(counter.count(), THREADS * each);
        }
    }
}
