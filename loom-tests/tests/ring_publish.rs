//! The ring: publish, take, commit, reuse; one and two records a page; batches over a page border; seal.
//!
//! Every record is written to and read from loom's cells, so that an access that is not ordered fails the model.
#![cfg(ringlog_loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Exclusive, Gate, Options, Peek, Producers, Reader, Ring, Start, Why};
use ringlog::internals::seq::{Capacity, Seq};

/// A ring; a shared one is claimed by exchange from the start (`ring_bias` is about what comes before).
fn ring<T: Send + Sync + 'static>(capacity: usize, producers: Producers) -> Ring<T> {
    let capacity = Capacity::new(capacity).unwrap();
    let ring = Ring::with_spares(Options::new(capacity, producers), 0).unwrap();
    ring.share();
    ring
}

/// What handlers do, for producers to see: as many as there were commits.
#[derive(Clone)]
struct Effects(Arc<Vec<UnsafeCell<u64>>>);

impl Effects {
    fn new(records: usize) -> Self {
        Self(Arc::new((0..records).map(|_| UnsafeCell::new(0)).collect()))
    }

    fn done(&self, at: Seq) {
        // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
        self.0[at.get() as usize].with_mut(|effect| unsafe { *effect = 1 });
    }

    /// The claim of `at` was let in by the commit of `at - capacity`: what its handler did is visible.
    fn check(&self, at: Seq, capacity: u64) {
        for done in 0..(at.get() + 1).saturating_sub(capacity) {
            // SAFETY: as above.
            let effect = self.0[done as usize].with(|effect| unsafe { *effect });
            assert_eq!(effect, 1, "let in by {done}, unseen by {at}");
        }
    }
}

/// Takes what is there, `looks` times.
fn take(
    ring: &Ring<u64>,
    reader: &mut Reader<u64>,
    gate: &Gate,
    looks: usize,
    effects: &Effects,
    tally: &Tally,
) -> Vec<u64> {
    let mut got = Vec::new();
    for _ in 0..looks {
        let Peek::Ready(run) = reader.peek(9) else {
            tally.saw("pending");
            thread::yield_now();
            continue;
        };
        got.extend(run.iter());
        let (from, to) = (run.first(), run.first().plus(run.len() as u64));
        (from.get()..to.get()).for_each(|at| effects.done(Seq::new(at)));
        reader.advance(to);
        gate.commit(0, from, to).unwrap();
        tally.saw("taken");
    }
    if ring.pages_aside() > 0 {
        tally.saw("aside");
    }
    got
}

fn exclusive(capacity: usize, values: u64, tries: usize, looks: usize) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring::<u64>(capacity, Producers::Exclusive);
        let (gate, effects) = (ring.join(Start::End, 0), Effects::new(values as usize));
        let (mut pen, mut reader) = (ring.exclusive().unwrap(), ring.reader(Seq::ZERO));
        let producer = {
            let (effects, tally) = (effects.clone(), tally.clone());
            thread::spawn(move || {
                let mut next = 0;
                for _ in 0..tries {
                    match pen.try_push(next) {
                        Ok(at) => {
                            assert_eq!(at, Seq::new(next));
                            effects.check(at, capacity as u64);
                            next += 1;
                        }
                        Err(refused) => {
                            assert_eq!((refused.value, refused.why), (next, Why::Full));
                            tally.saw("full");
                            thread::yield_now();
                        }
                    }
                    if next == values {
                        break;
                    }
                }
                next
            })
        };
        let consumer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || take(&ring, &mut reader, &gate, looks, &effects, &tally))
        };
        let (sent, got) = (producer.join().unwrap(), consumer.join().unwrap());
        assert_eq!(got, (0..got.len() as u64).collect::<Vec<_>>());
        assert!(got.len() as u64 <= sent);
        if sent > 2 * capacity as u64 {
            tally.saw("reused");
        }
    }
}

#[test]
fn exclusive_publish_take_commit_reuse() {
    Model::new("exclusive, a record a page")
        .at_least(300)
        .run(&["pending", "taken", "full", "reused", "aside"], exclusive(1, 3, 5, 4));
}

#[test]
fn exclusive_two_records_a_page() {
    Model::new("exclusive, two records a page")
        .at_least(300)
        .run(&["pending", "taken", "full", "reused", "aside"], exclusive(2, 5, 7, 4));
}

fn shared(capacity: usize, each: u64, tries: usize, looks: usize) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring::<u64>(capacity, Producers::Shared);
        let (gate, effects) = (ring.join(Start::End, 0), Effects::new(2 * each as usize + 1));
        let mut reader = ring.reader(Seq::ZERO);
        ring.try_push(200).unwrap();
        let producers: Vec<_> = (0..2)
            .map(|me| {
                let (ring, effects, tally) = (ring.clone(), effects.clone(), tally.clone());
                thread::spawn(move || {
                    let mut sent = 0;
                    for _ in 0..tries {
                        match ring.try_push(me * 100 + sent) {
                            Ok(at) => {
                                effects.check(at, capacity as u64);
                                tally.saw("stored");
                                sent += 1;
                            }
                            Err(refused) => {
                                assert_eq!((refused.value, refused.why), (me * 100 + sent, Why::Full));
                                tally.saw("full");
                            }
                        }
                        if sent == each {
                            break;
                        }
                    }
                    sent
                })
            })
            .collect();
        let consumer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || take(&ring, &mut reader, &gate, looks, &effects, &tally))
        };
        let sent: Vec<u64> = producers.into_iter().map(|p| p.join().unwrap()).collect();
        let got = consumer.join().unwrap();
        for me in 0..2 {
            let mine: Vec<_> = got.iter().filter(|value| **value / 100 == me).map(|value| value % 100).collect();
            assert_eq!(mine, (0..mine.len() as u64).collect::<Vec<_>>(), "out of order");
            assert!(mine.len() as u64 <= sent[me as usize]);
        }
        assert_eq!(ring.end(), Seq::new(1 + sent.iter().sum::<u64>()));
    }
}

#[test]
fn shared_two_producers_one_record_a_page() {
    Model::new("shared, a record a page").at_least(300).run(&["stored", "taken", "full"], shared(1, 1, 1, 1));
}

#[test]
fn shared_two_producers_two_records_a_page() {
    Model::new("shared, two records a page")
        .preemptions(1)
        .at_least(300)
        .run(&["stored", "taken", "full"], shared(2, 1, 1, 1));
}

/// Batches of two over pages of two, beginning in the middle of a page, against single values and a reader.
#[test]
fn a_batch_over_a_page_border() {
    Model::new("a batch over a page border").at_least(100).run(&["whole", "refused", "single", "taken"], |tally| {
        let ring = ring::<u64>(2, Producers::Shared);
        let (gate, effects) = (ring.join(Start::End, 0), Effects::new(4));
        ring.try_push(0).unwrap();
        let mut reader = ring.reader(Seq::ZERO);
        let batch = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                let mut values = vec![10, 11];
                for _ in 0..1 {
                    match ring.try_push_all(&mut values) {
                        Ok(range) => {
                            assert_eq!(range.end.since(range.start), 2);
                            assert!(values.is_empty());
                            tally.saw("whole");
                            return true;
                        }
                        Err(why) => {
                            assert_eq!((why, values.len()), (Why::Full, 2));
                            tally.saw("refused");
                        }
                    }
                }
                false
            })
        };
        let single = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                ring.try_push(20).is_ok_and(|_| {
                    tally.saw("single");
                    true
                })
            })
        };
        let consumer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || take(&ring, &mut reader, &gate, 1, &effects, &tally))
        };
        let sent = 1 + u64::from(single.join().unwrap()) + 2 * u64::from(batch.join().unwrap());
        let got = consumer.join().unwrap();
        assert_eq!(ring.end(), Seq::new(sent));
        if let Some(at) = got.iter().position(|value| *value == 10) {
            assert!(got.get(at + 1).is_none_or(|next| *next == 11), "torn: {got:?}");
        }
    });
}

/// After a seal the end is final, and all below it is there at once (exclusive) or about to be (shared).
fn sealed(mut pen: Pen, ring: Ring<u64>, tally: &Tally) {
    // The reader holds the page from the start, so that no fence of its own helps it.
    let mut reader = ring.reader(Seq::ZERO);
    assert!(pen.push(0).is_none() && matches!(reader.peek(1), Peek::Ready(_)));
    reader.advance(Seq::new(1));
    let producer = {
        let tally = tally.clone();
        thread::spawn(move || {
            let mut sent = 1;
            for value in 1..3 {
                match pen.push(value) {
                    None => sent += 1,
                    Some(why) => {
                        assert_eq!(why, Why::Sealed);
                        tally.saw("refused");
                    }
                }
            }
            sent
        })
    };
    let sealer = {
        let (ring, tally) = (ring.clone(), tally.clone());
        thread::spawn(move || {
            let end = ring.seal();
            tally.saw(["sealed at 0", "sealed at 1", "sealed at 2"][end.get() as usize - 1]);
            if ring.producers() == Producers::Exclusive {
                for n in 1..end.get() {
                    assert!(
                        matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n),
                        "{n} below the end is missing"
                    );
                    reader.advance(Seq::new(n + 1));
                }
            }
            end
        })
    };
    let sent: u64 = producer.join().unwrap();
    let end = sealer.join().unwrap();
    assert_eq!((end, ring.end()), (Seq::new(sent), Seq::new(sent)));
}

enum Pen {
    One(Exclusive<u64>),
    Many(Ring<u64>),
}

impl Pen {
    fn push(&mut self, value: u64) -> Option<Why> {
        match self {
            Self::One(one) => one.try_push(value).err().map(|refused| refused.why),
            Self::Many(ring) => ring.try_push(value).err().map(|refused| refused.why),
        }
    }
}

const SEALED: [&str; 4] = ["refused", "sealed at 0", "sealed at 1", "sealed at 2"];

#[test]
fn seal_against_an_exclusive_publish() {
    Model::new("seal, exclusive").at_least(30).run(&SEALED, |tally| {
        let ring = ring::<u64>(3, Producers::Exclusive);
        sealed(Pen::One(ring.exclusive().unwrap()), ring, tally);
    });
}

#[test]
fn seal_against_a_shared_publish() {
    Model::new("seal, shared").at_least(30).run(&SEALED, |tally| {
        let ring = ring::<u64>(3, Producers::Shared);
        sealed(Pen::Many(ring.clone()), ring, tally);
    });
}

/// Below the end of an exclusive ring everything is published, for whoever reads the end.
#[test]
fn what_lies_below_an_exclusive_end_is_there() {
    Model::new("end").at_least(10).run(&["end 1", "end 2", "end 3"], |tally| {
        let ring = ring::<u64>(3, Producers::Exclusive);
        let (mut pen, mut reader) = (ring.exclusive().unwrap(), ring.reader(Seq::ZERO));
        pen.try_push(0).unwrap();
        assert!(matches!(reader.peek(1), Peek::Ready(_)));
        reader.advance(Seq::new(1));
        let producer = thread::spawn(move || (1..3).for_each(|n| assert!(pen.try_push(n).is_ok())));
        let consumer = {
            let tally = tally.clone();
            thread::spawn(move || {
                let end = ring.end().get();
                for n in 1..end {
                    assert!(
                        matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n),
                        "{n} below the end is missing"
                    );
                    reader.advance(Seq::new(n + 1));
                }
                tally.saw(["end 1", "end 2", "end 3"][end as usize - 1]);
            })
        };
        producer.join().unwrap();
        consumer.join().unwrap();
    });
}
