//! Order by key, single-stepped on a manual clock.
mod key_lab;
mod lab;

use key_lab::{Job, Log, balanced, by_key, jobs, join, letters, mix, ms, of, publish, seen, topic};
use lab::Lab;
use ringlog::{
    Batch, BatchOutcome, Delivery, GroupConfig, GroupError, Order, Outcome, Pick, Position, Record, Retain, Retry,
    SeekTo, TopicConfig,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

// X14, B-18: by offset, each record as often as it needs before the next of its key
#[test]
fn each_key_is_in_order_whatever_fails() {
    for (seed, capacity) in (1..).zip([1, 2, 3, 4, 8, 64, 1_000]) {
        let lab = Lab::new(seed);
        let topic = topic(&lab, capacity);
        let group = topic.group("g", by_key().retry(Retry::constant(4, ms(3))).letters(1_000)).unwrap();
        let answer = move |record: &Record<'_, Job>| match mix(record.offset() + seed, record.attempt().into()) % 8 {
            0 => Outcome::retry("by chance"),
            1 => Outcome::RetryAfter(ms(1), ringlog::Failure::new("by chance")),
            2 if record.offset() % 5 == 0 => Outcome::reject("by chance"),
            _ => Outcome::Ack,
        };
        let log = join(&lab, &group, &["a", "b", "c"], answer);
        for n in 0..600 {
            let key = ['a', 'b', 'c', 'd', '.'][(mix(n, seed) % 5) as usize];
            while topic.publish_to(0, jobs(&key.to_string()).remove(0)).is_err() {
                lab.settle();
                if let Some(due) = lab.manual.next_due() {
                    lab.clock.set(due);
                    lab.settle();
                }
            }
        }
        lab.finish();
        for key in ['a', 'b', 'c', 'd'] {
            let of_key = of(&log, key);
            assert!(of_key.len() > 50 && of_key.is_sorted(), "capacity {capacity}, {key}: {of_key:?}");
        }
        let stats = balanced(&group);
        assert_eq!((stats.acked() + stats.dead(), stats.lag(), stats.refused()), (600, 0, 0));
        assert_eq!(stats.letters as u64, stats.dead());
    }
}

#[test]
fn a_key_that_fails_holds_up_itself_and_no_other() {
    let lab = Lab::new(1);
    let topic = topic(&lab, 64);
    let group = topic.group("g", by_key().retry(Retry::constant(3, ms(100)))).unwrap();
    let answer = |record: &Record<'_, Job>| match (record.offset(), record.attempt()) {
        (0, 1) => Outcome::retry("once"),
        _ => Outcome::Ack,
    };
    let log = join(&lab, &group, &["one", "two"], answer);
    publish(&topic, "aab.abcacb");
    lab.settle();
    assert_eq!(of(&log, 'a'), [(0, 1)]);
    assert_eq!((of(&log, 'b'), of(&log, 'c')), (vec![(2, 1), (5, 1), (9, 1)], vec![(6, 1), (8, 1)]));
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lag(), stats.lanes[0].committed, stats.retried()), (6, 4, 0, 1));
    let waits = Delivery::RetryScheduled { attempts: 1, wait: ms(100) };
    let at = |offset| group.delivery(Position { partition: 0, offset }).unwrap();
    assert_eq!([at(0), at(1), at(2)], [waits, Delivery::Pending, Delivery::Acked]);
    lab.clock.advance(ms(100));
    lab.settle();
    assert_eq!(of(&log, 'a'), [(0, 1), (0, 2), (1, 1), (4, 1), (7, 1)]);
    assert_eq!((balanced(&group).acked(), balanced(&group).lag()), (10, 0));
}

// So many wait as a quarter of the capacity; what comes after them is buried in order, and comes back in order
#[test]
fn behind_a_record_that_fails_a_quarter_of_the_capacity_waits_and_the_rest_is_buried() {
    let lab = Lab::new(2);
    let topic = topic(&lab, 16);
    let group = topic.group("g", by_key().retry(Retry::constant(3, ms(100))).bury_cloned()).unwrap();
    let answer = |record: &Record<'_, Job>| match (record.offset(), record.attempt()) {
        (0, 1) => Outcome::retry("once"),
        _ => Outcome::Ack,
    };
    let log = join(&lab, &group, &["one", "two", "three"], answer);
    publish(&topic, "aaa");
    lab.settle();
    publish(&topic, "aabaacab");
    lab.settle();
    // 1 to 4 wait, 6, 7 and 9 are buried.
    assert_eq!(letters(&group), [6, 7, 9].map(|offset| (offset, "behind".to_string())));
    assert_eq!(group.letters()[0].attempts(), 0);
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.lag(), stats.lanes[0].committed), (3, 3, 5, 0));
    lab.clock.advance(ms(100));
    lab.settle();
    assert_eq!(of(&log, 'a'), [(0, 1), (0, 2), (1, 1), (2, 1), (3, 1), (4, 1)]);
    publish(&topic, "aa");
    lab.settle();
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 3);
    lab.settle();
    let all = of(&log, 'a').iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
    assert_eq!(all, [0, 0, 1, 2, 3, 4, 11, 12, 6, 7, 9]);
    assert_eq!((balanced(&group).lag(), group.letters().len()), (0, 0));
}

#[test]
fn what_is_buried_behind_a_record_is_told_to_the_burying_function_in_order_and_its_panic_stops_there() {
    let lab = Lab::new(3);
    let topic = topic(&lab, 8);
    let told = Arc::new(Mutex::new(0_u32));
    let note = told.clone();
    let config = by_key().retry(Retry::constant(2, ms(100))).bury_with(move |_, failure| {
        assert!(failure.message().contains("too many records wait"), "{failure:?}");
        *note.lock().unwrap() += 1;
        panic!("in the burying function")
    });
    let group = topic.group("g", config).unwrap();
    let answer = |record: &Record<'_, Job>| match (record.offset(), record.attempt()) {
        (0, 1) => Outcome::retry("once"),
        _ => Outcome::Ack,
    };
    let log = join(&lab, &group, &["one", "two"], answer);
    publish(&topic, "a");
    lab.settle();
    publish(&topic, "aaaaaaa");
    lab.settle();
    assert_eq!((*told.lock().unwrap(), letters(&group).len(), balanced(&group).dead()), (5, 5, 5));
    lab.finish();
    assert_eq!(of(&log, 'a'), [(0, 1), (0, 2), (1, 1), (2, 1)]);
}

#[test]
fn without_keys_there_is_no_order_and_a_topic_without_them_is_refused() {
    let lab = Lab::new(4);
    let keyless = lab.broker.create_topic("plain", TopicConfig::<u64>::new()).unwrap();
    let refused = keyless.group("g", GroupConfig::earliest().order(Order::Key)).unwrap_err();
    assert_eq!(refused, GroupError::NoKeys { topic: "plain".into(), group: "g".into() });
    assert!(refused.to_string().contains("set TopicConfig::key or optional_key"), "{refused}");
    let topic = topic(&lab, 64);
    assert!(topic.group("g", by_key()).is_ok());
    assert!(topic.group("g", GroupConfig::earliest().order(Order::Shared)).is_err(), "another order");
    let group = topic.find_group("g").unwrap();
    let answer = |record: &Record<'_, Job>| if record.offset() == 0 { Outcome::retry("no") } else { Outcome::Ack };
    let log = join(&lab, &group, &["one", "two"], answer);
    publish(&topic, "....");
    lab.settle();
    assert_eq!((balanced(&group).acked(), balanced(&group).lag()), (3, 1));
    lab.finish();
    assert_eq!(of(&log, '.').len(), 6);
}

// The user's code may panic, and nothing is under a lock then
#[test]
fn records_whose_key_cannot_be_had_are_one_key_of_their_own() {
    let lab = Lab::new(5);
    let config = TopicConfig::new().capacity(64).key(|job: &Job| {
        assert_ne!(job.key, Some('x'.into()), "the extractor panics");
        job.key.as_ref().unwrap()
    });
    let topic = lab.broker.create_topic("jobs", config).unwrap();
    let group = topic.group("g", by_key().retry(Retry::constant(3, ms(10)))).unwrap();
    let answer = |record: &Record<'_, Job>| match (record.offset(), record.attempt()) {
        (1, 1) => Outcome::retry("once"),
        _ => Outcome::Ack,
    };
    let log = join(&lab, &group, &["one", "two"], answer);
    publish(&topic, "axaxaxb");
    lab.settle();
    assert_eq!((of(&log, 'a').len(), of(&log, 'b').len(), of(&log, 'x')), (3, 1, vec![(1, 1)]));
    lab.finish();
    assert_eq!(of(&log, 'x'), [(1, 1), (1, 2), (3, 1), (5, 1)]);
    assert_eq!((balanced(&group).acked(), balanced(&group).lag()), (7, 0));
}

// What has to wait keeps its record, and what is done before it too, as the cursor stands there
#[test]
fn where_done_records_are_dropped_at_once_what_waits_for_its_key_stays() {
    let lab = Lab::new(13);
    let config = key_lab::keys(64).retain(Retain::Unacked);
    let topic = lab.broker.create_topic("jobs", config).unwrap();
    let group = topic.group("g", by_key().retry(Retry::constant(3, ms(10)))).unwrap();
    let answer = |record: &Record<'_, Job>| match (record.offset() % 7, record.attempt()) {
        (1, 1) => Outcome::retry("once"),
        _ => Outcome::Ack,
    };
    let log = join(&lab, &group, &["one", "two"], answer);
    for _ in 0..20 {
        publish(&topic, "abaab.cab");
        lab.settle();
        lab.finish();
    }
    assert!(of(&log, 'a').is_sorted() && of(&log, 'b').is_sorted());
    assert_eq!(
        (balanced(&group).acked() + balanced(&group).dead(), balanced(&group).lag(), topic.len(0)),
        (180, 0, Some(0))
    );
}

#[test]
fn a_seek_forgets_what_waits_for_its_key() {
    for (to, sees) in [(0, vec![(0, 1), (0, 1), (1, 1), (3, 1)]), (1, vec![(0, 1), (1, 1), (3, 1)]), (4, vec![(0, 1)])]
    {
        let lab = Lab::new(6);
        let topic = topic(&lab, 64);
        let group = topic.group("g", by_key().retry(Retry::constant(3, ms(10)))).unwrap();
        let open = Arc::new(Mutex::new(false));
        let gate = open.clone();
        let answer = move |record: &Record<'_, Job>| match record.offset() {
            0 if !*gate.lock().unwrap() => Outcome::retry("not yet"),
            _ => Outcome::Ack,
        };
        let log = join(&lab, &group, &["one", "two"], answer);
        publish(&topic, "aaba");
        lab.settle();
        *open.lock().unwrap() = true;
        group.seek(0, SeekTo::Offset(to)).unwrap();
        lab.settle();
        publish(&topic, "a");
        lab.finish();
        let sees: Vec<_> = sees.into_iter().chain([(4, 1)]).collect();
        assert_eq!(of(&log, 'a'), sees, "seek to {to}");
        // Going forward, what was done behind the cursor stays done.
        assert_eq!(of(&log, 'b').len(), 1);
        assert_eq!(balanced(&group).lag(), 0);
    }
}

// X9: the one at hand has failed; what is behind it of its key has not begun, and waits for it
#[test]
fn a_lease_that_is_over_gives_back_a_run_of_one_key_in_order() {
    let lab = Lab::new(7);
    let topic = topic(&lab, 64);
    let group = topic.group("g", by_key().lease(ms(50)).retry(Retry::constant(4, ms(1)))).unwrap();
    let clock = lab.clock.clone();
    let answer = move |record: &Record<'_, Job>| {
        if (record.offset(), record.attempt()) == (40, 1) {
            clock.advance(ms(50));
        }
        Outcome::Ack
    };
    let log = join(&lab, &group, &["one"], answer);
    // So that it takes several at once.
    publish(&topic, &".".repeat(40));
    lab.settle();
    publish(&topic, "aaaaaaaa");
    lab.finish();
    let rest = (41..48).map(|offset| (offset, 1));
    assert_eq!(of(&log, 'a'), [(40, 1), (40, 2)].into_iter().chain(rest).collect::<Vec<_>>());
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lag(), stats.lanes[0].leases_expired, stats.refused()), (48, 0, 1, 1));
}

// A batch that fails and blames nobody comes again record by record
#[test]
fn batches_keep_the_order_of_each_key() {
    for seed in 0..4 {
        let lab = Lab::new(seed);
        let topic = topic(&lab, 64);
        let group = topic.group("g", by_key().retry(Retry::constant(5, ms(1)))).unwrap();
        let log = Log::default();
        for name in ["one", "two"] {
            let log = log.clone();
            let handler = move |batch: &Batch<'_, Job>| {
                for (nth, record) in batch.iter().enumerate() {
                    match mix(record.offset() + seed, record.attempt().into()) % 9 {
                        0 => panic!("nobody knows which"),
                        1 => return BatchOutcome::after(nth, Outcome::retry("this one")),
                        _ => log.lock().unwrap().push(seen(&record)),
                    }
                }
                BatchOutcome::after(batch.len(), Outcome::Ack)
            };
            group.member(name).run(&lab.manual).subscribe_batch(handler).unwrap();
        }
        for n in 0..20 {
            publish(&topic, ["abcab.", "aabbcc", "cbacba"][n % 3]);
            lab.settle();
            lab.finish();
        }
        for key in ['a', 'b', 'c'] {
            // Where each was seen last; those before the one at fault had come with it already.
            let last: BTreeMap<u64, usize> = (0..).zip(of(&log, key)).map(|(nth, seen)| (seen.0, nth)).collect();
            assert!(last.len() > 20 && last.values().is_sorted(), "{key}: {last:?}");
        }
        assert_eq!((balanced(&group).lag(), balanced(&group).acked() + balanced(&group).dead()), (0, 120));
    }
}
