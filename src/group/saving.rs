//! Offsets written behind: what of a group's cursors has changed is given to its store, now and then and at its end.
//!
//! One at a time gives it, and it is user code, so under no lock: whoever comes meanwhile leaves word, and goes. A save
//! that failed is reported and left to the next.
#![forbid(unsafe_code)]

use super::Group;
use super::config::{ConfigError, GroupConfig};
use super::contain::contain;
use super::error::{GroupError, StoreFailure};
use super::gap::Hook;
use super::offset_store::{GroupOffset, OffsetStore, StoreError};
use super::outcome::Failure;
use crate::sync::{Arc, Mutex, lock, thread_number};
use crate::time::Time;
use crate::wait::Sleeper;
use std::fmt;
use std::time::Duration;

/// How often offsets are saved if nothing else is said.
const EVERY: Duration = Duration::from_secs(1);

/// The settings.
#[derive(Clone)]
pub(super) struct Storing {
    store: Option<Arc<dyn OffsetStore>>,
    every: Duration,
    on_failure: Option<Hook<StoreFailure>>,
}

impl Storing {
    pub(super) fn new() -> Self {
        Storing { store: None, every: EVERY, on_failure: None }
    }

    pub(super) fn is_there(&self) -> bool {
        self.store.is_some()
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.every.is_zero() {
            return Err(ConfigError::new("save_every", "0ns", "longer than zero"));
        }
        Ok(())
    }

    /// The first setting in which `other` differs; stores and functions are equal when they are the same one.
    pub(super) fn differs_in(&self, other: &Self) -> Option<&'static str> {
        if !same(self.store.as_ref(), other.store.as_ref()) {
            Some("offset_store")
        } else if self.every != other.every {
            Some("save_every")
        } else if !Hook::same(self.on_failure.as_ref(), other.on_failure.as_ref()) {
            Some("on_store_failure")
        } else {
            None
        }
    }
}

fn same(one: Option<&Arc<dyn OffsetStore>>, other: Option<&Arc<dyn OffsetStore>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

impl fmt::Debug for Storing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (store, told) = (self.store.is_some(), self.on_failure.is_some());
        write!(f, "Storing(store {store}, every {:?}, with a function {told})", self.every)
    }
}

impl<T> GroupConfig<T> {
    /// Keeps the group's offsets in `store`, too.
    ///
    /// It is read when the group is made: a partition begins at the offset stored for it, and where none is stored, at the
    /// place that the settings say. If the records from the stored offset on are gone, the group begins at the earliest
    /// retained, counts what is missing as `skipped`, and hears of it as of any gap ([`on_gap`](Self::on_gap),
    /// [`Record::lost_before`](crate::Record::lost_before)); an offset beyond the end is refused
    /// ([`GroupError::StoredAhead`](crate::GroupError::StoredAhead)).
    ///
    /// Offsets count from 0 in each topic that is made. A store that outlives the topic, over a restart or a deletion, is
    /// therefore good for programs that publish the same records again in the same order before they make the group, as one
    /// does that feeds from a file; others have it forget the group first, or they pass over new records.
    ///
    /// It is written behind, from the broker's timer ([`save_every`](Self::save_every)), when the group or its topic is
    /// deleted, when the broker closes, and by [`Group::save_offsets`](crate::Group::save_offsets): never when a record is
    /// acknowledged. If that fails, delivery goes on; the failure is [reported](Self::on_store_failure), counted
    /// ([`GroupStats::saves_failed`](crate::GroupStats::saves_failed)), and what it was to save is saved with the next. A
    /// store that takes long holds up the other things the timer does, and a close. Settings with another store are other
    /// settings.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, MemoryOffsets, TopicConfig};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let store = Arc::new(MemoryOffsets::new());
    /// let config = || GroupConfig::earliest().offset_store(store.clone());
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// topic.group("billing", config())?.subscribe("billing-1", |_| ())?;
    /// topic.publish_batch(0..3)?;
    /// broker.drain(Duration::from_secs(2))?;
    /// topic.delete_group("billing")?;
    /// assert_eq!(store.all()[0].to_string(), "orders/0: billing at 3");
    ///
    /// topic.publish(3)?;
    /// assert_eq!(topic.group("billing", config())?.lag(), 1); // goes on where it was
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn offset_store(mut self, store: Arc<dyn OffsetStore>) -> Self {
        self.storing.store = Some(store);
        self
    }

    /// How long a changed offset waits at most for being saved, as far as the timer comes in time (default one second). No
    /// effect without an [`offset_store`](Self::offset_store).
    pub fn save_every(mut self, every: Duration) -> Self {
        self.storing.every = every;
        self
    }

    /// Calls `hook` whenever the [`offset_store`](Self::offset_store) failed to save, with an error or a panic: on the thread
    /// that saved, under no lock. Its panic stops there.
    pub fn on_store_failure(mut self, hook: impl Fn(&StoreFailure) + Send + Sync + 'static) -> Self {
        self.storing.on_failure = Some(Hook::new(hook));
        self
    }

    /// What the store says about a group before it is made: the offset of each partition. User code.
    pub(super) fn load(
        &self,
        topic: &Arc<str>,
        group: &str,
        partitions: impl Iterator<Item = u32>,
    ) -> Result<Vec<Option<u64>>, GroupError> {
        let Some(store) = &self.storing.store else { return Ok(Vec::new()) };
        let load = |partition| {
            let failed = |message| GroupError::NotLoaded {
                failure: StoreFailure { topic: topic.clone(), group: group.into(), message },
                partition,
            };
            called(|| store.load(topic, group, partition)).map_err(failed)
        };
        partitions.map(load).collect()
    }
}

/// Calls the store; an error or a panic comes back as its message.
fn called<R>(store: impl FnOnce() -> Result<R, StoreError>) -> Result<R, String> {
    contain(store)?.map_err(|error| Failure::new(error).message())
}

/// What has been saved, and who is at it.
pub(super) struct Saved {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The next offset of each partition, as the store has it.
    stored: Vec<Option<u64>>,
    /// The thread that is at it.
    busy: Option<u64>,
    /// Somebody came meanwhile.
    again: bool,
    due: Time,
    saves: u64,
    failed: u64,
}

impl Saved {
    /// As it was loaded, at `now`.
    pub(super) fn new(stored: Vec<Option<u64>>, now: Time, storing: &Storing) -> Self {
        Saved { state: Mutex::new(State { stored, due: now.after(storing.every), ..State::default() }) }
    }

    /// How many saves succeeded, and how many failed.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.saves, state.failed)
    }
}

impl State {
    /// Becomes the one who saves; false if somebody is at it, who will do so once more, unless that is the store which asks.
    fn begin(&mut self) -> bool {
        match self.busy {
            None => self.busy = Some(thread_number()),
            Some(other) => {
                self.again |= other != thread_number();
                return false;
            }
        }
        true
    }

    fn stored(&self, partition: u32) -> Option<u64> {
        self.stored.get(partition as usize).copied().flatten()
    }

    fn note(&mut self, saved: &[GroupOffset]) {
        for offset in saved {
            let at = offset.partition as usize;
            self.stored.resize(self.stored.len().max(at + 1), None);
            self.stored[at] = Some(offset.next);
        }
        self.saves += u64::from(!saved.is_empty());
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Saves what has changed since the last save, if nobody is at it; whoever is does so once more. User code.
    pub fn save_behind(&self) -> Result<(), StoreFailure> {
        match &self.config.storing.store {
            Some(store) if lock(&self.saved.state).begin() => self.save_begun(&**store),
            _ => Ok(()),
        }
    }

    /// The same, once the cursors stand still: after this nobody comes who would save. So also if the store, or its hook, asks,
    /// it is done once more when that returns. User code.
    pub fn save_at_end(&self) -> Result<(), StoreFailure> {
        let Some(store) = &self.config.storing.store else { return Ok(()) };
        let begun = {
            let mut state = lock(&self.saved.state);
            let begun = state.begin();
            state.again |= !begun;
            begun
        };
        if begun { self.save_begun(&**store) } else { Ok(()) }
    }

    /// Saves until nobody has asked for it meanwhile.
    fn save_begun(&self, store: &dyn OffsetStore) -> Result<(), StoreFailure> {
        loop {
            let saved = self.save_once(store).inspect_err(|failure| self.report(failure));
            let again = {
                let mut state = lock(&self.saved.state);
                let again = std::mem::take(&mut state.again);
                if !again {
                    state.busy = None;
                }
                again
            };
            if !again {
                self.progress.notify(); // somebody may wait for it
                return saved;
            }
        }
    }

    fn save_once(&self, store: &dyn OffsetStore) -> Result<(), StoreFailure> {
        let mut changed = self.offsets();
        {
            let state = lock(&self.saved.state);
            changed.retain(|offset| state.stored(offset.partition) != Some(offset.next));
        }
        let saved = if changed.is_empty() { Ok(()) } else { called(|| store.save(&changed)) };
        let mut state = lock(&self.saved.state);
        match saved {
            Ok(()) => state.note(&changed),
            Err(_) => state.failed += 1,
        }
        drop(state);
        saved.map_err(|message| StoreFailure { topic: self.topic.clone(), group: self.name.clone(), message })
    }

    fn report(&self, failure: &StoreFailure) {
        if let Some(hook) = &self.config.storing.on_failure {
            hook.tell(failure);
        }
    }

    /// The same, and when it returns it has been done. From the store or its hook it does nothing.
    pub fn save(&self) -> Result<(), StoreFailure> {
        let Some(store) = &self.config.storing.store else { return Ok(()) };
        let busy = || lock(&self.saved.state).busy;
        loop {
            if lock(&self.saved.state).begin() {
                return self.save_begun(&**store);
            }
            if busy() == Some(thread_number()) {
                return Ok(());
            }
            Sleeper::new(self.clock.clone()).wait([&*self.progress], None, || busy().is_none());
        }
    }

    /// Whether nobody is saving, but for the store, or its hook, that asks.
    pub fn is_saved(&self) -> bool {
        lock(&self.saved.state).busy.is_none_or(|busy| busy == thread_number())
    }

    /// Whether the store, or its hook, asks: this thread is saving, further up.
    pub fn is_saving_here(&self) -> bool {
        lock(&self.saved.state).busy == Some(thread_number())
    }

    /// Saves if it is time to, and says when it is the next time; `None` if it never is.
    pub fn save_due(&self, now: Time) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        let store = self.config.storing.store.as_ref()?;
        let (begun, next) = {
            let mut state = lock(&self.saved.state);
            let due = state.due <= now;
            if due {
                state.due = now.after(self.config.storing.every);
            }
            // It leaves no word where somebody is at it: it comes again, and a slow store would never be left in peace.
            (due && state.busy.is_none() && state.begin(), state.due)
        };
        if begun {
            let _reported = self.save_begun(&**store);
        }
        Some(next)
    }
}
