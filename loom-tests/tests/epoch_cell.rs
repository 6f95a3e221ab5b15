//! The epoch-protected cell itself: a reader beside a replacement never sees a value that was dropped.
//!
//! Run with `RUSTFLAGS="--cfg ringlog_loom --cfg crossbeam_loom"`; without the second, a mutex stands in for the cell.
#![cfg(all(ringlog_loom, crossbeam_loom))]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use loom_tests::Model;
use ringlog::internals::sync::epoch::EpochCell;

/// Says when it is dropped.
struct Value(usize, Arc<AtomicUsize>);

impl Drop for Value {
    fn drop(&mut self) {
        self.1.fetch_or(1 << self.0, Relaxed);
    }
}

#[test]
fn a_reader_beside_a_replacement() {
    Model::new("epoch cell").preemptions(1).at_least(1_000).run(&["old", "new"], |tally| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let cell = Arc::new(EpochCell::new(Value(0, dropped.clone())));
        let reader = {
            let (cell, dropped, tally) = (cell.clone(), dropped.clone(), tally.clone());
            thread::spawn(move || {
                cell.read(|value| {
                    assert_eq!(dropped.load(Relaxed) & 1 << value.0, 0, "dropped under a reader");
                    tally.saw(["old", "new"][value.0]);
                });
            })
        };
        let writer = {
            let (cell, dropped) = (cell.clone(), dropped.clone());
            thread::spawn(move || cell.replace(Value(1, dropped)))
        };
        reader.join().unwrap();
        writer.join().unwrap();
    });
}
