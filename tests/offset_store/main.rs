//! Offsets kept in a store: read when a group is made, written behind, and what its failures are to delivery.
mod at_work;
#[path = "../lab/mod.rs"]
mod lab;

use lab::{CAPACITIES, Lab, balanced};
use ringlog::{
    Broker, ConfigError, FileOffsets, Group, GroupConfig, GroupError, GroupOffset, MemoryOffsets, OffsetStore, Record,
    StartAt, StoreError, Topic, TopicConfig,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn offset(partition: u32, next: u64) -> GroupOffset {
    GroupOffset { topic: "orders".into(), group: "g".into(), partition, next }
}

fn with(store: &Arc<impl OffsetStore>) -> GroupConfig<u64> {
    GroupConfig::new(StartAt::Committed).offset_store(store.clone())
}

fn join(group: &Group<u64>, lab: &Lab) {
    group.member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
}

/// Publishes `count` records to partition 0 and has all groups handle them.
fn work(topic: &Topic<u64>, lab: &Lab, count: u64) {
    lab.feed(topic, 0, 0..count);
    lab.settle();
}

// A-7, X1: the next offset to be read, not the last one; a missing entry is the beginning
#[test]
fn offsets_are_written_behind_and_a_group_that_comes_back_goes_on_there() {
    let lab = Lab::new(0);
    let (topic, store) = (lab.topic(2, 8), Arc::new(MemoryOffsets::new()));
    let group = topic.group("g", with(&store)).unwrap();
    join(&group, &lab);
    assert_eq!(store.all(), [], "nothing is written when a group is made");
    work(&topic, &lab, 3);
    assert_eq!(store.all(), [], "nor when a record is acknowledged");
    lab.clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(store.all(), []);
    lab.clock.advance(Duration::from_nanos(1));
    assert_eq!(store.all(), [offset(0, 3), offset(1, 0)]);
    lab.clock.advance(SECOND * 9);
    assert_eq!(group.stats().saves, 1, "what has not changed is not written again");

    work(&topic, &lab, 1);
    group.delete();
    assert_eq!(store.all(), [offset(0, 4), offset(1, 0)], "what changed is written at the end");
    topic.publish_to(0, 9).unwrap();
    let again = topic.group("g", with(&store)).unwrap();
    assert_eq!((again.stats().lanes[0].start, again.lag()), (4, 1));
    let other = topic.group("other", with(&store)).unwrap();
    assert_eq!(other.stats().lanes[0].start, 0, "where nothing is stored, the earliest");
}

// X1: what is stored wins over the place that the settings give, which is for where nothing is stored
#[test]
fn the_place_of_the_settings_is_for_partitions_without_an_entry() {
    let lab = Lab::new(0);
    let (topic, store) = (lab.topic(2, 8), Arc::new(MemoryOffsets::new()));
    (0..2).for_each(|partition| lab.feed(&topic, partition, 0..5));
    store.save(&[offset(1, 2)]).unwrap();
    let group = topic.group("g", GroupConfig::latest().offset_store(store.clone())).unwrap();
    let starts: Vec<u64> = group.stats().lanes.iter().map(|lane| lane.start).collect();
    assert_eq!(starts, [5, 2]);
}

#[test]
fn settings_of_the_store_are_checked_and_compared() {
    let lab = Lab::new(0);
    let (topic, store) = (lab.topic(1, 8), Arc::new(MemoryOffsets::new()));
    let refused = topic.group("g", GroupConfig::new(StartAt::Committed)).unwrap_err();
    assert!(matches!(refused, GroupError::Config(ConfigError { field: "start", .. })));
    let refused = topic.group("g", with(&store).save_every(Duration::ZERO)).unwrap_err();
    assert!(matches!(refused, GroupError::Config(ConfigError { field: "save_every", .. })));
    topic.group("g", with(&store)).unwrap();
    topic.group("g", with(&store)).unwrap();
    let another = Arc::new(MemoryOffsets::new());
    for (other, named) in [
        (with(&another), "offset_store"),
        (with(&store).save_every(SECOND * 2), "save_every"),
        (with(&store).on_store_failure(|_| ()), "on_store_failure"),
    ] {
        let refused = topic.group("g", other).unwrap_err();
        assert!(matches!(refused, GroupError::Differs { field, .. } if field == named));
    }
}

// what is missing is counted and told, as any loss; what was never there is of another topic
#[test]
fn a_stored_offset_that_is_gone_is_counted_and_told_and_one_that_never_was_is_refused() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let config = TopicConfig::<u64>::new().capacity(capacity).drop_oldest();
        let topic = lab.broker.create_topic("orders", config).unwrap();
        let end = 3 * capacity as u64;
        let earliest = end - capacity as u64;
        topic.publish_batch(0..capacity as u64).unwrap();
        topic.publish_batch(0..capacity as u64).unwrap();
        topic.publish_batch(0..capacity as u64).unwrap();
        for stored in [end + 1, u64::MAX] {
            let store = Arc::new(MemoryOffsets::new());
            store.save(&[offset(0, stored)]).unwrap();
            let refused = topic.group("g", with(&store)).unwrap_err();
            assert!(
                matches!(refused, GroupError::StoredAhead { stored: told, end: at, .. } if (told, at) == (stored, end))
            );
            assert!(topic.find_group("g").is_err());
            assert!(store.forget("orders", "g") && !store.forget("orders", "g"));
            assert!(topic.group("g", with(&store)).unwrap().delete());
        }
        for stored in [0, 1, earliest - 1, earliest, earliest + 1, end] {
            let store = Arc::new(MemoryOffsets::new());
            store.save(&[offset(0, stored)]).unwrap();
            let (gaps, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
            let (told, noted) = (gaps.clone(), lost.clone());
            let group = topic
                .group("g", with(&store).on_gap(move |gap| told.lock().unwrap().push((gap.from, gap.to, gap.lost()))))
                .unwrap();
            let (begins, missing) = (stored.clamp(earliest, end), earliest.saturating_sub(stored));
            let stats = balanced(&group);
            assert_eq!((stats.lanes[0].start, stats.lanes[0].committed), (stored, begins));
            assert_eq!((stats.skipped(), stats.lag()), (missing, end - begins));
            let handler = move |record: &Record<'_, u64>| noted.lock().unwrap().push(record.lost_before());
            group.member("m").run(&lab.manual).subscribe(handler).unwrap();
            lab.settle();
            let told: Vec<(u64, u64, u64)> = gaps.lock().unwrap().clone();
            assert_eq!(told, if missing > 0 { vec![(stored, earliest, missing)] } else { vec![] });
            let lost = lost.lock().unwrap();
            assert_eq!((lost.len() as u64, lost.first().copied().unwrap_or(0)), (end - begins, missing));
            assert!(lost.iter().skip(1).all(|lost| *lost == 0));
            assert_eq!(balanced(&group).lag(), 0);
            group.delete();
        }
    }
}

/// Fails as it is told to.
#[derive(Default)]
struct Flaky {
    inner: MemoryOffsets,
    plan: Mutex<Plan>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Plan {
    #[default]
    Works,
    Fails,
    Panics,
}

impl Flaky {
    fn set(&self, plan: Plan) {
        *self.plan.lock().unwrap() = plan;
    }

    fn act(&self) -> Result<(), StoreError> {
        let plan = *self.plan.lock().unwrap();
        match plan {
            Plan::Works => Ok(()),
            Plan::Fails => Err("disk full".into()),
            Plan::Panics => panic!("as planned"),
        }
    }
}

impl OffsetStore for Flaky {
    fn load(&self, topic: &str, group: &str, partition: u32) -> Result<Option<u64>, StoreError> {
        self.act()?;
        self.inner.load(topic, group, partition)
    }

    fn save(&self, offsets: &[GroupOffset]) -> Result<(), StoreError> {
        self.act()?;
        self.inner.save(offsets)
    }
}

// a store that fails is reported and holds nobody up
#[test]
fn a_store_that_fails_or_panics_is_reported_and_delivery_goes_on() {
    for (plan, message) in [(Plan::Fails, "disk full"), (Plan::Panics, "as planned")] {
        let lab = Lab::new(0);
        let (topic, store, told) = (lab.topic(1, 2), Arc::new(Flaky::default()), Arc::new(Mutex::new(Vec::new())));
        let noted = told.clone();
        let config = with(&store).on_store_failure(move |failure| {
            noted.lock().unwrap().push(failure.message.clone());
            panic!("in the hook");
        });
        let group = topic.group("g", config).unwrap();
        join(&group, &lab);
        store.set(plan);
        work(&topic, &lab, 5);
        lab.clock.advance(SECOND);
        lab.clock.advance(SECOND);
        assert_eq!(*told.lock().unwrap(), [message; 2], "tried again, and told each time");
        let failure = group.save_offsets().unwrap_err();
        assert_eq!(failure.to_string(), format!("the offset store failed group 'g' of topic 'orders': {message}"));
        work(&topic, &lab, 5);
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.lag(), stats.saves, stats.saves_failed), (10, 0, 0, 3));
        store.set(Plan::Works);
        lab.clock.advance(SECOND);
        assert_eq!((store.inner.all(), group.stats().saves), (vec![offset(0, 10)], 1));
    }
}

// No silent fallback: who cannot be told where it was is not made to start elsewhere
#[test]
fn a_group_whose_offsets_cannot_be_loaded_is_not_made() {
    for (plan, message) in [(Plan::Fails, "disk full"), (Plan::Panics, "as planned")] {
        let lab = Lab::new(0);
        let (topic, store) = (lab.topic(1, 2), Arc::new(Flaky::default()));
        store.set(plan);
        match topic.group("g", with(&store)) {
            Err(GroupError::NotLoaded { failure, partition: 0 }) => assert_eq!(failure.message, message),
            other => panic!("{other:?}"),
        }
        assert!(topic.find_group("g").is_err());
        store.set(Plan::Works);
        topic.group("g", with(&store)).unwrap();
        store.set(plan);
        topic.group("g", with(&store)).unwrap(); // one that is there is not asked for again
    }
}

#[test]
fn closing_a_broker_deleting_a_topic_and_dropping_the_last_handle_write_what_changed() {
    let ends: [fn(Lab, Topic<u64>); 3] = [
        |lab, _| assert_eq!(lab.broker.close(Some(Duration::ZERO)).acked(), 3),
        |lab, _| lab.broker.delete_topic("orders").unwrap(),
        |lab, _| drop(lab),
    ];
    for end in ends {
        let lab = Lab::new(0);
        let (topic, store) = (lab.topic(1, 8), Arc::new(MemoryOffsets::new()));
        let group = topic.group("g", with(&store)).unwrap();
        join(&group, &lab);
        work(&topic, &lab, 3);
        end(lab, topic);
        assert_eq!(store.all(), [offset(0, 3)]);
    }
}

#[cfg(not(miri))]
#[test]
fn a_file_keeps_offsets_over_a_restart() {
    let path = std::env::temp_dir().join(format!("ringlog-restart-{}", std::process::id()));
    let _none = std::fs::remove_file(&path);
    for (round, starts) in [(0, [0, 0]), (1, [3, 0]), (2, [6, 0])] {
        let store = Arc::new(FileOffsets::open(&path).unwrap());
        let broker = Broker::new();
        let topic = broker.create_topic("orders", TopicConfig::<u64>::new().partitions(2)).unwrap();
        (0..3 * round).for_each(|n| assert!(topic.publish_to(0, n).is_ok())); // as it was before, read from elsewhere
        let group = topic.group("g", with(&store)).unwrap();
        let begun: Vec<u64> = group.stats().lanes.iter().map(|lane| lane.start).collect();
        assert_eq!(begun, starts);
        group.subscribe("m", |_| ()).unwrap();
        (0..3).for_each(|n| assert!(topic.publish_to(0, n).is_ok()));
        topic.wait_committed(ringlog::Position { partition: 0, offset: 3 * round + 2 }, &["g"], SECOND * 60).unwrap();
        assert_eq!(broker.close(Some(SECOND * 60)).acked(), 3);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "ringlog offsets 1\norders\tg\t0\t9\norders\tg\t1\t0\n");
    std::fs::write(&path, "ringlog offsets 1\norders\tg\t0\n").unwrap();
    assert_eq!(FileOffsets::open(&path).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    std::fs::remove_file(&path).unwrap();
}
