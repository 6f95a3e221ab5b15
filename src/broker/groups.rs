//! The groups of one topic: copied on change, so that a publish that finds no room reads them without a lock.
//!
//! Whether the topic still takes groups is part of the same value: a group is either in the list that a close or a
//! delete works through, or was refused.
#![forbid(unsafe_code)]

use super::names::{Named, Names};
use crate::group::{Group, GroupConfig, GroupError, context};
use crate::sync::cow::Cow;
use crate::sync::trie::Trie;
use crate::sync::{Arc, Weak};
use std::fmt;

struct List<T> {
    by_name: Names<Arc<Group<T>>>,
    /// By the tags of their gates.
    by_gate: Trie<Arc<Group<T>>>,
    /// The settings of the one that was made last, as long as a group goes by them.
    settings: Weak<GroupConfig<T>>,
    closed: bool,
}

impl<T: Send + Sync + 'static> Named for Arc<Group<T>> {
    fn named(&self) -> &str {
        Group::name(self)
    }
}

/// See the module. Clones are handles to the same list.
pub(crate) struct Groups<T>(Cow<List<T>>);

impl<T: Send + Sync + 'static> Groups<T> {
    pub(crate) fn new() -> Self {
        Self(Cow::new(List {
            by_name: Names::default(),
            by_gate: Trie::default(),
            settings: Weak::new(),
            closed: false,
        }))
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Group<T>>> {
        self.0.load().by_name.sorted()
    }

    /// Whether it is true of every one; asked until it is not.
    pub(crate) fn are_all(&self, of: impl FnMut(&Arc<Group<T>>) -> bool) -> bool {
        self.0.load().by_name.all(of)
    }

    /// Whether it is true of any.
    pub(crate) fn is_any(&self, mut of: impl FnMut(&Arc<Group<T>>) -> bool) -> bool {
        !self.are_all(|group| !of(group))
    }

    /// Settings equal to `config`: those of the group that was made last, if they are; groups that are alike share them.
    pub(crate) fn settings(&self, config: &GroupConfig<T>) -> Arc<GroupConfig<T>> {
        let last = self.0.load().settings.upgrade();
        let alike = last.filter(|last| last.differs_in(config).is_none());
        alike.unwrap_or_else(|| Arc::new(config.clone()))
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Group<T>>> {
        self.0.load().by_name.get(name).cloned()
    }

    /// The group of that name if `accept` takes it, or what `make` makes if there is none; all of it one step. `closed`
    /// says what to answer once the topic takes no more groups.
    pub(crate) fn get_or_make(
        &self,
        name: &str,
        accept: impl FnOnce(&Group<T>) -> Result<(), GroupError>,
        make: impl FnOnce() -> Result<Arc<Group<T>>, GroupError>,
        closed: impl FnOnce() -> GroupError,
    ) -> Result<Arc<Group<T>>, GroupError> {
        if let Some(there) = self.find(name) {
            return accept(&there).map(|()| there);
        }
        let made = self.0.try_update(|now| {
            if now.closed {
                return Err(closed());
            }
            if let Some(there) = now.by_name.get(name) {
                return accept(there).map(|()| (now.clone(), there.clone()));
            }
            let (mut next, group) = (now.clone(), make()?);
            next.by_name.insert(group.clone());
            next.settings = Arc::downgrade(group.config());
            group.gates().for_each(|tag| _ = next.by_gate.insert(tag, group.clone()));
            Ok((next, group))
        });
        made.map(|(_, group)| group)
    }

    /// Takes a group out of the list, unless another one has its name by now. Whether this call did it.
    pub(crate) fn remove(&self, group: &Group<T>) -> bool {
        let removed = self.0.try_update(|now| {
            now.by_name.get(group.name()).filter(|there| std::ptr::eq(&***there, group)).ok_or(())?;
            let mut next = now.clone();
            let removed = next.by_name.remove(group.name());
            group.gates().for_each(|tag| _ = next.by_gate.remove(tag));
            Ok::<_, ()>((next, removed)) // which is dropped behind the lock
        });
        removed.is_ok()
    }

    /// No group is made afterwards; returns those there are.
    pub(crate) fn close(&self) -> Vec<Arc<Group<T>>> {
        self.0.update(|now| List { closed: true, ..now.clone() }).by_name.sorted()
    }

    /// The group whose gate has this tag.
    pub(crate) fn with_gate(&self, tag: u64) -> Option<Arc<Group<T>>> {
        self.0.load().by_gate.get(tag).cloned()
    }

    /// The name of that group.
    pub(crate) fn named(&self, tag: u64) -> Option<Arc<str>> {
        self.with_gate(tag).map(|group| group.name().clone())
    }

    /// Whether nobody is to wait here for the gate with this tag: its lane is stepped by the executor that runs the caller, or
    /// it is a timer that runs him.
    pub(crate) fn stepped_here(&self, tag: u64) -> bool {
        let is_stepped = |group: &Arc<Group<T>>| group.would_deadlock(tag);
        context::on_timer() || self.0.load().by_gate.get(tag).is_some_and(is_stepped)
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        let (by_name, by_gate, settings) = (self.by_name.clone(), self.by_gate.clone(), self.settings.clone());
        Self { by_name, by_gate, settings, closed: self.closed }
    }
}

impl<T> Clone for Groups<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Groups<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Groups({})", self.0.load().by_name.len())
    }
}
