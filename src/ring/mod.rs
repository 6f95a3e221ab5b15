//! One partition: a ring of pages that producers fill and readers chase (signatures; the bodies follow).

use std::{fmt, marker::PhantomData, ops::Range};

use crate::{
    seq::{Capacity, Seq},
    sync::Arc,
};

/// Who may publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Producers {
    /// One handle, by exclusive reference.
    Exclusive,
    /// Any number, by shared reference.
    Shared,
}

/// How a ring is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many records it holds, exactly.
    pub capacity: Capacity,
    /// Who may publish.
    pub producers: Producers,
    /// Touch the memory at once.
    pub prefault: bool,
    /// The first offset: 0, unless the wrap is under test.
    pub first: Seq,
}

/// The allocator refused the pages of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not allocate {bytes} bytes for the pages of a ring")]
pub struct OutOfMemory {
    /// How much was asked for.
    pub bytes: usize,
}

/// Why nothing was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A gate holds producers back.
    Full,
    /// The ring is sealed.
    Sealed,
    /// The batch is larger than the capacity.
    TooLarge,
    /// A page was needed and the allocator refused.
    OutOfMemory,
}

/// A value that was not published, and why.
pub struct Refused<T> {
    /// The value, back again.
    pub value: T,
    /// The reason.
    pub why: Why,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

/// Where a gate starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At an offset, moved into what is retained.
    At(Seq),
    /// Behind the last record.
    End,
    /// At the earliest record retained.
    Earliest,
}

/// A gate was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where it stood.
    pub from: Seq,
    /// Where it landed.
    pub to: Seq,
}

/// A commit that came too late: the gate was moved or taken over in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("commit refused: the gate has moved on to offset {position}, epoch {epoch}")]
pub struct Fenced {
    /// The gate's epoch now.
    pub epoch: u32,
    /// The gate's position now.
    pub position: Seq,
}

/// A cursor that holds producers back.
#[derive(Debug)]
pub struct Gate(());

#[allow(unused_variables)]
impl Gate {
    /// What the gate's owner called it.
    pub fn tag(&self) -> u64 {
        unimplemented!()
    }
    /// The first offset that is not committed.
    pub fn position(&self) -> Seq {
        unimplemented!()
    }
    /// The epoch that commits must name.
    pub fn epoch(&self) -> u32 {
        unimplemented!()
    }
    /// Both at one moment.
    pub fn snapshot(&self) -> (Seq, u32) {
        unimplemented!()
    }
    /// Moves the gate from `from` to `to`, if neither it nor its epoch has changed.
    pub fn commit(&self, epoch: u32, from: Seq, to: Seq) -> Result<(), Fenced> {
        unimplemented!()
    }
    /// A new epoch (takeover), and its number.
    pub fn bump(&self) -> u32 {
        unimplemented!()
    }
}

/// One partition's records.
#[derive(Debug)]
pub struct Ring<T>(PhantomData<T>);

#[allow(unused_variables)]
impl<T: Send + Sync + 'static> Ring<T> {
    /// A ring.
    pub fn new(options: Options) -> Result<Arc<Self>, OutOfMemory> {
        unimplemented!()
    }
    /// How many records it holds.
    pub fn capacity(&self) -> Capacity {
        unimplemented!()
    }
    /// One past the last offset claimed (shared) or published (exclusive).
    pub fn end(&self) -> Seq {
        unimplemented!()
    }
    /// The first offset a new reader may start at.
    pub fn earliest(&self) -> Seq {
        unimplemented!()
    }
    /// No claim succeeds afterwards; returns the final end.
    pub fn seal(&self) -> Seq {
        unimplemented!()
    }
    /// True once sealed.
    pub fn is_sealed(&self) -> bool {
        unimplemented!()
    }
    /// Adds a gate.
    pub fn join(&self, want: Start, tag: u64) -> Arc<Gate> {
        unimplemented!()
    }
    /// Removes a gate; its commits fail from now on.
    pub fn leave(&self, gate: &Gate) {
        unimplemented!()
    }
    /// Moves a gate, from any thread.
    pub fn seek(&self, gate: &Gate, want: Seq) -> Moved {
        unimplemented!()
    }
    /// The slowest gate: where it stands, and its tag.
    pub fn limiting(&self) -> Option<(Seq, u64)> {
        unimplemented!()
    }
    /// Publishes one value.
    pub fn try_push(&self, value: T) -> Result<Seq, Refused<T>> {
        unimplemented!()
    }
    /// Publishes all of `values` (then empty) or none of them.
    pub fn try_push_all(&self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        unimplemented!()
    }
    /// The one producer of an exclusive ring; `None` for a shared ring and the second time.
    pub fn exclusive(self: &Arc<Self>) -> Option<Exclusive<T>> {
        unimplemented!()
    }
    /// A reader that starts at `at`.
    pub fn reader(self: &Arc<Self>, at: Seq) -> Reader<T> {
        unimplemented!()
    }
    /// Pages that left the table and are still needed by somebody (or were not looked at since).
    pub fn pages_aside(&self) -> usize {
        unimplemented!()
    }
}

/// The one producer of an exclusive ring.
#[derive(Debug)]
pub struct Exclusive<T>(PhantomData<T>);

#[allow(unused_variables)]
impl<T: Send + Sync + 'static> Exclusive<T> {
    /// The ring.
    pub fn ring(&self) -> &Arc<Ring<T>> {
        unimplemented!()
    }
    /// Publishes one value.
    pub fn try_push(&mut self, value: T) -> Result<Seq, Refused<T>> {
        unimplemented!()
    }
    /// Publishes all of `values` (then empty) or none of them.
    pub fn try_push_all(&mut self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        unimplemented!()
    }
    /// Publishes in place: `fill` gets the value that lies in the slot, made by `fresh` if there is none.
    pub fn try_push_with(&mut self, fresh: impl FnOnce() -> T, fill: impl FnOnce(&mut T)) -> Result<Seq, Why> {
        unimplemented!()
    }
}

/// A reader with its own hold.
#[derive(Debug)]
pub struct Reader<T>(PhantomData<T>);

#[allow(unused_variables)]
impl<T: Send + Sync + 'static> Reader<T> {
    /// The offset it reads next.
    pub fn position(&self) -> Seq {
        unimplemented!()
    }
    /// Reads on at `to`.
    pub fn jump(&mut self, to: Seq) {
        unimplemented!()
    }
    /// What is there to read, at most `max` records, never beyond the page.
    pub fn peek(&mut self, max: usize) -> Peek<'_, T> {
        unimplemented!()
    }
    /// After the records below `to` were handled, before they are committed.
    pub fn advance(&mut self, to: Seq) {
        unimplemented!()
    }
    /// Lets go of the page while idle.
    pub fn release(&mut self) {
        unimplemented!()
    }
}

/// What a reader finds.
#[derive(Debug)]
pub enum Peek<'a, T> {
    /// Records.
    Ready(Run<'a, T>),
    /// Nothing yet.
    Pending,
    /// Overwritten: jump to `earliest` or later.
    Lapped {
        /// The earliest offset retained.
        earliest: Seq,
    },
}

/// Consecutive records on one page.
#[derive(Debug)]
pub struct Run<'a, T>(PhantomData<&'a T>);

#[allow(unused_variables)]
impl<'a, T> Run<'a, T> {
    /// The offset of the first record.
    pub fn first(&self) -> Seq {
        unimplemented!()
    }
    /// How many records.
    pub fn len(&self) -> usize {
        unimplemented!()
    }
    /// Never true of what `peek` returns.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
    /// The `i`th record.
    pub fn get(&self, i: usize) -> &'a T {
        unimplemented!()
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'a T> + use<'a, T> {
        std::iter::empty()
    }
}
