//! The whole path through the public API: key extracted, hashed and routed, wake check, a handler called for each record
//! under panic containment, commit. All lanes of all groups run on one worker, on the consumer's core.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crossbeam_utils::CachePadded;
use ringlog::{Broker, GroupConfig, Order, Partitioner, Producer, Record, Topic, TopicConfig, WaitPolicy, Worker};

use crate::event::{Event, Tally};
use crate::exchange::Transmit;
use crate::exchange::{Load, per_message, produce};
use crate::machine;

/// Partitions of the topic; its capacity is shared out among them.
pub const PARTITIONS: u32 = 4;

/// How the whole path is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Groups that each get everything.
    pub groups: usize,
    /// Partitions.
    pub partitions: u32,
    /// How the worker waits.
    pub wait: WaitPolicy,
    /// The topic drops its oldest records, and waits for no group. With one partition only: then an offset is a message.
    pub lossy: bool,
    /// In which order the groups are handed records.
    pub order: Order,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { groups: 1, partitions: PARTITIONS, wait: WaitPolicy::Balanced, lossy: false, order: Order::Partition }
    }
}

/// How a topic routes.
pub trait Routes: Copy + Send + 'static {
    /// Has it its way.
    fn apply(self, config: TopicConfig<Event>) -> TopicConfig<Event>;
}

/// The key's CRC-32.
#[derive(Clone, Copy, Debug)]
pub struct ByCrc32;

impl Routes for ByCrc32 {
    fn apply(self, config: TopicConfig<Event>) -> TopicConfig<Event> {
        config.key(|event: &Event| &event.key)
    }
}

/// A multiplicative hash of the key, through the partitioner that users may put in.
#[derive(Clone, Copy, Debug)]
pub struct ByMultiply;

impl Partitioner for ByMultiply {
    #[inline]
    fn keyed(&self, key: &[u8], partitions: std::num::NonZeroU32) -> u32 {
        let word = key.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let hash = word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * u64::from(partitions.get())) >> 32) as u32
    }
}

impl Routes for ByMultiply {
    fn apply(self, config: TopicConfig<Event>) -> TopicConfig<Event> {
        ByCrc32.apply(config).partitioner(self)
    }
}

/// Where the lanes say how far they are.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) warm: CachePadded<AtomicUsize>,
    pub(super) done: CachePadded<AtomicUsize>,
    pub(super) ended: Mutex<Option<Instant>>,
    pub(super) tally: Mutex<Tally>,
    pub(super) lanes: usize,
}

/// What one lane of one group still has to see.
pub(super) struct Lane {
    tally: Tally,
    next: u64,
    warm: u64,
    total: u64,
    watch: Arc<Watch>,
}

impl Lane {
    /// What a lane sees that is to be given `share`: the first of it untimed.
    pub(super) fn of((warm, total): (u64, u64), watch: &Arc<Watch>) -> Self {
        Lane { tally: Tally::default(), next: warm, warm, total, watch: watch.clone() }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, event: &Event) {
        self.tally.take(event);
        if self.tally.count == self.next {
            self.milestone();
        }
    }

    /// The same where records may have been lost: they count, message by message, as if they had come.
    #[inline(always)]
    fn take_after_loss(&mut self, record: &Record<'_, Event>) {
        let from = record.offset() - record.lost_before();
        (from..record.offset()).for_each(|id| self.take(&Event { id, ..Event::default() }));
        self.take(record);
    }

    #[cold]
    fn milestone(&mut self) {
        if self.next == self.warm {
            self.next = self.total;
            self.watch.warm.fetch_add(1, Ordering::AcqRel);
        }
        if self.tally.count == self.total {
            let mut all = self.watch.tally.lock().expect("no handler panics");
            (all.count, all.sum) = (all.count + self.tally.count, all.sum.wrapping_add(self.tally.sum));
            if self.watch.done.fetch_add(1, Ordering::AcqRel) + 1 == self.watch.lanes {
                *self.watch.ended.lock().expect("no handler panics") = Some(Instant::now());
            }
        }
    }
}

/// How many of the first `warm` and of all messages go to each partition.
pub(super) fn shares(load: &Load, partitions: u32, at: impl Fn(&Event) -> u32) -> Vec<(u64, u64)> {
    let mut shares = vec![(0, 0); partitions as usize];
    for id in 0..load.total() {
        let share = &mut shares[at(&Event::new(id)) as usize];
        share.0 += u64::from(id < load.warm());
        share.1 += 1;
    }
    shares
}

/// The producing end of an exclusive topic.
#[derive(Debug)]
pub struct ExclusiveTx(Producer<Event>);

impl Transmit for ExclusiveTx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        self.0.publish(event).expect("the topic is open");
    }

    #[inline(always)]
    fn send_batch(&mut self, first: u64, n: u64) {
        self.0.publish_batch((first..first + n).map(Event::new)).expect("the topic is open");
    }
}

/// The producing end of a topic that anybody publishes to.
#[derive(Clone, Debug)]
pub struct SharedTx(pub(super) Topic<Event>);

impl Transmit for SharedTx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        self.0.publish(event).expect("the topic is open");
    }

    #[inline(always)]
    fn send_batch(&mut self, first: u64, n: u64) {
        self.0.publish_batch((first..first + n).map(Event::new)).expect("the topic is open");
    }
}

pub(super) fn config(load: &Load, setup: Setup, routes: impl Routes) -> TopicConfig<Event> {
    let capacity = load.capacity / setup.partitions as usize;
    let config = TopicConfig::new().partitions(setup.partitions).capacity(capacity).prefault(true);
    let config = if setup.lossy { config.drop_oldest() } else { config.block(None) };
    routes.apply(config)
}

/// One exclusive producer.
pub fn exclusive(load: &Load, setup: Setup, routes: impl Routes) -> f64 {
    let broker = Broker::new();
    let made = broker.create_exclusive("bench", config(load, setup, routes));
    let (topic, producer) = made.expect("the topic is new");
    run(load, setup, &topic, ExclusiveTx(producer))
}

/// Shared producers, one of them active.
pub fn shared(load: &Load, setup: Setup, routes: impl Routes) -> f64 {
    let broker = Broker::new();
    let topic = broker.create_topic("bench", config(load, setup, routes)).expect("the topic is new");
    let tx = SharedTx(topic.clone());
    run(load, setup, &topic, tx)
}

fn run(load: &Load, setup: Setup, topic: &Topic<Event>, mut tx: impl Transmit) -> f64 {
    let worker = Worker::on_your_thread();
    let watch = subscribe(load, setup, topic, &worker);
    let (start, ()) = machine::pair(
        || {
            produce(&mut tx, load, 0, load.warm());
            wait_for(&watch.warm, watch.lanes);
            let start = Instant::now();
            produce(&mut tx, load, load.warm(), load.total());
            wait_for(&watch.done, watch.lanes);
            worker.stop();
            start
        },
        || worker.run(),
    );
    let end = watch.ended.lock().expect("no handler panics").expect("all lanes ended");
    watch.tally.lock().expect("no handler panics").check(load.total(), setup.groups as u64);
    per_message(start, end, load.messages)
}

pub(super) fn wait_for(reached: &AtomicUsize, lanes: usize) {
    while reached.load(Ordering::Acquire) < lanes {
        machine::stuck();
    }
}

fn subscribe(load: &Load, setup: Setup, topic: &Topic<Event>, worker: &Worker) -> Arc<Watch> {
    let shares = shares(load, setup.partitions, |event| topic.partition_for(event));
    let used = shares.iter().filter(|share| share.1 > 0).count();
    assert!(shares.iter().all(|share| share.0 > 0), "every partition has to be warmed");
    let watch = Arc::new(Watch { lanes: used * setup.groups, ..Watch::default() });
    for number in 0..setup.groups {
        let config = GroupConfig::earliest().order(setup.order);
        let group = topic.group(&format!("group {number}"), config).expect("the group is new");
        let lane = |partition: u32| Lane::of(shares[partition as usize], &watch);
        let member = group.member("member").run(worker).wait(setup.wait);
        let subscribed = if setup.lossy {
            assert!(setup.partitions == 1, "an offset has to be a message");
            member.subscribe_with(|partition| {
                let mut lane = lane(partition);
                move |record: &Record<'_, Event>| lane.take_after_loss(record)
            })
        } else {
            member.subscribe_with(|partition| {
                let mut lane = lane(partition);
                move |record: &Record<'_, Event>| lane.take(record)
            })
        };
        subscribed.expect("the member is new");
    }
    watch
}
