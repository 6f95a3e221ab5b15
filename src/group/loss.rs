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
//! Up to where records are in hand is said in the gate, with the epoch, so that a seek makes it void at once. A change of
//! the cursor that is also counted is made between [`Changes::amend`] and the end of what that returns; who adds up cursor
//! and counters looks whether a change came between, and then looks again. So what was lost is neither missing nor counted
//! twice while it turns from unnoticed to counted.
//!
//! | label      | operation           | order   | why this much, and why no more                                          |
//! |------------|---------------------|---------|-------------------------------------------------------------------------|
//! | amend:A    | `begun`, add        | Relaxed | ordered by amend:B                                                      |
//! | amend:B    | fence               | Release | `begun` before the changes, for who sees one of them. Pairs with quiet:B |
//! | ended:A    | `ended`, add        | Release | the changes before it. Pairs with quiet:A                               |
//! | quiet:A    | `ended`, load       | Acquire | all that was changed before. Pairs with ended:A                         |
//! | quiet:B    | fence               | Acquire | what was read before `begun` is read. Pairs with amend:B                 |
//! | quiet:C    | `begun`, load       | Relaxed | ordered by quiet:B                                                      |
#![forbid(unsafe_code)]

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::give_way;

/// How often figures are read again because something changed; then they are what they are.
const LOOKS: u32 = 128;

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
    use super::{Changes, LOOKS};
    use crate::sync::atomic::{AtomicU64, Ordering};

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
