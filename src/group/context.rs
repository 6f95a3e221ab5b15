//! What this thread is doing: which executor steps a lane on it, and for which broker.
//!
//! A publish asks it before it waits, so that a handler never waits for a lane that only its own thread could step, and
//! so that a closing broker can tell its handlers' publishes from those of others.
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use std::cell::Cell;

/// An identity for executors and brokers; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

impl Id {
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

thread_local! { static HERE: Cell<Option<Here>> = const { Cell::new(None) }; }

/// Who is stepping a lane on this thread; `None` outside handlers.
pub fn current() -> Option<Here> {
    HERE.try_with(Cell::get).ok().flatten()
}

/// Whether this is a handler of a group of `broker`.
pub fn inside(broker: Id) -> bool {
    current().is_some_and(|here| here.broker == broker)
}

/// Says that this thread steps a lane until the guard drops; then it is what it was before.
#[derive(Debug)]
pub struct Entered(Option<Here>);

/// See [`Entered`].
pub(super) fn enter(here: Here) -> Entered {
    Entered(HERE.try_with(|cell| cell.replace(Some(here))).ok().flatten())
}

/// As [`enter`], unless this thread is inside something already: what that is stays known then.
pub(super) fn enter_first(here: Here) -> Entered {
    enter(current().unwrap_or(here))
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _ = HERE.try_with(|cell| cell.set(self.0));
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Here, Id, current, enter, enter_first, inside};

    #[test]
    fn who_is_inside_already_stays_what_it_is() {
        let [outer, inner] = [(); 2].map(|()| Here { executor: Id::fresh(), broker: Id::fresh() });
        let guard = enter_first(outer);
        drop(enter_first(inner));
        let _inner = enter_first(inner);
        assert_eq!(current(), Some(outer));
        drop(guard);
        assert_eq!(current(), None);
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
