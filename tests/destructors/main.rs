//! Destructors of records that use the broker, wherever they happen to run.
#![forbid(unsafe_code)]

mod matrix;
mod prompt;

use ringlog::{
    Broker, BrokerConfig, Clock, Futex, GroupConfig, Manual, ManualClock, Retain, SeekTo, Time, TopicConfig, Woken,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

/// Runs `body` on a thread of its own and fails, naming `what`, if it does not come to an end.
fn ends_as<R: Send + 'static>(what: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || done.send(body()).unwrap());
    match wait.recv_timeout(Duration::from_secs(20)) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            eprintln!("{what} panics");
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}

fn ends<R: Send + 'static>(body: impl FnOnce() -> R + Send + 'static) -> R {
    ends_as("it", body)
}

/// What a record does when it is dropped.
type Act = Arc<dyn Fn() + Send + Sync>;

struct Acts(Option<Act>);

impl Drop for Acts {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// A clock that the test moves without telling the timer, as if that were late.
#[derive(Debug, Default)]
struct Late(AtomicU64);

impl Late {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for Late {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::SeqCst))
    }
    fn wall(&self, _: Time) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
    fn sleep(&self, word: &Arc<Futex>, expected: u32, _: Option<Time>) -> Woken {
        word.wait(expected, None)
    }
    fn on_move(&self, _: Weak<dyn Fn() + Send + Sync>) -> bool {
        true
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_group_made_while_a_record_expires_whose_destructor_makes_a_group() {
    ends(|| {
        let clock = Arc::new(Late::default());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::<Acts>::new().capacity(4).retain(Retain::Unacked).max_age(SECOND);
        let topic = broker.create_topic("t", config).unwrap();
        topic.group("a", GroupConfig::earliest()).unwrap();
        let within = topic.clone();
        let act: Act = Arc::new(move || drop(within.group("c", GroupConfig::latest()).unwrap()));
        assert!(topic.publish(Acts(Some(act))).unwrap().kept);
        clock.advance(2 * SECOND);
        topic.group("b", GroupConfig::latest()).unwrap();
        assert_eq!(topic.groups().len(), 3);
    });
}

#[test]
fn a_seek_that_finds_a_record_too_old_whose_destructor_seeks() {
    ends(|| {
        let clock = Arc::new(Late::default());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::<Acts>::new().capacity(4).retain(Retain::Unacked).max_age(SECOND);
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("a", GroupConfig::earliest()).unwrap();
        let within = group.clone();
        let act: Act = Arc::new(move || _ = within.seek(0, SeekTo::Latest).unwrap());
        assert!(topic.publish(Acts(Some(act))).unwrap().kept);
        clock.advance(2 * SECOND);
        group.seek(0, SeekTo::Earliest).unwrap();
        assert!(group.stats().balances(), "{:?}", group.stats());
    });
}

#[test]
fn the_figures_are_right_while_what_a_lane_lost_is_dropped() {
    ends(|| {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::<Acts>::new().capacity(4).retain(Retain::Unacked).drop_oldest();
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("a", GroupConfig::earliest()).unwrap();
        let manual = Manual::new(1);
        group.member("m").run(&manual).subscribe(|_| ()).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (noted, within) = (seen.clone(), group.clone());
        let act: Act = Arc::new(move || noted.lock().unwrap().push(within.stats()));
        for _ in 0..6 {
            topic.publish(Acts(Some(act.clone()))).unwrap();
        }
        manual.run(100);
        for stats in seen.lock().unwrap().iter() {
            assert!(stats.balances(), "{stats:?}");
        }
        assert!(group.stats().balances(), "{:?}", group.stats());
    });
}

#[test]
fn a_lane_that_checks_its_books_while_a_record_expires_whose_destructor_seeks() {
    ends(|| {
        let clock = Arc::new(Late::default());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::<Acts>::new().capacity(4).retain(Retain::Unacked).max_age(SECOND);
        let topic = broker.create_topic("t", config).unwrap();
        let (idle, slow) =
            (topic.group("a", GroupConfig::earliest()).unwrap(), topic.group("b", GroupConfig::earliest()).unwrap());
        let _ = &slow;
        let manual = Manual::new(1);
        let within = idle.clone();
        let act: Act = Arc::new(move || _ = within.seek(0, SeekTo::Latest).unwrap());
        let (moved, ahead) = (Arc::new(AtomicU64::new(0)), clock.clone());
        idle.member("m")
            .run(&manual)
            .subscribe(move |_| {
                moved.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        topic.publish(Acts(Some(act))).unwrap();
        manual.run(1);
        ahead.advance(2 * SECOND);
        manual.run(100);
        assert!(idle.stats().balances());
    });
}

#[test]
fn a_publish_from_the_destructor_of_a_thread_local() {
    ends(|| {
        struct Late(OnceLock<ringlog::Topic<u32>>);
        impl Drop for Late {
            fn drop(&mut self) {
                if let Some(topic) = self.0.get() {
                    for n in 0..20 {
                        topic.publish(n).unwrap();
                        let group = topic.group("late", GroupConfig::earliest()).unwrap();
                        group.stats();
                    }
                }
            }
        }
        thread_local! { static LATE: Late = const { Late(OnceLock::new()) }; }
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::<u32>::new().capacity(4).drop_oldest()).unwrap();
        for _ in 0..6 {
            let inner = topic.clone();
            thread::spawn(move || {
                LATE.with(|late| late.0.set(inner.clone()).ok().unwrap());
                inner.publish(1).unwrap();
            })
            .join()
            .unwrap();
        }
        assert_eq!(topic.end(0), Some(126));
    });
}
