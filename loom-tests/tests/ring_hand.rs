//! Prompt rings: what a handler has in hand is not dropped under it, wherever its cursor is moved.
#![cfg(ringlog_loom)]

mod noisy;

use loom::thread;
use loom_tests::{Model, Tally};
use noisy::{Bin, Group, Noisy, dropped, ring, ring_with};
use ringlog::internals::ring::{Gate, Options, Peek, Producers, Ring};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::explore;

/// What somebody does to a group's cursor while the group's handler runs, and another group commits.
fn in_hand(what: fn(&Ring<Noisy>, &Gate)) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let options = Options::new(Capacity::new(2).unwrap(), Producers::Exclusive);
        let (ring, bin) = (ring_with(Options { aged: true, ..options }), Bin::default());
        let mut pen = ring.exclusive().unwrap();
        let (mut slow, mut other) = (Group::new(&ring), Group::new(&ring));
        (0..2).for_each(|n| assert!(pen.try_push(Noisy::new(n, &bin)).is_ok()));
        assert_eq!(other.run(), Ok(2));
        let mover = {
            let (ring, gate) = (ring.clone(), slow.1.clone());
            thread::spawn(move || what(&ring, &gate))
        };
        let reader = {
            let tally = tally.clone();
            thread::spawn(move || {
                tally.saw(slow.run().map_or_else(|why| why, |_| "committed"));
                slow
            })
        };
        mover.join().unwrap();
        let slow = reader.join().unwrap();
        assert!((0..2).all(|nth| dropped(&bin, nth)), "a record was left");
        drop(slow);
    }
}

#[test]
fn a_hand_against_a_seek() {
    Model::new("hand against seek").at_least(100).run(
        &["committed", "fenced", "nothing"],
        in_hand(|ring, gate| {
            ring.seek(gate, Seq::new(2));
            ring.sweep();
        }),
    );
}

#[test]
fn a_hand_against_a_delete() {
    Model::new("hand against delete").at_least(100).run(
        &["committed", "fenced", "nothing"],
        in_hand(|ring, gate| {
            ring.leave(gate);
            ring.sweep();
        }),
    );
}

#[test]
fn a_hand_against_the_floor() {
    Model::new("hand against floor").at_least(100).run(
        &["committed", "nothing", "lapped"],
        in_hand(|ring, _| {
            ring.raise_floor(Seq::new(2));
            ring.release(Seq::ZERO, Seq::new(2));
        }),
    );
}

/// A producer that waits for nobody: it drops what it needs the place of, but not what a reader holds.
#[test]
fn a_hand_against_a_producer_that_overwrites() {
    Model::new("hand against overwriting").preemptions(1).at_least(100).run(
        &["committed", "nothing", "lapped", "dropped early"],
        |tally| {
            let options = Options::new(Capacity::new(1).unwrap(), Producers::Exclusive);
            let (ring, bin) = (ring_with(Options { lossy: true, ..options }), Bin::default());
            let (mut group, mut pen) = (Group::new(&ring), ring.exclusive().unwrap());
            let producer = {
                let (bin, tally) = (bin.clone(), tally.clone());
                thread::spawn(move || {
                    (0..4).for_each(|n| assert!(pen.try_push(Noisy::new(n, &bin)).is_ok()));
                    if dropped(&bin, 0) {
                        tally.saw("dropped early");
                    }
                })
            };
            let reader = {
                let tally = tally.clone();
                thread::spawn(move || {
                    (0..1).for_each(|_| tally.saw(group.run().map_or_else(|why| why, |_| "committed")));
                    group
                })
            };
            producer.join().unwrap();
            let mut group = reader.join().unwrap();
            while group.run() != Err("nothing") {}
            assert!((0..4).all(|nth| dropped(&bin, nth)), "a record was left");
        },
    );
}

/// A third party moves the cursor; what a second group then drops must not be in the first one's hand.
#[test]
fn a_hand_against_a_seek_that_another_group_sees() {
    Model::new("hand against seek and commit").preemptions(2).at_least(100).run(
        &["committed", "fenced", "nothing"],
        |tally| {
            let (ring, bin) = (ring(1, Producers::Exclusive), Bin::default());
            let mut pen = ring.exclusive().unwrap();
            let (mut slow, mut other) = (Group::new(&ring), Group::new(&ring));
            assert!(pen.try_push(Noisy::new(0, &bin)).is_ok());
            let mover = {
                let (ring, gate) = (ring.clone(), slow.1.clone());
                thread::spawn(move || {
                    ring.seek(&gate, Seq::new(1));
                    ring.sweep();
                })
            };
            let committer = thread::spawn(move || assert_eq!(other.run(), Ok(1)));
            tally.saw(slow.run().map_or_else(|why| why, |_| "committed"));
            mover.join().unwrap();
            committer.join().unwrap();
            assert!(dropped(&bin, 0), "the record was left");
        },
    );
}

/// A handler's cursor is moved away under it, to another page, and the reader takes what is there in hand at once.
#[test]
fn a_hand_that_goes_elsewhere() {
    Model::new("hand elsewhere").at_least(100).run(&["committed", "fenced", "nothing", "elsewhere"], |tally| {
        let (ring, bin) = (ring(1, Producers::Exclusive), Bin::default());
        let mut pen = ring.exclusive().unwrap();
        let mut slow = Group::new(&ring);
        let gate = slow.1.clone();
        assert!(pen.try_push(Noisy::new(0, &bin)).is_ok());
        let mover = {
            let (ring, bin) = (ring.clone(), bin.clone());
            thread::spawn(move || {
                ring.seek(&gate, Seq::new(1));
                assert!(pen.try_push(Noisy::new(1, &bin)).is_ok());
                ring.sweep();
            })
        };
        tally.saw(slow.run().map_or_else(|why| why, |_| "committed"));
        slow.2.jump(slow.1.position());
        if let Peek::Ready(run) = slow.2.peek(1) {
            assert_eq!(run.get(0).read(), run.first().get());
            tally.saw("elsewhere");
        }
        mover.join().unwrap();
        assert!(dropped(&bin, 0), "the record was left");
        drop(slow);
    });
}

/// A reader that is ahead of its cursor: what is before it was handed out and is not done yet. Somebody else settles, or
/// moves the cursor, while it takes the next record in hand.
fn ahead(what: fn(&Ring<Noisy>, &Gate)) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let (ring, bin) = (ring(2, Producers::Exclusive), Bin::default());
        let mut pen = ring.exclusive().unwrap();
        let mut group = Group::new(&ring);
        (0..2).for_each(|n| assert!(pen.try_push(Noisy::new(n, &bin)).is_ok()));
        let settler = {
            let (ring, gate) = (ring.clone(), group.1.clone());
            thread::spawn(move || what(&ring, &gate))
        };
        let reader = {
            let tally = tally.clone();
            thread::spawn(move || {
                group.2.jump(Seq::new(1));
                match group.2.peek(9) {
                    Peek::Ready(run) => {
                        assert_eq!(run.get(0).read(), 1);
                        explore();
                        assert_eq!(run.get(0).read(), 1, "dropped in hand");
                        tally.saw("ahead");
                    }
                    Peek::Pending => tally.saw("nothing"),
                    Peek::Lapped { .. } => unreachable!("nothing goes unread here"),
                }
                group.2.put_down();
                group
            })
        };
        settler.join().unwrap();
        let group = reader.join().unwrap();
        ring.seek(&group.1, Seq::new(2));
        ring.sweep();
        assert!((0..2).all(|nth| dropped(&bin, nth)), "a record was left");
    }
}

#[test]
fn a_hand_ahead_of_its_cursor_against_an_ack() {
    Model::new("hand ahead against ack").at_least(30).run(
        &["ahead", "nothing"],
        ahead(|ring, gate| {
            assert!(gate.commit(0, Seq::ZERO, Seq::new(2)).is_ok());
            ring.release(Seq::ZERO, Seq::new(2));
        }),
    );
}

/// The cursor goes past the record and comes back before it, as far as what is kept allows.
#[test]
fn a_hand_ahead_of_its_cursor_against_a_seek_to_and_fro() {
    Model::new("hand ahead against seeks").preemptions(2).at_least(100).run(
        &["ahead", "nothing"],
        ahead(|ring, gate| {
            ring.seek(gate, Seq::new(2));
            ring.sweep();
            ring.seek(gate, Seq::ZERO);
            ring.sweep();
        }),
    );
}
