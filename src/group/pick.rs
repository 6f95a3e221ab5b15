//! Which letters of a group are meant.
#![forbid(unsafe_code)]

use super::letters::Letter;
use std::fmt;

type Accepts<'a> = Box<dyn FnMut(&Letter) -> bool + 'a>;

/// A choice among a group's letters, oldest first: all, those that a function accepts, or no more than so many.
///
/// The function runs on the caller's thread, under no lock; where it panics, the call does, and no letter has moved.
///
/// ```
/// use ringlog::Pick;
///
/// let all = Pick::all();
/// let some = Pick::when(|letter| letter.partition() == 2 && letter.kind() != "panic").at_most(100);
/// # let _ = (all, some);
/// ```
#[must_use]
pub struct Pick<'a> {
    accepts: Option<Accepts<'a>>,
    most: usize,
}

impl<'a> Pick<'a> {
    /// All letters.
    pub fn all() -> Self {
        Pick { accepts: None, most: usize::MAX }
    }

    /// The oldest `n`.
    pub fn first(n: usize) -> Self {
        Self::all().at_most(n)
    }

    /// Those that `accepts` says yes to. It is asked once about each, the oldest first, until there are enough.
    pub fn when(accepts: impl FnMut(&Letter) -> bool + 'a) -> Self {
        Pick { accepts: Some(Box::new(accepts)), most: usize::MAX }
    }

    /// No more than `n` of them.
    pub fn at_most(mut self, n: usize) -> Self {
        self.most = n;
        self
    }

    pub(super) fn of(self, letters: Vec<Letter>) -> Vec<Letter> {
        let Pick { mut accepts, most } = self;
        let accepts = |letter: &Letter| accepts.as_mut().is_none_or(|accepts| accepts(letter));
        letters.into_iter().filter(accepts).take(most).collect()
    }
}

impl fmt::Debug for Pick<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pick").field("all", &self.accepts.is_none()).field("most", &self.most).finish()
    }
}
