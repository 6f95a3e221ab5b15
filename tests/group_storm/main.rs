//! Random runs on real threads of groups under everything that may be done to them while records flow: members join, leave
//! and lose their worker; groups and partitions are paused, seeked, replayed, deleted and made again; handlers fail, panic,
//! reject, and do some of that themselves; publishers wait, give up, publish batches. At every quiet point the books of
//! every group balance, nothing is left, and what handlers saw is what was published; a close or a deletion in the middle
//! leaves a true account.
//!
//! A group that nobody seeks gets every record in order and done exactly once, whoever comes and goes: its handlers check
//! that themselves. In all groups no partition is in two hands at once, and no acknowledgement gets lost or counts twice.
//!
//! `RINGLOG_STORM_SECONDS` says how long (default 2), `RINGLOG_STORM_SEED` where to begin. A failure names its seed.
#![forbid(unsafe_code)]

mod crew;
#[path = "../support/dice.rs"]
mod dice;
mod watch;

use crew::{Crew, Worked};
use dice::Dice;
use ringlog::{Broker, BrokerState, Position, Retain, Timestamps, Topic, TopicConfig, Worker};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use watch::{Payload, until};

const LONG: Duration = Duration::from_secs(60);

/// What one run is about.
struct Scene {
    broker: Broker,
    topic: Topic<Payload>,
    crews: Vec<Crew>,
    workers: Vec<Worker>,
    alive: Arc<AtomicU64>,
    /// Whether handlers may still do more than their work.
    storming: Arc<AtomicBool>,
    /// The payload at each position.
    published: HashMap<(u32, u64), Option<u64>>,
    next_id: Arc<AtomicU64>,
    rejoined: u64,
}

/// Positions with the number of the payload that lies there, where that is known.
type Stored = Vec<((u32, u64), Option<u64>)>;

/// Publishes in one of the ways there are.
fn publish(topic: &Topic<Payload>, fresh: &impl Fn() -> Payload, dice: &mut Dice) -> Stored {
    let value = fresh();
    let id = Some(value.id);
    let published = match dice.roll(8) {
        0 => topic.try_publish(value),
        1 => topic.publish_within(value, Duration::from_micros(200)),
        2 => {
            let shares = topic.publish_batch([value, fresh(), fresh()]).unwrap_or_else(|error| error.stored().to_vec());
            let positions =
                shares.iter().flat_map(|share| share.offsets.clone().map(|offset| (share.partition, offset)));
            return positions.map(|position| (position, None)).collect();
        }
        _ => topic.publish(value),
    };
    published.map(|it| ((it.partition(), it.offset()), id)).into_iter().collect()
}

impl Scene {
    fn new(dice: &mut Dice) -> Self {
        let broker = Broker::new();
        let mut config =
            TopicConfig::new().partitions(1 + dice.roll(3) as u32).capacity(dice.pick(&[1, 2, 3, 4, 9, 256]));
        config = match dice.roll(5) {
            0 => config.drop_oldest(),
            1 => config.block(Some(Duration::from_millis(1))),
            _ => config.block(None),
        };
        if dice.roll(3) == 0 {
            config = config.retain(Retain::Unacked);
        }
        if dice.roll(3) == 0 {
            config = config.timestamps(Timestamps::Exact);
        }
        let topic = broker.create_topic("storm", config).unwrap();
        let (alive, storming) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        let crews = (0..1 + dice.roll(3)).map(|n| Crew::new(&topic, n, &storming, dice)).collect();
        let workers = (0..2).map(|_| Worker::spawn().unwrap()).collect();
        let (published, next_id) = (HashMap::new(), Arc::default());
        Self { broker, topic, crews, workers, alive, storming, published, next_id, rejoined: 0 }
    }

    /// Threads that publish `each` times, in all ways there are; they return what they stored.
    fn publishers(&self, each: u64, dice: &mut Dice) -> Vec<thread::JoinHandle<Stored>> {
        let start = |mut dice: Dice| {
            let (topic, alive, ids) = (self.topic.clone(), self.alive.clone(), self.next_id.clone());
            thread::spawn(move || {
                let fresh = || Payload::new(ids.fetch_add(1, Relaxed), &alive);
                (0..each).flat_map(|_| publish(&topic, &fresh, &mut dice)).collect()
            })
        };
        (0..1 + dice.roll(3)).map(|_| dice.fork()).map(start).collect()
    }

    /// One thing done to one group.
    fn act(&mut self, dice: &mut Dice) {
        let at = dice.roll(self.crews.len() as u64) as usize;
        let crew = &mut self.crews[at];
        match dice.roll(27) {
            0..=3 if crew.members.len() < 4 => {
                self.rejoined += 1;
                crew.join(&format!("m{}", self.rejoined), &self.workers, dice);
            }
            4..=9 => crew.leave(dice),
            10 => crew.group.pause(),
            11 | 12 => crew.group.resume(),
            13 => crew.group.pause_partition(dice.roll(crew.partitions()) as u32).unwrap(),
            14 | 15 => crew.group.resume_partition(dice.roll(crew.partitions()) as u32).unwrap(),
            16 | 17 => crew.seek(dice),
            18 if dice.roll(8) == 0 => {
                let worker = dice.roll(self.workers.len() as u64) as usize;
                self.workers[worker].stop();
                self.workers[worker] = Worker::spawn().unwrap();
            }
            19 if dice.roll(8) == 0 => {
                self.rejoined += 1;
                let number = self.rejoined;
                crew.replace(&self.topic, number, dice);
            }
            20 | 21 => crew.letters(dice),
            23 => self.look(at, dice),
            22 => drop((crew.group.stats(), crew.group.assignment(), self.topic.stats(), self.topic.why_stalled(0))),
            _ => (0..dice.roll(50)).for_each(|_| thread::yield_now()),
        }
    }

    /// Asks what nobody should have to wait for, and waits a little for what may never come.
    fn look(&self, at: usize, dice: &mut Dice) {
        let (topic, group) = (&self.topic, &self.crews[at].group);
        let partition = dice.roll(u64::from(topic.partitions())) as u32;
        let offset = topic.end(partition).unwrap().saturating_sub(dice.roll(4));
        let position = Position { partition, offset };
        match dice.roll(4) {
            0 => drop((self.broker.describe(), topic.why_full(partition), topic.why_stalled(partition))),
            1 => drop((group.standing(partition), group.delivery(position))),
            2 => _ = topic.wait_committed(position, &[group.name()], Duration::from_micros(300)),
            _ => _ = group.save_offsets(),
        }
    }

    /// Everybody may run and nobody interferes any more.
    fn calm(&mut self, dice: &mut Dice) {
        self.storming.store(false, Relaxed);
        for crew in &mut self.crews {
            for partition in 0..crew.partitions() {
                crew.group.resume_partition(partition as u32).unwrap();
            }
            crew.group.resume();
            // Those whose worker was stopped may still be on their way out.
            crew.forget_those_gone();
            self.rejoined += 1;
            crew.join(&format!("m{}", self.rejoined), &self.workers, dice);
        }
    }

    /// A while of storm, and what holds when it is over.
    fn phase(&mut self, each: u64, dice: &mut Dice) {
        self.storming.store(true, Relaxed);
        let publishers = self.publishers(each, dice);
        for _ in 0..each {
            self.act(dice);
        }
        self.calm(dice);
        for publisher in publishers {
            self.published.extend(publisher.join().unwrap());
        }
        if let Err(error) = self.broker.drain(LONG) {
            panic!("{error}: {:#?}", self.crews.iter().map(|crew| crew.group.stats()).collect::<Vec<_>>());
        }
        let ends: u64 = self.topic.stats().iter().map(|partition| partition.end).sum();
        assert_eq!(ends, self.published.len() as u64, "stored is what publishers were told");
        self.crews.iter().for_each(|crew| crew.check_when_quiet(&self.published));
    }

    /// The end comes while everybody is at work.
    fn ends_in_the_middle(mut self, each: u64, dice: &mut Dice) {
        self.storming.store(true, Relaxed);
        let publishers = self.publishers(each, dice);
        for _ in 0..dice.roll(each) {
            self.act(dice);
        }
        let limit = dice.pick(&[Duration::ZERO, Duration::from_millis(2), LONG]);
        match dice.roll(3) {
            0 => self.broker.delete_topic("storm").unwrap(),
            1 => drop(self.broker.close(Some(Duration::ZERO))),
            _ => {
                self.calm(dice);
                let account = self.broker.close(Some(limit));
                assert!(account.drained || limit < LONG, "{account}");
                assert!(account.stopped || limit < LONG, "{account}");
                if account.stopped {
                    account.groups.iter().for_each(|entry| assert!(entry.balances(), "{entry:#?}"));
                }
            }
        }
        let stored: usize = publishers.into_iter().map(|publisher| publisher.join().unwrap().len()).sum();
        let ends: u64 = self.topic.stats().iter().map(|partition| partition.end).sum();
        assert_eq!(ends, (self.published.len() + stored) as u64, "stored is what publishers were told");
        assert!(self.topic.is_closed() && self.topic.try_publish(Payload::new(0, &self.alive)).is_err());
        let account = self.broker.close(Some(LONG));
        assert_eq!(self.broker.state(), BrokerState::Closed);
        account.groups.iter().for_each(|entry| assert!(entry.balances() || !account.stopped, "{entry:#?}"));
        self.crews.iter().for_each(Crew::check_when_closed);
    }
}

fn run(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut scene = Scene::new(&mut dice);
    let alive = scene.alive.clone();
    let each = dice.pick(&[20, 100, 400]);
    for _ in 0..1 + dice.roll(3) {
        scene.phase(each, &mut dice);
    }
    scene.ends_in_the_middle(each, &mut dice);
    // A member's thread that ends holds a part of the topic.
    until("every payload is dropped", || alive.load(Relaxed) == 0);
}

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

// A-T16
#[test]
fn whatever_is_done_to_groups_under_load_their_books_balance_and_nothing_is_lost() {
    let printing = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Worked>() {
            printing(panic);
        }
    }));
    let end = Instant::now() + Duration::from_secs(from_env("RINGLOG_STORM_SECONDS", 2));
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    let mut seed = from_env("RINGLOG_STORM_SEED", fresh);
    let mut runs = 0;
    while Instant::now() < end || runs == 0 {
        println!("run with RINGLOG_STORM_SEED={seed}");
        run(seed);
        (seed, runs) = (seed.wrapping_add(1), runs + 1);
    }
    println!("{runs} runs");
}
