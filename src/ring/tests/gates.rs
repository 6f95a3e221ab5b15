//! Cursors that hold producers back: where they land, and whose commits count.
#![forbid(unsafe_code)]

use super::{Pen, drain, everywhere, ring, ring_at};
use crate::ring::{Moved, Producers, Start};
use crate::seq::Seq;

#[test]
fn a_late_gate_misses_nothing_from_where_it_lands() {
    for (producers, first) in everywhere() {
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

// A-T18
#[test]
fn seek_takeover_and_leave_refuse_late_commits() {
    let ring = ring(8, Producers::Shared);
    let gate = ring.join(Start::End, 0);
    (0..8).for_each(|n| {
        ring.try_push(n).unwrap();
    });
    let (at, epoch) = gate.snapshot();
    assert_eq!(gate.commit(epoch, Seq::new(1), Seq::new(2)).unwrap_err().position, at);
    assert_eq!(ring.seek(&gate, Seq::new(5)), Moved { from: Seq::ZERO, to: Seq::new(5) });
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
