//! One value of a record's word: which record, in which epoch, under which claim, and where it stands.
#![forbid(unsafe_code)]

use crate::seq::Seq;

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Nobody has been given it in this epoch.
    Free,
    /// Some member has it in hand, by the claim of this ticket.
    Claimed(u32),
    /// It was in some member's hands and is to be given out again.
    Pooled,
    /// It is acknowledged, or buried.
    Done,
}

const STATE: u64 = 0b11;
const CLAIMED: u64 = 1;
const POOLED: u64 = 2;
const DONE: u64 = 3;
const TICKET_SHIFT: u32 = 2;
const TICKET_BITS: u32 = 30;
const EPOCH_SHIFT: u32 = TICKET_SHIFT + TICKET_BITS;
const EPOCH_BITS: u32 = 8;
const LAP_SHIFT: u32 = EPOCH_SHIFT + EPOCH_BITS;
const _: () = assert!(LAP_SHIFT == 40, "24 bits are left for the lap");

/// Tickets go round behind the last one.
pub(super) const TICKETS: u64 = 1 << TICKET_BITS;

/// The part of a word that says which record it is about, in which epoch: words of another record, or of another epoch, say
/// nothing about this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About(u64);

impl About {
    /// The record at `at`, in a table of `2^bits` words, in `epoch`.
    #[inline(always)]
    pub(super) fn new(at: Seq, bits: u32, epoch: u32) -> Self {
        About(at.get() >> bits << LAP_SHIFT | (u64::from(epoch) & ((1 << EPOCH_BITS) - 1)) << EPOCH_SHIFT)
    }

    #[inline(always)]
    fn is_of(self, word: u64) -> bool {
        word >> EPOCH_SHIFT == self.0 >> EPOCH_SHIFT
    }

    #[inline(always)]
    pub(super) fn claimed(self, ticket: u32) -> u64 {
        self.0 | u64::from(ticket) << TICKET_SHIFT | CLAIMED
    }

    #[inline(always)]
    pub(super) fn pooled(self) -> u64 {
        self.0 | POOLED
    }

    #[inline(always)]
    pub(super) fn done(self) -> u64 {
        self.0 | DONE
    }

    /// Nobody has it, said outright.
    pub(super) fn free(self) -> u64 {
        self.0
    }

    /// What `word` says about it.
    #[inline(always)]
    pub(super) fn stand(self, word: u64) -> Stand {
        if !self.is_of(word) {
            return Stand::Free;
        }
        match word & STATE {
            CLAIMED => Stand::Claimed((word >> TICKET_SHIFT) as u32 & (TICKETS - 1) as u32),
            POOLED => Stand::Pooled,
            DONE => Stand::Done,
            _ => Stand::Free,
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{About, Stand, TICKETS};
    use crate::seq::Seq;

    #[test]
    fn a_word_speaks_of_one_record_in_one_epoch() {
        let (at, last) = (Seq::new(5), TICKETS as u32 - 1);
        let here = About::new(at, 3, 7);
        assert_eq!(here.stand(0), Stand::Free);
        assert_eq!(here.stand(here.claimed(last)), Stand::Claimed(last));
        assert_eq!(here.stand(here.claimed(0)), Stand::Claimed(0));
        assert_eq!((here.stand(here.pooled()), here.stand(here.done())), (Stand::Pooled, Stand::Done));
        assert_eq!(here.stand(here.free()), Stand::Free);
        for other in [About::new(at.plus(8), 3, 7), About::new(at, 3, 8), About::new(at.minus(8), 3, 7)] {
            assert_eq!(here.stand(other.done()), Stand::Free);
        }
        assert_ne!(here.free(), About::new(at, 3, 8).free());
        let far = About::new(Seq::new(u64::MAX), 30, u32::MAX);
        assert_eq!(far.stand(far.claimed(last)), Stand::Claimed(last));
    }
}
