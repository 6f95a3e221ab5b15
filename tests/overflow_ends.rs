//! Mailboxes whose group is paused, moved, left or deleted; clones that panic or hang; publishers that wait for one of them.
#[path = "support/rules.rs"]
mod rules;

use ringlog::{Broker, GroupConfig, Manual, Overflow, Record, Retain, SeekTo, TopicConfig};
use rules::rules;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

// C-14, C-15: who is waited for may be deleted, or leave: publishers go on, and others were never held up.
#[test]
fn a_publisher_that_waits_for_a_mailbox_goes_on_when_the_group_is_deleted() {
    for most in 1..=4_usize {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::new().capacity(16).block(None)).unwrap();
        let other = broker.create_topic("other", TopicConfig::new().capacity(1).block(None)).unwrap();
        let group = topic.group("g", GroupConfig::latest().overflow(Overflow::block(most))).unwrap();
        (0..most as u64).for_each(|n| _ = topic.publish(n).unwrap());
        thread::scope(|scope| {
            let waits = scope.spawn(|| topic.publish(99).unwrap().offset());
            while topic.partition_stats(0).unwrap().blocked == 0 {
                thread::yield_now();
            }
            other.publish(1_u64).unwrap();
            let late = topic.group("late", GroupConfig::latest()).unwrap();
            assert!(late.delete());
            assert!(group.delete());
            assert_eq!(waits.join().unwrap(), most as u64);
        });
    }
}

#[test]
fn a_paused_or_moved_mailbox_keeps_its_books() {
    for (retain, most) in [Retain::Recent, Retain::Unacked].into_iter().flat_map(|r| (1..=4).map(move |n| (r, n))) {
        for rule in rules(most) {
            let (broker, manual) = (Broker::new(), Manual::new(7));
            let config = TopicConfig::new().capacity(16).retain(retain).block(Some(Duration::ZERO));
            let topic = broker.create_topic("t", config).unwrap();
            let name = format!("{rule:?}").replace(['(', ')'], "-");
            let group = topic.group(&name, GroupConfig::latest().overflow(rule)).unwrap();
            let join = |name: &str| group.member(name).run(&manual).subscribe(|_: &Record<'_, u64>| ()).unwrap();
            let mut member = join("m0");
            let mut next = 0;
            for round in 0..40_u64 {
                for _ in 0..round % 7 {
                    next += u64::from(topic.publish(next).is_ok());
                }
                match round % 8 {
                    1 => group.pause(),
                    3 => group.resume(),
                    4 => _ = group.seek(0, SeekTo::Earliest).unwrap(),
                    5 => _ = group.seek(0, SeekTo::Latest).unwrap(),
                    6 => {
                        member.leave();
                        member = join(&format!("m{round}"));
                    }
                    _ => _ = manual.run(round as usize % 5),
                }
                assert!(group.stats().balances(), "{name} at {round}: {:?}", group.stats());
            }
            group.resume();
            manual.run(1_000);
            let stats = group.stats();
            assert!(stats.balances() && stats.lag() == 0, "{name}: {stats:?}");
            drop(member);
        }
    }
}

/// Counts how many of it there are, and is cloned as it is told.
struct Counted {
    value: u64,
    there: Arc<AtomicI64>,
    clones: Arc<dyn Fn(u64) + Send + Sync>,
}

impl Counted {
    fn new(value: u64, there: &Arc<AtomicI64>, clones: &Arc<dyn Fn(u64) + Send + Sync>) -> Self {
        there.fetch_add(1, SeqCst);
        Counted { value, there: there.clone(), clones: clones.clone() }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        (self.clones)(self.value);
        Counted::new(self.value, &self.there, &self.clones)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.there.fetch_sub(1, SeqCst);
    }
}

// A clone that panics counts as dropped, and the baton goes on.
#[test]
fn a_clone_that_panics_is_a_record_dropped() {
    let (broker, manual, there) = (Broker::new(), Manual::new(1), Arc::new(AtomicI64::new(0)));
    let clones: Arc<dyn Fn(u64) + Send + Sync> = Arc::new(|value| assert!(value % 2 == 0, "no clone of an odd one"));
    let topic = broker.create_topic("t", TopicConfig::new().capacity(4).retain(Retain::Unacked)).unwrap();
    let group = topic.group("g", GroupConfig::latest().overflow(Overflow::drop_newest(8))).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    let keep = move |record: &Record<'_, Counted>| kept.lock().unwrap().push(record.value().value);
    group.member("m").run(&manual).subscribe(keep).unwrap();
    (0..10).for_each(|n| _ = topic.publish(Counted::new(n, &there, &clones)).unwrap());
    manual.run(100);
    assert_eq!(*seen.lock().unwrap(), [0, 2, 4, 6, 8]);
    let stats = group.stats();
    assert_eq!((stats.acked(), stats.dropped(), stats.lag()), (5, 5, 0));
    assert!(stats.balances());
    (10..14).for_each(|n| _ = topic.publish(Counted::new(n, &there, &clones)).unwrap());
    assert!(group.delete());
    drop((topic, group, manual, broker));
    assert_eq!(there.load(SeqCst), 0, "neither records nor clones are left");
}

// C-1: a clone that does not return holds up the groups that need clones of that partition, and nobody else.
#[test]
fn a_clone_that_hangs_holds_up_no_publisher_and_no_other_group() {
    let (broker, there) = (Broker::new(), Arc::new(AtomicI64::new(0)));
    let ((hangs, hung), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let released = Mutex::new(released);
    let first = AtomicU64::new(0);
    let clones: Arc<dyn Fn(u64) + Send + Sync> = Arc::new(move |_| {
        if first.fetch_add(1, SeqCst) == 0 {
            hangs.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
    });
    let topic = broker.create_topic("t", TopicConfig::new().capacity(64)).unwrap();
    let newest = topic.group("newest", GroupConfig::latest().overflow(Overflow::drop_newest(3))).unwrap();
    let all = topic.group("all", GroupConfig::latest()).unwrap();
    newest.subscribe("m", |_: &Record<'_, Counted>| ()).unwrap();
    all.subscribe("m", |_: &Record<'_, Counted>| ()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| topic.publish(Counted::new(0, &there, &clones)).unwrap());
        hung.recv().unwrap();
        (1..20).for_each(|n| _ = topic.publish(Counted::new(n, &there, &clones)).unwrap());
        while all.lag() > 0 {
            thread::yield_now();
        }
        assert!(newest.lag() > 0);
        let late = topic.group("late", GroupConfig::latest().overflow(Overflow::drop_newest(3))).unwrap();
        assert!(late.delete());
        release.send(()).unwrap();
    });
    broker.drain(Duration::from_secs(60)).unwrap();
    let stats = newest.stats();
    assert!(stats.balances() && stats.acked() >= 3 && stats.acked() + stats.dropped() == 20, "{stats:?}");
}

// What is left when a broker closes at once is shown as it would have been handed over.
#[test]
fn what_is_left_over_is_what_was_waiting() {
    for (rule, left) in rules(2).into_iter().zip([vec![0, 1], vec![8, 9], vec![0, 1], vec![9], (0..10).collect()]) {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::new().capacity(16).block(Some(Duration::ZERO))).unwrap();
        let group = topic.group("g", GroupConfig::latest().overflow(rule)).unwrap();
        (0..10).for_each(|n| _ = topic.publish(n));
        broker.close(Some(Duration::ZERO));
        for _ in 0..2 {
            let mut shown = Vec::new();
            group.left_over(|record| shown.push(**record)).unwrap();
            assert_eq!(shown, left);
        }
        assert!(group.stats().balances());
    }
}
