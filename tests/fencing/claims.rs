//! What should happen in a work queue by consumers: each time a record was handed out is kept, with what befell it since. Two
//! consumers, one record a poll, and as many of those in flight as there are.

use super::deliveries::{Answer, Fate};
use super::records::{Figures, Place, Records, Rule};

/// How long a lease may become; it begins with 1.
pub(crate) const LONGEST: u64 = 2;

/// One thing that happens. Deliveries have numbers, in the order in which they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A consumer polls.
    Poll(usize),
    /// Time passes.
    Expire,
    Ack(usize),
    Nack(usize),
    /// The receipt is dropped.
    Release(usize),
    /// More time is asked for, as long as a lease may become.
    Extend(usize),
    /// The cursor goes there.
    Seek(u64),
    /// A consumer is dropped, and one of its name comes anew.
    Leave(usize),
    /// The group is deleted.
    Delete,
}

/// A record was handed to somebody.
#[derive(Clone, Debug)]
struct Delivery {
    who: usize,
    offset: u64,
    /// When its lease began, and when it ends.
    lease: (u64, u64),
    /// The receipt is used up.
    used: bool,
    /// What came between, in order.
    fates: Vec<Fate>,
}

impl Delivery {
    fn is_live(&self) -> bool {
        !self.used && self.fates.is_empty()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Twin {
    now: u64,
    pub(crate) records: Records,
    deliveries: Vec<Delivery>,
    /// Who was put out.
    out: [bool; 2],
}

impl Twin {
    /// All records are there.
    pub(crate) fn new(by_key: bool, rule: Rule) -> Self {
        Twin { now: 0, records: Records::new(by_key, rule), deliveries: Vec::new(), out: [false; 2] }
    }

    /// What could happen now that would change anything, and every settlement that should be refused.
    pub(crate) fn possible(&self) -> Vec<Op> {
        let mut all = Vec::new();
        for (nth, delivery) in self.deliveries.iter().enumerate().filter(|(_, delivery)| !delivery.used) {
            all.extend([Op::Ack(nth), Op::Nack(nth), Op::Extend(nth)]);
            if delivery.is_live() {
                all.push(Op::Release(nth));
            }
        }
        if self.records.is_over() {
            return all;
        }
        for who in 0..2 {
            if !self.may_be_given(who).is_empty() {
                all.push(Op::Poll(who));
            }
            if self.out[who] || self.deliveries.iter().any(|delivery| delivery.is_live() && delivery.who == who) {
                all.push(Op::Leave(who));
            }
        }
        if self.in_flight() > 0 {
            all.push(Op::Expire);
        }
        all.extend([Op::Seek(0), Op::Seek(1), Op::Seek(2), Op::Delete]);
        all
    }

    /// What a poll may give.
    pub(crate) fn may_be_given(&self, who: usize) -> Vec<(u64, u32)> {
        if self.out[who] { Vec::new() } else { self.records.there() }
    }

    /// A poll gave that.
    pub(crate) fn given(&mut self, who: usize, (offset, _): (u64, u32)) {
        self.records.put(offset, Place::Hand(self.deliveries.len()));
        let (lease, fates) = ((self.now, self.now + 1), Vec::new());
        self.deliveries.push(Delivery { who, offset, lease, used: false, fates });
    }

    pub(crate) fn apply(&mut self, op: Op) -> Answer {
        match op {
            Op::Poll(who) => {
                let Some(first) = self.may_be_given(who).first().copied() else { return Answer::Nothing };
                self.given(who, first);
                return Answer::Handed(first.0, first.1);
            }
            Op::Ack(nth) | Op::Nack(nth) | Op::Release(nth) | Op::Extend(nth) => return self.settle(nth, op),
            Op::Expire => self.tick(),
            Op::Seek(to) => {
                self.befalls_all(Fate::Seeked);
                self.records.seek(to as usize);
            }
            Op::Leave(who) => {
                self.goes(who);
                self.out[who] = false;
            }
            Op::Delete => {
                self.records.end(0);
                self.befalls_all(Fate::Deleted);
            }
        }
        Answer::Nothing
    }

    fn in_flight(&self) -> u64 {
        self.deliveries.iter().filter(|delivery| delivery.is_live()).count() as u64
    }

    pub(crate) fn figures(&self) -> Figures {
        self.records.figures(self.in_flight())
    }

    fn befalls_all(&mut self, fate: Fate) {
        self.deliveries.iter_mut().filter(|delivery| !delivery.used).for_each(|delivery| delivery.fates.push(fate));
    }

    /// What it has in flight goes back.
    fn goes(&mut self, who: usize) {
        for delivery in self.deliveries.iter_mut().filter(|delivery| delivery.is_live() && delivery.who == who) {
            delivery.fates.push(Fate::Moved);
            self.records.put(delivery.offset, Place::Queue);
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        let fate = match self.records.rule {
            Rule::Lease => Fate::Expired,
            Rule::Bury => Fate::Buried,
            Rule::Evict => Fate::Moved,
        };
        let mut out = None;
        for nth in 0..self.deliveries.len() {
            let Delivery { who, offset, lease: (_, until), .. } = self.deliveries[nth];
            let is_time = self.records.rule != Rule::Lease || until <= self.now;
            if self.deliveries[nth].is_live() && is_time && self.records.passes(offset, nth) {
                self.deliveries[nth].fates.push(fate);
                out = Some(who).filter(|_| self.records.rule == Rule::Evict);
            }
        }
        if let Some(who) = out {
            self.goes(who);
            self.out[who] = true;
        }
    }

    fn settle(&mut self, nth: usize, op: Op) -> Answer {
        let Delivery { offset, lease: (since, until), .. } = self.deliveries[nth];
        let is_live = self.deliveries[nth].is_live();
        self.deliveries[nth].used |= !matches!(op, Op::Extend(_));
        if !is_live {
            self.records.counts.refused += u64::from(matches!(op, Op::Ack(_)));
            let fates = self.deliveries[nth].fates.clone();
            return if matches!(op, Op::Release(_)) { Answer::Nothing } else { Answer::Refused(fates) };
        }
        match op {
            Op::Extend(_) if self.records.rule != Rule::Lease => return Answer::Lasts(u64::MAX),
            Op::Extend(_) => {
                let until = until.max((self.now + LONGEST).min(since + LONGEST));
                self.deliveries[nth].lease = (since, until);
                return Answer::Lasts(until - self.now);
            }
            Op::Ack(_) => self.records.done(offset),
            Op::Nack(_) => self.records.fails(offset),
            _ => {
                self.records.put(offset, Place::Queue);
                return Answer::Nothing;
            }
        }
        Answer::Done
    }
}
