//! What code on the lane's thread sees, does and keeps while records are lost.

use super::lab::{Lab, balanced};
use super::{CAPACITIES, Seen, Watch, lossy, lost, publish, records};
use ringlog::{GroupConfig, Record, Retry, SeekTo, TopicConfig};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

// user code on the lane's thread
#[test]
fn a_hook_may_panic_publish_seek_and_pause_and_delivery_goes_on() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let (watch, told) = (Watch::default(), Arc::new(Mutex::new(0)));
        let (hooked, count, to) = (watch.clone(), told.clone(), topic.clone());
        let config = GroupConfig::earliest().on_gap(move |gap| {
            hooked.gap(gap);
            let nth = {
                let mut count = count.lock().unwrap();
                *count += 1;
                *count
            };
            let group = to.find_group("g").unwrap();
            assert_eq!(group.stats_of(0).unwrap().committed, gap.to, "the cursor has moved on");
            match nth {
                1 => panic!("as planned"),
                2 => drop(to.publish(to.end(0).unwrap()).unwrap()),
                3 => drop(group.seek(0, SeekTo::Latest).unwrap()),
                _ => group.pause(),
            }
        });
        let group = topic.group("g", config).unwrap();
        watch.join(&group, "m", &lab);
        publish(&topic, capacity + 1);
        lab.settle();
        assert_eq!(watch.take(), [lost(0, 1)].into_iter().chain(records(1, capacity + 1, 1)).collect::<Vec<_>>());
        // What is behind the gap is in hand when the hook is called, so what that publishes takes nothing away.
        publish(&topic, capacity + 1);
        lab.settle();
        let at = capacity + 1;
        let delivered = records(at + 1, at + capacity + 2, 1);
        assert_eq!(watch.take(), [lost(at, at + 1)].into_iter().chain(delivered).collect::<Vec<_>>());
        // Then it seeks: what was in hand is another's from then on.
        publish(&topic, capacity + 1);
        lab.settle();
        let at = at + capacity + 2;
        assert_eq!(watch.take(), [lost(at, at + 1)]);
        assert_eq!((balanced(&group).skipped(), group.lag()), (3 + capacity, 0));
        publish(&topic, capacity + 1);
        lab.settle();
        assert_eq!(watch.take().len(), 1, "it paused before the record behind the gap");
        assert_eq!((balanced(&group).lag(), *told.lock().unwrap()), (capacity, 4));
        group.resume();
        lab.settle();
        assert_eq!(watch.take().len() as u64, capacity);
    }
}

/// From inside a handler one sees what a stuck handler leaves to others.
// A-T14, X27, A-37
#[test]
fn what_is_in_hand_is_not_lost_and_all_else_is_counted_at_once() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        let (seen, to, mine) = (watch.clone(), topic.clone(), group.clone());
        let handler = move |record: &Record<'_, u64>| {
            seen.record(record);
            if record.offset() != 0 {
                return;
            }
            for more in 1..3 * capacity + 4 {
                publish(&to, 1);
                let stats = balanced(&mine);
                let (pending, skipped) = (1 + more.min(capacity), more.saturating_sub(capacity));
                assert_eq!((stats.lag(), stats.skipped(), stats.lanes[0].committed), (pending, skipped, 0));
            }
            assert_eq!(**record, 0, "and it is still there, though its place was written three times over");
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        let pages = topic.partition_stats(0).unwrap().pages;
        publish(&topic, 1);
        lab.settle();
        let end = 3 * capacity + 4;
        let gone = [lost(1, end - capacity)];
        let expected: Vec<_> =
            records(0, 1, 0).chain(gone).chain(records(end - capacity, end, end - capacity - 1)).collect();
        assert_eq!(watch.take(), expected);
        assert_eq!((balanced(&group).acked(), balanced(&group).skipped()), (capacity + 1, end - capacity - 1));
        let memory = topic.partition_stats(0).unwrap().pages;
        assert!(memory <= pages + 1, "one page for the reader that stayed behind: {pages}, then {memory}");
    }
}

// A-T14, X27: with threads
#[test]
fn a_handler_that_hangs_holds_nobody_up_and_keeps_its_record() {
    for capacity in CAPACITIES {
        let broker = ringlog::Broker::new();
        let config = TopicConfig::new().capacity(capacity as usize).drop_oldest();
        let topic = broker.create_topic("ticks", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (entered, wait) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let sum = Arc::new(Mutex::new((0, 0, 0)));
        let total = sum.clone();
        let handler = move |record: &Record<'_, String>| {
            if record.offset() == 0 {
                entered.send(()).unwrap();
                released.recv().unwrap();
            }
            let mut total = total.lock().unwrap();
            assert_eq!(**record, record.offset().to_string(), "a record that was overwritten while in hand");
            *total = (total.0 + 1, total.1 + record.lost_before(), record.offset());
        };
        group.subscribe("m", handler).unwrap();
        topic.publish("0".to_string()).unwrap();
        wait.recv().unwrap();
        let end = 10 * capacity + 7;
        for n in 1..end {
            topic.publish(n.to_string()).unwrap();
        }
        let stats = group.stats();
        assert!(stats.balances(), "{stats:#?}");
        let rest = end - 1 - capacity;
        assert_eq!((stats.acked(), stats.skipped(), stats.lag()), (0, rest, 1 + capacity), "1 in hand");
        assert!(broker.drain(Duration::ZERO).is_err(), "what hangs is not drained");
        release.send(()).unwrap();
        broker.drain(Duration::from_secs(60)).unwrap();
        assert_eq!(*sum.lock().unwrap(), (1 + capacity, rest, end - 1));
        let stats = group.stats();
        assert_eq!((stats.acked(), stats.skipped(), stats.lag(), stats.balances()), (1 + capacity, rest, 0, true));
        let retained = topic.partition_stats(0).unwrap();
        assert_eq!((retained.earliest, retained.end, retained.blocked), (end - capacity, end, 0));
    }
}

// A-T14: a seek takes the cursor away from the record in hand
#[test]
fn a_seek_while_a_record_is_in_hand_counts_from_the_new_place() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        let (seen, to, mine) = (watch.clone(), topic.clone(), group.clone());
        let handler = move |record: &Record<'_, u64>| {
            seen.record(record);
            if record.offset() == 0 {
                publish(&to, 2 * capacity);
                assert_eq!(mine.seek(0, SeekTo::Earliest), Ok(capacity + 1));
                assert_eq!((balanced(&mine).skipped(), mine.lag()), (capacity + 1, capacity), "in hand or not");
                publish(&to, 1);
                assert_eq!((balanced(&mine).skipped(), mine.lag()), (capacity + 2, capacity));
            }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        publish(&topic, 1);
        lab.settle();
        let from = capacity + 2;
        let expected: Vec<_> =
            records(0, 1, 0).chain([lost(from - 1, from)]).chain(records(from, from + capacity, 1)).collect();
        assert_eq!(watch.take(), expected);
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.refused(), stats.skipped()), (capacity, 1, from));
    }
}

// X27: a record that waits for its retry is not in hand
#[test]
fn a_record_may_go_between_two_attempts_and_its_attempts_go_with_it() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let retry = Retry::constant(3, Duration::from_millis(1));
        let group = topic.group("g", watch.config().retry(retry)).unwrap();
        let seen = watch.clone();
        let handler = move |record: &Record<'_, u64>| {
            seen.record(record);
            Err::<(), _>("not yet")
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        publish(&topic, 1);
        lab.settle();
        let failed = |offset, attempt, lost_before| Seen::Record { offset, attempt, lost_before };
        assert_eq!(watch.take(), [failed(0, 1, 0)]);
        publish(&topic, capacity + 1);
        lab.clock.advance(Duration::from_millis(1));
        lab.manual.step();
        lab.manual.step();
        let seen = watch.take();
        assert_eq!(seen, [lost(0, 2), failed(2, 1, 2)], "the first attempt of another record");
        // It goes as well: what is missing before the next is both losses, since nothing was done in between.
        publish(&topic, capacity);
        lab.clock.advance(Duration::from_millis(1));
        lab.manual.step();
        lab.manual.step();
        assert_eq!(watch.take(), [lost(2, 2 + capacity), failed(2 + capacity, 1, 2 + capacity)]);
        lab.clock.advance(Duration::from_millis(1));
        lab.manual.step();
        assert_eq!(watch.take(), [failed(2 + capacity, 2, 2 + capacity)], "each attempt says it");
        assert_eq!((balanced(&group).skipped(), group.stats().dead()), (2 + capacity, 0));
    }
}
