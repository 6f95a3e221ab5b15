//! Prompt rings: what everybody is past is dropped once, by somebody, not late.
#![cfg(ringlog_loom)]

mod noisy;

use loom::thread;
use loom_tests::{Model, Tally};
use noisy::{Bin, Group, Noisy, dropped, ring};
use ringlog::internals::ring::{Producers, Ring, Start};
use ringlog::internals::seq::Seq;

/// Two groups commit the same records, which are then dropped by the later of the two: exactly once, and not after it.
fn commits(capacity: usize) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let (ring, bin) = (ring(capacity, Producers::Exclusive), Bin::default());
        let mut pen = ring.exclusive().unwrap();
        let groups = [Group::new(&ring), Group::new(&ring)];
        (0..2.min(capacity as u64)).for_each(|n| assert!(pen.try_push(Noisy::new(n, &bin)).is_ok()));
        let count = 2.min(capacity as u64);
        let threads = groups.map(|mut group| {
            let bin = bin.clone();
            thread::spawn(move || {
                assert_eq!(group.run(), Ok(count));
                (0..count).filter(|nth| dropped(&bin, *nth)).count()
            })
        });
        let seen = threads.map(|thread| thread.join().unwrap());
        assert!((0..count).all(|nth| dropped(&bin, nth)), "a record was left");
        tally.saw(match seen {
            [0, _] => "dropped by the second",
            [_, 0] => "dropped by the first",
            _ => "by one while the other looked",
        });
    }
}

const WHO: &[&str] = &["dropped by the first", "dropped by the second", "by one while the other looked"];

#[test]
fn two_groups_commit_one_record() {
    Model::new("release, two groups").at_least(100).run(WHO, commits(1));
}

#[test]
fn two_groups_commit_a_page() {
    Model::new("release, two groups, a page").preemptions(2).at_least(100).run(WHO, commits(2));
}

/// Two groups with a page in which each commits in two steps, and a producer that wants the page again.
#[test]
fn a_page_is_used_again_once_it_is_empty() {
    Model::new("release, page used again").preemptions(1).at_least(100).run(&["full", "again", "read"], |tally| {
        let (ring, bin) = (ring(1, Producers::Exclusive), Bin::default());
        let mut pen = ring.exclusive().unwrap();
        let groups = [Group::new(&ring), Group::new(&ring)];
        assert!(pen.try_push(Noisy::new(0, &bin)).is_ok());
        let threads = groups.map(|mut group| {
            let tally = tally.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    if group.run().is_ok() {
                        tally.saw("read");
                    }
                }
                group
            })
        });
        let producer = {
            let (tally, bin) = (tally.clone(), bin.clone());
            thread::spawn(move || {
                for n in 1..3 {
                    match pen.try_push(Noisy::new(n, &bin)) {
                        Ok(_) => tally.saw("again"),
                        Err(refused) => {
                            std::mem::forget(refused.value);
                            tally.saw("full");
                            return n;
                        }
                    }
                }
                3
            })
        };
        let published = producer.join().unwrap();
        let mut groups = threads.map(|thread| thread.join().unwrap());
        groups.iter_mut().for_each(|group| while group.run().is_ok() {});
        assert!((0..published).all(|nth| dropped(&bin, nth)), "a record was left");
    });
}

/// Whoever moved a cursor is still dropping when the page comes round: it is not written to before that is over.
#[test]
fn a_page_comes_round_while_it_is_emptied() {
    Model::new("release, page comes round").preemptions(1).at_least(10).run(
        &["too early", "full", "the same page", "another page"],
        |tally| {
            let (ring, bin) = (ring(1, Producers::Exclusive), Bin::default());
            let (mut group, mut pen) = (Group::new(&ring), ring.exclusive().unwrap());
            assert!(pen.try_push(Noisy::new(0, &bin)).is_ok());
            let mover = {
                let (ring, gate) = (ring.clone(), group.1.clone());
                thread::spawn(move || {
                    ring.seek(&gate, Seq::new(1));
                    ring.sweep();
                })
            };
            let rest = {
                let (ring, bin, tally) = (ring.clone(), bin.clone(), tally.clone());
                thread::spawn(move || {
                    if group.1.position() == Seq::ZERO {
                        tally.saw("too early");
                        return (group, pen, 1);
                    }
                    for n in 1..4 {
                        if let Err(refused) = pen.try_push(Noisy::new(n, &bin)) {
                            std::mem::forget(refused.value);
                            tally.saw("full"); // the mover still stands where it moves the cursor to
                            return (group, pen, n);
                        }
                        assert!(n == 3 || group.run() == Ok(1));
                    }
                    tally.saw(if ring.pages_made() == 3 { "the same page" } else { "another page" });
                    (group, pen, 4)
                })
            };
            mover.join().unwrap();
            let (mut group, pen, published) = rest.join().unwrap();
            while group.run().is_ok() {}
            assert!((0..published).all(|nth| dropped(&bin, nth)), "a record was left");
            drop(pen);
        },
    );
}

/// Somebody comes in, or seeks back, where the only other group is just letting go of the records.
fn comer(seek: bool) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let (ring, bin) = (ring(2, Producers::Exclusive), Bin::default());
        let mut pen = ring.exclusive().unwrap();
        let mut group = Group::new(&ring);
        let ahead = seek.then(|| Group::new(&ring));
        (0..2).for_each(|n| assert!(pen.try_push(Noisy::new(n, &bin)).is_ok()));
        let ahead = ahead.map(|mut ahead| {
            assert_eq!(ahead.run(), Ok(2));
            ahead
        });
        let committer = thread::spawn(move || assert_eq!(group.run(), Ok(2)));
        let comer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                let mut comer = match ahead {
                    Some(ahead) => {
                        ring.seek(&ahead.1, Seq::ZERO);
                        ahead
                    }
                    None => {
                        let gate = ring.join(Start::Earliest, 0);
                        let reader = ring.reader(gate.position()).covered_by(gate.clone());
                        Group(ring.clone(), gate, reader)
                    }
                };
                ring.sweep();
                if comer.1.position() == Seq::ZERO {
                    assert_eq!(comer.run(), Ok(2));
                    tally.saw("in time");
                } else {
                    assert_eq!((comer.1.position(), comer.run()), (Seq::new(2), Err("nothing")));
                    tally.saw("too late");
                }
            })
        };
        committer.join().unwrap();
        comer.join().unwrap();
        assert!((0..2).all(|nth| dropped(&bin, nth)), "a record was left");
    }
}

#[test]
fn a_joiner_against_a_release() {
    Model::new("joiner against release").at_least(100).run(&["in time", "too late"], comer(false));
}

#[test]
fn a_seek_back_against_a_release() {
    Model::new("seek back against release").preemptions(1).at_least(100).run(&["in time", "too late"], comer(true));
}

/// Publishes records that somebody has to drop: their numbers need not be their positions.
fn publish(ring: &Ring<Noisy>, records: std::ops::Range<u64>, bin: &Bin) -> thread::JoinHandle<bool> {
    let (ring, bin) = (ring.clone(), bin.clone());
    thread::spawn(move || {
        records.clone().for_each(|n| {
            let at = ring.try_push(Noisy::new(n, &bin)).map_err(drop).unwrap();
            ring.published(at, 1);
        });
        records.clone().all(|n| dropped(&bin, n))
    })
}

/// Nobody listens: each producer drops its own, and what an earlier one was late with.
#[test]
fn late_producers_with_no_group() {
    Model::new("late producer, no group").preemptions(1).at_least(100).run(&["own", "not own"], |tally| {
        let (ring, bin) = (ring(2, Producers::Shared), Bin::default());
        let producers = [0, 1].map(|n| publish(&ring, n..n + 1, &bin));
        let own = producers.map(|producer| producer.join().unwrap());
        assert!(dropped(&bin, 0) && dropped(&bin, 1), "a record was left");
        tally.saw(if own == [true, true] { "own" } else { "not own" });
    });
}

/// A cursor goes past a record that has been claimed and is not published yet, or just has been.
fn past(what: fn(&Ring<Noisy>, Group)) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let (ring, bin) = (ring(1, Producers::Shared), Bin::default());
        let group = Group::new(&ring);
        let producer = publish(&ring, 0..1, &bin);
        let mover = {
            let (ring, bin) = (ring.clone(), bin.clone());
            thread::spawn(move || {
                what(&ring, group);
                dropped(&bin, 0)
            })
        };
        let (own, theirs) = (producer.join().unwrap(), mover.join().unwrap());
        // Where the cursor landed before the record, somebody else has to come.
        ring.limiting().is_some_and(|(at, _)| at == Seq::ZERO).then(|| {
            tally.saw("before it");
            assert!(!dropped(&bin, 0), "dropped before its time");
        });
        if ring.limiting().is_none_or(|(at, _)| at != Seq::ZERO) {
            assert!(dropped(&bin, 0), "the record was left");
            tally.saw(match (own, theirs) {
                (true, false) => "by its publisher",
                (false, true) => "by the mover",
                _ => "while both were there",
            });
        }
    }
}

#[test]
fn a_seek_past_a_late_producer() {
    Model::new("seek past a late producer").at_least(100).run(
        &["before it", "by its publisher", "by the mover", "while both were there"],
        past(|ring, group| {
            ring.seek(&group.1, Seq::new(1));
            ring.sweep();
        }),
    );
}

#[test]
fn the_last_group_leaves_beside_a_producer() {
    Model::new("last group leaves").at_least(100).run(
        &["by its publisher", "by the mover", "while both were there"],
        past(|ring, group| {
            ring.leave(&group.1);
            ring.sweep();
        }),
    );
}

/// The first group comes beside a producer: it reads the record, or its publisher has dropped it.
#[test]
fn the_first_group_comes_beside_a_producer() {
    Model::new("first group comes").at_least(100).run(&["read", "missed"], |tally| {
        let (ring, bin) = (ring(2, Producers::Shared), Bin::default());
        let producer = publish(&ring, 0..1, &bin);
        let comer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                let group = Group::new(&ring);
                tally.saw(if group.1.position() == Seq::ZERO { "read" } else { "missed" });
                group
            })
        };
        producer.join().unwrap();
        let mut group = comer.join().unwrap();
        if group.1.position() == Seq::ZERO {
            assert!(!dropped(&bin, 0), "dropped under a cursor");
            assert_eq!(group.run(), Ok(1));
        }
        assert!(dropped(&bin, 0), "the record was left");
    });
}
