//! Many values at once: where they go, what is all or nothing, and what comes back.
#![forbid(unsafe_code)]

use ringlog::{BatchError, Broker, GroupConfig, Manual, Record, Topic, TopicConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

//
#[test]
fn a_batch_is_contiguous_in_each_partition_and_in_order() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::<i32>::new().capacity(8).partitions(2)).unwrap();
    let got = Arc::new(Mutex::new(vec![Vec::new(); 2]));
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let seen = got.clone();
    group.subscribe("m", move |record| seen.lock().unwrap()[record.partition() as usize].push(**record)).unwrap();
    let stored = topic.publish_batch(0..7).unwrap();
    assert_eq!(stored.iter().map(|share| share.offsets.clone()).collect::<Vec<_>>(), [0..4, 0..3]);
    assert!(topic.publish_batch(std::iter::empty()).unwrap().is_empty());
    broker.drain(SECOND).unwrap();
    assert_eq!(*got.lock().unwrap(), [vec![0, 2, 4, 6], vec![1, 3, 5]]);
}

#[test]
fn a_batch_is_all_or_nothing_in_each_partition_and_the_rest_comes_back() {
    let broker = Broker::new();
    let config = TopicConfig::new().capacity(4).partitions(2).block(Some(Duration::ZERO));
    let topic = broker.create_topic("a", config).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap();
    (0..3).for_each(|n| assert!(topic.publish_to(1, n).is_ok()));
    match topic.publish_batch(10..16) {
        Err(BatchError::Stopped { stored, rest, why }) => {
            assert_eq!(
                stored.iter().map(|share| (share.partition, share.offsets.clone())).collect::<Vec<_>>(),
                [(0, 0..3)]
            );
            let odd: Vec<i32> = rest;
            assert_eq!(odd.len(), 3);
            assert_eq!(why.full().unwrap().partition, 1);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((topic.end(0), topic.end(1)), (Some(3), Some(3)));
}

#[test]
fn a_batch_larger_than_a_partition_is_an_error_and_stores_nothing() {
    let broker = Broker::new();
    let topic = broker.create_topic("a", TopicConfig::new().capacity(3).block(None)).unwrap();
    let refused = topic.publish_batch(vec![1, 2, 3, 4, 5]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "4 or more records for a/0, which holds 3; nothing was stored, publish smaller batches"
    );
    assert_eq!(refused.into_rest(), [1, 2, 3, 4, 5]);
    assert_eq!(topic.end(0), Some(0));
    let mut endless = 0..;
    assert_eq!(topic.publish_batch(&mut endless).unwrap_err().into_rest(), [0, 1, 2, 3]);
    assert_eq!(endless.next(), Some(4), "nothing was taken that was not given back");
    assert_eq!(topic.publish_batch([7, 8, 9]).unwrap()[0].offsets, 0..3);
}

/// What a group of `topic` has been handed since the last look, by partition.
fn reading(topic: &Topic<u32>, manual: &Manual) -> impl Fn() -> Vec<Vec<u32>> {
    let got = Arc::new(Mutex::new(vec![Vec::new(); topic.partitions() as usize]));
    let (seen, manual) = (got.clone(), manual.clone());
    let handler = move |record: &Record<'_, u32>| seen.lock().unwrap()[record.partition() as usize].push(**record);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group.member("m").run(&manual).subscribe(handler).unwrap();
    move || {
        assert!(manual.run(100_000) < 100_000);
        got.lock().unwrap().iter_mut().map(std::mem::take).collect()
    }
}

// An eighth of the capacity, up to which batches are built in place, is 128.
#[test]
fn a_batch_goes_where_its_records_would_have_gone_one_by_one_however_large_it_is() {
    let (broker, manual) = (Broker::new(), Manual::new(1));
    for size in [1, 2, 5, 40, 390, 700] {
        let config =
            || TopicConfig::new().partitions(3).capacity(1_024).optional_key(|n: &u32| (n % 3 > 0).then_some(n));
        let (topic, mut producer) = broker.create_exclusive(&format!("batches {size}"), config()).unwrap();
        let single = broker.create_topic(&format!("singles {size}"), config()).unwrap();
        let (of_batches, of_singles) = (reading(&topic, &manual), reading(&single, &manual));
        for round in 0..3 {
            let values = || (0..size).map(|n| round * 1_000 + n);
            values().for_each(|value| assert!(single.publish(value).is_ok()));
            producer.publish_batch(values()).unwrap();
            let (got, expected) = (of_batches(), of_singles());
            assert_eq!(expected.iter().map(Vec::len).sum::<usize>(), size as usize);
            assert_eq!(got, expected, "batches of {size}");
        }
    }
}

#[test]
fn a_batch_whose_source_closes_the_broker_comes_back_whole() {
    for capacity in [1, 2, 8, 64, 512] {
        let (broker, alive) = (Broker::new(), Arc::new(()));
        let config = TopicConfig::new().partitions(2).capacity(capacity).block(Some(Duration::ZERO));
        let (topic, mut producer) = broker.create_exclusive("lines", config).unwrap();
        let closing = broker.clone();
        let source = (0..8).map(|n| {
            if n == 7 {
                closing.close(Some(Duration::ZERO));
            }
            (n, alive.clone())
        });
        let refused = producer.publish_batch(source).unwrap_err();
        let rest: Vec<_> = refused.into_rest().into_iter().map(|(n, _)| n).collect();
        match capacity {
            1 | 2 => assert_eq!(rest.len(), 8, "too large, and found so before the end"),
            _ => assert_eq!(rest, [0, 2, 4, 6, 1, 3, 5, 7]),
        }
        assert_eq!((topic.end(0), topic.end(1)), (Some(0), Some(0)));
        assert_eq!(Arc::strong_count(&alive), 1, "each value came back, and went, once");
    }
}

#[test]
fn a_source_that_panics_stores_nothing_and_each_of_its_values_is_dropped_once() {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(2).capacity(64);
    let (topic, mut producer) = broker.create_exclusive("arcs", config).unwrap();
    let alive = Arc::new(());
    for round in 0..50_usize {
        let source = (0..8).map(|n| if n == 5 { panic!("no sixth") } else { alive.clone() });
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(producer.publish_batch(source))));
        assert!(panics.is_err());
        assert_eq!(topic.end(0).unwrap() + topic.end(1).unwrap(), 4 * round as u64);
        producer.publish_batch((0..4).map(|_| alive.clone())).unwrap();
    }
    drop((topic, producer, broker));
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_source_is_not_asked_again_after_its_end() {
    let broker = Broker::new();
    let (_lines, mut producer) = broker.create_exclusive("lines", TopicConfig::new().capacity(64)).unwrap();
    broker.close(Some(Duration::ZERO));
    let mut turns = 0..;
    let resuming = std::iter::from_fn(|| turns.next().filter(|turn| turn % 4 != 3));
    let refused = producer.publish_batch(resuming).unwrap_err();
    assert_eq!(refused.into_rest(), [0, 1, 2]);
}
