//! Subscriptions made in one call: under whose id, what they get, and how they end.
#[path = "support/rules.rs"]
mod rules;

use ringlog::{
    Broker, BrokerConfig, Delivery, Group, GroupConfig, GroupError, LeaveError, Manual, ManualClock, Overflow, Record,
    Retain, SequentialIds, Subscription, SubscriptionError, Timestamps, Topic, TopicConfig, Worker,
};
use rules::rules;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

type Seen = Arc<Mutex<Vec<u64>>>;

fn broker() -> Broker {
    Broker::with(BrokerConfig::new().ids(Arc::new(SequentialIds::new("s"))))
}

fn mailboxes(broker: &Broker, capacity: usize) -> Topic<u64> {
    broker.create_topic("t", TopicConfig::mailbox().capacity(capacity)).unwrap()
}

fn keeper(seen: &Seen) -> impl FnMut(&Record<'_, u64>) + Send + 'static {
    let seen = seen.clone();
    move |record: &Record<'_, u64>| seen.lock().unwrap().push(**record)
}

// C-21: s1, s2 and so on, from the broker's source, and never one that is there already.
#[test]
fn subscriptions_are_named_by_the_broker_s_source_of_ids() {
    let (broker, manual) = (broker(), Manual::new(1));
    let topic = mailboxes(&broker, 16);
    let listen = || topic.subscribe_on(&manual, GroupConfig::mailbox(Overflow::latest()), |_| ()).unwrap();
    let all = [listen(), listen()];
    topic.group("s3", GroupConfig::mailbox(Overflow::latest())).unwrap();
    let last = listen();
    assert_eq!(all.iter().chain([&last]).map(Subscription::id).collect::<Vec<_>>(), ["s1", "s2", "s4"]);
    let names: Vec<String> = topic.groups().iter().map(|group| group.name().to_owned()).collect();
    assert_eq!(names, ["s1", "s2", "s3", "s4"]);
    assert_eq!(last.group().stats().members, ["s4".into()]);
}

// C-9, C-19, C-X3, C-T9: what lay there is handed over, then nothing, and nothing is left.
#[test]
fn who_unsubscribes_is_handed_what_waits_and_then_nothing() {
    for (most, publishers) in (1..=4).flat_map(|most| [(most, 1), (most, 4)]) {
        for rule in rules(most) {
            let broker = broker();
            let topic = mailboxes(&broker, 64);
            let name = format!("{rule:?}, {publishers}");
            let seen = Seen::default();
            let subscription = topic.subscribe(GroupConfig::mailbox(rule), keeper(&seen)).unwrap();
            thread::scope(|scope| {
                for from in (0..publishers).map(|publisher| publisher * 50) {
                    let topic = &topic;
                    scope.spawn(move || (from..from + 50).for_each(|n| _ = topic.publish(n).unwrap()));
                }
            });
            let group = subscription.group().clone();
            subscription.unsubscribe(LONG).unwrap();
            let stats = group.stats();
            assert!(stats.balances() && stats.lag() == 0, "{name}: {stats:?}");
            assert_eq!(stats.acked() + stats.dropped() + stats.conflated(), 50 * publishers, "{name}");
            let before = seen.lock().unwrap().len() as u64;
            assert_eq!(before, stats.acked(), "{name}");
            topic.publish(999).unwrap();
            assert!(topic.groups().is_empty(), "{name}: its group went with it");
            assert_eq!(seen.lock().unwrap().len() as u64, before, "{name}");
            assert!(!subscription.leave() && subscription.unsubscribe(Duration::ZERO).is_ok());
        }
    }
}

/// Publishes from `from` on until it is told to stop, and says how many.
fn publish_on(topic: &Topic<u64>, stop: &AtomicBool, from: u64) -> u64 {
    (from..).take_while(|n| !stop.load(SeqCst) && topic.publish(*n).is_ok()).count() as u64
}

/// Offsets and values, as they came.
type Placed = Arc<Mutex<Vec<(u64, u64)>>>;

fn placer(seen: &Placed) -> impl FnMut(&Record<'_, u64>) + Send + 'static {
    let seen = seen.clone();
    move |record: &Record<'_, u64>| seen.lock().unwrap().push((record.offset(), **record))
}

// C-33, C-15, C-16, C-X2: subscribers come and go beside publishers, which neither wait for who has gone nor hand anything to it;
// who comes gets from where it began what its rule keeps, in the one order.
#[test]
fn publishers_that_see_who_has_gone_do_it_no_harm_and_are_done_none() {
    let rounds = if cfg!(miri) { 2 } else { 25 };
    for (most, publishers) in (1..=4).flat_map(|most| [(most, 1), (most, 3)]) {
        let (broker, stop) = (broker(), AtomicBool::new(false));
        let topic = mailboxes(&broker, 64);
        let all = Placed::default();
        let first = topic.subscribe(GroupConfig::mailbox(Overflow::topic()), placer(&all)).unwrap();
        let mut gone: Vec<(Placed, u64, usize, usize)> = Vec::new();
        let published: u64 = thread::scope(|scope| {
            let (topic, stop) = (&topic, &stop);
            let publishing = |nth: u64| scope.spawn(move || publish_on(topic, stop, nth << 32));
            let publishers: Vec<_> = (0..publishers).map(publishing).collect();
            for round in 0..rounds {
                let (seen, rule) = (Placed::default(), round % 5);
                let config = GroupConfig::mailbox(rules(most)[rule].clone());
                let subscription = topic.subscribe(config, placer(&seen)).unwrap();
                let start = subscription.group().stats().lanes[0].start;
                while seen.lock().unwrap().is_empty() {
                    thread::yield_now();
                }
                subscription.unsubscribe(LONG).unwrap();
                let count = seen.lock().unwrap().len();
                gone.push((seen, start, count, rule));
            }
            stop.store(true, SeqCst);
            publishers.into_iter().map(|publisher| publisher.join().unwrap()).sum()
        });
        first.unsubscribe(LONG).unwrap();
        let all = all.lock().unwrap();
        assert!(all.iter().map(|(offset, _)| *offset).eq(0..published));
        for (seen, start, count, rule) in gone {
            let seen = seen.lock().unwrap();
            let name = format!("{:?} from {start}", rules(most)[rule]);
            assert_eq!(seen.len(), count, "{name}: something came after it had ended");
            assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{name}: {seen:?}");
            assert!(seen.iter().all(|placed| all[placed.0 as usize] == *placed), "{name}: another record");
            let (begun, ended) = (seen[0].0, seen[count - 1].0);
            assert!(begun >= start, "{name}: {begun}");
            let lossless = rule == 0;
            assert!(!lossless || (begun, ended) == (start, start + count as u64 - 1), "{name}: {begun} to {ended}");
        }
    }
}

// C-15, C-16, C-X2: a publish that waits for room holds up no subscribing and no leaving, of whom it waits for either, and has no
// place in the order yet: who comes meanwhile begins at the end, which that record then is.
#[test]
fn a_publish_that_waits_has_no_number_and_holds_up_nobody_who_comes_or_goes() {
    for most in 1..=4_u64 {
        let broker = broker();
        let topic = mailboxes(&broker, 16);
        let ((starts, started), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let stuck = move |_: &Record<'_, u64>| {
            starts.send(()).unwrap();
            let _ = released.recv();
        };
        let slow = topic.subscribe(GroupConfig::mailbox(Overflow::block(most as usize)), stuck).unwrap();
        topic.publish(0).unwrap();
        started.recv().unwrap();
        (1..=most).for_each(|n| _ = topic.publish(n).unwrap());
        thread::scope(|scope| {
            let waits = scope.spawn(|| topic.publish(99).unwrap().offset());
            while topic.partition_stats(0).unwrap().blocked == 0 {
                thread::yield_now();
            }
            let (late, gone) = (Seen::default(), Seen::default());
            let subscribe = |seen| topic.subscribe(GroupConfig::mailbox(Overflow::block(8)), keeper(seen)).unwrap();
            let (comes, goes) = (subscribe(&late), subscribe(&gone));
            assert_eq!(comes.group().stats().lanes[0].start, most + 1, "behind everything that is stored");
            goes.unsubscribe(LONG).unwrap();
            match slow.unsubscribe(Duration::ZERO) {
                Err(LeaveError::TimedOut { left, in_hand: true, .. }) => assert_eq!(left, most + 1),
                other => panic!("{other:?}"),
            }
            assert_eq!(waits.join().unwrap(), most + 1, "numbered when it found room");
            comes.unsubscribe(LONG).unwrap();
            assert_eq!((late.lock().unwrap().clone(), gone.lock().unwrap().clone()), (vec![99], vec![]));
            drop(release);
        });
    }
}

#[test]
fn a_handler_ends_its_own_subscription_without_waiting_for_itself() {
    let (broker, seen) = (broker(), Seen::default());
    let topic = mailboxes(&broker, 16);
    let own: Arc<OnceLock<Subscription<u64>>> = Arc::default();
    let (mine, mut keep, (tell, told)) = (own.clone(), keeper(&seen), mpsc::channel());
    let handle = move |record: &Record<'_, u64>| {
        keep(record);
        let own = mine.wait();
        assert!(matches!(own.unsubscribe(LONG), Err(LeaveError::WouldDeadlock { .. })));
        tell.send(own.leave()).unwrap();
    };
    let subscription = topic.subscribe(GroupConfig::mailbox(Overflow::block(4)), handle).unwrap();
    let group: Group<u64> = subscription.group().clone();
    own.set(subscription).unwrap();
    topic.publish_batch(0..3).unwrap();
    assert!(told.recv().unwrap());
    assert!(told.recv().is_err(), "its handler is gone");
    assert_eq!(*seen.lock().unwrap(), [0]);
    assert!(topic.groups().is_empty() && group.subscribe("late", |_| ()).is_err());
}

#[test]
fn a_handle_that_is_dropped_ends_nothing() {
    let (broker, manual, seen) = (broker(), Manual::new(1), Seen::default());
    let topic = mailboxes(&broker, 16);
    drop(topic.subscribe_on(&manual, GroupConfig::mailbox(Overflow::block(4)), keeper(&seen)).unwrap());
    topic.publish(1).unwrap();
    manual.run(10);
    assert_eq!(*seen.lock().unwrap(), [1]);
}

#[test]
fn who_cannot_be_subscribed_leaves_nothing_behind() {
    let broker = broker();
    let topic = mailboxes(&broker, 16);
    let refused = topic.subscribe(GroupConfig::mailbox(Overflow::block(15)), |_| ()).unwrap_err();
    assert!(matches!(refused, SubscriptionError::Group(GroupError::Overflow { records: 15, most: 14, .. })));
    let worker = Worker::spawn().unwrap();
    worker.stop();
    let refused = topic.subscribe_on(&worker, GroupConfig::mailbox(Overflow::block(1)), |_| ()).unwrap_err();
    assert!(matches!(refused, SubscriptionError::Member(_)), "{refused}");
    assert!(topic.groups().is_empty());
    broker.close(None);
    let refused = topic.subscribe(GroupConfig::mailbox(Overflow::block(1)), |_| ()).unwrap_err();
    assert!(matches!(refused, SubscriptionError::Group(GroupError::Closed { .. })), "{refused}");
}

// C-14, C-1: what a stalled subscriber may cost is the topic's decision, and then the publisher's own.
#[test]
fn a_topic_forbids_subscribers_that_block_or_caps_how_long_they_do() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let never = broker.create_topic("never", TopicConfig::<u64>::mailbox().drop_oldest()).unwrap();
    let refused = never.subscribe(GroupConfig::mailbox(Overflow::block(1)), |_| ()).unwrap_err();
    assert!(matches!(refused, SubscriptionError::Group(GroupError::NeverWaits { .. })), "{refused}");
    let at_once = broker.create_topic("at once", TopicConfig::mailbox().block(Some(Duration::ZERO))).unwrap();
    let capped = broker.create_topic("capped", TopicConfig::mailbox().block(Some(Duration::from_secs(3)))).unwrap();
    let manual = Manual::new(1);
    for (topic, limit) in [(at_once, 0), (capped, 3)] {
        for most in 1..=4 {
            let slow = topic.subscribe_on(&manual, GroupConfig::mailbox(Overflow::block(most)), |_| ()).unwrap();
            (0..most as u64).for_each(|n| _ = topic.publish(n).unwrap());
            let refused = thread::scope(|scope| {
                let before = topic.partition_stats(0).unwrap().blocked;
                let waits = scope.spawn(|| topic.publish_within(99_u64, LONG).unwrap_err().to_string());
                while limit > 0 && topic.partition_stats(0).unwrap().blocked == before {
                    thread::yield_now();
                }
                clock.advance(Duration::from_secs(limit));
                waits.join().unwrap()
            });
            assert!(refused.contains(&format!("{most} of {most} waiting")), "{refused}");
            assert!(slow.leave());
        }
    }
}

// C-26: what waits, in records and in time: not what is in hand, and not what is lost.
#[test]
fn a_mailbox_says_how_many_wait_and_for_how_long() {
    for (retain, most) in [Retain::Recent, Retain::Unacked].into_iter().flat_map(|r| (1..=4_u64).map(move |n| (r, n))) {
        let (block, oldest) = (Overflow::block(most as usize), Overflow::drop_oldest(most as usize));
        // The first is in hand; how many wait, and the number of the first that does.
        for (rule, waiting, first) in [(block, most, 1), (oldest, most, 10 - most), (Overflow::latest(), 1, 9)] {
            says(retain, rule, waiting, first, most);
        }
        says(retain, Overflow::drop_newest(most as usize), most, 1, most);
    }
}

fn says(retain: Retain, rule: Overflow<u64>, waiting: u64, first: u64, most: u64) {
    let (clock, name) = (Arc::new(ManualClock::new()), format!("{rule:?} {retain:?}"));
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let config = TopicConfig::mailbox().retain(retain).timestamps(Timestamps::Exact).block(Some(Duration::ZERO));
    let topic = broker.create_topic("t", config.capacity(64)).unwrap();
    let ((starts, started), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let handle = move |_: &Record<'_, u64>| {
        starts.send(()).unwrap();
        let _ = released.recv();
    };
    let blocks = name.starts_with("block");
    let subscription = topic.subscribe(GroupConfig::mailbox(rule), handle).unwrap();
    let group = subscription.group();
    assert_eq!((group.stats().waiting(), group.waiting_time()), (0, Some(Duration::ZERO)), "{name}");
    topic.publish(0).unwrap();
    started.recv().unwrap();
    for n in 1..10 {
        clock.advance(Duration::from_secs(1));
        assert_eq!(topic.publish(n).is_ok(), !blocks || n <= most, "{name}");
    }
    let stats = group.stats();
    assert_eq!(stats.waiting(), waiting, "{name}: {stats:?}");
    assert_eq!(group.waiting_time(), Some(Duration::from_secs(9 - first)), "{name}");
    drop(release);
    subscription.unsubscribe(LONG).unwrap();
    assert_eq!((group.stats().waiting(), group.waiting_time()), (0, Some(Duration::ZERO)), "{name}");
}

// C-13: what a group dropped or passed over is not said to be acknowledged, nor is anything beside it.
#[test]
fn what_became_of_a_record_that_was_dropped_is_not_that_it_was_acknowledged() {
    // How many are published, and how many of them handled.
    let expected = [(2, 2), (9, 2), (9, 2), (9, 1), (9, 2)];
    for (rule, (published, handled)) in rules(2).into_iter().zip(expected) {
        let (broker, manual, acked) = (broker(), Manual::new(1), Arc::new(AtomicU64::new(0)));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(64)).unwrap();
        let name = format!("{rule:?}");
        let counted = acked.clone();
        let count = move |_: &Record<'_, u64>| _ = counted.fetch_add(1, SeqCst);
        let subscription = topic.subscribe_on(&manual, GroupConfig::mailbox(rule), count).unwrap();
        let at: Vec<_> = (0..9).map_while(|n| topic.try_publish(n).ok()).collect();
        manual.run(100);
        assert_eq!((at.len() as u64, acked.load(SeqCst)), (published, handled), "{name}");
        let became = if handled == published { Delivery::Acked } else { Delivery::Passed };
        for at in at {
            assert_eq!(subscription.group().delivery(at), Ok(became.clone()), "{name}");
        }
    }
}
