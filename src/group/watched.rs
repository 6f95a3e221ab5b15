//! For models: what a handler has in hand under a lease.
#![forbid(unsafe_code)]

use super::context::Id;
use super::watch::{End, Kept, Lease, Watch};
use super::word::{LaneWord, MemberId};
use crate::ring::Gate;
use crate::seq::Seq;
use crate::sync::Arc;
use crate::time::Time;
use std::fmt;
use std::time::Duration;

/// A watch in a world without a clock: whoever says that the lease is over, is right.
pub struct Watched(Arc<Watch>);

const LEASE: Duration = Duration::from_secs(1);

impl Watched {
    /// Nothing is in hand.
    pub fn new(gate: Arc<Gate>) -> Self {
        let lease = Lease { time: LEASE, longest: None };
        Watched(Watch::new(lease, gate, || Time::ZERO, Kept::default()))
    }

    /// The record at `at` is handed out in `epoch`, unless the lane is not `member`'s any more.
    pub fn begin(&self, word: &LaneWord, member: MemberId, at: Seq, epoch: u32) -> bool {
        self.0.begin(word, (member, Id), (at, 1), Kept { at, epoch, ..Kept::default() })
    }

    /// The handler of `member` has returned: whether in time.
    pub fn end(&self, member: MemberId) -> bool {
        self.0.end(member) == End::InTime
    }

    /// The time is up. `None`: nothing is in hand; else whether it was the member's still, and its failure counts.
    pub fn lapse(&self) -> Option<bool> {
        self.0.lock().lapse(&self.0, Time::ZERO.after(LEASE)).map(|(_, counts)| counts)
    }

    /// Does `take` if the lane may be seized: nothing is in hand then.
    pub fn seize(&self, take: impl FnOnce() -> bool) -> bool {
        let mut hand = self.0.lock();
        let seized = hand.may_be_seized() && take();
        if seized {
            hand.running = None;
        }
        seized
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
