//! A clock that moves only when it is told to, and owns every sleep.
//!
//! A sleeper registers under the lock, with the word it sleeps on and what it saw there. Moving the clock sets
//! [`Futex::TICK`] in the word of every sleeper whose time has come, under the same lock, and then wakes it: so a sleeper
//! that has registered and not yet fallen asleep finds its word changed. Sleepers without a deadline sleep without limit:
//! a wake that nobody sent is a hang that a test sees, not a delay that nobody notices.
//!
//! # Orderings
//!
//! | label         | operation        | order   | why this much, and why no more                                        |
//! |---------------|------------------|---------|-----------------------------------------------------------------------|
//! | tick:A        | `word.fetch_or`  | Relaxed | says "look at the time", which is read under the lock               |
//! | asleep:A      | `word.load`      | Relaxed | only whether it changed: counting, no data behind it                  |
#![forbid(unsafe_code)]

use super::{Clock, Time};
use crate::sync::{
    Arc, Condvar, Mutex, MutexGuard, Weak,
    atomic::Ordering,
    futex::{Futex, Woken},
    lock,
};
use std::{
    fmt,
    time::{Duration, SystemTime},
};

/// A clock that moves only when it is told to. Clone the `Arc` it lives in, not the clock.
#[derive(Debug, Default)]
pub struct ManualClock {
    state: Mutex<State>,
    asleep: Condvar,
}

#[derive(Debug, Default)]
struct State {
    now: Time,
    sleepers: Vec<Sleeping>,
    acts: Acts,
    next: u64,
}

/// What is called after each move.
#[derive(Default)]
struct Acts(Vec<Weak<dyn Fn() + Send + Sync>>);

impl fmt::Debug for Acts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acts", self.0.len())
    }
}

#[derive(Debug)]
struct Sleeping {
    id: u64,
    word: Arc<Futex>,
    expected: u32,
    until: Option<Time>,
}

impl Sleeping {
    fn is_due(&self, now: Time) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    fn is_asleep(&self) -> bool {
        // ORD(asleep:A) Relaxed: only whether it changed.
        self.word.word().load(Ordering::Relaxed) == self.expected
    }

    fn tick(&self) {
        // ORD(tick:A) Relaxed: says "look at the time", which is read under the lock.
        self.word.word().fetch_or(Futex::TICK, Ordering::Relaxed);
        self.word.wake(1);
    }
}

impl ManualClock {
    /// A clock that stands at its origin. Its wall time begins at the Unix epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock on and wakes the sleepers whose time has come. What a broker has to do by the clock alone is done when
    /// this returns.
    pub fn advance(&self, by: Duration) {
        {
            let mut state = self.lock();
            let now = state.now + by;
            Self::move_to(&mut state, now);
        }
        self.moved();
    }

    /// Puts the clock to `now`, which may be earlier, and wakes the sleepers whose time has come; as [`advance`](Self::advance).
    pub fn set(&self, now: Time) {
        Self::move_to(&mut self.lock(), now);
        self.moved();
    }

    /// Moves the clock to the earliest deadline anybody sleeps for, and says where it stands; `None` if nobody has one.
    /// Backoffs of the manual executor are not among them: [`Manual::next_due`](crate::Manual::next_due).
    pub fn advance_to_next(&self) -> Option<Time> {
        let now = {
            let mut state = self.lock();
            let next = state.sleepers.iter().filter(|s| s.is_asleep()).filter_map(|s| s.until).min()?;
            let now = state.now.max(next);
            Self::move_to(&mut state, now);
            now
        };
        self.moved();
        Some(now)
    }

    /// How many threads are asleep on this clock, with nothing to wake them yet.
    pub fn sleepers(&self) -> usize {
        self.lock().asleep()
    }

    /// Waits until at least `count` threads are asleep on this clock.
    ///
    /// # Panics
    /// After a minute of real time: a test that waits for a sleeper which never comes should say so.
    #[cfg(not(ringlog_loom))]
    pub fn wait_for_sleepers(&self, count: usize) {
        let patience = Duration::from_secs(60);
        let (state, _) = self
            .asleep
            .wait_timeout_while(self.lock(), patience, |state| state.asleep() < count)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let asleep = state.asleep();
        drop(state);
        assert!(asleep >= count, "waited a minute for {count} sleepers, and {asleep} are asleep");
    }

    fn move_to(state: &mut State, now: Time) {
        state.now = now;
        state.sleepers.iter().filter(|sleeping| sleeping.is_due(now)).for_each(Sleeping::tick);
    }

    /// Calls those who act on a move; outside the lock, since they read the clock.
    fn moved(&self) {
        let acts: Vec<_> = {
            let mut state = self.lock();
            state.acts.0.retain(|act| act.strong_count() > 0);
            state.acts.0.iter().filter_map(Weak::upgrade).collect()
        };
        acts.iter().for_each(|act| act());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Registers a sleep, unless it is over before it began.
    fn enter(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Result<u64, Woken> {
        let mut state = self.lock();
        let id = state.next;
        let sleeping = Sleeping { id, word: word.clone(), expected, until };
        if !sleeping.is_asleep() {
            return Err(Woken::Woken);
        }
        if sleeping.is_due(state.now) {
            return Err(Woken::TimedOut);
        }
        state.next += 1;
        state.sleepers.push(sleeping);
        self.asleep.notify_all();
        Ok(id)
    }

    fn leave(&self, id: u64) -> Woken {
        let mut state = self.lock();
        let at = state.sleepers.iter().position(|sleeping| sleeping.id == id);
        let due = at.map(|at| state.sleepers.swap_remove(at)).is_some_and(|sleeping| sleeping.is_due(state.now));
        if due { Woken::TimedOut } else { Woken::Woken }
    }
}

impl State {
    fn asleep(&self) -> usize {
        self.sleepers.iter().filter(|sleeping| sleeping.is_asleep()).count()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        self.lock().now
    }

    fn wall(&self, at: Time) -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(at - Time::ZERO).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        match self.enter(word, expected, until) {
            Ok(id) => {
                word.wait(expected, None);
                self.leave(id)
            }
            Err(woken) => woken,
        }
    }

    fn on_move(&self, act: Weak<dyn Fn() + Send + Sync>) -> bool {
        let acts = &mut self.lock().acts.0;
        // A clock that nobody moves forgets them here.
        if acts.len() == acts.capacity() {
            acts.retain(|act| act.strong_count() > 0);
        }
        acts.push(act);
        true
    }

    fn look_again(&self) -> Option<Duration> {
        None
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::ManualClock;
    use crate::{
        sync::{
            Arc,
            atomic::Ordering,
            futex::{Futex, Woken},
            thread,
        },
        time::{Clock, Time},
    };
    use std::time::Duration;

    fn sleep_until(clock: &Arc<ManualClock>, until: Option<Time>) -> (thread::JoinHandle<Woken>, Arc<Futex>) {
        let (clock, word) = (clock.clone(), Arc::new(Futex::new(0)));
        let sleeper = thread::spawn({
            let word = word.clone();
            move || clock.sleep(&word, 0, until)
        });
        (sleeper, word)
    }

    #[test]
    fn advancing_wakes_those_whose_time_has_come_and_nobody_else() {
        let clock = Arc::new(ManualClock::new());
        let (soon, _) = sleep_until(&clock, Some(Time::from_nanos(10)));
        let (late, _) = sleep_until(&clock, Some(Time::from_nanos(20)));
        clock.wait_for_sleepers(2);
        clock.advance(Duration::from_nanos(10));
        assert_eq!(soon.join().unwrap(), Woken::TimedOut);
        assert_eq!(clock.sleepers(), 1);
        assert_eq!(clock.advance_to_next(), Some(Time::from_nanos(20)));
        assert_eq!(late.join().unwrap(), Woken::TimedOut);
        assert_eq!((clock.sleepers(), clock.advance_to_next()), (0, None));
    }

    #[test]
    fn a_change_of_the_word_wakes_one_that_sleeps_for_ever() {
        let clock = Arc::new(ManualClock::new());
        let (sleeper, word) = sleep_until(&clock, None);
        clock.wait_for_sleepers(1);
        clock.advance(Duration::MAX);
        assert_eq!(clock.sleepers(), 1);
        word.word().store(1, Ordering::Release);
        word.wake(1);
        assert_eq!(sleeper.join().unwrap(), Woken::Woken);
    }

    #[test]
    fn a_deadline_in_the_past_and_a_changed_word_do_not_sleep() {
        let (clock, word) = (ManualClock::new(), Arc::new(Futex::new(0)));
        assert_eq!(clock.sleep(&word, 0, Some(Time::ZERO)), Woken::TimedOut);
        assert_eq!(clock.sleep(&word, 7, None), Woken::Woken);
    }

    #[test]
    fn it_may_be_put_back() {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(2));
        clock.set(Time::ZERO);
        assert_eq!(clock.now(), Time::ZERO);
        assert!(clock.wall(Time::MAX) > std::time::SystemTime::UNIX_EPOCH);
    }
}
