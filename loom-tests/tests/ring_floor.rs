//! The floor: what is too old holds nobody back, and nobody loses what lies above it.
#![cfg(ringlog_loom)]

use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Exclusive, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::explore;

/// A ring of one record, which is there, and its producer.
fn full(lossy: bool) -> (Ring<u64>, Exclusive<u64>) {
    let options = Options { lossy, aged: !lossy, ..Options::new(Capacity::new(1).unwrap(), Producers::Exclusive) };
    let ring = Ring::with_spares(options, 0).unwrap();
    let mut pen = ring.exclusive().unwrap();
    pen.try_push_from_at(&mut Some(0), 100).unwrap();
    (ring, pen)
}

fn raise(ring: &Ring<u64>) -> thread::JoinHandle<()> {
    let ring = ring.clone();
    thread::spawn(move || ring.raise_floor(Seq::new(1)))
}

/// Publishes record 1, if there is room.
fn publish(mut pen: Exclusive<u64>, tally: &Tally) -> thread::JoinHandle<Exclusive<u64>> {
    let tally = tally.clone();
    thread::spawn(move || {
        tally.saw(if pen.try_push_from_at(&mut Some(1), 101).is_ok() { "stored" } else { "full" });
        pen
    })
}

/// Everything from `at` on is there, with its time, and nothing is missing.
fn whole(ring: &Ring<u64>, at: Seq) {
    let mut reader = ring.reader(at);
    while reader.position() != ring.end() {
        let at = reader.position();
        let Peek::Ready(run) = reader.peek(9) else { panic!("{at} is not there") };
        assert!((0..run.len()).all(|i| *run.get(i) == at.get() + i as u64 && run.time(i) == 100 + run.get(i)));
        let to = at.plus(run.len() as u64);
        reader.advance(to);
    }
}

/// A gate that never moves, and a reader behind it with the record that becomes too old.
#[test]
fn a_raised_floor_lets_producers_past_a_gate_and_leaves_readers_what_they_hold() {
    let outcomes = &["stored", "full", "in hand", "gone"];
    Model::new("floor against publish and take").at_least(100).run(outcomes, |tally| {
        let (ring, pen) = full(false);
        let gate = ring.join(Start::At(Seq::ZERO), 7);
        let lands = gate.position();
        let mut reader = ring.reader(Seq::ZERO);
        let (raiser, producer) = (raise(&ring), publish(pen, tally));
        let taker = {
            let tally = tally.clone();
            thread::spawn(move || match reader.peek(1) {
                Peek::Ready(run) => {
                    assert_eq!((*run.get(0), run.time(0)), (0, 100));
                    explore();
                    assert_eq!((*run.get(0), run.time(0)), (0, 100), "overwritten in hand");
                    tally.saw("in hand");
                }
                Peek::Lapped { earliest } => {
                    assert_eq!(earliest, Seq::new(1));
                    tally.saw("gone");
                }
                Peek::Pending => panic!("it was there before anybody began"),
            })
        };
        taker.join().unwrap();
        raiser.join().unwrap();
        let mut pen = producer.join().unwrap();
        assert_eq!((gate.position(), ring.earliest()), (lands, Seq::new(1)));
        if ring.end() == Seq::new(1) {
            pen.try_push_from_at(&mut Some(1), 101).unwrap();
        }
        assert!(pen.try_push(2).is_err(), "the floor is as far as it was raised");
        whole(&ring, Seq::new(1));
    });
}

#[test]
fn who_joins_while_the_floor_is_raised_has_all_that_lies_above_both() {
    let outcomes = &["stored", "full", "lands before", "lands behind"];
    Model::new("floor against join").at_least(100).run(outcomes, |tally| {
        let (ring, pen) = full(false);
        let _stuck = ring.join(Start::At(Seq::ZERO), 7);
        let (raiser, producer) = (raise(&ring), publish(pen, tally));
        let joiner = {
            let ring = ring.clone();
            thread::spawn(move || ring.join(Start::Earliest, 8))
        };
        let gate = joiner.join().unwrap();
        raiser.join().unwrap();
        let mut pen = producer.join().unwrap();
        let from = gate.position();
        tally.saw(if from == Seq::ZERO { "lands before" } else { "lands behind" });
        assert!(from <= Seq::new(1));
        whole(&ring, from.later(Seq::new(1)));
        while pen.try_push_from_at(&mut Some(ring.end().get()), 100 + ring.end().get()).is_ok() {}
        assert_eq!(ring.end(), Seq::new(2), "beyond what the gates and the floor allow");
        whole(&ring, Seq::new(1));
    });
}

/// Reads or passes a gap, and counts both.
fn look(reader: &mut Reader<u64>) -> Option<(u64, u64)> {
    let at = reader.position();
    match reader.peek(9) {
        Peek::Ready(run) => {
            assert!(run.iter().enumerate().all(|(i, value)| *value == at.get() + i as u64));
            let to = at.plus(run.len() as u64);
            reader.advance(to);
            Some((to.since(at), 0))
        }
        Peek::Lapped { earliest } => {
            assert!(at.precedes(earliest), "lapped, and not forwards");
            reader.jump(earliest);
            Some((0, earliest.since(at)))
        }
        Peek::Pending => None,
    }
}

/// A cursor that comes in while records go: from where it lands each one is delivered or known to be lost.
fn follower(start: Start, tally: &Tally) {
    let (ring, mut pen) = full(true);
    let producer = thread::spawn(move || (1..3).for_each(|n| assert!(pen.try_push(n).is_ok(), "held back by {n}")));
    let joiner = {
        let (ring, tally) = (ring.clone(), tally.clone());
        thread::spawn(move || {
            let gate = ring.follow(start, 7);
            let mut reader = ring.reader(gate.position());
            tally.saw(match gate.position().get() {
                0 => "lands at the first",
                1 => "lands at the second",
                _ => "lands behind",
            });
            let mut sum = (0, 0);
            if let Some((got, lost)) = look(&mut reader) {
                sum = (got, lost);
            }
            reader.release();
            (gate, reader, sum)
        })
    };
    producer.join().unwrap();
    let (gate, mut reader, (mut got, mut lost)) = joiner.join().unwrap();
    while let Some((more, gone)) = look(&mut reader) {
        (got, lost) = (got + more, lost + gone);
    }
    assert_eq!((got + lost, reader.position()), (3 - gate.position().get(), Seq::new(3)));
    tally.saw(if lost > 0 { "lost some" } else { "lost none" });
    assert_eq!((ring.slowest(), ring.limiting()), (Some(gate.position()), None));
}

#[test]
fn a_follower_joins_at_the_earliest_while_records_go() {
    let outcomes = &["lands at the first", "lands at the second", "lands behind", "lost some", "lost none"];
    Model::new("follower, earliest").at_least(100).run(outcomes, |tally| follower(Start::Earliest, tally));
}

#[test]
fn a_follower_joins_at_the_end_while_records_go() {
    let outcomes = &["lands at the second", "lands behind", "lost some", "lost none"];
    Model::new("follower, end").at_least(100).run(outcomes, |tally| follower(Start::End, tally));
}
