//! Where a record stands.
#![forbid(unsafe_code)]

use super::letters::Letter;
use super::record::Record;

/// Where a record stands: dense offsets from 0 in each partition of its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The partition.
    pub partition: u32,
    /// The offset in it.
    pub offset: u64,
}

impl<T> Record<'_, T> {
    /// Where it stands.
    pub fn position(&self) -> Position {
        Position { partition: self.partition(), offset: self.offset() }
    }
}

impl Letter {
    /// Where its record stands.
    pub fn position(&self) -> Position {
        Position { partition: self.partition(), offset: self.offset() }
    }
}

impl<T> From<&Record<'_, T>> for Position {
    fn from(record: &Record<'_, T>) -> Self {
        record.position()
    }
}

impl From<&Letter> for Position {
    fn from(letter: &Letter) -> Self {
        letter.position()
    }
}
