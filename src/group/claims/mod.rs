//! Claims: which member has which record in hand, where members of a group compete for the records of one partition.
//!
//! One word for each record from the cursor on, and two lines for the lane:
//!
//! ```text
//!    offset     40    41    42    43    44    45    46    47    48
//!             ┌─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┬─────┐
//!    words    │  D  │  D  │ C 7 │  D  │  P  │  D  │ C 9 │ C 9 │  -  │    D done, C claimed (by ticket), P pooled, - free
//!             └─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┴─────┘
//!                           ▲                                   ▲
//!                           │                                   └ next: 48. From here on nobody has been given anything
//!                           └ cursor (the lane's gate): 42, the first record that is not done. It gates producers
//!    settled: 46 = 42 + the done ones behind it: as much is done as if the cursor stood there
//!
//!    63            40 39        32 31                 2 1     0
//!    ┌───────────────┬────────────┬────────────────────┬───────┐      lap: the offset without the bits that say which word
//!    │      lap      │   epoch    │       ticket       │ state │      epoch: of the gate, its low bits
//!    └───────────────┴────────────┴────────────────────┴───────┘      ticket: a number for each claim
//! ```
//! The words are a ring: the next power of two above the capacity. A word that names another lap or epoch says nothing, which
//! is `free`: so nothing has to be cleared when the ring comes round.
//!
//! # Who writes what
//!
//! | word      | from                    | to                    | by                                                          |
//! |-----------|-------------------------|-----------------------|-------------------------------------------------------------|
//! | `next`    | n, epoch, open          | n + k                 | a claimer, by CAS; then the k words                          |
//! | `next`    | open                    | closed                | a mover (seek, fence, end), with the lane's control lock     |
//! | `next`    | closed                  | y, new epoch, open    | the mover, at its end                                        |
//! | `next`    | closed                  | as before, open       | the mover, if the cursor was not moved after all: it looks at the cursor and rings afterwards |
//! | record    | free                    | claimed(ticket)       | who moved `next` over it, by CAS from the value read before   |
//! | record    | claimed(ticket)         | done                  | the claimer: acknowledged or buried                          |
//! | record    | claimed(ticket)         | pooled                | the claimer, or who ends its claim (expiry), by CAS           |
//! | record    | pooled                  | claimed(new ticket)   | any member, by CAS                                           |
//! | record    | claimed(ticket)         | claimed(new ticket)   | who ends its claim in order to bury it, by CAS               |
//! | record    | any, old epoch          | free or done, new epoch | the mover: the sweep                                       |
//! | `settled` | s, epoch                | s + k, same epoch     | who made k records done, by CAS                              |
//! | `settled` |                         | y + kept, new epoch   | the mover                                                    |
//! | the gate  | c, epoch                | c + k                 | anybody who finds the k records there done                   |
//! | the gate  | c, epoch                | y, new epoch          | the mover, between closing and the sweep                     |
//!
//! # Invariants
//!
//! 1. A record is in one member's hands at a time, as far as acknowledgements go: each claim has a ticket of its own, and what
//!    ends it (done, pooled) exchanges the word with that ticket in it. Of an acknowledgement and an expiry one wins, and the
//!    other finds out. (A handler whose claim has ended may still run: then two do, and the first one's result is refused.)
//! 2. The cursor never passes a record that is not done, and passes every one that is: whoever makes a record done looks at
//!    the cursor afterwards, behind a fence; whoever has moved the cursor looks at the record behind it, behind a fence. So of
//!    two neighbours that are done at once, one sees the other. While `next` is closed nobody takes the cursor on: the mover
//!    does, once it is open again.
//! 3. Nobody's claim survives a move of the cursor: a claim that is under way has moved `next` before it was closed, and so its
//!    words are swept. The sweep changes every word (the epoch does), so the exchange that comes late fails.
//! 4. Done records are counted once: a word that the sweep finds done was acknowledged before the move, and the sweep says
//!    so; one that it finds otherwise never will be. The count in `settled` is of its epoch only.
//! 5. This is about acknowledgements, not about memory: who reads a record holds its page by a reader of its own, announced
//!    before the claim, whatever becomes of the claim. Of one that is claimed again, and of every one in the order of keys, the
//!    page is taken after it, and the claim is void if the page is gone: the cursor was moved over the record.
//!
//! 6. Whoever refuses a move of the cursor opens `next` as it was and looks at the cursor afterwards (inv. 2): nobody else did meanwhile.
//!
//! A ticket comes round after 2^30 claims, a lap after 2^24 rings, an epoch after 2^8 moves: an acknowledgement would have to
//! be delayed over exact multiples of all three to be mistaken. A word that says `done` has no ticket: lap and epoch alone tell
//! whether it is of today.
//!
//! # Orderings
//!
//! | label      | operation            | order   | why this much, and why no more                                                  |
//! |------------|----------------------|---------|---------------------------------------------------------------------------------|
//! | upcoming:A | `next`, load         | Acquire | the sweep before the epoch it opened; pairs with reset_claims:C               |
//! | grab:A    | record, load         | Relaxed | compared only, by grab:C; but never older than what the move of `next` is about, or `next` would be moved over words that nobody claims. It is not: the word's last value of the lap before is visible by the cursor, which producers, and so the record we found, are behind (commit:A, by who read stands:A; gate.snapshot() in `claim` acquires it), and what a sweep wrote by upcoming:A |
//! | grab:B    | `next`, CAS          | Relaxed | whether it comes before or after close_claims:A is settled by the word itself; whoever finds our place finds the sweep too, as this goes on the release of reset_claims:C |
//! | grab:C    | record, CAS          | Relaxed | before or after a sweep, as above, and from a value that is never stale (grab:A): so it fails only if `next` was closed since. What was done with the record comes by upcoming:A (a move) or with the record itself (a lap): nobody reads more by this word |
//! | skip:A     | `next`, CAS          | Relaxed | goes over done records, of which nobody reads anything; in a later claim it goes on |
//! | ticket:A   | tickets, add         | Relaxed | wants different numbers only                                                    |
//! | swap:A     | record, CAS          | AcqRel  | what was done with the record before it is given on, or the cursor passes it, or it is swept; pairs with itself, stands:A, sweep_word:B. Relaxed when lost: refused |
//! | stands:A    | record, load         | Acquire | what was done with a done record, for who moves the cursor over it; pairs with swap:A |
//! | settled_at:A  | `settled`, load      | Acquire | who finds everything done sees the acknowledgements; pairs with settled_at:B, reset_claims:B |
//! | settled_at:B  | `settled`, CAS       | Release | our acknowledgements before the count; pairs with settled_at:A. Relaxed when lost: tried again |
//! | pass_done:A  | `fence`              | SeqCst  | our record done, or the cursor moved, before the cursor and the records behind it are read; pairs with itself (inv. 2) |
//! | close_claims:A    | `next`, swap         | Relaxed | as grab:B: what is swept is exchanged word by word, and is before or after it |
//! | close_claims:B    | reach, load          | Relaxed | with the control lock only                                                       |
//! | reset_claims:A    | reach, store         | Relaxed | with the control lock only                                                       |
//! | sweep_word:A    | record, load         | Relaxed | the exchange takes it over                                                       |
//! | sweep_word:B    | record, CAS          | Acquire | what was done with a done record, for who claims it in the new epoch (by reset_claims:C); pairs with swap:A. Relaxed when lost: tried again |
//! | reopen_claims:A   | `next`, swap         | Relaxed | puts back what was there: a swap, so it goes on the release of the last reset_claims:C |
//! | reset_claims:B    | `settled`, swap      | Release | goes on the releases of settled_at:B before it, and publishes what is kept that its owners have not counted yet (by sweep_word:B); pairs with settled_at:A. Cold |
//! | reset_claims:C    | `next`, swap         | Release | the sweep, and `settled`, before the epoch is open; pairs with upcoming:A        |
#![forbid(unsafe_code)]

mod claim;
mod moving;
#[cfg(all(test, not(ringlog_loom)))]
mod tests;
mod word;

pub use claim::{Claim, share};
pub use moving::{Closed, Reset};
pub use word::Stand;

use crate::ring::Gate;
use crate::seq::{Seq, Stamped};
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicU64, fence};
use crate::sync::{Arc, CachePadded, explore};
use claim::seqs;
use std::fmt;
use word::{About, TICKETS};

/// The longest claim.
pub const RUN: usize = 64;

/// Where the next records are that nobody has been given, as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    seen: u64,
    at: Seq,
    epoch: u32,
    /// How many words there are before those of records that are not done.
    room: u64,
}

impl Place {
    /// The first of them.
    pub fn at(&self) -> Seq {
        self.at
    }
}

/// The claims of one lane.
pub struct Claims {
    words: Box<[AtomicU64]>,
    bits: u32,
    next: CachePadded<AtomicU64>,
    settled: CachePadded<AtomicU64>,
    tickets: CachePadded<AtomicU64>,
    /// Behind the last word that a sweep has ever come to.
    reach: AtomicU64,
    gate: Arc<Gate>,
}

/// `next` as it is stored: a position, an epoch (23 bits of it), and whether it is closed.
fn pack(at: Seq, epoch: u32, closed: bool) -> u64 {
    Stamped::new(at, epoch << 1 | u32::from(closed)).word()
}

impl Claims {
    /// Claims over a ring of `capacity` records, from the gate's position on. Nobody else may move that gate.
    pub fn new(capacity: u64, gate: Arc<Gate>) -> Self {
        let words = capacity.max(1).next_power_of_two();
        let (at, epoch) = gate.snapshot();
        let padded = |word| CachePadded::new(AtomicU64::new(word));
        Claims {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            bits: words.trailing_zeros(),
            next: padded(pack(at, epoch, false)),
            settled: padded(Stamped::new(at, epoch).word()),
            tickets: padded(0),
            reach: AtomicU64::new(at.get()),
            gate,
        }
    }

    #[inline(always)]
    fn word(&self, at: Seq) -> &AtomicU64 {
        &self.words[at.get() as usize & (self.words.len() - 1)]
    }

    #[inline(always)]
    fn about(&self, at: Seq, epoch: u32) -> About {
        About::new(at, self.bits, epoch)
    }

    #[inline(always)]
    fn stand_in(&self, at: Seq, epoch: u32) -> Stand {
        // ORD(stands:A) Acquire: what was done with a record that is done. Pairs with ORD(swap:A).
        self.about(at, epoch).stand(self.word(at).load(Acquire))
    }

    /// How many records from `at` on are done, without a gap.
    #[inline(always)]
    fn done_from(&self, at: Seq, epoch: u32) -> u64 {
        let ring = seqs(at, at.plus(self.words.len() as u64));
        ring.take_while(|at| self.stand_in(*at, epoch) == Stand::Done).count() as u64
    }

    /// `next`, if it is open.
    fn open(&self) -> Option<Place> {
        // ORD(upcoming:A) Acquire: what the sweep left, in the epoch it opened. Pairs with ORD(reset_claims:C).
        let seen = self.next.load(Acquire);
        let (position, epoch) = self.gate.snapshot();
        let at = Stamped::from_word(seen).widen(position);
        let room = (self.words.len() as u64).saturating_sub(at.lag_behind(position));
        (seen == pack(at, epoch, false)).then_some(Place { seen, at, epoch, room })
    }

    /// Where the next records are that nobody has been given; `None` while the cursor is being moved.
    ///
    /// Done ones, which a move of the cursor may have left there, are passed over.
    pub fn upcoming(&self) -> Option<Place> {
        loop {
            let place = self.open()?;
            let done = self.done_from(place.at, place.epoch);
            if done == 0 {
                return Some(place);
            }
            let behind = pack(place.at.plus(done), place.epoch, false);
            explore();
            // ORD(skip:A) Relaxed: nothing is read of records that are done. Lost: it is looked at anew.
            let _ = self.next.compare_exchange(place.seen, behind, Relaxed, Relaxed);
        }
    }

    /// Claims up to `most` records from `place` on, at most [`RUN`], which must be there to be read, and held by the caller's
    /// reader. `None`: somebody else was faster, or the cursor was moved; look again.
    pub fn claim(&self, place: Place, most: usize) -> Option<Claim> {
        let (mut before, Place { seen, at, epoch, room }) = ([0; RUN], place);
        let (mut len, most) = (0, room.min(most as u64));
        for (word, at) in before.iter_mut().zip(seqs(at, at.plus(most))) {
            // ORD(grab:A) Relaxed: the exchange below compares with it. It is of this epoch if the exchange of `next` is.
            *word = self.word(at).load(Relaxed);
            if self.about(at, epoch).stand(*word) != Stand::Free {
                break;
            }
            len += 1;
        }
        if len == 0 {
            return None;
        }
        let ticket = self.ticket();
        explore();
        // ORD(grab:B) Relaxed: who closes it after us sweeps what we claim, word by word.
        self.next.compare_exchange(seen, pack(at.plus(len as u64), epoch, false), Relaxed, Relaxed).ok()?;
        explore();
        let claim = Claim { first: at, len, epoch, ticket };
        for (before, at) in before.iter().zip(claim.records()) {
            let claimed = self.about(at, epoch).claimed(ticket);
            // ORD(grab:C) Relaxed: nothing is read by it. Lost: then the cursor is being moved, and what we claimed so far is
            // swept (inv. 3).
            self.word(at).compare_exchange(*before, claimed, Relaxed, Relaxed).ok()?;
        }
        Some(claim)
    }

    fn ticket(&self) -> u32 {
        // ORD(ticket:A) Relaxed: a number that no other claim has.
        (self.tickets.fetch_add(1, Relaxed) % TICKETS) as u32
    }

    #[inline]
    fn swap(&self, at: Seq, from: u64, to: u64) -> bool {
        explore();
        // ORD(swap:A) AcqRel: what was done with the record, for who gets it next or moves the cursor over it, and what was
        // done before. Pairs with ORD(swap:A), ORD(stands:A) and ORD(sweep_word:B). Relaxed when lost: it is refused.
        self.word(at).compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// Makes the records of `claim` done, those that are still the claim's: how many that are. `count` is told before anybody
    /// finds nothing pending. [`advance`](Self::advance) is to follow.
    pub fn settle(&self, claim: Claim, count: impl FnOnce(u64)) -> u64 {
        let of = |at: &Seq| self.about(*at, claim.epoch);
        let mine = |at: &Seq| self.swap(*at, of(at).claimed(claim.ticket), of(at).done());
        let done = claim.records().filter(mine).count() as u64;
        count(done);
        self.settled_more(done, claim.epoch);
        done
    }

    fn settled(&self) -> Stamped {
        // ORD(settled_at:A) Acquire: whoever finds everything done sees what was counted. Pairs with ORD(settled_at:B), ORD(reset_claims:B).
        Stamped::from_word(self.settled.load(Acquire))
    }

    fn settled_more(&self, done: u64, epoch: u32) {
        let mut seen = self.settled();
        while done > 0 && seen.stamp() == epoch {
            let more = seen.at(Seq::new(seen.word()).plus(done)).word();
            explore();
            // ORD(settled_at:B) Release: our acknowledgements. Pairs with ORD(settled_at:A). Relaxed when lost: tried again.
            match self.settled.compare_exchange(seen.word(), more, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => seen = Stamped::from_word(now),
            }
        }
    }

    /// Gives the record at `at` back, if it is still the claim's: anybody may take it again.
    pub fn give_back(&self, claim: Claim, at: Seq) -> bool {
        let about = self.about(at, claim.epoch);
        self.swap(at, about.claimed(claim.ticket), about.pooled())
    }

    /// Claims a record that was given back, if nobody else was faster.
    pub fn take_again(&self, at: Seq, epoch: u32) -> Option<Claim> {
        let (about, ticket) = (self.about(at, epoch), self.ticket());
        self.swap(at, about.pooled(), about.claimed(ticket)).then_some(Claim { first: at, len: 1, epoch, ticket })
    }

    /// Whether the record at `at` is still the claim's.
    pub fn is_of(&self, claim: Claim, at: Seq) -> bool {
        self.stand_in(at, claim.epoch) == Stand::Claimed(claim.ticket)
    }

    /// Takes the record at `at` away from `claim`, if it is still the claim's.
    pub fn take_over(&self, claim: Claim, at: Seq) -> Option<Claim> {
        let (about, ticket) = (self.about(at, claim.epoch), self.ticket());
        let taken = self.swap(at, about.claimed(claim.ticket), about.claimed(ticket));
        taken.then_some(Claim { first: at, len: 1, epoch: claim.epoch, ticket })
    }

    /// The epoch of the cursor.
    pub fn epoch(&self) -> u32 {
        self.gate.epoch()
    }

    /// Moves the cursor over what is done there; from where to where, if it was moved by this call.
    ///
    /// To be called after [`settle`](Self::settle): whoever is last to do so of several at once sees what all have done.
    pub fn advance(&self) -> Option<(Seq, Seq)> {
        let mut moved: Option<(Seq, Seq)> = None;
        loop {
            explore();
            // ORD(pass_done:A) SeqCst: what we made done, or the cursor that we moved, before we look at the cursor and at what
            // is done there. Pairs with ORD(pass_done:A) of who does the same at the same time.
            fence(SeqCst);
            let (from, epoch) = self.gate.snapshot();
            // While it is moved, or was, since: who moves it looks himself.
            if self.open().is_none_or(|next| next.epoch != epoch) {
                return moved;
            }
            let done = self.done_from(from, epoch);
            if done == 0 {
                return moved;
            }
            let to = from.plus(done);
            if self.gate.commit(epoch, from, to).is_ok() {
                moved = Some((moved.map_or(from, |(first, _)| first), to));
            }
        }
    }

    /// Where the record at `at` stands; a hint while anybody is at work.
    pub fn stand(&self, at: Seq) -> Stand {
        let (committed, epoch) = self.gate.snapshot();
        if at.precedes(committed) { Stand::Done } else { self.stand_in(at, epoch) }
    }

    /// How many records before `end` are not done; a hint while anybody is at work, but never 0 before all is counted and the
    /// cursor is at `end`.
    pub fn pending(&self, end: Seq) -> u64 {
        let (settled, committed) = (self.settled(), self.gate.position());
        end.lag_behind(settled.widen(committed)).max(end.lag_behind(committed).min(1))
    }

    /// The last record that is done, if it is behind the cursor; a hint while anybody is at work.
    pub fn last_done(&self) -> Option<Seq> {
        if self.ahead() == 0 {
            return None;
        }
        let (committed, epoch) = self.gate.snapshot();
        let behind = self.open()?.at.lag_behind(committed);
        (1..=behind).rev().map(|n| committed.plus(n - 1)).find(|at| self.stand_in(*at, epoch) == Stand::Done)
    }

    /// How many records are not done although later ones are; a hint while anybody is at work.
    pub fn behind_done(&self) -> u64 {
        let committed = self.gate.position();
        self.last_done().map_or(0, |last| last.plus(1).lag_behind(committed).saturating_sub(self.ahead()))
    }

    /// How many records behind the cursor are done; a hint while anybody is at work.
    pub fn ahead(&self) -> u64 {
        let committed = self.gate.position();
        self.settled().widen(committed).lag_behind(committed)
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").field("upcoming", &self.open()).field("ahead", &self.ahead()).finish_non_exhaustive()
    }
}
