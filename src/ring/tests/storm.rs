//! Everybody at once.
#![forbid(unsafe_code)]

use std::thread;

use super::{BOTH, ring};
use crate::ring::{Options, Peek, Producers, Ring, Start};
use crate::seq::{Capacity, Seq};

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
    let each = if cfg!(miri) { 8 } else { 3_000 };
    for producers in BOTH {
        for capacity in if cfg!(miri) { &[2usize][..] } else { &[1, 2, 3, 8, 200] } {
            storm(producers, *capacity, each);
        }
    }
}

fn text(writer: u64, n: u64) -> String {
    format!("record {n} of writer {writer}")
}

/// Producers that wait for nobody, and two readers of strings that sit on what they have while they are lapped: each
/// accounts for every record, and what it holds stays whole.
fn shed(producers: Producers, capacity: usize, each: u64) {
    let options = Options { lossy: true, ..Options::new(Capacity::new(capacity).unwrap(), producers) };
    let ring = Ring::<String>::new(options).unwrap();
    let writers = if producers == Producers::Shared { 2 } else { 1 };
    let total = each * writers;
    let readers: Vec<_> = (0..2).map(|_| ring.reader(Seq::ZERO)).collect();
    thread::scope(|scope| {
        for writer in 0..writers {
            let (ring, mut pen) = (&ring, ring.exclusive());
            scope.spawn(move || {
                for n in 0..each {
                    let stored = match &mut pen {
                        Some(pen) => pen.try_push(text(writer, n)),
                        None => ring.try_push(text(writer, n)),
                    };
                    assert!(stored.is_ok(), "a producer was held back");
                }
            });
        }
        for mut reader in readers {
            scope.spawn(move || {
                let (mut got, mut lost, mut next) = (0, 0, vec![0; writers as usize]);
                while reader.position() != Seq::new(total) {
                    match reader.peek(3) {
                        Peek::Ready(run) => {
                            let seen: Vec<String> = run.iter().cloned().collect();
                            (0..3).for_each(|_| thread::yield_now());
                            assert!(run.iter().eq(seen.iter()), "it changed in hand");
                            for record in &seen {
                                let place = |writer: &u64| {
                                    (next[*writer as usize]..each).find(|n| *record == text(*writer, *n))
                                };
                                let (writer, n) =
                                    (0..writers).find_map(|w| Some((w, place(&w)?))).expect("in order, whole");
                                next[writer as usize] = n + 1;
                            }
                            got += seen.len() as u64;
                            let to = run.first().plus(seen.len() as u64);
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
        }
    });
    let most = ring.geometry.pages() + 2 + 2 + 2 * writers as usize;
    assert!(ring.pages_made() <= most, "{} pages", ring.pages_made());
}

// A-46, X27
#[test]
fn readers_that_are_lapped_account_for_every_record_and_hold_whole_ones() {
    let each = if cfg!(miri) { 8 } else { 200 };
    for producers in BOTH {
        for capacity in if cfg!(miri) { &[1usize, 2][..] } else { &[1, 2, 3, 4, 1_024] } {
            shed(producers, *capacity, each);
        }
    }
}
