//! The groups of one topic: copied on change, so that a publish that finds no room reads them without a lock.
//!
//! Whether the topic still takes groups is part of the same value: a group is either in the list that a close or a
//! delete works through, or was refused.
#![forbid(unsafe_code)]

use crate::group::{Group, GroupError, context};
use crate::sync::Arc;
use crate::sync::cow::Cow;
use std::fmt;

struct List<T> {
    /// By name.
    groups: Vec<Arc<Group<T>>>,
    closed: bool,
}

/// See the module. Clones are handles to the same list.
pub(crate) struct Groups<T>(Cow<List<T>>);

impl<T: Send + Sync + 'static> Groups<T> {
    pub(crate) fn new() -> Self {
        Self(Cow::new(List { groups: Vec::new(), closed: false }))
    }

    pub(crate) fn all(&self) -> Vec<Arc<Group<T>>> {
        self.0.load().groups.clone()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<Group<T>>> {
        let list = self.0.load();
        list.place(name).ok().map(|at| list.groups[at].clone())
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
            match now.place(name) {
                Ok(at) => accept(&now.groups[at]).map(|()| (now.clone(), now.groups[at].clone())),
                Err(at) => {
                    let (mut next, group) = (now.clone(), make()?);
                    next.groups.insert(at, group.clone());
                    Ok((next, group))
                }
            }
        });
        made.map(|(_, group)| group)
    }

    /// Takes a group out of the list, unless another one has its name by now. Whether this call did it.
    pub(crate) fn remove(&self, group: &Group<T>) -> bool {
        let removed = self.0.try_update(|now| {
            let at = now.groups.iter().position(|there| std::ptr::eq(&**there, group)).ok_or(())?;
            let mut next = now.clone();
            next.groups.remove(at);
            Ok::<_, ()>((next, ()))
        });
        removed.is_ok()
    }

    /// No group is made afterwards; returns those there are.
    pub(crate) fn close(&self) -> Vec<Arc<Group<T>>> {
        self.0.update(|now| List { closed: true, ..now.clone() }).groups.clone()
    }

    /// The group whose gate has this tag.
    pub(crate) fn with_gate(&self, tag: u64) -> Option<Arc<Group<T>>> {
        self.0.load().groups.iter().find(|group| group.has_gate(tag)).cloned()
    }

    /// The name of that group.
    pub(crate) fn named(&self, tag: u64) -> Option<Arc<str>> {
        self.with_gate(tag).map(|group| group.name().clone())
    }

    /// Whether nobody is to wait here for the gate with this tag: its lane is stepped by the executor that runs the caller, or
    /// it is a timer that runs him.
    pub(crate) fn stepped_here(&self, tag: u64) -> bool {
        context::on_timer() || self.0.load().groups.iter().any(|group| group.would_deadlock(tag))
    }
}

impl<T: Send + Sync + 'static> List<T> {
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.groups.binary_search_by(|group| (**group.name()).cmp(name))
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { groups: self.groups.clone(), closed: self.closed }
    }
}

impl<T> Clone for Groups<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Groups<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.load().groups).finish()
    }
}
