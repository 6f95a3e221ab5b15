//! A pool's threads: nothing waits while nobody is awake, and nobody works unseen. Nothing times out here but by a clock that an
//! actor moves, so a wake-up that is lost is a deadlock, which loom reports.
#![cfg(ringlog_loom)]

mod clock;

use clock::handle;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::pool::crew::{Crew, PATIENCE, Size};
use ringlog::internals::pool::hand::{Hand, Rest};
use ringlog::internals::sync::spin_loop;
use ringlog::internals::time::ManualClock;

struct Pool {
    crew: Arc<Crew<u64>>,
    clock: Arc<ManualClock>,
    /// Items taken, each once.
    taken: AtomicU64,
}

impl Pool {
    fn new(threads: usize, most: usize) -> Arc<Self> {
        let (crew, clock) = (Arc::new(Crew::new(Size { threads, most })), Arc::new(ManualClock::new()));
        Arc::new(Pool { crew, clock, taken: AtomicU64::new(0) })
    }

    fn hand(&self) -> Hand<u64> {
        assert!(self.crew.grows());
        Hand::new(&self.crew, handle(&self.clock))
    }

    fn takes(&self, item: u64) {
        let before = self.taken.fetch_add(item, Relaxed);
        assert_eq!(before & item, 0, "taken once");
    }
}

fn submitter(pool: &Arc<Pool>, item: u64) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || pool.crew.submit(item))
}

/// Works until both items were taken; who takes the second one ends it all.
fn worker(pool: &Arc<Pool>, tally: &Tally) -> thread::JoinHandle<()> {
    let (pool, tally, mut hand) = (pool.clone(), tally.clone(), pool.hand());
    thread::spawn(move || {
        let mut rested = false;
        loop {
            while let Some(item) = hand.next() {
                tally.saw(if rested { "after a rest" } else { "at once" });
                let _ = hand.enters(false);
                pool.takes(item);
                hand.leaves();
                if pool.taken.load(Relaxed) == 3 {
                    pool.crew.ends();
                }
            }
            if hand.rests(None) == Rest::Ends {
                return;
            }
            rested = true;
        }
    })
}

// C-30
#[test]
fn two_publishers_and_a_thread_that_rests() {
    Model::new("crew of one").run(&["at once", "after a rest"], |tally| {
        let pool = Pool::new(1, 2);
        let worker = worker(&pool, tally);
        let submitters = [1, 2].map(|item| submitter(&pool, item));
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        worker.join().unwrap();
        assert_eq!(pool.crew.threads(), 0);
    });
}

// C-30
#[test]
fn two_publishers_and_two_threads() {
    Model::new("crew of two").run(&["at once", "after a rest"], |tally| {
        let pool = Pool::new(2, 3);
        let workers = [worker(&pool, tally), worker(&pool, tally)];
        let submitters = [1, 2].map(|item| submitter(&pool, item));
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

// One takes the first item and does not return before somebody has seen to the second: the one that stands by, when it has
// looked twice.
#[test]
fn who_hangs_is_seen() {
    Model::new("crew with one that hangs").run(&["stood in for", "parked until a tick"], |tally| {
        let pool = Pool::new(1, 2);
        let (mut first, mut other) = (pool.hand(), pool.hand());
        pool.crew.submit(1);
        let hangs = {
            let (pool, tally) = (pool.clone(), tally.clone());
            thread::spawn(move || {
                let item = first.next().expect("it was there before");
                assert!(!first.enters(false), "another one is there");
                pool.takes(item);
                pool.crew.submit(2);
                while pool.taken.load(Relaxed) != 3 {
                    if pool.crew.is_watched() {
                        tally.saw("parked until a tick");
                        pool.clock.advance(PATIENCE);
                    }
                    spin_loop();
                }
                first.leaves();
                pool.crew.ends();
                assert!(matches!(first.rests(None), Rest::Ends));
            })
        };
        let stands_by = {
            let (pool, tally) = (pool.clone(), tally.clone());
            thread::spawn(move || {
                loop {
                    while let Some(item) = other.next() {
                        tally.saw("stood in for");
                        pool.takes(item);
                    }
                    if other.rests(None) == Rest::Ends {
                        return;
                    }
                }
            })
        };
        hangs.join().unwrap();
        stands_by.join().unwrap();
    });
}
