//! The cursors of a ring, copied on change, and what is kept of the last look at all of them.
//!
//! There may be very many, so nobody looks at all of them who need not:
//!
//! * A list is a [`Trie`] by the number under which a cursor came in: who comes or leaves copies his path.
//! * Cursors that hold nobody back are on a list of their own, at which no producer looks that wants room.
//! * A look at all gates leaves a *limit* behind: the first position that no claim may reach as long as they stand there. Gates
//!   only go forward, so a limit that is kept is never too high, unless a gate came in or was moved back: then there is
//!   another stamp in `granted`, and a limit counts only under the stamp under which it was found (`allowed`).
//! * Which gate was the narrowest, or stood furthest back, is kept as a hint where to look first: one that still stands there
//!   answers for all.
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | forget_limit:A | limit, store | Relaxed | a limit under another stamp counts for nothing in any case |
//! | limit:A | limit, load | Acquire | what the gates showed to who found it is visible to who claims by it; pairs with limit:B |
//! | limit:B | limit, store | Release | the other half; pairs with limit:A |
//! | narrowest:A | number of a gate, load | Relaxed | where to look first; the gate is looked at |
//! | narrowest:B | number of a gate, store | Relaxed | the same |
//! | narrowest:C | number of a gate, load | Relaxed | the same |
//! | furthest:A | number of a cursor, load | Relaxed | the same |
//! | furthest:B | number of a cursor, store | Relaxed | the same |
//! | furthest:C | number of a cursor, load | Relaxed | the same |
#![forbid(unsafe_code)]

use crate::ring::{Gate, Shared};
use crate::seq::{Seq, Stamped};
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::passed;
use crate::sync::trie::Trie;
use std::ops::ControlFlow;

/// From how many cursors on it is worth while to remember which one was the last.
const MANY: usize = 32;

/// All cursors at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Gates {
    gating: Trie<Shared>,
    following: Trie<Shared>,
}

/// The same for who changes them.
#[derive(Debug, Default)]
pub(super) struct Joining {
    pub(super) gates: Gates,
    last: u64,
}

impl Joining {
    /// The number of the next that comes in.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Gates {
    pub(super) fn add(&mut self, gate: &Shared) {
        self.list_of(gate).insert(gate.number(), gate.clone());
    }

    pub(super) fn remove(&mut self, gate: &Gate) {
        self.list_of(gate).remove(gate.number());
    }

    fn list_of(&mut self, gate: &Gate) -> &mut Trie<Shared> {
        if gate.holds_back() { &mut self.gating } else { &mut self.following }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gating.is_empty() && self.following.is_empty()
    }

    /// All of them.
    pub(super) fn each<'a>(&'a self, mut show: impl FnMut(&'a Shared)) {
        self.gating.each(|_, gate| show(gate));
        self.following.each(|_, gate| show(gate));
    }

    /// Those that hold producers back.
    pub(super) fn each_gating<'a>(&'a self, mut show: impl FnMut(&'a Shared)) {
        self.gating.each(|_, gate| show(gate));
    }

    /// Of many cursors, one that stood far back when somebody looked.
    pub(super) fn far_back(&self, hint: &AtomicU64) -> Option<&Shared> {
        if !self.are_many() {
            return None;
        }
        // ORD(furthest:C) Relaxed: as furthest:A.
        let number = hint.load(Relaxed);
        self.gating.get(number).or_else(|| self.following.get(number))
    }

    fn are_many(&self) -> bool {
        self.gating.len() + self.following.len() > MANY
    }

    /// The lowest of what `place` says of each, if that is more than `from`; `None` where nobody is. `Break`: one of them is
    /// not beyond `from`. Of many the one that was met last is looked at first, by `hint`, and from there on the others: so all
    /// those who go past a record by turns look at each other twice, and not each of them at all.
    pub(super) fn lowest_above(
        &self,
        from: Option<u64>,
        hint: &AtomicU64,
        place: impl Fn(&Gate) -> u64,
    ) -> ControlFlow<(), Option<u64>> {
        let lists = [&self.gating, &self.following];
        let below = |at: u64| from.is_some_and(|from| at <= from);
        let first = self.are_many().then(|| {
            // ORD(furthest:A) Relaxed: where to look first; whoever is found there is looked at.
            hint.load(Relaxed)
        });
        let (mut low, mut furthest) = (None, 0);
        let mut look = |number: u64, gate: &Shared| {
            let at = place(gate);
            if low.is_none_or(|low| at < low) {
                (low, furthest) = (Some(at), number);
            }
            if below(at) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let found = match first.filter(|_| from.is_some()) {
            Some(number) => lists.into_iter().try_for_each(|list| list.search(Some(number), &mut look)),
            None => ControlFlow::Continue(()),
        };
        let found = match found {
            ControlFlow::Continue(()) => lists.into_iter().try_for_each(|list| list.search(None, &mut look)),
            found => found,
        };
        if first.is_some_and(|number| number != furthest) {
            // ORD(furthest:B) Relaxed: the same.
            hint.store(furthest, Relaxed);
        }
        match found {
            ControlFlow::Continue(()) => ControlFlow::Continue(low),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        }
    }
}

/// What is kept of the last look at all gates that hold producers back.
#[derive(Debug, Default)]
pub(super) struct Narrowest {
    /// The limit, and the stamp under which it counts.
    limit: AtomicU64,
    /// The number of the gate that left the least room.
    number: AtomicU64,
}

impl Narrowest {
    /// Nothing is known from now on: `granted` is the word as it was, under a stamp that is no more.
    pub(super) fn forget(&self, granted: Stamped) {
        // ORD(forget_limit:A) Relaxed: a limit under another stamp counts for nothing in any case; it is not to be met again when
        // the stamps have come round.
        self.limit.store(granted.word(), Relaxed);
    }

    /// How many of the records from `here` on there is room for at least, under the stamp of `granted`.
    fn at_least(&self, granted: Stamped, here: Seq, capacity: u64) -> u64 {
        // ORD(limit:A) Acquire: what the groups did before the commits that made the room. Pairs with ORD(limit:B).
        let limit = Stamped::from_word(self.limit.load(Acquire));
        let room = limit.ahead_of(here);
        if limit.stamp() == granted.stamp() && room <= capacity { room } else { 0 }
    }

    /// How many records from `here` on the gates leave room for, under the stamp of `granted`, or as much of that as is
    /// known to be `enough`.
    pub(super) fn allowed(
        &self,
        gates: &Gates,
        granted: Stamped,
        (here, floor): (Seq, Seq),
        capacity: u64,
        (count, enough): (u64, u64),
    ) -> u64 {
        if gates.gating.is_empty() {
            return capacity;
        }
        if gates.gating.len() > 1 {
            // ORD(narrowest:A) Relaxed: where to look first.
            let narrowest = gates.gating.get(self.number.load(Relaxed));
            let at_most = narrowest.map_or(capacity, |gate| gate.room(here, floor, capacity).0);
            let at_least = self.at_least(granted, here, capacity);
            if at_most < count {
                return at_most;
            }
            if at_least >= count.max(enough.min(at_most)) {
                passed("by the limit");
                return at_least;
            }
        }
        let (mut least, mut sure, mut narrowest) = (capacity, capacity, 0);
        gates.gating.each(|number, gate| {
            let (room, firm) = gate.room(here, floor, capacity);
            if room < least || narrowest == 0 {
                narrowest = number;
            }
            (least, sure) = (least.min(room), sure.min(firm));
        });
        if gates.gating.len() > 1 {
            // ORD(narrowest:B) Relaxed: the same.
            self.number.store(narrowest, Relaxed);
            // ORD(limit:B) Release: what the gates showed, for whoever goes by the limit. Pairs with ORD(limit:A).
            self.limit.store(granted.at(here.plus(sure)).word(), Release);
        }
        least
    }

    /// The gate that left the least room the last time, where there are so many that it is not worth while to look for another
    /// one that does so now.
    pub(super) fn one_of_many<'a>(&self, gates: &'a Gates) -> Option<&'a Shared> {
        // ORD(narrowest:C) Relaxed: the same.
        if gates.gating.len() > MANY { gates.gating.get(self.number.load(Relaxed)) } else { None }
    }
}
