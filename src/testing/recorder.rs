//! A handler that notes what it is called with.
#![forbid(unsafe_code)]

use super::board::{Board, TooFew};
use crate::group::{Position, Record};
use crate::sync::Arc;
use std::fmt;
use std::time::Duration;

/// One call of a [`Recorder`]'s handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen<T> {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The offset.
    pub offset: u64,
    /// Which delivery it was, from 1.
    pub attempt: u32,
    /// How many records the group lost right before this one.
    pub lost_before: u64,
    /// A clone of the record.
    pub value: T,
}

impl<T> Seen<T> {
    /// Where the record stands.
    pub const fn position(&self) -> Position {
        Position { partition: self.partition, offset: self.offset }
    }
}

/// Records every call of its handlers, in the order of the calls. Clones are the same one, and so may serve many members.
///
/// ```
/// use ringlog::testing::{Lab, Recorder};
/// use ringlog::{GroupConfig, TopicConfig};
///
/// let lab = Lab::new(1);
/// let config = TopicConfig::new().partitions(2).key(|event: &String| event.split(':').next().unwrap());
/// let orders = lab.broker().create_topic("orders", config)?;
/// let seen = Recorder::new();
/// orders.group("audit", GroupConfig::earliest())?.member("audit-1").run(lab.manual()).subscribe(seen.handler())?;
/// for event in ["alice:created", "bob:created", "alice:paid"] {
///     orders.publish(event.to_string())?;
/// }
/// lab.settle();
/// assert_eq!(seen.len(), 3);
/// assert_eq!(seen.values_where(|event| event.starts_with("alice:")), ["alice:created", "alice:paid"]);
/// assert_eq!(seen.offsets(1), [0, 1]); // alice's partition
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder<T>(Arc<Board<Vec<Arc<Seen<T>>>>>);

impl<T: Clone + Send + Sync + 'static> Recorder<T> {
    /// One that has seen nothing.
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// A handler that records, and acknowledges. For [`subscribe`](crate::Group::subscribe), and by `|_| seen.handler()` for
    /// [`subscribe_with`](crate::NewMember::subscribe_with).
    pub fn handler(&self) -> impl FnMut(&Record<'_, T>) + Clone + Send + 'static + use<T> {
        let recorder = self.clone();
        move |record: &Record<'_, T>| recorder.note(record)
    }

    /// A handler that records each call before it leaves it to another handler.
    ///
    /// ```
    /// use ringlog::testing::{Lab, Recorder};
    /// use ringlog::{GroupConfig, Outcome, Record, TopicConfig};
    ///
    /// let lab = Lab::new(1);
    /// let orders = lab.broker().create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = orders.group("billing", GroupConfig::earliest())?;
    /// let seen = Recorder::new();
    /// let ours = |order: &Record<'_, u64>| if **order == 0 { Outcome::reject("no order") } else { Outcome::Ack };
    /// group.member("billing-1").run(lab.manual()).subscribe(seen.around(ours))?;
    /// orders.publish_batch([0, 5])?;
    /// lab.settle();
    /// assert_eq!((seen.values(), group.stats().dead()), (vec![0, 5], 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn around<F, O>(&self, mut handler: F) -> impl FnMut(&Record<'_, T>) -> O + Send + 'static + use<T, F, O>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
    {
        let recorder = self.clone();
        move |record: &Record<'_, T>| {
            recorder.note(record);
            handler(record)
        }
    }

    /// Notes a record: what the handlers do.
    pub fn note(&self, record: &Record<'_, T>) {
        let seen = Seen {
            topic: record.topic().into(),
            partition: record.partition(),
            offset: record.offset(),
            attempt: record.attempt(),
            lost_before: record.lost_before(),
            value: record.value().clone(),
        };
        let seen = Arc::new(seen);
        self.0.change(|all| all.push(seen));
    }

    /// Sleeps until there were at least `calls` calls.
    ///
    /// # Errors
    ///
    /// There were fewer within `limit` of real time; says how many.
    pub fn wait_for(&self, calls: usize, limit: Duration) -> Result<(), TooFew> {
        self.0.wait_for("calls", calls, limit, Vec::len)
    }

    /// Every call so far.
    pub fn seen(&self) -> Vec<Arc<Seen<T>>> {
        self.0.read(Vec::clone)
    }

    /// Clones of the records, in the order of the calls.
    pub fn values(&self) -> Vec<T> {
        self.seen().iter().map(|seen| seen.value.clone()).collect()
    }

    /// Clones of those records of which `which` is true, in the order of the calls: those of one key, say.
    pub fn values_where(&self, which: impl Fn(&T) -> bool) -> Vec<T> {
        self.seen().iter().filter(|seen| which(&seen.value)).map(|seen| seen.value.clone()).collect()
    }

    /// The positions, in the order of the calls.
    pub fn positions(&self) -> Vec<Position> {
        self.seen().iter().map(|seen| seen.position()).collect()
    }

    /// The offsets in one partition, in the order of the calls.
    pub fn offsets(&self, partition: u32) -> Vec<u64> {
        self.seen().iter().filter(|seen| seen.partition == partition).map(|seen| seen.offset).collect()
    }

    /// How many calls there were.
    pub fn len(&self) -> usize {
        self.0.read(Vec::len)
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands over what was seen so far, and begins anew.
    pub fn take(&self) -> Vec<Arc<Seen<T>>> {
        self.0.change(std::mem::take)
    }
}

impl<T: Clone + Send + Sync + 'static> Default for Recorder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Recorder<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for Recorder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} calls)", self.0.read(Vec::len))
    }
}
