//! Gates that come, go and move while producers run: what a gate covers is never lost, and nothing exceeds the capacity.
#![cfg(ringlog_loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Gate, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::{Capacity, Seq};

/// A ring; a shared one is claimed by exchange from the start (`ring_bias` is about what comes before).
fn ring<T: Send + Sync + 'static>(capacity: usize, producers: Producers) -> Ring<T> {
    let capacity = Capacity::new(capacity).unwrap();
    let ring = Ring::with_spares(Options::new(capacity, producers), 0).unwrap();
    ring.share();
    ring
}

/// A gate that stands at `from` covers everything from there on.
fn covered(ring: &Ring<u64>, mut reader: Reader<u64>, from: Seq) {
    assert!(ring.end().since(from) <= ring.capacity().get(), "more than the capacity behind the end");
    reader.jump(from);
    match reader.peek(1) {
        Peek::Ready(run) => assert_eq!((run.first(), *run.get(0)), (from, from.get())),
        Peek::Pending => {}
        Peek::Lapped { .. } => panic!("lost a record that a gate covers"),
    }
}

fn publisher(ring: &Ring<u64>, count: u64, tally: &Tally) -> thread::JoinHandle<()> {
    let (mut pen, tally) = (ring.exclusive().unwrap(), tally.clone());
    thread::spawn(move || {
        for n in 0..count {
            if pen.try_push(n).is_err() {
                tally.saw("full");
                return;
            }
        }
    })
}

fn joins(capacity: usize, count: u64) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring::<u64>(capacity, Producers::Exclusive);
        let producer = publisher(&ring, count, tally);
        let joiner = {
            let (ring, reader, tally) = (ring.clone(), ring.reader(Seq::ZERO), tally.clone());
            thread::spawn(move || {
                let gate = ring.join(Start::Earliest, 0);
                let at = gate.position();
                ringlog::internals::sync::explore();
                covered(&ring, reader, at);
                tally.saw(if at == Seq::ZERO { "from the start" } else { "late" });
                if capacity > 1 {
                    return;
                }
                ring.leave(&gate);
                assert!(gate.commit(0, at, at).is_err());
            })
        };
        producer.join().unwrap();
        joiner.join().unwrap();
    }
}

#[test]
fn joining_and_leaving_beside_a_producer() {
    Model::new("join, leave").preemptions(1).at_least(100).run(&["from the start", "late", "full"], joins(1, 3));
}

#[test]
fn joining_beside_a_producer_on_pages_of_two() {
    Model::new("join, two records a page")
        .preemptions(1)
        .at_least(100)
        .run(&["from the start", "late", "full"], joins(2, 5));
}

/// The same beside a shared producer, whose raise is a promise to others too.
#[test]
fn joining_beside_a_shared_producer() {
    Model::new("join, shared").preemptions(1).at_least(100).run(
        &["stored", "full", "from the start", "late"],
        |tally| {
            let ring = ring::<u64>(1, Producers::Shared);
            let producer = {
                let (ring, tally) = (ring.clone(), tally.clone());
                thread::spawn(move || {
                    for n in 0..2 {
                        tally.saw(if ring.try_push(n).is_ok() { "stored" } else { "full" });
                    }
                })
            };
            let joiner = {
                let (ring, reader, tally) = (ring.clone(), ring.reader(Seq::ZERO), tally.clone());
                thread::spawn(move || {
                    let gate = ring.join(Start::Earliest, 0);
                    let at = gate.position();
                    ringlog::internals::sync::explore();
                    covered(&ring, reader, at);
                    tally.saw(if at == Seq::ZERO { "from the start" } else { "late" });
                    gate
                })
            };
            producer.join().unwrap();
            let gate = joiner.join().unwrap();
            assert!(ring.end().since(gate.position()) <= 1, "more than the capacity behind the end");
        },
    );
}

/// A seek back against a raise that may have looked before: it lands where everything is still there.
#[test]
fn a_seek_back_beside_a_producer() {
    Model::new("seek back").preemptions(1).at_least(100).run(&["whole way", "part of the way", "full"], |tally| {
        let ring = ring::<u64>(2, Producers::Exclusive);
        let gate = ring.join(Start::End, 0);
        let mut pen = ring.exclusive().unwrap();
        pen.try_push(0).unwrap();
        pen.try_push(1).unwrap();
        gate.commit(0, Seq::ZERO, Seq::new(2)).unwrap();
        let producer = {
            let tally = tally.clone();
            thread::spawn(move || {
                for n in 2..5 {
                    if pen.try_push(n).is_err() {
                        tally.saw("full");
                        return;
                    }
                }
            })
        };
        let seeker = {
            let (ring, reader, tally) = (ring.clone(), ring.reader(Seq::ZERO), tally.clone());
            thread::spawn(move || {
                let moved = ring.seek(&gate, Seq::ZERO);
                assert_eq!((moved.to, gate.epoch()), (gate.position(), 1));
                ringlog::internals::sync::explore();
                covered(&ring, reader, moved.to);
                tally.saw(if moved.to == Seq::ZERO { "whole way" } else { "part of the way" });
                gate
            })
        };
        producer.join().unwrap();
        let gate = seeker.join().unwrap();
        assert!(ring.end().since(gate.position()) <= 2, "more than the capacity behind the end");
    });
}

/// A gate that is moved back shows no place, not for a moment, that is not retained for it: its owner may commit from
/// there at once.
#[test]
fn a_seek_back_watched_by_the_owner() {
    Model::new("seek back, watched").at_least(100).run(&["early", "moved", "full", "stored"], |tally| {
        let ring = ring::<u64>(2, Producers::Exclusive);
        let gate = ring.join(Start::End, 0);
        let mut pen = ring.exclusive().unwrap();
        pen.try_push(0).unwrap();
        pen.try_push(1).unwrap();
        gate.commit(0, Seq::ZERO, Seq::new(2)).unwrap();
        let producer = {
            let tally = tally.clone();
            thread::spawn(move || tally.saw(if pen.try_push(2).is_ok() { "stored" } else { "full" }))
        };
        let seeker = {
            let (ring, gate) = (ring.clone(), gate.clone());
            thread::spawn(move || ring.seek(&gate, Seq::ZERO))
        };
        let owner = {
            let (reader, tally) = (ring.reader(Seq::ZERO), tally.clone());
            thread::spawn(move || {
                let (at, epoch) = gate.snapshot();
                if epoch == 0 {
                    return tally.saw("early");
                }
                covered(&ring, reader, at);
                gate.commit(epoch, at, at).unwrap();
                tally.saw("moved");
            })
        };
        producer.join().unwrap();
        seeker.join().unwrap();
        owner.join().unwrap();
    });
}

/// A late commit changes nothing: either it came before the move, or it is refused. What was done before a commit or a
/// move is visible to whoever sees it.
fn moved(mover: fn(&Ring<u64>, &Gate) -> Seq) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring::<u64>(4, Producers::Shared);
        let gate = ring.join(Start::End, 0);
        (0..4).for_each(|n| assert!(ring.try_push(n).is_ok()));
        let (handled, prepared) = (Arc::new(UnsafeCell::new(0)), Arc::new(UnsafeCell::new(0)));
        let owner = {
            let (gate, tally, handled) = (gate.clone(), tally.clone(), handled.clone());
            thread::spawn(move || {
                // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
                handled.with_mut(|done| unsafe { *done = 1 });
                match gate.commit(0, Seq::ZERO, Seq::new(3)) {
                    Ok(()) => tally.saw("before"),
                    Err(_) => tally.saw("refused"),
                }
            })
        };
        let other = {
            let (ring, gate, prepared) = (ring.clone(), gate.clone(), prepared.clone());
            thread::spawn(move || {
                // SAFETY: as above.
                prepared.with_mut(|done| unsafe { *done = 1 });
                let from = mover(&ring, &gate);
                if from == Seq::new(3) {
                    // SAFETY: as above.
                    let done = handled.with(|done| unsafe { *done });
                    assert_eq!(done, 1);
                }
                from
            })
        };
        let watcher = {
            let (gate, tally) = (gate.clone(), tally.clone());
            thread::spawn(move || {
                if gate.epoch() == 1 {
                    // SAFETY: as above.
                    let done = prepared.with(|done| unsafe { *done });
                    assert_eq!(done, 1);
                    tally.saw("seen");
                }
            })
        };
        owner.join().unwrap();
        watcher.join().unwrap();
        let from = other.join().unwrap();
        assert!([Seq::ZERO, Seq::new(3)].contains(&from));
        assert_eq!(gate.epoch(), 1);
    }
}

#[test]
fn a_commit_against_a_seek() {
    Model::new("commit against seek").at_least(10).run(
        &["before", "refused", "seen"],
        moved(|ring, gate| {
            let moved = ring.seek(gate, Seq::new(1));
            assert_eq!(moved.to, Seq::new(1));
            // Not a further look at the gate, which would be what orders us.
            moved.from
        }),
    );
}

/// Of a commit and a move that both are from one place, exactly one comes about.
#[test]
fn a_commit_against_one_from_outside() {
    Model::new("commit against one from outside").at_least(4).run(&["owner", "outside"], |tally| {
        let ring = ring::<u64>(4, Producers::Shared);
        let gate = ring.join(Start::End, 0);
        (0..4).for_each(|n| assert!(ring.try_push(n).is_ok()));
        let owner = {
            let gate = gate.clone();
            thread::spawn(move || gate.commit(0, Seq::ZERO, Seq::new(3)).is_ok())
        };
        let outside = {
            let (ring, gate) = (ring.clone(), gate.clone());
            thread::spawn(move || ring.seek_from(&gate, Some(Seq::ZERO), Seq::new(1)).is_ok())
        };
        let (owner, outside) = (owner.join().unwrap(), outside.join().unwrap());
        assert_ne!(owner, outside, "both or neither");
        tally.saw(if owner { "owner" } else { "outside" });
        assert_eq!(gate.snapshot(), if owner { (Seq::new(3), 0) } else { (Seq::new(1), 1) });
    });
}

#[test]
fn a_commit_against_a_takeover() {
    Model::new("commit against takeover").at_least(10).run(
        &["before", "refused", "seen"],
        moved(|_, gate| {
            assert_eq!(gate.bump(), 1);
            gate.position()
        }),
    );
}
