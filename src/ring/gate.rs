//! Gates: cursors that hold producers back, and that anybody may move.
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | go:A | gone, store | Relaxed | before it is taken off the list, which is published |
//! | is_gone:A | gone, load | Relaxed | says why something is refused; nothing is read through it |
//! | covers:A | gone, load | Relaxed | ordered by the fences in_hand:A and release_page:A |
#![forbid(unsafe_code)]

use crate::ring::Fenced;
use crate::ring::tail::Tail;
use crate::seq::{Seq, Stamped};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Arc, explore};
use std::num::NonZeroU64;

/// What a cursor holds producers back by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gating {
    /// Nothing: they may overtake it.
    Follows,
    /// What is not committed, by the ring's capacity.
    Uncommitted,
    /// That, and what has not been [taken](Gate::take): no more than so many records wait.
    Waiting(NonZeroU64),
}

impl Gating {
    /// How many records may wait, where that is what it goes by.
    pub fn waiting(self) -> Option<u64> {
        match self {
            Self::Waiting(most) => Some(most.get()),
            Self::Follows | Self::Uncommitted => None,
        }
    }
}

/// A cursor that holds producers back: none claims a position at or beyond gate + capacity.
///
/// It is one word, the first offset not committed and the epoch, and every change is a compare-and-swap of both:
///
/// | from              | by                          | to               | else                                   |
/// |-------------------|-----------------------------|------------------|----------------------------------------|
/// | (from, e)         | `commit(e, from, to)`       | (to, e)          | any other word: refused, unchanged     |
/// | (x, e)            | `bump` (takeover), `leave`  | (x, e + 1)       |                                        |
/// | (x, e)            | `seek` to y                 | (y, e + 1)       |                                        |
/// | (x, e)            | `seek_from` x to y          | (y, e + 1)       | (z, e): refused, unchanged             |
/// | (x, e)            | `lapse(e, x)`               | (x, e + 1)       | any other word: refused, unchanged     |
/// | (y, 0), new       | `join`                      | (y', 0)          | only if y went while it joined         |
/// | (x, e)            | a producer, far ahead       | (y, e + 1)       | only where the log goes on without it  |
///
/// Epochs count modulo 2^24, offsets modulo 2^40: a commit that was delayed over exactly 2^24 takeovers, or 2^40
/// records, would be mistaken for a fresh one.
///
/// Whoever moves it writes, and producers read, all of it together; it shares no line with what other groups write.
#[derive(Debug)]
#[repr(align(64))]
pub struct Gate {
    word: AtomicU64,
    tail: Arc<Tail>,
    tag: u64,
    /// Its number in the order in which they came in.
    number: u64,
    gating: Gating,
    /// Up to where records are in hand, under which epoch.
    hand: AtomicU64,
    /// How many records it was lifted over, and where it was lifted to last.
    lifted: AtomicU64,
    lifted_to: AtomicU64,
    /// Taken off the list, or about to be.
    gone: AtomicBool,
}

/// How far a cursor may stay behind before it is lifted, where it may at all: half of what a packed offset can tell apart
/// from the end, so that there is plenty of time to do it.
pub(super) const FAR: u64 = 1 << 38;

impl Gate {
    pub(super) fn new(at: Seq, (tag, number): (u64, u64), tail: Arc<Tail>, gating: Gating) -> Self {
        let [word, hand] = std::array::from_fn(|_| AtomicU64::new(Stamped::new(at, 0).word()));
        let [lifted, lifted_to] = std::array::from_fn(|_| AtomicU64::new(0));
        let gone = AtomicBool::new(false);
        Self { word, tail, tag, number, gating, hand, lifted, lifted_to, gone }
    }

    /// Its number in the order in which they came into its ring.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether producers wait for it. Those that they do not wait for may be overtaken.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.gating != Gating::Follows
    }

    /// What it holds producers back by.
    #[inline]
    pub fn gating(&self) -> Gating {
        self.gating
    }

    /// How many records from `here` on it leaves room for, on a ring of `capacity`, of which those below `floor` count for
    /// nothing; and how many of them it will never take back, as long as nobody moves it back: what is in hand may come to wait
    /// again.
    pub(super) fn room(&self, here: Seq, floor: Seq, capacity: u64) -> (u64, u64) {
        let room = |at: Seq, most: u64| most.saturating_sub(here.lag_behind(at.later(floor)));
        match self.gating {
            Gating::Follows => (capacity, capacity),
            Gating::Uncommitted => {
                let room = room(self.read().widen(here), capacity);
                (room, room)
            }
            Gating::Waiting(most) => {
                let (committed, taken) = self.places();
                let behind = room(committed, capacity);
                (behind.min(room(taken, most.get())), behind.min(room(committed, most.get())))
            }
        }
    }

    /// What the gate's owner called it.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The first offset that is not committed. Anything may have happened to it by the time you look, except that
    /// nobody but you commits in your epoch.
    pub fn position(&self) -> Seq {
        self.snapshot().0
    }

    /// The epoch that commits must name.
    pub fn epoch(&self) -> u32 {
        self.read().stamp()
    }

    /// Position and epoch at one moment. What was done before the commit that is seen here is visible.
    pub fn snapshot(&self) -> (Seq, u32) {
        let word = self.read();
        (self.widen(word), word.stamp())
    }

    /// Moves the gate from `from` to `to`, if neither its position nor its epoch has changed since.
    ///
    /// What you did before is visible to the producer that this lets in. Wakes nobody.
    #[inline]
    pub fn commit(&self, epoch: u32, from: Seq, to: Seq) -> Result<(), Fenced> {
        let before = Stamped::new(from, epoch);
        explore();
        // ORD(commit:A) Release: what the group did with the records before its commit. Pairs with ORD(gate:A),
        // ORD(force:B) and ORD(catch_up:B). Relaxed on failure: the word is only reported.
        match self.word.compare_exchange(before.word(), before.at(to).word(), Release, Relaxed) {
            Ok(_) => Ok(()),
            Err(now) => Err(self.fenced(Stamped::from_word(now))),
        }
    }

    /// A new epoch: commits in the old one fail from now on. Returns it.
    pub fn bump(&self) -> u32 {
        // ORD(bump:A) Release: what the new owner did before, for whoever sees the new epoch. Pairs with ORD(gate:A). Not
        // Acquire: the last commit is found by reading the gate, where this exchange carries on what it released.
        let before = self.word.fetch_add(Stamped::ONE_STAMP, Release);
        Stamped::from_word(before).bumped().stamp()
    }

    /// A new epoch, if the gate still is where it was in `epoch`: what is in hand from `at` on has had its time, and is not
    /// acknowledged from now on. Of this and a commit exactly one comes about. Returns the new epoch.
    pub fn lapse(&self, epoch: u32, at: Seq) -> Result<u32, Fenced> {
        let expected = Stamped::new(at, epoch);
        self.force_if(|now| now == expected, at).map(|before| before.bumped().stamp())
    }

    /// Moves the gate to `to` in a new epoch, from wherever it is or, if `from` says so, from there only. Returns the word
    /// before.
    pub(super) fn force(&self, from: Option<Seq>, to: Seq) -> Result<Stamped, Fenced> {
        self.force_if(|now| from.is_none_or(|from| self.widen(now) == from), to)
    }

    /// The same, from a word that `may` accepts.
    fn force_if(&self, may: impl Fn(Stamped) -> bool, to: Seq) -> Result<Stamped, Fenced> {
        let mut now = self.read();
        loop {
            if !may(now) {
                return Err(self.fenced(now));
            }
            let next = now.at(to).bumped();
            explore();
            // ORD(force:A) Release: what the mover did before, for whoever sees the new epoch. Pairs with ORD(gate:A).
            // ORD(force:B) Acquire: a lost race is tried again from what won. Pairs with ORD(commit:A).
            match self.word.compare_exchange(now.word(), next.word(), Release, Acquire) {
                Ok(_) => return Ok(now),
                Err(other) => now = Stamped::from_word(other),
            }
        }
    }

    /// Lifts a gate that nobody has been given yet.
    pub(super) fn lift(&self, from: Seq, to: Seq) {
        explore();
        // ORD(lift:A) Relaxed: the position was nobody's to read, so nothing was done before it. It cannot fail: nobody
        // else can move the gate.
        let lifted =
            self.word.compare_exchange(Stamped::new(from, 0).word(), Stamped::new(to, 0).word(), Relaxed, Relaxed);
        debug_assert!(lifted.is_ok(), "a gate was moved before it was given to anybody");
    }

    /// Says that records up to `to` are in hand, under `epoch`: they are delivered even where the log goes on without them.
    /// Wakes nobody: where producers are held back by [what waits](Gating::Waiting), that is to follow.
    #[inline]
    pub fn take(&self, to: Seq, epoch: u32) {
        // ORD(gate_take:A) Relaxed: a number to count with. The memory of what is in hand goes by the word.
        self.hand.store(Stamped::new(to, epoch).word(), Relaxed);
    }

    /// Up to where records are committed or in hand.
    pub fn taken(&self) -> Seq {
        self.places().1
    }

    /// Up to where records are committed, and up to where they are that or in hand.
    pub fn places(&self) -> (Seq, Seq) {
        let (position, epoch) = self.snapshot();
        // ORD(places:A) Relaxed: as where it is written.
        let hand = Stamped::from_word(self.hand.load(Relaxed));
        (position, if hand.stamp() == epoch { position.later(hand.widen(position)) } else { position })
    }

    /// How many records it was taken over because it had stayed so far behind that its word would soon have been
    /// mistaken, and where that ended the last time. What is between was lost long before.
    pub fn lifted(&self) -> (u64, Seq) {
        // ORD(lifted:A) Relaxed: a counter.
        let count = self.lifted.load(Relaxed);
        // ORD(lifted:B) Relaxed: as above.
        (count, Seq::new(self.lifted_to.load(Relaxed)))
    }

    /// Takes the gate to `to` in a new epoch if it stands `FAR` behind `here` or more.
    pub(super) fn catch_up(&self, here: Seq, to: Seq) {
        let mut now = self.read();
        loop {
            let at = now.widen(here);
            if here.lag_behind(at) < FAR || !at.precedes(to) {
                return;
            }
            explore();
            // ORD(catch_up:A) Relaxed: nothing was done about the records passed over. Whoever goes on from here reads the
            // word by an Acquire that finds what was committed before: this exchange carries it on.
            // ORD(catch_up:B) Acquire: a lost race is tried again from what won. Pairs with ORD(commit:A).
            match self.word.compare_exchange(now.word(), now.at(to).bumped().word(), Relaxed, Acquire) {
                Ok(_) => {
                    // ORD(catch_up:C) Relaxed: a figure.
                    self.lifted_to.store(to.get(), Relaxed);
                    // ORD(catch_up:D) Relaxed: a counter.
                    self.lifted.fetch_add(to.since(at), Relaxed);
                    return;
                }
                Err(other) => now = Stamped::from_word(other),
            }
        }
    }

    /// Whether it was taken off the list, or is about to be; a hint.
    pub fn is_gone(&self) -> bool {
        // ORD(is_gone:A) Relaxed: nothing is read through it.
        self.gone.load(Relaxed)
    }

    /// It is about to be taken off the list.
    pub(super) fn go(&self) {
        // ORD(go:A) Relaxed: known to whoever finds it off the list: the list is published.
        self.gone.store(true, Relaxed);
    }

    /// Whether it is on the list and stands at `at` or before: then whoever drops records from there on sees the hand shown
    /// before.
    pub(super) fn covers(&self, at: Seq) -> bool {
        let word = self.read();
        // ORD(covers:A) Relaxed: whoever did not see our hand had found the cursor off the list before its fence, so before
        // ours.
        (word == word.at(at) || self.widen(word).precedes(at)) && !self.gone.load(Relaxed)
    }

    /// Whether it is a cursor of the ring that `tail` is the tail of.
    pub(super) fn is_of(&self, tail: &Arc<Tail>) -> bool {
        Arc::ptr_eq(&self.tail, tail)
    }

    pub(super) fn read(&self) -> Stamped {
        // ORD(gate:A) Acquire: what the group did before it committed. Pairs with ORD(commit:A), ORD(bump:A)
        // and ORD(force:A).
        Stamped::from_word(self.word.load(Acquire))
    }

    /// A gate keeps within the capacity of the tail, which is read after it, or is lifted long before 2^39: so 40 bits are
    /// plenty.
    pub(super) fn widen(&self, word: Stamped) -> Seq {
        word.widen(self.tail.end_seq())
    }

    fn fenced(&self, now: Stamped) -> Fenced {
        Fenced { epoch: now.stamp(), position: self.widen(now) }
    }
}
