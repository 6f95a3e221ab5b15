//! What this thread is doing: which executor steps a lane on it, and for which broker.
//!
//! A publish asks it before it waits, so that a handler never waits for a lane that only its own thread could step, and
//! so that a closing broker can tell its handlers' publishes from those of others.
#![forbid(unsafe_code)]

use super::executor::Seat;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::cell::{Cell, RefCell};

/// An identity for executors and brokers; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

impl Id {
    /// The executor that a broker's timer is, and that of whoever moves a clock which runs it: it serves no lane, and what is called
    /// there waits for none.
    pub const TIMER: Id = Id(u64::MAX);

    /// One that nobody else has. 64 bits do not run out.
    pub fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // ORD(fresh:A) Relaxed: wants uniqueness only; publishes nothing.
        Id(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// Who is stepping a lane on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here {
    /// The executor.
    pub executor: Id,
    /// The broker that the lane belongs to.
    pub broker: Id,
}

thread_local! {
    static HERE: Cell<Option<Here>> = const { Cell::new(None) };
    /// The threads that this one is of, if it is one of several that share tasks.
    static CREW: Cell<Option<Id>> = const { Cell::new(None) };
    /// Those further out, where one is inside of several.
    static OUTER: RefCell<Vec<Here>> = const { RefCell::new(Vec::new()) };
}

/// Who is stepping a lane on this thread; `None` outside handlers.
pub fn current() -> Option<Here> {
    HERE.try_with(Cell::get).ok().flatten()
}

/// Says that this thread is one of those that `crew` is the identity of.
pub fn belong_to(crew: Id) {
    let _ = CREW.try_with(|cell| cell.set(Some(crew)));
}

/// Whether what steps for `seat` may need this very thread: it steps for it now, or is one of those that do.
pub(super) fn steps(seat: &dyn Seat) -> bool {
    any(|here| here.executor == seat.executor()) || lends(seat)
}

/// Whether this thread is one of several that step for `seat`.
pub(super) fn lends(seat: &dyn Seat) -> bool {
    seat.shares().is_some_and(|crew| CREW.try_with(Cell::get).ok().flatten() == Some(crew))
}

/// Whether `is` says so of what this thread is stepping, or of what that was called from by [`enter_too`].
pub(super) fn any(is: impl Fn(Here) -> bool) -> bool {
    current().is_some_and(&is) || OUTER.try_with(|all| all.borrow().iter().any(|here| is(*here))).unwrap_or(false)
}

/// Whether this is called by a timer.
pub fn on_timer() -> bool {
    any(|here| here.executor == Id::TIMER)
}

/// Says that this is called by a timer, of whatever broker, until the guard drops.
pub fn enter_timer() -> Entered {
    enter_too(Here { executor: Id::TIMER, broker: Id::TIMER })
}

/// Whether this is a handler of a group of `broker`.
pub fn inside(broker: Id) -> bool {
    any(|here| here.broker == broker)
}

/// Says that this thread steps a lane until the guard drops; then it is what it was before.
#[derive(Debug)]
pub struct Entered {
    before: Option<Here>,
    /// Which is kept among those further out.
    kept: bool,
}

/// See [`Entered`].
pub(super) fn enter(here: Here) -> Entered {
    let before = HERE.try_with(|cell| cell.replace(Some(here))).ok().flatten();
    Entered { before, kept: false }
}

/// As [`enter`], and what this thread is inside of already stays known.
pub(super) fn enter_too(here: Here) -> Entered {
    let mut entered = enter(here);
    entered.kept = entered.before.is_some_and(|before| OUTER.try_with(|all| all.borrow_mut().push(before)).is_ok());
    entered
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = HERE.try_with(|cell| cell.set(self.before));
        if self.kept {
            let _ = OUTER.try_with(|all| all.borrow_mut().pop());
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Here, Id, any, current, enter, enter_too, inside};

    #[test]
    fn who_is_inside_already_is_inside_of_both() {
        let [outer, inner] = [(); 2].map(|()| Here { executor: Id::fresh(), broker: Id::fresh() });
        let guard = enter_too(outer);
        {
            let _inner = enter_too(inner);
            assert_eq!(current(), Some(inner));
            assert!(inside(outer.broker) && inside(inner.broker));
            assert!([outer, inner].iter().all(|one| any(|here| here.executor == one.executor)));
        }
        assert!(inside(outer.broker) && !inside(inner.broker));
        drop(guard);
        assert!(!inside(outer.broker) && current().is_none());
    }

    #[test]
    fn the_context_nests_and_survives_a_panic() {
        let (outer, inner) = (Id::fresh(), Id::fresh());
        assert_eq!(current(), None);
        let guard = enter(Here { executor: outer, broker: outer });
        let _ = crate::group::contain::contain(|| {
            let _guard = enter(Here { executor: inner, broker: inner });
            assert!(inside(inner) && !inside(outer));
            panic!("in a handler");
        });
        assert!(inside(outer));
        drop(guard);
        assert_eq!(current(), None);
    }
}
