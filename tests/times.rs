//! Times of records: who has one, who is found by one, and what lies behind by how long.
mod lab;

use lab::{CAPACITIES, Lab, balanced};
use ringlog::{
    Clock, ControlError, Group, GroupConfig, GroupError, Record, SeekTo, StartAt, Time, Timestamps, Topic, TopicConfig,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::ZERO + SECOND * u32::try_from(seconds).unwrap()
}

/// Offsets and times.
type Seen = Arc<Mutex<Vec<(u64, Option<Time>)>>>;

/// A topic in which record n was published at second n, those of `count` that are still there.
fn minuted(lab: &Lab, name: &str, config: TopicConfig<u64>, count: u64) -> Topic<u64> {
    let topic = lab.broker.create_topic(name, config).unwrap();
    lab.clock.set(Time::ZERO);
    for n in 0..count {
        topic.publish(n).unwrap();
        lab.clock.advance(SECOND);
    }
    topic
}

/// What a handler sees.
fn join(group: &Group<u64>, lab: &Lab) -> Seen {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let handler = move |record: &Record<'_, u64>| noted.lock().unwrap().push((record.offset(), record.published_at()));
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    seen
}

fn take<V>(seen: &Mutex<Vec<V>>) -> Vec<V> {
    std::mem::take(&mut seen.lock().unwrap())
}

// A-3, the time a record was made
#[test]
fn a_handler_sees_when_a_record_was_published_where_the_topic_keeps_times() {
    let kinds: [fn(TopicConfig<u64>) -> TopicConfig<u64>; 4] = [
        |config| config,
        |config| config.timestamps(Timestamps::Coarse),
        |config| config.timestamps(Timestamps::Exact),
        |config| config.max_age(Duration::from_secs(1_000_000)),
    ];
    for (nth, kind) in kinds.into_iter().enumerate() {
        for capacity in CAPACITIES {
            let lab = Lab::new(0);
            let topic = lab.broker.create_topic("t", kind(TopicConfig::new().capacity(capacity))).unwrap();
            let group = lab::group(&topic);
            let seen = join(&group, &lab);
            for n in 0..20 {
                topic.publish(n).unwrap();
                lab.settle();
                let time = (nth > 0).then_some(at(n));
                assert_eq!(take(&seen), [(n, time)]);
                lab.clock.advance(SECOND);
            }
            let publishes_a_batch = topic.publish_batch(20..20 + capacity as u64);
            assert!(publishes_a_batch.is_ok());
            lab.settle();
            assert!(take(&seen).iter().all(|(_, time)| *time == (nth > 0).then_some(at(20))));
        }
    }
}

#[test]
fn every_way_to_publish_notes_the_time() {
    for timestamps in [Timestamps::Coarse, Timestamps::Exact] {
        let lab = Lab::new(0);
        let config = TopicConfig::new().capacity(8).timestamps(timestamps);
        let (topic, mut producer) = lab.broker.create_exclusive("t", config).unwrap();
        let group = lab::group(&topic);
        let seen = join(&group, &lab);
        lab.clock.set(at(1));
        producer.publish(0).unwrap();
        lab.clock.set(at(2));
        producer.publish_batch([1, 2]).unwrap();
        lab.clock.set(at(3));
        producer.publish_in_place(0, || 0, |value| *value = 3).unwrap();
        lab.clock.set(at(4));
        producer.publish_quietly(4).unwrap();
        topic.wake();
        lab.settle();
        assert_eq!(take(&seen), [(0, 1), (1, 2), (2, 2), (3, 3), (4, 4)].map(|(n, s)| (n, Some(at(s)))));
    }
}

// X1, C-E1, A-8: by time, by the time of day, and the last few
#[test]
fn a_group_starts_at_a_time_or_at_the_last_few_records() {
    for capacity in CAPACITIES {
        let (lab, count) = (Lab::new(0), 3 * capacity as u64);
        let config = TopicConfig::new().capacity(capacity).timestamps(Timestamps::Exact).drop_oldest();
        let topic = minuted(&lab, "t", config, count);
        let (earliest, end) = (count - capacity as u64, count);
        let mut names = 0..;
        let mut begins = |start| {
            let name = format!("g{}", names.next().unwrap());
            topic.group(&name, GroupConfig::new(start)).unwrap().stats().lanes[0].start
        };
        for n in [0, 1, earliest.saturating_sub(1), earliest, earliest + 1, end - 1, end, end + 1] {
            let kept = n.clamp(earliest, end);
            assert_eq!(begins(StartAt::Time(at(n))), kept);
            assert_eq!(begins(StartAt::Wall(lab.clock.wall(at(n)))), kept);
            assert_eq!(begins(StartAt::LastN(n)), end.saturating_sub(n).clamp(earliest, end));
        }
        let between = at(earliest) + Duration::from_nanos(1);
        assert_eq!(begins(StartAt::Time(between)), earliest + 1, "the first that is not earlier");
        assert_eq!((begins(StartAt::Time(Time::MAX)), begins(StartAt::LastN(u64::MAX))), (end, earliest));
    }
}

// X33, A-8, A-18
#[test]
fn a_seek_by_time_or_to_the_last_few_lands_within_the_log_and_is_accounted_for() {
    for capacity in CAPACITIES {
        let (lab, count) = (Lab::new(0), capacity as u64);
        let config = TopicConfig::new().capacity(capacity).timestamps(Timestamps::Coarse);
        let topic = minuted(&lab, "t", config, count);
        let group = lab::group(&topic);
        let seen = join(&group, &lab);
        lab.settle();
        assert_eq!(take(&seen).len() as u64, count);
        for n in [0, 1, 2, count - 1, count, count + 1, 10_000] {
            let landed = n.min(count);
            assert_eq!(group.seek(0, SeekTo::Time(at(n))), Ok(landed));
            assert_eq!(balanced(&group).lag(), count - landed);
            assert_eq!(group.replay(SeekTo::LastN(n)).unwrap(), [count - landed]);
            assert_eq!(balanced(&group).lag(), landed);
            assert_eq!(group.seek(0, SeekTo::Wall(lab.clock.wall(at(n)))), Ok(landed));
            lab.settle();
            assert_eq!(take(&seen).first().map(|(offset, _)| *offset), (n < count).then_some(n));
            assert_eq!(balanced(&group).lag(), 0);
        }
    }
}

// X1, X33: no silent fallback
#[test]
fn by_time_is_refused_where_records_have_no_times() {
    let lab = Lab::new(0);
    let topic = lab.topic(1, 4);
    for start in [StartAt::Time(at(1)), StartAt::Wall(lab.clock.wall(at(1)))] {
        let refused = topic.group("g", GroupConfig::new(start)).unwrap_err();
        assert!(matches!(refused, GroupError::NoTimes { .. }));
        assert_eq!(
            refused.to_string(),
            "group 'g' was not made: start is a time, but topic 'orders' has no timestamps; set TopicConfig::timestamps"
        );
    }
    assert!(topic.find_group("g").is_err());
    let group = lab::group(&topic);
    for to in [SeekTo::Time(at(1)), SeekTo::Wall(lab.clock.wall(at(1)))] {
        assert!(matches!(group.seek(0, to), Err(ControlError::NoTimes { .. })));
        assert!(matches!(group.replay(to), Err(ControlError::NoTimes { .. })));
    }
    assert_eq!(group.lag_time(), None);
    assert_eq!(group.lag_time_of(0), Ok(None));
    assert!(matches!(group.lag_time_of(1), Err(ControlError::NoPartition { .. })));
}

// Times alone let nothing go: publishers wait for the slowest group as ever.
#[test]
fn times_without_an_age_let_nothing_go() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let config = TopicConfig::new().capacity(capacity).timestamps(Timestamps::Exact).block(Some(Duration::ZERO));
        let topic = lab.broker.create_topic("t", config).unwrap();
        let group = lab::group(&topic);
        topic.publish_batch(0..capacity as u64).unwrap();
        lab.clock.advance(Duration::from_secs(1 << 30));
        assert!(topic.publish(0).is_err());
        assert_eq!((topic.len(0), balanced(&group).lag()), (Some(capacity as u64), capacity as u64));
    }
}

// A-E5, A-68: lag in time
#[test]
fn what_a_group_lags_by_in_time_is_the_age_of_the_oldest_record_it_has_not_done() {
    for config in [TopicConfig::new(), TopicConfig::new().drop_oldest()] {
        let lab = Lab::new(0);
        let config = config.partitions(2).capacity(4).timestamps(Timestamps::Exact);
        let topic = lab.broker.create_topic("t", config).unwrap();
        let group = lab::group(&topic);
        assert_eq!(group.lag_time(), Some(Duration::ZERO));
        for partition in [0, 0, 1] {
            topic.publish_to(partition, 0).unwrap();
            lab.clock.advance(SECOND);
        }
        assert_eq!((group.lag_time_of(0).unwrap(), group.lag_time_of(1).unwrap()), (Some(SECOND * 3), Some(SECOND)));
        assert_eq!(group.lag_time(), Some(SECOND * 3));
        group.seek(0, SeekTo::Offset(1)).unwrap();
        assert_eq!(group.lag_time(), Some(SECOND * 2));
        join(&group, &lab);
        lab.settle();
        lab.clock.advance(SECOND);
        assert_eq!(group.lag_time(), Some(Duration::ZERO));
    }
}

#[test]
fn of_what_was_overwritten_the_age_is_not_asked() {
    let lab = Lab::new(0);
    let config = TopicConfig::new().capacity(2).timestamps(Timestamps::Exact).drop_oldest();
    let topic = lab.broker.create_topic("t", config).unwrap();
    let group = lab::group(&topic);
    for n in 0..5 {
        topic.publish(n).unwrap();
        lab.clock.advance(SECOND);
    }
    assert_eq!((group.lag(), group.lag_time()), (2, Some(SECOND * 2)));
}
