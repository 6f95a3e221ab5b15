//! Effectively once: what a consumer remembers of the records it has done.
#![forbid(unsafe_code)]

use super::record::Record;
use crate::sync::{Arc, Mutex, lock};
use std::collections::{HashMap, HashSet, VecDeque};

/// The records that a group has done lately, by where they lie, so that one that comes again takes no effect again.
///
/// Delivery is at least once: a record comes again after a seek, after a redrive, and when its handler had taken effect and then
/// failed, or its commit was refused. This remembers, of each partition, the last `window` records that were done; asking and
/// remembering take a short lock. Clones are the same memory: give one to each member of the group, since partitions move.
/// Use one for each group.
///
/// **What it does not promise.** It lives in memory, beside the effect and not with it: a process that ends forgets, and an
/// effect that was taken just before a panic, before [`done`](Self::done), is taken again. A record that is further back than
/// `window` counts as new. A record published twice, or redriven to a topic, lies in two places and is two records; put an
/// id of your own into it. Where that is not enough, keep the offset where the effect is, in one transaction (docs/handlers.md).
///
/// ```
/// use ringlog::{Broker, GroupConfig, Manual, Once, Record, SeekTo, TopicConfig};
/// use std::sync::{Arc, Mutex};
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("payments", TopicConfig::<u64>::new())?;
/// let (group, manual) = (topic.group("ledger", GroupConfig::earliest())?, Manual::new(1));
/// let (once, balance) = (Once::new(1_024), Arc::new(Mutex::new(0)));
/// let account = balance.clone();
/// group.member("ledger-1").run(&manual).subscribe(move |payment: &Record<'_, u64>| {
///     once.run(payment, || {
///         *account.lock().map_err(|_| "the books are spoilt")? += **payment;
///         Ok::<_, &str>(())
///     })
///     .map(drop)
/// })?;
/// topic.publish_batch([10, 20])?;
/// manual.run(100);
/// group.seek(0, SeekTo::Earliest)?;
/// manual.run(100);
/// assert_eq!((group.stats().acked(), *balance.lock().unwrap()), (4, 30));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Once(Arc<Memory>);

#[derive(Debug)]
struct Memory {
    window: usize,
    partitions: Mutex<HashMap<u32, Window>>,
}

/// The last records done of one partition.
#[derive(Debug, Default)]
struct Window {
    order: VecDeque<u64>,
    done: HashSet<u64>,
}

impl Window {
    fn add(&mut self, offset: u64, most: usize) {
        if !self.done.insert(offset) {
            return;
        }
        self.order.push_back(offset);
        if self.order.len() > most {
            if let Some(oldest) = self.order.pop_front() {
                self.done.remove(&oldest);
            }
        }
    }
}

impl Once {
    /// Remembers the last `window` records of each partition. As many as a partition holds is enough for every seek; letters
    /// that are redriven may be older.
    pub fn new(window: usize) -> Self {
        Once(Arc::new(Memory { window, partitions: Mutex::new(HashMap::new()) }))
    }

    /// Whether this record has not been done, as far as is remembered. It changes nothing: a record that fails stays new.
    pub fn first<T>(&self, record: &Record<'_, T>) -> bool {
        let partitions = lock(&self.0.partitions);
        !partitions.get(&record.partition()).is_some_and(|window| window.done.contains(&record.offset()))
    }

    /// Remembers that this record is done. To be called when its effect has been taken.
    pub fn done<T>(&self, record: &Record<'_, T>) {
        let mut partitions = lock(&self.0.partitions);
        partitions.entry(record.partition()).or_default().add(record.offset(), self.0.window);
    }

    /// Takes the effect unless the record is done, and remembers it if that succeeds. Says whether it was taken now.
    ///
    /// # Errors
    ///
    /// Those of `effect`; the record is not done then.
    pub fn run<T, E>(&self, record: &Record<'_, T>, effect: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        if !self.first(record) {
            return Ok(false);
        }
        effect()?;
        self.done(record);
        Ok(true)
    }
}
