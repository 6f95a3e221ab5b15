//! Values at the ends of their ranges.

use super::{LONG, balanced, ends, until};
use ringlog::{
    BatchError, Broker, BrokerConfig, DrainError, GroupConfig, Manual, ManualClock, Outcome, PublishError, Record,
    Retain, Retry, SeekTo, TopicConfig,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

#[test]
fn a_batch_beyond_all_memory_is_an_error_and_not_the_end() {
    ends(|| {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(2)).unwrap();
        let (_, mut producer) = broker.create_exclusive("x", TopicConfig::<()>::new().capacity(2)).unwrap();
        let mut source = 0..u64::MAX;
        let Err(BatchError::TooLarge { rest, .. }) = topic.publish_batch(&mut source) else { panic!("two fit") };
        assert_eq!(rest.len() as u64 + (u64::MAX - source.start), u64::MAX, "none is lost");
        let endless = std::iter::repeat_n((), usize::MAX);
        assert!(matches!(producer.publish_batch(endless), Err(BatchError::TooLarge { capacity: 2, .. })));
        assert_eq!(topic.end(0), Some(0));
        let empty = topic.publish_batch([]).unwrap();
        assert!(empty.is_empty());
    });
}

#[test]
fn seeking_and_starting_anywhere_lands_between_the_earliest_and_the_end() {
    let broker = Broker::new();
    for retain in [Retain::Backlog, Retain::Recent, Retain::Unacked] {
        for capacity in [1, 2, 3, 8] {
            let name = format!("{retain:?}{capacity}");
            let topic = broker.create_topic(&name, TopicConfig::new().capacity(capacity).retain(retain)).unwrap();
            let group = topic.group("g", GroupConfig::at(u64::MAX)).unwrap();
            let manual = Manual::new(3);
            group.member("m").run(&manual).subscribe(|_| ()).unwrap();
            for value in 0..20_u64 {
                topic.publish(value).unwrap();
                for to in [0, 1, value, u64::MAX / 2, 1 << 40, u64::MAX - 1, u64::MAX] {
                    let landed = group.seek(0, SeekTo::Offset(to)).unwrap();
                    assert!((topic.earliest(0).unwrap()..=topic.end(0).unwrap()).contains(&landed));
                    balanced(&group.stats());
                }
                assert!(group.seek(1, SeekTo::Earliest).is_err());
                let late = topic.group("late", GroupConfig::at(value * (u64::MAX / 20))).unwrap();
                balanced(&late.stats());
                late.delete();
                assert!(late.seek(0, SeekTo::Earliest).is_err());
                group.seek(0, SeekTo::Offset(to_retry(value))).unwrap();
                assert!(manual.run(1_000) < 1_000);
                assert_eq!(group.stats().lag(), 0);
            }
            broker.delete_topic(&name).unwrap();
        }
    }
}

fn to_retry(value: u64) -> u64 {
    if value % 2 == 0 { 0 } else { u64::MAX }
}

#[test]
fn the_longest_and_the_shortest_waits_are_harmless() {
    ends(|| {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(1).block(Some(Duration::MAX))).unwrap();
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::linear(9, Duration::MAX))).unwrap();
        let manual = Manual::new(5);
        let handler = |record: &Record<'_, u8>| match record.attempt() {
            1 => Outcome::retry_after(Duration::MAX, "later"),
            2 => Outcome::retry("at some time"),
            _ => Outcome::Ack,
        };
        group.member("m").run(&manual).subscribe(handler).unwrap();
        topic.publish_within(1, Duration::MAX).unwrap();
        assert!(matches!(topic.publish_within(2, Duration::ZERO), Err(PublishError::Full { .. })));
        assert!(manual.run(100) < 100);
        clock.advance(Duration::MAX);
        clock.advance(Duration::MAX);
        assert!(manual.run(100) < 100);
        balanced(&group.stats());
        assert!(matches!(broker.drain(Duration::ZERO), Err(DrainError::TimedOut { .. }) | Ok(())));
        topic.publish_within(2, Duration::MAX).unwrap();
        let (waiting, publisher) = (topic.clone(), topic.clone());
        let blocked = thread::spawn(move || publisher.publish_within(3, Duration::MAX));
        until(|| waiting.counts().blocked + waiting.counts().rejected > 1);
        assert_eq!(waiting.end(0), Some(2));
        broker.close(Some(Duration::ZERO));
        assert!(blocked.join().unwrap().is_err());
    });
}

#[test]
fn payloads_of_no_size_much_size_and_great_alignment_arrive_whole_and_are_dropped_once() {
    #[expect(dead_code, reason = "counts drops")]
    #[repr(align(4096))]
    struct Aligned(u8, Arc<()>);
    #[expect(dead_code, reason = "counts drops")]
    struct Large([u64; 4_000], Arc<()>);
    ends(|| {
        for capacity in [1, 2, 3, 9] {
            let (broker, life) = (Broker::new(), Arc::new(()));
            let aligned = broker.create_topic("a", TopicConfig::new().capacity(capacity).block(None)).unwrap();
            let aligned_group = aligned.group("g", GroupConfig::earliest()).unwrap();
            aligned_group
                .subscribe("m", |record: &Record<'_, Aligned>| {
                    assert_eq!((record.value() as *const Aligned).align_offset(4096), 0);
                    assert_eq!(u64::from(record.0), record.offset());
                })
                .unwrap();
            let large = broker.create_topic("l", TopicConfig::new().capacity(capacity).block(None)).unwrap();
            let large_group = large.group("g", GroupConfig::earliest()).unwrap();
            large_group.subscribe("m", |r: &Record<'_, Large>| assert!(r.0.iter().all(|n| *n == r.offset()))).unwrap();
            let (unit, mut units) =
                broker.create_exclusive("u", TopicConfig::new().capacity(capacity).block(None)).unwrap();
            let unit_group = unit.group("g", GroupConfig::earliest()).unwrap();
            unit_group.subscribe("m", |_: &Record<'_, ()>| ()).unwrap();
            for n in 0..20_u8 {
                aligned.publish(Aligned(n, life.clone())).unwrap();
                large.publish(Large([u64::from(n); 4_000], life.clone())).unwrap();
                units.publish(()).unwrap();
            }
            let account = broker.close(Some(LONG));
            assert_eq!((account.acked(), account.dead(), account.left()), (60, 0, 0));
            drop((broker, aligned, large, unit, units, aligned_group, large_group, unit_group));
            until(|| Arc::strong_count(&life) == 1);
        }
    });
}
