//! A batch in hand: the records, borrowed, and the right to settle them.
#![forbid(unsafe_code)]

use super::poll::Catch;
use super::{Consumer, Hand};
use crate::group::contain::drop_contained;
use crate::group::outcome::Failure;
use crate::group::receipt::{Receipt, SettleError, Tie};
use crate::group::record::{Batch, Lent, Record};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Records that a [`Consumer`] was handed: consecutive ones of one partition, or none. They are borrowed from the log for as
/// long as this lives, whatever becomes of the lease meanwhile.
///
/// Settle it: [`ack`](Self::ack), [`nack`](Self::nack), or [`detach`](Self::detach) to do so later. Dropped, also by a panic,
/// it is *released*: handed out again, and no failed attempt.
#[must_use = "dropping a batch releases it"]
pub struct Polled<'a, T: Send + Sync + 'static> {
    consumer: &'a mut Consumer<T>,
    catch: Option<Catch<T>>,
}

impl<'a, T: Send + Sync + 'static> Polled<'a, T> {
    pub(super) fn new(consumer: &'a mut Consumer<T>, catch: Option<Catch<T>>) -> Self {
        Polled { consumer, catch }
    }

    /// How many records; 0 if the wait was over first.
    pub fn len(&self) -> usize {
        self.catch.as_ref().map_or(0, Catch::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The partition; `None` of an empty batch.
    pub fn partition(&self) -> Option<u32> {
        self.catch.as_ref().map(|catch| self.consumer.hands[catch.hand].lane.partition)
    }

    /// The offsets, which follow each other without a gap.
    pub fn offsets(&self) -> Range<u64> {
        self.catch.as_ref().map_or(0..0, Catch::offsets)
    }

    fn batch<'s>(&'s self, catch: &'s Catch<T>) -> Batch<'s, T> {
        let Hand { lane, reader, .. } = &self.consumer.hands[catch.hand];
        let lent = match &catch.letter {
            Some((letter, value)) => Lent::Redriven(&**value, letter),
            None => Lent::Run(reader.lent(catch.len())),
        };
        let home = catch.home.as_ref().unwrap_or(&self.consumer.group.home);
        Batch { lent, home, partition: lane.partition, attempt: 1, lost: catch.lost }
    }

    /// The record at `index`; `None` if there are not so many.
    pub fn get(&self, index: usize) -> Option<Record<'_, T>> {
        let catch = self.catch.as_ref().filter(|_| index < self.len())?;
        Some(attempted(catch, self.batch(catch).get(index)))
    }

    /// All records, in order.
    pub fn iter(&self) -> PolledIter<'_, T> {
        PolledIter { of: self.catch.as_ref().map(|catch| (catch, self.batch(catch))), at: 0 }
    }

    /// All of it is done, and with it (but in a work queue) all that was handed out of the partition before. Stored when this returns; short, and waits
    /// for nobody.
    ///
    /// # Errors
    ///
    /// It does not count any more: its lease is over, the cursor was moved, the group deleted; see [`SettleError::Fenced`].
    /// Nothing has changed.
    pub fn ack(mut self) -> Result<(), SettleError> {
        let Some(catch) = self.catch.take() else { return Ok(()) };
        let Consumer { group, hands, .. } = &mut *self.consumer;
        let Hand { lane, reader, .. } = &mut hands[catch.hand];
        let (from, to) = (catch.bond.ticket.from, catch.bond.ticket.to);
        if catch.letter.is_some() {
            return group.ack_batch(lane, &catch.bond, None);
        }
        reader.advance(to);
        reader.put_down();
        let acked = group.ack_batch(lane, &catch.bond, None);
        if acked.is_err() || matches!(catch.bond.tie, Tie::Claim(_)) {
            lane.log.gone_on(from, to); // others may have gone past it meanwhile
        }
        acked
    }

    /// All up to `offset` is done; the rest stays in hand.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack), and [`SettleError::NotInFlight`] if the offset is none of these, or done before.
    pub fn ack_through(&mut self, offset: u64) -> Result<(), SettleError> {
        let Some(catch) = &self.catch else { return Ok(()) };
        let lane = &self.consumer.hands[catch.hand].lane;
        self.consumer.group.ack_batch(lane, &catch.bond, Some(offset))
    }

    /// It failed, all of it: each record counts a failed attempt and comes again after the group's backoff, until its attempts are
    /// used up; then it is buried. Until the backoff is over a poll finds nothing of that partition. Where one record failed,
    /// [`nack_from`](Self::nack_from) counts it alone.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn nack(mut self, failure: Failure) -> Result<(), SettleError> {
        let nacked = self.fail(None, failure);
        self.put_down();
        nacked
    }

    /// The record at `offset` failed: what is before it is done, as by an [ack up to there](Self::ack_through), what is behind it
    /// comes again, and counts no attempt.
    ///
    /// # Errors
    ///
    /// As [`ack_through`](Self::ack_through); then it is in hand still.
    pub fn nack_from(&mut self, offset: u64, failure: Failure) -> Result<(), SettleError> {
        let nacked = self.fail(Some(offset), failure);
        if nacked.is_ok() {
            self.put_down();
        }
        nacked
    }

    fn fail(&self, from: Option<u64>, failure: Failure) -> Result<(), SettleError> {
        let Some(catch) = &self.catch else { return Ok(()) };
        let (group, lane) = (&self.consumer.group, &self.consumer.hands[catch.hand].lane);
        group.nack_batch(lane, &catch.bond, (from, failure), Some(&self.batch(catch)))
    }

    /// Has the lease of all that is in flight in the partition last for `by` from now on, as far as
    /// [`lease_renewed_up_to`](crate::GroupConfig::lease_renewed_up_to) allows, and says how long it lasts then ([`Duration::MAX`]
    /// without a lease). **Look at what it returns**: it may be less than asked for, and without that setting nothing is
    /// extended and this says what is left. A consumer's lease is not renewed by itself. Of nothing: zero. In a work queue it is
    /// the lease of this batch only, counted from when that was handed out.
    ///
    /// # Errors
    ///
    /// As [`ack`](Self::ack).
    pub fn extend(&self, by: Duration) -> Result<Duration, SettleError> {
        let Some(catch) = &self.catch else { return Ok(Duration::ZERO) };
        self.consumer.group.extend_batch(&self.consumer.hands[catch.hand].lane, &catch.bond, by)
    }

    /// Ends the borrow and leaves the records in flight, to be settled with the receipt: so the consumer can poll on.
    pub fn detach(mut self) -> Receipt {
        let bond = self.catch.as_ref().map(|catch| catch.bond.clone());
        let partition = self.partition().unwrap_or(0);
        self.put_down();
        Receipt::new(&self.consumer.group, partition, bond)
    }

    /// The records are not looked at any more.
    fn put_down(&mut self) {
        if let Some(catch) = self.catch.take() {
            let Hand { lane, reader, stall } = &mut self.consumer.hands[catch.hand];
            if let Some(letter) = catch.letter {
                drop_contained(letter);
                return;
            }
            reader.put_down();
            if stall.is_some() {
                lane.log.gone_on(catch.bond.ticket.from, catch.bond.ticket.to); // what of it is done already
            }
        }
    }
}

fn attempted<'a, T>(catch: &Catch<T>, record: Record<'a, T>) -> Record<'a, T> {
    let offset = record.offset();
    let at = catch.failed.partition_point(|(which, _)| which.end <= offset);
    let failed = catch.failed.get(at).filter(|(which, _)| which.start <= offset).map_or(0, |(_, times)| *times);
    record.with_attempt(failed.saturating_add(1))
}

/// The records of a [`Polled`] batch, in order.
#[derive(Debug)]
pub struct PolledIter<'s, T: Send + Sync + 'static> {
    of: Option<(&'s Catch<T>, Batch<'s, T>)>,
    at: usize,
}

impl<'s, T: Send + Sync + 'static> Iterator for PolledIter<'s, T> {
    type Item = Record<'s, T>;

    fn next(&mut self) -> Option<Record<'s, T>> {
        let (catch, batch) = self.of.as_ref().filter(|(_, batch)| self.at < batch.len())?;
        self.at += 1;
        Some(attempted(catch, batch.get(self.at - 1)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.of.as_ref().map_or(0, |(_, batch)| batch.len() - self.at);
        (left, Some(left))
    }
}

impl<T: Send + Sync + 'static> ExactSizeIterator for PolledIter<'_, T> {}

impl<'s, T: Send + Sync + 'static> IntoIterator for &'s Polled<'_, T> {
    type Item = Record<'s, T>;
    type IntoIter = PolledIter<'s, T>;

    fn into_iter(self) -> PolledIter<'s, T> {
        self.iter()
    }
}

impl<T: Send + Sync + 'static> Drop for Polled<'_, T> {
    fn drop(&mut self) {
        if let Some(catch) = self.catch.take() {
            self.consumer.group.release_batch(&self.consumer.hands[catch.hand].lane, &catch.bond);
            self.catch = Some(catch);
            self.put_down();
        }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Polled<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Polled({:?}@{:?})", self.partition(), self.offsets())
    }
}
