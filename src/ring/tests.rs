//! What a ring promises, without threads where none are needed.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc as StdArc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::{Exclusive, Options, Peek, Producers, Reader, Refused, Ring, Start, Why};
use crate::seq::{Capacity, Seq};
use crate::sync::Arc;

const FIRSTS: [u64; 6] = [0, (1 << 32) - 10, (1 << 40) - 10, (1 << 48) - 10, u64::MAX / 2 - 9, u64::MAX - 10];
const BOTH: [Producers; 2] = [Producers::Exclusive, Producers::Shared];

fn ring_at<T: Send + Sync + 'static>(capacity: usize, producers: Producers, first: u64) -> Arc<Ring<T>> {
    let capacity = Capacity::new(capacity).unwrap();
    Ring::new(Options { capacity, producers, prefault: false, first: Seq::new(first) }).unwrap()
}

fn ring<T: Send + Sync + 'static>(capacity: usize, producers: Producers) -> Arc<Ring<T>> {
    ring_at(capacity, producers, 0)
}

/// The same face for both kinds of producers.
enum Pen<T: Send + Sync + 'static> {
    One(Exclusive<T>),
    Many(Arc<Ring<T>>),
}

impl<T: Send + Sync + 'static> Pen<T> {
    fn of(ring: &Arc<Ring<T>>) -> Self {
        ring.exclusive().map_or_else(|| Self::Many(ring.clone()), Self::One)
    }

    fn push(&mut self, value: T) -> Result<Seq, Refused<T>> {
        match self {
            Self::One(one) => one.try_push(value),
            Self::Many(ring) => ring.try_push(value),
        }
    }

    fn push_all(&mut self, values: &mut Vec<T>) -> Result<std::ops::Range<Seq>, Why> {
        match self {
            Self::One(one) => one.try_push_all(values),
            Self::Many(ring) => ring.try_push_all(values),
        }
    }
}

/// Everything that is there, and on past it.
fn drain<T: Clone + Send + Sync + 'static>(reader: &mut Reader<T>) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        match reader.peek(usize::MAX) {
            Peek::Ready(run) => {
                all.extend(run.iter().cloned());
                let to = run.first().plus(run.len() as u64);
                reader.advance(to);
            }
            Peek::Pending => return all,
            Peek::Lapped { earliest } => reader.jump(earliest),
        }
    }
}

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
fn capacity_is_exact_from_one_upwards_at_every_wrap() {
    for (producers, first) in BOTH.iter().flat_map(|p| FIRSTS.map(|first| (*p, first))) {
        for capacity in [1, 2, 3, 7, 8, 9, 130] {
            let ring = ring_at(capacity, producers, first);
            let gate = ring.join(Start::Earliest, 7);
            let (mut pen, mut reader, mut epoch_from) = (Pen::of(&ring), ring.reader(gate.position()), gate.position());
            let mut next = 0u64;
            for round in 0..30 {
                let mut stored = 0;
                while let Ok(at) = pen.push(next) {
                    assert_eq!(at, Seq::new(first.wrapping_add(next)));
                    (next, stored) = (next + 1, stored + 1);
                }
                assert_eq!(stored, if round == 0 { capacity } else { 1 }, "{producers:?} {capacity} {first}");
                assert_eq!(ring.limiting(), Some((epoch_from, 7)));
                let Peek::Ready(run) = reader.peek(1) else { panic!("{producers:?} {capacity} {first}: {ring:?}") };
                assert_eq!((run.first(), *run.get(0)), (epoch_from, round));
                let to = run.first().plus(1);
                reader.advance(to);
                gate.commit(gate.epoch(), epoch_from, to).unwrap();
                epoch_from = to;
            }
        }
    }
}

#[test]
fn records_arrive_once_in_order_through_pages_and_wraps() {
    for (producers, first) in BOTH.iter().flat_map(|p| FIRSTS.map(|first| (*p, first))) {
        for capacity in [1, 2, 5, 128, 300] {
            let ring = ring_at(capacity, producers, first);
            let gate = ring.join(Start::End, 0);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(gate.position()));
            let (mut sent, mut got, total) = (0u64, 0u64, if cfg!(miri) { 40 } else { 2_000 });
            while got < total {
                while sent < total && pen.push(sent.to_string()).is_ok() {
                    sent += 1;
                }
                let from = reader.position();
                for value in drain(&mut reader) {
                    assert_eq!(value, got.to_string());
                    got += 1;
                }
                gate.commit(0, from, reader.position()).unwrap();
            }
            assert_eq!(ring.end(), Seq::new(first.wrapping_add(total)));
        }
    }
}

#[test]
fn a_batch_is_stored_whole_or_not_at_all() {
    for producers in BOTH {
        for capacity in [1usize, 2, 3, 130] {
            let ring = ring(capacity, producers);
            let gate = ring.join(Start::End, 0);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
            let mut too_many: Vec<u64> = (0..capacity as u64 + 1).collect();
            assert_eq!(pen.push_all(&mut too_many), Err(Why::TooLarge));
            assert_eq!(too_many.len(), capacity + 1);
            let (mut next, mut read) = (0u64, 0u64);
            for size in (0..=capacity).cycle().take(if cfg!(miri) { 20 } else { 500 }) {
                let mut values: Vec<u64> = (next..next + size as u64).collect();
                let room = capacity as u64 - (next - read);
                let stored = pen.push_all(&mut values);
                if size as u64 <= room {
                    assert_eq!(stored, Ok(Seq::new(next)..Seq::new(next + size as u64)));
                    assert!(values.is_empty());
                    next += size as u64;
                } else {
                    assert_eq!((stored, values.len()), (Err(Why::Full), size));
                    let seen = drain(&mut reader);
                    assert_eq!(seen, (read..next).collect::<Vec<_>>());
                    gate.commit(0, Seq::new(read), Seq::new(next)).unwrap();
                    read = next;
                }
            }
        }
    }
}

#[test]
fn without_a_gate_producers_lap_readers_who_are_told_how_far() {
    for producers in BOTH {
        for capacity in [1, 3, 200] {
            let ring = ring(capacity, producers);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
            for n in 0..3_000u64 {
                pen.push(n).unwrap();
            }
            let Peek::Lapped { earliest } = reader.peek(1) else { panic!("not lapped") };
            assert_eq!(earliest, ring.earliest());
            assert!(earliest.get() >= 3_000 - capacity as u64 && earliest.get() <= 3_000);
            reader.jump(earliest);
            assert_eq!(drain(&mut reader), (earliest.get()..3_000).collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_a_reader_holds_outlives_any_number_of_laps() {
    for producers in BOTH {
        let ring = ring::<String>(3, producers);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        pen.push("kept".to_owned()).unwrap();
        let Peek::Ready(run) = reader.peek(9) else { panic!("nothing there") };
        let kept = run.get(0);
        for n in 0..100 {
            pen.push(n.to_string()).unwrap();
        }
        assert_eq!(kept, "kept");
        assert!(ring.pages_aside() >= 1);
        let made = ring.pages_made();
        reader.release();
        for n in 0..100 {
            pen.push(n.to_string()).unwrap();
        }
        assert_eq!(ring.pages_made(), made, "pages are used again");
        assert!(made <= 2 + 2 + 1, "{made}");
    }
}

#[test]
fn many_stalled_readers_cost_a_page_each_and_no_more() {
    let ring = ring::<u64>(2, Producers::Shared);
    let mut readers = Vec::new();
    for n in 0..60u64 {
        ring.try_push(n).unwrap();
        let mut reader = ring.reader(Seq::new(n));
        assert!(matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n));
        readers.push(reader);
    }
    let made = ring.pages_made();
    assert!((30..=30 + 2 + 2).contains(&made), "{made} pages for 30 held");
    for (n, reader) in readers.iter_mut().enumerate() {
        assert!(matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n as u64), "overwritten under reader {n}");
    }
    drop(readers);
    (0..60).for_each(|n| {
        ring.try_push(n).unwrap();
    });
    assert_eq!(ring.pages_made(), made);
}

#[test]
fn a_late_gate_misses_nothing_from_where_it_lands() {
    for (producers, first) in BOTH.iter().flat_map(|p| FIRSTS.map(|first| (*p, first))) {
        let ring = ring_at(16, producers, first);
        let mut pen = Pen::of(&ring);
        for n in 0..50u64 {
            pen.push(n).unwrap();
        }
        let seq = |n: u64| Seq::new(first.wrapping_add(n));
        assert!((34..=36).contains(&ring.earliest().since(seq(0))));
        for (want, lands) in [
            (Start::Earliest, ring.earliest()),
            (Start::End, seq(50)),
            (Start::At(seq(49)), seq(49)),
            (Start::At(seq(60)), seq(50)),
            (Start::At(seq(0)), ring.earliest()),
        ] {
            let gate = ring.join(want, 3);
            assert_eq!(gate.position(), lands, "{want:?}");
            ring.leave(&gate);
        }
        let gate = ring.join(Start::Earliest, 3);
        while pen.push(50).is_ok() {}
        assert_eq!(ring.end().since(gate.position()), 16);
        assert_eq!(drain(&mut ring.reader(gate.position())).len(), 16);
        ring.leave(&gate);
        assert!(pen.push(51).is_ok());
        assert_eq!(ring.limiting(), None);
    }
}

#[test]
fn seek_takeover_and_leave_refuse_late_commits() {
    let ring = ring(8, Producers::Shared);
    let gate = ring.join(Start::End, 0);
    (0..8).for_each(|n| {
        ring.try_push(n).unwrap();
    });
    let (at, epoch) = gate.snapshot();
    assert_eq!(gate.commit(epoch, Seq::new(1), Seq::new(2)).unwrap_err().position, at);
    assert_eq!(ring.seek(&gate, Seq::new(5)), super::Moved { from: Seq::ZERO, to: Seq::new(5) });
    assert_eq!(gate.commit(epoch, at, Seq::new(1)).unwrap_err().epoch, 1);
    gate.commit(1, Seq::new(5), Seq::new(6)).unwrap();
    assert_eq!(gate.bump(), 2);
    assert!(gate.commit(1, Seq::new(6), Seq::new(7)).is_err());
    // Back, as far as what is retained: nothing was promised beyond the eighth, so all of it.
    assert_eq!(ring.seek(&gate, Seq::ZERO).to, ring.earliest());
    ring.leave(&gate);
    assert!(gate.commit(gate.epoch().wrapping_sub(1), gate.position(), Seq::new(7)).is_err());
}

#[test]
fn a_seek_to_where_it_stands_is_noticed() {
    let ring = ring::<u8>(8, Producers::Shared);
    let gate = ring.join(Start::End, 0);
    ring.try_push(1).unwrap();
    let (at, epoch) = gate.snapshot();
    ring.seek(&gate, at);
    assert!(gate.commit(epoch, at, Seq::new(1)).is_err());
}

#[test]
fn epochs_come_round_without_touching_the_position() {
    let ring = ring_at::<u8>(8, Producers::Shared, (1 << 40) - 1);
    let gate = ring.join(Start::End, 0);
    for n in 1..if cfg!(miri) { 9 } else { (1u32 << 24) + 5 } {
        assert_eq!(gate.bump(), n % (1 << 24));
    }
    assert_eq!(gate.position(), Seq::new((1 << 40) - 1));
}

#[test]
fn sealed_rings_refuse_and_keep_what_they_have() {
    for producers in BOTH {
        let ring = ring(4, producers);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        pen.push(1).unwrap();
        assert!(!ring.is_sealed());
        assert_eq!((ring.seal(), ring.seal()), (Seq::new(1), Seq::new(1)));
        assert!(ring.is_sealed());
        let refused = pen.push(2).unwrap_err();
        assert_eq!((refused.value, refused.why), (2, Why::Sealed));
        assert_eq!(pen.push_all(&mut vec![3, 4]), Err(Why::Sealed));
        assert_eq!((drain(&mut reader), ring.end()), (vec![1], Seq::new(1)));
    }
}

#[test]
fn a_full_ring_that_is_sealed_says_sealed() {
    for producers in BOTH {
        let ring = ring(1, producers);
        let _gate = ring.join(Start::End, 0);
        let mut pen = Pen::of(&ring);
        pen.push(1).unwrap();
        assert_eq!(pen.push(2).unwrap_err().why, Why::Full);
        ring.seal();
        assert_eq!(pen.push(2).unwrap_err().why, Why::Sealed);
    }
}

#[test]
fn only_the_right_producers_publish() {
    let exclusive = ring::<u8>(4, Producers::Exclusive);
    let push = AssertUnwindSafe(|| exclusive.try_push(1).is_ok());
    assert!(catch_unwind(push).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| exclusive.try_push_all(&mut vec![1]))).is_err());
    assert!(exclusive.exclusive().is_some() && exclusive.exclusive().is_none());
    assert!(ring::<u8>(4, Producers::Shared).exclusive().is_none());
}

#[test]
fn every_value_is_dropped_once_even_if_destructors_panic() {
    for producers in BOTH {
        for (capacity, pushes) in [(1usize, 7usize), (3, 3), (3, 40), (8, 25)] {
            for panics in [0, 1, 2, 3] {
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
fn in_place_publishing_uses_memory_again_and_survives_panics() {
    let ring = ring::<Vec<u32>>(2, Producers::Exclusive);
    let (mut pen, mut reader, made) = (ring.exclusive().unwrap(), ring.reader(Seq::ZERO), AtomicUsize::new(0));
    let fresh = || {
        made.fetch_add(1, SeqCst);
        Vec::with_capacity(4)
    };
    for n in 0..40u32 {
        let fails = |list: &mut Vec<u32>| {
            list.push(9);
            panic!("half way")
        };
        assert!(catch_unwind(AssertUnwindSafe(|| pen.try_push_with(fresh, fails))).is_err());
        let write = |list: &mut Vec<u32>| {
            list.clear();
            list.push(n);
        };
        assert_eq!(pen.try_push_with(fresh, write), Ok(Seq::new(n.into())));
        assert_eq!(drain(&mut reader), [vec![n]]);
    }
    assert!(made.load(SeqCst) <= ring.pages_made() * 2);
    ring.seal();
    assert_eq!(pen.try_push_with(fresh, |_| ()), Err(Why::Sealed));
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
            for value in values.iter().cycle().take(12) {
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
        let options = Options { capacity, producers, prefault: false, first: Seq::ZERO };
        assert!(Ring::<Huge>::new(options).is_err());
    }
}

#[test]
fn a_ring_that_is_touched_at_once_is_like_any_other() {
    for producers in BOTH {
        let capacity = Capacity::new(1 << 12).unwrap();
        let ring = Ring::<u64>::new(Options { capacity, producers, prefault: true, first: Seq::ZERO }).unwrap();
        Pen::of(&ring).push(5).unwrap();
        assert_eq!(drain(&mut ring.reader(Seq::ZERO)), [5]);
    }
}

#[test]
fn jump_and_release_leave_the_reader_where_it_was_told() {
    let ring = ring(64, Producers::Shared);
    (0..10u64).for_each(|n| {
        ring.try_push(n).unwrap();
    });
    let mut reader = ring.reader(Seq::new(3));
    assert!(matches!(reader.peek(2), Peek::Ready(run) if run.len() == 2 && *run.get(0) == 3));
    reader.jump(Seq::new(8));
    assert_eq!(drain(&mut reader), [8, 9]);
    reader.jump(Seq::ZERO);
    reader.release();
    assert_eq!((reader.position(), drain(&mut reader).len()), (Seq::ZERO, 10));
    reader.jump(Seq::new(1_000));
    assert!(matches!(reader.peek(1), Peek::Pending));
}

#[test]
fn two_rings_do_not_share_their_limits() {
    let (a, b) = (ring(2, Producers::Shared), ring(2, Producers::Shared));
    let (ga, gb) = (a.join(Start::End, 0), b.join(Start::End, 0));
    for _ in 0..2 {
        a.try_push(1).unwrap();
        assert!(b.try_push(1).is_ok());
        gb.commit(0, gb.position(), gb.position().plus(1)).unwrap();
    }
    assert_eq!((a.try_push(1).unwrap_err().why, b.try_push(1).is_ok()), (Why::Full, true));
    ga.commit(0, Seq::ZERO, Seq::new(1)).unwrap();
    assert!(a.try_push(1).is_ok());
}

/// Producers, gating readers, a lossy one, and one that comes and goes: dense, in order per producer, nothing lost where
/// nothing may be, nothing leaked.
fn storm(producers: Producers, capacity: usize, each: u64) {
    let ring = ring::<Box<(u64, u64)>>(capacity, producers);
    let writers = if producers == Producers::Shared { 2 } else { 1 };
    let total = each * writers;
    let gates = [ring.join(Start::End, 0), ring.join(Start::End, 1)];
    thread::scope(|scope| {
        if producers == Producers::Shared {
            for writer in 0..writers {
                let ring = &ring;
                scope.spawn(move || {
                    for n in 0..each {
                        let mut value = Box::new((writer, n));
                        while let Err(refused) = ring.try_push(value) {
                            value = refused.value;
                            thread::yield_now();
                        }
                    }
                });
            }
        } else {
            let mut pen = ring.exclusive().unwrap();
            scope.spawn(move || {
                for n in 0..each {
                    let mut value = Box::new((0, n));
                    while let Err(refused) = pen.try_push(value) {
                        value = refused.value;
                        thread::yield_now();
                    }
                }
            });
        }
        for gate in &gates {
            let ring = &ring;
            scope.spawn(move || {
                let (mut reader, mut next) = (ring.reader(gate.position()), vec![0; writers as usize]);
                while reader.position() != Seq::new(total) {
                    let Peek::Ready(run) = reader.peek(7) else {
                        thread::yield_now();
                        continue;
                    };
                    for value in run.iter() {
                        assert_eq!(value.1, next[value.0 as usize]);
                        next[value.0 as usize] += 1;
                    }
                    let (from, to) = (run.first(), run.first().plus(run.len() as u64));
                    reader.advance(to);
                    gate.commit(0, from, to).unwrap();
                }
                assert!(next.iter().all(|n| *n == each));
            });
        }
        scope.spawn(|| {
            let (mut reader, mut got, mut lost) = (ring.reader(Seq::ZERO), 0, 0);
            while reader.position() != Seq::new(total) {
                match reader.peek(3) {
                    Peek::Ready(run) => {
                        got += run.iter().map(|value| (value.0 < writers) as u64).sum::<u64>();
                        let to = run.first().plus(run.len() as u64);
                        reader.advance(to);
                    }
                    Peek::Pending => thread::yield_now(),
                    Peek::Lapped { earliest } => {
                        assert!(reader.position().precedes(earliest));
                        lost += earliest.since(reader.position());
                        reader.jump(earliest);
                    }
                }
            }
            assert_eq!(got + lost, total);
        });
        scope.spawn(|| {
            while ring.end() != Seq::new(total) {
                let gate = ring.join(Start::Earliest, 9);
                let mut reader = ring.reader(gate.position());
                assert!(!matches!(reader.peek(1), Peek::Lapped { .. }), "lost a record that its gate kept");
                ring.leave(&gate);
                thread::yield_now();
            }
        });
    });
    assert_eq!(ring.end(), Seq::new(total));
}

#[test]
fn a_storm_of_producers_and_readers_loses_nothing() {
    let each = if cfg!(miri) { 30 } else { 3_000 };
    for producers in BOTH {
        for capacity in if cfg!(miri) { &[2usize, 5][..] } else { &[1, 2, 3, 8, 200] } {
            storm(producers, *capacity, each);
        }
    }
}
