//! Cells by key: a tree that only grows, so that looking a key up needs no lock, no count and no guard.
//!
//! Each node holds one key, and four places for nodes below it. A key's way down is spelled by its hash, two bits a step,
//! until a node has the key or a place is empty; an empty place is filled once and for all. With n keys a look-up takes
//! about log4(n) steps; keys that hash alike stand in one row. A look-up is wait-free. Adding a key waits, if at all, for
//! another thread that is filling the same place at this moment, which runs no user code.
#![forbid(unsafe_code)]

use super::entry::contain;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;

type Place<K, C> = OnceLock<Box<Node<K, C>>>;

struct Node<K, C> {
    hash: u64,
    key: K,
    cell: C,
    below: [Place<K, C>; 4],
}

/// So many keys, each with its cell; and one more for each thread that adds one at the very moment in which the last place is
/// taken. (To keep a place for who is about to add would turn away others for keys that turn out to be there already.)
pub(super) struct Keys<K, C> {
    root: Place<K, C>,
    hasher: RandomState,
    most: usize,
    known: AtomicUsize,
    refused: AtomicUsize,
}

/// What a way down ends at.
enum End<'a, K, C> {
    Found(&'a Node<K, C>),
    Empty(&'a Place<K, C>),
}

impl<K, C> Keys<K, C> {
    pub(super) fn new(most: usize) -> Self {
        let [known, refused] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Self { root: OnceLock::new(), hasher: RandomState::new(), most, known, refused }
    }

    /// How many keys there are.
    pub(super) fn known(&self) -> usize {
        // ORD(known:A) Relaxed: a gauge.
        self.known.load(Ordering::Relaxed)
    }

    /// How many times there was no place for a key.
    pub(super) fn refused(&self) -> usize {
        // ORD(refused:A) Relaxed: a counter.
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a record whose key found no place.
    pub(super) fn refuse(&self) {
        // ORD(refuse:A) Relaxed: a counter.
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// All keys that were there when it was asked for, and perhaps some that come meanwhile, in no order.
    pub(super) fn iter(&self) -> Iter<'_, K, C> {
        Iter(self.root.get().map(|node| &**node).into_iter().collect())
    }
}

impl<K: Hash + Eq, C> Keys<K, C> {
    /// The cell of `key`.
    pub(super) fn find<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&C>
    where
        K: Borrow<Q>,
    {
        match self.descend(&self.root, self.hasher.hash_one(key), 0, key) {
            (End::Found(node), _) => Some(&node.cell),
            (End::Empty(_), _) => None,
        }
    }

    /// The cell of `key`, made by `cell` if the key is new; none if there is no place for another.
    pub(super) fn find_or_add(&self, key: K, cell: impl FnOnce() -> C) -> Option<&C> {
        let hash = self.hasher.hash_one(&key);
        let (mut place, mut depth) = match self.descend(&self.root, hash, 0, &key) {
            (End::Found(node), _) => return Some(&node.cell),
            (End::Empty(place), depth) => (place, depth),
        };
        if self.known() >= self.most {
            // The last place may just have been taken for this very key.
            return match self.descend(place, hash, depth, &key) {
                (End::Found(node), _) => Some(&node.cell),
                (End::Empty(_), _) => None,
            };
        }
        let mut node = Box::new(Node { hash, key, cell: cell(), below: Default::default() });
        loop {
            match place.set(node) {
                Ok(()) => {
                    // ORD(add:A) Relaxed: a counter with a bound.
                    self.known.fetch_add(1, Ordering::Relaxed);
                    return place.get().map(|node| &node.cell);
                }
                Err(ours) => node = ours,
            }
            // Somebody was faster: with another key, or with ours.
            match self.descend(place, hash, depth, &node.key) {
                (End::Found(node), _) => return Some(&node.cell),
                (End::Empty(next), deeper) => (place, depth) = (next, deeper),
            }
        }
    }

    /// Down from `place`, which is so deep in the tree. Equality is the user's code; nothing is held while it runs.
    fn descend<'a, Q: Eq + ?Sized>(
        &self,
        mut place: &'a Place<K, C>,
        hash: u64,
        mut depth: u32,
        key: &Q,
    ) -> (End<'a, K, C>, u32)
    where
        K: Borrow<Q>,
    {
        while let Some(node) = place.get() {
            if node.hash == hash && node.key.borrow() == key {
                return (End::Found(node), depth);
            }
            let step = hash.checked_shr(2 * depth).unwrap_or(0) & 3;
            place = &node.below[step as usize];
            depth = depth.saturating_add(1);
        }
        (End::Empty(place), depth)
    }
}

/// The nodes are taken apart one by one: keys that hash alike may stand in a row of any length. Keys' destructors are the
/// user's.
impl<K, C> Drop for Keys<K, C> {
    fn drop(&mut self) {
        let mut nodes: Vec<_> = self.root.take().into_iter().collect();
        while let Some(mut node) = nodes.pop() {
            nodes.extend(node.below.iter_mut().filter_map(OnceLock::take));
            contain(node);
        }
    }
}

/// See [`Keys::iter`].
pub(super) struct Iter<'a, K, C>(Vec<&'a Node<K, C>>);

impl<'a, K, C> Iterator for Iter<'a, K, C> {
    type Item = (&'a K, &'a C);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.0.pop()?;
        self.0.extend(node.below.iter().filter_map(|place| place.get().map(|node| &**node)));
        Some((&node.key, &node.cell))
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Keys;
    use crate::sync::thread;
    use std::hash::{Hash, Hasher};
    use std::sync::Arc;

    /// All hash alike.
    #[derive(PartialEq, Eq, Clone, Copy, Debug, PartialOrd, Ord)]
    struct Alike(usize);

    impl Hash for Alike {
        fn hash<H: Hasher>(&self, state: &mut H) {
            0.hash(state);
        }
    }

    #[test]
    fn finds_what_was_added_and_nothing_else() {
        let keys = Keys::new(usize::MAX);
        let many = if cfg!(miri) { 50 } else { 5_000 };
        for n in 0..many {
            assert_eq!(keys.find_or_add(n, || n * 2), Some(&(n * 2)));
        }
        assert!((0..many).all(|n| keys.find(&n) == Some(&(n * 2))));
        assert_eq!((keys.find(&many), keys.known()), (None, many));
        assert_eq!(keys.find_or_add(7, || unreachable!("it is there")), Some(&14));
        let mut all: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..many));
    }

    #[test]
    fn keys_that_hash_alike_are_told_apart_and_dropped_without_nesting() {
        let keys = Keys::new(usize::MAX);
        let many = if cfg!(miri) { 70 } else { 2_000 };
        assert!((0..many).all(|n| keys.find_or_add(Alike(n), || n) == Some(&n)));
        assert!((0..many).all(|n| keys.find(&Alike(n)) == Some(&n)));
        let row = thread::Builder::new().stack_size(64 << 10).spawn(move || drop(keys)).unwrap();
        row.join().unwrap();
    }

    #[test]
    fn no_more_keys_than_allowed() {
        let keys = Keys::new(2);
        assert!((0..2).all(|n| keys.find_or_add(n, || ()).is_some()));
        assert!(keys.find_or_add(2, || ()).is_none() && keys.find_or_add(1, || ()).is_some());
        assert_eq!(keys.known(), 2);
    }

    #[test]
    fn threads_that_add_the_same_keys_share_their_cells() {
        let (keys, many) = (Arc::new(Keys::new(1_000)), if cfg!(miri) { 20 } else { 1_000 });
        let add = |keys: Arc<Keys<usize, usize>>, me| {
            move || (0..many).map(|n| *keys.find_or_add(n, || me).expect("there is a place")).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..3).map(|me| thread::spawn(add(keys.clone(), me))).collect();
        let seen: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(seen.iter().all(|cells| *cells == seen[0]));
        assert_eq!(keys.known(), many);
    }
}
