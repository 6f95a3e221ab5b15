//! The mailbox broker's own tests, in their hardest form: with one to four slots, and with one and with many publishers.
use ringlog::{Broker, GroupConfig, Overflow, Record, Retry, Subscription, Topic, TopicConfig};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// What was handed over: offsets and values, in order.
type Seen = Arc<Mutex<Vec<(u64, u64)>>>;

fn keeper(seen: &Seen) -> impl FnMut(&Record<'_, u64>) + Send + 'static {
    let seen = seen.clone();
    move |record: &Record<'_, u64>| seen.lock().unwrap().push((record.offset(), **record))
}

fn mailbox(overflow: Overflow<u64>) -> GroupConfig<u64> {
    GroupConfig::mailbox(overflow).retry(Retry::constant(3, Duration::ZERO))
}

/// One to four slots, one publisher and many.
fn sizes() -> impl Iterator<Item = (usize, u64)> {
    (1..=4).flat_map(|slots| [(slots, 1), (slots, 4)])
}

fn topic(broker: &Broker, name: &str) -> Topic<u64> {
    broker.create_topic(name, TopicConfig::mailbox().capacity(16)).unwrap()
}

/// So many publishers publish `values` between them.
fn publish(topic: &Topic<u64>, publishers: u64, values: std::ops::Range<u64>) {
    thread::scope(|scope| {
        for nth in 0..publishers {
            let mine = values.clone().filter(move |value| value % publishers == nth);
            scope.spawn(move || mine.for_each(|value| _ = topic.publish(value).unwrap()));
        }
    });
}

/// A handler that says when it has a record, and waits to be let go; once nobody lets it go any more, it goes on.
fn stuck(
    topic: &Topic<u64>,
    overflow: Overflow<u64>,
) -> (Subscription<u64>, Seen, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((starts, started), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let seen = Seen::default();
    let mut keep = keeper(&seen);
    let handle = move |record: &Record<'_, u64>| {
        let _ = starts.send(());
        let _ = released.recv();
        keep(record);
    };
    (topic.subscribe(mailbox(overflow), handle).unwrap(), seen, started, release)
}

// C-T1: both get everything, in one order, which with one publisher is its own.
#[test]
fn every_subscriber_gets_every_record_in_order() {
    for (slots, publishers) in sizes() {
        let broker = Broker::new();
        let (topic, seen) = (topic(&broker, "t"), [Seen::default(), Seen::default()]);
        let all = seen.each_ref().map(|seen| topic.subscribe(mailbox(Overflow::block(slots)), keeper(seen)).unwrap());
        publish(&topic, publishers, 0..100);
        broker.close(None);
        let [one, other] = seen.each_ref().map(|seen| seen.lock().unwrap().clone());
        assert_eq!((one.len(), &one), (100, &other));
        assert!((0..).zip(&one).all(|(at, (offset, _))| at == *offset));
        assert!(publishers > 1 || one[99] == (99, 99));
        assert!(all.iter().all(|subscription| subscription.group().stats().balances()));
    }
}

// C-T2
#[test]
fn only_a_topic_s_subscribers_hear_it() {
    for (slots, publishers) in sizes() {
        let broker = Broker::new();
        let (orders, prices, seen) =
            (topic(&broker, "orders"), topic(&broker, "prices"), [Seen::default(), Seen::default()]);
        let _orders = orders.subscribe(mailbox(Overflow::block(slots)), keeper(&seen[0])).unwrap();
        let _prices = prices.subscribe(mailbox(Overflow::block(slots)), keeper(&seen[1])).unwrap();
        publish(&orders, publishers, 0..publishers);
        broker.close(None);
        assert_eq!(seen.each_ref().map(|seen| seen.lock().unwrap().len() as u64), [publishers, 0]);
    }
}

// C-T3, C-1: whatever the stuck one's rule, as long as what it lets wait is not used up.
#[test]
fn one_stuck_subscriber_leaves_the_rest_undisturbed() {
    for (slots, publishers) in sizes() {
        let rules =
            [Overflow::block(slots), Overflow::drop_oldest(slots), Overflow::drop_newest(slots), Overflow::latest()];
        for rule in rules {
            let broker = Broker::new();
            let topic = topic(&broker, "t");
            let blocks = format!("{rule:?}").starts_with("block");
            let (_slow, _, started, release) = stuck(&topic, rule);
            let (tell, told) = mpsc::channel();
            let _fast = topic.subscribe(mailbox(Overflow::block(slots)), move |record| tell.send(**record)).unwrap();
            let count = if blocks { 1 + slots as u64 } else { 50 };
            topic.publish(0).unwrap();
            started.recv().unwrap();
            publish(&topic, publishers, 1..count);
            let mut heard: Vec<u64> = (0..count).map(|_| told.recv_timeout(LONG).unwrap()).collect();
            heard.sort_unstable();
            assert_eq!(heard, (0..count).collect::<Vec<_>>());
            drop(release);
        }
    }
}

// C-T4, C-18: three attempts, then a letter with its record and its error's text; and those behind it are delivered.
#[test]
fn what_fails_every_time_ends_as_a_dead_letter() {
    for (slots, publishers) in sizes() {
        let broker = Broker::new();
        let (topic, seen) = (topic(&broker, "t"), Seen::default());
        let mut keep = keeper(&seen);
        let parse = move |record: &Record<'_, u64>| {
            if **record == 1 {
                return Err("cannot parse");
            }
            keep(record);
            Ok(())
        };
        let subscription = topic.subscribe(mailbox(Overflow::block(slots)), parse).unwrap();
        publish(&topic, publishers, 0..9);
        broker.close(None);
        let mut good: Vec<u64> = seen.lock().unwrap().iter().map(|(_, value)| *value).collect();
        good.sort_unstable();
        assert_eq!(good, [0, 2, 3, 4, 5, 6, 7, 8]);
        let letters = subscription.group().letters();
        assert_eq!(letters.len(), 1);
        assert_eq!((letters[0].attempts(), letters[0].message()), (3, "cannot parse"));
        assert_eq!(letters[0].payload::<u64>(), Some(&1));
    }
}

// C-T5
#[test]
fn a_brief_failure_is_retried() {
    for (slots, publishers) in sizes() {
        let broker = Broker::new();
        let (topic, seen) = (topic(&broker, "t"), Seen::default());
        let mut keep = keeper(&seen);
        let fails = move |record: &Record<'_, u64>| {
            if record.attempt() == 1 {
                return Err("not yet");
            }
            keep(record);
            Ok(())
        };
        let subscription = topic.subscribe(mailbox(Overflow::block(slots)), fails).unwrap();
        publish(&topic, publishers, 0..9);
        broker.close(None);
        assert_eq!((seen.lock().unwrap().len(), subscription.group().stats().dead()), (9, 0));
        assert!(seen.lock().unwrap().windows(2).all(|two| two[0].0 < two[1].0), "in order, while each was tried again");
    }
}

// C-T6, C-T7: with one in hand and so many and one more behind it, one goes: the oldest of those that wait, or the newest. With many
// publishers: of many more, all but so many.
#[test]
fn dropping_the_oldest_keeps_the_latest_and_dropping_the_newest_the_backlog() {
    for (slots, publishers) in sizes() {
        let count = slots as u64 + if publishers == 1 { 1 } else { 40 };
        let lost = count - slots as u64;
        let cases =
            [(Overflow::drop_oldest(slots), lost + 1..count + 1), (Overflow::drop_newest(slots), 1..slots as u64 + 1)];
        for (rule, kept) in cases {
            let broker = Broker::new();
            let topic = topic(&broker, "t");
            let (subscription, seen, started, release) = stuck(&topic, rule);
            topic.publish(0).unwrap();
            started.recv().unwrap();
            publish(&topic, publishers, 1..count + 1);
            let stats = subscription.group().stats();
            assert_eq!((stats.dropped(), stats.waiting()), (lost, slots as u64), "{stats:?}");
            drop(release);
            broker.close(None);
            let seen: Vec<u64> = seen.lock().unwrap().iter().map(|(offset, _)| *offset).collect();
            assert_eq!(seen, std::iter::once(0).chain(kept).collect::<Vec<_>>());
            assert_eq!(subscription.group().stats().dropped(), lost);
        }
    }
}

// C-T8, C-36: who finds no room waits until there is some, and each place admits one.
#[test]
fn a_full_mailbox_makes_its_publishers_wait() {
    for (slots, publishers) in sizes() {
        let broker = Broker::new();
        let topic = topic(&broker, "t");
        let (_subscription, seen, started, release) = stuck(&topic, Overflow::block(slots));
        topic.publish(0).unwrap();
        started.recv().unwrap();
        let first = 1 + slots as u64;
        publish(&topic, 1, 1..first);
        thread::scope(|scope| {
            let wait = |value| {
                scope.spawn({
                    let topic = &topic;
                    move || topic.publish(value).unwrap().offset()
                })
            };
            let waits: Vec<_> = (first..first + publishers).map(wait).collect();
            while topic.partition_stats(0).unwrap().blocked < publishers {
                thread::yield_now();
            }
            assert_eq!(topic.end(0), Some(first), "nobody has got in");
            for nth in 1..=publishers {
                release.send(()).unwrap();
                started.recv().unwrap();
                while topic.end(0) < Some(first + nth) {
                    thread::yield_now();
                }
                assert_eq!(topic.end(0), Some(first + nth), "each place admits one");
            }
            drop(release);
            let mut offsets: Vec<u64> = waits.into_iter().map(|waits| waits.join().unwrap()).collect();
            offsets.sort_unstable();
            assert_eq!(offsets, (first..first + publishers).collect::<Vec<_>>());
        });
        broker.close(None);
        assert_eq!(seen.lock().unwrap().len() as u64, first + publishers);
    }
}

// C-T9
#[test]
fn nothing_arrives_after_unsubscribing() {
    for (slots, publishers) in sizes() {
        for rule in [Overflow::block(slots), Overflow::drop_oldest(slots), Overflow::drop_newest(slots)] {
            let broker = Broker::new();
            let (topic, seen) = (topic(&broker, "t"), Seen::default());
            let subscription = topic.subscribe(mailbox(rule), keeper(&seen)).unwrap();
            topic.publish(1).unwrap();
            subscription.unsubscribe(LONG).unwrap();
            publish(&topic, publishers, 2..10);
            broker.close(None);
            assert_eq!(*seen.lock().unwrap(), [(0, 1)]);
        }
    }
}
