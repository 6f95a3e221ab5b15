//! The broker's handle.
#![forbid(unsafe_code)]

use super::account::{Account, DrainError};
use super::auto::Auto;
use super::close::Closing;
use super::config::{BrokerConfig, Shape, TopicConfig, WhenFull};
use super::core::Core;
use super::error::{CreateError, LookupError};
use super::groups::Groups;
use super::life::{BrokerState, Life};
use super::planned::Planned;
use super::producer::Producer;
use super::registry::Registry;
use super::route::Turns;
use super::timer::Timed;
use super::topic::Topic;
use crate::group::name;
use crate::log::{Full, Log, LogConfig, LogProducer};
use crate::ring::Producers;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Arc, Weak};
use crate::time::Clock;
use std::fmt;
use std::io;
use std::time::Duration;

/// A publish/subscribe broker inside this process. Clones are handles to the same one.
///
/// Topics and groups do not keep it alive: when the last handle drops, the broker closes at once, as by
/// `close(Some(Duration::ZERO))` but without waiting for handlers that are still running. A handler that owns a `Broker`
/// keeps it open, since handlers live until it closes: let it own a [`Topic`] instead, or close explicitly.
///
/// ```
/// use ringlog::{Broker, GroupConfig, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let orders = broker.create_topic("orders", TopicConfig::<String>::new())?;
/// orders.group("billing", GroupConfig::earliest())?.subscribe("billing-1", |order| println!("{}", **order))?;
/// orders.publish("first".to_string())?;
/// let account = broker.close(Some(Duration::from_secs(2)));
/// assert_eq!((account.acked(), account.left()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Broker(pub(super) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) life: Arc<Life>,
    pub(crate) topics: Registry,
    pub(crate) closing: Closing,
    auto: Auto,
}

impl Broker {
    /// A broker on the system's clock.
    pub fn new() -> Self {
        Self::with(BrokerConfig::new())
    }

    /// A broker with an injected clock or source of identifiers.
    pub fn with(config: BrokerConfig) -> Self {
        let life = Arc::new(Life::new(config.clock, config.random, config.ids));
        let closing = Closing::new(life.progress().clone());
        Self(Arc::new(Inner { life, topics: Registry::new(), closing, auto: config.auto }))
    }

    /// Makes a topic that any number of threads publish to. Of several at once with one name, exactly one succeeds.
    ///
    /// Allocates the whole capacity of each partition, as address space that is touched page by page.
    ///
    /// # Errors
    ///
    /// Bad name, name taken, setting out of bounds, out of memory, broker closed; see [`CreateError`].
    pub fn create_topic<T>(&self, name: &str, config: TopicConfig<T>) -> Result<Topic<T>, CreateError>
    where
        T: Send + Sync + 'static,
    {
        let core = self.build(name, config, Producers::Shared)?;
        self.0.topics.insert(&core)?;
        Ok(Topic(core))
    }

    /// Makes a topic with one producer, which is faster and can publish in place; see [`Producer`].
    ///
    /// # Errors
    ///
    /// As [`Broker::create_topic`].
    pub fn create_exclusive<T>(
        &self,
        name: &str,
        config: TopicConfig<T>,
    ) -> Result<(Topic<T>, Producer<T>), CreateError>
    where
        T: Send + Sync + 'static,
    {
        let core = self.build(name, config, Producers::Exclusive)?;
        self.0.topics.insert(&core)?;
        // Nobody has seen these logs before, so each still has its producer to give away.
        let producers = core.logs.iter().filter_map(LogProducer::new).collect();
        Ok((Topic(core.clone()), Producer::new(core, producers)))
    }

    /// The topic of that name, or a new one made by `config` if there is none. Atomic: of several at once one makes it
    /// and the others find it. An existing topic keeps its own settings.
    ///
    /// # Errors
    ///
    /// As [`Broker::create_topic`], apart from [`CreateError::Exists`].
    pub fn topic_or_create<T>(&self, name: &str, config: TopicConfig<T>) -> Result<Topic<T>, CreateError>
    where
        T: Send + Sync + 'static,
    {
        loop {
            match self.0.topics.get(name) {
                Ok(core) => return Ok(Topic(core)),
                Err(LookupError::WrongType { topic, holds, asked }) => {
                    return Err(CreateError::WrongType { topic, holds, asked });
                }
                Err(_) => {}
            }
            match self.create_topic(name, config.clone()) {
                Err(CreateError::Exists { .. }) => {}
                done => return done,
            }
        }
    }

    /// The topic of that name. Lock-free; keep the handle rather than asking for each record.
    ///
    /// # Errors
    ///
    /// There is none, or it holds records of another type, or the broker's [rule](BrokerConfig::auto_create) would have made
    /// it and could not; see [`LookupError`].
    pub fn topic<T: Send + Sync + 'static>(&self, name: &str) -> Result<Topic<T>, LookupError> {
        match self.0.topics.get(name) {
            Err(unknown @ LookupError::Unknown { .. }) => {
                let config = self.0.auto.settings(name).ok_or(unknown)?;
                let not_made = |why| LookupError::NotMade { topic: name.to_owned(), why: Box::new(why) };
                self.topic_or_create(name, config).map_err(not_made)
            }
            found => found.map(Topic),
        }
    }

    /// The names of all topics, in order. Others may come and go at once.
    pub fn topic_names(&self) -> Vec<Arc<str>> {
        self.0.topics.all().iter().map(|topic| topic.name().clone()).collect()
    }

    /// Deletes a topic and its groups: blocked publishes are woken and refused, later ones refused, its members stop at
    /// the end of the record in hand (without being waited for), its name is free. Its records go when the last handle
    /// does. Of several at once exactly one succeeds.
    ///
    /// # Errors
    ///
    /// [`LookupError::Unknown`] if there is none.
    pub fn delete_topic(&self, name: &str) -> Result<(), LookupError> {
        let topic = self.0.topics.remove(name)?;
        topic.delete();
        self.0.life.progress().notify();
        Ok(())
    }

    /// Waits until every group has done all that was published, including what handlers publish meanwhile: a barrier,
    /// true at one moment, signalled by commits. Groups without a member are not waited for; paused ones are. With the
    /// manual executor nothing is done while it waits: step first. Under a clock that nobody moves the time is never up: ask
    /// with `Duration::ZERO`. After a close there are no members, and nothing is waited for.
    ///
    /// # Errors
    ///
    /// Not done within `limit` of the broker's clock, or asked by a handler of this broker; see [`DrainError`].
    pub fn drain(&self, limit: Duration) -> Result<(), DrainError> {
        self.0.drain(limit, None)
    }

    /// Closes the broker in three steps and says what each group did and left.
    ///
    /// 1. Publishes from outside handlers are refused; those from handlers go on.
    /// 2. Waits until everything published is done, as [`Broker::drain`] does, at most for `limit` (`None`: for ever).
    /// 3. Refuses all publishes (blocked ones are woken), stops the lanes, waits for running handlers within the same
    ///    limit, and takes the account.
    ///
    /// A publish that returned before is delivered or counted as left. Idempotent: a later call returns the same
    /// account; of several at once one does the work, all return its account, and the shortest limit counts.
    ///
    /// With the manual executor no lane lets go while this waits: give it no time, or step from another thread.
    ///
    /// From inside a handler of this broker (its destructor included), or of another one on a worker that serves both, it
    /// waits for nothing: the lanes are told to stop, the record in hand counts
    /// as left, and if another close is under way the account is as things stand. A group's offset store, and the hook that
    /// hears of its failure, wait neither for their own save nor for another close; what changed is saved when they return.
    pub fn close(&self, limit: Option<Duration>) -> Account {
        self.0.close(limit, None)
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Whether it takes records: of everybody, of handlers, of nobody. A handler may ask to find out that it is time to
    /// finish. May have gone on already, never back.
    pub fn state(&self) -> BrokerState {
        self.0.life.state()
    }

    /// The clock that this broker measures time by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.0.life.clock()
    }

    /// A name that this broker's source of identifiers gives.
    pub fn next_id(&self) -> String {
        self.0.life.next_id()
    }

    fn build<T>(&self, name: &str, config: TopicConfig<T>, producers: Producers) -> Result<Arc<Core<T>>, CreateError>
    where
        T: Send + Sync + 'static,
    {
        let name = name::check(name)?;
        let shape = config.validate()?;
        self.0.topics.check_free::<T>(&name)?;
        let logs = self.logs(&name, &config, shape, producers)?;
        let last = config.last.over(shape.partitions.get());
        let exclusive = producers == Producers::Exclusive;
        let core = Arc::new(Core {
            groups: Groups::new(),
            name,
            life: self.0.life.clone(),
            logs,
            partitions: shape.partitions,
            key: config.rule.numbers(),
            router: config.rule.over(shape.partitions),
            turns: Turns::new(),
            block: config.full.waits(),
            max_age: config.max_age,
            direct: !exclusive && last.is_empty(),
            exclusive,
            last,
            deleted: AtomicBool::new(false),
            planned: Planned::default(),
        });
        if core.max_age.is_some() {
            let timed: Weak<dyn Timed> = Arc::<Core<T>>::downgrade(&core);
            let refused = |error: io::Error| CreateError::NoTimer { topic: core.name.clone(), why: error.kind() };
            self.0.life.timer().watch(timed).map_err(refused)?;
        }
        Ok(core)
    }

    fn logs<T: Send + Sync + 'static>(
        &self,
        name: &Arc<str>,
        config: &TopicConfig<T>,
        Shape { partitions, capacity }: Shape,
        producers: Producers,
    ) -> Result<Box<[Arc<Log<T>>]>, CreateError> {
        let full = match config.full {
            WhenFull::Block(_) => Full::Block,
            WhenFull::DropOldest => Full::DropOldest,
        };
        let &TopicConfig { retain, timestamps, max_age, prefault, measured, .. } = config;
        let plain = LogConfig::new(capacity, producers, retain);
        let of = LogConfig { full, timestamps, max_age, prefault, measured, ..plain };
        let logs = (0..partitions.get()).map(|_| Log::new(of, self.clock().clone()));
        logs.collect::<Result<_, _>>().map_err(|_| CreateError::OutOfMemory {
            topic: name.clone(),
            partitions: partitions.get(),
            capacity: capacity.get() as usize,
        })
    }
}

impl Default for Broker {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("state", &self.state()).field("topics", &self.0.topics).finish_non_exhaustive()
    }
}
