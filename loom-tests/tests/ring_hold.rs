//! Holds: what a reader has in hand stays, whatever producers and movers of gates do; stalled claims too.
#![cfg(ringlog_loom)]

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

/// Reads without a gate, `looks` times: records are whole, in order, and lost ones are counted.
fn chase(reader: &mut Reader<u64>, looks: usize, tally: &Tally) -> (u64, u64) {
    let (mut got, mut lost) = (0, 0);
    for _ in 0..looks {
        let at = reader.position();
        match reader.peek(9) {
            Peek::Ready(run) => {
                for (n, value) in run.iter().enumerate() {
                    assert_eq!(*value, at.get() + n as u64, "not the record that was asked for");
                }
                got += run.len() as u64;
                let to = at.plus(run.len() as u64);
                reader.advance(to);
                tally.saw("read");
            }
            Peek::Pending => tally.saw("pending"),
            Peek::Lapped { earliest } => {
                assert!(at.precedes(earliest), "lapped, and not forwards");
                lost += earliest.since(at);
                reader.jump(earliest);
                tally.saw("lapped");
            }
        }
    }
    (got, lost)
}

fn lossy(capacity: usize, values: u64, looks: usize) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring::<u64>(capacity, Producers::Exclusive);
        let (mut pen, mut reader) = (ring.exclusive().unwrap(), ring.reader(Seq::ZERO));
        let producer = thread::spawn(move || (0..values).for_each(|n| assert!(pen.try_push(n).is_ok())));
        let consumer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                let (got, lost) = chase(&mut reader, looks, &tally);
                assert!(got + lost <= values);
                reader.release();
                if ring.pages_aside() > 0 {
                    tally.saw("aside");
                }
                reader
            })
        };
        producer.join().unwrap();
        let mut reader = consumer.join().unwrap();
        chase(&mut reader, 8, tally);
        assert_eq!(reader.position(), Seq::new(values), "the rest is not there");
    }
}

#[test]
fn a_page_in_hand_is_set_aside() {
    Model::new("held page").at_least(1_000).run(&["read", "pending", "lapped", "aside"], lossy(1, 4, 2));
}

#[test]
fn a_page_of_two_in_hand_is_set_aside() {
    Model::new("held page of two")
        .preemptions(1)
        .at_least(300)
        .run(&["read", "pending", "lapped", "aside"], lossy(2, 7, 2));
}

/// A producer laps another: the page of a claim that is not finished is not used again.
#[test]
fn a_stalled_claim_keeps_its_page() {
    Model::new("stalled claim").at_least(100).run(&["too early", "three pages", "four pages"], |tally| {
        let ring = ring::<u64>(1, Producers::Shared);
        let slow = {
            let ring = ring.clone();
            thread::spawn(move || assert!(ring.try_push(0).is_ok()))
        };
        let fast = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                if ring.end() == Seq::ZERO {
                    return tally.saw("too early");
                }
                (1..4).for_each(|n| assert!(ring.try_push(n).is_ok()));
                tally.saw(if ring.pages_made() == 3 { "three pages" } else { "four pages" });
            })
        };
        slow.join().unwrap();
        fast.join().unwrap();
        assert!(ring.pages_made() <= 4, "{} pages", ring.pages_made());
    });
}

/// Two pages set aside that nobody needs any more, and two producers that want a page.
fn spares(capacity: u64, tally: &Tally) {
    let ring = ring::<u64>(capacity as usize, Producers::Shared);
    let mut readers = Vec::new();
    for page in 0..4 {
        (0..capacity).for_each(|n| assert!(ring.try_push(page * capacity + n).is_ok()));
        let mut reader = ring.reader(Seq::new(page * capacity));
        if page < 2 {
            assert!(matches!(reader.peek(1), Peek::Ready(_)));
            readers.push(reader);
        }
    }
    drop(readers);
    let producers: Vec<_> = (0..2)
        .map(|_| {
            let ring = ring.clone();
            thread::spawn(move || assert!(ring.try_push(7).is_ok()))
        })
        .collect();
    producers.into_iter().for_each(|p| p.join().unwrap());
    tally.saw(if ring.pages_made() == 4 { "four pages" } else { "five pages" });
}

#[test]
fn a_page_that_one_producer_freed_serves_another() {
    Model::new("spares").preemptions(1).at_least(100).run(&["four pages", "five pages"], |tally| spares(1, tally));
}

#[test]
fn a_page_that_one_producer_installed_serves_another() {
    Model::new("a page for two")
        .preemptions(1)
        .at_least(100)
        .run(&["four pages", "five pages"], |tally| spares(2, tally));
}

/// A reader beside a shared producer, which marks its slots for it by tags.
#[test]
fn a_page_in_hand_beside_a_shared_producer() {
    Model::new("held page, shared").preemptions(2).at_least(100).run(&["read", "pending", "lapped"], |tally| {
        let ring = ring::<u64>(1, Producers::Shared);
        let mut reader = ring.reader(Seq::ZERO);
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || (0..4).for_each(|n| assert!(ring.try_push(n).is_ok())))
        };
        let consumer = {
            let tally = tally.clone();
            thread::spawn(move || {
                chase(&mut reader, 2, &tally);
                reader.release();
                reader
            })
        };
        producer.join().unwrap();
        chase(&mut consumer.join().unwrap(), 8, tally);
    });
}

/// A gating reader with records in hand, while somebody moves its gate and a producer uses the room.
fn in_hand(what: fn(&Ring<u64>, &Gate)) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring::<u64>(1, Producers::Exclusive);
        let gate = ring.join(Start::End, 0);
        let (mut pen, mut reader) = (ring.exclusive().unwrap(), ring.reader(Seq::ZERO));
        pen.try_push(0).unwrap();
        let producer = {
            let tally = tally.clone();
            thread::spawn(move || {
                for n in 1..4 {
                    if pen.try_push(n).is_err() {
                        tally.saw("full");
                        return;
                    }
                }
                tally.saw("overtaken");
            })
        };
        let mover = {
            let (ring, gate) = (ring.clone(), gate.clone());
            thread::spawn(move || what(&ring, &gate))
        };
        let consumer = {
            let tally = tally.clone();
            thread::spawn(move || {
                let (at, epoch) = gate.snapshot();
                if at != Seq::ZERO || epoch != 0 {
                    tally.saw("moved first");
                    return;
                }
                match reader.peek(1) {
                    Peek::Ready(run) => {
                        let record = run.get(0);
                        ringlog::internals::sync::explore();
                        assert_eq!((*record, *run.get(0)), (0, 0), "overwritten in hand");
                        reader.advance(Seq::new(1));
                        match gate.commit(epoch, at, Seq::new(1)) {
                            Ok(()) => tally.saw("committed"),
                            Err(fenced) => {
                                assert!(fenced.epoch > 0);
                                tally.saw("fenced");
                            }
                        }
                    }
                    Peek::Pending => panic!("it is there"),
                    Peek::Lapped { .. } => tally.saw("lapped"),
                }
            })
        };
        producer.join().unwrap();
        mover.join().unwrap();
        consumer.join().unwrap();
    }
}

#[test]
fn a_seek_under_a_running_handler() {
    Model::new("hold against seek").preemptions(1).at_least(100).run(
        &["full", "overtaken", "moved first", "committed", "fenced", "lapped"],
        in_hand(|ring, gate| {
            ring.seek(gate, Seq::new(1));
            // So that producers get on.
            ring.leave(gate);
        }),
    );
}

#[test]
fn a_takeover_under_a_running_handler() {
    Model::new("hold against takeover").preemptions(1).at_least(100).run(
        &["full", "overtaken", "moved first", "committed", "fenced", "lapped"],
        in_hand(|ring, gate| {
            let epoch = gate.bump();
            // The new owner goes on where the old one stood, unless that had committed.
            let _ = gate.commit(epoch, Seq::ZERO, Seq::new(1));
            ring.leave(gate);
        }),
    );
}

#[test]
fn a_delete_under_a_running_handler() {
    Model::new("hold against delete").at_least(1_000).run(
        &["full", "overtaken", "moved first", "committed", "fenced", "lapped"],
        in_hand(|ring, gate| ring.leave(gate)),
    );
}
