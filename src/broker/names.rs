//! Things by their names: cheap to copy and to change, however many there are, so that what is copied on change may be long.
//!
//! A [`Trie`] by a number made of the name. Of names of which one number is made, the second lies at the next number that is
//! free, as in any open table: whoever is taken out has those behind it looked at anew.
#![forbid(unsafe_code)]

use crate::sync::trie::Trie;
use std::hash::{DefaultHasher, Hasher};

/// What has a name.
pub(crate) trait Named {
    /// Its name.
    fn named(&self) -> &str;
}

/// See the module.
#[derive(Clone)]
pub(crate) struct Names<V> {
    all: Trie<V>,
    number: fn(&str) -> u64,
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

impl<V> Default for Names<V> {
    fn default() -> Self {
        Self { all: Trie::default(), number: hash }
    }
}

impl<V> Names<V> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

impl<V: Named> Names<V> {
    /// Where the one of that name is, or would be.
    fn place(&self, name: &str) -> Result<u64, u64> {
        let mut at = (self.number)(name);
        while let Some(there) = self.all.get(at) {
            if there.named() == name {
                return Ok(at);
            }
            at = at.wrapping_add(1);
        }
        Err(at)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.all.get(self.place(name).ok()?)
    }

    /// Shows all, in no order that means anything.
    pub(crate) fn each<'a>(&'a self, mut show: impl FnMut(&'a V)) {
        self.all.each(|_, value| show(value));
    }

    /// Whether it is true of all.
    pub(crate) fn all(&self, mut of: impl FnMut(&V) -> bool) -> bool {
        use std::ops::ControlFlow::{Break, Continue};
        self.all.search(None, |_, value| if of(value) { Continue(()) } else { Break(()) }).is_continue()
    }
}

impl<V: Named + Clone> Names<V> {
    /// All, in order of their names.
    pub(crate) fn sorted(&self) -> Vec<V> {
        let mut all = Vec::with_capacity(self.len());
        self.each(|value| all.push(value));
        all.sort_unstable_by_key(|value| value.named());
        all.into_iter().cloned().collect()
    }

    /// Puts it in, unless there is one of its name.
    pub(crate) fn insert(&mut self, value: V) -> bool {
        let free = self.place(value.named());
        if let Err(at) = free {
            self.all.insert(at, value);
        }
        free.is_err()
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<V> {
        let mut at = self.place(name).ok()?;
        let removed = self.all.remove(at);
        loop {
            at = at.wrapping_add(1);
            let Some(behind) = self.all.remove(at) else { return removed };
            self.insert(behind);
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Named, Names};
    use std::collections::BTreeSet;

    impl Named for String {
        fn named(&self) -> &str {
            self
        }
    }

    fn alike(_: &str) -> u64 {
        u64::MAX - 3
    }

    fn nearly(name: &str) -> u64 {
        u64::from(name.as_bytes()[0] % 4)
    }

    #[test]
    fn names_of_one_number_are_told_apart_and_found_when_others_go() {
        for number in [super::hash, alike, nearly] {
            let (mut names, mut there) = (Names { number, ..Names::default() }, BTreeSet::new());
            for round in 0_u32..2_000 {
                let name = format!("{}", round.wrapping_mul(2_654_435_761) >> 27);
                if round % 3 == 1 {
                    assert_eq!(names.remove(&name), there.take(&name));
                } else {
                    assert_eq!(names.insert(name.clone()), there.insert(name));
                }
                assert!((0..32).map(|n| n.to_string()).all(|name| names.get(&name) == there.get(&name)));
                assert_eq!(names.sorted(), there.iter().cloned().collect::<Vec<_>>());
            }
        }
    }
}
