//! Times beside records: each record's own, through page borders, laps and pages set aside.
#![forbid(unsafe_code)]

use super::{BOTH, Pen};
use crate::ring::{Options, Peek, Producers, Ring, Start};
use crate::seq::{Capacity, Seq};

fn timed(capacity: usize, producers: Producers, lossy: bool) -> Ring<u64> {
    let options = Options::new(Capacity::new(capacity).unwrap(), producers);
    Ring::new(Options { aged: true, lossy, ..options }).unwrap()
}

/// The time of record `n` in these tests.
fn of(n: u64) -> u64 {
    n * 10 + 3
}

/// Publishes the next `count` records in the `way`th of all ways, one time for all.
fn publish(pen: &mut Pen<u64>, next: u64, count: u64, way: u64) {
    let mut values: Vec<u64> = (next..next + count).collect();
    match (pen, way % 4) {
        (Pen::One(pen), 0) => _ = pen.try_push_all_at(&mut values, of(next)).unwrap(),
        (Pen::Many(ring), 0) => _ = ring.try_push_all_at(&mut values, of(next)).unwrap(),
        (Pen::One(pen), 1) => values.iter().for_each(|n| _ = pen.try_push_from_at(&mut Some(*n), of(next)).unwrap()),
        (Pen::Many(ring), _) => values.iter().for_each(|n| _ = ring.try_push_from_at(&mut Some(*n), of(next)).unwrap()),
        (Pen::One(pen), 2) => {
            values.iter().for_each(|n| _ = pen.try_push_with_at(|| 0, |slot| *slot = *n, of(next)).unwrap());
        }
        (Pen::One(pen), _) => {
            for n in &values {
                if pen.stage(*n).is_err() {
                    pen.publish_staged_at(of(next)).unwrap();
                    pen.stage(*n).unwrap();
                }
            }
            pen.publish_staged_at(of(next)).unwrap();
        }
    }
}

/// Both kinds of producers with each capacity; a few of them where everything takes long.
fn each_with(capacities: &[usize]) -> impl Iterator<Item = (Producers, usize)> {
    let some = if cfg!(miri) { 2 } else { capacities.len() };
    BOTH.into_iter().flat_map(move |producers| capacities[..some].iter().map(move |capacity| (producers, *capacity)))
}

#[test]
fn every_record_has_its_own_time_however_it_was_published() {
    for (producers, capacity) in each_with(&[1, 2, 3, 7, 40, 300]) {
        let ring = timed(capacity, producers, true);
        let (mut pen, mut next, mut held) = (Pen::of(&ring), 0, Vec::new());
        let mut starts = std::collections::BTreeSet::new();
        for way in 0..if cfg!(miri) { 8 } else { 60 } {
            let count = 1 + way % capacity as u64;
            publish(&mut pen, next, count, way);
            starts.insert(next);
            next += count;
            let mut reader = ring.reader(ring.earliest());
            while let Peek::Ready(run) = reader.peek(3) {
                for (i, n) in run.iter().enumerate() {
                    let started = starts.range(..=*n).next_back().unwrap();
                    assert_eq!(run.time(i), of(*started), "{capacity} {producers:?}: record {n}");
                }
                let to = run.first().plus(run.len() as u64);
                reader.advance(to);
            }
            assert_eq!(reader.position(), Seq::new(next));
            if way % 7 == 0 {
                held.push(reader); // its page is set aside
            }
        }
    }
}

#[test]
fn rings_without_times_have_none() {
    let ring = super::ring::<u64>(4, Producers::Shared);
    ring.try_push_from_at(&mut Some(1), 7).unwrap();
    let mut reader = ring.reader(Seq::ZERO);
    assert!(matches!(reader.peek(1), Peek::Ready(run) if run.time(0) == 0));
}

// what is too old holds nobody back, whoever still needs it.
#[test]
fn gates_do_not_hold_producers_back_further_than_the_floor() {
    for (producers, capacity) in each_with(&[1, 2, 3, 4, 7, 300]).map(|(p, c)| (p, c as u64)) {
        let ring = timed(capacity as usize, producers, false);
        let gate = ring.join(Start::Earliest, 5);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        (0..capacity).for_each(|n| publish(&mut pen, n, 1, 1));
        assert!(pen.push(0).is_err());
        for n in 0..3 * capacity {
            ring.raise_floor(Seq::new(n + 1));
            assert_eq!(ring.limiting(), Some((Seq::new(n + 1), 5)));
            publish(&mut pen, n + capacity, 1, 1);
            assert!(pen.push(0).is_err());
            assert_eq!(ring.earliest(), Seq::new(n + 1));
        }
        // The line neither goes back nor beyond the end.
        ring.raise_floor(Seq::ZERO);
        assert!(matches!(reader.peek(1), Peek::Lapped { earliest } if earliest == Seq::new(3 * capacity)));
        reader.jump(Seq::new(3 * capacity));
        assert!(matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == 3 * capacity));
        ring.raise_floor(Seq::new(1 << 60));
        assert_eq!((ring.earliest(), gate.position()), (ring.end(), Seq::ZERO));
        assert_eq!(ring.join(Start::Earliest, 0).position(), ring.end());
    }
}
