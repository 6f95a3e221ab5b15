//! Rings whose producers wait for nobody: exactly one record goes with each that comes.
#![forbid(unsafe_code)]

use super::{BOTH, FIRSTS, Pen};
use crate::ring::{Options, Peek, Producers, Ring, Start};
use crate::seq::{Capacity, Seq};

const CAPACITIES: &[usize] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 3, 4, 7, 8, 300] };

fn lossy_at<T: Send + Sync + 'static>(capacity: usize, producers: Producers, first: u64) -> Ring<T> {
    let options = Options::new(Capacity::new(capacity).unwrap(), producers);
    Ring::new(Options { lossy: true, first: Seq::new(first), ..options }).unwrap()
}

fn lossy<T: Send + Sync + 'static>(capacity: usize, producers: Producers) -> Ring<T> {
    lossy_at(capacity, producers, 0)
}

fn everywhere() -> impl Iterator<Item = (usize, Producers, u64)> {
    let producers = |capacity| BOTH.iter().map(move |producers| (capacity, *producers));
    let first = |(capacity, producers)| FIRSTS.iter().map(move |first| (capacity, producers, *first));
    CAPACITIES.iter().copied().flat_map(producers).flat_map(first)
}

//
#[test]
fn exactly_one_record_goes_with_each_that_comes() {
    for (capacity, producers, first) in everywhere() {
        let ring = lossy_at(capacity, producers, first);
        let mut pen = Pen::of(&ring);
        let seq = |n: u64| Seq::new(first.wrapping_add(n));
        for n in 0..3 * capacity as u64 + 5 {
            assert_eq!(ring.earliest(), seq(n.saturating_sub(capacity as u64)), "{capacity} {producers:?} {n}");
            pen.push(n).unwrap();
        }
        let mut reader = ring.reader(ring.earliest());
        assert_eq!(super::drain(&mut reader).len(), capacity);
    }
}

#[test]
fn a_batch_sheds_as_many_as_it_adds() {
    for (capacity, producers, first) in everywhere() {
        let ring = lossy_at(capacity, producers, first);
        let (mut pen, mut end) = (Pen::of(&ring), 0);
        for size in (1..=capacity as u64).chain([1, capacity as u64, 2.min(capacity as u64)]) {
            let mut values: Vec<u64> = (end..end + size).collect();
            pen.push_all(&mut values).unwrap();
            end += size;
            let earliest = ring.earliest().since(Seq::new(first));
            assert_eq!(earliest, end.saturating_sub(capacity as u64), "{capacity} {producers:?} {size}");
            let all = super::drain(&mut ring.reader(ring.earliest()));
            assert_eq!(all, (earliest..end).collect::<Vec<_>>());
        }
    }
}

/// Whatever is read is what was written there, and what is not read is counted.
#[test]
fn what_a_reader_gets_and_what_it_lost_add_up() {
    for (capacity, producers, first) in everywhere() {
        let ring = lossy_at(capacity, producers, first);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::new(first)));
        let (mut got, mut lost) = (0, 0);
        for n in 0..4 * capacity as u64 + 9 {
            pen.push(n).unwrap();
            if n % 5 != 4 && n % 7 != 3 {
                continue;
            }
            let (at, earliest) = (reader.position(), ring.earliest());
            match reader.peek(1 + (n % 3) as usize) {
                Peek::Ready(run) => {
                    assert!(!at.precedes(earliest), "{capacity}: read at {at}, which is gone");
                    let expected = run.first().since(Seq::new(first))..;
                    assert!(run.iter().copied().eq(expected.take(run.len())));
                    got += run.len() as u64;
                    let to = run.first().plus(run.len() as u64);
                    reader.advance(to);
                }
                Peek::Pending => assert_eq!(at, ring.end()),
                Peek::Lapped { earliest: to } => {
                    assert_eq!(to, earliest, "{capacity}: not where the log begins");
                    lost += to.since(at);
                    reader.jump(to);
                }
            }
        }
        assert_eq!(reader.position().since(Seq::new(first)), got + lost);
    }
}

#[test]
fn a_run_that_was_handed_out_is_the_readers_and_what_follows_is_not() {
    for producers in BOTH {
        let ring = lossy(8, producers);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        (0..8u64).for_each(|n| _ = pen.push(n).unwrap());
        let Peek::Ready(run) = reader.peek(2) else { panic!("nothing there") };
        (8..11).for_each(|n| _ = pen.push(n).unwrap());
        assert!(run.iter().copied().eq([0, 1]));
        reader.advance(Seq::new(2));
        assert!(matches!(reader.peek(9), Peek::Lapped { earliest } if earliest == Seq::new(3)));
        reader.jump(Seq::new(3));
        assert!(matches!(reader.peek(9), Peek::Ready(run) if *run.get(0) == 3));
    }
}

/// Its page is set aside, once, and the others go on being used again.
#[test]
fn a_reader_that_never_returns_keeps_its_page_and_nothing_else() {
    for (producers, &capacity) in BOTH.into_iter().flat_map(|p| CAPACITIES.iter().map(move |c| (p, c))) {
        let ring = lossy(capacity, producers);
        let (mut pen, mut stuck) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        pen.push("kept".to_owned()).unwrap();
        let Peek::Ready(run) = stuck.peek(1) else { panic!("nothing there") };
        for n in 0..20 * capacity {
            pen.push(n.to_string()).unwrap();
        }
        let geometry = crate::seq::Geometry::new(Capacity::new(capacity).unwrap());
        assert!(ring.pages_made() <= geometry.pages() + 2 + 1, "{capacity}: {} pages", ring.pages_made());
        assert!(ring.pages_aside() >= 1);
        assert_eq!(run.get(0), "kept");
    }
}

#[test]
fn what_a_batch_that_is_refused_has_cost_is_known() {
    let ring = lossy(7, Producers::Exclusive);
    let mut pen = Pen::of(&ring);
    (0..10u64).for_each(|n| _ = pen.push(n).unwrap());
    assert_eq!(ring.earliest(), Seq::new(3));
    let mut reader = ring.reader(Seq::new(3));
    ring.seal();
    assert!(pen.push_all(&mut (10..17).collect()).is_err());
    // The pages for it were fetched, so some that are gone made room; what remains is read without a gap.
    let earliest = ring.earliest();
    match reader.peek(9) {
        Peek::Lapped { earliest: to } => assert_eq!(to, earliest),
        _ => assert_eq!(earliest, Seq::new(3)),
    }
    assert_eq!(super::drain(&mut ring.reader(earliest)), (earliest.get()..10).collect::<Vec<_>>());
}

#[test]
fn cursors_that_follow_hold_nobody_back_and_land_on_what_is_retained() {
    for (capacity, producers, first) in everywhere() {
        let ring = lossy_at(capacity, producers, first);
        let mut pen = Pen::of(&ring);
        let early = ring.follow(Start::Earliest, 1);
        for n in 0..3 * capacity as u64 {
            pen.push(n).unwrap();
        }
        assert_eq!((ring.limiting(), early.position()), (None, Seq::new(first)));
        assert_eq!(ring.slowest(), Some(Seq::new(first)));
        for (want, lands) in [
            (Start::Earliest, ring.earliest()),
            (Start::End, ring.end()),
            (Start::At(Seq::new(first)), ring.earliest()),
            (Start::At(ring.end().minus(1)), ring.end().minus(1)),
        ] {
            let late = ring.follow(want, 2);
            assert_eq!(late.position(), lands, "{capacity} {want:?}");
            assert_eq!(ring.seek(&late, Seq::new(first)).to, ring.earliest());
            assert_eq!(late.epoch(), 1);
            ring.leave(&late);
        }
    }
}

#[test]
fn a_gate_on_a_lossy_ring_holds_producers_back_and_misses_nothing() {
    for (capacity, producers, first) in everywhere() {
        let ring = lossy_at(capacity, producers, first);
        let mut pen = Pen::of(&ring);
        (0..3 * capacity as u64 + 1).for_each(|n| _ = pen.push(n).unwrap());
        let gate = ring.join(Start::Earliest, 0);
        let mut reader = ring.reader(gate.position());
        while pen.push(0).is_ok() {}
        assert_eq!(ring.end().since(gate.position()), capacity as u64);
        assert_eq!(super::drain(&mut reader).len(), capacity);
    }
}

/// Lost by so many records that its word, which counts them modulo 2^40, would soon be taken for another.
#[test]
fn a_cursor_left_far_behind_is_lifted_in_time_and_says_over_how_many() {
    for (first, timed) in FIRSTS.iter().flat_map(|first| [(*first, false), (*first, true)]) {
        let options = Options::new(Capacity::new(8).unwrap(), Producers::Shared);
        let ring = Ring::new(Options { lossy: !timed, aged: timed, first: Seq::new(first), ..options }).unwrap();
        let join = |at, tag| if timed { ring.join(at, tag) } else { ring.follow(at, tag) };
        let (stuck, moving) = (join(Start::Earliest, 0), join(Start::Earliest, 1));
        let (seq, step, mut at, mut passed) = (|n| Seq::new(first).plus(n), 1u64 << 34, 0u64, 0);
        for n in 1..80 {
            at = n * step - 4;
            ring.skip_to(at);
            ring.raise_floor(seq(at));
            (0..9).for_each(|n| assert_eq!(ring.try_push(n).is_ok(), !timed || n < 8));
            ring.raise_floor(ring.end());
            let (position, epoch) = moving.snapshot();
            assert_eq!((epoch, position), (0, seq(passed)));
            passed = at + 8;
            moving.commit(0, position, seq(passed)).unwrap();
            let (lifted, to) = stuck.lifted();
            let (position, epoch) = stuck.snapshot();
            assert_eq!(lifted, position.since(seq(0)), "after {n} steps");
            assert_eq!((epoch, to), if lifted == 0 { (0, Seq::ZERO) } else { (epoch.max(1), position) });
            assert!(ring.end().since(position) < (1 << 38) + (1 << 37), "{n}: {position} in epoch {epoch}");
        }
        let epoch = stuck.epoch();
        assert!((3..=6).contains(&epoch), "lifted {epoch} times over {at}");
        assert!(stuck.commit(0, seq(0), seq(1)).is_err());
        assert_eq!(moving.lifted(), (0, Seq::ZERO));
    }
}

#[test]
fn what_is_in_hand_is_known_until_the_cursor_moves() {
    let ring = lossy::<u8>(8, Producers::Shared);
    (0..8).for_each(|n| _ = ring.try_push(n).unwrap());
    let gate = ring.follow(Start::Earliest, 0);
    assert_eq!(gate.taken(), Seq::ZERO);
    gate.take(Seq::new(4), 0);
    assert_eq!(gate.taken(), Seq::new(4));
    gate.commit(0, Seq::ZERO, Seq::new(6)).unwrap();
    assert_eq!(gate.taken(), Seq::new(6));
    gate.take(Seq::new(8), 0);
    ring.seek(&gate, Seq::new(1));
    assert_eq!(gate.taken(), Seq::new(1));
}

/// The page behind the border was fetched for the batch, in the place of one with records that would still fit.
#[test]
fn what_a_batch_under_way_has_cost_already_is_known() {
    let ring = lossy(64, Producers::Exclusive);
    let mut pen = ring.exclusive().unwrap();
    (0..124u64).for_each(|n| _ = pen.try_push(n).unwrap());
    let mut reader = ring.reader(Seq::new(60));
    assert_eq!(ring.earliest(), Seq::new(60));
    (124..132).for_each(|n| pen.stage(n).unwrap());
    assert_eq!(ring.earliest(), Seq::new(64));
    assert!(matches!(reader.peek(9), Peek::Lapped { earliest } if earliest == Seq::new(64)));
    pen.abandon();
    assert_eq!(super::drain(&mut ring.reader(Seq::new(64))).len(), 60);
    (124..129).for_each(|n| _ = pen.try_push(n).unwrap());
    assert_eq!(ring.earliest(), Seq::new(65));
}
