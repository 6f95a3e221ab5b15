//! Cursors that let so many records wait: no claim goes beyond what was taken and so many more, and a producer that found no
//! room finds some once the next is taken.
#![cfg(ringlog_loom)]

use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Gate, Gating, Options, Peek, Producers, Reader, Ring, Start, Why};
use ringlog::internals::seq::{Capacity, Seq};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const MOST: u64 = 1;

struct Mailbox {
    ring: Ring<u64>,
    gate: Arc<Gate>,
    /// Raised before the taking is known to anybody. Not loom's: it is to say what is so, and order nothing.
    taken: Arc<AtomicU64>,
}

fn mailbox(producers: Producers) -> Mailbox {
    let ring = Ring::with_spares(Options::new(Capacity::new(8).unwrap(), producers), 0).unwrap();
    ring.share();
    let gate = ring.admit(Start::Earliest, 0, Gating::Waiting(NonZeroU64::new(MOST).unwrap()));
    Mailbox { ring, gate, taken: Arc::new(AtomicU64::new(0)) }
}

impl Mailbox {
    /// Takes, handles and commits what there is, in so many looks.
    fn take(&self, looks: usize, tally: &Tally) -> thread::JoinHandle<Reader<u64>> {
        let (gate, taken, tally) = (self.gate.clone(), self.taken.clone(), tally.clone());
        let mut reader = self.ring.reader(Seq::ZERO).covered_by(gate.clone());
        thread::spawn(move || {
            for _ in 0..looks {
                let at = reader.position();
                match reader.peek(1) {
                    Peek::Ready(run) => assert!([at.get(), 7].contains(run.get(0))),
                    Peek::Pending => continue,
                    Peek::Lapped { .. } => panic!("lost a record that waits"),
                }
                taken.store(at.get() + 1, SeqCst);
                gate.take(at.plus(1), 0);
                ringlog::internals::sync::explore();
                tally.saw("taken");
                reader.advance(at.plus(1));
                gate.commit(0, at, at.plus(1)).unwrap();
            }
            reader
        })
    }
}

/// One more waits at most than may: the one that is being taken counts until that is known.
fn within(at: Seq, taken: &AtomicU64) {
    assert!(at.get() < taken.load(SeqCst) + MOST, "more wait than may");
}

#[test]
fn an_exclusive_producer_never_has_more_waiting_than_may() {
    Model::new("waiting, exclusive").preemptions(2).at_least(100).run(&["taken", "full", "stored"], |tally| {
        let mailbox = mailbox(Producers::Exclusive);
        let (mut pen, taken, tally2) = (mailbox.ring.exclusive().unwrap(), mailbox.taken.clone(), tally.clone());
        let producer = thread::spawn(move || {
            let mut next = 0;
            for _ in 0..4 {
                match pen.try_push(next) {
                    Ok(at) => {
                        within(at, &taken);
                        tally2.saw("stored");
                        next += 1;
                    }
                    Err(_) => tally2.saw("full"),
                }
            }
        });
        let consumer = mailbox.take(3, tally);
        producer.join().unwrap();
        drop(consumer.join().unwrap());
    });
}

#[test]
fn two_shared_producers_never_have_more_waiting_than_may() {
    Model::new("waiting, shared").preemptions(2).at_least(1_000).cut_at(25_000).run(
        &["taken", "full", "stored"],
        |tally| {
            let mailbox = mailbox(Producers::Shared);
            let producer = || {
                let (ring, taken, tally) = (mailbox.ring.clone(), mailbox.taken.clone(), tally.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        match ring.try_push_from(&mut Some(7)) {
                            Ok(at) => {
                                within(at, &taken);
                                tally.saw("stored");
                            }
                            Err(Why::Full) => tally.saw("full"),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                })
            };
            let (one, other) = (producer(), producer());
            let consumer = mailbox.take(2, tally);
            one.join().unwrap();
            other.join().unwrap();
            drop(consumer.join().unwrap());
        },
    );
}
