//! The event count: no schedule loses a wake-up. A lost one is a deadlock, which loom reports: nothing times out here but
//! by a clock that an actor moves.
//!
//! The things waited for are Relaxed counters on purpose: the weakest predicate a user could have, so that the handshake
//! cannot pass by borrowing the orderings of the data.
#![cfg(ringlog_loom)]

mod clock;

use clock::handle;
use loom::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
};
use loom_tests::{Model, Tally};
use ringlog::internals::{
    sync::{cow::Cow, explore},
    time::{ManualClock, Time},
    wait::{Bell, Canceller, Event, Look, Sleeper, Wait, Wake},
};
use std::time::Duration;

/// Some things to take, and the event that says there are more.
struct Store {
    left: AtomicU32,
    event: Event,
    clock: Arc<ManualClock>,
}

impl Store {
    fn new(wake: Wake) -> Arc<Self> {
        let clock = Arc::new(ManualClock::new());
        Arc::new(Self { left: AtomicU32::new(0), event: Event::new(wake), clock })
    }

    fn put(&self) {
        self.left.fetch_add(1, Relaxed);
        self.event.notify();
    }

    fn take(&self) -> bool {
        loop {
            explore();
            match self.left.load(Relaxed) {
                0 => return false,
                left if self.left.compare_exchange(left, left - 1, Relaxed, Relaxed).is_ok() => return true,
                _ => {} // somebody else took one
            }
        }
    }

    fn is_there(&self) -> bool {
        self.left.load(Relaxed) > 0
    }

    fn sleeper(&self) -> Sleeper {
        Sleeper::new(handle(&self.clock))
    }
}

fn spawn(store: &Arc<Store>, actor: impl FnOnce(&Store) + 'static) -> thread::JoinHandle<()> {
    let store = store.clone();
    thread::spawn(move || actor(&store))
}

fn all(actors: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    actors.into_iter().for_each(|actor| actor.join().unwrap());
}

#[test]
fn a_waiter_never_misses_a_publisher() {
    Model::new("wait handshake").run(&["at once", "woken"], |tally| {
        let store = Store::new(Wake::All);
        let tally = tally.clone();
        let waiter = spawn(&store, move |store| {
            let mut looks = 0;
            let wait = store.sleeper().wait([&store.event], None, || {
                looks += 1;
                store.is_there()
            });
            assert_eq!(wait, Wait::Ready);
            tally.saw(if looks == 1 { "at once" } else { "woken" });
        });
        let publisher = spawn(&store, |store| store.put());
        all([waiter, publisher]);
        assert_eq!(store.event.waiting(), 0, "nobody stays registered");
    });
}

#[test]
fn two_publishers_wake_two_waiters() {
    Model::new("two and two").run(&["both"], |tally| {
        let store = Store::new(Wake::One);
        let waiters = [(); 2].map(|()| {
            spawn(&store, |store| {
                assert_eq!(store.sleeper().wait([&store.event], None, || store.take()), Wait::Ready);
            })
        });
        let publisher = spawn(&store, |store| {
            store.put();
            store.put();
        });
        all(waiters);
        all([publisher]);
        assert_eq!(store.left.load(Relaxed), 0);
        tally.saw("both");
    });
}

#[test]
fn a_deadline_and_a_publisher_leave_nothing_behind() {
    Model::new("wait with a deadline").run(&["ready", "timed out"], |tally| {
        let store = Store::new(Wake::One);
        let tally = tally.clone();
        let waiter = spawn(&store, move |store| {
            let wait = store.sleeper().wait([&store.event], Some(Time::from_nanos(1)), || store.take());
            tally.saw(match wait {
                Wait::Ready => "ready",
                Wait::TimedOut => "timed out",
                Wait::Rung => panic!("nobody rang"),
            });
        });
        let publisher = spawn(&store, |store| store.put());
        let timer = spawn(&store, |store| store.clock.advance(Duration::from_nanos(1)));
        all([waiter, publisher, timer]);
        assert_eq!((store.event.waiting(), store.clock.sleepers()), (0, 0));
    });
}

#[test]
fn closing_wakes_everybody_who_waits() {
    Model::new("wait with close").run(&["woken"], |tally| {
        let store = Store::new(Wake::One);
        let waiters = [(); 2].map(|()| {
            spawn(&store, |store| {
                assert_eq!(store.sleeper().wait([&store.event], None, || store.is_there()), Wait::Ready);
            })
        });
        let closer = spawn(&store, |store| {
            store.left.store(1, Relaxed);
            store.event.wake_all();
        });
        all(waiters);
        all([closer]);
        tally.saw("woken");
    });
}

#[test]
fn lanes_of_different_groups_are_all_woken_by_one_publish() {
    Model::new("several lanes").run(&["one slept", "both slept", "none slept"], |tally| {
        let store = Store::new(Wake::All);
        let slept = Arc::new(AtomicU32::new(0));
        let lanes = [(); 2].map(|()| {
            let slept = slept.clone();
            spawn(&store, move |store| {
                let mut looks = 0;
                store.sleeper().wait([&store.event], None, || {
                    looks += 1;
                    store.is_there()
                });
                slept.fetch_add(u32::from(looks > 1), Relaxed);
            })
        });
        let publisher = spawn(&store, |store| store.put());
        all(lanes);
        all([publisher]);
        tally.saw(["none slept", "one slept", "both slept"][slept.load(Relaxed) as usize]);
    });
}

/// A waiter that is told to leave while a notification is on its way to it: the other one gets it.
#[test]
fn a_waiter_that_leaves_hands_its_notification_on() {
    Model::new("pass on").run(&["took it", "left"], |tally| {
        let store = Store::new(Wake::One);
        let tally = tally.clone();
        let mut sleeper = store.sleeper();
        let bell: Bell = sleeper.bell().clone();
        let leaver = spawn(&store, move |store| {
            match sleeper.wait([&store.event], None, || store.take()) {
                Wait::Ready => {
                    tally.saw("took it");
                    store.put(); // and gives it to the other
                }
                Wait::Rung => tally.saw("left"),
                Wait::TimedOut => panic!("no deadline"),
            }
        });
        let other = spawn(&store, |store| {
            assert_eq!(store.sleeper().wait([&store.event], None, || store.take()), Wait::Ready);
        });
        let both = spawn(&store, move |store| {
            store.put();
            bell.ring();
        });
        all([leaver, other, both]);
        assert_eq!(store.left.load(Relaxed), 0);
    });
}

/// One that can use only two at once does not sit on a notification for one.
#[test]
fn a_waiter_that_cannot_use_it_hands_its_notification_on() {
    Model::new("unfit").run(&["small served"], |tally| {
        let store = Store::new(Wake::One);
        let tally = tally.clone();
        let large = spawn(&store, |store| {
            store.sleeper().wait([&store.event], None, || match store.left.load(Relaxed) {
                0 => Look::Nothing,
                1 => Look::Unfit,
                _ => Look::Ready,
            });
        });
        let small = spawn(&store, move |store| {
            assert_eq!(store.sleeper().wait([&store.event], None, || store.is_there()), Wait::Ready);
            tally.saw("small served");
            store.left.store(2, Relaxed);
            store.event.wake_all();
        });
        let publisher = spawn(&store, |store| store.put());
        all([large, small, publisher]);
    });
}

#[test]
fn who_is_rung_sees_what_the_ringer_did() {
    Model::new("bell").run(&["rung"], |tally| {
        let store = Store::new(Wake::All);
        let mut sleeper = store.sleeper();
        let bell = sleeper.bell().clone();
        let tally = tally.clone();
        let rung = spawn(&store, move |store| {
            assert_eq!(sleeper.wait_for_bell(None), Wait::Rung);
            assert_eq!(store.left.load(Relaxed), 1, "rung without what it was rung for");
            tally.saw("rung");
        });
        let ringer = spawn(&store, move |store| {
            store.left.store(1, Relaxed);
            bell.ring();
        });
        all([rung, ringer]);
    });
}

#[test]
fn who_is_cancelled_sees_what_was_done_before() {
    Model::new("canceller").run(&["cancelled", "not yet"], |tally| {
        let (store, cancel) = (Store::new(Wake::All), Canceller::new());
        let tally = tally.clone();
        let looker = spawn(&store, {
            let cancel = cancel.clone();
            move |store| {
                if !cancel.is_cancelled() {
                    return tally.saw("not yet");
                }
                assert_eq!(store.left.load(Relaxed), 1, "cancelled without what was done before");
                tally.saw("cancelled");
            }
        });
        let canceller = spawn(&store, move |store| {
            store.left.store(1, Relaxed);
            cancel.cancel();
        });
        all([looker, canceller]);
    });
}

#[test]
fn cancelling_ends_a_wait_that_is_about_to_begin() {
    Model::new("cancelled wait").run(&["rung", "seen"], |tally| {
        let (store, cancel) = (Store::new(Wake::All), Canceller::new());
        let tally = tally.clone();
        let waiter = spawn(&store, {
            let cancel = cancel.clone();
            move |store| {
                let mut sleeper = store.sleeper();
                let _registered = cancel.register(sleeper.bell());
                match sleeper.wait([&store.event], None, || cancel.is_cancelled()) {
                    Wait::Rung => tally.saw("rung"),
                    Wait::Ready => tally.saw("seen"),
                    Wait::TimedOut => panic!("no deadline"),
                }
            }
        });
        let canceller = spawn(&store, move |_| cancel.cancel());
        all([waiter, canceller]);
    });
}

/// The registry's cell (its stand-in: loom cannot see into `ArcSwap`): a reader sees whole values, writers lose nothing.
#[test]
fn a_registry_swap_is_whole_and_loses_no_change() {
    fn check(tally: &Tally) {
        let cow = Cow::new((0, 0));
        let writers = [(); 2].map(|()| {
            let cow = cow.clone();
            thread::spawn(move || drop(cow.update(|&(a, b)| (a + 1, b + 1))))
        });
        let reader = thread::spawn({
            let (mut cached, tally) = (cow.cached(), tally.clone());
            move || {
                let (a, b) = **cached.load();
                assert_eq!(a, b, "half a change");
                tally.saw(["before", "between", "after"][a]);
            }
        });
        all(writers);
        all([reader]);
        assert_eq!(*cow.load(), (2, 2));
    }
    Model::new("registry").run(&["before", "between", "after"], check);
}
