//! Rings that shed their oldest records: producers wait for no reader, and each reader accounts for every record, as read
//! or as lost, however it is lapped.
//!
//! What each model has to meet on its way are points that the ring passes (`page ..`), and what readers saw.
#![cfg(ringlog_loom)]

use std::cell::Cell;

use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Gate, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::{explore, no_points, points};

// How many records are published, for the tally: loom does not see it, and looks through no schedule for its sake.
std::thread_local! { static PUBLISHED: Cell<u64> = const { Cell::new(0) }; }

/// A ring of one record; a shared one is claimed by exchange from the start (`ring_bias` is about what comes before).
fn ring(producers: usize, lossy: bool) -> Ring<u64> {
    no_points();
    PUBLISHED.set(0);
    let producers = if producers == 1 { Producers::Exclusive } else { Producers::Shared };
    let options = Options { lossy, ..Options::new(Capacity::new(1).unwrap(), producers) };
    let ring = Ring::with_spares(options, 0).unwrap();
    ring.share();
    ring
}

/// What one reader makes of the log.
struct Account {
    reader: Reader<u64>,
    start: Seq,
    got: Vec<u64>,
    lost: u64,
}

impl Account {
    fn new(ring: &Ring<u64>, start: Seq) -> Self {
        Self { reader: ring.reader(start), start, got: Vec::new(), lost: 0 }
    }

    /// One look. What it finds is whole, and stays so while it is in hand.
    fn look(&mut self, tally: &Tally) {
        let at = self.reader.position();
        match self.reader.peek(9) {
            Peek::Ready(run) => {
                assert_eq!(run.first(), at, "another place than was asked for");
                let values: Vec<_> = run.iter().copied().collect();
                explore();
                if PUBLISHED.get() > at.get() + 1 {
                    tally.saw("read on though lapped");
                }
                assert!(run.iter().eq(values.iter()), "overwritten in hand");
                let to = at.plus(values.len() as u64);
                self.got.extend(values);
                self.reader.advance(to);
            }
            Peek::Pending => tally.saw("pending"),
            Peek::Lapped { earliest } => {
                assert!(at.precedes(earliest), "lapped, and not forwards");
                self.lost += earliest.since(at);
                self.reader.jump(earliest);
                tally.saw("gap");
            }
        }
    }

    /// A look on a thread of its own; it lets go in the end.
    fn looks(mut self, tally: &Tally) -> thread::JoinHandle<Self> {
        let tally = tally.clone();
        thread::spawn(move || {
            self.look(&tally);
            self.reader.release();
            self
        })
    }

    /// All producers are done: reads what is left, and then nothing is missing in the account of `published` records, of
    /// which producer `p` made those from `10 p` on.
    fn close(mut self, published: u64, tally: &Tally) {
        while self.reader.position() != Seq::new(published) {
            let before = self.reader.position();
            self.look(tally);
            assert!(before.precedes(self.reader.position()), "the rest is not there");
        }
        let accounted = self.got.len() as u64 + self.lost;
        assert_eq!(accounted, published - self.start.get(), "delivered {:?}, lost {}", self.got, self.lost);
        for producer in 0..2 {
            let mine: Vec<_> = self.got.iter().filter(|value| **value / 10 == producer).collect();
            assert!(mine.is_sorted_by(|one, two| one < two), "the order of producer {producer}: {:?}", self.got);
        }
        tally.saw(if self.lost > 0 { "lossy" } else { "lossless" });
    }
}

/// Producer `p` publishes so many values, from `10 p` on, and is refused none of them; `there` of the first one's are there
/// before anybody begins.
fn start(ring: &Ring<u64>, values: &[u64], there: u64) -> Vec<thread::JoinHandle<()>> {
    let producer = |(me, count): (usize, &u64)| {
        let (ring, mut pen) = (ring.clone(), ring.exclusive());
        let mut publish = move |n: u64| {
            let value = 10 * me as u64 + n;
            let stored = match &mut pen {
                Some(pen) => pen.try_push(value),
                None => ring.try_push(value),
            };
            assert!(stored.is_ok(), "a producer was held back");
            PUBLISHED.set(PUBLISHED.get() + 1);
        };
        let (there, count) = (if me == 0 { there } else { 0 }, *count);
        (0..there).for_each(&mut publish);
        thread::spawn(move || (there..count).for_each(publish))
    };
    values.iter().enumerate().map(producer).collect()
}

/// Counts the ways that this execution went, and demands that pages kept to their bound.
fn count(ring: &Ring<u64>, readers: usize, producers: usize, tally: &Tally) {
    points().iter().filter(|point| point.starts_with("page ")).for_each(|point| tally.saw(point));
    let pages = ring.pages_made();
    assert!(pages <= 2 + readers + producers, "{pages} pages for {readers} readers and {producers} producers");
}

/// What goes: a record with each that comes, or a page with each that comes. The first is what lossy rings do. The second
/// asks about pages alone: where a log begins is three more words for each reader to read, old or new, which makes a model
/// of one reader a hundred times as large, and one of two readers ten thousand times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sheds {
    Records,
    Pages,
}

/// Producers that publish some values each (one, and the ring is exclusive), the first of which is there before anybody
/// begins, and readers that look once.
fn lossy(sheds: Sheds, values: &'static [u64], readers: usize) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring(values.len(), sheds == Sheds::Records);
        let accounts: Vec<_> = (0..readers).map(|_| Account::new(&ring, Seq::ZERO)).collect();
        let producers = start(&ring, values, 1);
        let looking: Vec<_> = accounts.into_iter().map(|account| account.looks(tally)).collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let accounts: Vec<_> = looking.into_iter().map(|reader| reader.join().unwrap()).collect();
        accounts.into_iter().for_each(|account| account.close(values.iter().sum(), tally));
        count(&ring, readers, values.len(), tally);
    }
}

/// The models of two shared producers are not looked through: 200,000 schedules were not the end of any.
const CUT: usize = 25_000;

const MET: [&str; 6] = ["gap", "read on though lapped", "lossy", "page kept", "page again", "page gone"];
const MET_SHARED: [&str; 7] =
    ["gap", "read on though lapped", "lossy", "page kept", "page again", "page gone", "page lost"];

#[test]
fn an_exclusive_producer_and_a_reader() {
    Model::new("lossy, exclusive").at_least(1_000).run(&MET, lossy(Sheds::Records, &[4], 1));
}

#[test]
fn an_exclusive_producer_and_two_readers() {
    Model::new("lossy, exclusive, two readers").preemptions(1).at_least(1_000).run(&MET, lossy(Sheds::Pages, &[4], 2));
}

#[test]
fn two_shared_producers_and_a_reader() {
    Model::new("lossy, shared")
        .cut_at(CUT)
        .preemptions(1)
        .at_least(1_000)
        .run(&["gap", "read on though lapped", "lossy", "page gone", "page lost"], lossy(Sheds::Records, &[2, 1], 1));
}

#[test]
fn two_shared_producers_and_a_reader_of_pages() {
    Model::new("lossy, shared, by the page")
        .cut_at(CUT)
        .preemptions(1)
        .at_least(1_000)
        .run(&MET_SHARED, lossy(Sheds::Pages, &[3, 1], 1));
}

#[test]
fn two_shared_producers_and_two_readers() {
    Model::new("lossy, shared, two readers").cut_at(CUT).preemptions(1).at_least(1_000).run(
        &["gap", "read on though lapped", "lossy", "lossless", "page gone", "page lost"],
        lossy(Sheds::Pages, &[2, 1], 2),
    );
}

/// Reads behind its gate, which holds producers back: it loses nothing.
fn gating(ring: &Ring<u64>, gate: Arc<Gate>, looks: usize, tally: &Tally) -> thread::JoinHandle<Vec<u64>> {
    let (start, epoch) = gate.snapshot();
    let (mut reader, mut got, tally) = (ring.reader(start), Vec::new(), tally.clone());
    thread::spawn(move || {
        for _ in 0..looks {
            let at = reader.position();
            let to = match reader.peek(9) {
                Peek::Ready(run) => {
                    got.extend(run.iter());
                    at.plus(run.len() as u64)
                }
                Peek::Pending => {
                    thread::yield_now();
                    continue;
                }
                Peek::Lapped { .. } => panic!("lapped behind its own gate"),
            };
            reader.advance(to);
            explore();
            gate.commit(epoch, at, to).expect("nobody else moves it");
        }
        tally.saw(if got.is_empty() { "none in time" } else { "some in time" });
        got
    })
}

/// Publishes until there is no room even after it has given way once.
fn until_full(ring: &Ring<u64>, values: u64, tally: &Tally) -> thread::JoinHandle<u64> {
    let (mut pen, tally) = (ring.exclusive().unwrap(), tally.clone());
    thread::spawn(move || {
        for n in 0..values {
            if pen.try_push(n).is_err() {
                thread::yield_now();
                if pen.try_push(n).is_err() {
                    tally.saw("full");
                    return n;
                }
            }
            PUBLISHED.set(n + 1);
        }
        values
    })
}

/// A group that holds producers back beside one that does not, on a ring that blocks.
#[test]
fn a_gating_reader_beside_one_that_follows() {
    const MET: [&str; 8] =
        ["gap", "read on though lapped", "lossy", "lossless", "pending", "full", "none in time", "some in time"];
    Model::new("gating and following").at_least(1_000).run(&MET, |tally| {
        let ring = ring(1, false);
        let (gate, cursor) = (ring.join(Start::Earliest, 1), ring.follow(Start::Earliest, 2));
        let account = Account::new(&ring, cursor.position());
        let producer = until_full(&ring, 4, tally);
        let group = gating(&ring, gate.clone(), 4, tally);
        let follower = account.looks(tally);
        let (stored, got) = (producer.join().unwrap(), group.join().unwrap());
        let at = gate.position().get();
        assert!(got.iter().copied().eq(0..at), "the gating reader lost something: {got:?}");
        assert!(at + 1 >= stored, "more than the capacity before the gate");
        follower.join().unwrap().close(stored, tally);
    });
}

/// Comes while producers run: from where it lands on, it accounts for everything.
fn late(values: &'static [u64], there: u64) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring(values.len(), true);
        let producers = start(&ring, values, there);
        let joiner = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                let at = ring.follow(Start::Earliest, 1).position();
                tally.saw(if at == Seq::ZERO { "from the start" } else { "late" });
                explore();
                let mut account = Account::new(&ring, at);
                account.look(&tally);
                account.reader.release();
                account
            })
        };
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        joiner.join().unwrap().close(values.iter().sum(), tally);
        count(&ring, 1, values.len(), tally);
    }
}

#[test]
fn a_late_joiner_beside_an_exclusive_producer() {
    const MET: [&str; 10] = [
        "from the start",
        "late",
        "pending",
        "gap",
        "read on though lapped",
        "lossy",
        "lossless",
        "page kept",
        "page again",
        "page gone",
    ];
    Model::new("late, exclusive").preemptions(1).at_least(1_000).run(&MET, late(&[4], 0));
}

#[test]
fn a_late_joiner_beside_two_shared_producers() {
    Model::new("late, shared").cut_at(CUT).preemptions(1).at_least(1_000).run(
        &[
            "from the start",
            "late",
            "gap",
            "pending",
            "read on though lapped",
            "lossy",
            "lossless",
            "page gone",
            "page lost",
        ],
        late(&[2, 1], 1),
    );
}
