//! A map from numbers that is cheap to copy and to change: a copy shares all of it, a change makes its path anew.
//!
//! ```text
//!   bits 4..0 of the key        root   [ 3 | 7 | 9 ]
//!   bits 9..5                            │   │   └ one value
//!                         one value ┘   └ node [ 0 | 31 ]
//! ```
//! A node has as many slots as it needs, of 32; what is alone below a slot lies in it. So a lookup takes one step for 32
//! values, two for a thousand, four for a million, and a change of a copy touches as many nodes, of 32 slots at most:
//! for lists that are copied on change and may be long.
#![forbid(unsafe_code)]

use crate::sync::Arc;
use std::ops::ControlFlow;

/// Bits of a key that a node tells apart.
const BITS: u32 = 5;

/// See the module.
#[derive(Clone, Debug)]
pub struct Trie<V> {
    root: Node<V>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Node<V> {
    /// Which slots are there.
    there: u32,
    slots: Vec<Slot<V>>,
}

#[derive(Clone, Debug)]
enum Slot<V> {
    One(u64, V),
    More(Arc<Node<V>>),
}

impl<V> Default for Trie<V> {
    fn default() -> Self {
        Self { root: Node::new(), len: 0 }
    }
}

impl<V> Trie<V> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Option<&V> {
        let (mut node, mut shift) = (&self.root, 0);
        loop {
            match &node.slots[node.place(key, shift).ok()?] {
                Slot::One(there, value) => return (*there == key).then_some(value),
                Slot::More(below) => (node, shift) = (below, shift + BITS),
            }
        }
    }

    /// Shows all values, in an order that is always the same for the same keys.
    pub fn each<'a>(&'a self, mut show: impl FnMut(u64, &'a V)) {
        let shown: ControlFlow<()> = self.search(None, |key, value| {
            show(key, value);
            ControlFlow::Continue(())
        });
        debug_assert!(shown.is_continue());
    }

    /// Shows values until one of them is what was sought: in the order of [`each`](Self::each), from where `key` would be on.
    pub fn search<'a, R>(
        &'a self,
        key: Option<u64>,
        mut show: impl FnMut(u64, &'a V) -> ControlFlow<R>,
    ) -> ControlFlow<R> {
        self.root.search(key, 0, &mut show)
    }
}

impl<V: Clone> Trie<V> {
    /// Puts a value in the place of `key`; returns the one that was there.
    pub fn insert(&mut self, key: u64, value: V) -> Option<V> {
        let before = self.root.insert(key, 0, value);
        self.len += usize::from(before.is_none());
        before
    }

    /// Takes the value of `key` out.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let removed = self.root.remove(key, 0);
        self.len -= usize::from(removed.is_some());
        removed
    }
}

impl<V> Node<V> {
    const fn new() -> Self {
        Self { there: 0, slots: Vec::new() }
    }

    const fn bit(key: u64, shift: u32) -> u32 {
        1 << ((key >> shift) & ((1 << BITS) - 1))
    }

    /// Where the slot for `key` is, or would be.
    fn place(&self, key: u64, shift: u32) -> Result<usize, usize> {
        let bit = Self::bit(key, shift);
        let at = (self.there & (bit - 1)).count_ones() as usize;
        if self.there & bit == 0 { Err(at) } else { Ok(at) }
    }

    fn search<'a, R>(
        &'a self,
        from: Option<u64>,
        shift: u32,
        show: &mut impl FnMut(u64, &'a V) -> ControlFlow<R>,
    ) -> ControlFlow<R> {
        let (Ok(first) | Err(first)) = from.map_or(Ok(0), |key| self.place(key, shift));
        // Only below the slot of the key itself does the key tell where to begin.
        let of_key = from.filter(|key| self.there & Self::bit(*key, shift) != 0);
        for (slot, nth) in self.slots[first..].iter().zip(0_usize..) {
            match slot {
                Slot::One(key, value) => show(*key, value)?,
                Slot::More(below) => below.search(of_key.filter(|_| nth == 0), shift + BITS, show)?,
            }
        }
        ControlFlow::Continue(())
    }
}

impl<V: Clone> Node<V> {
    /// A node that may be changed: a copy, if others see it too.
    fn own(node: &mut Arc<Self>) -> &mut Self {
        if Arc::get_mut(node).is_none() {
            *node = Arc::new(Self::clone(node));
        }
        Arc::get_mut(node).expect("nobody else has it")
    }

    fn insert(&mut self, key: u64, shift: u32, value: V) -> Option<V> {
        let at = match self.place(key, shift) {
            Ok(at) => at,
            Err(at) => {
                self.there |= Self::bit(key, shift);
                self.slots.reserve_exact(1);
                self.slots.insert(at, Slot::One(key, value));
                return None;
            }
        };
        match &mut self.slots[at] {
            Slot::One(there, old) if *there == key => Some(std::mem::replace(old, value)),
            Slot::More(below) => Self::own(below).insert(key, shift + BITS, value),
            slot => {
                let mut below = Self::new();
                if let Slot::One(there, old) = slot {
                    below.insert(*there, shift + BITS, old.clone());
                }
                below.insert(key, shift + BITS, value);
                *slot = Slot::More(Arc::new(below));
                None
            }
        }
    }

    fn remove(&mut self, key: u64, shift: u32) -> Option<V> {
        let at = self.place(key, shift).ok()?;
        match &mut self.slots[at] {
            Slot::One(there, _) if *there != key => None,
            Slot::One(..) => {
                self.there &= !Self::bit(key, shift);
                match self.slots.remove(at) {
                    Slot::One(_, value) => Some(value),
                    Slot::More(_) => None,
                }
            }
            slot @ Slot::More(_) => {
                let Slot::More(below) = slot else { return None };
                let below = Self::own(below);
                let removed = below.remove(key, shift + BITS)?;
                // What is alone below a slot lies in it, so an empty node is nowhere but at the root.
                if let [Slot::One(there, last)] = &*below.slots {
                    *slot = Slot::One(*there, last.clone());
                }
                Some(removed)
            }
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Trie;
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;

    /// Numbers that look random, the same each time.
    fn numbers() -> impl FnMut() -> u64 {
        let mut state = 1_u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) ^ state
        }
    }

    fn all(trie: &Trie<u64>) -> BTreeMap<u64, u64> {
        let mut all = BTreeMap::new();
        trie.each(|key, value| assert!(all.insert(key, *value).is_none(), "shown twice"));
        all
    }

    #[test]
    fn it_is_the_map_that_a_map_is() {
        let (mut trie, mut map, mut next) = (Trie::default(), BTreeMap::new(), numbers());
        for round in 0..if cfg!(miri) { 200 } else { 20_000 } {
            // Few keys, which come again, of which many differ in their highest bits only.
            let key = (next() % 300).wrapping_mul(0x0400_0000_0000_0001) >> (next() % 3);
            if next().is_multiple_of(3) {
                assert_eq!(trie.remove(key), map.remove(&key));
            } else {
                assert_eq!(trie.insert(key, round), map.insert(key, round));
            }
            assert_eq!((trie.get(key), trie.len()), (map.get(&key), map.len()));
            if round % 100 == 0 {
                assert_eq!(all(&trie), map);
            }
        }
        for key in map.into_keys() {
            assert!(trie.remove(key).is_some());
        }
        assert!(trie.is_empty() && trie.root.slots.is_empty());
    }

    #[test]
    fn a_copy_keeps_what_it_was() {
        let mut trie = Trie::default();
        (0..2_000).for_each(|key| assert!(trie.insert(key, key).is_none()));
        let (copy, before) = (trie.clone(), all(&trie));
        (0..2_000).step_by(3).for_each(|key| assert_eq!(trie.remove(key), Some(key)));
        (0..2_000).step_by(7).for_each(|key| _ = trie.insert(key, 0));
        assert_eq!(all(&copy), before);
        assert_ne!(all(&trie), before);
    }

    #[test]
    fn a_search_begins_at_a_key_and_shows_each_behind_it_once() {
        let (mut trie, mut next) = (Trie::default(), numbers());
        for _ in 0..500 {
            let key = next();
            trie.insert(key, key);
        }
        let mut order = Vec::new();
        trie.each(|key, _| order.push(key));
        assert_eq!(order.len(), trie.len());
        for (nth, from) in order.iter().enumerate() {
            let mut shown = Vec::new();
            let ended: ControlFlow<()> = trie.search(Some(*from), |key, _| {
                shown.push(key);
                ControlFlow::Continue(())
            });
            assert!(ended.is_continue());
            assert_eq!(shown, order[nth..]);
        }
        assert_eq!(trie.search(None, |key, _| ControlFlow::Break(key)), ControlFlow::Break(order[0]));
        // From a key that is not there: never one twice, and some end of the order.
        for _ in 0..100 {
            let (from, mut shown) = (next(), Vec::new());
            let _: ControlFlow<()> = trie.search(Some(from), |key, _| {
                shown.push(key);
                ControlFlow::Continue(())
            });
            assert!(order.ends_with(&shown));
        }
    }

    /// A change of a copy makes its path anew and nothing else.
    #[test]
    fn a_change_copies_few_values() {
        use std::cell::Cell;
        thread_local! { static CLONES: Cell<usize> = const { Cell::new(0) }; }
        struct Counted;
        impl Clone for Counted {
            fn clone(&self) -> Self {
                CLONES.set(CLONES.get() + 1);
                Counted
            }
        }
        let (mut trie, count) = (Trie::default(), if cfg!(miri) { 1_000 } else { 100_000 });
        (0..count).for_each(|key| _ = trie.insert(key, Counted));
        for key in [0, count / 2, count - 1] {
            CLONES.set(0);
            let mut copy = trie.clone();
            copy.remove(key);
            copy.insert(count, Counted);
            assert!(CLONES.get() <= 4 * 32, "{} values copied", CLONES.get());
        }
    }
}
