//! Who may publish to a shared ring with plain stores: the one thread that does, for as long as there is one.
//!
//! An exchange on the tail makes a producer wait until everything it stored before has reached the cache, the last record
//! among it, whose line the reader has just taken: half of a publish and more is spent there. So the first thread to
//! publish becomes the ring's *owner* and publishes as an exclusive producer does. Another thread that comes takes the
//! ring over; after a few hands it is everybody's, and claimed by exchange for ever.
//!
//! To take a ring from an owner that pays no fence costs a system call and interrupts everybody. So an owner pays one with each
//! publish, as with an exchange, until there have been [`WORTH`] publishes: the ring is *settled* then, and stays so for whoever has
//! it later. A ring that sees few, or other threads all the time, costs that call only where several of them find it SETTLING.
//!
//! ```text
//!     owner             who claims positions                              next
//!     -----             --------------------                              ----
//!     NOBODY            nobody has yet                                    (t, 0)
//!     (thread t, hand)  t alone, between `enter` and `leave`              (another, hand + 1); SETTLING after the last hand;
//!                                                                         the same, settled, by t itself
//!     SETTLING          nobody: the last owner may still be inside        SHARED
//!     SHARED            everybody, by exchange                            -
//!     EXCLUDED          nobody: the ring has an exclusive producer        -
//!
//!        the owner, hand h                            whoever takes the ring from it, or seals
//!        -----------------                            ----------------------------------------
//!     A  store busy[h] = true                      C  exchange owner = (me, h + 1), or SETTLING
//!        settled: light_barrier(), else a fence       was it settled: heavy_barrier(), else a fence
//!     B  load owner: still (me, h)?                D  load busy[0..=h], until all are false
//!        no:  store busy[h] = false, look again       then publish as the owner, or store SHARED
//!        yes: record, mark, tail,
//!             store busy[h] = false
//! ```
//!
//! # Who writes what
//!
//! | word      | written by                                                              | read by                         |
//! |-----------|-------------------------------------------------------------------------|---------------------------------|
//! | `owner`   | whoever takes the ring, or settles it, by exchange; SHARED by those who found SETTLING | every producer, at each publish |
//! | `busy[h]` | the owner of hand h                                                     | whoever takes the ring later    |
//! | `turns`   | the owner, between `enter` and `leave`                                  | the owner                       |
//! | the tail  | the owner between `enter` and `leave`; everybody, by exchange, after SHARED | everybody                   |
//!
//! # Invariants
//!
//! 1. `owner` goes through its states in the order of the picture, and a hand is dealt once. So an owner that still finds its
//!    own hand has owned the ring without a gap.
//! 2. Of B and D not both miss the other side (the barriers): an owner that B lets in is waited for by everybody who takes
//!    the ring later. Flags of earlier hands are looked at too: whoever took hand h may itself still be waiting. And a flag
//!    is written by the one thread that its hand was dealt to: of two that want a hand, the one that lost it keeps off,
//!    or it would hide the owner inside. Once settled, always: the exchange of whoever took a ring that was not comes before
//!    any publish without a fence, and whoever takes one that was leaves out nobody who paid none.
//! 3. Plain stores of the tail happen before every later owner's, and before every exchange: through `leave`, D and SHARED.
//! 4. No user code runs between `enter` and `leave`. What waits at D waits for a few stores, or, where their thread has
//!    lost its processor between them, until it runs again. A ring changes hands at most [`HANDS`] times; everybody
//!    who comes then, or seals, waits.
//!
//! # Orderings
//!
//! | label   | operation              | order   | why this much, and why no more                                            |
//! |---------|------------------------|---------|----------------------------------------------------------------------------|
//! | stand:A | `owner`, load          | Acquire | SHARED: the tail as its last owner left it (inv. 3); pairs with share:C. Own hand: we wrote it |
//! | enter:A | `busy`, store          | Relaxed | before enter:B by the barrier pair                                          |
//! | enter:C | light barrier          | SeqCst  | A before B, once settled; pairs with take_over:B, share:D                   |
//! | enter:D | fence                  | SeqCst  | A before B, before that; pairs with take_over:C, share:E                    |
//! | enter:B | `owner`, load          | Relaxed | compared only; after enter:A by the barrier pair                            |
//! | leave:A | `busy`, store          | Release | our tail, for the next owner; pairs with wait:A                             |
//! | take_over:A | `owner`, CAS       | Relaxed | says whose turn it is and carries nothing: what the last owner did comes through `busy` |
//! | take_over:B | heavy barrier      | SeqCst  | C before D, of a settled ring; pairs with enter:C                           |
//! | take_over:C | fence              | SeqCst  | C before D, of another; pairs with enter:D                                  |
//! | settle:A | `owner`, CAS          | Relaxed | says what the owner does from now on; who takes the ring takes it from this word or from the one before |
//! | turns:A | `turns`, load          | Relaxed | one owner after the other, by leave:A and wait:A                           |
//! | turns:B | `turns`, store         | Relaxed | the same                                                                  |
//! | wait:A  | `busy`, load           | Acquire | the tail of those who were inside; pairs with leave:A. After take_over:A and share:B by the barrier pair |
//! | share:A | `owner`, load          | Acquire | as stand:A; SETTLING: its writer's exchange comes before our barrier too    |
//! | share:B | `owner`, CAS           | Relaxed | as take_over:A                                                              |
//! | share:D | heavy barrier          | SeqCst  | as take_over:B; pairs with enter:C                                          |
//! | share:E | fence                  | SeqCst  | as take_over:C; pairs with enter:D                                          |
//! | share:C | `owner`, store         | Release | what wait:A acquired, for everybody who finds SHARED; pairs with stand:A, share:A |
#![forbid(unsafe_code)]

use crate::ring::Producers;
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
use crate::sync::hint::{barrier_is_asymmetric, heavy_barrier, light_barrier};
use crate::sync::{explore, give_way, passed, thread_number};

/// How often a ring is handed over before it is everybody's.
const HANDS: usize = if cfg!(ringlog_loom) { 2 } else { 4 };
const HAND_BITS: u32 = HANDS.trailing_zeros();
const _: () = assert!(HANDS.is_power_of_two());

/// After how many publishes it is worth while to settle.
const WORTH: u32 = if cfg!(ringlog_loom) { 2 } else { 64 };

const NOBODY: u64 = 0;
const EXCLUDED: u64 = u64::MAX - 2;
const SETTLING: u64 = u64::MAX - 1;
const SHARED: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Bias {
    owner: AtomicU64,
    busy: [AtomicBool; HANDS],
    /// How often owners have published before the ring was settled.
    turns: AtomicU32,
}

/// One thread's turn as the owner, and whether the ring is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hand(u64);

impl Hand {
    const SETTLED: u64 = HANDS as u64;

    fn new(thread: u64, nth: usize, settled: bool) -> Self {
        Self(thread << (HAND_BITS + 1) | u64::from(settled) << HAND_BITS | nth as u64)
    }

    fn is_of(self, thread: u64) -> bool {
        self.0 >> (HAND_BITS + 1) == thread
    }

    fn is_settled(self) -> bool {
        self.0 & Self::SETTLED != 0 // NOBODY is not, SETTLING is
    }

    fn nth(self) -> usize {
        self.0 as usize % HANDS
    }
}

/// How a producer may claim.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    /// With plain stores, once `enter` has let it in.
    Owner(Hand),
    /// By exchange.
    Shared,
}

impl Bias {
    /// Nobody's yet. Where the light barrier is a fence there is nothing to gain, and the ring is everybody's at once.
    pub(super) fn new(producers: Producers) -> Self {
        let owner = match producers {
            Producers::Exclusive => EXCLUDED,
            Producers::Shared if cfg!(ringlog_loom) || barrier_is_asymmetric() => NOBODY,
            Producers::Shared => SHARED,
        };
        let busy = std::array::from_fn(|_| AtomicBool::new(false));
        Self { owner: AtomicU64::new(owner), busy, turns: AtomicU32::new(0) }
    }

    /// How this thread may claim; it may have to take the ring over first.
    ///
    /// # Panics
    /// When the ring has an exclusive producer.
    #[inline(always)]
    pub(super) fn stand(&self) -> Stand {
        let me = thread_number();
        loop {
            // ORD(stand:A) Acquire: SHARED: the tail as its last owner left it. Pairs with ORD(share:C).
            let owner = Hand(self.owner.load(Acquire));
            if owner.is_of(me) {
                return Stand::Owner(owner);
            }
            if owner.0 == SHARED {
                return Stand::Shared;
            }
            if let Some(mine) = self.take_over(me, owner) {
                return Stand::Owner(mine);
            }
        }
    }

    /// Takes the ring over from `owner`, or makes it everybody's after the last hand. `None`: look again.
    #[cold]
    #[inline(never)]
    fn take_over(&self, me: u64, owner: Hand) -> Option<Hand> {
        assert!(owner.0 != EXCLUDED, "this ring has one exclusive producer: publish through it");
        let nth = if owner.0 == NOBODY { 0 } else { owner.nth() + 1 };
        if owner.0 == SETTLING || nth == HANDS {
            self.share();
            return None;
        }
        let (settled, mine) = (owner.is_settled(), Hand::new(me, nth, owner.is_settled()));
        explore();
        // ORD(take_over:A) Relaxed: whose turn it is; what the last owner did comes through its flag. A failed one deals
        // nothing: the flag of that hand is the winner's (inv. 2).
        if self.owner.compare_exchange(owner.0, mine.0, Relaxed, Relaxed).is_err() {
            passed("lost a hand");
            return None;
        }
        if nth > 0 {
            passed("taken over");
            if settled {
                passed("taken over, settled");
                // ORD(take_over:B) SeqCst: the exchange before the look at the flags. Pairs with ORD(enter:C).
                heavy_barrier();
            } else {
                // ORD(take_over:C) SeqCst: the same. Pairs with ORD(enter:D).
                fence(SeqCst);
            }
            self.wait(nth);
        }
        Some(mine)
    }

    /// Makes the ring everybody's: afterwards nobody but by exchange claims anything.
    pub(super) fn share(&self) {
        loop {
            // ORD(share:A) Acquire: as in `stand`. Pairs with ORD(share:C).
            let owner = self.owner.load(Acquire);
            if owner == SHARED || owner == EXCLUDED {
                return;
            }
            explore();
            // ORD(share:B) Relaxed: as in `take_over`.
            if owner == SETTLING || self.owner.compare_exchange(owner, SETTLING, Relaxed, Relaxed).is_ok() {
                passed("settled");
                if Hand(owner).is_settled() {
                    // ORD(share:D) SeqCst: as in `take_over`. Pairs with ORD(enter:C).
                    heavy_barrier();
                } else {
                    // ORD(share:E) SeqCst: as in `take_over`. Pairs with ORD(enter:D).
                    fence(SeqCst);
                }
                self.wait(HANDS);
                // ORD(share:C) Release: what the owners left. Pairs with ORD(stand:A) and ORD(share:A).
                self.owner.store(SHARED, Release);
                return;
            }
        }
    }

    /// Waits until none of the first `hands` owners is inside.
    fn wait(&self, hands: usize) {
        for busy in &self.busy[..hands] {
            let mut turns = 0_u32;
            // ORD(wait:A) Acquire: the tail of whoever was inside. Pairs with ORD(leave:A).
            while busy.load(Acquire) {
                passed("waited");
                give_way(turns);
                turns = turns.saturating_add(1);
            }
        }
    }

    /// Enters the stretch that others wait for; false when the ring is no longer this hand's.
    #[inline(always)]
    pub(super) fn enter(&self, hand: Hand) -> bool {
        // ORD(enter:A) Relaxed: before the load below by the barrier pair.
        self.busy[hand.nth()].store(true, Relaxed);
        if hand.is_settled() {
            // ORD(enter:C) SeqCst: the flag before the second look. Pairs with ORD(take_over:B) and ORD(share:D).
            light_barrier();
        } else {
            // ORD(enter:D) SeqCst: the same. Pairs with ORD(take_over:C) and ORD(share:E).
            fence(SeqCst);
        }
        // ORD(enter:B) Relaxed: either we see that the ring was taken, or the taker, behind its barrier, sees us.
        if self.owner.load(Relaxed) == hand.0 {
            passed("entered");
            if !hand.is_settled() {
                self.counts(hand);
            }
            return true;
        }
        passed("refused");
        self.leave(hand);
        false
    }

    /// One more publish of an owner that is not settled, and inside.
    fn counts(&self, hand: Hand) {
        // ORD(turns:A) Relaxed: ours.
        let turns = self.turns.load(Relaxed) + 1;
        // ORD(turns:B) Relaxed: ours.
        self.turns.store(turns, Relaxed);
        if turns >= WORTH {
            explore();
            let settled = hand.0 | Hand::SETTLED;
            // ORD(settle:A) Relaxed: see the table. From the next publish on; it may also be lost already.
            let won = self.owner.compare_exchange(hand.0, settled, Relaxed, Relaxed).is_ok();
            passed(if won { "worth it" } else { "lost before it was" });
        }
    }

    /// Leaves it, with the tail moved on.
    #[inline(always)]
    pub(super) fn leave(&self, hand: Hand) {
        // ORD(leave:A) Release: the tail, for the next owner. Pairs with ORD(wait:A).
        self.busy[hand.nth()].store(false, Release);
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests;
