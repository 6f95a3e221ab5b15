//! What a lane may lose, and how its figures stay right while nobody has noticed yet.
//!
//! Records go without asking the lane: on a topic that drops its oldest, and where they have an age. The lane finds out
//! when it reads on; until then, which for a lane that is paused or whose handler is stuck may be long, its figures are
//! computed when somebody asks:
//!
//! ```text
//!     start        committed        in hand up to      earliest              end
//!       |  acked, dead ..  | being handled |    lost, and unnoticed  |  retained  |
//!                          '-- pending ----'                         '- pending --'
//! ```
//!
//! What is in hand is delivered, gone or not, and is no loss of this group. All other records between its cursor and the
//! earliest retained one are.
//!
//! 1. The end of what is in hand is one word with the epoch of the cursor, so that a seek makes it void at once.
//! 2. A change of the cursor that is also counted is made between [`Changes::amend`] and the end of what that returns;
//!    who adds up cursor and counters looks whether a change came between, and then looks again. So what was lost is
//!    neither missing nor counted twice while it turns from unnoticed to counted.
//!
//! | label      | operation           | order   | why this much, and why no more                                          |
//! |------------|---------------------|---------|-------------------------------------------------------------------------|
//! | in_hand:A, in_hand:B | `InHand` | Relaxed | a figure; the reader sees the handler's own last one or an older         |
//! | amend:A    | `begun`, add        | Relaxed | ordered by amend:B                                                      |
//! | amend:B    | fence               | Release | `begun` before the changes, for who sees one of them. Pairs with quiet:B |
//! | ended:A    | `ended`, add        | Release | the changes before it. Pairs with quiet:A                               |
//! | quiet:A    | `ended`, load       | Acquire | all that was changed before. Pairs with ended:A                         |
//! | quiet:B    | fence               | Acquire | what was read before `begun` is read. Pairs with amend:B                 |
//! | quiet:C    | `begun`, load       | Relaxed | ordered by quiet:B                                                      |
#![forbid(unsafe_code)]

use crate::seq::{Seq, Stamped};
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::give_way;

/// How often figures are read again because something changed; then they are what they are.
const LOOKS: u32 = 128;

/// Up to where records are in hand, under one epoch.
#[derive(Debug, Default)]
pub(super) struct InHand(AtomicU64);

impl InHand {
    /// Records up to `to` are in hand; with the cursor itself, none.
    pub(super) fn set(&self, to: Seq, epoch: u32) {
        // ORD(in_hand:A) Relaxed: see the table.
        self.0.store(Stamped::new(to, epoch).word(), Ordering::Relaxed);
    }

    /// Where the records in hand end, if the cursor stands at `committed` in `epoch`; at the cursor if there are none.
    pub(super) fn end(&self, committed: Seq, epoch: u32) -> Seq {
        // ORD(in_hand:B) Relaxed: see the table.
        let word = Stamped::from_word(self.0.load(Ordering::Relaxed));
        if word.stamp() == epoch { committed.later(word.widen(committed)) } else { committed }
    }
}

/// Changes of the cursor together with counters; any number at once.
#[derive(Debug, Default)]
pub(super) struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A change under way; dropping it ends it.
#[derive(Debug)]
pub(super) struct Change<'a>(&'a Changes);

impl Changes {
    pub(super) fn amend(&self) -> Change<'_> {
        // ORD(amend:A) Relaxed: see the table.
        self.begun.fetch_add(1, Ordering::Relaxed);
        // ORD(amend:B) Release: see the table. Pairs with ORD(quiet:B).
        fence(Ordering::Release);
        Change(self)
    }

    /// What `read` finds while nothing changes; after many looks, what it finds.
    pub(super) fn quiet<R>(&self, read: impl Fn() -> R) -> R {
        for turn in 0..LOOKS {
            // ORD(quiet:A) Acquire: see the table. Pairs with ORD(ended:A).
            let ended = self.ended.load(Ordering::Acquire);
            let found = read();
            // ORD(quiet:B) Acquire: see the table. Pairs with ORD(amend:B).
            fence(Ordering::Acquire);
            // ORD(quiet:C) Relaxed: see the table.
            if self.begun.load(Ordering::Relaxed) == ended {
                return found;
            }
            give_way(turn);
        }
        read()
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // ORD(ended:A) Release: see the table. Pairs with ORD(quiet:A).
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Changes, InHand, LOOKS};
    use crate::seq::Seq;
    use crate::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn what_is_in_hand_is_void_in_another_epoch_and_behind_the_cursor() {
        let hand = InHand::default();
        hand.set(Seq::new(7), 3);
        assert_eq!(hand.end(Seq::new(4), 3), Seq::new(7));
        assert_eq!(hand.end(Seq::new(4), 4), Seq::new(4));
        assert_eq!(hand.end(Seq::new(9), 3), Seq::new(9));
        let far = Seq::new((5 << 40) - 2);
        hand.set(far.plus(4), 3);
        assert_eq!(hand.end(far, 3), far.plus(4), "across the border of what the word holds");
    }

    #[test]
    fn what_changed_while_it_was_read_is_read_again() {
        let (changes, looks) = (Changes::default(), AtomicU64::new(0));
        let look = || looks.fetch_add(1, Ordering::Relaxed) + 1;
        assert_eq!(changes.quiet(look), 1);
        let disturbed = || {
            let nth = look();
            if nth < 5 {
                drop(changes.amend());
            }
            nth
        };
        assert_eq!(changes.quiet(disturbed), 5);
        let open = changes.amend();
        assert_eq!(changes.quiet(look), 6 + u64::from(LOOKS), "after many looks, what it finds");
        drop(open);
        assert_eq!(changes.quiet(look), 7 + u64::from(LOOKS));
    }
}
