//! The broker's one timer: what has to happen because time has passed, and for no other reason.
//!
//! It holds nothing alive: a topic that is gone is not asked again. It starts with the first topic that has need of it:
//!
//! * on a clock that runs by itself, a thread that sleeps until the earliest time anybody asked for;
//! * on a clock that somebody moves, no thread: whoever moves the clock runs it, before the move returns, so that a test
//!   sees what is due and the order of events is its own.
//!
//! On a clock that runs, rounds are [`PAUSE`] apart: who asks for less, by a lease of a nanosecond, say, would have the thread do
//! nothing else. Nothing that is looked at by whoever comes (a poll, a settlement) is later for it.
//!
//! Nobody is asked under the lock. A round has two passes: first all that is somebody else's turn by now is said to be (leases
//! end, and who waits for that is woken), then comes what may be the user's code, which may take its time.
#![forbid(unsafe_code)]

use crate::group::{contain::drop_contained, context};
use crate::sync::{Arc, Mutex, Weak, lock, thread};
use crate::time::{Clock, Time};
use crate::wait::{Bell, Event, Sleeper};
use std::fmt;
use std::io;
use std::time::Duration;

/// From the end of a round to the next one, at least.
const PAUSE: Duration = Duration::from_micros(200);

/// What the timer looks after.
pub(crate) trait Timed: Send + Sync {
    /// Before anybody's [`tick`](Self::tick): what others wait for and needs nothing of the user's. What comes back is that
    /// part of it that does, for after that.
    fn first(&self, _now: Time) -> Option<Box<dyn FnOnce() + '_>> {
        None
    }

    /// Does what is due at `now`, and says when to come again at the latest. Coming earlier does no harm.
    fn tick(&self, now: Time) -> Option<Time>;
}

/// See the module.
pub(crate) struct Timer(Arc<Rounds>);

struct Rounds {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: Vec<Weak<dyn Timed>>,
    driver: Option<Driver>,
    started: bool,
    stopped: bool,
}

/// Who runs the rounds.
enum Driver {
    /// Whoever moves the clock, for as long as this is kept.
    Clock { _act: Arc<dyn Fn() + Send + Sync> },
    /// A thread, which this wakes.
    Thread(Bell),
}

impl Timer {
    /// A timer that does not run yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Rounds { clock, state: Mutex::default() }))
    }

    /// Looks after `what` from now on, for as long as it lives.
    ///
    /// # Errors
    ///
    /// The system refused the thread, of which there is one a broker.
    pub(crate) fn watch(&self, what: Weak<dyn Timed>) -> io::Result<()> {
        let runs = {
            let mut state = lock(&self.0.state);
            if !state.stopped {
                // Nobody may ever go round, on a clock that is never moved: so what is gone is forgotten here too.
                if state.watched.len() == state.watched.capacity() {
                    state.watched.retain(|what| what.strong_count() > 0);
                }
                state.watched.push(what);
            }
            state.stopped || std::mem::replace(&mut state.started, true)
        };
        // A clock is somebody else's code.
        if !runs {
            let driver = self.start().inspect_err(|_| lock(&self.0.state).started = false)?;
            let mut state = lock(&self.0.state);
            if !state.stopped {
                state.driver = Some(driver);
            }
        }
        if let Some(Driver::Thread(bell)) = &lock(&self.0.state).driver {
            bell.ring();
        }
        Ok(())
    }

    fn start(&self) -> io::Result<Driver> {
        let rounds = Arc::downgrade(&self.0);
        let act: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            if let Some(rounds) = rounds.upgrade() {
                rounds.round();
            }
        });
        if self.0.clock.on_move(Arc::downgrade(&act)) {
            return Ok(Driver::Clock { _act: act });
        }
        let sleeper = Sleeper::new(self.0.clock.clone());
        let (bell, rounds) = (sleeper.bell().clone(), self.0.clone());
        thread::Builder::new().name("ringlog-timer".into()).spawn(move || rounds.run(sleeper))?;
        Ok(Driver::Thread(bell))
    }

    /// Nothing is looked after any more. Does not wait for a round under way.
    pub(crate) fn stop(&self) {
        let driver = {
            let mut state = lock(&self.0.state);
            state.stopped = true;
            state.watched = Vec::new();
            state.driver.take()
        };
        if let Some(Driver::Thread(bell)) = driver {
            bell.ring();
        }
    }
}

impl Rounds {
    fn run(&self, mut sleeper: Sleeper) {
        const NOTHING: [&Event; 0] = [];
        while let Some(next) = self.round() {
            let next = next.map(|next| next.max(self.clock.now().after(PAUSE)));
            sleeper.wait(NOTHING, next, || false);
        }
    }

    /// Asks everybody. `None`: it was stopped. Otherwise the time of the next round, if there is to be one.
    fn round(&self) -> Option<Option<Time>> {
        let watched = self.watched()?;
        let _here = context::enter_timer(); // all of it, destructors too: nothing of the user's waits here
        let now = self.clock.now();
        let late: Vec<_> = watched.iter().filter_map(|what| what.first(now)).collect();
        late.into_iter().for_each(|rest| rest());
        let next = watched.iter().filter_map(|what| what.tick(now)).min();
        // Each might be the last handle of its topic by now, and what the user put into that goes with it.
        watched.into_iter().for_each(drop_contained);
        Some(next)
    }

    fn watched(&self) -> Option<Vec<Arc<dyn Timed>>> {
        let mut state = lock(&self.state);
        if state.stopped {
            return None;
        }
        let alive: Vec<_> = state.watched.iter().filter_map(Weak::upgrade).collect();
        if alive.len() < state.watched.len() {
            state.watched = alive.iter().map(Arc::downgrade).collect();
        }
        Some(alive)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{PAUSE, Timed, Timer};
    use crate::sync::{Arc, Mutex, Weak, lock};
    use crate::time::{Clock, ManualClock, SystemClock, Time};
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// Wants to be asked every second, and writes down when it was.
    #[derive(Default)]
    struct Diary(Mutex<Vec<Time>>);

    impl Timed for Diary {
        fn tick(&self, now: Time) -> Option<Time> {
            lock(&self.0).push(now);
            Some(now.after(SECOND))
        }
    }

    #[test]
    fn a_clock_that_is_moved_asks_before_the_move_returns() {
        let clock = Arc::new(ManualClock::new());
        let timer = Timer::new(clock.clone());
        let (one, other) = (Arc::new(Diary::default()), Arc::new(Diary::default()));
        timer.watch(Arc::downgrade(&one) as Weak<dyn Timed>).unwrap();
        clock.advance(SECOND);
        timer.watch(Arc::downgrade(&other) as Weak<dyn Timed>).unwrap();
        clock.set(Time::ZERO);
        let second = Time::ZERO.after(SECOND);
        assert_eq!((lock(&one.0).clone(), lock(&other.0).clone()), (vec![second, Time::ZERO], vec![Time::ZERO]));
        assert_eq!(clock.sleepers(), 0, "nobody sleeps for it");
        timer.stop();
        clock.advance(SECOND);
        assert_eq!(lock(&one.0).len(), 2);
    }

    /// Asks to be asked at once, and tells who listens.
    struct Eager(Mutex<Sender<()>>);

    impl Timed for Eager {
        fn tick(&self, now: Time) -> Option<Time> {
            lock(&self.0).send(()).ok().map(|()| now)
        }
    }

    #[test]
    fn a_clock_that_runs_has_a_thread_that_asks_and_forgets_what_is_gone() {
        let timer = Timer::new(Arc::new(SystemClock::new()) as Arc<dyn Clock>);
        for _ in 0..2 {
            let (tell, told) = channel();
            let eager = Arc::new(Eager(Mutex::new(tell)));
            timer.watch(Arc::downgrade(&eager) as Weak<dyn Timed>).unwrap();
            (0..3).for_each(|_| told.recv().unwrap());
            drop(eager);
            // The channel ends with the last of them, which the timer may just be holding.
            while told.recv().is_ok() {}
        }
    }

    #[test]
    fn who_wants_to_be_asked_all_the_time_is_asked_now_and_then() {
        let timer = Timer::new(Arc::new(SystemClock::new()) as Arc<dyn Clock>);
        let (tell, told) = channel();
        let eager = Arc::new(Eager(Mutex::new(tell)));
        let began = SystemClock::new();
        timer.watch(Arc::downgrade(&eager) as Weak<dyn Timed>).unwrap();
        (0..21).for_each(|_| told.recv().unwrap());
        // Once more for the ring at the beginning.
        assert!(began.now() >= Time::ZERO.after(PAUSE * 19), "{:?}", began.now());
    }

    #[test]
    fn a_timer_that_is_stopped_watches_nothing() {
        let timer = Timer::new(Arc::new(SystemClock::new()) as Arc<dyn Clock>);
        timer.stop();
        let diary = Arc::new(Diary::default());
        timer.watch(Arc::downgrade(&diary) as Weak<dyn Timed>).unwrap();
        assert_eq!((lock(&diary.0).len(), Arc::weak_count(&diary)), (0, 0));
    }

    /// Gives up the last handle on itself when it is asked; its destructor panics.
    struct Bomb(Mutex<Option<Arc<Bomb>>>);

    impl Timed for Bomb {
        fn tick(&self, _: Time) -> Option<Time> {
            drop(lock(&self.0).take());
            None
        }
    }

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("as planned");
        }
    }

    #[test]
    fn a_destructor_that_panics_in_a_round_ends_nothing() {
        let clock = Arc::new(ManualClock::new());
        let timer = Timer::new(clock.clone());
        let (bomb, diary) = (Arc::new(Bomb(Mutex::new(None))), Arc::new(Diary::default()));
        *lock(&bomb.0) = Some(bomb.clone());
        timer.watch(Arc::downgrade(&bomb) as Weak<dyn Timed>).unwrap();
        timer.watch(Arc::downgrade(&diary) as Weak<dyn Timed>).unwrap();
        drop(bomb);
        (0..2).for_each(|_| clock.advance(SECOND));
        assert_eq!(lock(&diary.0).len(), 2);
    }
}
