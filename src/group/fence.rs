//! Why what was handed out is refused, and why a record failed.
#![forbid(unsafe_code)]

use super::outcome::Failure;
use std::fmt;
use std::ops::Range;

/// The kind of the failure that is a lease that expired.
pub(super) const EXPIRED: &str = "expired";

/// Why what was handed out cannot be settled any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FencedBy {
    /// Its lease was over; it is handed out again.
    Expired,
    /// Its consumer went, and left it to others.
    Moved,
    /// The group's cursor was moved.
    Seeked,
    /// The group was deleted, or its topic, or its broker closed.
    Deleted,
    /// The cursor was so far behind that it was moved.
    Trimmed,
    /// It was nacked, or another batch of its partition was nacked or released, which takes along what was handed out with it; it
    /// is handed out again.
    Rewound,
    /// It was given up, and has a letter.
    Buried,
    /// It was acknowledged before.
    AlreadyAcked,
}

impl fmt::Display for FencedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FencedBy::Expired => "its lease expired",
            FencedBy::Moved => "its consumer has left",
            FencedBy::Seeked => "the group's cursor was moved",
            FencedBy::Deleted => "the group was deleted, or its broker closed",
            FencedBy::Trimmed => "the group was too far behind",
            FencedBy::Rewound => "it was nacked, or another batch of its partition was nacked or released",
            FencedBy::Buried => "it was given up",
            FencedBy::AlreadyAcked => "it was acknowledged before",
        })
    }
}

/// Why a record failed.
#[derive(Debug)]
pub(super) enum Cause {
    Expired,
    /// All was nacked, without a word.
    Nacked,
    Failed(Failure),
}

impl Cause {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Cause::Expired => Failure::of_kind(EXPIRED, "its lease expired before it was acknowledged"),
            Cause::Nacked => Failure::of_kind("nacked", "it was nacked"),
            Cause::Failed(failure) => failure,
        }
    }
}

/// A call that changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotInFlight(Option<Range<u64>>),
    Fenced(FencedBy),
}
