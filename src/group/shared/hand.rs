//! What one member's task has in hand of one lane.
#![forbid(unsafe_code)]

use super::super::claims::Claim;
use super::super::context::Id;
use super::super::word::MemberId;
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;

/// Written by its task, and by the timer. What is in hand is there until the handler has returned, whatever became of the
/// claim.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) member: MemberId,
    pub(super) name: Arc<str>,
    pub(super) executor: Id,
    held: Mutex<Option<InHand>>,
}

/// A claim in a handler's hands.
#[derive(Clone, Copy, Debug)]
pub(super) struct InHand {
    pub(super) claim: Claim,
    /// How often its first record has failed.
    pub(super) failures: u32,
    /// When it was handed out, and until when; if anybody looks at the time.
    pub(super) since: Time,
    pub(super) deadline: Option<Time>,
    /// The claim was ended, and the handler has not returned.
    pub(super) over: bool,
}

impl Hand {
    pub(super) fn new(member: MemberId, name: Arc<str>, executor: Id) -> Arc<Self> {
        Arc::new(Hand { member, name, executor, held: Mutex::new(None) })
    }

    pub(super) fn take(&self, held: InHand) {
        *lock(&self.held) = Some(held);
    }

    pub(super) fn put_down(&self) {
        *lock(&self.held) = None;
    }

    pub(super) fn held(&self) -> Option<InHand> {
        *lock(&self.held)
    }

    /// What of it is not over.
    pub(super) fn in_force(&self) -> Option<InHand> {
        self.held().filter(|held| !held.over)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held().is_none()
    }

    /// Ends the claim `ticket`, if it is in hand and in force.
    pub(super) fn end(&self, ticket: u32) -> Option<InHand> {
        let mut held = lock(&self.held);
        let held = held.as_mut().filter(|held| held.claim.ticket() == ticket && !held.over)?;
        held.over = true;
        Some(*held)
    }

    /// Sets another deadline for the claim `ticket`.
    pub(super) fn renew(&self, ticket: u32, deadline: Time) {
        if let Some(held) = lock(&self.held).as_mut().filter(|held| held.claim.ticket() == ticket) {
            held.deadline = Some(deadline);
        }
    }
}
