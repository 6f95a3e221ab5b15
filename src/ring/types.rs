//! How a ring is made, and what its calls answer.
#![forbid(unsafe_code)]

use std::fmt;

use crate::seq::{Capacity, Seq};

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
    /// Touch the memory at once instead of page by page.
    pub prefault: bool,
    /// The first offset: 0, unless the wrap is under test.
    pub first: Seq,
    /// Producers wait for gates only, and what lies further back than the capacity is gone: their cursors `follow`.
    pub lossy: bool,
    /// A time lies beside each record.
    pub timed: bool,
    /// The same, and a line may be drawn ([`raise_floor`](crate::ring::Body::raise_floor)) below which nothing is retained.
    pub aged: bool,
    /// Payloads are dropped as soon as every cursor is past them.
    pub prompt: bool,
}

impl Options {
    /// A ring that starts at 0, keeps what gates cover, and none of the rest.
    pub const fn new(capacity: Capacity, producers: Producers) -> Self {
        let (lossy, timed, aged, prompt) = (false, false, false, false);
        Self { capacity, producers, prefault: false, first: Seq::ZERO, lossy, timed, aged, prompt }
    }
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
    /// A gate holds producers back: wait until it moves.
    Full,
    /// The ring is sealed, for ever.
    Sealed,
    /// The batch is larger than the capacity: split it.
    TooLarge,
    /// A page was needed, and the allocator refused it: later it may not.
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
