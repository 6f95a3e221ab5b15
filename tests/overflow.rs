//! Groups with an overflow of their own: how many records may wait for each, and what goes when there are more.
use ringlog::{
    Broker, BrokerConfig, Clock, Gap, GroupConfig, Manual, ManualClock, Overflow, PublishError, Record, Retain,
    Timestamps, TopicConfig,
};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Seen = Arc<Mutex<Vec<u64>>>;

struct Mailbox {
    seen: Seen,
    gaps: Arc<Mutex<Vec<Gap>>>,
    group: ringlog::Group<u64>,
}

fn mailbox(topic: &ringlog::Topic<u64>, name: &str, overflow: Overflow<u64>, manual: &Manual) -> Mailbox {
    let (seen, gaps) = (Seen::default(), Arc::new(Mutex::new(Vec::new())));
    let noted = gaps.clone();
    let config = GroupConfig::latest().overflow(overflow).on_gap(move |gap| noted.lock().unwrap().push(gap.clone()));
    let group = topic.group(name, config).unwrap();
    let kept = seen.clone();
    let keep = move |record: &Record<'_, u64>| kept.lock().unwrap().push(**record);
    group.member("only").run(manual).subscribe(keep).unwrap();
    Mailbox { seen, gaps, group }
}

fn topic(broker: &Broker, retain: Retain) -> ringlog::Topic<u64> {
    broker.create_topic("t", TopicConfig::new().capacity(16).retain(retain).block(Some(Duration::ZERO))).unwrap()
}

const RETAINS: [Retain; 3] = [Retain::Recent, Retain::Unacked, Retain::Backlog];

// C-11, C-13, C-32, C-X5, C-X6, X23, X27: of what waits the oldest goes, exactly as much as there is too much, is counted where
// it was lost, and nobody else loses anything.
#[test]
fn the_oldest_that_wait_go_and_are_counted_and_told_in_their_place() {
    for (retain, most) in RETAINS.into_iter().flat_map(|retain| (1..=4).map(move |most| (retain, most))) {
        let (broker, manual) = (Broker::new(), Manual::new(1));
        let topic = topic(&broker, retain);
        let small = mailbox(&topic, "small", Overflow::drop_oldest(most), &manual);
        let all = mailbox(&topic, "all", Overflow::topic(), &manual);
        (0..8).for_each(|n| _ = topic.publish(n).unwrap());
        let most = most as u64;
        let stats = small.group.stats();
        assert_eq!((stats.dropped(), stats.lag()), (8 - most, most), "as it would be seen now");
        assert!(stats.balances());
        manual.run(100);
        assert_eq!(*small.seen.lock().unwrap(), (8 - most..8).collect::<Vec<_>>());
        assert_eq!(*all.seen.lock().unwrap(), (0..8).collect::<Vec<_>>());
        let gaps = small.gaps.lock().unwrap();
        assert_eq!((gaps.len(), gaps[0].from, gaps[0].to, gaps[0].dropped), (1, 0, 8 - most, 8 - most));
        let stats = small.group.stats();
        assert_eq!((stats.dropped(), stats.acked(), stats.skipped(), stats.lag()), (8 - most, most, 0, 0));
        assert!(stats.balances() && all.group.stats().balances());
    }
}

#[test]
fn only_the_latest_is_handed_over() {
    for retain in RETAINS {
        let (broker, manual) = (Broker::new(), Manual::new(1));
        let topic = topic(&broker, retain);
        let latest = mailbox(&topic, "latest", Overflow::latest(), &manual);
        for round in 1..=100 {
            (0..round % 5).for_each(|n| _ = topic.publish(10 * round + n).unwrap());
            manual.run(100);
            let seen = latest.seen.lock().unwrap();
            let last = |round: u64| Some(10 * round + (round % 5).checked_sub(1)?);
            assert_eq!(seen.last().copied(), (1..=round).rev().find_map(last));
        }
        let stats = latest.group.stats();
        assert_eq!((stats.acked(), stats.conflated(), stats.dropped()), (80, 120, 0));
        assert!(stats.balances());
    }
}

/// A handler that says when it has a record, and waits to be let go.
struct Stuck {
    started: mpsc::Receiver<u64>,
    release: mpsc::Sender<()>,
}

fn stuck(group: &ringlog::Group<u64>) -> Stuck {
    let ((starts, started), (release, released)) = (mpsc::channel(), mpsc::channel());
    let handle = move |record: &Record<'_, u64>| {
        starts.send(**record).unwrap();
        released.recv().unwrap();
    };
    group.subscribe("stuck", handle).unwrap();
    Stuck { started, release }
}

// C-T6, C-12: one is in the handler's hands and does not count; of the three behind it the first goes.
#[test]
fn what_is_being_handled_does_not_wait() {
    for retain in RETAINS {
        let broker = Broker::new();
        let topic = topic(&broker, retain);
        let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_oldest(2))).unwrap();
        let stuck = stuck(&group);
        topic.publish(1).unwrap();
        assert_eq!(stuck.started.recv().unwrap(), 1);
        (2..=4).for_each(|n| _ = topic.publish(n).unwrap());
        assert_eq!((group.stats().dropped(), group.stats().lag()), (1, 3));
        for expected in [3, 4] {
            stuck.release.send(()).unwrap();
            assert_eq!(stuck.started.recv().unwrap(), expected);
        }
        stuck.release.send(()).unwrap();
        broker.drain(Duration::from_secs(60)).unwrap();
        assert_eq!((group.stats().dropped(), group.stats().acked()), (1, 3));
        assert!(group.stats().balances());
    }
}

// C-T8, C-11, C-12, X3, X5: so many wait, and the next publish is refused or waits, until one of them is taken.
#[test]
fn publishers_wait_for_a_blocking_mailbox_that_is_full_and_not_for_what_is_in_hand() {
    for (retain, most) in RETAINS.into_iter().flat_map(|retain| (1..=4).map(move |most| (retain, most))) {
        let broker = Broker::new();
        let config = TopicConfig::new().capacity(16).retain(retain).block(None);
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("g", GroupConfig::latest().overflow(Overflow::block(most))).unwrap();
        let stuck = stuck(&group);
        topic.publish(0).unwrap();
        assert_eq!(stuck.started.recv().unwrap(), 0);
        let last = most as u64 + 1;
        (1..last).for_each(|n| _ = topic.try_publish(n).unwrap());
        let Err(PublishError::Full { value, full }) = topic.try_publish(last) else { panic!("no room for {last}") };
        assert_eq!(value, last);
        let limiting = full.limiting.as_ref().unwrap();
        assert_eq!((limiting.waiting, limiting.may_wait), (Some(most as u64), Some(most as u64)));
        assert!(full.to_string().contains(&format!("{most} of {most} waiting")), "{full}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| topic.publish(last).map(drop));
            while topic.partition_stats(0).unwrap().blocked == 0 {
                std::thread::yield_now();
            }
            for n in 1..=last {
                stuck.release.send(()).unwrap();
                assert_eq!(stuck.started.recv().unwrap(), n);
            }
            waits.join().unwrap().unwrap();
        });
        stuck.release.send(()).unwrap();
        broker.drain(Duration::from_secs(60)).unwrap();
        assert!(group.stats().balances());
    }
}

#[test]
fn a_batch_that_could_never_wait_as_a_whole_is_refused_at_once() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::new().capacity(16).block(None)).unwrap();
    topic.group("g", GroupConfig::latest().overflow(Overflow::block(3))).unwrap();
    assert_eq!(topic.publish_batch(0..3_u64).unwrap().len(), 1);
    let refused = topic.publish_batch(0..4_u64).unwrap_err();
    assert!(refused.to_string().contains("no more than 3 waiting"), "{refused}");
}

#[test]
fn a_mailbox_that_the_topic_cannot_have_is_refused_with_both_numbers() {
    let broker = Broker::new();
    let topic = topic(&broker, Retain::Recent);
    let refused = |topic: &ringlog::Topic<u64>, overflow| {
        topic.group("g", GroupConfig::latest().overflow(overflow)).unwrap_err().to_string()
    };
    let text = refused(&topic, Overflow::drop_oldest(15));
    assert!(text.contains("15 records were to wait") && text.contains("holds 16, can have 14"), "{text}");
    assert!(refused(&topic, Overflow::block(0)).contains("at least 1"));
    let sheds = broker.create_topic("sheds", TopicConfig::<u64>::new().capacity(16).drop_oldest()).unwrap();
    assert!(refused(&sheds, Overflow::block(1)).contains("never waits"));
    let ages =
        broker.create_topic("ages", TopicConfig::<u64>::new().capacity(16).max_age(Duration::from_secs(1))).unwrap();
    assert!(refused(&ages, Overflow::drop_newest(1)).contains("have an age"));
}

#[test]
fn a_clone_knows_when_its_record_was_published() {
    let clock = Arc::new(ManualClock::new());
    let (broker, manual) = (Broker::with(BrokerConfig::new().clock(clock.clone())), Manual::new(1));
    let config = TopicConfig::new().capacity(2).timestamps(Timestamps::Exact);
    let topic = broker.create_topic("t", config).unwrap();
    let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_newest(3))).unwrap();
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let note = move |record: &Record<'_, u64>| noted.lock().unwrap().push(record.published_at().unwrap());
    group.member("m").run(&manual).subscribe(note).unwrap();
    let begun = clock.now();
    for n in 0..10 {
        topic.publish(n).unwrap();
        clock.advance(Duration::from_secs(1));
    }
    manual.run(100);
    assert_eq!(*times.lock().unwrap(), [0, 1, 2].map(|seconds| begun + Duration::from_secs(seconds)));
}

// C-T7, C-11, C-12: the same three behind the one in hand; the last of them goes.
#[test]
fn the_newest_go_where_the_backlog_is_to_be_kept() {
    for retain in RETAINS {
        let broker = Broker::new();
        let topic = topic(&broker, retain);
        let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_newest(2))).unwrap();
        let stuck = stuck(&group);
        topic.publish(1).unwrap();
        assert_eq!(stuck.started.recv().unwrap(), 1);
        (2..=4).for_each(|n| _ = topic.publish(n).unwrap());
        assert_eq!((group.stats().dropped(), group.stats().lag()), (1, 3));
        for expected in [2, 3] {
            stuck.release.send(()).unwrap();
            assert_eq!(stuck.started.recv().unwrap(), expected);
        }
        stuck.release.send(()).unwrap();
        broker.drain(Duration::from_secs(60)).unwrap();
        assert_eq!((group.stats().dropped(), group.stats().acked()), (1, 3));
        assert!(group.stats().balances());
    }
}

#[test]
fn what_waits_outlives_the_log_where_the_newest_are_dropped() {
    for (retain, most) in RETAINS.into_iter().flat_map(|retain| (1..=4).map(move |most| (retain, most))) {
        let (broker, manual) = (Broker::new(), Manual::new(1));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(2).retain(retain)).unwrap();
        let oldest = mailbox(&topic, "oldest", Overflow::drop_newest(most), &manual);
        let most = most as u64;
        (0..100).for_each(|n| _ = topic.publish(n).unwrap());
        assert_eq!((oldest.group.stats().dropped(), oldest.group.stats().lag()), (100 - most, most));
        assert!(oldest.group.stats().balances());
        manual.run(100);
        assert_eq!(*oldest.seen.lock().unwrap(), (0..most).collect::<Vec<_>>());
        topic.publish(100).unwrap();
        manual.run(100);
        assert_eq!(oldest.seen.lock().unwrap().last(), Some(&100));
        let gaps = oldest.gaps.lock().unwrap();
        assert_eq!((gaps.len(), gaps[0].from, gaps[0].to, gaps[0].dropped), (1, most, 100, 100 - most));
        let stats = oldest.group.stats();
        assert_eq!((stats.acked(), stats.dropped(), stats.lag()), (most + 1, 100 - most, 0));
        assert!(stats.balances());
    }
}

// C-11: of each key the latest; of more keys than may wait the first goes, as a loss.
#[test]
fn only_the_latest_of_each_key_is_handed_over() {
    for retain in RETAINS {
        let (broker, manual) = (Broker::new(), Manual::new(1));
        let topic = topic(&broker, retain);
        let by_tens = Overflow::latest_by(2, |value: &u64| value / 10);
        let latest = mailbox(&topic, "latest", by_tens, &manual);
        [10, 20, 11, 21, 12].into_iter().for_each(|n| _ = topic.publish(n).unwrap());
        manual.run(100);
        assert_eq!(*latest.seen.lock().unwrap(), [21, 12]);
        [30, 40, 31, 50].into_iter().for_each(|n| _ = topic.publish(n).unwrap());
        manual.run(100);
        assert_eq!(*latest.seen.lock().unwrap(), [21, 12, 31, 50], "three keys waited, and 40 was the first of them");
        let gaps = latest.gaps.lock().unwrap();
        assert_eq!(
            gaps.iter().map(|gap| (gap.from, gap.conflated, gap.dropped)).collect::<Vec<_>>(),
            [(0, 3, 0), (5, 1, 1)]
        );
        let stats = latest.group.stats();
        assert_eq!((stats.acked(), stats.conflated(), stats.dropped(), stats.lag()), (4, 4, 1, 0));
        assert!(stats.balances());
    }
}

#[test]
fn a_key_that_cannot_be_had_is_like_no_other() {
    let (broker, manual) = (Broker::new(), Manual::new(1));
    let topic = topic(&broker, Retain::Recent);
    let odd = Overflow::latest_by(8, |value: &u64| if value % 2 == 1 { panic!("no key") } else { *value / 10 });
    let latest = mailbox(&topic, "latest", odd, &manual);
    [10, 11, 12, 13, 14].into_iter().for_each(|n| _ = topic.publish(n).unwrap());
    manual.run(100);
    assert_eq!(*latest.seen.lock().unwrap(), [11, 13, 14]);
    assert!(latest.group.stats().balances());
}

#[test]
fn keys_that_are_never_the_same_stop_nothing() {
    let (broker, manual) = (Broker::new(), Manual::new(1));
    let topic = topic(&broker, Retain::Recent);
    let asked = AtomicU64::new(0);
    let latest = mailbox(&topic, "latest", Overflow::latest_by(2, move |_| asked.fetch_add(1, Relaxed)), &manual);
    (0..12).for_each(|n| _ = topic.publish(n).unwrap());
    manual.run(100);
    let stats = latest.group.stats();
    assert_eq!((stats.lag(), latest.seen.lock().unwrap().last()), (0, Some(&11)));
    assert!(stats.balances());
}

// The recipe of docs/mailboxes.md.
#[test]
fn a_price_feed_with_four_readers() {
    type Price = (String, u64);
    let (broker, manual) = (Broker::new(), Manual::new(1));
    let prices = broker.create_topic("prices", TopicConfig::<Price>::new().block(None)).unwrap();
    let by_name = Overflow::latest_by(100, |price: &Price| price.0.clone());
    let rules = [by_name, Overflow::drop_oldest(1_000), Overflow::drop_newest(10), Overflow::block(64)];
    let groups = ["screen", "chart", "sampler", "risk"].into_iter().zip(rules).map(|(name, rule)| {
        let group = prices.group(name, GroupConfig::latest().overflow(rule)).unwrap();
        group.member("only").run(&manual).subscribe(|_: &Record<'_, Price>| ()).unwrap();
        group
    });
    let groups: Vec<_> = groups.collect();
    (0..60).for_each(|n| _ = prices.publish((format!("stock {}", n % 5), n)).unwrap());
    manual.run(1_000);
    let acked: Vec<_> = groups.iter().map(|group| group.stats().acked()).collect();
    assert_eq!(acked, [5, 60, 10, 60]);
    assert!(groups.iter().all(|group| group.stats().balances()));
}

// C-26, C-E6: what waits, what was lost and what was given up, of each subscriber by itself.
#[test]
fn three_numbers_say_how_each_subscriber_is() {
    let (broker, manual) = (Broker::new(), Manual::new(1));
    let topic = topic(&broker, Retain::Unacked);
    let config = |rule| GroupConfig::latest().overflow(rule).retry(ringlog::Retry::never());
    let fussy = topic.group("fussy", config(Overflow::drop_oldest(4))).unwrap();
    let idle = topic.group("idle", config(Overflow::drop_newest(2))).unwrap();
    let odd = |record: &Record<'_, u64>| if **record % 2 == 1 { Err("odd") } else { Ok(()) };
    fussy.member("m").run(&manual).subscribe(odd).unwrap();
    (0..6).for_each(|n| _ = topic.publish(n).unwrap());
    let health = |group: &ringlog::Group<u64>| (group.lag(), group.stats().dropped(), group.stats().dead());
    assert_eq!((health(&fussy), health(&idle)), ((4, 2, 0), (2, 4, 0)));
    manual.run(100);
    assert_eq!((health(&fussy), health(&idle)), ((0, 2, 2), (2, 4, 0)));
    assert_eq!(fussy.letters().iter().map(ringlog::Letter::offset).collect::<Vec<_>>(), [3, 5]);
}
