//! Many publishers, and subscribers of every overflow on one topic: one order for all, and every record accounted for.
use ringlog::{Broker, Gap, GroupConfig, Overflow, Record, Retain, TopicConfig};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const PUBLISHERS: u64 = 4;
const EACH: u64 = if cfg!(miri) { 10 } else { 250 };
const ALL: u64 = PUBLISHERS * EACH;

struct Subscriber {
    group: ringlog::Group<u64>,
    seen: Arc<Mutex<Vec<(u64, u64)>>>,
    lost: Arc<Mutex<Vec<Gap>>>,
    keeps_all: bool,
}

fn subscriber(topic: &ringlog::Topic<u64>, overflow: Overflow<u64>, fails: u64) -> Subscriber {
    let (seen, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (kept, gaps) = (seen.clone(), lost.clone());
    let name = format!("{overflow:?}").replace(['(', ')'], "-");
    let keeps_all = name == "topic" || name.starts_with("block");
    let config = GroupConfig::latest()
        .retry(ringlog::Retry::constant(3, Duration::ZERO))
        .overflow(overflow)
        .on_gap(move |gap| gaps.lock().unwrap().push(gap.clone()));
    let group = topic.group(&name, config).unwrap();
    let handle = move |record: &Record<'_, u64>| {
        thread::yield_now();
        if fails > 0 && record.offset() % fails == 0 && record.attempt() == 1 {
            return Err("not yet");
        }
        kept.lock().unwrap().push((record.offset(), **record));
        Ok(())
    };
    group.subscribe("only", handle).unwrap();

    Subscriber { group, seen, lost, keeps_all }
}

impl Subscriber {
    fn check(&self, order: &[(u64, u64)]) {
        let (seen, stats) = (self.seen.lock().unwrap(), self.group.stats());
        assert!(stats.balances(), "{stats:?}");
        assert_eq!(stats.lag(), 0);
        assert_eq!(stats.acked() + stats.dropped() + stats.conflated(), ALL, "{stats:?}");
        assert_eq!(stats.acked(), seen.len() as u64);
        assert!(seen.iter().all(|(at, value)| order[*at as usize] == (*at, *value)), "not the one order");
        assert!(seen.windows(2).all(|two| two[0].0 < two[1].0), "out of order, or twice");
        let lost: u64 = self.lost.lock().unwrap().iter().map(Gap::lost).sum();
        // What went by at the very end is told of when the group reads on: it did not.
        let untold = stats.lanes[0].end - stats.lanes[0].committed;
        assert_eq!(lost + untold, stats.dropped() + stats.conflated(), "told of what was lost: {stats:?}");
        if self.keeps_all {
            assert_eq!(seen.len() as u64, ALL);
        }
    }
}

// C-2, C-T10 (its harder schedule: one slot, and a handler that yields), C-36: one order, whatever each subscriber loses.
#[test]
fn every_subscriber_sees_the_one_order_and_accounts_for_what_it_lost() {
    for (retain, most) in [Retain::Unacked, Retain::Recent].into_iter().flat_map(|r| (1..=4).map(move |n| (r, n))) {
        for (capacity, fails) in [(8, 0), (64, 7)] {
            let broker = Broker::new();
            let config = TopicConfig::new().capacity(capacity).retain(retain).block(None);
            let topic = broker.create_topic("t", config).unwrap();
            let rules = [
                Overflow::topic(),
                Overflow::block(most),
                Overflow::drop_oldest(most),
                Overflow::drop_newest(most),
                Overflow::latest(),
                Overflow::latest_by(most, |value| value % 5),
            ];
            let subscribers: Vec<_> = rules.map(|rule| subscriber(&topic, rule, fails)).into();
            thread::scope(|scope| {
                for publisher in 0..PUBLISHERS {
                    let topic = topic.clone();
                    scope.spawn(move || (0..EACH).for_each(|n| _ = topic.publish(publisher * EACH + n).unwrap()));
                }
            });
            broker.drain(Duration::from_secs(60)).unwrap();
            let order = subscribers[0].seen.lock().unwrap().clone();
            assert_eq!(order.len() as u64, ALL);
            // A gap is told of after it was committed: so not before every handler is done.
            assert!(broker.close(Some(Duration::from_secs(60))).stopped);
            subscribers.iter().for_each(|subscriber| subscriber.check(&order));
        }
    }
}
