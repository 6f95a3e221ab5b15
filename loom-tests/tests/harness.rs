//! The harness itself: it sees both outcomes of a race, and it refuses a model that looked at nothing.
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use loom::thread;
use loom_tests::{Model, model, must_fail};

/// Publishes a value through a flag; `strong` says whether the flag is released.
fn publish(strong: bool) -> impl Fn(&loom_tests::Tally) + Send + Sync + 'static {
    move |tally| {
        let (cell, flag) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU32::new(0)));
        let reader = {
            let (cell, flag, tally) = (cell.clone(), flag.clone(), tally.clone());
            thread::spawn(move || match flag.load(Ordering::Acquire) {
                0 => tally.saw("early"),
                _ => {
                    assert_eq!(cell.load(Ordering::Relaxed), 7, "saw the flag without the value");
                    tally.saw("late");
                }
            })
        };
        let writer = thread::spawn(move || {
            cell.store(7, Ordering::Relaxed);
            flag.store(1, if strong { Ordering::Release } else { Ordering::Relaxed });
        });
        writer.join().unwrap();
        reader.join().unwrap();
    }
}

#[test]
fn both_outcomes_of_a_race_are_seen() {
    Model::new("publish").at_least(3).run(&["early", "late"], publish(true));
}

#[test]
fn a_relaxed_publish_is_caught() {
    must_fail("a_relaxed_publish_is_caught", 2, "", publish(false));
}

#[test]
#[should_panic(expected = "never saw [\"never\"]")]
fn an_outcome_that_never_occurs_fails_the_model() {
    Model::new("never").at_least(1).run(&["never"], |_| {
        thread::spawn(|| {}).join().unwrap();
    });
}

#[test]
#[should_panic(expected = "expected at least 10")]
fn a_model_that_explores_one_execution_fails() {
    model("vacuous", 2, &["ran"], |tally| tally.saw("ran"));
}

#[test]
fn an_outcome_that_is_not_listed_fails_the_model() {
    must_fail("an_outcome_that_is_not_listed_fails_the_model", 2, "is not one this model allows", |tally| {
        tally.saw("unlisted");
    });
}

#[test]
fn a_deadlock_is_a_failure_not_an_abort_of_the_suite() {
    must_fail("a_deadlock_is_a_failure_not_an_abort_of_the_suite", 2, "deadlock", |_| {
        let (lock, bell) = (Arc::new(loom::sync::Mutex::new(())), Arc::new(loom::sync::Condvar::new()));
        let sleeper = thread::spawn(move || drop(bell.wait(lock.lock().unwrap())));
        sleeper.join().unwrap();
    });
}

#[test]
fn sequentially_consistent_fences_order_a_store_before_a_load() {
    model("store buffering", 3, &["left", "right", "both"], |tally| {
        let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let side = |mine: usize| {
            let words = words.clone();
            thread::spawn(move || {
                words[mine].store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                words[1 - mine].load(Ordering::Relaxed)
            })
        };
        let (left, right) = (side(0), side(1));
        match (left.join().unwrap(), right.join().unwrap()) {
            (0, 1) => tally.saw("left"),
            (1, 0) => tally.saw("right"),
            (1, 1) => tally.saw("both"),
            _ => panic!("both sides missed the other's store"),
        }
    });
}
