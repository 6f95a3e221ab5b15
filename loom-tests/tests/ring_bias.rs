//! The bias of a shared ring: one thread publishes with plain stores, others take the ring over, and in the end it is
//! everybody's.
//!
//! A ring is settled after two publishes here (64 in real builds), and two hands are dealt (four there): the first two threads
//! that publish own the ring one after the other, whoever comes next makes it everybody's. The ways an execution went are points that the ring passes.
#![cfg(ringlog_loom)]

use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::ring::{Options, Peek, Producers, Reader, Ring, Start, Why};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::{explore, no_points, points};

fn ring(capacity: usize) -> Ring<u64> {
    no_points();
    let (capacity, producers) = (Capacity::new(capacity).unwrap(), Producers::Shared);
    Ring::with_spares(Options::new(capacity, producers), 0).unwrap()
}

/// Publishes `count` records of producer `me`, one after the other; each is where it was said to be.
fn producer(ring: &Ring<u64>, me: u64, count: u64) -> thread::JoinHandle<()> {
    let ring = ring.clone();
    thread::spawn(move || {
        let mut before = None;
        for n in 0..count {
            let at = ring.try_push(me * 10 + n).unwrap();
            assert!(before < Some(at), "offsets of a producer rise");
            before = Some(at);
        }
    })
}

/// Everything that is there now.
fn take(reader: &mut Reader<u64>, got: &mut Vec<u64>) {
    while let Peek::Ready(run) = reader.peek(9) {
        got.extend(run.iter());
        let to = run.first().plus(run.len() as u64);
        reader.advance(to);
    }
}

/// All of `sent` (records for each producer) arrived once, each producer's in order.
fn check(ring: &Ring<u64>, got: &[u64], sent: &[u64]) {
    let total = sent.iter().sum::<u64>();
    assert_eq!((got.len() as u64, ring.end()), (total, Seq::new(total)), "lost or twice: {got:?}");
    for (me, count) in sent.iter().enumerate() {
        let mine = got.iter().filter(|value| **value / 10 == me as u64).map(|value| value % 10);
        assert!(mine.eq(0..*count), "producer {me}: {got:?}");
    }
}

/// Counts the ways that this execution went.
fn count(tally: &Tally) {
    let points: Vec<_> = points().into_iter().filter(|point| !point.starts_with("page ")).collect();
    points.iter().for_each(|point| tally.saw(point));
    let last = |what| points.iter().rposition(|point| *point == what);
    let first = |what| points.iter().position(|point| *point == what);
    if first("entered").zip(last("by exchange")).is_some_and(|(plain, exchange)| plain < exchange) {
        tally.saw("exchange after plain");
    }
    if first("entered") == Some(0) {
        tally.saw("through nobody");
    }
    if first("refused").zip(last("by exchange")).is_some_and(|(refused, back)| refused < back) {
        tally.saw("back after a refusal");
    }
}

const SEALED: [&str; 17] = [
    "lost before it was",
    "worth it",
    "back after a refusal",
    "entered",
    "lost a hand",
    "waited",
    "refused",
    "settled",
    "by exchange",
    "exchange after plain",
    "through nobody",
    "sealed",
    "all there",
    "end 0",
    "end 1",
    "end 2",
    "end 3",
];

fn hand_over(sent: &'static [u64], reads: bool) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring(8);
        let mut reader = ring.reader(Seq::ZERO);
        let producers: Vec<_> = (0..).zip(sent).map(|(me, count)| producer(&ring, me, *count)).collect();
        let (mut reader, mut got) = if reads {
            let consumer = thread::spawn(move || {
                let mut got = Vec::new();
                take(&mut reader, &mut got);
                explore();
                take(&mut reader, &mut got);
                (reader, got)
            });
            consumer.join().unwrap()
        } else {
            (reader, Vec::new())
        };
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        take(&mut reader, &mut got);
        check(&ring, &got, sent);
        count(tally);
    }
}

/// The ways that two producers can go.
const WAYS: [&str; 13] = [
    "through nobody",
    "entered",
    "lost a hand",
    "taken over",
    "waited",
    "refused",
    "settled",
    "by exchange",
    "exchange after plain",
    "back after a refusal",
    "worth it",
    "lost before it was",
    "taken over, settled",
];

#[test]
fn an_owner_and_a_taker() {
    Model::new("owner, taker").at_least(300).run(&WAYS[..11], hand_over(&[1, 1], false));
}

#[test]
fn an_owner_a_taker_and_a_reader() {
    Model::new("owner, taker, reader").preemptions(1).at_least(300).run(&WAYS, hand_over(&[2, 1], true));
}

/// The first owner has the ring for long enough to pay no fence at its third publish: it settles, or has lost the ring by then.
#[test]
fn a_settled_owner_and_a_taker() {
    Model::new("settled owner, taker").preemptions(1).at_least(300).run(&WAYS, hand_over(&[3, 1], false));
}

/// The second owner may still be waiting for the first when a third thread makes the ring everybody's. There is room for
/// one record.
#[test]
fn a_taker_is_taken_over() {
    Model::new("three, room for one").preemptions(1).at_least(300).run(&WAYS[..7], |tally| {
        let ring = ring(1);
        let _gate = ring.join(Start::Earliest, 0);
        let producers: Vec<_> = (0..3)
            .map(|me| {
                let ring = ring.clone();
                thread::spawn(move || match ring.try_push(me) {
                    Ok(at) => Some((at, me)),
                    Err(refused) => {
                        assert_eq!((refused.value, refused.why), (me, Why::Full));
                        None
                    }
                })
            })
            .collect();
        let stored: Vec<_> = producers.into_iter().filter_map(|producer| producer.join().unwrap()).collect();
        let mut got = Vec::new();
        take(&mut ring.reader(Seq::ZERO), &mut got);
        assert_eq!((stored.len(), ring.end(), stored[0]), (1, Seq::new(1), (Seq::ZERO, got[0])));
        count(tally);
    });
}

/// Below the final end everything is published, or about to be by a producer that claimed it by exchange; what is
/// refused comes back.
fn seal_against(sent: u64) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let ring = ring(4);
        // Holds the page from the start, so that no fence of its own helps it.
        let mut reader = ring.reader(Seq::ZERO);
        let producer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                (0..sent)
                    .filter(|n| match ring.try_push(*n) {
                        Ok(at) => at == Seq::new(*n) || panic!("{n} lies at {at}"),
                        Err(refused) => {
                            assert_eq!((refused.value, refused.why), (*n, Why::Sealed));
                            tally.saw("sealed");
                            false
                        }
                    })
                    .count() as u64
            })
        };
        let sealer = {
            let (ring, tally) = (ring.clone(), tally.clone());
            thread::spawn(move || {
                let end = ring.seal();
                let plain = !points().contains(&"by exchange");
                explore();
                let mut got = Vec::new();
                take(&mut reader, &mut got);
                if plain {
                    assert_eq!(got.len() as u64, end.get(), "a plain publish below the end is missing");
                    tally.saw("all there");
                }
                tally.saw(["end 0", "end 1", "end 2", "end 3"][end.get() as usize]);
                end
            })
        };
        let (sent, end) = (producer.join().unwrap(), sealer.join().unwrap());
        assert_eq!((end, ring.end()), (Seq::new(sent), Seq::new(sent)));
        count(tally);
    }
}

#[test]
fn seal_against_an_owner() {
    Model::new("seal, owner").at_least(30).run(&SEALED[..16], seal_against(2));
}

#[test]
fn seal_against_a_settled_owner() {
    Model::new("seal, settled owner").preemptions(1).at_least(30).run(&SEALED, seal_against(3));
}

/// An owner publishes, another thread shares the ring, and a third goes by exchange: `last` says below which end what was
/// published with plain stores must lie there for it, if nobody but itself went by exchange.
fn by_exchange(mine: usize, last: fn(&Ring<u64>) -> u64) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        // Room for all three is promised at once: a raise would look at the end, and so learn what the tail carries.
        let ring = ring(24);
        let (mut reader, mut got) = (ring.reader(Seq::ZERO), Vec::new());
        // The first hand, and a page that the reader holds from the start: it will need no fence.
        ring.try_push(0).unwrap();
        take(&mut reader, &mut got);
        let owner = producer_from(&ring);
        let sharer = {
            let ring = ring.clone();
            thread::spawn(move || ring.share())
        };
        let third = {
            let tally = tally.clone();
            thread::spawn(move || {
                let end = last(&ring);
                let others = points().iter().filter(|point| **point == "by exchange").count() > mine;
                take(&mut reader, &mut got);
                if others {
                    return tally.saw("others");
                }
                assert!(got.len() as u64 >= end, "a plain publish below {end} is missing");
                tally.saw(["none", "after one", "after two"][end as usize]);
            })
        };
        owner.join().unwrap();
        sharer.join().unwrap();
        third.join().unwrap();
    }
}

/// Publishes one record, if the ring is not sealed.
fn producer_from(ring: &Ring<u64>) -> thread::JoinHandle<()> {
    let ring = ring.clone();
    thread::spawn(move || drop(ring.try_push(1)))
}

#[test]
fn an_exchange_comes_after_every_plain_publish() {
    Model::new("owner, sharer, exchange")
        .preemptions(1)
        .at_least(300)
        .run(&["others", "after one", "after two"], by_exchange(1, |ring| ring.try_push(2).unwrap().get()));
}

#[test]
fn a_seal_comes_after_every_plain_publish() {
    Model::new("owner, sharer, seal")
        .preemptions(1)
        .at_least(300)
        .run(&["others", "after one", "after two"], by_exchange(0, |ring| ring.seal().get()));
}
