//! What producers keep of their last look at the gates: it is never taken for more room than there is, and who claims by what
//! another found sees what the groups did.
#![cfg(ringlog_loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Gate, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::{no_points, points};

/// A ring of two records and its two groups, who have had both. By the third there is room for two more, of which one is
/// promised.
fn ring() -> (Ring<u64>, [Arc<Gate>; 2]) {
    let ring = Ring::with_spares(Options::new(Capacity::new(2).unwrap(), Producers::Shared), 0).unwrap();
    ring.share();
    let gates = [(); 2].map(|()| ring.join(Start::End, 0));
    (0..2).for_each(|n| assert!(ring.try_push(n).is_ok()));
    (ring, gates)
}

fn commit(gate: &Gate) {
    gate.commit(0, Seq::ZERO, Seq::new(2)).unwrap();
}

fn covered(ring: &Ring<u64>, mut reader: Reader<u64>, from: Seq) {
    assert!(ring.end().since(from) <= 2, "more than the capacity behind the end");
    reader.jump(from);
    match reader.peek(1) {
        Peek::Ready(run) => assert_eq!((run.first(), *run.get(0)), (from, from.get())),
        Peek::Pending => {}
        Peek::Lapped { .. } => panic!("lost a record that a gate covers"),
    }
}

fn publisher(ring: &Ring<u64>, tally: &Tally) -> thread::JoinHandle<()> {
    let (ring, tally) = (ring.clone(), tally.clone());
    thread::spawn(move || match ring.try_push(3) {
        Ok(_) if points().contains(&"by the limit") => tally.saw("by what was kept"),
        Ok(_) => tally.saw("anew"),
        Err(_) => tally.saw("full"),
    })
}

/// Somebody comes in behind the limit that is kept.
#[test]
fn joining_behind_what_is_kept() {
    Model::new("join, kept").preemptions(2).at_least(50).run(&["by what was kept", "full"], |tally| {
        let (ring, gates) = ring();
        gates.iter().for_each(|gate| commit(gate));
        assert!(ring.try_push(2).is_ok());
        no_points();
        let producer = publisher(&ring, tally);
        let joiner = {
            let (ring, reader) = (ring.clone(), ring.reader(Seq::ZERO));
            thread::spawn(move || {
                let gate = ring.join(Start::Earliest, 0);
                let at = gate.position();
                ringlog::internals::sync::explore();
                covered(&ring, reader, at);
                at
            })
        };
        producer.join().unwrap();
        assert!(ring.end().since(joiner.join().unwrap()) <= 2);
    });
}

/// Somebody is moved back behind it.
#[test]
fn a_seek_back_behind_what_is_kept() {
    Model::new("seek back, kept").preemptions(2).at_least(50).run(&["by what was kept", "full"], |tally| {
        let (ring, gates) = ring();
        gates.iter().for_each(|gate| commit(gate));
        assert!(ring.try_push(2).is_ok());
        no_points();
        let producer = publisher(&ring, tally);
        let seeker = {
            let (ring, reader, [gate, _]) = (ring.clone(), ring.reader(Seq::ZERO), gates);
            thread::spawn(move || {
                let moved = ring.seek(&gate, Seq::ZERO);
                ringlog::internals::sync::explore();
                covered(&ring, reader, moved.to);
                moved.to
            })
        };
        producer.join().unwrap();
        assert!(ring.end().since(seeker.join().unwrap()) <= 2);
    });
}

/// Of two producers the second goes by what the first found, and must see what the group had done by then.
#[test]
fn what_another_found_shows_what_the_groups_did() {
    Model::new("found by another").preemptions(1).at_least(50).run(&["by what was kept", "anew", "full"], |tally| {
        let (ring, [one, other]) = ring();
        // The first is the one that is looked at first; it is the other that counts.
        commit(&one);
        no_points();
        let handled = Arc::new(UnsafeCell::new(0));
        let owner = {
            let handled = handled.clone();
            thread::spawn(move || {
                // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
                handled.with_mut(|done| unsafe { *done = 1 });
                commit(&other);
            })
        };
        let producer = |value| {
            let (ring, handled, tally) = (ring.clone(), handled.clone(), tally.clone());
            move || match ring.try_push(value) {
                Ok(_) => {
                    // SAFETY: as above.
                    assert_eq!(handled.with(|done| unsafe { *done }), 1);
                    tally.saw(if points().contains(&"by the limit") { "by what was kept" } else { "anew" });
                }
                Err(_) => tally.saw("full"),
            }
        };
        let (first, second) = (thread::spawn(producer(2)), thread::spawn(producer(3)));
        owner.join().unwrap();
        first.join().unwrap();
        second.join().unwrap();
    });
}
