//! Reading, and what is read past.
#![forbid(unsafe_code)]

use super::Log;
use crate::{
    ring::{Fenced, Gate, Moved, Peek, Reader, Run},
    seq::Seq,
};

/// What a reader finds at its position.
#[derive(Debug)]
pub enum Read<'r, T> {
    /// Records; never beyond the page.
    Ready(Run<'r, T>),
    /// Nothing yet.
    Pending,
    /// Records are lost; the reader still stands before them. [`Log::pass`] takes its group's cursor over them.
    Gap(Gap),
}

/// Records that a reader did not get in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first of them.
    pub from: Seq,
    /// The first that is still there, later than `from`.
    pub to: Seq,
    /// How many of them were too old; the others were overwritten.
    pub expired: u64,
    /// How many of them were neither, but passed over by their group for later ones: the log knows of none.
    pub conflated: u64,
}

impl Gap {
    /// How many records there were.
    pub fn len(&self) -> u64 {
        self.to.since(self.from)
    }

    /// Whether there were none, which `read` never returns.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them were overwritten.
    pub fn overwritten(&self) -> u64 {
        self.len().saturating_sub(self.expired + self.conflated)
    }
}

/// What is gone of a stretch of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Records that were overwritten.
    pub overwritten: u64,
    /// Records that were too old before that.
    pub expired: u64,
}

/// A cursor was moved over records that were gone already, perhaps, and over others that were not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocated {
    /// From where to where.
    pub moved: Moved,
    /// What was gone between the two, if it went forwards.
    pub missed: Missed,
}

impl<T: Send + Sync + 'static> Log<T> {
    /// Whether groups may find gaps: where the oldest record goes when it is full, and where records have an age.
    pub fn sheds(&self) -> bool {
        self.ring().sheds()
    }

    /// Whether records have an age.
    pub fn ages(&self) -> bool {
        self.age().is_some()
    }

    /// What there is to read for `reader`: at most `max` records (at least one).
    ///
    /// Where records are lost before they are read, the loss is found here, in its place among the records.
    #[inline]
    pub fn read<'r>(&self, reader: &'r mut Reader<T>, max: usize) -> Read<'r, T> {
        self.look();
        let from = reader.position();
        match reader.peek(max) {
            Peek::Ready(run) => Read::Ready(run),
            Peek::Pending => Read::Pending,
            Peek::Lapped { earliest } => Read::Gap(self.gap(from, earliest)),
        }
    }

    #[cold]
    fn gap(&self, from: Seq, to: Seq) -> Gap {
        Gap { from, to, expired: self.missed(from, to).expired, conflated: 0 }
    }

    /// Moves a group's gate on from `from` to `to`, unless somebody moved or took it meanwhile, wakes a producer, and drops
    /// what everybody is past.
    #[inline]
    pub fn commit(&self, gate: &Gate, epoch: u32, from: Seq, to: Seq) -> Result<(), Fenced> {
        let committed = self.go_on(gate, epoch, from, to);
        self.gone_on(from, to);
        committed
    }

    /// The first half of [`Log::commit`], which runs no code of the user's: [`Log::gone_on`] is to follow.
    #[inline]
    pub fn go_on(&self, gate: &Gate, epoch: u32, from: Seq, to: Seq) -> Result<(), Fenced> {
        let committed = gate.commit(epoch, from, to);
        if committed.is_ok() {
            self.not_full().notify();
        }
        committed
    }

    /// The second half. Refused or not: what everybody is past may have waited for these records to be out of hand.
    #[inline]
    pub fn gone_on(&self, from: Seq, to: Seq) {
        self.ring().release(from, to);
    }

    /// A reader at `at`. Where it reads what no gate protects it may be lapped.
    pub fn reader(&self, at: Seq) -> Reader<T> {
        self.ring().reader(at)
    }

    /// Moves a group's gate over `gap`, as a commit in `epoch`, and counts what was lost. Wakes nobody and drops nothing, so
    /// that it may be called under a lock: [`Log::passed`] does that afterwards, moved or refused.
    pub fn pass(&self, gate: &Gate, epoch: u32, gap: &Gap) -> Result<(), Fenced> {
        self.gates.pass(self.ring(), gate, epoch, gap)
    }

    /// After [`Log::pass`]: wakes a producer, and drops what everybody is past.
    pub fn passed(&self, gap: &Gap) {
        self.not_full().notify();
        self.ring().release(gap.from, gap.to);
    }

    /// What every group has passed; `None` while there is no group.
    pub fn low_water(&self) -> Option<Seq> {
        self.gates.low_water()
    }

    /// What of `from..to` is gone, without counting it anywhere.
    pub fn missed(&self, from: Seq, to: Seq) -> Missed {
        self.gates.missed(self.ring(), from, to)
    }

    /// As [`Log::seek`], wakes nobody, drops nothing (a [`sweep`](Self::sweep) follows), and says what was gone of the records it went over.
    pub fn relocate(&self, gate: &Gate, want: Seq) -> Relocated {
        match self.relocate_from(gate, None, want) {
            Ok(relocated) => relocated,
            Err(Fenced { .. }) => unreachable!("moved from wherever it was"),
        }
    }

    /// The same, if `from` says so only from there: else nothing is moved.
    pub fn relocate_from(&self, gate: &Gate, from: Option<Seq>, want: Seq) -> Result<Relocated, Fenced> {
        self.look_only();
        self.gates.relocate(self.ring(), gate, from, want)
    }
}
