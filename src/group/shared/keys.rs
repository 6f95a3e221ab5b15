//! Which keys of a lane are busy, and what waits for them. Plain state, under the lock of the records that were given back.
//!
//! ```text
//!    offset     40    41    42    43    44    45    46    47
//!    key         a     b     a     -     c     b     a     d      -: none
//!              hand  given  waits hand  done  waits waits  next
//!                    back
//!    a: held 1, waiting {42, 46}                   both are parked: a is in hand
//!    b: held 0, waiting {41, 45}, failing 1        41 is queued for its time, 45 is parked behind it
//! ```
//! A key is busy while any record of it is in hand, or waits. What is dealt of a busy key is parked: claimed, and given back at
//! once.
//!
//! # Invariants
//!
//! 1. Of a key, either records are in hand or the first one that waits is queued, and nothing else of it; if neither, it is not
//!    in `busy`. While one is in hand to be buried behind a failure the first one stays queued, and may be handed out beside that.
//! 2. What is dealt is parked only as long as fewer than a quarter of the capacity are: behind keys that have failed, and
//!    behind keys that are only in hand, each counted by itself.
//! 3. `numbers` knows the key of every record that is in hand or waits, and that does not change, whatever the extractor says a second
//!    time: nothing is learned while the cursor is being moved, and then only behind what is known, or from the next record to be
//!    dealt on; nothing that is a ring or more before what was learned last.
#![forbid(unsafe_code)]

use crate::seq::Seq;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// The number of what has no key.
const NONE: u64 = 0;
/// The number of what was never asked for its key without a panic.
const UNKNOWN: u64 = u64::MAX;

/// A key as a number; `Err`: the extractor panicked.
pub(super) fn number<E>(key: Result<Option<u64>, E>) -> u64 {
    key.map_or(UNKNOWN, |key| key.map_or(NONE, |key| key.max(NONE + 1)))
}

/// Keys are numbers that were hashed already.
#[derive(Debug, Default)]
struct Asis(u64);

impl Hasher for Asis {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// What becomes of the next record that nobody has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// So many, from it on, can be handed out.
    Free(usize),
    /// It waits for its key.
    Park,
    /// No more may wait behind a key that has failed.
    Bury,
    /// No more may wait, and it has to.
    Stay,
}

/// A key that is busy.
#[derive(Debug, Default)]
struct Busy {
    /// How many of its records are in hand.
    held: usize,
    /// How many of its records have failed, in hand or not.
    failing: usize,
    waiting: BTreeSet<u64>,
    /// The one that is about to be buried because too many wait.
    burying: Option<u64>,
}

impl Busy {
    /// What is to be queued.
    fn head(&self) -> Option<u64> {
        if self.held == 0 { self.waiting.first().copied() } else { None }
    }

    fn parked(&self) -> usize {
        self.waiting.len() - usize::from(self.head().is_some())
    }
}

/// What a change made of the record at the head of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) out: Option<u64>,
    pub(super) queued: Option<u64>,
}

/// The keys of one lane.
#[derive(Debug)]
pub(super) struct Keys {
    /// By offset, as the words of the claims.
    numbers: Box<[u64]>,
    /// Of which records, from where to where.
    from: u64,
    to: u64,
    /// Behind the last that was ever learned.
    top: u64,
    busy: HashMap<u64, Busy, BuildHasherDefault<Asis>>,
    /// How many are parked, behind failing keys and behind others.
    parked: [usize; 2],
    most: usize,
}

impl Keys {
    pub(super) fn new(capacity: u64) -> Self {
        let words = capacity.max(1).next_power_of_two();
        Keys {
            numbers: (0..words).map(|_| NONE).collect(),
            from: 0,
            to: 0,
            top: 0,
            busy: HashMap::default(),
            parked: [0; 2],
            most: usize::try_from(capacity / 4).unwrap_or(usize::MAX).max(1),
        }
    }

    fn place(&self, at: u64) -> usize {
        at as usize & (self.numbers.len() - 1)
    }

    fn of(&self, at: u64) -> u64 {
        self.numbers[self.place(at)]
    }

    /// Whether the key of the record is known.
    pub(super) fn knows(&self, at: Seq) -> bool {
        (self.from..self.to).contains(&at.get())
    }

    /// Notes the keys of the records from `from` on.
    pub(super) fn learn(&mut self, from: Seq, numbers: &[u64]) {
        let ring = self.numbers.len() as u64;
        let (from, to) = (from.get(), from.get() + numbers.len() as u64);
        if from + ring < self.top.max(to) {
            return; // who read it was halted for a whole ring
        }
        if !(self.from..=self.to).contains(&from) {
            (self.from, self.to) = (from, from);
        }
        for (at, number) in (from..to).zip(numbers).filter(|(at, _)| *at >= self.to) {
            let place = self.place(at);
            self.numbers[place] = *number;
        }
        self.to = self.to.max(to);
        self.top = self.top.max(to);
        self.from = self.from.max(self.to.saturating_sub(ring));
    }

    fn is_free(&self, at: u64) -> bool {
        let number = self.of(at);
        number == NONE || !self.busy.contains_key(&number)
    }

    /// What is to be done with the record at `at`, whose key is known, and at most `most` from it on.
    pub(super) fn way(&self, at: Seq, most: usize) -> Way {
        let known = (at.get()..self.to).take(most.max(1));
        match known.take_while(|at| self.is_free(*at)).count() {
            0 => self.way_of_busy(at.get()),
            free => Way::Free(free),
        }
    }

    fn way_of_busy(&self, at: u64) -> Way {
        let Some(key) = self.busy.get(&self.of(at)) else { return Way::Park };
        let failing = key.failing > 0;
        if self.parked[usize::from(failing)] < self.most {
            Way::Park
        } else if failing && key.burying.is_none() {
            Way::Bury
        } else {
            Way::Stay
        }
    }

    /// Changes the key of the record at `at`, if it has one.
    fn change(&mut self, at: u64, change: impl FnOnce(&mut Busy)) -> Option<Change> {
        let number = self.of(at);
        if number == NONE {
            return None;
        }
        let key = self.busy.entry(number).or_default();
        let was = key.head();
        self.parked[usize::from(key.failing > 0)] -= key.parked();
        change(key);
        let is = key.head();
        self.parked[usize::from(key.failing > 0)] += key.parked();
        if key.held == 0 && key.waiting.is_empty() {
            self.busy.remove(&number);
        }
        Some(if was == is { Change::default() } else { Change { out: was, queued: is } })
    }

    /// The record is in hand, for the first time.
    pub(super) fn hold(&mut self, at: Seq) {
        self.change(at.get(), |key| key.held += 1);
    }

    /// It is in hand in order to be buried.
    pub(super) fn hold_to_bury(&mut self, at: Seq) {
        self.change(at.get(), |key| (key.held, key.burying) = (key.held + 1, Some(at.get())));
    }

    /// It never was in hand, and waits.
    pub(super) fn park(&mut self, at: Seq) {
        self.change(at.get(), |key| _ = key.waiting.insert(at.get()));
    }

    /// It was in hand and waits; `failing`: it has failed for the first time. `None`: it has no key, and is queued by itself.
    pub(super) fn back(&mut self, at: Seq, failing: bool) -> Option<Change> {
        self.change(at.get(), |key| {
            key.let_go(at.get());
            key.failing += usize::from(failing);
            key.waiting.insert(at.get());
        })
    }

    /// It was queued, and is in hand.
    pub(super) fn again(&mut self, at: Seq) {
        self.change(at.get(), |key| {
            key.waiting.remove(&at.get());
            key.held += 1;
        });
    }

    /// It was in hand, and is done; `failed`: it had failed before.
    pub(super) fn done(&mut self, at: Seq, failed: bool) -> Option<Change> {
        self.change(at.get(), |key| {
            key.let_go(at.get());
            key.failing -= usize::from(failed);
        })
    }

    /// Nothing is in hand any more, and nothing waits.
    pub(super) fn clear(&mut self) {
        self.busy.clear();
        self.parked = [0; 2];
    }
}

impl Busy {
    fn let_go(&mut self, at: u64) {
        debug_assert!(self.held > 0, "{at} is not in hand");
        self.held = self.held.saturating_sub(1);
        self.burying = self.burying.filter(|burying| *burying != at);
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Change, Keys, NONE, UNKNOWN, Way, number};
    use crate::seq::Seq;

    fn at(offset: u64) -> Seq {
        Seq::new(offset)
    }

    fn keys(capacity: u64, numbers: &[u64]) -> Keys {
        let mut keys = Keys::new(capacity);
        keys.learn(at(0), numbers);
        keys
    }

    #[test]
    fn a_number_is_none_unknown_or_a_key_s() {
        let none: [Result<Option<u64>, ()>; 4] = [Ok(None), Ok(Some(0)), Ok(Some(7)), Err(())];
        assert_eq!(none.map(number), [NONE, 1, 7, UNKNOWN]);
    }

    // Two keys whose numbers collide are one: in order, and nothing worse.
    #[test]
    fn of_a_number_one_record_after_the_other_is_queued() {
        let mut keys = keys(16, &[7, 7, 8, NONE, 7]);
        assert_eq!(keys.way(at(0), 64), Way::Free(5), "nothing is busy yet");
        keys.hold(at(0));
        assert_eq!(
            (keys.way(at(1), 64), keys.way(at(2), 64), keys.way(at(2), 1)),
            (Way::Park, Way::Free(2), Way::Free(1))
        );
        keys.park(at(1));
        keys.park(at(4));
        assert_eq!(keys.parked, [2, 0]);
        assert_eq!(keys.back(at(0), true), Some(Change { out: None, queued: Some(0) }));
        assert_eq!(keys.parked, [0, 2], "behind one that has failed now");
        keys.again(at(0));
        assert_eq!(keys.done(at(0), true), Some(Change { out: None, queued: Some(1) }));
        keys.again(at(1));
        assert_eq!(keys.done(at(1), false), Some(Change { out: None, queued: Some(4) }));
        keys.again(at(4));
        assert_eq!(keys.done(at(4), false), Some(Change::default()));
        assert_eq!((keys.parked, keys.busy.len()), ([0, 0], 0));
        assert_eq!(keys.back(at(3), true), None, "no key");
    }

    #[test]
    fn one_at_a_time_is_buried_and_only_behind_a_failure() {
        let mut keys = keys(4, &[7, 7, 7, 7]);
        keys.hold(at(0));
        keys.park(at(1));
        assert_eq!(keys.way(at(2), 1), Way::Stay, "only in hand");
        keys.back(at(0), true);
        assert_eq!(keys.way(at(2), 1), Way::Bury);
        keys.hold_to_bury(at(2));
        assert_eq!(keys.way(at(3), 1), Way::Stay);
        assert_eq!(keys.done(at(2), false), Some(Change { out: None, queued: Some(0) }));
        assert_eq!(keys.way(at(3), 1), Way::Bury);
    }

    #[test]
    fn what_was_read_long_ago_is_not_learned() {
        let mut keys = keys(4, &[1, 2, 3, 4]);
        keys.learn(at(4), &[5, 6]);
        assert_eq!([0, 1, 2, 5, 6].map(|offset| keys.knows(at(offset))), [false, false, true, true, false]);
        keys.learn(at(0), &[9, 9]);
        assert_eq!([2, 3, 4, 5].map(|offset| keys.of(offset)), [3, 4, 5, 6]);
        keys.learn(at(3), &[9, 9, 9, 7]);
        assert_eq!([3, 4, 5, 6].map(|offset| keys.of(offset)), [4, 5, 6, 7], "the first that was learned holds");
        keys.learn(at(20), &[1]);
        assert_eq!([6, 19, 20].map(|offset| keys.knows(at(offset))), [false, false, true]);
    }
}
