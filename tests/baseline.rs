//! What appending without a protocol does to records, so that it is seen what the ring is for: a log whose end is read and
//! written in two steps loses records and overwrites them, at the same moments at which a topic loses none.

use ringlog::{Broker, GroupConfig, TopicConfig};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 4;
const EACH: u64 = 100;

/// Appends by reading the end, writing there, and writing the end back. Memory-safe, and wrong.
struct Naive {
    end: AtomicUsize,
    slots: Vec<AtomicU64>,
}

const NOTHING: u64 = u64::MAX;

impl Naive {
    fn new() -> Self {
        let slots = (0..THREADS * EACH).map(|_| AtomicU64::new(NOTHING)).collect();
        Naive { end: AtomicUsize::new(0), slots }
    }

    fn append(&self, value: u64, between: impl FnOnce()) {
        let at = self.end.load(Ordering::Acquire);
        between();
        self.slots[at].store(value, Ordering::Release);
        self.end.store(at + 1, Ordering::Release);
    }

    fn records(&self) -> BTreeSet<u64> {
        let slots = &self.slots[..self.end.load(Ordering::Acquire)];
        slots.iter().map(|slot| slot.load(Ordering::Acquire)).filter(|value| *value != NOTHING).collect()
    }
}

/// Four threads append a hundred values each, all four at the same moment.
fn at_once(append: impl Fn(u64, &Barrier) + Send + Sync + 'static) {
    let (append, meeting) = (Arc::new(append), Arc::new(Barrier::new(THREADS as usize)));
    let threads: Vec<_> = (0..THREADS)
        .map(|mine| {
            let (append, meeting) = (append.clone(), meeting.clone());
            thread::spawn(move || (0..EACH).for_each(|n| append(mine * EACH + n, &meeting)))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

// B-V12
#[test]
fn without_a_protocol_records_are_lost_where_a_topic_loses_none() {
    let naive = Arc::new(Naive::new());
    let log = naive.clone();
    at_once(move |value, meeting| {
        log.append(value, || _ = meeting.wait());
        meeting.wait();
    });
    let kept = naive.records().len() as u64;
    assert_eq!(kept, EACH, "of four appended at once, one is left");

    for capacity in [1, 2, 3, 64] {
        let broker = Broker::new();
        let topic = broker.create_topic("orders", TopicConfig::new().capacity(capacity).block(None)).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = seen.clone();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.subscribe("m", move |record| note.lock().unwrap().push(**record)).unwrap();
        let publisher = topic.clone();
        at_once(move |value, meeting| {
            meeting.wait();
            publisher.publish(value).unwrap();
            meeting.wait();
        });
        broker.drain(Duration::from_secs(60)).unwrap();
        let mut seen = seen.lock().unwrap().clone();
        assert_eq!((seen.len() as u64, topic.end(0)), (THREADS * EACH, Some(THREADS * EACH)));
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..THREADS * EACH), "each of them, once");
    }
}
