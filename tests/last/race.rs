//! Several publishers and readers at once: nothing goes back, and at the end stands the last record.
use ringlog::{Broker, Last, Position, TopicConfig};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

const PUBLISHERS: u64 = 3;
const KEYS: u64 = 16;
const PARTITIONS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Debug)]
struct Record {
    key: u64,
    publisher: u64,
    nth: u64,
}

/// The text of it, so that a torn or freed one would show.
fn text(record: &Record) -> String {
    format!("{record:?}")
}

fn config() -> TopicConfig<Record> {
    TopicConfig::new()
        .partitions(PARTITIONS)
        .capacity(64)
        .key(|record: &Record| &record.key)
        .last_value(|record| (*record, text(record)))
        .last_value_by_key(|record| record.key, |record| (*record, text(record)))
}

/// Highest offset seen, of a partition or a key.
#[derive(Default)]
struct Seen(BTreeMap<u64, Position>);

impl Seen {
    fn look(&mut self, what: u64, last: Option<Last<(Record, String)>>) -> Option<Record> {
        let last = last?;
        assert_eq!(last.1, text(&last.0));
        let (now, before) = (last.position(), self.0.insert(what, last.position()));
        assert!(before.is_none_or(|before| before.offset <= now.offset), "{what} went back from {before:?} to {now:?}");
        Some(last.0)
    }
}

#[test]
fn values_never_go_back_and_the_last_record_stands_at_the_end() {
    let (broker, stop) = (Broker::new(), AtomicBool::new(false));
    let topic = broker.create_topic("race", config()).unwrap();
    let (last, by_key) =
        (topic.last_value::<(Record, String)>().unwrap(), topic.last_values::<u64, (Record, String)>().unwrap());
    let rounds = 10_000;
    let published = thread::scope(|s| {
        let publish = |publisher| {
            let (topic, last, by_key) = (&topic, &last, &by_key);
            move || {
                let mut mine: BTreeMap<u64, (Position, Record)> = BTreeMap::new();
                let mut seen = Seen::default();
                for nth in 0..rounds {
                    let record = Record { key: nth * 7 % KEYS, publisher, nth };
                    let position = topic.publish(record).unwrap().position;
                    mine.insert(record.key, (position, record));
                    let newest = last.of(position.partition).unwrap().position();
                    assert!(newest.offset >= position.offset, "it is there when the publish returns");
                    seen.look(record.key, by_key.get(&record.key)).expect("the key has one");
                    assert!(seen.0[&record.key].offset >= position.offset);
                }
                mine
            }
        };
        let publishers: Vec<_> = (0..PUBLISHERS).map(|publisher| s.spawn(publish(publisher))).collect();
        s.spawn(|| {
            let (mut of, mut keys) = (Seen::default(), Seen::default());
            while !stop.load(SeqCst) {
                for partition in 0..PARTITIONS {
                    of.look(partition.into(), last.of(partition));
                }
                for key in 0..KEYS {
                    assert!(keys.look(key, by_key.get(&key)).is_none_or(|record| record.key == key));
                }
            }
        });
        let done: Vec<_> = publishers.into_iter().map(|publisher| publisher.join()).collect();
        stop.store(true, SeqCst);
        done.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    });
    for key in 0..KEYS {
        let (position, record) = published.iter().map(|mine| mine[&key]).max_by_key(|(at, _)| at.offset).unwrap();
        let value = by_key.get(&key).unwrap();
        assert_eq!((value.position(), value.0), (position, record));
    }
    for partition in 0..PARTITIONS {
        assert_eq!(last.of(partition).unwrap().position().offset + 1, topic.end(partition).unwrap());
    }
}

#[test]
fn over_partitions_the_latest_follows_what_returned_before() {
    let (broker, stop) = (Broker::new(), AtomicBool::new(false));
    let config = TopicConfig::new().partitions(4).capacity(64).last_value(|n: &u64| *n);
    let topic = broker.create_topic("latest", config).unwrap();
    let last = topic.last_value::<u64>().unwrap();
    thread::scope(|s| {
        s.spawn(|| {
            let mut before = 0;
            while !stop.load(SeqCst) {
                if let Some(now) = last.get() {
                    assert!(*now >= before, "went back from {before} to {}", *now);
                    before = *now;
                }
            }
        });
        // One publisher: each publish begins after the one before has returned, whatever partition it went to.
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for n in 1..30_000 {
                topic.publish_to((n * 7 % 11 % 4) as u32, n).unwrap();
                assert_eq!(*last.get().unwrap(), n);
            }
        }));
        stop.store(true, SeqCst);
        ran.unwrap();
    });
}
