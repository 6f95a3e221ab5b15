//! Topics whose records have an age: when one goes, who hears of it, and how it is counted; whatever the clock does.
mod lab;

use lab::{Lab, balanced};
use ringlog::{Group, GroupConfig, PublishError, Record, Retain, Retry, SeekTo, Time, Topic, TopicConfig};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const CAPACITIES: [u64; 5] = [1, 2, 3, 4, 1_024];
const AGE: u64 = 10;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn aged(capacity: u64) -> TopicConfig<u64> {
    TopicConfig::new().capacity(capacity as usize).max_age(ms(AGE))
}

/// Drops or blocks when it is full: age goes with both.
fn topics(lab: &Lab, capacity: u64) -> [Topic<u64>; 2] {
    let blocks = aged(capacity).block(Some(Duration::ZERO));
    let drops = aged(capacity).drop_oldest();
    [lab.broker.create_topic("blocks", blocks).unwrap(), lab.broker.create_topic("drops", drops).unwrap()]
}

fn publish(topic: &Topic<u64>, values: std::ops::Range<u64>) {
    for value in values {
        topic.publish(value).unwrap();
    }
}

/// Everything a partition says of what is gone: earliest, how many are retained, dropped, expired.
fn figures(topic: &Topic<u64>) -> (u64, u64, u64, u64) {
    let stats = topic.partition_stats(0).unwrap();
    assert_eq!(topic.earliest(0), Some(stats.earliest));
    assert_eq!(topic.len(0), Some(stats.retained()));
    (stats.earliest, stats.retained(), stats.dropped, stats.expired)
}

/// A handler that notes partition-wide offsets and what is missing before them.
fn join(group: &Group<u64>, lab: &Lab) -> Arc<Mutex<Vec<(u64, u64)>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let handler = move |record: &Record<'_, u64>| noted.lock().unwrap().push((record.offset(), record.lost_before()));
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    seen
}

fn take<V>(seen: &Mutex<Vec<V>>) -> Vec<V> {
    std::mem::take(&mut seen.lock().unwrap())
}

// A-51, A-T15, A-11, X21, A-45, A-32: nobody publishes or reads, one only asks
#[test]
fn a_record_that_is_exactly_as_old_as_allowed_stays_and_a_nanosecond_later_it_is_gone() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            topic.publish(0).unwrap();
            lab.clock.advance(ms(AGE));
            assert_eq!(figures(&topic), (0, 1, 0, 0));
            lab.clock.advance(Duration::from_nanos(1));
            assert_eq!(topic.partition_stats(0).unwrap().expired, 1, "an idle topic lets go too");
            assert_eq!(figures(&topic), (1, 0, 0, 1));
            topic.publish(1).unwrap();
            assert_eq!(figures(&topic), (1, 1, 0, 1));
        }
    }
}

// A-51, X21: each way to look finds it out for itself
#[test]
fn age_shows_in_whatever_is_looked_at_first() {
    for capacity in CAPACITIES {
        type Look = fn(&Lab, &Topic<u64>, &Group<u64>);
        let looks: [(&str, Look); 8] = [
            ("earliest", |_, topic, _| assert_eq!(topic.earliest(0), Some(1))),
            ("len", |_, topic, _| assert_eq!(topic.len(0), Some(0))),
            ("partition stats", |_, topic, _| assert_eq!(topic.partition_stats(0).unwrap().expired, 1)),
            ("group stats", |_, _, group| assert_eq!((balanced(group).expired(), group.lag()), (1, 0))),
            ("lag", |_, _, group| assert_eq!(group.lag(), 0)),
            ("seek", |_, _, group| assert_eq!(group.seek(0, SeekTo::Offset(0)), Ok(1))),
            ("join", |_, topic, _| {
                let late = topic.group("late", GroupConfig::earliest()).unwrap();
                assert_eq!(late.stats().lanes[0].start, 1);
            }),
            ("read", |lab, _, group| {
                let seen = join(group, lab);
                lab.settle();
                assert_eq!(take(&seen), []);
            }),
        ];
        for (name, look) in looks {
            let lab = Lab::new(0);
            for topic in topics(&lab, capacity) {
                let group = topic.group("g", GroupConfig::earliest()).unwrap();
                topic.publish(0).unwrap();
                lab.clock.advance(ms(AGE + 1));
                look(&lab, &topic, &group);
                assert_eq!(figures(&topic), (1, 0, 0, 1), "{name}");
                assert_eq!((balanced(&group).expired(), balanced(&group).skipped()), (1, 0), "{name}");
            }
        }
    }
}

// whoever has still to read it
#[test]
fn a_publish_finds_room_where_records_are_too_old_even_before_a_group_has_read_them() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            publish(&topic, 0..capacity);
            lab.clock.advance(ms(AGE));
            if topic.name() == "blocks" {
                assert!(matches!(topic.publish(9), Err(PublishError::Full { .. })), "they are not too old yet");
            }
            lab.clock.advance(ms(1));
            topic.publish(capacity).unwrap();
            assert_eq!(figures(&topic), (capacity, 1, 0, capacity), "too old, therefore not dropped");
            let seen = join(&group, &lab);
            lab.settle();
            assert_eq!(take(&seen), [(capacity, capacity)]);
            assert_eq!((balanced(&group).expired(), balanced(&group).skipped()), (capacity, 0));
        }
    }
}

// X21, A-51: counted whether read or not
#[test]
fn the_partition_counts_what_went_for_its_age_even_if_every_group_had_it_done() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let seen = join(&group, &lab);
            topic.publish(0).unwrap();
            lab.settle();
            let kept = topic.len(0).unwrap();
            lab.clock.advance(ms(AGE + 1));
            assert_eq!(figures(&topic), (1, 0, 0, kept), "where it was still retained");
            assert_eq!((take(&seen), balanced(&group).expired()), (vec![(0, 0)], 0), "no loss of the group's");
        }
    }
}

// of what nobody keeps nothing gets too old
#[test]
fn on_a_topic_that_keeps_only_what_is_not_done_age_takes_that() {
    for capacity in CAPACITIES.into_iter().skip(1) {
        let lab = Lab::new(0);
        for (name, drops) in [("blocks", false), ("drops", true)] {
            let config = aged(capacity).retain(Retain::Unacked);
            let config = if drops { config.drop_oldest() } else { config.block(Some(Duration::ZERO)) };
            let topic = lab.broker.create_topic(name, config).unwrap();
            topic.publish(0).unwrap();
            lab.clock.advance(ms(AGE + 1));
            assert_eq!(figures(&topic), (1, 0, 0, 0), "nobody listened, nothing was kept");
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            topic.publish(1).unwrap();
            let seen = join(&group, &lab);
            lab.settle();
            topic.publish(2).unwrap();
            group.pause();
            lab.clock.advance(ms(AGE + 1));
            assert_eq!(figures(&topic), (3, 0, 0, 1), "1 was done, 2 was not");
            assert_eq!((take(&seen), balanced(&group).expired()), (vec![(1, 0)], 1));
        }
    }
}

// X27: both reasons, each record for one
#[test]
fn a_gap_says_how_many_were_overwritten_and_how_many_were_too_old() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.broker.create_topic("t", aged(capacity).drop_oldest()).unwrap();
        let gaps = Arc::new(Mutex::new(Vec::new()));
        let noted = gaps.clone();
        let config = GroupConfig::earliest().on_gap(move |gap| {
            noted.lock().unwrap().push((gap.from, gap.to, gap.overwritten, gap.expired));
        });
        let group = topic.group("g", config).unwrap();
        // Of capacity + 2 records two are overwritten, the rest gets too old, and then come more than fit.
        publish(&topic, 0..capacity + 2);
        lab.clock.advance(ms(AGE + 1));
        publish(&topic, 0..capacity + 3);
        assert_eq!(figures(&topic), (capacity + 5, capacity, 5, capacity));
        let stats = balanced(&group);
        assert_eq!((stats.skipped(), stats.expired(), stats.lag()), (5, capacity, capacity));
        let seen = join(&group, &lab);
        lab.settle();
        assert_eq!(take(&gaps), [(0, capacity + 5, 5, capacity)]);
        assert_eq!(take(&seen)[0], (capacity + 5, capacity + 5));
    }
}

// the part that was too old is not skipped
#[test]
fn a_seek_over_what_was_too_old_counts_it_as_expired() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            topic.publish(0).unwrap();
            lab.clock.advance(ms(AGE + 1));
            topic.publish(1).unwrap();
            assert_eq!(group.seek(0, SeekTo::Latest), Ok(2));
            assert_eq!((balanced(&group).skipped(), balanced(&group).expired()), (1, 1));
            assert_eq!(group.seek(0, SeekTo::Earliest), Ok(topic.earliest(0).unwrap()));
            assert!(balanced(&group).replayed() <= 1);
        }
    }
}

// a record that waits for its retry ages
#[test]
fn a_record_may_get_too_old_between_two_attempts() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            let config = GroupConfig::earliest().retry(Retry::constant(9, ms(AGE - 1)));
            let group = topic.group("g", config).unwrap();
            let calls = Arc::new(Mutex::new(Vec::new()));
            let noted = calls.clone();
            let handler = move |record: &Record<'_, u64>| {
                noted.lock().unwrap().push((record.offset(), record.attempt()));
                Err::<(), _>("not yet")
            };
            group.member("m").run(&lab.manual).subscribe(handler).unwrap();
            topic.publish(0).unwrap();
            lab.settle();
            lab.clock.advance(ms(AGE - 1));
            lab.settle();
            lab.clock.advance(ms(AGE - 1));
            lab.settle();
            assert_eq!(take(&calls), [(0, 1), (0, 2)]);
            let stats = balanced(&group);
            assert_eq!((stats.expired(), stats.dead(), stats.lag(), stats.retried()), (1, 0, 0, 2));
        }
    }
}

// in hand is in hand
#[test]
fn what_is_in_hand_may_get_as_old_as_it_likes() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let (clock, mine, to) = (lab.clock.clone(), group.clone(), topic.clone());
            let handler = move |record: &Record<'_, u64>| {
                assert_eq!(**record, 7);
                clock.advance(ms(AGE + 1));
                assert_eq!((mine.lag(), balanced(&mine).expired()), (1, 0));
                assert_eq!(to.partition_stats(0).unwrap().expired, 1, "the partition lets go of it");
            };
            group.member("m").run(&lab.manual).subscribe(handler).unwrap();
            topic.publish(7).unwrap();
            lab.settle();
            assert_eq!((balanced(&group).acked(), balanced(&group).expired(), group.lag()), (1, 0, 0));
        }
    }
}

// the line never goes back
#[test]
fn a_clock_that_is_turned_back_brings_nothing_back_and_one_that_jumps_takes_what_is_too_old() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        for topic in topics(&lab, capacity) {
            let begun = lab.broker.clock().now();
            topic.publish(0).unwrap();
            lab.clock.advance(ms(AGE + 1));
            assert_eq!(figures(&topic), (1, 0, 0, 1));
            lab.clock.set(begun);
            assert_eq!(figures(&topic), (1, 0, 0, 1));
            topic.publish(1).unwrap();
            assert_eq!(figures(&topic), (1, 1, 0, 1));
            lab.clock.advance(Duration::from_secs(u64::MAX / 4));
            assert_eq!(figures(&topic), (2, 0, 0, 2));
            topic.publish(2).unwrap();
            assert_eq!(figures(&topic), (2, 1, 0, 2), "at the end of time");
            lab.clock.set(begun);
        }
    }
}

// only the front is looked at
#[test]
fn an_older_record_behind_a_younger_one_goes_with_it() {
    let lab = Lab::new(0);
    for topic in topics(&lab, 4) {
        lab.clock.advance(ms(100));
        let late = lab.broker.clock().now();
        topic.publish(0).unwrap();
        lab.clock.set(Time::from_nanos(late.as_nanos() - 50_000_000));
        topic.publish(1).unwrap();
        lab.clock.set(late.after(ms(AGE)));
        assert_eq!(figures(&topic), (0, 2, 0, 0), "the second is too old, and not at the front");
        lab.clock.advance(ms(1));
        assert_eq!(figures(&topic), (2, 0, 0, 2));
    }
}

fn until(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

//
#[test]
fn a_record_ages_from_the_call_of_its_publish_not_from_when_it_found_room() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.broker.create_topic("t", aged(capacity).block(None)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        lab.clock.advance(ms(1));
        publish(&topic, 0..capacity);
        let waiting = {
            let topic = topic.clone();
            thread::spawn(move || topic.publish(99).unwrap().offset())
        };
        until(|| topic.counts().blocked == 1);
        lab.clock.advance(ms(AGE - 1));
        assert_eq!(group.seek(0, SeekTo::Latest), Ok(capacity));
        assert_eq!(waiting.join().unwrap(), capacity, "it found room");
        assert_eq!(group.lag(), 1);
        lab.clock.advance(ms(1));
        assert_eq!(group.lag(), 1, "exactly as old as allowed, since its call");
        lab.clock.advance(ms(1));
        assert_eq!((group.lag(), balanced(&group).expired()), (0, 1));
    }
}

// X21: the wait ends with the age, not with the group
#[test]
fn a_publisher_that_waits_for_a_group_that_hangs_waits_no_longer_than_the_age() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.broker.create_topic("t", aged(capacity).block(None)).unwrap();
        let group = topic.group("hangs", GroupConfig::earliest()).unwrap();
        publish(&topic, 0..capacity);
        lab.clock.advance(ms(5)); // the one that waits is younger
        let (done, is_done) = mpsc::channel();
        let waiting = {
            let topic = topic.clone();
            thread::spawn(move || done.send(topic.publish(99).unwrap().offset()).unwrap())
        };
        until(|| topic.counts().blocked == 1);
        lab.clock.advance(ms(AGE - 5));
        assert!(is_done.try_recv().is_err(), "nothing is too old yet");
        lab.clock.advance(ms(1));
        assert_eq!(is_done.recv().unwrap(), capacity);
        waiting.join().unwrap();
        assert_eq!((balanced(&group).expired(), balanced(&group).skipped()), (capacity, 0));
    }
}

// what is too old is not waited for
#[test]
fn a_drain_and_an_account_take_what_is_too_old_as_lost() {
    let lab = Lab::new(0);
    let [topic, _] = topics(&lab, 4);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let _seen = join(&group, &lab);
    group.pause();
    publish(&topic, 0..3);
    assert!(lab.broker.drain(Duration::ZERO).is_err());
    lab.clock.advance(ms(AGE + 1));
    assert!(lab.broker.drain(Duration::ZERO).is_ok());
    let account = lab.broker.close(Some(Duration::ZERO));
    assert_eq!((account.left(), account.expired(), account.skipped()), (0, 3, 0));
    assert!(account.to_string().ends_with("0 left, 0 skipped, 3 expired"), "{account}");
}

//
#[test]
fn an_age_of_zero_is_refused() {
    let lab = Lab::new(0);
    let refused = lab.broker.create_topic("t", TopicConfig::<u64>::new().max_age(Duration::ZERO)).unwrap_err();
    assert_eq!(refused.to_string(), "max_age is 0ns, but must be longer than zero");
    assert!(lab.broker.create_topic("t", TopicConfig::<u64>::new().max_age(Duration::MAX)).is_ok());
}
