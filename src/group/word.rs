//! The lane word: who may step a lane, who shall, whether it is paused or over.
//!
//! ```text
//!   63          48 47          28 27           8 7    5    4     3        2   1     0
//!   ┌─────────────┬──────────────┬──────────────┬──────┬───────┬──────────┬─────┬─────┐
//!   │   nudges    │    target    │    owner     │  -   │REDRIVE│  paused  │ENDED│HELD │
//!   └─────────────┴──────────────┴──────────────┴──────┴───────┴──────────┴─────┴─────┘
//!                   who shall       who may step  letters wait  reasons          somebody has the lane's state in hand
//! ```
//! Owner and target are member numbers of the group, 0 is nobody. `owner != target` is a move under way.
//!
//! # Who writes what: every change is a CAS of the whole word
//!
//! | from                          | event       | to                              | by whom, and what else                     |
//! |-------------------------------|-------------|---------------------------------|--------------------------------------------|
//! | free, owner = target = me     | take        | HELD                            | the owner; takes the parked state          |
//! | HELD, owner = me              | let go      | free, owner := target           | the holder, parking the state; rings       |
//! | HELD, owner = other or free   | let go      | refused                         | who was seized from, and drops its state   |
//! | HELD, owner = hung            | seize       | free, owner := target := new    | the dealer, parking fresh state; rings new |
//! | free                          | retarget    | owner := target := new          | the dealer; rings the new owner            |
//! | HELD                          | retarget    | target := new                   | the dealer; rings the holder               |
//! | any                           | pause       | + reason                        | the control; found at the next record      |
//! | any                           | resume      | - reason                        | the control; rings                         |
//! | any                           | seek        | nudges + 1                      | the control, after the cursor moved; rings |
//! | not ENDED                     | redrive     | REDRIVE                         | who queued letters, under the queue's lock; rings |
//! | REDRIVE                       | redriven    | - REDRIVE                       | who took the last one out, under the queue's lock |
//! | free, not ENDED               | end         | ENDED, owner := target := 0     | the deleter; takes the gate off            |
//! | HELD, not ENDED               | end         | ENDED, target := 0              | the same                                   |
//! | ENDED, HELD                   | let go      | ENDED, owner := 0               | the holder, which drops the state          |
//! | ENDED                         | other       | refused                         |                                            |
//!
//! # Invariants
//!
//! 1. A lane is stepped only by who set HELD, until the same one clears it. So it never runs twice at once, unless it was
//!    seized: then the handler of the one it was seized from may still be at work, and whatever it makes of what it has in
//!    hand is refused. Seized is only what that one can do nothing with before it has asked: see `watch`.
//! 2. The state is in the lane's parking place if the lane is free (and not ended), or a consumer holds it; and else not.
//!    A consumer holds it as long as it has anything in flight, and reads with a reader of its own. Letting go and seizing
//!    change the word and put the state there under the place's lock, so of the two the one that comes first does both, and
//!    the other neither. HELD with owner = me is set by me alone: as long as I find that, nobody has seized it.
//! 3. Every change by anybody but the holder changes the word (`nudges` sees to it), so the holder finds it by comparing
//!    the word with the one it took, once per record. 2^16 changes between two looks would hide one; the next change,
//!    and the refusal of the next commit after a seek, show it.
//! 4. The word says who may run; the cursor's epoch says whose acks count.
//!
//! # Orderings
//!
//! | label    | operation           | order   | why this much, and why no more                                             |
//! |----------|---------------------|---------|----------------------------------------------------------------------------|
//! | word:A   | load at a boundary  | Acquire | a seek's new cursor before its nudge; pairs with change:A                   |
//! | word:B   | look between records| Relaxed | only "did it change"; what it says is read again by word:A                  |
//! | change:A | CAS, taken          | AcqRel  | hands state and orders over: HELD → free → HELD is the chain to the next   |
//! | change:B | CAS, lost           | Relaxed | the loop decides on the value alone; a later success takes over what it holds |
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::explore;

/// A member's number within its group; 0 is nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(u32);

impl MemberId {
    /// Nobody.
    pub const NOBODY: MemberId = MemberId(0);
    /// The largest number: a group has at most this many members at once.
    pub const MAX: u32 = (1 << OWNER_BITS) - 1;

    /// The member `n`, if there can be one.
    pub fn new(n: u32) -> Option<Self> {
        (1..=Self::MAX).contains(&n).then_some(MemberId(n))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

/// Why a lane is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// The whole group was.
    Group,
    /// This partition was.
    Partition,
}

const HELD: u64 = 1;
const ENDED: u64 = 1 << 1;
const PAUSE_SHIFT: u32 = 2;
const PAUSED: u64 = 0b11 << PAUSE_SHIFT;
/// Letters are queued to be handed over before the next record.
const REDRIVE: u64 = 1 << 4;
const OWNER_BITS: u32 = 20;
const OWNER_SHIFT: u32 = 8;
const TARGET_SHIFT: u32 = OWNER_SHIFT + OWNER_BITS;
const NUDGE_SHIFT: u32 = TARGET_SHIFT + OWNER_BITS;
const _: () = assert!(NUDGE_SHIFT == 48, "16 bits are left for nudges");

/// One value of the lane word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// Whether somebody has the lane's state in hand.
    pub fn is_held(self) -> bool {
        self.0 & HELD != 0
    }

    /// Whether it is this member who has the lane's state in hand.
    pub fn is_held_by(self, member: MemberId) -> bool {
        self.is_held() && self.owner() == member
    }

    /// Whether the lane is over.
    pub fn is_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// The reasons for which it is paused, as a mask.
    pub fn paused(self) -> u8 {
        ((self.0 & PAUSED) >> PAUSE_SHIFT) as u8
    }

    /// Whether it is paused for this reason.
    pub fn is_paused_for(self, reason: PauseReason) -> bool {
        self.0 & Word::pause_bit(reason) != 0
    }

    /// Whether letters wait to be handed over.
    pub fn redrives(self) -> bool {
        self.0 & REDRIVE != 0
    }

    /// Whether there is nothing to do but what comes from the log: not paused, no letters waiting.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.0 & (PAUSED | REDRIVE) == 0
    }

    /// Who may step it.
    pub fn owner(self) -> MemberId {
        MemberId(((self.0 >> OWNER_SHIFT) & u64::from(MemberId::MAX)) as u32)
    }

    /// Who shall.
    pub fn target(self) -> MemberId {
        MemberId(((self.0 >> TARGET_SHIFT) & u64::from(MemberId::MAX)) as u32)
    }

    /// Whether it is this member's, and stays so.
    pub fn is_of(self, member: MemberId) -> bool {
        self.owner() == member && self.target() == member
    }

    fn with_owner(self, id: MemberId) -> Self {
        Word(self.0 & !(u64::from(MemberId::MAX) << OWNER_SHIFT) | u64::from(id.0) << OWNER_SHIFT)
    }

    fn with_target(self, id: MemberId) -> Self {
        Word(self.0 & !(u64::from(MemberId::MAX) << TARGET_SHIFT) | u64::from(id.0) << TARGET_SHIFT)
    }

    fn nudged(self) -> Self {
        Word(self.0.wrapping_add(1 << NUDGE_SHIFT))
    }

    fn pause_bit(reason: PauseReason) -> u64 {
        1 << (PAUSE_SHIFT + reason as u32)
    }
}

/// The word itself; a new one is nobody's lane.
#[derive(Debug, Default)]
pub struct LaneWord(AtomicU64);

impl LaneWord {
    /// The word as it is.
    #[inline(always)]
    pub fn load(&self) -> Word {
        // ORD(word:A) Acquire: a seek's cursor is seen with its nudge. Pairs with ORD(change:A).
        Word(self.0.load(Ordering::Acquire))
    }

    /// Whether anybody changed the word since `seen` (inv. 3).
    #[inline(always)]
    pub fn differs(&self, seen: Word) -> bool {
        // ORD(word:B) Relaxed: nothing is read through it; a boundary loads the word again.
        self.0.load(Ordering::Relaxed) != seen.0
    }

    /// Replaces the word by what `to` makes of it; `None` refuses. Returns the word before and after, or the one refused.
    fn change(&self, to: impl Fn(Word) -> Option<Word>) -> Result<(Word, Word), Word> {
        let mut seen = self.load();
        loop {
            let new = to(seen).ok_or(seen)?;
            explore();
            // ORD(change:A) AcqRel: hands over what we wrote, takes over what was handed to us. Pairs with itself, and with
            // ORD(word:A).
            // ORD(change:B) Relaxed: the loop decides on the value alone; what comes with it is taken over by the CAS that
            // succeeds, and a refusal reads nothing through it.
            match self.0.compare_exchange_weak(seen.0, new.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok((seen, new)),
                Err(found) => seen = Word(found),
            }
        }
    }

    /// free, owner = target = `me` → HELD. ENDED, HELD, paused, somebody else's: refused with the word.
    pub fn take(&self, me: MemberId) -> Result<Word, Word> {
        let free = |w: Word| !w.is_held() && !w.is_ended() && w.paused() == 0;
        self.change(|w| (free(w) && w.is_of(me)).then_some(Word(w.0 | HELD))).map(|(_, new)| new)
    }

    /// HELD, owner = `me` → free, owner := target. Returns the word after; its owner is to be rung. Refused with the word if
    /// `me` does not hold it any more, because it was seized.
    pub fn let_go(&self, me: MemberId) -> Result<Word, Word> {
        let freed = |w: Word| Word(w.0 & !HELD).with_owner(w.target()).nudged();
        self.change(|w| w.is_held_by(me).then(|| freed(w))).map(|(_, new)| new)
    }

    /// HELD, owner = `from` → free, owner := target := `to`, who is to be rung. ENDED, free, held by somebody else, from a
    /// member to itself or to nobody: refused with the word.
    pub fn seize(&self, from: MemberId, to: MemberId) -> Result<Word, Word> {
        let may = |w: Word| w.is_held_by(from) && !w.is_ended() && from != to && to != MemberId::NOBODY;
        let seized = |w: Word| Word(w.0 & !HELD).with_owner(to).with_target(to).nudged();
        self.change(|w| may(w).then(|| seized(w))).map(|(_, new)| new)
    }

    /// free → owner := target := `new`; HELD → target := `new`. The same target: nothing. ENDED: refused.
    /// Returns the word before, for whom to ring.
    pub fn retarget(&self, new: MemberId) -> Result<Word, Word> {
        let moved = |w: Word| {
            let aimed = w.with_target(new).nudged();
            if w.is_held() { aimed } else { aimed.with_owner(new) }
        };
        self.change(|w| (!w.is_ended() && w.target() != new).then(|| moved(w))).map(|(old, _)| old)
    }

    /// Any but ENDED → + reason.
    pub fn pause(&self, reason: PauseReason) {
        let bit = Word::pause_bit(reason);
        let _ = self.change(|w| (!w.is_ended() && w.0 & bit == 0).then(|| Word(w.0 | bit).nudged()));
    }

    /// Any but ENDED → - reason.
    pub fn resume(&self, reason: PauseReason) {
        let bit = Word::pause_bit(reason);
        let _ = self.change(|w| (!w.is_ended() && w.0 & bit != 0).then(|| Word(w.0 & !bit).nudged()));
    }

    /// Any but ENDED → nudges + 1.
    pub fn nudge(&self) {
        let _ = self.change(|w| (!w.is_ended()).then(|| w.nudged()));
    }

    /// Not ENDED → REDRIVE.
    pub fn redrive(&self) {
        let _ = self.change(|w| (!w.is_ended()).then(|| Word(w.0 | REDRIVE).nudged()));
    }

    /// REDRIVE → without.
    pub fn redriven(&self) {
        let _ = self.change(|w| w.redrives().then(|| Word(w.0 & !REDRIVE).nudged()));
    }

    /// Not ENDED → ENDED, nobody's; HELD, its holder's until he lets go. Whether this call did it.
    pub fn end(&self) -> bool {
        let over = |w: Word| {
            let nobodys = Word(w.0 | ENDED).with_target(MemberId::NOBODY).nudged();
            if w.is_held() { nobodys } else { nobodys.with_owner(MemberId::NOBODY) }
        };
        self.change(|w| (!w.is_ended()).then(|| over(w))).is_ok()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{LaneWord, MemberId, PauseReason};

    fn member(n: u32) -> MemberId {
        MemberId::new(n).unwrap()
    }

    // A-53, C-30
    #[test]
    fn inv1_a_lane_is_held_by_one_member_at_a_time() {
        let (word, one, two) = (LaneWord::default(), member(1), member(MemberId::MAX));
        assert!(word.take(one).is_err(), "nobody's lane");
        word.retarget(one).unwrap();
        assert!(word.take(two).is_err());
        assert!(word.take(one).unwrap().is_held());
        assert!(word.take(one).is_err(), "held already");
        word.retarget(two).unwrap();
        assert_eq!((word.load().owner(), word.load().target()), (one, two));
        assert!(word.take(two).is_err(), "not before the holder lets go");
        assert_eq!(word.let_go(one).unwrap().owner(), two);
        assert!(word.take(two).is_ok());
    }

    #[test]
    fn inv3_every_control_changes_the_word() {
        let word = LaneWord::default();
        word.retarget(member(1)).unwrap();
        let mut seen = word.take(member(1)).unwrap();
        let nudge: fn(&LaneWord) = LaneWord::nudge;
        let controls: [fn(&LaneWord); 8] = [
            nudge,
            LaneWord::redrive,
            LaneWord::redriven,
            |w| w.pause(PauseReason::Group),
            |w| w.pause(PauseReason::Partition),
            |w| w.resume(PauseReason::Group),
            |w| w.resume(PauseReason::Partition),
            |w| {
                w.retarget(member(2)).unwrap();
            },
        ];
        for control in controls {
            control(&word);
            assert!(word.differs(seen));
            seen = word.load();
        }
        assert!(word.end() && !word.end());
        assert!(word.differs(seen));
    }

    #[test]
    fn pause_reasons_are_separate_and_a_paused_lane_is_not_taken() {
        let word = LaneWord::default();
        word.retarget(member(1)).unwrap();
        word.pause(PauseReason::Group);
        word.pause(PauseReason::Partition);
        word.resume(PauseReason::Group);
        assert!(word.take(member(1)).is_err());
        assert_ne!(word.load().paused(), 0);
        word.resume(PauseReason::Partition);
        assert!(word.take(member(1)).is_ok());
    }

    #[test]
    fn an_ended_lane_refuses_everything_but_letting_go() {
        let word = LaneWord::default();
        word.retarget(member(1)).unwrap();
        word.take(member(1)).unwrap();
        assert!(word.end());
        assert!(word.retarget(member(2)).is_err());
        let after = word.let_go(member(1)).unwrap();
        assert!(after.is_ended() && !after.is_held() && after.owner() == MemberId::NOBODY);
        assert!(word.take(member(1)).is_err());
    }

    // B-8, X9
    #[test]
    fn a_lane_is_seized_from_its_holder_who_finds_that_and_lets_nothing_go() {
        let (word, one, two) = (LaneWord::default(), member(1), member(2));
        word.retarget(one).unwrap();
        assert!(word.seize(one, two).is_err(), "nobody holds it");
        let seen = word.take(one).unwrap();
        assert!(word.seize(two, one).is_err(), "another one holds it");
        assert!(word.seize(one, one).is_err() && word.seize(one, MemberId::NOBODY).is_err());
        word.pause(PauseReason::Group);
        word.redrive();
        let after = word.seize(one, two).unwrap();
        assert!(!after.is_held() && after.is_of(two) && after.paused() != 0 && after.redrives());
        assert!(word.differs(seen) && word.let_go(one).is_err() && word.load() == after);
        word.resume(PauseReason::Group);
        word.take(two).unwrap();
        assert!(word.let_go(one).is_err(), "it is another's now");
        word.retarget(one).unwrap();
        assert!(word.let_go(one).is_err(), "and still is, although it comes back");
        assert!(word.end() && word.seize(two, one).is_err());
        assert!(word.let_go(two).unwrap().is_ended());
    }

    #[test]
    fn fields_do_not_touch_each_other_at_their_largest() {
        let (word, last) = (LaneWord::default(), member(MemberId::MAX));
        for _ in 0..(1 << 17) {
            word.nudge();
        }
        word.retarget(last).unwrap();
        let seen = word.load();
        assert_eq!((seen.owner(), seen.target(), seen.paused()), (last, last, 0));
        assert!(!seen.is_held() && !seen.is_ended());
    }
}
