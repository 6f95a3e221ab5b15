//! From user code to the lane: handlers of records and of batches under one trait.
//!
//! The loop over a batch is here, once, generic over the handler: nothing is boxed per record, and one `catch_unwind`
//! round the loop (the lane's) finds the index at hand in `done`.
#![forbid(unsafe_code)]

use super::outcome::{BatchOutcome, IntoBatchOutcome, IntoOutcome, Outcome};
use super::record::{Batch, Lent, Record};
use super::shared::Progress;
use super::word::{LaneWord, Word};
use crate::ring::Run;

/// How a batch ended.
pub(super) struct Verdict {
    /// About the record behind the done ones; [`Outcome::Ack`]: nothing is wrong with it.
    pub(super) outcome: Outcome,
    /// Whether it is known that the failure is that record's.
    pub(super) blames: bool,
}

/// Whether somebody wants the lane's attention.
#[derive(Clone, Copy)]
pub(super) struct Interrupt<'a> {
    pub(super) word: &'a LaneWord,
    pub(super) seen: Word,
    /// Where others may take a part of the run, or all of it: how far it has got.
    pub(super) progress: Option<&'a Progress>,
}

impl Interrupt<'_> {
    #[inline(always)]
    fn is_set(self) -> bool {
        self.word.differs(self.seen)
    }
}

/// User code that takes the records of a batch.
pub(super) trait Deliver<T>: Send + 'static {
    /// Whether a panic is known to be the fault of the record behind the done ones.
    const BLAMES: bool;

    /// Hands the batch over; `done` counts the finished records, also when this panics.
    fn deliver(&mut self, batch: &Batch<'_, T>, done: &mut usize, interrupt: Interrupt<'_>) -> Verdict;
}

/// A handler of single records.
#[derive(Debug)]
pub(super) struct PerRecord<F>(pub(super) F);

impl<T, F, O> Deliver<T> for PerRecord<F>
where
    F: FnMut(&Record<'_, T>) -> O + Send + 'static,
    O: IntoOutcome,
{
    const BLAMES: bool = true;

    #[inline]
    fn deliver(&mut self, batch: &Batch<'_, T>, done: &mut usize, interrupt: Interrupt<'_>) -> Verdict {
        let Lent::Run(run) = &batch.lent else { return self.redeliver(batch, done) };
        match interrupt.progress {
            None => self.each((batch, run), done, interrupt, |_| true),
            Some(progress) => self.each_shared((batch, run), done, interrupt, progress),
        }
    }
}

impl<F> PerRecord<F> {
    /// Hands over one record after the other, each but the first if it `begins`: the records before it are acknowledged then.
    #[inline(always)]
    fn each<'a, T, O: IntoOutcome>(
        &mut self,
        (batch, run): (&Batch<'a, T>, &Run<'a, T>),
        done: &mut usize,
        interrupt: Interrupt<'_>,
        begins: impl Fn(u64) -> bool,
    ) -> Verdict
    where
        F: FnMut(&Record<'_, T>) -> O,
    {
        let len = run.len();
        let mut outcome = Outcome::Ack;
        for (index, value) in run.iter().enumerate() {
            if index > 0 && !begins(run.first().plus(index as u64).get()) {
                break;
            }
            let last = index + 1 == len || interrupt.is_set();
            let record = batch.record_of(run, index, value, last);
            match (self.0)(&record).into_outcome() {
                Outcome::Ack => *done = index + 1,
                other => {
                    outcome = other;
                    break;
                }
            }
            if last {
                break;
            }
        }
        Verdict { outcome, blames: true }
    }

    /// The same where others may take a part of the run. By itself, so that the loop without that asks for nothing of it.
    #[inline(never)]
    fn each_shared<'a, T, O: IntoOutcome>(
        &mut self,
        of: (&Batch<'a, T>, &Run<'a, T>),
        done: &mut usize,
        interrupt: Interrupt<'_>,
        progress: &Progress,
    ) -> Verdict
    where
        F: FnMut(&Record<'_, T>) -> O,
    {
        self.each(of, done, interrupt, |offset| progress.begins(offset))
    }

    /// Hands over the one record of a batch that does not lie in the log.
    #[cold]
    fn redeliver<T, O: IntoOutcome>(&mut self, batch: &Batch<'_, T>, done: &mut usize) -> Verdict
    where
        F: FnMut(&Record<'_, T>) -> O,
    {
        let outcome = (self.0)(&batch.get(0)).into_outcome();
        *done = usize::from(matches!(outcome, Outcome::Ack));
        Verdict { outcome, blames: true }
    }
}

/// A handler of whole batches.
#[derive(Debug)]
pub(super) struct PerBatch<F>(pub(super) F);

impl<T, F, O> Deliver<T> for PerBatch<F>
where
    F: FnMut(&Batch<'_, T>) -> O + Send + 'static,
    O: IntoBatchOutcome,
{
    const BLAMES: bool = false;

    fn deliver(&mut self, batch: &Batch<'_, T>, done: &mut usize, _: Interrupt<'_>) -> Verdict {
        let BatchOutcome { done: named, then } = (self.0)(batch).into_batch_outcome();
        *done = match (named, &then) {
            (Some(n), _) => n.min(batch.len()),
            (None, Outcome::Ack) => batch.len(),
            (None, _) => 0,
        };
        let outcome = if *done == batch.len() { Outcome::Ack } else { then };
        Verdict { outcome, blames: named.is_some() }
    }
}

/// A member's handlers.
#[derive(Debug)]
pub(super) enum Handlers<D> {
    /// One for all its lanes, which one thread steps one at a time.
    One(D),
    /// One for each partition.
    Each(Vec<D>),
}

impl<D> Handlers<D> {
    #[inline(always)]
    pub(super) fn of(&mut self, lane: usize) -> &mut D {
        match self {
            Handlers::One(handler) => handler,
            Handlers::Each(handlers) => &mut handlers[lane],
        }
    }
}
