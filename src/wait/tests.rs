//! What waiters may rely on. All of it on the manual clock, where a sleep without a wake is a hang.
#![forbid(unsafe_code)]

use super::{Canceller, Event, Look, Sleeper, Wait, Wake, rescues};
use crate::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        thread::{self, JoinHandle},
    },
    time::{Clock, ManualClock, SystemClock, Time},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    task::{Wake as WakeTask, Waker},
    time::Duration,
};

/// A number of things to take, an event that says there are more, and the clock they are waited for on.
struct Store {
    left: AtomicUsize,
    event: Event,
    clock: Arc<ManualClock>,
}

impl Store {
    fn new(wake: Wake) -> Arc<Self> {
        let clock = Arc::new(ManualClock::new());
        Arc::new(Self { left: AtomicUsize::new(0), event: Event::new(wake), clock })
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper::new(self.clock.clone())
    }

    fn put(&self, count: usize) {
        self.left.fetch_add(count, Ordering::Release);
        self.event.notify();
    }

    fn take(&self, count: usize) -> bool {
        let enough = |left: usize| left.checked_sub(count);
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, enough).is_ok()
    }

    /// A thread that waits until it can take `count`, and passes on what it leaves.
    fn taker(self: &Arc<Self>, count: usize, until: Option<Time>) -> JoinHandle<Wait> {
        let store = self.clone();
        thread::spawn(move || {
            let wait = store.sleeper().wait([&store.event], until, || match store.take(count) {
                true => Look::Ready,
                false if store.left.load(Ordering::Acquire) > 0 => Look::Unfit,
                false => Look::Nothing,
            });
            if store.left.load(Ordering::Acquire) > 0 {
                store.event.notify();
            }
            wait
        })
    }
}

#[test]
fn what_is_there_is_found_without_sleeping() {
    let store = Store::new(Wake::One);
    store.put(1);
    assert_eq!(store.sleeper().wait([&store.event], None, || store.take(1)), Wait::Ready);
    assert_eq!(store.event.waiting(), 0);
}

#[test]
fn a_notification_wakes_a_sleeper_and_nobody_stays_registered() {
    let store = Store::new(Wake::One);
    let taker = store.taker(1, None);
    store.clock.wait_for_sleepers(1);
    store.put(1);
    assert_eq!(taker.join().unwrap(), Wait::Ready);
    assert_eq!((store.event.waiting(), store.clock.sleepers()), (0, 0));
}

// two asleep, two notifications back to back: both are heard.
#[test]
fn two_notifications_in_a_row_wake_two_sleepers() {
    for _ in 0..if cfg!(miri) { 3 } else { 300 } {
        let store = Store::new(Wake::One);
        let takers = [store.taker(1, None), store.taker(1, None)];
        store.clock.wait_for_sleepers(2);
        store.put(1);
        store.put(1);
        takers.into_iter().for_each(|taker| assert_eq!(taker.join().unwrap(), Wait::Ready));
    }
}

// one notification of much, many sleepers: each passes on what it leaves.
#[test]
fn who_leaves_something_wakes_the_next() {
    let store = Store::new(Wake::One);
    let takers: Vec<_> = (0..5).map(|_| store.taker(1, None)).collect();
    store.clock.wait_for_sleepers(5);
    store.put(5);
    takers.into_iter().for_each(|taker| assert_eq!(taker.join().unwrap(), Wait::Ready));
}

#[test]
fn one_notification_wakes_only_one_of_the_interchangeable() {
    let store = Store::new(Wake::One);
    let takers: Vec<_> = (0..3).map(|_| store.taker(1, None)).collect();
    store.clock.wait_for_sleepers(3);
    store.put(1);
    while !takers.iter().any(|taker| taker.is_finished()) {
        thread::yield_now();
    }
    assert_eq!(takers.iter().filter(|taker| taker.is_finished()).count(), 1);
    store.clock.wait_for_sleepers(2);
    assert_eq!(store.event.waiting(), 2);
    store.put(2);
    takers.into_iter().for_each(|taker| assert_eq!(taker.join().unwrap(), Wait::Ready));
}

#[test]
fn one_that_cannot_use_what_is_there_hands_the_notification_on() {
    let store = Store::new(Wake::One);
    let large = store.taker(2, None);
    store.clock.wait_for_sleepers(1);
    let small = store.taker(1, None);
    store.clock.wait_for_sleepers(2);
    store.put(1);
    assert_eq!(small.join().unwrap(), Wait::Ready);
    store.put(2);
    assert_eq!(large.join().unwrap(), Wait::Ready);
}

// a waiter that leaves with an unheard notification hands it on.
#[test]
fn a_rung_waiter_hands_its_notification_on() {
    let store = Store::new(Wake::One);
    let (tell, bell) = mpsc::channel();
    let rung = thread::spawn({
        let store = store.clone();
        move || {
            let mut sleeper = store.sleeper();
            tell.send(sleeper.bell().clone()).unwrap();
            sleeper.wait([&store.event], None, || false)
        }
    });
    let bell = bell.recv().unwrap();
    store.clock.wait_for_sleepers(1);
    let second = store.taker(1, None);
    store.clock.wait_for_sleepers(2);
    store.left.store(1, Ordering::Release);
    store.event.notify(); // to the first, which finds it and does not take it ..
    bell.ring(); // .. or has not heard of it yet
    assert_eq!(rung.join().unwrap(), Wait::Rung);
    store.event.notify(); // a look that says "nothing" where there is something used the notification up
    assert_eq!(second.join().unwrap(), Wait::Ready);
}

#[test]
fn a_look_that_panics_leaves_nobody_registered_and_hands_on() {
    let store = Store::new(Wake::One);
    let looked = catch_unwind(AssertUnwindSafe(|| {
        store.sleeper().wait([&store.event], None, || -> bool {
            store.put(1);
            panic!("on purpose")
        })
    }));
    assert!(looked.is_err());
    assert_eq!(store.event.waiting(), 0);
    assert_eq!(store.taker(1, None).join().unwrap(), Wait::Ready);
}

#[test]
fn a_deadline_ends_a_wait_after_a_last_look() {
    let store = Store::new(Wake::All);
    let taker = store.taker(1, Some(Time::from_nanos(5)));
    store.clock.wait_for_sleepers(1);
    store.left.store(1, Ordering::Release); // nobody is told
    store.clock.advance(Duration::from_nanos(5));
    assert_eq!(taker.join().unwrap(), Wait::Ready);
    let taker = store.taker(1, Some(Time::from_nanos(6)));
    store.clock.wait_for_sleepers(1);
    store.clock.advance(Duration::from_nanos(1));
    assert_eq!(taker.join().unwrap(), Wait::TimedOut);
    assert_eq!(store.event.waiting(), 0);
}

#[test]
fn a_deadline_in_the_past_looks_once() {
    let store = Store::new(Wake::All);
    let mut looks = 0;
    let mut look = || {
        looks += 1;
        false
    };
    assert_eq!(store.sleeper().wait([&store.event], Some(Time::ZERO), &mut look), Wait::TimedOut);
    assert_eq!(looks, 1);
}

#[test]
fn a_ring_before_the_wait_is_not_lost_and_is_heard_once() {
    let store = Store::new(Wake::All);
    let mut sleeper = store.sleeper();
    sleeper.bell().ring();
    sleeper.bell().ring();
    assert_eq!(sleeper.wait_for_bell(None), Wait::Rung);
    assert_eq!(sleeper.wait_for_bell(Some(Time::ZERO)), Wait::TimedOut);
}

#[test]
fn wake_all_reaches_everybody_in_either_mode() {
    for wake in [Wake::One, Wake::All] {
        let (store, over) = (Store::new(wake), Arc::new(AtomicBool::new(false)));
        let waiters: Vec<_> = (0..4)
            .map(|_| {
                let (store, over) = (store.clone(), over.clone());
                thread::spawn(move || store.sleeper().wait([&store.event], None, || over.load(Ordering::Acquire)))
            })
            .collect();
        store.clock.wait_for_sleepers(4);
        over.store(true, Ordering::Release);
        store.event.wake_all();
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), Wait::Ready));
    }
}

#[test]
fn one_sleeper_hears_each_of_its_events() {
    let clock = Arc::new(ManualClock::new());
    let events: Arc<[Event; 3]> = Arc::new([(); 3].map(|()| Event::new(Wake::All)));
    for heard in 0..events.len() {
        let ready = Arc::new(AtomicBool::new(false));
        let waiter = thread::spawn({
            let (clock, events, ready) = (clock.clone(), events.clone(), ready.clone());
            move || Sleeper::new(clock).wait(&*events, None, || ready.load(Ordering::Acquire))
        });
        clock.wait_for_sleepers(1);
        ready.store(true, Ordering::Release);
        events[heard].notify();
        assert_eq!(waiter.join().unwrap(), Wait::Ready);
    }
    assert!(events.iter().all(|event| event.waiting() == 0));
}

#[test]
fn a_quiet_publish_is_found_at_the_next_look_only() {
    let store = Store::new(Wake::All);
    let taker = store.taker(1, Some(Time::from_nanos(9)));
    store.clock.wait_for_sleepers(1);
    store.left.store(1, Ordering::Release);
    store.event.notify_quiet();
    assert_eq!(store.clock.sleepers(), 1, "nobody was told");
    store.clock.advance(Duration::from_nanos(9));
    assert_eq!(taker.join().unwrap(), Wait::Ready);
}

#[test]
fn cancelling_ends_waits_now_and_later() {
    let (store, cancel) = (Store::new(Wake::One), Canceller::new());
    let waiter = thread::spawn({
        let (store, cancel) = (store.clone(), cancel.clone());
        move || {
            let mut sleeper = store.sleeper();
            let _registered = cancel.register(sleeper.bell());
            sleeper.wait([&store.event], None, || cancel.is_cancelled())
        }
    });
    store.clock.wait_for_sleepers(1);
    cancel.cancel();
    assert_ne!(waiter.join().unwrap(), Wait::TimedOut);
    assert!(cancel.is_cancelled());
}

struct CountingTask(AtomicUsize, bool);

impl WakeTask for CountingTask {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
        assert!(!self.1, "on purpose");
    }
}

#[test]
fn a_task_is_woken_once_for_each_registration_and_let_go() {
    let (event, task) = (Event::new(Wake::One), Arc::new(CountingTask(AtomicUsize::new(0), false)));
    let registration = event.register_waker(&Waker::from(task.clone()));
    event.notify();
    event.notify();
    assert!(registration.is_notified());
    registration.used();
    assert_eq!(task.0.load(Ordering::Acquire), 1);
    // a waker is not kept after the registration is gone.
    drop(event.register_waker(&Waker::from(task.clone())));
    assert_eq!((Arc::strong_count(&task), event.waiting()), (1, 0));
}

#[test]
fn a_task_that_leaves_hands_its_notification_on_and_one_that_used_it_does_not() {
    for used in [false, true] {
        let (event, [one, two]) =
            (Event::new(Wake::One), [(); 2].map(|()| Arc::new(CountingTask(AtomicUsize::new(0), false))));
        let first = event.register_waker(&Waker::from(one.clone()));
        let _second = event.register_waker(&Waker::from(two.clone()));
        event.notify();
        if used {
            first.used();
        } else {
            drop(first);
        }
        assert_eq!(two.0.load(Ordering::Acquire), usize::from(!used));
    }
}

// a waker is user code: called and dropped without a lock, its panic contained.
#[test]
fn a_waker_that_panics_does_not_reach_the_publisher() {
    let (event, task) = (Event::new(Wake::All), Arc::new(CountingTask(AtomicUsize::new(0), true)));
    let _registration = event.register_waker(&Waker::from(task.clone()));
    event.notify();
    assert_eq!(task.0.load(Ordering::Acquire), 1);
    let _again = event.register_waker(&Waker::from(task));
}

struct Reentrant(Arc<Event>);

impl WakeTask for Reentrant {
    fn wake(self: Arc<Self>) {
        self.0.notify();
        drop(self.0.register_waker(Waker::noop()));
    }
}

#[test]
fn a_waker_may_use_the_event_that_wakes_it() {
    let event = Arc::new(Event::new(Wake::All));
    let _registration = event.register_waker(&Waker::from(Arc::new(Reentrant(event.clone()))));
    event.notify();
}

// a handshake that loses a wake hangs here, since nothing rescues it.
#[test]
fn ping_pong_loses_no_wake() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let clock = Arc::new(ManualClock::new());
    let turn = Arc::new((AtomicUsize::new(0), Event::new(Wake::One), Event::new(Wake::One)));
    let player = |me: usize| {
        let (turn, clock) = (turn.clone(), clock.clone());
        move || {
            let (mine, other) = if me == 0 { (&turn.1, &turn.2) } else { (&turn.2, &turn.1) };
            let mut sleeper = Sleeper::new(clock);
            for round in 0..rounds {
                let wanted = 2 * round + me;
                let found = sleeper.wait([mine], None, || turn.0.load(Ordering::Acquire) == wanted);
                assert_eq!(found, Wait::Ready);
                turn.0.store(wanted + 1, Ordering::Release);
                other.notify();
            }
        }
    };
    let players = [thread::spawn(player(0)), thread::spawn(player(1))];
    players.into_iter().for_each(|player| player.join().unwrap());
}

/// The system's clock, with a safeguard short enough to be seen at work.
#[derive(Debug)]
struct Impatient(SystemClock);

impl Clock for Impatient {
    fn now(&self) -> Time {
        self.0.now()
    }
    fn wall(&self, at: Time) -> std::time::SystemTime {
        self.0.wall(at)
    }
    fn sleep(
        &self,
        word: &Arc<crate::sync::futex::Futex>,
        expected: u32,
        until: Option<Time>,
    ) -> crate::sync::futex::Woken {
        self.0.sleep(word, expected, until)
    }
    fn look_again(&self) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }
}

#[test]
fn a_safeguard_finds_what_nobody_announced() {
    let event = Event::new(Wake::One);
    let mut looks = 0;
    let wait = Sleeper::new(Arc::new(Impatient(SystemClock::new()))).wait([&event], None, || {
        looks += 1;
        looks == 3
    });
    assert_eq!((wait, looks), (Wait::Ready, 3));
    assert!(rescues() > 0, "and says so");
}
