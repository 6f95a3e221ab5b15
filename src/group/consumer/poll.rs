//! The poll: the first lane with something to hand out, in turns; else a sleep until there is.
#![forbid(unsafe_code)]

use super::{Consumer, Hand, OwnedBatch, Polled};
use crate::group::context;
use crate::group::flight::Ticket;
use crate::group::handing::{Handed, Look, Next};
use crate::group::home::Home;
use crate::group::lane::Lane;
use crate::group::letters::Letter;
use crate::group::receipt::{Bond, Tie};
use crate::group::redrive::Posted;
use crate::group::shared::Picked;
use crate::log::{Gap, Read};
use crate::ring::{Peek, Reader};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::{Deadline, Time};
use crate::wait::{Canceller, Wait};
use std::ops::Range;
use std::time::Duration;

/// How often a lane is looked at anew before others have their turn, because it changed meanwhile.
const TRIES: usize = 8;

/// Nothing will ever be handed out again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PollError {
    /// The group was deleted or its topic, or its broker closed, or this consumer was put out
    /// ([`Straggler::Evict`](crate::Straggler::Evict)): drop it.
    #[error(
        "consumer '{consumer}' of group '{group}' of topic '{topic}' gets no more records: the group was deleted, or its broker closed, \
         or it was put out as a straggler"
    )]
    Closed {
        /// The topic.
        topic: Arc<str>,
        /// The group.
        group: Arc<str>,
        /// The consumer.
        consumer: Arc<str>,
    },
}

/// A batch that was handed out.
#[derive(Debug)]
pub(super) struct Catch<T> {
    pub(super) hand: usize,
    /// It is a letter that was sent back, with its record.
    pub(super) letter: Option<(Letter, Arc<T>)>,
    pub(super) bond: Bond,
    pub(super) failed: Vec<(Range<u64>, u32)>,
    pub(super) lost: u64,
    /// What the records have in common, under a lease.
    pub(super) home: Option<Home>,
}

impl<T> Catch<T> {
    pub(super) fn len(&self) -> usize {
        self.bond.ticket.to.since(self.bond.ticket.from) as usize
    }

    pub(super) fn offsets(&self) -> Range<u64> {
        self.bond.ticket.from.get()..self.bond.ticket.to.get()
    }
}

impl<T: Send + Sync + 'static> Consumer<T> {
    /// What is ready, at most `max` records of one partition, as soon as there is anything; nothing (an empty batch) when
    /// `wait` is over, by the broker's clock. (`Duration::MAX`: for ever.) Partitions have their turns. A batch never spans
    /// the pages of a partition, so it may be shorter than what is there. With a `max` of 0 it is empty, at once.
    ///
    /// Where a broker's timer runs what is yours, in a hook or a burying function, no poll waits, whatever `wait` is: the timer might
    /// have to end the wait itself. It gives what is there.
    ///
    /// Each record comes in the order of its offset, after all that is in flight; in a [work queue](crate::Order::Shared) a batch is
    /// at most 64 records, and at most the consumer's share. A record whose next failure would bury it
    /// comes alone. On topics that lose by rule a partition is read on over a gap once nothing of it is in flight.
    ///
    /// # Errors
    ///
    /// Nothing will come any more; see [`PollError`]. What is in flight can be settled all the same, unless it is fenced.
    pub fn poll(&mut self, max: usize, wait: Duration) -> Result<Polled<'_, T>, PollError> {
        let deadline = Deadline::within(Some(wait), &**self.sleeper.clock());
        let catch = self.find(max, deadline, None)?;
        Ok(Polled::new(self, catch))
    }

    /// As [`poll`](Self::poll), without waiting.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn try_poll(&mut self, max: usize) -> Result<Polled<'_, T>, PollError> {
        let catch = self.find(max, Deadline::Now, None)?;
        Ok(Polled::new(self, catch))
    }

    /// As [`poll`](Self::poll); a `cancel` ends the wait as if its time were up. What is there is handed out all the same: who wants
    /// to stop although there is more asks [`Canceller::is_cancelled`].
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_or_cancel(
        &mut self,
        max: usize,
        wait: Duration,
        cancel: &Canceller,
    ) -> Result<Polled<'_, T>, PollError> {
        let deadline = Deadline::within(Some(wait), &**self.sleeper.clock());
        let catch = self.find(max, deadline, Some(cancel))?;
        Ok(Polled::new(self, catch))
    }

    /// As [`poll`](Self::poll), with clones of the records: for handing work on. A clone that panics leaves all of the batch
    /// where it was.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn poll_owned(&mut self, max: usize, wait: Duration) -> Result<OwnedBatch<T>, PollError>
    where
        T: Clone,
    {
        Ok(OwnedBatch::of(self.poll(max, wait)?))
    }

    fn find(
        &mut self,
        max: usize,
        deadline: Deadline,
        cancel: Option<&Canceller>,
    ) -> Result<Option<Catch<T>>, PollError> {
        let bell = self.sleeper.bell().clone();
        let _registered = cancel.map(|cancel| cancel.register(&bell));
        loop {
            if is_out(&self.left) {
                let (topic, group) = (self.group.home.topic.clone(), self.group.name().clone());
                return Err(PollError::Closed { topic, group, consumer: self.name.clone() });
            }
            self.group.is_back(self.id);
            if max == 0 {
                return Ok(None);
            }
            let mut until = None;
            for nth in 0..self.hands.len() {
                let at = (self.turn + nth) % self.hands.len();
                match self.catch(at, max) {
                    Ok(catch) => {
                        self.turn = at + 1;
                        return Ok(Some(catch));
                    }
                    Err(time) => until = earlier(until, time),
                }
            }
            let over = deadline.at().is_some_and(|end| deadline == Deadline::Now || end <= self.sleeper.clock().now());
            if over || cancel.is_some_and(Canceller::is_cancelled) || context::on_timer() {
                return Ok(None);
            }
            self.sleep(earlier(until, deadline.at()));
        }
    }

    /// Until there is something, somebody rings, or it is time.
    fn sleep(&mut self, until: Option<Time>) -> Wait {
        let Consumer { group, id, left, sleeper, hands, doorbell, .. } = self;
        // What comes to lanes of others is no news. A lane that becomes its own while it sleeps rings, and the ring is kept.
        let own: Vec<&Hand<T>> = hands.iter().filter(|hand| hand.is_of(*id)).collect();
        let events = own.iter().map(|hand| hand.lane.log.not_empty());
        // A lease that is over wakes too: then there is something to hand out.
        let leases = hands.iter().filter_map(|hand| hand.has_more(group, *id).err().flatten());
        let until = earlier(until, leases.min());
        let more = || is_out(left) || hands.iter().any(|hand| hand.has_more(group, *id).is_ok());
        doorbell.sleeps(true);
        let waited = sleeper.wait(events, until, more);
        doorbell.sleeps(false);
        waited
    }

    /// A batch of one lane; else when to look again.
    fn catch(&mut self, at: usize, max: usize) -> Result<Catch<T>, Option<Time>> {
        let Hand { lane, reader, stall } = &mut self.hands[at];
        let first_failed = |ticket: &Ticket, failures| {
            let first = ticket.from.get();
            if failures > 0 { vec![(first..first + 1, failures)] } else { Vec::new() }
        };
        let letter_due = match self.group.poll_letter(lane, self.id) {
            Ok(Posted { letter, value, failures, number, ticket }) => {
                let (failed, bond) = (first_failed(&ticket, failures), Bond { ticket, tie: Tie::Letter(number) });
                let home = self.group.lent(lane.partition, bond.clone());
                return Ok(Catch { hand: at, letter: Some((letter, value)), bond, failed, lost: 0, home });
            }
            Err(due) => due,
        };
        let sooner = |due: Option<Time>| earlier(due, letter_due);
        if let Some(stall) = stall {
            let picked = self.group.pick(lane, reader, stall, max).map_err(sooner)?;
            let Picked { ticket, hand, failures } = picked;
            let (failed, bond) = (first_failed(&ticket, failures), Bond { ticket, tie: Tie::Claim(hand) });
            let home = self.group.lent(lane.partition, bond.clone());
            return Ok(Catch { hand: at, letter: None, bond, failed, lost: 0, home });
        }
        for _ in 0..TRIES {
            let next = match self.group.look(lane, self.id, max) {
                Look::Next(next) => next,
                Look::Until(time) => return Err(sooner(Some(time))),
                Look::Again => continue,
                Look::Nothing if !lane.word.load().is_of(self.id) => {
                    reader.release(); // another's, for how long nobody knows
                    return Err(sooner(None));
                }
                Look::Nothing => return Err(sooner(None)),
            };
            if reader.position() != next.from {
                reader.jump(next.from);
            }
            let read = match lane.over_the_line(next.from).filter(|_| next.first) {
                Some(gap) => Read::Gap(gap),
                None => lane.log.read(reader, next.most),
            };
            let (len, gap) = match read {
                Read::Ready(run) => (run.len(), None),
                Read::Gap(gap) if next.first => match pass(lane, reader, &next, &gap) {
                    Some(len) => (len, Some(gap)),
                    None => (0, None),
                },
                Read::Gap(_) | Read::Pending => (0, None),
            };
            let (none, passed) = (len == 0 && gap.is_none() && lane.gate.epoch() == next.epoch, gap);
            let handed = self.group.hand_out(lane, &next, passed.as_ref(), len);
            if let Some(gap) = &passed {
                self.group.progress.notify();
                let _here = self.group.enter_as(self.doorbell.id);
                self.group.tell(lane.partition, gap);
            }
            if let Some(Handed { ticket, failed, lost }) = handed {
                let bond = Bond { ticket, tie: Tie::Flight };
                let home = self.group.lent(lane.partition, bond.clone());
                return Ok(Catch { hand: at, letter: None, bond, failed, lost, home });
            }
            reader.put_down();
            if none {
                return Err(sooner(None));
            }
        }
        Err(sooner(None))
    }
}

/// Commits over a gap at the cursor, with what comes behind it in hand already: a producer that is faster than all this would
/// else take that as well. Says how many records that is; `None`: the cursor was moved.
#[cold]
fn pass<T: Send + Sync + 'static>(lane: &Lane<T>, reader: &mut Reader<T>, next: &Next, gap: &Gap) -> Option<usize> {
    reader.jump(gap.to);
    let len = match reader.peek(next.most) {
        Peek::Ready(run) => run.len(),
        Peek::Pending | Peek::Lapped { .. } => 0,
    };
    lane.pass(next.epoch, gap).then_some(len)
}

/// Whether the group was closed, or deleted.
pub(super) fn is_out(left: &AtomicBool) -> bool {
    // ORD(left:D) Acquire: whoever closed the group comes before. Pairs with ORD(left:B), ORD(left:C).
    left.load(Ordering::Acquire)
}

fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
