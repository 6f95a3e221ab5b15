//! What a member has in hand.
#![forbid(unsafe_code)]

use super::RUN;
use crate::seq::Seq;
use std::iter::successors;

/// Records that one member has in hand, in one epoch of the cursor. A claim of the past is refused wherever it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub(super) first: Seq,
    pub(super) len: usize,
    pub(super) epoch: u32,
    pub(super) ticket: u32,
}

impl Claim {
    /// The first record.
    pub fn first(&self) -> Seq {
        self.first
    }

    /// Behind the last record.
    pub fn end(&self) -> Seq {
        self.first.plus(self.len as u64)
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The epoch in which it was made.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Its number.
    pub fn ticket(&self) -> u32 {
        self.ticket
    }

    /// Whether the record at `at` is one of them.
    pub fn has(&self, at: Seq) -> bool {
        !at.precedes(self.first) && at.precedes(self.end())
    }

    /// The first `len` of its records.
    #[must_use]
    pub fn head(&self, len: usize) -> Self {
        Claim { len: len.min(self.len), ..*self }
    }

    /// All but the first `len` of its records.
    #[must_use]
    pub fn behind(&self, len: usize) -> Self {
        let len = len.min(self.len);
        Claim { first: self.first.plus(len as u64), len: self.len - len, ..*self }
    }

    /// Its records.
    pub fn records(&self) -> impl Iterator<Item = Seq> + use<> {
        seqs(self.first, self.end())
    }
}

/// The records of `from..to`.
pub(super) fn seqs(from: Seq, to: Seq) -> impl Iterator<Item = Seq> {
    successors(Some(from), |at| Some(at.plus(1))).take(to.lag_behind(from) as usize)
}

/// How many of `ready` records a member may take at once when `members` share them.
pub fn share(ready: u64, members: usize, most: usize) -> usize {
    let fair = usize::try_from(ready / members.max(1) as u64).unwrap_or(RUN);
    fair.min(RUN).min(most).max(1)
}
