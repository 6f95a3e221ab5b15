//! A group's letters, from outside: listed, taken out, put back.
#![forbid(unsafe_code)]

use super::Group;
use super::letters::Letter;
use super::pick::Pick;

impl<T: Send + Sync + 'static> Group<T> {
    /// The letters kept, oldest first.
    pub fn letters(&self) -> Vec<Letter> {
        self.letters.all()
    }

    /// Takes the chosen letters out: they are the caller's now.
    pub fn drain_letters(&self, pick: Pick<'_>) -> Vec<Letter> {
        self.letters.take(&self.picked_letters(pick), usize::MAX).0
    }

    /// The chosen letters, which stay where they are.
    pub fn picked_letters(&self, pick: Pick<'_>) -> Vec<Letter> {
        pick.of(self.letters.all())
    }

    /// Takes one letter out, if nobody else has.
    pub fn take_letter(&self, letter: &Letter) -> bool {
        self.letters.take_one(letter)
    }

    /// Puts letters back that were taken out, before all others; the oldest go when there is no room.
    pub fn restore_letters(&self, letters: Vec<Letter>) {
        self.letters.restore(letters).into_iter().for_each(|letter| self.lose(Some(letter)));
    }

    /// Tells the group's hook that a letter went for lack of room, and drops it: user code.
    pub(super) fn lose(&self, letter: Option<Letter>) {
        if let (Some(letter), Some(hook)) = (&letter, &self.config.on_letter_lost) {
            hook.tell(letter);
        }
    }
}
