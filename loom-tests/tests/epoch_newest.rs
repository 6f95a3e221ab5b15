//! The cell of last values: two publishers and a reader; old values go when nobody can be about to count them.
//!
//! With `--cfg crossbeam_loom` the collector is in the model, and fewer threads; without, nothing is collected before the
//! end, and the cell's own steps are looked at closely.
#![cfg(ringlog_loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::sync::epoch::{Fresh, Newest, Yard};

/// Its offset in a cell that loom watches, and a bit that says it was dropped.
struct Value {
    offset: UnsafeCell<usize>,
    dropped: Arc<AtomicUsize>,
}

impl Value {
    fn new(offset: usize, dropped: &Arc<AtomicUsize>) -> Fresh<Self> {
        Fresh::new(Self { offset: UnsafeCell::new(offset), dropped: dropped.clone() })
    }

    fn offset(&self) -> usize {
        // SAFETY: written before it was shared.
        self.offset.with(|offset| unsafe { *offset })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: it is ours; loom sees a write, which nobody's read may meet.
        let offset = self.offset.with_mut(|offset| unsafe { *offset });
        assert_eq!(self.dropped.fetch_or(1 << offset, Relaxed) & 1 << offset, 0, "dropped twice");
    }
}

// SAFETY: loom checks the cell's accesses.
unsafe impl Sync for Value {}

fn newer(new: &mut Value, old: &Value) -> bool {
    new.offset() > old.offset()
}

fn cell() -> (Arc<Newest<Value>>, ringlog::internals::sync::Arc<Yard<Value>>) {
    let yard = Yard::new();
    (Arc::new(Newest::new(yard.clone())), yard)
}

fn look(cell: &Newest<Value>, dropped: &AtomicUsize, tally: &Tally) -> usize {
    let Some(kept) = cell.get() else {
        tally.saw("nothing");
        return 0;
    };
    let offset = kept.offset();
    assert_eq!(dropped.load(Relaxed) & 1 << offset, 0, "dropped in a reader's hands");
    tally.saw(["", "one", "two"][offset]);
    offset
}

fn publish(cell: &Newest<Value>, offset: usize, dropped: &Arc<AtomicUsize>, tally: &Tally) {
    match cell.offer(Value::new(offset, dropped), newer) {
        Ok(()) if offset == 2 => tally.saw("newest"),
        Ok(()) => tally.saw("in order"),
        Err(_) => {
            assert_eq!(offset, 1, "an older one was in the way");
            tally.saw("overtaken");
        }
    }
}

/// Claimed in one order, offered in any.
#[cfg(not(crossbeam_loom))]
#[test]
fn two_publishers_and_a_reader() {
    let outcomes = &["nothing", "one", "two", "newest", "in order", "overtaken"];
    Model::new("newest: two publishers and a reader").preemptions(3).at_least(500).run(outcomes, |tally| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (cell, yard) = cell();
        let publishers = [1, 2].map(|offset| {
            let (cell, dropped, tally) = (cell.clone(), dropped.clone(), tally.clone());
            thread::spawn(move || publish(&cell, offset, &dropped, &tally))
        });
        let reader = thread::spawn({
            let (cell, dropped, tally) = (cell.clone(), dropped.clone(), tally.clone());
            move || {
                let before = cell.peek(Value::offset).unwrap_or(0);
                assert!(look(&cell, &dropped, &tally) >= before, "went back");
            }
        });
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        reader.join().unwrap();
        assert_eq!(cell.get().expect("there is one").offset(), 2, "the last record's value is not the last");
        drop((cell, yard));
        assert_eq!(dropped.load(Relaxed), 0b110, "all is dropped with the yard, and once");
    });
}

/// Three values are retired by two threads; a third one takes the list over.
#[cfg(not(crossbeam_loom))]
#[test]
fn two_publishers_retire_beside_a_sweep() {
    let outcomes = &["newest", "in order", "overtaken"];
    Model::new("newest: retiring").preemptions(3).at_least(500).run(outcomes, |tally| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (cell, yard) = cell();
        assert!(cell.offer(Value::new(0, &dropped), newer).is_ok());
        let publishers = [1, 2].map(|offset| {
            let (cell, dropped, tally) = (cell.clone(), dropped.clone(), tally.clone());
            thread::spawn(move || publish(&cell, offset, &dropped, &tally))
        });
        let sweeper = thread::spawn({
            let yard = yard.clone();
            move || drop(yard.sweep())
        });
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        sweeper.join().unwrap();
        drop((cell, yard));
        assert_eq!(dropped.load(Relaxed), 0b111, "all is dropped with the yard, and once");
    });
}

#[cfg(crossbeam_loom)]
#[test]
fn two_publishers_who_look() {
    let outcomes = &["one", "two", "newest", "in order", "overtaken"];
    Model::new("newest: two publishers").preemptions(1).at_least(1_000).run(outcomes, |tally| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (cell, yard) = cell();
        let publishers = [1, 2].map(|offset| {
            let (cell, dropped, tally) = (cell.clone(), dropped.clone(), tally.clone());
            thread::spawn(move || {
                publish(&cell, offset, &dropped, &tally);
                assert!(look(&cell, &dropped, &tally) >= offset, "it is there when the publish returns");
            })
        });
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        drop((cell, yard));
        assert_eq!(dropped.load(Relaxed), 0b110, "all is dropped with the yard, and once");
    });
}

#[cfg(crossbeam_loom)]
#[test]
fn a_reader_beside_sweeps() {
    let outcomes = &["nothing", "one", "two", "swept", "waits"];
    Model::new("newest: sweeps").preemptions(1).at_least(1_000).run(outcomes, |tally| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let (cell, yard) = cell();
        let publisher = thread::spawn({
            let (cell, yard, dropped, tally) = (cell.clone(), yard.clone(), dropped.clone(), tally.clone());
            move || {
                for offset in [1, 2] {
                    assert!(cell.offer(Value::new(offset, &dropped), newer).is_ok());
                }
                (0..4).for_each(|_| drop(yard.sweep()));
                tally.saw(if dropped.load(Relaxed) & 0b10 == 0 { "waits" } else { "swept" });
            }
        });
        let reader = thread::spawn({
            let (cell, dropped, tally) = (cell.clone(), dropped.clone(), tally.clone());
            move || look(&cell, &dropped, &tally)
        });
        publisher.join().unwrap();
        reader.join().unwrap();
        drop((cell, yard));
        assert_eq!(dropped.load(Relaxed), 0b110, "each is dropped once");
    });
}
