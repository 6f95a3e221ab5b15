//! Members that compete for the records of one partition: each record is acknowledged once, by who has it; the cursor passes
//! all that is done and nothing else; a move of the cursor leaves nobody's claim in force and no record behind.
#![cfg(ringlog_loom)]

mod queue;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally, must_fail};
use queue::{Lane, full, lane, spawn};
use ringlog::internals::{group::claims::Stand, ring::Peek, seq::Seq};

#[test]
fn two_members_claim_the_records_of_one_partition() {
    let outcomes = &["both", "one each", "missed"];
    Model::new("claim against claim").at_least(50).run(outcomes, |tally| {
        let lane = lane();
        let member = |most| {
            spawn(&lane, move |lane| {
                let mut reader = lane.ring.reader(Seq::ZERO);
                lane.claim(&mut reader, most).map(|claim| (claim.first().get(), lane.done(claim)))
            })
        };
        let members = [member(2), member(1)];
        let got = members.map(|member| member.join().unwrap());
        let done: u64 = got.iter().flatten().map(|(_, done)| done).sum();
        tally.saw(match got {
            [Some((0, 2)), None] => "both",
            [Some((a, 1)), Some((b, 1))] if a != b => "one each",
            [None, Some((0, 1))] | [Some((0, 2)), Some(_)] => "missed",
            _ => panic!("{got:?}"),
        });
        assert_eq!(done + lane.finish(), 2);
    });
}

/// Two neighbours are done at once: one of the two takes the cursor over both.
fn neighbours(advance: fn(&Lane), saw: fn(&Tally, &'static str)) -> impl Fn(&Tally) + Send + Sync + 'static {
    move |tally| {
        let lane = lane();
        let mut reader = lane.ring.reader(Seq::ZERO);
        let claims = [0, 1].map(|_| lane.claim(&mut reader, 1).unwrap());
        let members = claims.map(|claim| {
            let (lane, tally) = (lane.clone(), tally.clone());
            thread::spawn(move || {
                assert_eq!(lane.claims.settle(claim, |_| ()), 1);
                let before = lane.gate.position().get();
                advance(&lane);
                match (claim.first().get(), before, lane.gate.position().get()) {
                    (0, 0, 1) => saw(&tally, "to the neighbour"),
                    (0, 0, 2) => saw(&tally, "over both"),
                    (1, 0, 0) => saw(&tally, "none of ours"),
                    _ => saw(&tally, "otherwise"),
                }
            })
        });
        members.into_iter().for_each(|member| member.join().unwrap());
        assert_eq!(lane.gate.position(), Seq::new(2), "a done record was left");
    }
}

#[test]
fn two_neighbours_that_are_done_at_once_are_passed() {
    let outcomes = &["to the neighbour", "over both", "none of ours", "otherwise"];
    Model::new("neighbours").at_least(50).run(outcomes, neighbours(|lane| _ = lane.claims.advance(), Tally::saw));
}

/// The cursor moved without a fence: by a word-for-word copy of what `advance` does.
fn unfenced(lane: &Lane) {
    loop {
        let (from, epoch) = lane.gate.snapshot();
        if from == Seq::new(2) || lane.claims.stand(from) != Stand::Done {
            return;
        }
        let _ = lane.gate.commit(epoch, from, from.plus(1));
    }
}

#[test]
fn without_a_fence_a_done_record_is_left() {
    must_fail("without_a_fence_a_done_record_is_left", 2, "a done record was left", neighbours(unfenced, |_, _| ()));
}

// The lease of the first member ends while it says that it is done; a second takes the record again.
#[test]
fn an_acknowledgement_an_expiry_and_a_redelivery() {
    let outcomes = &["done in time", "too late", "done again"];
    Model::new("ack, expiry, redelivery").at_least(50).run(outcomes, |tally| {
        let lane = lane();
        let old = lane.claim(&mut lane.ring.reader(Seq::ZERO), 1).unwrap();
        let seen = tally.clone();
        let member = spawn(&lane, move |lane| {
            let done = lane.done(old);
            seen.saw(if done == 1 { "done in time" } else { "too late" });
            done
        });
        let timer = spawn(&lane, move |lane| lane.claims.give_back(old, old.first()));
        let seen = tally.clone();
        let second = spawn(&lane, move |lane| match lane.claims.take_again(Seq::ZERO, 0) {
            Some(new) => {
                assert_eq!(lane.done(new), 1, "its own claim");
                seen.saw("done again");
                1
            }
            None => 0,
        });
        let done = member.join().unwrap() + second.join().unwrap();
        let expired = timer.join().unwrap();
        assert!(done <= 1, "acknowledged twice");
        assert!(expired || done == 1);
        assert_eq!(done + lane.finish(), 2);
    });
}

/// A member at work beside a seek to `to`: what it had in hand counts before the seek or not at all, and everything from
/// there on is delivered.
fn moved(saw: impl Fn(&'static str), to: u64, closes_first: bool) {
    let lane = lane();
    let member = spawn(&lane, move |lane| {
        let mut reader = lane.ring.reader(Seq::ZERO);
        let Some(first) = lane.claim(&mut reader, 1) else { return 0 };
        let second = lane.claim(&mut reader, 1);
        // The later one first, so that the cursor does not follow.
        second.map_or(0, |second| lane.done(second)) + lane.done(first)
    });
    let mover = spawn(&lane, move |lane| {
        let first = closes_first.then(|| lane.claims.close());
        let moved = lane.ring.seek(&lane.gate, Seq::new(to));
        let closed = first.unwrap_or_else(|| lane.claims.close());
        let reset = lane.claims.reset(closed, moved.from, moved.to);
        lane.claims.advance();
        (moved.from.get(), reset)
    });
    let (acked, (from, reset)) = (member.join().unwrap(), mover.join().unwrap());
    let (passed, again) = (to.saturating_sub(from) - reset.passed, from.saturating_sub(to) + reset.forgotten);
    saw(match (acked, again + reset.passed) {
        (0, 0) => "nothing was done",
        (_, 0) => "done behind it, or afterwards",
        _ => "done, and moved over",
    });
    let rest = lane.finish();
    assert_eq!(2 + again, acked + passed + rest, "the books: {acked} acknowledged, {from} to {to}, {reset:?}");
}

const MOVED: &[&str] = &["nothing was done", "done behind it, or afterwards", "done, and moved over"];

#[test]
fn a_seek_back_beside_a_member_at_work() {
    Model::new("claims, seek back").at_least(50).run(MOVED, |tally| moved(|outcome| tally.saw(outcome), 0, true));
}

#[test]
fn a_seek_over_the_first_record_beside_a_member_at_work() {
    Model::new("claims, seek forwards").at_least(50).run(MOVED, |tally| moved(|outcome| tally.saw(outcome), 1, true));
}

#[test]
fn closed_only_after_the_move_what_was_done_is_lost_count_of() {
    must_fail("closed_only_after_the_move_what_was_done_is_lost_count_of", 2, "the books", |_| moved(|_| (), 0, false));
}

/// What a handler does with a record, which is one thread's at a time: loom's cell fails the model if it is not.
struct Effects([UnsafeCell<u64>; 2]);

impl Effects {
    fn touch(&self, at: u64) {
        // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
        self.0[at as usize % 2].with_mut(|cell| unsafe { *cell += 1 });
    }
}

// A record that is given back is another member's after what the first one did with it, and a producer's after what both did.
#[test]
fn what_was_done_with_a_record_comes_before_whoever_has_it_next() {
    Model::new("claims, effects").at_least(50).run(&["again", "too early", "no room", "pushed"], |tally| {
        let (lane, mut pen) = full(2);
        let effects = Arc::new(Effects([UnsafeCell::new(0), UnsafeCell::new(0)]));
        let first = {
            let effects = effects.clone();
            spawn(&lane, move |lane| {
                let mut reader = lane.ring.reader(Seq::ZERO);
                let both = lane.claim(&mut reader, 2).expect("nobody else claims fresh ones");
                effects.touch(0);
                assert!(lane.claims.give_back(both, Seq::ZERO));
                effects.touch(1);
                assert_eq!(lane.done(both.behind(1)), 1);
            })
        };
        let second = {
            let (effects, seen) = (effects.clone(), tally.clone());
            spawn(&lane, move |lane| match lane.claims.take_again(Seq::ZERO, 0) {
                Some(again) => {
                    effects.touch(0);
                    assert_eq!(lane.done(again), 1);
                    seen.saw("again");
                }
                None => seen.saw("too early"),
            })
        };
        let (seen, end) = (tally.clone(), lane.clone());
        let producer = thread::spawn(move || match pen.try_push(2) {
            // The cursor has passed at least one: which, it says itself.
            Ok(_) => {
                (0..end.gate.position().get()).for_each(|at| effects.touch(at));
                seen.saw("pushed");
            }
            Err(_) => seen.saw("no room"),
        });
        first.join().unwrap();
        second.join().unwrap();
        producer.join().unwrap();
        lane.finish();
    });
}

// The lease of a reader ends, another one acknowledges its records, and a producer wants the room: the reader reads on.
#[test]
fn who_has_lost_its_claim_reads_on() {
    Model::new("expired reader").preemptions(2).at_least(50).run(&["no room", "pushed"], |tally| {
        let (lane, mut pen) = full(2);
        let mut reader = lane.ring.reader(Seq::ZERO);
        let both = lane.claim(&mut reader, 2).unwrap();
        let hung = thread::spawn(move || {
            let Peek::Ready(run) = reader.peek(2) else { panic!("it was lent") };
            assert_eq!((*run.get(0), *run.get(1)), (0, 1), "not the records that were lent");
            reader.release();
        });
        let second = spawn(&lane, move |lane| {
            for at in [0, 1].map(Seq::new) {
                assert!(lane.claims.give_back(both, at));
                let again = lane.claims.take_again(at, 0).unwrap();
                assert_eq!(lane.done(again), 1);
            }
        });
        let seen = tally.clone();
        let producer = thread::spawn(move || {
            seen.saw(if pen.try_push(2).is_ok() { "pushed" } else { "no room" });
        });
        hung.join().unwrap();
        second.join().unwrap();
        producer.join().unwrap();
        assert_eq!((lane.gate.position(), lane.claims.settle(both, |_| ())), (Seq::new(2), 0));
    });
}

// The one word of a ring of one: record 1 comes while those who have done record 0 may still be about to look.
#[test]
fn the_words_go_round_with_the_ring() {
    Model::new("claims go round").at_least(50).run(&["no room", "first", "second", "nothing"], |tally| {
        let (lane, mut pen) = full(1);
        let members = [0, 1].map(|_| {
            let seen = tally.clone();
            spawn(&lane, move |lane| {
                let mut reader = lane.ring.reader(lane.gate.position());
                match lane.claim(&mut reader, 1) {
                    Some(claim) => {
                        seen.saw(if claim.first() == Seq::ZERO { "first" } else { "second" });
                        lane.done(claim)
                    }
                    None => {
                        seen.saw("nothing");
                        0
                    }
                }
            })
        });
        let seen = tally.clone();
        let producer = thread::spawn(move || {
            if pen.try_push(1).is_err() {
                seen.saw("no room");
                return 1;
            }
            2
        });
        let done: u64 = members.map(|member| member.join().unwrap()).iter().sum();
        let there = producer.join().unwrap();
        assert_eq!(done + lane.finish(), there);
    });
}
