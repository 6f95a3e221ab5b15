//! A pool's task is idle, queued or running: it is in one queue at most, run by one thread at a time, and nothing that was
//! wanted is forgotten.
#![cfg(ringlog_loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::pool::turn::TurnWord;

/// A task, and how often it stands in the queue.
struct Task {
    word: TurnWord,
    queued: Mutex<u64>,
    /// How much there is to do: Relaxed, so that only the word's orderings show it.
    wanted: AtomicU64,
    /// What the task has done: two threads at it at once, or one that does not see the other's, is a race that loom reports.
    done: UnsafeCell<u64>,
}

impl Task {
    fn new() -> Arc<Self> {
        let (queued, wanted, done) = (Mutex::new(0), AtomicU64::new(0), UnsafeCell::new(0));
        Arc::new(Task { word: TurnWord::new(), queued, wanted, done })
    }

    fn want(&self) -> bool {
        self.wanted.fetch_add(1, Relaxed);
        let queues = self.word.want();
        if queues {
            self.queue();
        }
        queues
    }

    fn queue(&self) {
        let mut queued = self.queued.lock().unwrap();
        *queued += 1;
        assert_eq!(*queued, 1, "it is in the queue once");
    }

    /// Takes it off the queue and runs it. `None`: it was not there. Whether something came meanwhile.
    fn run(&self) -> Option<bool> {
        {
            let mut queued = self.queued.lock().unwrap();
            *queued = queued.checked_sub(1)?;
        }
        self.word.begin();
        let wanted = self.wanted.load(Relaxed);
        self.done.with_mut(|done| {
            // SAFETY: loom checks that nobody else is at it.
            unsafe { *done = wanted }
        });
        let again = self.word.end();
        if again {
            self.queue();
        }
        Some(again)
    }
}

fn runner(task: &Arc<Task>, tally: &Tally, times: usize) -> thread::JoinHandle<()> {
    let (task, tally) = (task.clone(), tally.clone());
    thread::spawn(move || {
        for _ in 0..times {
            match task.run() {
                Some(true) => tally.saw("came meanwhile"),
                Some(false) => tally.saw("ran"),
                None => tally.saw("not queued"),
            }
        }
    })
}

// C-30
#[test]
fn what_is_wanted_is_done_by_one_thread_at_a_time() {
    Model::new("turn").run(&["came meanwhile", "ran", "not queued", "queued by both", "queued by one"], |tally| {
        let task = Task::new();
        let wanters = [(); 2].map(|()| {
            let task = task.clone();
            thread::spawn(move || task.want())
        });
        let runners = [runner(&task, tally, 2), runner(&task, tally, 1)];
        let queued = wanters.map(|wanter| wanter.join().unwrap());
        runners.into_iter().for_each(|runner| runner.join().unwrap());
        while task.run().is_some() {}
        // SAFETY: loom checks that nobody else is at it.
        let done = task.done.with(|done| unsafe { *done });
        assert_eq!(done, 2, "what came last was seen by a run that began after it");
        assert!(task.word.is_idle());
        tally.saw(if queued == [true; 2] { "queued by both" } else { "queued by one" });
    });
}
