//! A consumer that is alive and was taken for one that hangs hears of it, and takes back what is its own.

use super::{SECOND, forever};
use ringlog::{
    Broker, BrokerConfig, Clock, Consumer, Futex, Group, ManualClock, Readiness, Select, Time, TopicConfig, Woken,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::task::Waker;
use std::thread;
use std::time::{Duration, SystemTime};

/// A clock that is moved when it has been asked so many times.
#[derive(Debug, Default)]
struct Jumps(ManualClock, AtomicUsize);

impl Clock for Jumps {
    fn now(&self) -> Time {
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) == Ok(1) {
            self.0.advance(30 * SECOND);
        }
        self.0.now()
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.0.wall(at)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        self.0.sleep(word, expected, until)
    }

    fn on_move(&self, act: Weak<dyn Fn() + Send + Sync>) -> bool {
        self.0.on_move(act)
    }
}

/// Two consumers, of which `a` has in flight what is going to `b`.
fn two(clock: &Arc<Jumps>) -> (Broker, Group<u64>, Consumer<u64>, Consumer<u64>) {
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("t", TopicConfig::<u64>::new().partitions(2)).unwrap();
    let group = topic.group("g", forever().lease(30 * SECOND)).unwrap();
    let mut a = group.consumer("a").unwrap();
    let _ = topic.publish_to(1, 7).unwrap();
    a.try_poll(1).unwrap().detach().leave_in_flight();
    let b = group.consumer("b").unwrap();
    (broker, group, a, b)
}

fn of(group: &Group<u64>, name: &str) -> Vec<u32> {
    group.assignment().iter().filter(|of| &*of.member == name).flat_map(|of| of.partitions.clone()).collect()
}

fn asleep(clock: &Jumps) {
    while clock.0.sleepers() == 0 {
        thread::yield_now();
    }
}

#[test]
fn a_consumer_in_a_select_takes_back_what_was_dealt_to_others_when_its_lease_ended() {
    let clock = Arc::new(Jumps::default());
    let (_broker, group, a, _b) = two(&clock);
    thread::scope(|scope| {
        let waits = scope.spawn(|| Select::new().wait(&[&a], 100 * SECOND));
        asleep(&clock);
        clock.0.advance(30 * SECOND);
        while of(&group, "a") != [0] {
            thread::yield_now(); // nobody publishes anything: it has to be told
        }
        assert_eq!(of(&group, "b"), [1]);
        asleep(&clock);
        clock.0.advance(100 * SECOND);
        assert_eq!(waits.join().unwrap(), None);
    });
}

struct Rings(Mutex<mpsc::Sender<()>>);

impl std::task::Wake for Rings {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

#[test]
fn a_consumer_in_an_event_loop_is_woken_when_it_is_taken_for_one_that_hangs() {
    let clock = Arc::new(Jumps::default());
    let (_broker, group, mut a, _b) = two(&clock);
    let (tell, told) = mpsc::channel();
    let waker = Waker::from(Arc::new(Rings(Mutex::new(tell))));
    assert!(matches!(a.poll_ready(&waker), Readiness::Waiting { .. }));
    clock.0.advance(30 * SECOND);
    told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(of(&group, "a"), [0_u32; 0]);
    assert!(matches!(a.poll_ready(&waker), Readiness::Waiting { .. }));
    assert_eq!((of(&group, "a"), of(&group, "b")), (vec![0], vec![1]));
}

// The clock is asked after the poll has said that it is alive, and before it sleeps.
#[test]
fn a_poll_that_is_about_to_sleep_when_its_lease_ends_takes_back_what_is_its_own() {
    for calls in 1..4 {
        let clock = Arc::new(Jumps::default());
        let (_broker, group, mut a, _b) = two(&clock);
        clock.1.store(calls, Ordering::SeqCst);
        thread::scope(|scope| {
            let waits = scope.spawn(move || a.poll(1, Duration::MAX).map(|batch| batch.partition()));
            asleep(&clock);
            if clock.1.load(Ordering::SeqCst) > 0 {
                clock.0.advance(30 * SECOND); // it was not asked so often
            }
            while of(&group, "a") != [0] {
                thread::yield_now();
            }
            assert!(group.delete());
            assert!(waits.join().unwrap().is_err());
        });
    }
}
