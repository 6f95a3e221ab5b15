//! Records in the order of their keys: one at a time of each, after what was done with those before it, whoever gives back, takes
//! again, is dealt what comes next, or moves the cursor.
#![cfg(ringlog_loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::{
    group::{claims::Claim, shared::dealt::Dealt},
    ring::{Gate, Options, Producers, Ring, Start},
    seq::{Capacity, Seq},
};

/// What is done of each key, in order: one thread's at a time, or loom's cell fails the model.
struct Done([UnsafeCell<Vec<u64>>; 2]);

struct Lane {
    dealt: Dealt,
    gate: Arc<Gate>,
    ring: Ring<u64>,
    done: Done,
}

/// Of one key there are two, and of these one waits at most: as many as may.
const KEYS: [Option<u64>; 4] = [Some(1), Some(1), Some(2), None];

fn key(at: u64) -> Option<usize> {
    KEYS[at as usize].map(|key| key as usize - 1)
}

fn lane() -> Arc<Lane> {
    let ring = Ring::with_spares(Options::new(Capacity::new(4).unwrap(), Producers::Exclusive), 1).unwrap();
    let gate = ring.join(Start::Earliest, 1);
    let mut pen = ring.exclusive().unwrap();
    (0..4).for_each(|n| pen.try_push(n).map(drop).unwrap());
    let done = Done([(); 2].map(|()| UnsafeCell::new(Vec::new())));
    Arc::new(Lane { dealt: Dealt::new(gate.clone(), &KEYS), gate, ring, done })
}

impl Lane {
    /// A handler has the first record of a claim in hand, and does it or fails.
    fn handle(&self, claim: Claim, does: bool) {
        let at = claim.first().get();
        let Some(key) = key(at) else { return };
        let before: Vec<u64> = (0..at).filter(|at| self::key(*at) == Some(key)).collect();
        self.done.0[key].with_mut(|done| {
            // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
            let done = unsafe { &mut *done };
            assert_eq!(*done, before, "{at} before its turn");
            if does {
                done.push(at);
            }
        });
    }

    fn does(&self, claim: Claim) -> u64 {
        claim.records().for_each(|at| self.handle(claim.behind(at.since(claim.first()) as usize).head(1), true));
        self.dealt.done(claim)
    }

    /// One turn of a member: what waits, or what comes next.
    fn turn(&self) -> Option<Claim> {
        self.dealt.again().map(|(claim, _)| claim).or_else(|| self.dealt.deal(1))
    }

    /// All that is left, by the only one.
    fn finish(&self) -> u64 {
        let mut done = 0;
        while let Some(claim) = self.turn() {
            done += self.does(claim);
        }
        let end = Seq::new(KEYS.len() as u64);
        assert_eq!((self.gate.position(), self.dealt.claims.pending(end)), (end, 0), "a record was left");
        done
    }
}

fn spawn<R: 'static>(lane: &Arc<Lane>, actor: impl FnOnce(&Lane) -> R + 'static) -> thread::JoinHandle<R> {
    let lane = lane.clone();
    thread::spawn(move || actor(&lane))
}

/// The first of a key is in hand and fails, while somebody else is dealt what comes next, and takes what waits.
fn redriven(tally: &Tally) {
    let lane = lane();
    let first = lane.dealt.deal(1).expect("nothing is busy");
    let fails = spawn(&lane, move |lane| {
        lane.handle(first, false);
        assert!(lane.dealt.fails(first, 1), "nobody else may");
        lane.turn().map_or(0, |claim| lane.does(claim))
    });
    let (seen, deals) = (tally.clone(), lane.clone());
    let other = thread::spawn(move || {
        let Some(claim) = deals.dealt.deal(1) else { unreachable!("there is more") };
        seen.saw(if claim.first() == Seq::new(1) { "done before" } else { "parked" });
        let mut done = deals.does(claim);
        let turn = deals.turn();
        seen.saw(match turn.map(|claim| claim.first().get()) {
            Some(0) => "again, by another",
            Some(1) => "the next of its key",
            Some(2) => "one of another key",
            Some(_) => "one of no key",
            None => "nothing",
        });
        done += turn.map_or(0, |claim| deals.does(claim));
        done
    });
    let done = fails.join().unwrap() + other.join().unwrap();
    assert_eq!(done + lane.finish(), 4, "each once");
}

#[test]
fn a_record_that_fails_beside_who_is_dealt_the_next_of_its_key() {
    let outcomes =
        &["done before", "parked", "again, by another", "the next of its key", "one of another key", "one of no key"];
    Model::new("parked, redriven").at_least(50).run(outcomes, redriven);
}

/// Two that wait are taken and done by two.
#[test]
fn what_waits_behind_one_that_is_done_is_one_s() {
    let outcomes = &["the next of its key", "one of another"];
    Model::new("parked, next").at_least(50).run(outcomes, |tally| {
        let lane = lane();
        let first = lane.dealt.deal(1).expect("nothing is busy");
        let other = lane.dealt.deal(1).expect("the second is parked");
        assert_eq!(other.first(), Seq::new(2));
        let members = [first, other].map(|claim| {
            let tally = tally.clone();
            spawn(&lane, move |lane| {
                let done = lane.does(claim);
                let turn = lane.turn();
                if let Some(claim) = turn {
                    tally.saw(if claim.first() == Seq::new(1) { "the next of its key" } else { "one of another" });
                }
                done + turn.map_or(0, |claim| lane.does(claim))
            })
        });
        let done: u64 = members.into_iter().map(|member| member.join().unwrap()).sum();
        assert_eq!(done + lane.finish(), 4, "each once");
    });
}

/// The first of a key is in hand and fails, while the cursor is moved: nothing of before is known afterwards, and no key stays
/// busy for it.
#[test]
fn a_record_that_fails_beside_a_move() {
    let outcomes = &["failed before it", "too late"];
    Model::new("parked, moved").at_least(50).run(outcomes, |tally| {
        let lane = lane();
        let first = lane.dealt.deal(1).expect("nothing is busy");
        let seen = tally.clone();
        let fails = spawn(&lane, move |lane| {
            seen.saw(if lane.dealt.fails(first, 1) { "failed before it" } else { "too late" });
            lane.dealt.again().map(|(claim, _)| claim)
        });
        let mover = spawn(&lane, |lane| {
            lane.dealt.moves(|| {
                let moved = lane.ring.seek(&lane.gate, Seq::ZERO);
                (moved.from, moved.to)
            });
        });
        let again = fails.join().unwrap();
        mover.join().unwrap();
        // Whoever has something in hand of before the move has it no more.
        let done =
            again.map_or(
                0,
                |claim| if claim.epoch() == lane.gate.epoch() { lane.does(claim) } else { lane.dealt.done(claim) },
            );
        assert_eq!(done + lane.finish(), 4, "each once, from the beginning");
    });
}
