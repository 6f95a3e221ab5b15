//! What should happen in a work queue by handlers: two members, each with one record in hand at most.

use super::records::{Figures, Place, Records, Rule};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A member is stepped until it has something in hand, or finds nothing.
    Deliver(usize),
    /// The time of what is in hand passes.
    Expire,
    /// The handler of a member returns, done.
    Ack(usize),
    /// The handler of a member returns, failed.
    Nack(usize),
    /// The cursor goes there.
    Seek(u64),
    /// A member leaves for good.
    Leave(usize),
    /// The group is deleted.
    Delete,
}

/// Why what a handler has in hand is its own no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    Expired,
    Seeked,
    Deleted,
}

/// What a handler has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    /// It may not settle.
    pub(crate) fenced: Option<Fence>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Twin {
    pub(crate) records: Records,
    pub(crate) hands: [Option<Hand>; 2],
    pub(crate) left: [bool; 2],
}

impl Twin {
    /// All records are there.
    pub(crate) fn new(by_key: bool, rule: Rule) -> Self {
        Twin { records: Records::new(by_key, rule), hands: [None; 2], left: [false; 2] }
    }

    /// What could happen now that would change anything.
    pub(crate) fn possible(&self) -> Vec<Op> {
        let mut all = Vec::new();
        for who in 0..2 {
            if self.hands[who].is_some() {
                all.extend([Op::Ack(who), Op::Nack(who)]);
            } else if !self.may_be_given(who).is_empty() {
                all.push(Op::Deliver(who));
            }
            if !self.records.is_over() && !self.left[who] {
                all.push(Op::Leave(who));
            }
        }
        if self.records.is_over() {
            return all;
        }
        if self.hands.iter().flatten().any(|hand| hand.fenced.is_none()) {
            all.push(Op::Expire);
        }
        all.extend([Op::Seek(0), Op::Seek(1), Op::Seek(2), Op::Delete]);
        all
    }

    /// What a delivery may give.
    pub(crate) fn may_be_given(&self, who: usize) -> Vec<(u64, u32)> {
        if self.left[who] { Vec::new() } else { self.records.there() }
    }

    /// A delivery gave that.
    pub(crate) fn given(&mut self, who: usize, (offset, attempt): (u64, u32)) {
        self.records.put(offset, Place::Hand(who));
        self.hands[who] = Some(Hand { offset, attempt, fenced: None });
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver(who) => {
                if let Some(first) = self.may_be_given(who).first().copied() {
                    self.given(who, first);
                }
            }
            Op::Expire => (0..2).for_each(|who| self.passes(who)),
            Op::Ack(who) | Op::Nack(who) => self.settle(who, matches!(op, Op::Ack(_))),
            Op::Seek(to) => {
                self.fence(Fence::Seeked);
                self.records.seek(to as usize);
            }
            // What it has in hand it may bring to an end.
            Op::Leave(who) => self.left[who] = true,
            Op::Delete => {
                self.records.end(0);
                // Also what the cursor was moved from before.
                self.hands.iter_mut().flatten().for_each(|hand| {
                    hand.fenced = Some(hand.fenced.filter(|why| *why == Fence::Expired).unwrap_or(Fence::Deleted));
                });
            }
        }
    }

    fn fence(&mut self, why: Fence) {
        self.hands.iter_mut().flatten().for_each(|hand| hand.fenced = hand.fenced.or(Some(why)));
    }

    /// Its time is over, whatever became of it before.
    fn passes(&mut self, who: usize) {
        let Some(hand) = self.hands[who] else { return };
        let is_over = hand.fenced.is_none() && self.records.passes(hand.offset, who);
        if is_over && self.records.rule == Rule::Evict {
            self.left[who] = true;
        }
        if is_over || self.records.rule == Rule::Lease {
            self.hands[who] = Some(Hand { fenced: Some(Fence::Expired), ..hand });
        }
    }

    fn settle(&mut self, who: usize, good: bool) {
        let Some(hand) = self.hands[who].take() else { return };
        if hand.fenced.is_some() {
            self.records.counts.refused += 1;
        } else if good {
            self.records.done(hand.offset);
        } else {
            self.records.fails(hand.offset);
        }
    }

    /// Of a queue by handlers nothing is said about what is in flight.
    pub(crate) fn figures(&self) -> Figures {
        self.records.figures(0)
    }
}
