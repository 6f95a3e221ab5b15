//! A receipt: the right to settle what was handed out, apart from the records.
#![forbid(unsafe_code)]

use super::Group;
use super::fence::FencedBy;
use super::flight::Ticket;
use super::outcome::Failure;
use super::settling::Who;
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
    fn ack(&self, partition: u32, ticket: Ticket, through: Option<u64>) -> Result<(), SettleError>;
    fn nack(&self, partition: u32, ticket: Ticket, from: Option<u64>, failure: Failure) -> Result<(), SettleError>;
    fn extend(&self, partition: u32, ticket: Ticket, by: Duration) -> Result<Duration, SettleError>;
    fn release(&self, partition: u32, ticket: Ticket);
}

impl<T: Send + Sync + 'static> Settles for Group<T> {
    fn ack(&self, partition: u32, ticket: Ticket, through: Option<u64>) -> Result<(), SettleError> {
        self.ack(&self.lanes[partition as usize], Who::Batch(ticket), through)
    }

    fn nack(&self, partition: u32, ticket: Ticket, from: Option<u64>, failure: Failure) -> Result<(), SettleError> {
        self.nack(&self.lanes[partition as usize], Who::Batch(ticket), from, Some(failure), None).map(drop)
    }

    fn extend(&self, partition: u32, ticket: Ticket, by: Duration) -> Result<Duration, SettleError> {
        self.extend(&self.lanes[partition as usize], ticket, by)
    }

    fn release(&self, partition: u32, ticket: Ticket) {
        self.release(&self.lanes[partition as usize], ticket);
    }
}

/// What the records of a batch in a consumer's hands know of its lease.
pub(super) struct Loan {
    pub(super) home: Weak<dyn Settles>,
    pub(super) partition: u32,
    pub(super) ticket: Ticket,
}

impl Loan {
    pub(super) fn extend(&self, by: Duration) -> Result<Duration, FencedBy> {
        let home = self.home.upgrade().ok_or(FencedBy::Deleted)?;
        home.extend(self.partition, self.ticket, by).map_err(|error| match error {
            SettleError::Fenced { reason, .. } => reason,
            SettleError::NotInFlight { .. } => FencedBy::AlreadyAcked,
        })
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Loan").field(&self.ticket).finish()
    }
}

/// The right to settle a batch that was [detached](crate::Polled::detach) from its records: from any thread, at any time, also
/// when its consumer is gone.
///
/// Not for work on several batches of one partition at the same time: an ack covers all that was handed out of the partition before,
/// done or not. Acknowledge in the order of the offsets, or give each thread a partition of its own.
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
    ticket: Option<Ticket>,
}

impl Receipt {
    pub(super) fn new<T: Send + Sync + 'static>(group: &Arc<Group<T>>, partition: u32, ticket: Option<Ticket>) -> Self {
        let home: Weak<Group<T>> = Arc::downgrade(group);
        Receipt { home, topic: group.home.topic.clone(), group: group.name.clone(), partition, ticket }
    }

    /// The group, if there is one still. With it goes everything that was in flight.
    fn home(&self, ticket: Ticket) -> Result<Arc<dyn Settles>, SettleError> {
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
        self.ticket.map_or(0..0, |ticket| ticket.from.get()..ticket.to.get())
    }

    /// Everything is done, and with it all that was handed out of the partition before, whether its receipt was used or not. Stored when
    /// this returns; short, and waits for nobody. Of nothing: nothing happens.
    ///
    /// # Errors
    ///
    /// It does not count any more; see [`SettleError::Fenced`]. Nothing has changed.
    pub fn ack(mut self) -> Result<(), SettleError> {
        let Some(ticket) = self.ticket.take() else { return Ok(()) };
        self.home(ticket)?.ack(self.partition, ticket, None)
    }

    /// Everything up to `offset` is done; the rest stays in flight.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack`], and [`SettleError::NotInFlight`] if the offset is none of these, or done before.
    pub fn ack_through(&mut self, offset: u64) -> Result<(), SettleError> {
        match self.ticket {
            None => Ok(()),
            Some(ticket) => self.home(ticket)?.ack(self.partition, ticket, Some(offset)),
        }
    }

    /// It failed: each record counts a failed attempt, and comes again after the group's backoff, until its attempts are used
    /// up; then it is buried.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack`].
    pub fn nack(mut self, failure: Failure) -> Result<(), SettleError> {
        let Some(ticket) = self.ticket.take() else { return Ok(()) };
        self.home(ticket)?.nack(self.partition, ticket, None, failure)
    }

    /// The record at `offset` failed: what is before it is done, as by an [ack up to there](Self::ack_through), what is behind it
    /// comes again, and counts no attempt.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack_through`].
    pub fn nack_from(&mut self, offset: u64, failure: Failure) -> Result<(), SettleError> {
        let Some(ticket) = self.ticket else { return Ok(()) };
        let nacked = self.home(ticket)?.nack(self.partition, ticket, Some(offset), failure);
        if nacked.is_ok() {
            self.ticket = None;
        }
        nacked
    }

    /// Has the lease of all that is in flight in the partition last for `by` from now on, as far as
    /// [`lease_renewed_up_to`](crate::GroupConfig::lease_renewed_up_to) allows, and says how long it lasts then ([`Duration::MAX`]
    /// without a lease). **Look at what it returns**: it may be less than asked for, and without that setting nothing is
    /// extended and this says what is left. A consumer's lease is not renewed by itself. Of nothing: zero.
    ///
    /// # Errors
    ///
    /// As [`Receipt::ack`].
    pub fn extend(&self, by: Duration) -> Result<Duration, SettleError> {
        self.ticket.map_or(Ok(Duration::ZERO), |ticket| self.home(ticket)?.extend(self.partition, ticket, by))
    }

    /// Gives the receipt up, and leaves in flight what it is for: for who acknowledges by offset
    /// ([`Consumer::ack_through`](crate::Consumer::ack_through)), or wants the lease to decide.
    pub fn leave_in_flight(mut self) {
        self.ticket = None;
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let (Some(ticket), Some(home)) = (self.ticket.take(), self.home.upgrade()) {
            home.release(self.partition, ticket);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receipt({}@{:?})", self.partition, self.offsets())
    }
}
