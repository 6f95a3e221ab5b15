//! Every rule for a mailbox that is full, with the members in a pool.
#![forbid(unsafe_code)]

#[path = "support/rules.rs"]
mod rules;

use ringlog::{
    Broker, BrokerConfig, Gap, Group, GroupConfig, ManualClock, Overflow, Pool, PoolConfig, Record, Retain, Retry,
    Topic, TopicConfig,
};
use rules::rules;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const PUBLISHERS: u64 = 3;
const EACH: u64 = 100;
const ALL: u64 = PUBLISHERS * EACH;

fn pool(threads: usize) -> Pool {
    Pool::with(PoolConfig::new().threads(threads)).unwrap()
}

/// A subscriber in a pool: what it saw, and what it was told to be lost.
struct Subscriber {
    group: Group<u64>,
    seen: Arc<Mutex<Vec<(u64, u64)>>>,
    lost: Arc<Mutex<Vec<Gap>>>,
    keeps_all: bool,
}

impl Subscriber {
    fn new(topic: &Topic<u64>, number: usize, overflow: Overflow<u64>, pool: &Pool) -> Self {
        let (seen, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (kept, gaps) = (seen.clone(), lost.clone());
        let config = GroupConfig::latest()
            .retry(Retry::constant(3, Duration::ZERO))
            .overflow(overflow)
            .on_gap(move |gap| gaps.lock().unwrap().push(gap.clone()));
        let group = topic.group(&format!("g{number}"), config).unwrap();
        let handler = move |record: &Record<'_, u64>| {
            thread::yield_now();
            if record.offset() % 7 == 0 && record.attempt() == 1 {
                return Err("not yet");
            }
            kept.lock().unwrap().push((record.offset(), **record));
            Ok(())
        };
        group.member("only").run(pool).subscribe(handler).unwrap();
        Subscriber { group, seen, lost, keeps_all: number == 0 }
    }

    fn check(&self, order: &[(u64, u64)]) {
        let (seen, stats) = (self.seen.lock().unwrap(), self.group.stats());
        assert!(stats.balances(), "{stats:?}");
        assert_eq!((stats.lag(), stats.acked()), (0, seen.len() as u64), "{stats:?}");
        assert_eq!(stats.acked() + stats.dropped() + stats.conflated(), ALL, "{stats:?}");
        assert!(seen.iter().all(|(at, value)| order[*at as usize] == (*at, *value)), "not the one order");
        assert!(seen.windows(2).all(|two| two[0].0 < two[1].0), "out of order, or twice");
        let lost: u64 = self.lost.lock().unwrap().iter().map(Gap::lost).sum();
        // What went by at the very end is told of when the group reads on: it did not.
        let untold = stats.lanes[0].end - stats.lanes[0].committed;
        assert_eq!(lost + untold, stats.dropped() + stats.conflated(), "told of what was lost: {stats:?}");
        assert!(!self.keeps_all || seen.len() as u64 == ALL);
    }
}

// C-2, C-11, C-13, C-30, C-X5, C-X6
#[test]
fn in_a_pool_every_subscriber_sees_the_one_order_and_accounts_for_what_its_rule_lost() {
    for (retain, most) in [Retain::Unacked, Retain::Recent].into_iter().flat_map(|r| (1..=4).map(move |n| (r, n))) {
        for threads in [1, 2] {
            let (broker, pool) = (Broker::new(), pool(threads));
            let topic = broker.create_topic("t", TopicConfig::new().capacity(8).retain(retain).block(None)).unwrap();
            let subscribers: Vec<_> =
                (0..).zip(rules(most)).map(|(n, rule)| Subscriber::new(&topic, n, rule, &pool)).collect();
            thread::scope(|scope| {
                for publisher in 0..PUBLISHERS {
                    let topic = topic.clone();
                    scope.spawn(move || (0..EACH).for_each(|n| _ = topic.publish(publisher * EACH + n).unwrap()));
                }
            });
            broker.drain(LONG).unwrap();
            let order = subscribers[0].seen.lock().unwrap().clone();
            assert_eq!(order.len() as u64, ALL);
            // A gap is told of after it was committed: so not before every handler is done.
            assert!(broker.close(Some(LONG)).stopped);
            subscribers.iter().for_each(|subscriber| subscriber.check(&order));
        }
    }
}

// C-T3, C-T6, C-T7, C-11, C-12, C-30: what its rule makes of what waits behind a handler that is held up, and another member of
// its pool gets all of it meanwhile.
#[test]
fn behind_a_handler_that_is_held_up_in_a_pool_its_rule_says_what_waits_and_others_get_everything() {
    // What is handed over of 1 to 8, of which 1 is in hand: at most two wait, but for the rules that are of one, or of three keys.
    let expected: [&[u64]; 5] = [&[1, 2, 3], &[1, 7, 8], &[1, 2, 3], &[1, 8], &[1, 7, 8]];
    for (which, expected) in expected.into_iter().enumerate() {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let pool = pool(1);
        let topic: Topic<u64> =
            broker.create_topic("t", TopicConfig::new().capacity(16).block(Some(Duration::ZERO))).unwrap();
        let rule = rules(2).into_iter().nth(which).unwrap();
        let slow = topic.group("slow", GroupConfig::latest().overflow(rule)).unwrap();
        let ((starts, started), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let handler = move |record: &Record<'_, u64>| {
            starts.send(**record).unwrap();
            let _ = released.recv();
        };
        slow.member("only").run(&pool).subscribe(handler).unwrap();
        let all = topic.group("all", GroupConfig::latest()).unwrap();
        let (tell, seen) = mpsc::channel();
        all.member("only").run(&pool).subscribe(move |record| tell.send(**record).unwrap()).unwrap();
        topic.publish(1).unwrap();
        assert_eq!(started.recv().unwrap(), 1);
        let refused = (2..=8).filter(|n| topic.publish(*n).is_err()).count() as u64;
        for n in (1..=8).take(8 - refused as usize) {
            let got = loop {
                match seen.try_recv() {
                    Ok(got) => break got,
                    Err(_) => clock.advance(Duration::from_millis(5)),
                }
                thread::yield_now();
            };
            assert_eq!(got, n);
        }
        drop(release);
        broker.drain(LONG).unwrap();
        let rest: Vec<u64> = started.try_iter().collect();
        assert_eq!(rest, expected[1..], "rule {which}");
        let stats = slow.stats();
        assert_eq!(stats.acked() + stats.dropped() + stats.conflated() + refused, 8, "rule {which}: {stats:?}");
        assert!(stats.balances() && all.stats().balances());
        assert_eq!(all.stats().acked(), 8 - refused);
    }
}
