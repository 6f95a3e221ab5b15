//! Topics that lose records: user code that takes part in the losing.

use super::{balanced, ends};
use ringlog::{Broker, GroupConfig, Manual, Retain, Topic, TopicConfig};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Publishes once more when it is dropped, if it is told to.
struct Echo {
    echo: bool,
    topic: Topic<Echo>,
    offsets: Arc<Mutex<Vec<u64>>>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        if self.echo {
            let again = Echo { echo: false, topic: self.topic.clone(), offsets: self.offsets.clone() };
            let offset = self.topic.publish(again).map(|published| published.offset());
            self.offsets.lock().unwrap().extend(offset);
        }
    }
}

#[test]
fn a_destructor_that_publishes_while_its_page_is_taken_gets_an_offset_of_its_own() {
    for capacity in [1, 2, 3, 4] {
        ends(move || {
            let broker = Broker::new();
            let config = TopicConfig::new().capacity(capacity).drop_oldest().retain(Retain::Unacked);
            let topic = broker.create_topic("t", config).unwrap();
            let _parked = topic.group("g", GroupConfig::earliest()).unwrap();
            let offsets = Arc::new(Mutex::new(Vec::new()));
            for n in 0..40 {
                let value = Echo { echo: n % 3 == 0, topic: topic.clone(), offsets: offsets.clone() };
                let offset = topic.publish(value).unwrap().offset();
                offsets.lock().unwrap().push(offset);
            }
            let mut all = offsets.lock().unwrap().clone();
            all.sort_unstable();
            assert_eq!(all, (0..all.len() as u64).collect::<Vec<_>>(), "capacity {capacity}");
            assert!(all.len() > 40, "no destructor has published");
            topic.delete_group("g").unwrap();
            broker.close(None);
        });
    }
}

// The producer is always faster than the account of the loss: it is the hook that hears of it.
#[test]
fn a_group_whose_every_gap_brings_another_record_gets_records_all_the_same() {
    for (capacity, retain) in [(1, Retain::Recent), (2, Retain::Recent), (3, Retain::Backlog)] {
        let (broker, manual) = (Broker::new(), Manual::new(1));
        let topic =
            broker.create_topic("t", TopicConfig::new().capacity(capacity).drop_oldest().retain(retain)).unwrap();
        let (next, publisher) = (AtomicU64::new(0), topic.clone());
        let publish = Arc::new(move || {
            publisher.publish(next.fetch_add(1, Ordering::Relaxed)).unwrap();
        });
        let more = publish.clone();
        let config = GroupConfig::earliest().on_gap(move |_| (0..=capacity).for_each(|_| more()));
        let group = topic.group("g", config).unwrap();
        let got = Arc::new(AtomicU64::new(0));
        let seen = got.clone();
        group.member("m").run(&manual).subscribe(move |_| _ = seen.fetch_add(1, Ordering::Relaxed)).unwrap();
        (0..=capacity).for_each(|_| publish());
        for _ in 0..10 {
            let before = got.load(Ordering::Relaxed);
            manual.run(4);
            assert!(got.load(Ordering::Relaxed) > before, "only gaps");
        }
        balanced(&group.stats());
    }
}
