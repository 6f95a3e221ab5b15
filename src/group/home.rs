//! What all records that a group hands over have in common.
//!
//! | label     | operation       | order   | why this much, and why no more                                                      |
//! |-----------|-----------------|---------|-------------------------------------------------------------------------------------|
//! | closing:A | `closing.store` | Relaxed | says that it is time to finish; nothing is read through it, the seals order a close |
//! | closing:B | `closing.load`  | Relaxed | the other half                                                                      |
#![forbid(unsafe_code)]

use super::receipt::Loan;
use super::shared::Grasp;
use super::watch::{Term, Watch};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether a broker is closing. Clones are of the same one.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<AtomicBool>);

impl Closing {
    /// It is, from now on.
    pub fn begin(&self) {
        // ORD(closing:A) Relaxed: see the table. Pairs with ORD(closing:B).
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn has_begun(&self) -> bool {
        // ORD(closing:B) Relaxed: see the table. Pairs with ORD(closing:A).
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) topic: Arc<str>,
    pub(super) closing: Closing,
    /// The lease of the run in hand, where there is one.
    pub(super) term: Option<Term>,
    /// That of the batch in hand, of a consumer that has one.
    pub(super) loan: Option<Loan>,
    /// That of what is in hand of a work queue.
    pub(super) grasp: Option<Grasp>,
}

impl Home {
    /// The same, for runs under a lease.
    pub(super) fn of_its_own(&self) -> Self {
        Home { topic: self.topic.clone(), closing: self.closing.clone(), term: None, loan: None, grasp: None }
    }

    /// The same, for what a member of a work queue has in hand under a lease.
    pub(super) fn grasped(&self, grasp: Grasp) -> Self {
        Home { grasp: Some(grasp), ..self.of_its_own() }
    }

    /// The same, for a batch that a consumer was handed under a lease.
    pub(super) fn lent(&self, loan: Loan) -> Self {
        Home { loan: Some(loan), ..self.of_its_own() }
    }

    /// The next run begins, in that epoch.
    pub(super) fn begin(&mut self, watch: &Arc<Watch>, epoch: u32) {
        match &mut self.term {
            Some(term) => term.epoch = epoch,
            None => self.term = Some(Term { watch: watch.clone(), epoch }),
        }
    }
}
