//! One thread's part in a [crew](super::crew): where it finds work, whom it stands in for, and its rest.
#![forbid(unsafe_code)]

use super::crew::{Bench, CHUNK, Crew, LINGER, LOBBY_EVERY, PATIENCE, Places};
use crate::sync::Arc;
use crate::sync::cow::Cached;
use crate::sync::hint::light_barrier;
use crate::time::{Clock, Time};
use crate::wait::{Sleeper, Wait};

/// What a look before sleep found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Work,
    /// Somebody is awake, and nobody would see it hang.
    Watch,
    Over,
}

/// How a rest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// There is something to do, or it is time.
    Over,
    /// This thread is to end.
    Ends,
}

/// One thread's part in a crew.
#[derive(Debug)]
pub struct Hand<I> {
    crew: Arc<Crew<I>>,
    bench: Arc<Bench<I>>,
    /// Out of its place while this thread sleeps.
    sleeper: Option<Sleeper>,
    clock: Arc<dyn Clock>,
    all: Cached<Vec<Arc<Bench<I>>>>,
    /// How often the others had entered or left user code when it looked last.
    seen: Vec<(Arc<Bench<I>>, u64)>,
    stuck: Vec<Arc<Bench<I>>>,
    taken: Vec<I>,
    turn: u32,
}

impl<I> Hand<I> {
    /// A thread that has been [counted](Crew::grows) begins, awake.
    pub fn new(crew: &Arc<Crew<I>>, clock: Arc<dyn Clock>) -> Self {
        let bench = Bench::new();
        crew.gets_up();
        let mine = bench.clone();
        crew.benches.update(move |all| all.iter().cloned().chain([mine]).collect());
        let (sleeper, all) = (Some(Sleeper::new(clock.clone())), crew.benches.cached());
        Hand {
            crew: crew.clone(),
            bench,
            sleeper,
            clock,
            all,
            seen: Vec::new(),
            stuck: Vec::new(),
            taken: Vec::new(),
            turn: 0,
        }
    }

    /// The next thing to do: one's own first (or the lobby's, if the last one was `long`), then another thread's. `None` also if
    /// there are others enough.
    pub fn take(&mut self, long: bool) -> Option<I> {
        self.turn = self.turn.wrapping_add(1);
        if self.crew.awake() > self.crew.size.threads && self.is_surplus() {
            self.gives_back();
            return None;
        }
        let visits = long || self.turn % LOBBY_EVERY == 0;
        let first = if visits { self.fetch() } else { None };
        first.or_else(|| self.own()).or_else(|| self.fetch()).or_else(|| self.steal())
    }

    /// Behind what this thread has to do.
    pub fn put(&self, item: I) {
        self.bench.with(|places| places.queue.push_back(item));
    }

    /// The same of many.
    pub fn put_all(&self, items: impl Iterator<Item = I>) {
        self.bench.with(|places| places.queue.extend(items));
    }

    /// Something to do once there is nothing else.
    pub fn put_later(&self, item: I) {
        self.bench.with(|places| places.later.push(item));
    }

    /// All of that.
    pub fn later(&self) -> Vec<I> {
        self.bench.with(|places| std::mem::take(&mut places.later))
    }

    /// Looks at all of that.
    pub fn looks_at_later(&self, look: impl FnMut(&I)) {
        let mut later = self.later();
        later.iter().for_each(look);
        self.bench.with(|places| {
            if places.later.is_empty() {
                std::mem::swap(&mut places.later, &mut later); // it allocates nothing
            } else {
                places.later.extend(later);
            }
        });
    }

    /// How much there is of that.
    pub fn has_later(&self) -> usize {
        self.bench.has_later()
    }

    /// The clock that it rests on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// User code begins. Left undone meanwhile are, besides what waits in queues, all but `own` of what was put there for later;
    /// and what is `timed`. True: nobody is left to see it hang, and a thread is to be started, if [it may](Crew::grows).
    #[inline]
    #[must_use]
    pub fn enters(&mut self, own: usize, timed: bool) -> bool {
        self.bench.counts();
        light_barrier();
        let few = self.crew.awake() < self.crew.size.threads;
        (few || !self.crew.is_watched()) && self.is_alone(own, timed, few)
    }

    /// Notifies one more if something is left: for others to do, or to be seen if this thread hangs.
    fn is_alone(&mut self, own: usize, timed: bool, few: bool) -> bool {
        let benches = self.all.load();
        let left = |bench: &Arc<Bench<I>>| bench.has() > 0 || (!Arc::ptr_eq(bench, &self.bench) && bench.may_give());
        let queued = self.bench.has_later() > own || benches.iter().any(left);
        let left = queued || self.crew.waiting() > 0;
        if self.crew.is_watched() && !(few && left) {
            return false;
        }
        let alone = self.crew.awake() >= self.crew.threads();
        if !alone && (left || timed) {
            self.crew.work.notify();
        }
        alone
    }

    /// User code is over.
    #[inline]
    pub fn leaves(&self) {
        self.bench.counts();
    }

    /// Whether it may look again for a while before it rests: others are not enough.
    pub fn may_spin(&self) -> bool {
        self.crew.awake() <= self.crew.size.threads && !self.crew.is_over()
    }

    fn own(&self) -> Option<I> {
        if self.bench.has() == 0 {
            return None;
        }
        self.bench.with(|places| places.queue.pop_front())
    }

    fn fetch(&mut self) -> Option<I> {
        if self.crew.waiting() == 0 {
            return None;
        }
        let taken = &mut self.taken;
        self.crew.with_lobby(|lobby| taken.extend(lobby.drain(..lobby.len().min(CHUNK))));
        if taken.len() > 1 {
            self.bench.with(|places| places.queue.extend(taken.drain(1..)));
        }
        taken.pop()
    }

    /// Half of what another has, with what that left for later, if it is in user code; or all, if it is stuck.
    fn steal(&mut self) -> Option<I> {
        let (own, stuck) = (&self.bench, &self.stuck);
        let is_stuck = |other: &Arc<Bench<I>>| stuck.iter().any(|one| Arc::ptr_eq(one, other));
        let others = self.all.load().iter().filter(|other| !Arc::ptr_eq(own, other));
        for other in others.filter(|other| other.may_give() || is_stuck(other)) {
            let rest = other.with(|places| if is_stuck(other) { places.empty() } else { places.half(other.is_away()) });
            if !rest.is_empty() {
                return own.with(|places| {
                    places.queue.extend(rest);
                    places.queue.pop_front()
                });
            }
        }
        None
    }

    /// What is in this thread's hands goes back to everybody.
    fn gives_back(&self) {
        let all = self.bench.with(Places::empty);
        if !all.is_empty() {
            self.crew.admits(all.into_iter());
        }
    }

    /// Whether others enough are at work.
    fn is_surplus(&self) -> bool {
        self.crew.awake() > self.crew.size.threads + self.still_stuck()
    }

    fn still_stuck(&self) -> usize {
        let known = self.seen.iter().filter(|(bench, runs)| bench.runs() == *runs);
        known.filter(|(bench, _)| self.stuck.iter().any(|one| Arc::ptr_eq(one, bench))).count()
    }

    /// Looks who has been in the same user code since the last look.
    fn ticks(&mut self) {
        let own = &self.bench;
        let others = self.all.load().iter().filter(|other| !Arc::ptr_eq(own, other));
        let now: Vec<_> = others.map(|other| (other.clone(), other.runs())).collect();
        let before =
            |bench: &Arc<Bench<I>>| self.seen.iter().find(|(one, _)| Arc::ptr_eq(one, bench)).map(|seen| seen.1);
        let stuck = now.iter().filter(|(bench, runs)| runs % 2 == 1 && before(bench) == Some(*runs));
        self.stuck = stuck.map(|(bench, _)| bench.clone()).collect();
        self.seen = now;
    }

    /// Whether there is something for a thread that gets up now. To be asked after this one was counted as parked (inv. 1).
    fn has_work(&mut self) -> bool {
        let lobby = self.crew.is_waited_for();
        if self.crew.awake() >= self.crew.size.threads + self.still_stuck() {
            return false;
        }
        let (own, stuck) = (&self.bench, &self.stuck);
        let is_stuck = |other: &Arc<Bench<I>>| stuck.iter().any(|one| Arc::ptr_eq(one, other));
        let left = |other: &Arc<Bench<I>>| other.may_give() || (is_stuck(other) && other.has() + other.has_later() > 0);
        lobby || self.all.load().iter().any(|other| !Arc::ptr_eq(own, other) && left(other))
    }

    fn look(&mut self, timed: bool) -> Found {
        if self.crew.is_over() {
            Found::Over
        } else if self.has_work() {
            Found::Work
        } else if !timed && self.crew.awake() > 0 && !self.crew.is_watched() {
            Found::Watch
        } else {
            Found::Nothing
        }
    }

    /// Sleeps until there is something to do, or it is `due`, which others may change: it is asked before each sleep.
    pub fn rests(&mut self, due: impl Fn() -> Option<Time>) -> Rest {
        self.gives_back();
        let crew = self.crew.clone();
        crew.lies_down();
        let begun = self.clock.now();
        loop {
            let timed = crew.awake() > 0 && crew.watches();
            let spare = crew.threads() > crew.size.threads + 1;
            let now = self.clock.now();
            let tick = timed.then(|| now + PATIENCE);
            let goes = spare.then(|| begun + LINGER);
            let until = [due(), tick, goes].into_iter().flatten().min();
            let (found, wait) = self.sleeps(until, timed);
            if timed {
                crew.watches_no_more();
            }
            if wait == Wait::TimedOut && timed {
                self.ticks();
            }
            let now = self.clock.now();
            let up = match found {
                Found::Over => {
                    crew.shrinks();
                    self.retires();
                    return Rest::Ends;
                }
                Found::Work => true,
                Found::Watch => continue,
                Found::Nothing => due().is_some_and(|due| due <= now) || (timed && self.has_work()),
            };
            if up {
                crew.gets_up();
                return Rest::Over;
            }
            let size = crew.size.threads + 1;
            if goes.is_some_and(|goes| goes <= now) && crew.recount(|threads| (threads > size).then(|| threads - 1)) {
                self.retires();
                return Rest::Ends;
            }
        }
    }

    fn sleeps(&mut self, until: Option<Time>, timed: bool) -> (Found, Wait) {
        let (crew, clock) = (self.crew.clone(), self.clock.clone());
        let mut sleeper = self.sleeper.take().unwrap_or_else(|| Sleeper::new(clock.clone()));
        let (mut found, mut looked) = (Found::Nothing, false);
        let wait = sleeper.wait([&crew.work], until, || {
            // What there is at the end of a tick nobody had to announce.
            let over = looked && until.is_some_and(|until| until <= clock.now());
            looked = true;
            found = if over { Found::Nothing } else { self.look(timed) };
            found != Found::Nothing
        });
        self.sleeper = Some(sleeper);
        (found, wait)
    }

    fn retires(&self) {
        let own = &self.bench;
        self.crew.benches.update(|all| all.iter().filter(|other| !Arc::ptr_eq(own, other)).cloned().collect());
    }
}
