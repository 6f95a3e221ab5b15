//! Mailboxes at odd moments: batches larger than a handing-out, producers that never stop, hands at a close, moved cursors.
use ringlog::{
    Batch, Broker, BrokerConfig, GroupConfig, Manual, ManualClock, Overflow, Record, Retain, Retry, SeekTo, TopicConfig,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

type Seen = Arc<Mutex<Vec<u64>>>;

fn keeper(seen: &Seen) -> impl FnMut(&Record<'_, u64>) + Send + 'static {
    let seen = seen.clone();
    move |record: &Record<'_, u64>| seen.lock().unwrap().push(**record)
}

// C-11, C-T7: whatever comes at once is decided about as it comes, not as there is room later.
#[test]
fn a_batch_of_any_size_finds_the_room_there_was() {
    for (retain, batch) in [Retain::Recent, Retain::Unacked].into_iter().flat_map(|r| [257, 1_000].map(|n| (r, n))) {
        let (broker, manual, seen) = (Broker::new(), Manual::new(1), Seen::default());
        let topic = broker.create_topic("t", TopicConfig::new().capacity(8_192).retain(retain)).unwrap();
        let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_newest(10))).unwrap();
        group.member("m").run(&manual).subscribe(keeper(&seen)).unwrap();
        group.pause();
        topic.publish_batch(0..batch).unwrap();
        assert_eq!((group.stats().dropped(), group.lag()), (batch - 10, 10));
        group.resume();
        manual.run(1_000);
        assert_eq!(*seen.lock().unwrap(), (0..10).collect::<Vec<_>>());
        assert!(group.stats().balances());
    }
}

#[test]
fn a_backlog_that_has_room_is_kept_in_full_however_large_the_batches() {
    let (broker, manual, seen) = (Broker::new(), Manual::new(1), Seen::default());
    let topic = broker.create_topic("t", TopicConfig::new().capacity(2_048)).unwrap();
    let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_newest(8_000))).unwrap();
    group.member("m").run(&manual).subscribe(keeper(&seen)).unwrap();
    (0..20).for_each(|n| _ = topic.publish_batch(1_000 * n..1_000 * (n + 1)).unwrap());
    manual.run(100_000);
    assert_eq!(*seen.lock().unwrap(), (0..8_000).collect::<Vec<_>>());
    assert_eq!((group.stats().acked(), group.stats().dropped()), (8_000, 12_000));
}

// C-1: who looks for the latest of each key is not kept looking by a producer that is faster.
#[test]
fn a_producer_that_never_stops_keeps_nobody_from_handing_over_pausing_or_closing() {
    let (broker, seen, stop) = (Broker::new(), Seen::default(), AtomicBool::new(false));
    let topic = broker.create_topic("t", TopicConfig::new().capacity(64)).unwrap();
    let slow = |value: &u64| format!("{:0100}", value % 7);
    let group = topic.group("g", GroupConfig::latest().overflow(Overflow::latest_by(3, slow))).unwrap();
    group.subscribe("m", keeper(&seen)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| (0..).take_while(|_| !stop.load(SeqCst)).for_each(|n| _ = topic.publish(n)));
        while seen.lock().unwrap().len() < 100 {
            thread::yield_now();
        }
        group.pause();
        group.resume();
        assert!(broker.close(Some(Duration::from_secs(60))).stopped);
        stop.store(true, SeqCst);
    });
    assert!(group.stats().balances());
}

/// A handler that hangs on its first record until it is let go.
fn hangs(group: &ringlog::Group<u64>) -> (mpsc::Receiver<u64>, mpsc::Sender<()>) {
    let ((starts, started), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let handle = move |record: &Record<'_, u64>| {
        starts.send(**record).unwrap();
        let _ = released.recv();
    };
    group.subscribe("m", handle).unwrap();
    (started, release)
}

// C-27, C-3: what a close leaves is what was in hand and what was waiting, and no more is lost than was before.
#[test]
fn a_close_that_does_not_wait_leaves_the_one_in_hand_and_those_that_wait() {
    for retain in [Retain::Recent, Retain::Unacked] {
        for (rule, left) in [(Overflow::drop_oldest(2), [0, 3, 4]), (Overflow::drop_newest(2), [0, 1, 2])] {
            let broker = Broker::new();
            let topic = broker.create_topic("t", TopicConfig::new().capacity(16).retain(retain)).unwrap();
            let group = topic.group("g", GroupConfig::latest().overflow(rule)).unwrap();
            let (started, release) = hangs(&group);
            topic.publish(0).unwrap();
            assert_eq!(started.recv().unwrap(), 0);
            (1..5).for_each(|n| _ = topic.publish(n).unwrap());
            let before = group.stats();
            assert_eq!((before.lag(), before.dropped()), (3, 2));
            broker.close(Some(Duration::ZERO));
            for _ in 0..2 {
                let mut shown = Vec::new();
                group.left_over(|record| shown.push(**record)).unwrap();
                assert_eq!(shown, left);
                assert_eq!((group.stats().lag(), group.stats().dropped()), (3, 2), "{:?}", group.stats());
            }
            drop(release);
        }
    }
}

// Who moves the cursor over what waits makes room.
#[test]
fn a_seek_makes_room_where_the_newest_are_dropped() {
    let (broker, manual, seen) = (Broker::new(), Manual::new(1), Seen::default());
    let topic = broker.create_topic("t", TopicConfig::new().capacity(16)).unwrap();
    let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_newest(3))).unwrap();
    (0..5).for_each(|n| _ = topic.publish(n).unwrap());
    group.seek(0, SeekTo::Latest).unwrap();
    assert_eq!(group.lag(), 0);
    (5..10).for_each(|n| _ = topic.publish(n).unwrap());
    assert_eq!(group.lag(), 3);
    group.seek(0, SeekTo::Offset(6)).unwrap();
    topic.publish(10).unwrap();
    group.member("m").run(&manual).subscribe(keeper(&seen)).unwrap();
    manual.run(100);
    assert_eq!(*seen.lock().unwrap(), [6, 7, 10]);
    let stats = group.stats();
    assert_eq!((stats.acked(), stats.dropped(), stats.skipped()), (3, 2, 6));
    assert!(stats.balances());
}

// C-12: and no more room than that.
#[test]
fn what_a_seek_leaves_waiting_keeps_its_place() {
    for most in 2..=4_u64 {
        let (broker, manual, seen) = (Broker::new(), Manual::new(1), Seen::default());
        let topic = broker.create_topic("t", TopicConfig::new().capacity(16)).unwrap();
        let newest = GroupConfig::latest().overflow(Overflow::drop_newest(most as usize));
        let group = topic.group("g", newest).unwrap();
        (0..most).for_each(|n| _ = topic.publish(n).unwrap());
        group.seek(0, SeekTo::Offset(1)).unwrap();
        (10..14).for_each(|n| _ = topic.publish(n).unwrap());
        assert_eq!((group.stats().waiting(), group.stats().dropped()), (most, 3));
        group.member("m").run(&manual).subscribe(keeper(&seen)).unwrap();
        manual.run(100);
        assert_eq!(*seen.lock().unwrap(), (1..most).chain([10]).collect::<Vec<_>>());
        (20..30).for_each(|n| _ = topic.publish(n).unwrap());
        assert_eq!(group.stats().waiting(), most);
        assert!(group.stats().balances());
    }
}

/// A key whose destructor panics.
#[derive(PartialEq, Eq, Hash)]
struct Sharp(u64);

impl Drop for Sharp {
    fn drop(&mut self) {
        assert!(thread::panicking(), "a key is dropped");
    }
}

#[test]
fn keys_that_do_not_let_themselves_be_dropped_stop_nobody() {
    let (broker, manual) = (Broker::new(), Manual::new(1));
    let topic = broker.create_topic("t", TopicConfig::new().capacity(16)).unwrap();
    let group =
        topic.group("g", GroupConfig::latest().overflow(Overflow::latest_by(8, |value| Sharp(value % 3)))).unwrap();
    group.member("m").run(&manual).subscribe(|_: &Record<'_, u64>| ()).unwrap();
    (0..10).for_each(|n| _ = topic.publish(n).unwrap());
    manual.run(100);
    assert_eq!(group.lag(), 0);
    assert!(group.delete());
    manual.run(100);
}

// C-13: nothing is called lost that is not, at whatever moment one looks.
#[test]
fn figures_of_who_loses_nothing_never_say_otherwise() {
    for rule in [Overflow::drop_oldest(14), Overflow::drop_newest(1_000)] {
        let (broker, seen) = (Broker::new(), AtomicU64::new(0));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(16)).unwrap();
        let group = topic.group("g", GroupConfig::latest().overflow(rule)).unwrap();
        let seen = Arc::new(seen);
        let counted = seen.clone();
        group.subscribe("m", move |_: &Record<'_, u64>| _ = counted.fetch_add(1, SeqCst)).unwrap();
        let all = if cfg!(miri) { 50 } else { 5_000 };
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..all {
                    topic.publish(n).unwrap();
                    while n - seen.load(SeqCst).min(n) > 10 {
                        thread::yield_now();
                    }
                }
            });
            while seen.load(SeqCst) < all {
                assert_eq!(group.stats().dropped(), 0);
            }
        });
        broker.drain(Duration::from_secs(60)).unwrap();
        assert_eq!((seen.load(SeqCst), group.stats().acked()), (all, all));
    }
}

// What a batch handler was called with, and failed with, is in hand until each of it has been tried again.
#[test]
fn a_batch_that_failed_as_a_whole_is_in_hand_still() {
    for rule in [Overflow::drop_oldest(3), Overflow::latest_by(8, |value: &u64| value % 3)] {
        let (broker, manual, seen) = (Broker::new(), Manual::new(1), Arc::new(Mutex::new(Vec::new())));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(64)).unwrap();
        let config = GroupConfig::latest().retry(Retry::constant(3, Duration::ZERO)).overflow(rule);
        let group = topic.group("g", config).unwrap();
        let (kept, more, first) = (seen.clone(), topic.clone(), AtomicBool::new(true));
        let handle = move |batch: &Batch<'_, u64>| {
            kept.lock().unwrap().push(batch.iter().map(|record| *record).collect::<Vec<u64>>());
            if first.swap(false, SeqCst) {
                (10..20).for_each(|n| _ = more.publish(n).unwrap());
                panic!("the batch failed");
            }
        };
        group.member("m").run(&manual).subscribe_batch(handle).unwrap();
        (0..3).for_each(|n| _ = topic.publish(n).unwrap());
        manual.run(1_000);
        let seen = seen.lock().unwrap();
        let again: Vec<u64> = seen[1..].iter().flatten().copied().collect();
        assert!(seen[0].iter().all(|value| again.contains(value)), "{seen:?} {:?}", group.stats());
        assert!(group.stats().balances());
    }
}

// The log may have gone round while the handler was busy: then too only the latest of the key is handed over.
#[test]
fn who_was_overtaken_is_handed_the_latest_of_each_key_all_the_same() {
    for capacity in [2, 4, 8, 16, 64] {
        let (broker, manual, seen) = (Broker::new(), Manual::new(1), Seen::default());
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(capacity)).unwrap();
        let group = topic.group("g", GroupConfig::latest().overflow(Overflow::latest_by(1, |_: &u64| 0))).unwrap();
        let (mut keep, more, first) = (keeper(&seen), topic.clone(), AtomicBool::new(true));
        let handle = move |record: &Record<'_, u64>| {
            keep(record);
            if first.swap(false, SeqCst) {
                (1..=300).for_each(|n| _ = more.publish(n).unwrap());
            }
        };
        group.member("m").run(&manual).subscribe(handle).unwrap();
        topic.publish(0).unwrap();
        manual.run(1_000);
        assert_eq!(*seen.lock().unwrap(), [0, 300], "{capacity}");
        let stats = group.stats();
        assert_eq!(stats.dropped() + stats.conflated(), 299);
        assert!(stats.balances());
    }
}

// A poll that finds a gap and nothing behind it comes back empty, also where a record is handed out alone.
#[test]
fn nothing_is_polled_behind_a_gap_behind_which_there_is_nothing() {
    for retain in [Retain::Recent, Retain::Unacked, Retain::Backlog] {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::new().capacity(16).retain(retain).max_age(Duration::from_secs(10));
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::never())).unwrap();
        let mut consumer = group.consumer("c").unwrap();
        (0..3).for_each(|n| _ = topic.publish(n).unwrap());
        clock.advance(Duration::from_secs(11));
        assert_eq!(consumer.try_poll(5).unwrap().len(), 0);
        topic.publish(77).unwrap();
        assert_eq!(consumer.try_poll(5).unwrap().iter().map(|record| *record).collect::<Vec<u64>>(), [77]);
    }
}
