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
    all: u64,
}

impl Pool {
    fn new(threads: usize, most: usize, all: u64) -> Arc<Self> {
        let (crew, clock) = (Arc::new(Crew::new(Size { threads, most })), Arc::new(ManualClock::new()));
        Arc::new(Pool { crew, clock, taken: AtomicU64::new(0), all })
    }

    fn hand(&self) -> Hand<u64> {
        assert!(self.crew.grows());
        Hand::new(&self.crew, handle(&self.clock))
    }

    /// Until the second item was taken: by the other.
    fn hangs(&self, tally: &Tally) {
        self.crew.submit(2);
        while self.taken.load(Relaxed) != 3 {
            if self.crew.is_watched() {
                tally.saw("parked until a tick");
                self.clock.advance(PATIENCE);
            }
            spin_loop();
        }
        self.crew.ends();
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

/// Works until all items were taken; who takes the last one ends it all.
fn worker(pool: &Arc<Pool>, tally: &Tally) -> thread::JoinHandle<()> {
    let (pool, tally, mut hand) = (pool.clone(), tally.clone(), pool.hand());
    thread::spawn(move || {
        let mut rested = false;
        loop {
            while let Some(item) = hand.take(false) {
                tally.saw(if rested { "after a rest" } else { "at once" });
                let _ = hand.enters(0, false);
                pool.takes(item);
                hand.leaves();
                if pool.taken.load(Relaxed) == pool.all {
                    pool.crew.ends();
                }
            }
            if hand.rests(|| None) == Rest::Ends {
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
        let pool = Pool::new(1, 2, 3);
        let worker = worker(&pool, tally);
        let submitters = [1, 2].map(|item| submitter(&pool, item));
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        worker.join().unwrap();
        assert_eq!(pool.crew.threads(), 0);
    });
}

// C-30
#[test]
fn two_threads_and_a_publisher() {
    Model::new("crew of two").preemptions(1).run(&["at once", "after a rest"], |tally| {
        let pool = Pool::new(2, 3, 1);
        let workers = [worker(&pool, tally), worker(&pool, tally)];
        let submitter = submitter(&pool, 1);
        submitter.join().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

// Who takes the first item does not return before somebody has seen to the second: the one that stands by, when it has looked
// twice.
#[test]
fn who_hangs_is_seen() {
    Model::new("crew with one that hangs").cut_at(10_000).run(&["stood in for", "parked until a tick"], |tally| {
        let pool = Pool::new(1, 2, 3);
        pool.crew.submit(1);
        let hands = [pool.hand(), pool.hand()];
        let both = hands.map(|mut hand| {
            let (pool, tally) = (pool.clone(), tally.clone());
            thread::spawn(move || {
                loop {
                    while let Some(item) = hand.take(false) {
                        let _ = hand.enters(0, false); // no third may be started
                        pool.takes(item);
                        if item == 1 {
                            pool.hangs(&tally);
                        } else {
                            tally.saw("stood in for");
                        }
                        hand.leaves();
                    }
                    if hand.rests(|| None) == Rest::Ends {
                        return;
                    }
                }
            })
        });
        both.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
