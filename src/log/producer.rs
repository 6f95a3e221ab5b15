//! The one producer of an exclusive partition.
#![forbid(unsafe_code)]

use super::{AppendCtl, AppendError, Appended, AppendedAll, Log, append::Gone};
use crate::{
    ring::{Exclusive, Refused, Why},
    seq::Seq,
    sync::Arc,
    time::Deadline,
};
use std::{fmt, time::Duration};

/// The one producer of an exclusive partition: the same calls as the log's own, without a read-modify-write, and
/// publishing in place.
pub struct LogProducer<T> {
    log: Arc<Log<T>>,
    tail: Exclusive<T>,
}

impl<T: Send + Sync + 'static> LogProducer<T> {
    /// The producer of `log`; none if the log is shared, or has one already.
    pub fn new(log: &Arc<Log<T>>) -> Option<Self> {
        let tail = log.ring().exclusive()?;
        Some(Self { log: log.clone(), tail })
    }

    /// The partition.
    pub fn log(&self) -> &Arc<Log<T>> {
        &self.log
    }

    /// As [`LogProducer::try_append`], for callers that go on to wait; see [`Log::offer`].
    #[inline(always)]
    pub fn offer(&mut self, from: &mut Option<T>) -> Result<Appended, Why> {
        let offset = self.push(from)?;
        Ok(self.log.stored(offset, false))
    }

    /// As [`Log::offer_quietly`].
    pub fn offer_quietly(&mut self, from: &mut Option<T>) -> Result<Appended, Why> {
        let offset = self.push(from)?;
        Ok(self.log.stored(offset, true))
    }

    /// Stores one record if there is room. Wait-free, where records have no age.
    #[inline]
    pub fn try_append(&mut self, value: T) -> Result<Appended, AppendError<T>> {
        if self.log.has_times() {
            return self.try_append_timed(value);
        }
        match self.tail.try_push(value) {
            Ok(offset) => Ok(self.log.stored(offset, false)),
            Err(Refused { value, why }) => Err(self.log.refusal(why, value, 1, Duration::ZERO)),
        }
    }

    #[inline(never)]
    fn try_append_timed(&mut self, value: T) -> Result<Appended, AppendError<T>> {
        let mut value = Some(value);
        match self.push(&mut value) {
            Ok(offset) => Ok(self.log.stored(offset, false)),
            Err(why) => Err(self.log.refusal(why, given_back(value), 1, Duration::ZERO)),
        }
    }

    #[inline(always)]
    fn push(&mut self, from: &mut Option<T>) -> Result<Seq, Why> {
        match self.log.stamps() {
            None => self.tail.try_push_from(from),
            Some(_) => self.timed(|tail, created| tail.try_push_from_at(from, created)),
        }
    }

    /// One attempt where records have a time.
    #[inline(never)]
    fn timed<R>(&mut self, mut attempt: impl FnMut(&mut Exclusive<T>, u64) -> Result<R, Why>) -> Result<R, Why> {
        let (log, tail) = (&self.log, &mut self.tail);
        let Some(stamps) = log.stamps() else { return attempt(tail, 0) };
        log.attempt(log.entered(stamps), |created| attempt(tail, created))
    }

    /// As [`Log::until_room`], with the time of the entry for each attempt, where records have one.
    #[inline]
    fn until_room<R>(
        &mut self,
        deadline: Deadline,
        ctl: &AppendCtl<'_>,
        len: usize,
        mut attempt: impl FnMut(&mut Exclusive<T>, Option<u64>) -> Result<R, Why>,
    ) -> Result<R, Gone> {
        let (log, tail) = (&self.log, &mut self.tail);
        match log.stamps() {
            None => log.until_room(deadline, ctl, len, || attempt(tail, None)),
            Some(stamps) => {
                let created = log.entered(stamps);
                log.until_room(deadline, ctl, len, || log.attempt(created, |created| attempt(tail, Some(created))))
            }
        }
    }

    /// Stores all of `values` (which is empty then) or none of them, if there is room.
    pub fn try_append_all(&mut self, values: &mut Vec<T>) -> Result<AppendedAll, AppendError<()>> {
        let len = values.len();
        let stored = match self.log.stamps() {
            None => self.tail.try_push_all(values),
            Some(_) => self.timed(|tail, created| tail.try_push_all_at(values, created)),
        };
        match stored {
            Ok(offsets) => Ok(self.log.stored_all(offsets, false)),
            Err(why) => Err(self.log.refusal(why, (), len, Duration::ZERO)),
        }
    }

    /// Puts the record in `from`, which is empty then, into its place without storing it yet, if there is room: batches are
    /// built in place. See [`Exclusive::stage`].
    #[inline(always)]
    pub fn stage(&mut self, from: &mut Option<T>) -> Result<(), Why> {
        self.tail.stage_from(from)
    }

    /// Stores what was staged, all at once. When the partition is closed it stays staged.
    #[inline]
    pub fn store_staged(&mut self) -> Result<AppendedAll, AppendError<()>> {
        let stored = match self.log.stamps() {
            None => self.tail.publish_staged(),
            Some(_) => self.timed(Exclusive::publish_staged_at),
        };
        match stored {
            Ok(offsets) => Ok(self.log.stored_all(offsets, false)),
            Err(why) => Err(self.log.refusal(why, (), self.tail.staged(), Duration::ZERO)),
        }
    }

    /// How many records are staged.
    pub fn staged(&self) -> usize {
        self.tail.staged()
    }

    /// Moves what was staged to the end of `values`.
    pub fn unstage(&mut self, values: &mut Vec<T>) {
        self.tail.unstage(values);
    }

    /// Drops what was staged.
    pub fn abandon(&mut self) {
        self.tail.abandon();
    }

    /// Publishes in place if there is room: `fill` gets the record that lies in the slot, one that everybody is past, so that its
    /// buffers can be used again; where none lies there yet `fresh` makes one.
    ///
    /// A panic in `fresh` or `fill` publishes nothing. A call that is refused has called neither, unless the partition was
    /// closed under it.
    #[inline]
    pub fn try_append_in_place(
        &mut self,
        fresh: impl FnOnce() -> T,
        fill: impl FnOnce(&mut T),
    ) -> Result<Appended, AppendError<()>> {
        let stored = match self.log.stamps() {
            None => self.tail.try_push_with(fresh, fill),
            Some(_) => {
                let mut work = (Some(fresh), Some(fill));
                self.timed(|tail, created| fill_in(tail, &mut work, Some(created)))
            }
        };
        match stored {
            Ok(offset) => Ok(self.log.stored(offset, false)),
            Err(why) => Err(self.log.refusal(why, (), 1, Duration::ZERO)),
        }
    }

    /// Stores one record, waiting for room until `deadline` at most.
    #[inline]
    pub fn append(&mut self, value: T, deadline: Deadline, ctl: &AppendCtl<'_>) -> Result<Appended, AppendError<T>> {
        let mut value = Some(value);
        let stored = self.until_room(deadline, ctl, 1, |tail, created| match created {
            None => tail.try_push_from(&mut value),
            Some(created) => tail.try_push_from_at(&mut value, created),
        });
        match stored {
            Ok(offset) => Ok(self.log.stored(offset, ctl.quiet)),
            Err(gone) => Err(self.log.gone(gone, (), 1).map(|()| given_back(value))),
        }
    }

    /// Stores all of `values` (which is empty then) or none of them, waiting until there is room for all.
    pub fn append_all(
        &mut self,
        values: &mut Vec<T>,
        deadline: Deadline,
        ctl: &AppendCtl<'_>,
    ) -> Result<AppendedAll, AppendError<()>> {
        let len = values.len();
        let stored = self.until_room(deadline, ctl, len, |tail, created| match created {
            None => tail.try_push_all(values),
            Some(created) => tail.try_push_all_at(values, created),
        });
        match stored {
            Ok(offsets) => Ok(self.log.stored_all(offsets, ctl.quiet)),
            Err(gone) => Err(self.log.gone(gone, (), len)),
        }
    }

    /// Publishes in place, waiting for room until `deadline` at most; see
    /// [`try_append_in_place`](Self::try_append_in_place).
    pub fn append_in_place(
        &mut self,
        fresh: impl FnOnce() -> T,
        fill: impl FnOnce(&mut T),
        deadline: Deadline,
        ctl: &AppendCtl<'_>,
    ) -> Result<Appended, AppendError<()>> {
        let mut work = (Some(fresh), Some(fill));
        match self.until_room(deadline, ctl, 1, |tail, created| fill_in(tail, &mut work, created)) {
            Ok(offset) => Ok(self.log.stored(offset, ctl.quiet)),
            Err(gone) => Err(self.log.gone(gone, (), 1)),
        }
    }
}

/// One attempt to publish in place; a refused one leaves `work` as it was.
#[inline]
fn fill_in<T: Send + Sync + 'static>(
    tail: &mut Exclusive<T>,
    work: &mut (Option<impl FnOnce() -> T>, Option<impl FnOnce(&mut T)>),
    created: Option<u64>,
) -> Result<Seq, Why> {
    let (fresh, fill) = (&mut work.0, &mut work.1);
    let (fresh, fill) = (|| once(fresh)(), |slot: &mut T| once(fill)(slot));
    match created {
        None => tail.try_push_with(fresh, fill),
        Some(created) => tail.try_push_with_at(fresh, fill, created),
    }
}

/// A value is there whenever the last attempt failed, and none follows one that did not.
pub(super) fn given_back<T>(value: Option<T>) -> T {
    match value {
        Some(value) => value,
        None => unreachable!("an attempt after one that succeeded"),
    }
}

/// The closure, which a refused attempt has left in place.
fn once<F>(closure: &mut Option<F>) -> F {
    given_back(closure.take())
}

impl<T> fmt::Debug for LogProducer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogProducer").field("log", &self.log).finish_non_exhaustive()
    }
}
