//! One scenario on one ring: producers, groups, and readers that join, leave, are lapped or are moved.
mod actors;
mod memory;
pub(crate) mod soak;
pub(crate) mod twin;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ringlog::internals::ring::{Options, Producers, Ring};
use ringlog::internals::seq::{Capacity, Seq};

use crate::support::history::{Published, Reading, Ticks, check_log, check_reading};

/// How records are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Shared,
    Exclusive,
    InPlace,
}

/// Where groups start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    End,
    Earliest,
}

/// What runs on the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub first: u64,
    pub capacity: usize,
    pub shape: Shape,
    pub producers: u32,
    pub records: u64,
    pub batch: usize,
    pub groups: usize,
    pub starts: Starts,
    pub churn: usize,
    pub lapped: usize,
    pub movers: usize,
    pub seal_early: bool,
    /// The ring sheds its oldest records, and nobody may be refused.
    pub lossy: bool,
    /// Readers that stop in the middle of a run until everything is published.
    pub holders: usize,
    /// Readers that leave and come back where their cursor stands.
    pub leavers: usize,
}

impl Default for Scenario {
    fn default() -> Self {
        let (shape, starts) = (Shape::Shared, Starts::End);
        let counts = Self { first: 0, capacity: 4, shape, producers: 1, records: 1_000, batch: 1, groups: 1, ..ZERO };
        Self { starts, ..counts }
    }
}

const ZERO: Scenario = Scenario {
    first: 0,
    capacity: 0,
    shape: Shape::Shared,
    producers: 0,
    records: 0,
    batch: 0,
    groups: 0,
    starts: Starts::End,
    churn: 0,
    lapped: 0,
    movers: 0,
    seal_early: false,
    lossy: false,
    holders: 0,
    leavers: 0,
};

/// How many records exist: each is counted when made and when dropped.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// A payload on the heap that checks itself and counts its drops.
#[derive(Debug)]
pub(crate) struct Record {
    pub producer: u32,
    pub number: u64,
    text: String,
}

impl Record {
    pub(crate) fn new(producer: u32, number: u64) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self { producer, number, text: text(producer, number) }
    }

    /// Becomes another record and keeps its buffer.
    pub(crate) fn become_(&mut self, producer: u32, number: u64) {
        (self.producer, self.number) = (producer, number);
        self.text.clear();
        self.text.push_str(&text(producer, number));
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.text, text(self.producer, self.number), "the payload is the one that was published");
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.check();
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

fn text(producer: u32, number: u64) -> String {
    format!("record {number} of producer {producer}, long enough to live on the heap")
}

/// What all actors share.
#[derive(Debug)]
pub(crate) struct Stage {
    pub scenario: Scenario,
    pub ring: Ring<Record>,
    pub ticks: Ticks,
    /// Set once every producer has returned and the ring is sealed (a lossy one is not).
    pub over: AtomicBool,
    /// How many producers have arrived: they begin together.
    pub ready: AtomicU32,
}

/// Runs `scenario`, checks its history, and returns how many records were published, delivered and missed.
pub(crate) fn run(scenario: &Scenario) -> (usize, usize, u64) {
    let live = LIVE.load(Ordering::Acquire);
    let producers = if scenario.shape == Shape::Shared { Producers::Shared } else { Producers::Exclusive };
    let capacity = Capacity::new(scenario.capacity).expect("a capacity in range");
    let first = Seq::new(scenario.first);
    let options = Options { first, lossy: scenario.lossy, ..Options::new(capacity, producers) };
    let ring = Ring::new(options).expect("memory for the ring");
    let stage = Arc::new(Stage {
        scenario: *scenario,
        ring,
        ticks: Ticks::default(),
        over: AtomicBool::new(false),
        ready: AtomicU32::new(0),
    });
    let (published, readings) = act(&stage);
    let log = check_log(scenario.first, published);
    readings.iter().for_each(|reading| check_reading(scenario.first, &log, reading));
    drop(stage);
    assert_eq!(LIVE.load(Ordering::Acquire), live, "every record made was dropped once");
    let missed = |reading: &Reading| reading.gaps.iter().map(|(from, to)| to.wrapping_sub(*from)).sum::<u64>();
    let delivered = readings.iter().map(|reading| reading.records.len()).sum();
    (log.len(), delivered, readings.iter().map(missed).sum())
}

fn act(stage: &Arc<Stage>) -> (Vec<Published>, Vec<Reading>) {
    let scenario = stage.scenario;
    let spawn_reader = |read: fn(&Stage, usize) -> Vec<Reading>, many: usize| {
        (0..many).map(|n| (stage.clone(), n)).map(move |(stage, n)| thread::spawn(move || read(&stage, n)))
    };
    let groups = actors::groups(stage);
    let mut readers: Vec<_> = groups
        .into_iter()
        .enumerate()
        .map(|(n, gate)| (stage.clone(), n, gate))
        .map(|(stage, n, gate)| thread::spawn(move || vec![actors::group(&stage, n, &gate)]))
        .collect();
    readers.extend(spawn_reader(actors::churn, scenario.churn));
    readers.extend(spawn_reader(actors::lapped, scenario.lapped));
    readers.extend(spawn_reader(actors::holder, scenario.holders));
    readers.extend(spawn_reader(actors::leaver, scenario.leavers));
    let producers: Vec<_> = actors::producers(stage);
    if scenario.seal_early {
        actors::seal_midway(stage);
    }
    let ended = producers.into_iter().map(|thread| thread.join().expect("a producer ends"));
    let (published, mut pens): (Vec<_>, Vec<_>) = ended.unzip();
    if !scenario.lossy {
        stage.ring.seal();
    }
    stage.over.store(true, Ordering::Release);
    let readings = readers.into_iter().flat_map(|thread| thread.join().expect("a reader ends")).collect();
    let mut published = published.concat();
    if scenario.lossy {
        let more = memory::settles(stage, &mut pens[0], published.len() as u64);
        published.extend(more);
    }
    (published, readings)
}

/// Ends the process when the guard is not dropped in time: a hang is a failure that says so. (A flag and parking, no
/// lock of the prebuilt standard library, which ThreadSanitizer cannot see into.)
pub(crate) fn watchdog(seconds: u64) -> impl Drop {
    struct Watch(Arc<AtomicBool>, Option<thread::JoinHandle<()>>);
    impl Drop for Watch {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            let thread = self.1.take().expect("dropped once");
            thread.thread().unpark();
            thread.join().expect("the watch ends");
        }
    }
    let done = Arc::new(AtomicBool::new(false));
    let (seen, limit) = (done.clone(), Instant::now() + Duration::from_secs(seconds));
    let thread = thread::spawn(move || {
        while !seen.load(Ordering::Acquire) {
            let left = limit.saturating_duration_since(Instant::now());
            if left.is_zero() {
                eprintln!("stress: not done after {seconds} s: somebody hangs");
                std::process::abort();
            }
            thread::park_timeout(left);
        }
    });
    Watch(done, Some(thread))
}
