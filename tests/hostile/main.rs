//! Users at their worst: code that panics, blocks, or pulls the ground away at every moment it is called, and values at
//! the ends of their ranges (`ranges`), topics that lose records (`loss`). Whatever it does to itself, nobody else hangs, and the books balance.
#![forbid(unsafe_code)]

mod hung;
mod inside;
mod loss;
mod pieces;
mod ranges;

use ringlog::{
    Broker, BrokerConfig, BrokerState, Clock, DrainError, Failure, GroupConfig, GroupStats, Manual, ManualClock,
    Outcome, PublishError, Record, Retry, SeekTo, SubscribeError, SystemClock, TopicConfig, Worker, WorkerConfig,
};
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Runs `body` on a thread of its own and fails if it does not come to an end.
fn ends<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || done.send(body()).unwrap());
    match wait.recv_timeout(Duration::from_secs(20)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Runs a closure when it is dropped.
struct OnDrop<F: FnMut()>(F);
impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn until(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

fn balanced(stats: &GroupStats) {
    assert!(stats.balances(), "{stats:#?}");
}

// ---- the ground pulled away ------------------------------------------------------------------------------------------

#[test]
fn a_handler_may_have_its_own_member_killed_and_its_destructor_may_use_the_executor() {
    ends(|| {
        let broker = Broker::new();
        let manual = Manual::new(1);
        let topic = broker.create_topic("t", TopicConfig::new()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let last = OnDrop({
            let manual = manual.clone();
            move || manual.note(format_args!("the handler is gone"))
        });
        let killer = manual.clone();
        let handler = move |_: &Record<'_, u8>| {
            let _ = &last;
            killer.kill("g", "m");
        };
        group.member("m").run(&manual).subscribe(handler).unwrap();
        topic.publish(1).unwrap();
        manual.run(100);
        assert!(manual.trace().contains("the handler is gone"));
        assert!(group.assignment().is_empty());
        balanced(&group.stats());
    });
}

/// Whom a blocked handler waits for may become its own thread.
#[test]
fn a_handler_that_waits_for_a_lane_is_refused_once_that_lane_becomes_its_own() {
    ends(|| {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::new().partitions(2).capacity(1).block(None);
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(9, Duration::MAX))).unwrap();
        let (result, refused) = mpsc::channel();
        let publisher = topic.clone();
        let first = move |record: &Record<'_, u8>| {
            if record.partition() == 0 {
                let outcome =
                    publisher.publish_to(1, 9).map_err(|error| matches!(error, PublishError::WouldDeadlock { .. }));
                result.send(outcome.map(drop)).unwrap();
            }
        };
        group.subscribe("first", first).unwrap();
        let (started, start) = mpsc::channel();
        let (go, gone) = mpsc::channel::<()>();
        let second = group
            .subscribe("second", move |_| {
                started.send(()).unwrap();
                _ = gone.recv();
                Err::<(), _>("not now")
            })
            .unwrap();
        topic.publish_to(1, 1).unwrap();
        start.recv().unwrap();
        topic.publish_to(0, 0).unwrap();
        until(|| topic.counts().blocked == 1);
        clock.wait_for_sleepers(1);
        second.leave();
        go.send(()).unwrap();
        assert_eq!(refused.recv_timeout(Duration::from_secs(10)), Ok(Err(true)), "refused, as a deadlock");
        broker.close(Some(Duration::ZERO));
    });
}

/// A worker's thread that drops one handler still has the others to step.
#[test]
fn a_handler_s_destructor_may_close_or_drain_the_broker_on_a_thread_that_serves_others() {
    for close in [true, false] {
        ends(move || {
            let (broker, worker) = (Broker::new(), Worker::spawn().unwrap());
            let topic = broker.create_topic("t", TopicConfig::new()).unwrap();
            let (leaving, staying) = (
                topic.group("a", GroupConfig::earliest()).unwrap(),
                topic.group("b", GroupConfig::earliest()).unwrap(),
            );
            let (told, ended) = mpsc::channel();
            let last = OnDrop({
                let (broker, topic) = (broker.clone(), topic.clone());
                move || {
                    topic.publish(2_u8).unwrap();
                    if close {
                        broker.close(None);
                    } else {
                        assert_eq!(broker.drain(Duration::MAX), Err(DrainError::WouldDeadlock));
                    }
                    told.send(()).unwrap();
                }
            });
            staying.member("b").run(&worker).subscribe(|_| ()).unwrap();
            let member = leaving.member("a").run(&worker).subscribe(move |_| _ = &last).unwrap();
            member.leave();
            ended.recv_timeout(Duration::from_secs(10)).expect("the destructor returns");
            broker.close(Some(LONG));
            balanced(&staying.stats());
        });
    }
}

/// Two brokers on one worker: neither may wait for the other from a handler.
#[test]
fn a_handler_may_drain_and_close_another_broker_that_its_own_thread_serves() {
    ends(|| {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let [one, two] = [(); 2].map(|()| Broker::with(BrokerConfig::new().clock(clock.clone())));
        let worker = Worker::spawn().unwrap();
        let inner = two.create_topic("t", TopicConfig::new()).unwrap();
        inner.group("g", GroupConfig::earliest()).unwrap().member("m").run(&worker).subscribe(|_| ()).unwrap();
        let outer = one.create_topic("t", TopicConfig::new()).unwrap();
        let (told, drained) = mpsc::channel();
        let other = two.clone();
        let handler = move |_: &Record<'_, u8>| {
            inner.publish(1_u8).unwrap();
            told.send(other.drain(Duration::MAX)).unwrap();
            other.close(None);
        };
        outer.group("g", GroupConfig::earliest()).unwrap().member("m").run(&worker).subscribe(handler).unwrap();
        outer.publish(1).unwrap();
        assert_eq!(drained.recv().unwrap(), Err(DrainError::WouldDeadlock));
        let account = one.close(Some(LONG));
        assert_eq!((account.acked(), account.left()), (1, 0));
        assert_eq!(two.state(), BrokerState::Closed);
    });
}

#[test]
fn the_last_broker_may_drop_inside_a_handler_and_inside_its_destructor() {
    ends(|| {
        for in_destructor in [true, false] {
            let broker = Broker::new();
            let topic = broker.create_topic("t", TopicConfig::<u8>::new().capacity(1)).unwrap();
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let owned = Arc::new(Mutex::new(None));
            let (told, dropped) = mpsc::channel();
            let mine = owned.clone();
            let last = OnDrop(move || {
                drop(mine.lock().unwrap().take());
                let _ = told.send(());
            });
            let theirs = owned.clone();
            let handler = move |_: &Record<'_, u8>| {
                let _ = &last;
                if !in_destructor {
                    drop(theirs.lock().unwrap().take());
                }
            };
            let member = group.subscribe("m", handler).unwrap();
            *owned.lock().unwrap() = Some(broker);
            topic.publish(1).unwrap();
            if in_destructor {
                member.leave();
            }
            dropped.recv().unwrap();
            until(|| topic.is_closed());
            assert!(matches!(topic.publish(2), Err(PublishError::Closed { value: 2, .. })));
            balanced(&group.stats());
        }
    });
}

// C-33, X34
#[test]
fn deleting_with_everything_in_flight_wakes_everybody_and_gives_every_value_back() {
    for round in 0..20 {
        ends(move || {
            let broker = Broker::new();
            let topic = broker.create_topic("t", TopicConfig::new().capacity(1).block(None)).unwrap();
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let deleter = (broker.clone(), topic.clone(), group.clone());
            let handler = move |record: &Record<'_, u64>| {
                if record.offset() == 20 {
                    let (broker, topic, group) = &deleter;
                    match round % 4 {
                        0 => broker.delete_topic("t").unwrap(),
                        1 => _ = broker.close(None),
                        2 => drop(topic.delete_group("g")),
                        _ => _ = group.seek(0, SeekTo::Latest),
                    }
                    assert!(topic.end(0).is_some());
                }
            };
            group.subscribe("m", handler).unwrap();
            let publishers: Vec<_> = (0..3)
                .map(|_| {
                    let topic = topic.clone();
                    thread::spawn(move || (0..20).map(|n| topic.publish(n)).filter(Result::is_ok).count() as u64)
                })
                .collect();
            let stored: u64 = publishers.into_iter().map(|publisher| publisher.join().unwrap()).sum();
            assert_eq!(topic.end(0), Some(stored));
            broker.close(Some(LONG));
            balanced(&group.stats());
        });
    }
}

// ---- panics everywhere -----------------------------------------------------------------------------------------------

/// An error, a record and a letter's payload that panic in whatever they do.
#[derive(Debug)]
struct Rude(&'static str);
impl Rude {
    fn check(&self, place: &str) {
        assert!(self.0 != place, "{place}");
    }
}
impl Clone for Rude {
    fn clone(&self) -> Self {
        self.check("clone");
        Rude(self.0)
    }
}
impl fmt::Display for Rude {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check("display");
        Ok(())
    }
}
impl std::error::Error for Rude {}
impl Drop for Rude {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.check("drop");
        }
    }
}

// A-T19, A-56
#[test]
fn whatever_panics_around_a_record_the_next_one_is_delivered() {
    ends(|| {
        for place in ["clone", "display", "drop", "handler", "payload", "bury", "none"] {
            let broker = Broker::new();
            let topic = broker.create_topic("t", TopicConfig::new().capacity(1).block(None)).unwrap();
            let config = GroupConfig::earliest().retry(Retry::never()).letters(1);
            let config = match place {
                "bury" => config.bury_with(|_: &Rude, _: &Failure| -> u8 { panic!("bury") }),
                "drop" => config.bury_with(|_: &Rude, _: &Failure| Rude("drop")),
                _ => config.bury_cloned(),
            };
            let group = topic.group("g", config).unwrap();
            let handler = move |record: &Record<'_, Rude>| match record.0 {
                "handler" => panic!("handler"),
                "payload" => std::panic::panic_any(OnDrop(|| panic!("payload"))),
                "none" => Outcome::Ack,
                other => Outcome::reject(Rude(other)),
            };
            group.subscribe("m", handler).unwrap();
            for _ in 0..5 {
                topic.publish(Rude(place)).unwrap();
            }
            topic.publish(Rude("none")).unwrap();
            let account = broker.close(Some(LONG));
            assert!(account.drained, "{place}");
            let dead = if place == "none" { 0 } else { 5 };
            assert_eq!((account.acked(), account.dead(), account.left()), (6 - dead, dead, 0), "{place}");
            balanced(&account.groups[0]);
        }
    });
}

#[test]
fn a_panic_in_routing_or_in_a_source_stores_nothing_and_leaves_the_topic_usable() {
    let broker = Broker::new();
    fn key(n: &u64) -> &u64 {
        assert!(*n != 13, "extractor");
        n
    }
    // One's own rule is asked even where there is only one partition.
    let config = || TopicConfig::new().key(key).partitioner(ringlog::Crc32).capacity(4);
    let topic = broker.create_topic("t", config()).unwrap();
    let (other, mut producer) = broker.create_exclusive("x", config()).unwrap();
    let panics = |body: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err();
    let source = || {
        (0..3_u64).inspect(|&n| {
            assert!(n < 2, "source");
        })
    };
    assert!(panics(&mut || drop(topic.publish(13))));
    assert!(panics(&mut || drop(topic.publish_batch([1, 13]))));
    assert!(panics(&mut || drop(topic.publish_batch(source()))));
    assert!(panics(&mut || drop(producer.publish(13))));
    assert!(panics(&mut || drop(producer.publish_batch([1, 13]))));
    assert!(panics(&mut || drop(producer.publish_batch(source()))));
    assert!(panics(&mut || drop(producer.publish_in_place(0, || panic!("fresh"), |_| ()))));
    assert!(panics(&mut || drop(producer.publish_in_place(0, || 1, |_| panic!("fill")))));
    assert_eq!((topic.end(0), other.end(0)), (Some(0), Some(0)));
    assert_eq!(topic.publish_batch([1, 2, 3]).unwrap()[0].offsets, 0..3);
    assert_eq!(producer.publish_batch([1, 2, 3]).unwrap()[0].offsets, 0..3);
    assert_eq!(producer.publish_in_place(0, || 0, |n| *n = 7).unwrap().offset(), 3);
}

#[test]
fn a_hook_that_panics_ends_the_worker_and_its_members_leave() {
    ends(|| {
        let worker = WorkerConfig::new().on_start(|| panic!("hook")).spawn().unwrap();
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::<u8>::new()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        match group.member("m").run(&worker).subscribe(|_| ()) {
            Err(SubscribeError::NotPlaced { .. }) => {}
            other => drop(other.unwrap()),
        }
        until(|| group.assignment().is_empty());
        topic.publish(1).unwrap();
        let account = broker.close(None);
        assert_eq!((account.stopped, account.left()), (true, 1));
    });
}

// ---- coming and going ------------------------------------------------------------------------------------------------

/// One slot, and every commit must wake the one publisher that waits for it: with a lost wake-up this would not end.
#[test]
fn members_that_come_and_go_over_one_slot_lose_no_wake_up_and_no_record() {
    ends(|| {
        let clock = Arc::new(ManualClock::new()); // nobody is rescued by time
        let broker = Broker::with(BrokerConfig::new().clock(clock));
        let topic = broker.create_topic("t", TopicConfig::new().partitions(2).capacity(1).block(None)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let publishers: Vec<_> = (0..3)
            .map(|_| {
                let topic = topic.clone();
                thread::spawn(move || (0..100_u32).for_each(|n| _ = topic.publish(n).unwrap()))
            })
            .collect();
        let worker = Worker::spawn().unwrap();
        for round in 0..60 {
            let (one, two) = (format!("a{round}"), format!("b{round}"));
            let first = group.subscribe(&one, |_| ()).unwrap();
            let second = group.member(&two).run(&worker).subscribe(|_| ()).unwrap();
            assert_eq!(group.assignment().len(), 2);
            group.pause();
            assert!(first.leave() && !first.leave());
            group.resume();
            assert!(second.leave());
        }
        group.subscribe("last", |_| ()).unwrap();
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        let account = broker.close(None);
        assert_eq!((account.acked(), account.left(), account.stopped), (300, 0, true));
        balanced(&account.groups[0]);
    });
}
