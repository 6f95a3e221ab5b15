//! Records through the ring: all of them, once, in order, at every size and every wrap.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::{BOTH, Pen, drain, everywhere, ring, ring_at};
use crate::ring::{Peek, Producers, Start, Why};
use crate::seq::Seq;

#[test]
fn capacity_is_exact_from_one_upwards_at_every_wrap() {
    for (producers, first) in everywhere() {
        for &capacity in if cfg!(miri) { &[1, 3, 9][..] } else { &[1, 2, 3, 7, 8, 9, 130] } {
            let ring = ring_at(capacity, producers, first);
            let gate = ring.join(Start::Earliest, 7);
            let (mut pen, mut reader, mut epoch_from) = (Pen::of(&ring), ring.reader(gate.position()), gate.position());
            let mut next = 0u64;
            for round in 0..if cfg!(miri) { 6 } else { 30 } {
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
    for (producers, first) in everywhere() {
        for &capacity in if cfg!(miri) { &[1, 3][..] } else { &[1, 2, 5, 128, 300] } {
            let ring = ring_at(capacity, producers, first);
            let gate = ring.join(Start::End, 0);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(gate.position()));
            let (mut sent, mut got, total) = (0u64, 0u64, if cfg!(miri) { 10 } else { 2_000 });
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
        for &capacity in if cfg!(miri) { &[1usize, 3][..] } else { &[1, 2, 3, 130] } {
            let ring = ring(capacity, producers);
            let gate = ring.join(Start::End, 0);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
            let mut too_many: Vec<u64> = (0..capacity as u64 + 1).collect();
            assert_eq!(pen.push_all(&mut too_many), Err(Why::TooLarge));
            assert_eq!(too_many.len(), capacity + 1);
            let (mut next, mut read) = (0u64, 0u64);
            for size in (0..=capacity).cycle().take(if cfg!(miri) { 12 } else { 500 }) {
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
    const PUBLISHED: u64 = if cfg!(miri) { 12 } else { 3_000 };
    for producers in BOTH {
        for &capacity in if cfg!(miri) { &[1, 3][..] } else { &[1, 3, 200] } {
            let ring = ring(capacity, producers);
            let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
            for n in 0..PUBLISHED {
                pen.push(n).unwrap();
            }
            let Peek::Lapped { earliest } = reader.peek(1) else { panic!("not lapped") };
            assert_eq!(earliest, ring.earliest());
            assert!(earliest.get() >= PUBLISHED - capacity as u64 && earliest.get() <= PUBLISHED);
            reader.jump(earliest);
            assert_eq!(drain(&mut reader), (earliest.get()..PUBLISHED).collect::<Vec<_>>());
        }
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
fn in_place_publishing_uses_memory_again_and_survives_panics() {
    let ring = ring::<Vec<u32>>(2, Producers::Exclusive);
    let (mut pen, mut reader, made) = (ring.exclusive().unwrap(), ring.reader(Seq::ZERO), AtomicUsize::new(0));
    let fresh = || {
        made.fetch_add(1, SeqCst);
        Vec::with_capacity(4)
    };
    for n in 0..if cfg!(miri) { 6 } else { 40u32 } {
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
