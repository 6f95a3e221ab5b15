//! The claims of one lane, one step after the other.
#![forbid(unsafe_code)]

use super::{Claim, Claims, RUN, Reset, Stand, share};
use crate::ring::{Gate, Options, Producers, Ring, Start};
use crate::seq::{Capacity, Seq};
use crate::sync::Arc;

struct Lane {
    claims: Claims,
    gate: Arc<Gate>,
    ring: Ring<u64>,
}

/// A lane over `published` records, all of them there.
fn lane(capacity: usize, published: u64) -> Lane {
    let ring = Ring::new(Options::new(Capacity::new(capacity).unwrap(), Producers::Shared)).unwrap();
    let gate = ring.join(Start::Earliest, 1);
    (0..published).for_each(|n| ring.try_push(n).map(drop).unwrap());
    Lane { claims: Claims::new(capacity as u64, gate.clone()), gate, ring }
}

impl Lane {
    fn claim(&self, most: usize) -> Claim {
        let place = self.claims.upcoming().unwrap();
        let there = self.ring.end().since(place.at()) as usize;
        self.claims.claim(place, most.min(there)).unwrap()
    }

    fn done(&self, claim: Claim) -> u64 {
        let done = self.claims.settle(claim, |_| ());
        self.claims.advance();
        done
    }

    fn seek(&self, to: u64) -> Reset {
        let closed = self.claims.close();
        let moved = self.ring.seek(&self.gate, Seq::new(to));
        let reset = self.claims.reset(closed, moved.from, moved.to);
        self.claims.advance();
        reset
    }

    fn at(&self) -> u64 {
        self.gate.position().get()
    }

    fn pending(&self) -> u64 {
        self.claims.pending(self.ring.end())
    }
}

#[test]
fn the_cursor_goes_over_what_is_done_and_stops_before_what_is_not() {
    let lane = lane(8, 6);
    let (one, two, three) = (lane.claim(2), lane.claim(2), lane.claim(2));
    assert_eq!((lane.done(two), lane.at(), lane.pending(), lane.claims.ahead()), (2, 0, 4, 2));
    assert_eq!((lane.done(one.head(1)), lane.at(), lane.pending()), (1, 1, 3));
    assert_eq!((lane.done(one), lane.at()), (1, 4), "what is done already is not done again");
    assert_eq!((lane.done(three), lane.at(), lane.pending()), (2, 6, 0));
}

#[test]
fn a_claim_that_was_given_back_is_refused_whoever_has_it_now() {
    let lane = lane(4, 1);
    let old = lane.claim(1);
    assert!(lane.claims.give_back(old, old.first()));
    assert_eq!((lane.done(old), lane.claims.stand(old.first())), (0, Stand::Pooled));
    let new = lane.claims.take_again(old.first(), old.epoch()).unwrap();
    assert!(lane.claims.take_again(old.first(), old.epoch()).is_none());
    assert_eq!((lane.done(old), lane.done(new), lane.done(new), lane.at()), (0, 1, 0, 1));
}

#[test]
fn the_ring_of_words_goes_round_and_nothing_has_to_be_cleared() {
    let lane = lane(3, 0);
    for n in 0..50 {
        lane.ring.try_push(n).map(drop).unwrap();
        let claim = lane.claim(RUN.min(1));
        assert_eq!((claim.first().get(), lane.done(claim), lane.at()), (n, 1, n + 1));
    }
}

#[test]
fn a_seek_forwards_keeps_what_is_done_behind_it() {
    let lane = lane(8, 8);
    let claims: Vec<Claim> = (0..6).map(|_| lane.claim(1)).collect();
    [1, 3, 4].iter().for_each(|n| assert_eq!(lane.done(claims[*n]), 1));
    assert_eq!(lane.seek(3), Reset { passed: 1, forgotten: 0 });
    assert_eq!((lane.at(), lane.pending()), (5, 3), "3 and 4 were done");
    assert_eq!(lane.done(claims[5]), 0, "of before");
    assert_eq!(lane.claim(8).first().get(), 5);
}

#[test]
fn a_seek_back_forgets_what_is_done() {
    let lane = lane(8, 6);
    let claims: Vec<Claim> = (0..5).map(|_| lane.claim(1)).collect();
    [0, 1, 3].iter().for_each(|n| assert_eq!(lane.done(claims[*n]), 1));
    assert_eq!((lane.at(), lane.seek(1)), (2, Reset { passed: 0, forgotten: 1 }));
    assert_eq!((lane.at(), lane.pending()), (1, 5));
    let all = lane.claim(8);
    assert_eq!((all.first().get(), all.len(), lane.done(all), lane.at()), (1, 5, 5, 6));
}

#[test]
fn a_seek_to_the_end_and_a_new_epoch_in_place() {
    let lane = lane(8, 4);
    let (one, two) = (lane.claim(1), lane.claim(1));
    lane.done(two);
    assert_eq!(lane.seek(0), Reset::default());
    assert_eq!((lane.done(one), lane.pending(), lane.claim(8).len()), (0, 3, 1), "as far as the next done one");
    assert_eq!(lane.claim(8).first().get(), 2);
    assert_eq!(lane.seek(0), Reset::default(), "what stays done does so through any number of moves");
    assert_eq!((lane.pending(), lane.claims.ahead()), (3, 1));
    assert_eq!(lane.seek(4), Reset { passed: 1, forgotten: 0 });
    assert_eq!((lane.pending(), lane.claims.upcoming().unwrap().at().get()), (0, 4));
}

#[test]
fn nothing_is_claimed_while_the_cursor_is_moved() {
    let lane = lane(8, 4);
    let place = lane.claims.upcoming().unwrap();
    let closed = lane.claims.close();
    assert!(lane.claims.upcoming().is_none() && lane.claims.claim(place, 1).is_none());
    lane.gate.bump();
    lane.claims.reset(closed, Seq::ZERO, Seq::ZERO);
    assert!(lane.claims.claim(place, 1).is_none(), "of the epoch before");
    assert_eq!(lane.claim(8).len(), 4);
}

#[test]
fn a_share_is_fair_and_at_least_one() {
    assert_eq!([share(0, 3, 9), share(7, 2, 9), share(1_000, 2, 99), share(1_000, 2, 5)], [1, 3, RUN, 5]);
    assert_eq!(share(u64::MAX, 0, usize::MAX), RUN);
}
