//! A receipt: the right to settle what was handed out, apart from the records.
#![forbid(unsafe_code)]

use super::Group;
use super::fence::{Cause, FencedBy};
use super::flight::Ticket;
use super::lane::Lane;
use super::outcome::Failure;
use super::record::Batch;
use super::settling::Who;
use super::shared::{Ask, Hand};
use crate::sync::{Arc, Weak};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// What was handed out was not settled; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettleError {
    /// That record was not handed out to whoever asks, or was settled before. Settle what is in flight.
    #[error("offset {offset} is not in flight for {group} ({})", said(in_flight.as_ref()))]
    NotInFlight {
        /// The topic.
        topic: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The partition.
        partition: u32,
        /// The offset asked for.
        offset: u64,
        /// What is in flight there.
        in_flight: Option<Range<u64>>,
    },
    /// It was handed out once and does not count any more; if it is not done, it comes again, to whoever polls then.
    #[error("{topic}/{partition}: {} cannot be settled for {group} any more: {reason}", spelled(offsets))]
    Fenced {
        /// The topic.
        topic: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The partition.
        partition: u32,
        /// What was handed out.
        offsets: Range<u64>,
        /// What came between.
        reason: FencedBy,
    },
}

fn said(in_flight: Option<&Range<u64>>) -> String {
    match in_flight {
        None => "nothing is".to_owned(),
        Some(range) if range.end - range.start == 1 => format!("{} is", range.start),
        Some(range) => format!("{}..{} are", range.start, range.end - 1),
    }
}

fn spelled(offsets: &Range<u64>) -> String {
    match offsets.end.saturating_sub(offsets.start) {
        1 => format!("offset {}", offsets.start),
        _ => format!("offsets {} to {}", offsets.start, offsets.end.saturating_sub(1)),
    }
}

/// A group, to those who settle and know nothing of its records.
pub(super) trait Settles: Send + Sync {
    fn ack(&self, partition: u32, bond: &Bond, through: Option<u64>) -> Result<(), SettleError>;
    fn nack(&self, partition: u32, bond: &Bond, from: Option<u64>, failure: Failure) -> Result<(), SettleError>;
    fn extend(&self, partition: u32, bond: &Bond, by: Duration) -> Result<Duration, SettleError>;
    fn release(&self, partition: u32, bond: &Bond);
}

impl<T: Send + Sync + 'static> Settles for Group<T> {
    fn ack(&self, partition: u32, bond: &Bond, through: Option<u64>) -> Result<(), SettleError> {
        self.ack_batch(&self.lanes[partition as usize], bond, through)
    }

    fn nack(&self, partition: u32, bond: &Bond, from: Option<u64>, failure: Failure) -> Result<(), SettleError> {
        self.nack_batch(&self.lanes[partition as usize], bond, (from, failure), None)
    }

    fn extend(&self, partition: u32, bond: &Bond, by: Duration) -> Result<Duration, SettleError> {
        self.extend_batch(&self.lanes[partition as usize], bond, by)
    }

    fn release(&self, partition: u32, bond: &Bond) {
        self.release_batch(&self.lanes[partition as usize], bond);
    }
}

/// What was handed out at once.
#[derive(Clone, Debug)]
pub(super) struct Bond {
    pub(super) ticket: Ticket,
    pub(super) tie: Tie,
}

/// By what it is known.
#[derive(Clone, Debug)]
pub(super) enum Tie {
    /// The lane has one holder: by the ticket.
    Flight,
    /// Members share it: by the hand that it is in.
    Claim(Arc<Hand>),
    /// It is a letter: by its number.
    Letter(u64),
}

impl<T: Send + Sync + 'static> Group<T> {
    pub(super) fn ack_batch(&self, lane: &Lane<T>, bond: &Bond, through: Option<u64>) -> Result<(), SettleError> {
        let Bond { ticket, tie } = bond;
        let acked = match tie {
            Tie::Flight => return self.ack(lane, Who::Batch(*ticket), through),
            Tie::Claim(hand) => self.settle_claim(lane, hand, Some(*ticket), Ask::Ack(through), None),
            Tie::Letter(number) => self.settle_letter(lane, *number, Ask::Ack(through)),
        };
        acked.map_err(|refusal| self.refused(lane, Who::Batch(*ticket), through, refusal))
    }

    pub(super) fn nack_batch(
        &self,
        lane: &Lane<T>,
        bond: &Bond,
        (from, failure): (Option<u64>, Failure),
        in_hand: Option<&Batch<'_, T>>,
    ) -> Result<(), SettleError> {
        let Bond { ticket, tie } = bond;
        let who = Who::Batch(*ticket);
        let nacked = match tie {
            Tie::Flight => return self.nack(lane, who, from, Some(failure), in_hand).map(drop),
            Tie::Claim(hand) => {
                self.settle_claim(lane, hand, Some(*ticket), Ask::Nack(from, Cause::Failed(failure)), in_hand)
            }
            Tie::Letter(number) => self.settle_letter(lane, *number, Ask::Nack(from, Cause::Failed(failure))),
        };
        nacked.map_err(|refusal| self.refused(lane, who, from, refusal))
    }

    pub(super) fn extend_batch(&self, lane: &Lane<T>, bond: &Bond, by: Duration) -> Result<Duration, SettleError> {
        let Bond { ticket, tie } = bond;
        let extended = match tie {
            Tie::Flight => return self.extend(lane, *ticket, by),
            Tie::Claim(hand) => self.extend_claim(lane, (hand, *ticket), by),
            Tie::Letter(number) => self.extend_letter(lane, *number, by),
        };
        extended.map_err(|refusal| self.refused(lane, Who::Batch(*ticket), None, refusal))
    }

    pub(super) fn release_batch(&self, lane: &Lane<T>, bond: &Bond) {
        let ask = Ask::GiveBack(FencedBy::Rewound);
        let _void = match &bond.tie {
            Tie::Flight => return self.release(lane, bond.ticket),
            Tie::Claim(hand) => self.settle_claim(lane, hand, Some(bond.ticket), ask, None),
            Tie::Letter(number) => self.settle_letter(lane, *number, ask),
        };
    }
}

/// What the records of a batch in a consumer's hands know of its lease.
pub(super) struct Loan {
    pub(super) home: Weak<dyn Settles>,
    pub(super) partition: u32,
    pub(super) bond: Bond,
}

impl Loan {
    pub(super) fn extend(&self, by: Duration) -> Result<Duration, FencedBy> {
        let home = self.home.upgrade().ok_or(FencedBy::Deleted)?;
        home.extend(self.partition, &self.bond, by).map_err(|error| match error {
            SettleError::Fenced { reason, .. } => reason,
            SettleError::NotInFlight { .. } => FencedBy::AlreadyAcked,
        })
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loan").field(&self.bond.ticket).finish()
    }
}

/// The right to settle a batch that was [detached](crate::Polled::detach) from its records: from any thread, at any time, also
/// when its consumer is gone.
///
/// Not for work on several batches of one partition at the same time: an ack covers all that was handed out of the partition before,
/// done or not. Acknowledge in the order of the offsets, or give each thread a partition of its own. In a
/// [work queue](crate::Order::Shared) it is for just that: there a receipt is about its own records and no others.
///
/// Dropped, it releases what it has: that is handed out again, and is no failed attempt. [Given up](Self::leave_in_flight), or
/// forgotten ([`std::mem::forget`]), it leaves it in flight until the group's [lease](crate::GroupConfig::lease) is over, or its
/// consumer goes. It keeps nothing alive: not the records, not the group, not the broker.
///
/// ```
/// use ringlog::{Broker, GroupConfig, TopicConfig};
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
/// let group = topic.group("billing", GroupConfig::earliest())?;
/// topic.publish_batch(0..3)?;
/// let mut consumer = group.consumer("billing-1")?;
/// let batch = consumer.try_poll(2)?;
/// let sum: u64 = batch.iter().map(|order| *order).sum();
/// let receipt = batch.detach();
/// let next = consumer.try_poll(2)?; // goes on behind it
/// assert_eq!(next.offsets(), 2..3);
/// drop(next);
/// std::thread::spawn(move || receipt.ack()).join().unwrap()?;
/// assert_eq!((sum, group.stats().acked()), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a receipt releases what it is for"]
pub struct Receipt {
    home: Weak<dyn Settles>,
    topic: Arc<str>,
    group: Arc<str>,
    partition: u32,
    bond: Option<Bond>,
}

impl Receipt {
    pub(super) fn new<T: Send + Sync + 'static>(group: &Arc<Group<T>>, partition: u32, bond: Option<Bond>) -> Self {
        let home: Weak<Group<T>> = Arc::downgrade(group);
        Receipt { home, topic: group.home.topic.clone(), group: group.name.clone(), partition, bond }
    }

    /// The group, if there is one still. With it goes everything that was in flight.
    fn home(&self, Bond { ticket, .. }: &Bond) -> Result<Arc<dyn Settles>, SettleError> {
        self.home.upgrade().ok_or_else(|| SettleError::Fenced {
            topic: self.topic.clone(),
            group: self.group.clone(),
            partition: self.partition,
            offsets: ticket.from.get()..ticket.to.get(),
            reason: FencedBy::Deleted,
        })
    }

    /// The partition.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The offsets it was made out for.
    pub fn offsets(&self) -> Range<u64> {
        self.bond.as_ref().map_or(0..0, |bond| bond.ticket.from.get()..bond.ticket.to.get())
    }

    /// Everything is done, and with it (but in a work queue) all that was handed out of the partition before, whether its receipt was used or not. Stored when
    /// this returns; short, and waits for nobody. Of nothing: nothing happens.
    ///
    /// # Errors
    ///
    /// It does not count any more; see [`SettleError::Fenced`]. Nothing has changed.
    pub fn ack(mut self) -> Result<(), SettleError> {
        let Some(bond) = self.bond.take() else { return Ok(()) };
        self.home(&bond)?.ack(self.partition, &bond, None)
    }

    /// Everything up to `offset` is done; the rest stays in flight.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack`], and [`SettleError::NotInFlight`] if the offset is none of these, or done before.
    pub fn ack_through(&mut self, offset: u64) -> Result<(), SettleError> {
        match &self.bond {
            None => Ok(()),
            Some(bond) => self.home(bond)?.ack(self.partition, bond, Some(offset)),
        }
    }

    /// It failed: each record counts a failed attempt, and comes again after the group's backoff, until its attempts are used
    /// up; then it is buried.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack`].
    pub fn nack(mut self, failure: Failure) -> Result<(), SettleError> {
        let Some(bond) = self.bond.take() else { return Ok(()) };
        self.home(&bond)?.nack(self.partition, &bond, None, failure)
    }

    /// The record at `offset` failed: what is before it is done, as by an [ack up to there](Self::ack_through), what is behind it
    /// comes again, and counts no attempt.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack_through`].
    pub fn nack_from(&mut self, offset: u64, failure: Failure) -> Result<(), SettleError> {
        let Some(bond) = &self.bond else { return Ok(()) };
        let nacked = self.home(bond)?.nack(self.partition, bond, Some(offset), failure);
        if nacked.is_ok() {
            self.bond = None;
        }
        nacked
    }

    /// Has the lease of all that is in flight in the partition last for `by` from now on, as far as
    /// [`lease_renewed_up_to`](crate::GroupConfig::lease_renewed_up_to) allows, and says how long it lasts then ([`Duration::MAX`]
    /// without a lease). **Look at what it returns**: it may be less than asked for, and without that setting nothing is
    /// extended and this says what is left. A consumer's lease is not renewed by itself. Of nothing: zero. In a work queue it is
    /// the lease of this batch only, counted from when that was handed out.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack`].
    pub fn extend(&self, by: Duration) -> Result<Duration, SettleError> {
        let Some(bond) = &self.bond else { return Ok(Duration::ZERO) };
        self.home(bond)?.extend(self.partition, bond, by)
    }

    /// Gives the receipt up, and leaves in flight what it is for: for who acknowledges by offset
    /// ([`Consumer::ack_through`](crate::Consumer::ack_through)), or wants the lease to decide.
    pub fn leave_in_flight(mut self) {
        self.bond = None;
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let (Some(bond), Some(home)) = (self.bond.take(), self.home.upgrade()) {
            home.release(self.partition, &bond);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({}@{:?})", self.partition, self.offsets())
    }
}
