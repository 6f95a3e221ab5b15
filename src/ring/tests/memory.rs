//! Values and memory: every shape, each dropped once, none where there is none.
#![forbid(unsafe_code)]

use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::{BOTH, Pen, drain, ring};
use crate::ring::{Options, Ring};
use crate::seq::{Capacity, Seq};

/// Counts drops, and panics in some of them.
#[derive(Clone)]
struct Counted(StdArc<AtomicUsize>, bool);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        assert!(!self.1, "a destructor that panics");
    }
}

#[test]
fn every_value_is_dropped_once_even_if_destructors_panic() {
    const RUNS: [(usize, usize); 4] = [(1, 7), (3, 8), (3, 40), (8, 25)];
    for producers in BOTH {
        for &(capacity, pushes) in if cfg!(miri) { &RUNS[..2] } else { &RUNS[..] } {
            for &panics in if cfg!(miri) { &[0, 2][..] } else { &[0, 1, 2, 3] } {
                let drops = StdArc::new(AtomicUsize::new(0));
                let value = |n: usize| Counted(drops.clone(), panics > 0 && n % panics == 0);
                let ring = ring(capacity, producers);
                let mut pen = Pen::of(&ring);
                for n in 0..pushes {
                    pen.push(value(n)).unwrap();
                }
                let mut batch: Vec<_> = (0..capacity).map(value).collect();
                pen.push_all(&mut batch).unwrap();
                drop(pen);
                drop(ring);
                assert_eq!(drops.load(SeqCst), pushes + capacity, "{producers:?} {capacity} {pushes} {panics}");
            }
        }
    }
}

#[test]
fn payloads_of_every_shape() {
    #[derive(Clone, Debug, PartialEq)]
    #[repr(align(128))]
    struct Wide(u8);
    fn check<T: Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static>(values: [T; 3]) {
        for producers in BOTH {
            let ring = ring(2, producers);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
            for value in values.iter().cycle().take(if cfg!(miri) { 3 } else { 12 }) {
                pen.push(value.clone()).unwrap();
                assert_eq!(drain(&mut reader), std::slice::from_ref(value));
            }
            pen.push_all(&mut vec![values[0].clone(), values[1].clone()]).unwrap();
            assert_eq!(drain(&mut reader), &values[..2]);
        }
    }
    check([(), (), ()]);
    check([Wide(1), Wide(2), Wide(3)]);
    check(["a", "", "c"]);
    check([true, false, true]);
    check([1u64, 2, u64::MAX]);
    check([std::num::NonZeroU64::MIN; 3]);
    check([Box::new(1), Box::new(2), Box::new(3)]);
    check([[7u8; 33], [8; 33], [9; 33]]);
    if !cfg!(miri) {
        check([[7u8; 1 << 16], [8; 1 << 16], [9; 1 << 16]]);
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    type Huge = [u8; 1 << 40];
    let capacity = Capacity::MAX;
    for producers in BOTH {
        let options = Options::new(capacity, producers);
        assert!(Ring::<Huge>::new(options).is_err());
    }
}

#[test]
fn a_ring_that_is_touched_at_once_is_like_any_other() {
    for producers in BOTH {
        let capacity = Capacity::new(if cfg!(miri) { 1 << 5 } else { 1 << 12 }).unwrap();
        let ring = Ring::<u64>::new(Options { prefault: true, ..Options::new(capacity, producers) }).unwrap();
        Pen::of(&ring).push(5).unwrap();
        assert_eq!(drain(&mut ring.reader(Seq::ZERO)), [5]);
    }
}
