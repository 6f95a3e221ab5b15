//! Records as handlers see them: borrowed from the log, one at a time or as a batch.
#![forbid(unsafe_code)]

use super::home::Home;
use super::lease::ExtendError;
use super::letters::Letter;
use crate::ring::{Records, Run, TimeOf};
use crate::seq::Seq;
use crate::time::Time;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

/// One record. It derefs to the payload, which is borrowed from the log for the length of the call.
pub struct Record<'a, T> {
    value: &'a T,
    home: &'a Home,
    partition: u32,
    offset: u64,
    attempt: u32,
    last: bool,
    lost: u64,
    time: TimeOf<'a>,
    letter: Option<&'a Letter>,
}

impl<'a, T> Record<'a, T> {
    /// The payload, for as long as the batch is in hand.
    pub fn value(&self) -> &'a T {
        self.value
    }

    /// The topic.
    pub fn topic(&self) -> &'a str {
        &self.home.topic
    }

    /// Whether the broker is being closed, so that it is time to finish: others are refused already when they publish,
    /// handlers may until they are done or the time is up. One load, so that a handler may ask in its loops.
    pub fn is_closing(&self) -> bool {
        self.home.closing.has_begun()
    }

    /// For a handler: keeps the record in hand for `by` from now, as far as the group's lease goes, and says how long it is this
    /// handler's then, by the broker's clock. **Look at what it returns**: it may be less than asked for. Never shorter than before. One
    /// short lock.
    ///
    /// With [`lease_renewed_up_to`](crate::GroupConfig::lease_renewed_up_to) a lease is renewed by itself while the handler runs,
    /// and that is how far it goes; without, nothing is extended, and this says what is left. So this is for the handler that wants
    /// to know whether what it is about to do still counts.
    ///
    /// [`Duration::MAX`] where there is no lease: in a group without one, and of a redriven record. (A redriven record that a consumer polled
    /// has one: extend that by [`Polled::extend`](crate::Polled::extend), which this is for all else that was polled.)
    ///
    /// # Errors
    ///
    /// It is not this handler's, or consumer's, any more, because its time was up, the group's cursor was moved, or the group
    /// deleted: what it makes of the record is refused.
    pub fn extend(&self, by: Duration) -> Result<Duration, ExtendError> {
        let (partition, offset) = (self.partition, self.offset);
        let extended = match (&self.home.term, &self.home.loan) {
            _ if self.letter.is_some() => return Ok(Duration::MAX),
            (Some(term), _) => term.extend(offset, by),
            (None, Some(loan)) => loan.extend(by),
            (None, None) => match &self.home.grasp {
                Some(grasp) => grasp.extend(offset, by),
                None => return Ok(Duration::MAX),
            },
        };
        let fenced = |by| ExtendError { topic: self.home.topic.clone(), partition, offset, by };
        extended.map_err(fenced)
    }

    /// The partition.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The offset within the partition: dense, from 0, never reused.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Which delivery this is, from 1. Counted on through changes of members; a seek and a redrive start afresh.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(super) fn with_attempt(self, attempt: u32) -> Self {
        Record { attempt, ..self }
    }

    /// When it was published: what the broker's clock said when the publish was called, before any wait for room. `None` on
    /// topics without [timestamps](crate::TopicConfig::timestamps). [`Clock::wall`](crate::Clock::wall) says which time of
    /// day that was.
    pub fn published_at(&self) -> Option<Time> {
        match self.letter {
            None => self.time.get().map(Time::from_nanos),
            Some(letter) => letter.published_at(),
        }
    }

    /// How many records this group lost right before this one, because they were overwritten or became too old before they
    /// were handed over, or by the group's [own rule](crate::GroupConfig::overflow): 0 where nothing is missing. See [`Gap`](crate::Gap).
    pub fn lost_before(&self) -> u64 {
        self.lost
    }

    /// Whether it was given up once and is handed over again because somebody asked for it; see
    /// [`Group::redrive`](crate::Group::redrive). Its partition and offset are where it lay; the group's cursor is elsewhere
    /// and stays there.
    pub fn is_redriven(&self) -> bool {
        self.letter.is_some()
    }

    /// The letter that a redriven record comes from: how often it had been tried, and why it was given up.
    pub fn letter(&self) -> Option<&'a Letter> {
        self.letter
    }

    /// Whether the handler will not be called again at once: a good moment to flush what it has gathered. True of the
    /// last record that is ready, and of the one before a pause, a hand-over or a seek.
    pub fn ends_batch(&self) -> bool {
        self.last
    }
}

impl<T> Deref for Record<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> Clone for Record<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Record<'_, T> {}

impl<T: fmt::Debug> fmt::Debug for Record<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{} {:?}", self.topic(), self.partition, self.offset, self.value)
    }
}

impl<T: fmt::Display> fmt::Display for Record<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{} {}", self.topic(), self.partition, self.offset, self.value)
    }
}

/// What a batch is made of.
pub(super) enum Lent<'a, T> {
    /// Records as they lie in the log.
    Run(Run<'a, T>),
    /// One that was given up, with its letter.
    Redriven(&'a T, &'a Letter),
    /// A clone of the record at an offset, with its time.
    Clone(&'a T, Seq, TimeOf<'a>),
}

/// The payloads of a batch, in order.
enum Payloads<'a, T> {
    Run(Records<'a, T>),
    One(Option<&'a T>),
}

impl<'a, T> Iterator for Payloads<'a, T> {
    type Item = &'a T;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a T> {
        match self {
            Payloads::Run(records) => records.next(),
            Payloads::One(one) => one.take(),
        }
    }
}

/// Consecutive records of one partition, as they lie in the log; or one that is redriven.
pub struct Batch<'a, T> {
    pub(super) lent: Lent<'a, T>,
    pub(super) home: &'a Home,
    pub(super) partition: u32,
    /// Which delivery this is of the first record; of the others it is the first.
    pub(super) attempt: u32,
    /// How many are missing before the first.
    pub(super) lost: u64,
}

impl<'a, T> Batch<'a, T> {
    /// How many; at least one.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match &self.lent {
            Lent::Run(run) => run.len(),
            Lent::Redriven(..) | Lent::Clone(..) => 1,
        }
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The topic.
    pub fn topic(&self) -> &'a str {
        &self.home.topic
    }

    /// Whether the broker is being closed; see [`Record::is_closing`].
    pub fn is_closing(&self) -> bool {
        self.home.closing.has_begun()
    }

    /// Keeps the batch in hand, as [`Record::extend`]: it has one lease.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn extend(&self, by: Duration) -> Result<Duration, ExtendError> {
        self.get(0).extend(by)
    }

    /// The partition.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The offset of the first record; the others follow without a gap.
    #[inline(always)]
    pub fn offset(&self) -> u64 {
        match &self.lent {
            Lent::Run(run) => run.first().get(),
            Lent::Redriven(_, letter) => letter.offset(),
            Lent::Clone(_, at, _) => at.get(),
        }
    }

    /// Whether this is one record that was given up and is redriven, all by itself; see [`Record::is_redriven`].
    pub fn is_redriven(&self) -> bool {
        self.letter().is_some()
    }

    /// The letter of a redriven record; see [`Record::letter`].
    #[inline(always)]
    pub fn letter(&self) -> Option<&'a Letter> {
        match self.lent {
            Lent::Run(_) | Lent::Clone(..) => None,
            Lent::Redriven(_, letter) => Some(letter),
        }
    }

    /// How many records the group lost right before the first of these; within a batch none is missing. See
    /// [`Record::lost_before`].
    pub fn lost_before(&self) -> u64 {
        self.lost
    }

    /// The record at `index`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn get(&self, index: usize) -> Record<'a, T> {
        self.record(index, self.value(index), index + 1 == self.len())
    }

    pub(super) fn value(&self, index: usize) -> &'a T {
        match &self.lent {
            Lent::Run(run) => run.get(index),
            Lent::Redriven(value, _) | Lent::Clone(value, ..) => {
                assert!(index == 0, "record {index} of a batch of 1");
                value
            }
        }
    }

    #[inline(always)]
    fn time_of(&self, index: usize) -> TimeOf<'a> {
        match &self.lent {
            Lent::Run(run) => run.time_of(index),
            Lent::Clone(_, _, time) => *time,
            Lent::Redriven(..) => TimeOf::default(),
        }
    }

    #[inline(always)]
    fn payloads(&self) -> Payloads<'a, T> {
        match &self.lent {
            Lent::Run(run) => Payloads::Run(run.iter()),
            Lent::Redriven(value, _) | Lent::Clone(value, ..) => Payloads::One(Some(value)),
        }
    }

    /// All records, in order.
    pub fn iter(&self) -> impl Iterator<Item = Record<'a, T>> + '_ {
        let len = self.len();
        self.payloads().enumerate().map(move |(index, value)| self.record(index, value, index + 1 == len))
    }

    #[inline(always)]
    fn record(&self, index: usize, value: &'a T, last: bool) -> Record<'a, T> {
        self.record_at(self.offset(), self.time_of(index), self.letter(), (index, value, last))
    }

    /// A record of `run`, which this batch is known to be made of: nothing is asked once more for each record.
    #[inline(always)]
    pub(super) fn record_of(&self, run: &Run<'a, T>, index: usize, value: &'a T, last: bool) -> Record<'a, T> {
        self.record_at(run.first().get(), run.time_of(index), None, (index, value, last))
    }

    #[inline(always)]
    fn record_at(
        &self,
        first: u64,
        time: TimeOf<'a>,
        letter: Option<&'a Letter>,
        (index, value, last): (usize, &'a T, bool),
    ) -> Record<'a, T> {
        Record {
            value,
            home: self.home,
            partition: self.partition,
            offset: first + index as u64,
            attempt: if index == 0 { self.attempt } else { 1 },
            last,
            lost: if index == 0 { self.lost } else { 0 },
            time,
            letter,
        }
    }
}

impl<T> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{} +{}", self.topic(), self.partition, self.offset(), self.len())
    }
}
