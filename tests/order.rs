//! The orders that are promised: offsets within a partition, each key's records, and one order for all who listen.
mod lab;

use lab::{CAPACITIES, Lab};
use ringlog::{Broker, Group, GroupConfig, Record, Retry, Run, Topic, TopicConfig, Worker};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const KEYS: u64 = 12;

/// Whose it is, and which of his.
type Note = (u64, u64);

fn by_key(partitions: u32, capacity: usize) -> TopicConfig<Note> {
    TopicConfig::new().partitions(partitions).capacity(capacity).key(|note: &Note| &note.0)
}

/// For each key the partition it came through, and its numbers.
type ByKey = BTreeMap<u64, (u32, Vec<u64>)>;

/// What a group acknowledged.
#[derive(Clone, Default)]
struct Done(Arc<Mutex<ByKey>>);

impl Done {
    fn note(&self, record: &Record<'_, Note>) {
        let (key, number) = **record;
        let mut done = self.0.lock().unwrap();
        let (partition, numbers) = done.entry(key).or_insert_with(|| (record.partition(), Vec::new()));
        assert_eq!(*partition, record.partition(), "a key stays in its partition");
        numbers.push(number);
    }

    fn check(&self, each: u64) {
        let done = self.0.lock().unwrap();
        assert_eq!(done.len() as u64, KEYS);
        for (key, (_, numbers)) in &*done {
            assert_eq!(*numbers, (0..each).collect::<Vec<_>>(), "of key {key}: each once, in order");
        }
    }
}

// A-13, B-18, X14
#[test]
fn each_key_is_acknowledged_in_order_whatever_fails_and_whoever_comes_and_goes() {
    for capacity in CAPACITIES {
        for partitions in [1, 4] {
            let lab = Lab::new(capacity as u64);
            let config = by_key(partitions, capacity).block(Some(Duration::ZERO));
            let topic = lab.broker.create_topic("notes", config).unwrap();
            let groups = ["a", "b"].map(|name| {
                let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::from_millis(5)));
                (topic.group(name, config).unwrap(), Done::default())
            });
            let mut members = Vec::new();
            for number in 0..30 {
                for (group, done) in &groups {
                    let done = done.clone();
                    let flaky = move |record: &Record<'_, Note>| {
                        if record.attempt() == 1 && (record.0 + record.1) % 3 == 0 {
                            return Err("once more");
                        }
                        done.note(record);
                        Ok(())
                    };
                    let member = group.member(&number.to_string()).run(&lab.manual).subscribe(flaky);
                    members.push(member.unwrap());
                }
                if number % 3 != 0 {
                    members.remove(number as usize * 7 % members.len()).leave();
                    members.remove(number as usize * 5 % members.len()).leave();
                }
                for key in 0..KEYS {
                    while topic.publish((key, number)).is_err() {
                        lab.finish();
                    }
                    lab.manual.run(2);
                }
            }
            lab.finish();
            for (group, done) in &groups {
                done.check(30);
                assert!(group.stats().balances() && group.stats().retried() > 0);
            }
        }
    }
}

/// Runs `handler` in one of the three ways.
fn join(
    group: &Group<Note>,
    how: usize,
    worker: &Worker,
    handler: impl Fn(&Record<'_, Note>) + Clone + Send + 'static,
) {
    let member = group.member("m");
    let joined = match how {
        0 => member.subscribe(handler),
        1 => member.run(worker).subscribe(handler),
        _ => member.run(Run::ThreadPerLane).subscribe_with(|_| handler.clone()),
    };
    joined.unwrap();
}

/// Four threads publish `each` notes for each key, whose keys they share out among them. Where each note was stored.
fn publish_at_once(topic: &Topic<Note>, each: u64) -> HashMap<Note, (u32, u64)> {
    let start = Arc::new(Barrier::new(4));
    let publishers: Vec<_> = (0..4)
        .map(|mine| {
            let (topic, start) = (topic.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                let notes = (0..each).flat_map(|number| (mine * 3..mine * 3 + 3).map(move |key| (key, number)));
                notes.map(|note| (note, topic.publish(note).unwrap().position)).collect::<Vec<_>>()
            })
        })
        .collect();
    let stored = publishers.into_iter().flat_map(|publisher| publisher.join().unwrap());
    stored.map(|(note, at)| (note, (at.partition, at.offset))).collect()
}

// B-18
#[test]
fn each_key_is_handled_in_order_by_one_at_a_time_with_many_publishers_and_members() {
    for capacity in [1, 2, 3, 64] {
        let broker = Broker::new();
        let topic = broker.create_topic("notes", by_key(4, capacity).block(None)).unwrap();
        let worker = Worker::spawn().unwrap();
        let groups = [0, 1, 2].map(|how| {
            let group = topic.group(&format!("g{how}"), GroupConfig::earliest()).unwrap();
            let done = Done::default();
            let seen = done.clone();
            let busy: Arc<[Mutex<()>; 4]> = Arc::default();
            join(&group, how, &worker, move |record| {
                let alone = busy[record.partition() as usize].try_lock();
                assert!(alone.is_ok(), "two at once in a partition");
                seen.note(record);
            });
            (group, done)
        });
        publish_at_once(&topic, 100);
        broker.drain(LONG).unwrap();
        for (group, done) in &groups {
            done.check(100);
            assert_eq!((group.stats().acked(), group.stats().dead()), (100 * KEYS, 0));
        }
    }
}

// C-2, C-9, X13, X14
#[test]
fn all_groups_see_one_order_which_is_that_of_the_offsets_given_to_publishers() {
    for capacity in [1, 2, 3, 64] {
        let broker = Broker::new();
        let topic = broker.create_topic("notes", by_key(1, capacity).block(None)).unwrap();
        let worker = Worker::spawn().unwrap();
        let seen = [0, 1, 2].map(|how| {
            let group = topic.group(&format!("g{how}"), GroupConfig::earliest()).unwrap();
            let seen = Arc::new(Mutex::new(Vec::new()));
            let note = seen.clone();
            join(&group, how, &worker, move |record| note.lock().unwrap().push(**record));
            seen
        });
        let stored = publish_at_once(&topic, 100);
        broker.drain(LONG).unwrap();
        let mut expected: Vec<_> = stored.iter().map(|(note, (_, offset))| (*offset, *note)).collect();
        expected.sort_unstable();
        assert!(expected.iter().map(|(offset, _)| *offset).eq(0..100 * KEYS), "dense, from zero");
        let expected: Vec<Note> = expected.into_iter().map(|(_, note)| note).collect();
        seen.iter().for_each(|seen| assert_eq!(*seen.lock().unwrap(), expected));
    }
}

// X13
#[test]
fn each_partition_counts_its_own_offsets_from_zero() {
    for capacity in CAPACITIES {
        let lab = Lab::new(1);
        let topic = lab.topic(3, capacity);
        let mut ends = [0; 3];
        for n in 0..200_usize {
            let partition = (n * n + n / 5) % 3;
            let published = topic.publish_to(partition as u32, n as u64).unwrap();
            assert_eq!((published.partition() as usize, published.offset()), (partition, ends[partition]));
            ends[partition] += 1;
            assert_eq!([0, 1, 2].map(|partition| topic.end(partition).unwrap()), ends, "the others stay as they were");
        }
        assert!(ends.iter().all(|end| *end > 0));
    }
}

/// No `Clone`, no way to change it through a reference.
struct Sealed(u64);

// B-36
#[test]
fn a_record_is_stored_once_and_does_not_know_who_has_read_it() {
    for capacity in CAPACITIES {
        let lab = Lab::new(2);
        let config = TopicConfig::new().capacity(capacity);
        let topic = lab.broker.create_topic("sealed", config).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let read = |name: &str, attempts| {
            let group = topic.group(name, GroupConfig::earliest().retry(Retry::constant(3, Duration::ZERO))).unwrap();
            let seen = seen.clone();
            let handler = move |record: &Record<'_, Sealed>| {
                let place = std::ptr::from_ref(record.value()) as usize;
                let who = (record.topic().to_owned(), record.partition(), record.offset());
                seen.lock().unwrap().push((place, who, record.0));
                if record.attempt() < attempts { Err("again") } else { Ok(()) }
            };
            group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        };
        read("once", 1);
        read("thrice", 3);
        for n in 0..5_u64 {
            topic.publish(Sealed(n * 11)).unwrap();
            lab.finish();
            let seen = std::mem::take(&mut *seen.lock().unwrap());
            assert_eq!(seen.len(), 4, "once, and three times");
            assert_eq!(seen[0].1, ("sealed".to_owned(), 0, n));
            assert!(seen.iter().all(|one| *one == seen[0] && one.2 == n * 11), "the same bytes at the same place");
        }
    }
}

// C-16, C-X2
#[test]
fn who_comes_while_others_publish_begins_behind_what_is_stored_and_misses_nothing_from_there() {
    for capacity in [1, 2, 3, 64] {
        let broker = Broker::new();
        let topic = broker.create_topic("notes", by_key(1, capacity).block(None)).unwrap();
        let worker = Worker::spawn().unwrap();
        let publisher = thread::spawn({
            let topic = topic.clone();
            move || (0..600).for_each(|n| assert_eq!(topic.publish((0, n)).unwrap().offset(), n))
        });
        let mut newcomers = Vec::new();
        while !publisher.is_finished() && newcomers.len() < 20 {
            let (before, name) = (topic.end(0).unwrap(), newcomers.len().to_string());
            let group = topic.group(&name, GroupConfig::latest()).unwrap();
            let after = topic.end(0).unwrap();
            let seen = Arc::new(Mutex::new(Vec::new()));
            let note = seen.clone();
            join(&group, newcomers.len() % 2, &worker, move |record| note.lock().unwrap().push(record.1));
            newcomers.push((before..=after, group, seen));
        }
        publisher.join().unwrap();
        broker.drain(LONG).unwrap();
        for (between, group, seen) in newcomers {
            let start = group.stats().lanes[0].start;
            assert!(between.contains(&start), "not before what was stored when it came: {start}, {between:?}");
            assert_eq!(*seen.lock().unwrap(), (start..600).collect::<Vec<_>>());
        }
    }
}
