//! The topics of a broker by name: copied on change, looked up without a lock. A change copies its path, and not all of them.
//!
//! Whether the registry still takes topics is part of the same value, so a topic is either in the list that a close
//! works through, or was refused.
#![forbid(unsafe_code)]

use super::account::Behind;
use super::core::Core;
use super::describe::TopicDescription;
use super::error::{CreateError, LookupError};
use super::names::{Named, Names};
use crate::group::{GroupOffset, GroupStats, Letter};
use crate::sync::Arc;
use crate::sync::cow::Cow;
use std::any::{Any, type_name};
use std::fmt;

/// A topic whose record type is forgotten: what a broker does with all its topics alike.
pub(crate) trait AnyTopic: Send + Sync {
    /// Its name.
    fn name(&self) -> &Arc<str>;
    /// The type of its records, for errors.
    fn holds(&self) -> &'static str;
    /// Itself, to be asked for its type.
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// Whether every lane that has a member has committed up to the end of its partition; adds those ends to `ends`, and how
    /// many records were sent back to be handed over again.
    fn settled(&self, ends: &mut Vec<u64>) -> bool;
    /// Adds the names of the groups that hold up [`AnyTopic::settled`], with what they lag.
    fn behind(&self, lagging: &mut Vec<Behind>);
    /// No record is accepted afterwards; wakes everybody who waits for the topic.
    fn seal(&self);
    /// Seals it for having been deleted, and stops its lanes.
    fn delete(&self);
    /// Tells all lanes to stop at their next boundary.
    fn stop(&self);
    /// Whether no lane is in any handler's hands.
    fn stopped(&self) -> bool;
    /// Whether the caller runs in a handler, on an executor that serves a group of this topic.
    fn served_here(&self) -> bool;
    /// Has late acknowledgements refused, of what is still in a handler's hands.
    fn fence(&self);
    /// Has the groups with an offset store save what has changed. User code.
    fn save(&self) {}
    /// Whether none of them is at it, but for one whose store asks.
    fn saved(&self) -> bool {
        true
    }
    /// Whether the caller is one of their stores, or its hook.
    fn saving_here(&self) -> bool {
        false
    }
    /// Where each group stands.
    fn offsets(&self) -> Vec<GroupOffset> {
        Vec::new()
    }
    /// What each group did and left.
    fn account(&self) -> Vec<GroupStats>;
    /// Everything about it, as plain data.
    fn describe(&self) -> TopicDescription;
    /// Adds the letters of its groups.
    fn letters(&self, letters: &mut Vec<Letter>);
}

impl Named for Arc<dyn AnyTopic> {
    fn named(&self) -> &str {
        self.name()
    }
}

#[derive(Clone, Default)]
struct Topics {
    by_name: Names<Arc<dyn AnyTopic>>,
    closed: bool,
    /// Counts changes.
    version: u64,
}

/// See the module.
pub(crate) struct Registry(Cow<Topics>);

impl Registry {
    pub(crate) fn new() -> Self {
        Self(Cow::new(Topics::default()))
    }

    /// Adds a topic, unless its name is taken or the registry closed; of several at once exactly one succeeds.
    pub(crate) fn insert<T: Send + Sync + 'static>(&self, topic: &Arc<Core<T>>) -> Result<(), CreateError> {
        let name = topic.name.clone();
        let inserted = self.0.try_update(|now| {
            if now.closed {
                return Err(CreateError::Closed { topic: name });
            }
            let mut next = now.clone();
            next.version += 1;
            if !next.by_name.insert(topic.clone()) {
                return Err(now
                    .by_name
                    .get(&name)
                    .map_or(CreateError::Exists { topic: name }, |there| taken::<T>(&**there)));
            }
            Ok((next, ()))
        });
        inserted.map(|_| ())
    }

    /// The topic of that name and record type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, name: &str) -> Result<Arc<Core<T>>, LookupError> {
        let topics = self.0.load();
        let topic = topics.by_name.get(name).ok_or_else(|| LookupError::Unknown { topic: name.to_owned() })?;
        let wrong =
            || LookupError::WrongType { topic: topic.name().clone(), holds: topic.holds(), asked: type_name::<T>() };
        topic.clone().any().downcast().map_err(|_| wrong())
    }

    /// Whether the name is taken, before anything is allocated for a topic that could not be added.
    pub(crate) fn check_free<T>(&self, name: &Arc<str>) -> Result<(), CreateError> {
        let topics = self.0.load();
        if topics.closed {
            return Err(CreateError::Closed { topic: name.clone() });
        }
        topics.by_name.get(name).map_or(Ok(()), |there| Err(taken::<T>(&**there)))
    }

    /// Takes a topic out; of several at once exactly one succeeds.
    pub(crate) fn remove(&self, name: &str) -> Result<Arc<dyn AnyTopic>, LookupError> {
        let removed = self.0.try_update(|now| {
            let mut next = now.clone();
            let topic = next.by_name.remove(name).ok_or_else(|| LookupError::Unknown { topic: name.to_owned() })?;
            next.version += 1;
            Ok((next, topic))
        });
        removed.map(|(_, topic)| topic)
    }

    /// No topic is added afterwards.
    pub(crate) fn close(&self) {
        self.0.update(|now| Topics { closed: true, ..now.clone() });
    }

    /// The number of changes so far, and the topics at that moment.
    pub(crate) fn versioned(&self) -> (u64, Vec<Arc<dyn AnyTopic>>) {
        let topics = self.0.load();
        (topics.version, topics.by_name.sorted())
    }

    /// The number of changes so far.
    pub(crate) fn version(&self) -> u64 {
        self.0.load().version
    }

    /// All topics, in order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<dyn AnyTopic>> {
        self.0.load().by_name.sorted()
    }
}

fn taken<T>(there: &dyn AnyTopic) -> CreateError {
    let (topic, holds, asked) = (there.name().clone(), there.holds(), type_name::<T>());
    if holds == asked { CreateError::Exists { topic } } else { CreateError::WrongType { topic, holds, asked } }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.all().iter().map(|topic| topic.name())).finish()
    }
}
