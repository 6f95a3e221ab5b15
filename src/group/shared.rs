//! Orders shared and key: a work queue. Every member may serve every lane; what a member has in hand is said record by record.
//!
//! ```text
//!            ┌──────────────── lane ────────────────┐
//!            │ claims: a word a record (see there)  │        who acknowledges what; where the cursor goes
//!            │ failed: offsets, failures, when due  │        what was given back, and is claimed one by one
//!            │ hands:  one for each member's task   │        who has which claim in hand, since when, until when
//!            └──────────────────────────────────────┘
//!      member                                          timer
//!      a failed record that is due, or a run of fresh ones; the two by turns
//!      reader to the place, peek (its page is held; in the order of keys it is taken behind the claim)
//!      claim ── lost ──▶ look again                     lease over: each record given back, or buried if it is spent
//!      hand: claim, since, deadline                     straggler: buried, or its holder put out
//!      handler
//!      done: words exchanged, counted, cursor moved
//!      failed: given back with its failures, others rung
//!      hand: empty
//! ```
//! The lane word is for pause, end and seek, which each member finds by comparing it once per record. Its owner, who is dealt
//! as in any group, has the lane's letters to hand over again, and nothing else before the others.
//!
//! # In the order of each key
//!
//! The same, with what is known of keys under `failed`'s lock (see [`keys`]): a run of fresh records is dealt under it, and every
//! record that is settled or given back is so under it. What is dealt of a busy key is given back at once, and waits; it is queued
//! when it is its key's turn, as if it had failed no times.
//!
//! # Locks
//!
//! `control`, then `failed`; the letters' store, then `failed`; `control`, then the list of hands, then a hand's. Under none of
//! them runs user code. A word is given back, taken again, and done after it was taken again, under `failed` (in the order of
//! keys every word is changed under it, but by who moves the cursor): so a record is in the list of those that wait exactly if
//! its word says pooled.
#![forbid(unsafe_code)]

mod due;
mod failed;
mod hand;
mod keyed;
mod keys;
mod lane;
mod polled;
mod pull;
mod run;
mod settle;
mod slot;
mod task;
#[cfg(all(test, not(ringlog_loom)))]
mod tests;

pub(super) use due::Ending;
pub(super) use hand::{Grasp, Hand, Progress};
pub(super) use polled::Ask;
pub(super) use pull::{Picked, Stall};
pub(super) use task::ShareTask;

use super::claims::Claims;
use super::lease::Order;
use super::stats::Tally;
use crate::ring::Gate;
use crate::sync::{Arc, Mutex, lock};
use failed::Failed;
use std::fmt;

/// What a lane has of its own where members share it.
pub(super) struct Shared {
    pub(super) claims: Claims,
    failed: Failed,
    hands: Mutex<Vec<Arc<Hand>>>,
    pub(super) tally: Tally,
}

impl Shared {
    /// Of a lane of so many records; `None` in partition order.
    pub(super) fn new(order: Order, capacity: u64, gate: Arc<Gate>) -> Option<Self> {
        let keyed = match order {
            Order::Partition => return None,
            Order::Shared => false,
            Order::Key => true,
        };
        let (failed, hands, tally) = (Failed::new(capacity, keyed), Mutex::default(), Tally::default());
        Some(Shared { claims: Claims::new(capacity, gate), failed, hands, tally })
    }

    fn hands(&self) -> Vec<Arc<Hand>> {
        lock(&self.hands).clone()
    }

    /// A member's task comes.
    fn join(&self, hand: &Arc<Hand>) {
        lock(&self.hands).push(hand.clone());
    }

    /// It goes.
    fn leave(&self, hand: &Arc<Hand>) {
        lock(&self.hands).retain(|other| !Arc::ptr_eq(other, hand));
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("claims", &self.claims).finish_non_exhaustive()
    }
}
