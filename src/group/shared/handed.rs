//! For models: what a member has in hand of a work queue's lane, and how far its handler has got with it.
#![forbid(unsafe_code)]

use super::super::claims::Claim;
use super::super::context::Id;
use super::super::word::MemberId;
use super::hand::{Hand, InHand, Settles};
use super::settle::Given;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::time::Time;
use std::fmt;

/// See the module.
pub struct Handed(Arc<Hand>);

/// A run that was cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// To be acknowledged in its member's place.
    pub done: Claim,
    /// For others.
    pub behind: Claim,
}

impl Handed {
    /// One that is empty.
    pub fn new(member: MemberId) -> Self {
        let name = Arc::from_std(String::from("one").into());
        Handed(Hand::new(member, name, Arc::new(AtomicBool::new(false)), Id))
    }

    /// Another of the same member: of one batch that a consumer was handed.
    pub fn of_a_batch(&self) -> Self {
        Handed(self.0.of_a_batch())
    }

    /// Reaches for something, and looks then whether its member `stays`; if not, it is empty again.
    pub fn reach(&self, stays: impl FnOnce() -> bool) -> bool {
        self.0.reach();
        let stays = stays();
        if !stays {
            self.0.put_down();
        }
        stays
    }

    /// Whether it has nothing in hand, nor is about to.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What it has claimed is in hand, for a handler of single records, or as a batch of a consumer's.
    pub fn take(&self, claim: Claim) {
        let (given, singly) = (Given { claim, failures: 0, again: false }, !self.0.polled);
        let (since, deadline, limit) = (Time::ZERO, None, None);
        self.0.take(InHand { given, singly, since, deadline, limit, over: false, settling: false });
    }

    /// Whether its handler may be called with the record at `offset`.
    pub fn begins(&self, offset: u64) -> bool {
        self.0.progress.begins(offset)
    }

    /// The handler is back: what counts of it.
    pub fn settles(&self) -> Option<Claim> {
        match self.0.settles(None) {
            Settles::Counts(given) => Some(given.claim),
            Settles::Due | Settles::Late => None,
        }
    }

    /// That is left of it, and stays in hand.
    pub fn resumes(&self, claim: Claim) {
        self.0.resumes(Given { claim, failures: 0, again: false });
    }

    /// The time of the claim `ticket` is over: what of it was in hand, if nobody settles it.
    pub fn end(&self, ticket: u32) -> Option<Claim> {
        self.0.end(ticket, |_| true).map(|split| split.begun.claim)
    }

    /// The cursor was moved, to `epoch`.
    pub fn drop_void(&self, epoch: u32) {
        self.0.drop_void(epoch);
    }

    /// Nothing is in hand any more.
    pub fn put_down(&self) {
        self.0.put_down();
    }

    /// Takes from the run what its handler has not begun, and what is done.
    pub fn cut(&self) -> Option<Cut> {
        let ticket = self.0.run().flatten()?;
        self.0.cut(ticket).map(|split| Cut { done: split.done.claim, behind: split.behind.claim })
    }
}

impl fmt::Debug for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handed").finish_non_exhaustive()
    }
}
