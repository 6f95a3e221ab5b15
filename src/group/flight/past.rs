//! What is remembered of a lane: why the last epochs of it ended, how much of what was handed out in each was done, and the last
//! records that were given up.
#![forbid(unsafe_code)]

use super::FencedBy;
use crate::seq::Seq;
use std::collections::VecDeque;
use std::ops::Range;

/// Of so many epochs it is known why they ended; and so many records that were given up are known as such.
pub(super) const ENDS: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Past {
    ends: VecDeque<End>,
    buried: VecDeque<u64>,
}

#[derive(Clone, Copy, Debug)]
struct End {
    epoch: u32,
    why: FencedBy,
    done: Seq,
}

impl Past {
    /// An epoch is over, in which everything before `done` was done.
    pub(super) fn ended(&mut self, epoch: u32, why: FencedBy, done: Seq) {
        keep(&mut self.ends, End { epoch, why, done });
    }

    fn of(&self, epoch: u32) -> Option<&End> {
        self.ends.iter().rev().find(|end| end.epoch == epoch)
    }

    pub(super) fn why(&self, epoch: u32) -> Option<FencedBy> {
        self.of(epoch).map(|end| end.why)
    }

    pub(super) fn done(&self, epoch: u32) -> Option<Seq> {
        self.of(epoch).map(|end| end.done)
    }

    pub(super) fn buried(&mut self, at: Seq) {
        keep(&mut self.buried, at.get());
    }

    pub(super) fn is_any_buried(&self, of: Range<Seq>) -> bool {
        self.buried.iter().any(|buried| (of.start.get()..of.end.get()).contains(buried))
    }

    /// What comes again, from `at` on, is not what was given up.
    pub(super) fn forget_buried(&mut self, at: Seq) {
        self.buried.retain(|buried| *buried < at.get());
    }

    #[cfg(all(test, not(ringlog_loom)))]
    pub(super) fn ends(&self) -> usize {
        self.ends.len()
    }
}

/// Adds to what is kept of the past.
fn keep<V>(past: &mut VecDeque<V>, last: V) {
    if past.len() == ENDS {
        past.pop_front();
    }
    past.push_back(last);
}
