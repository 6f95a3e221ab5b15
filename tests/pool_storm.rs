//! Members in a pool that fail, panic, are held up, leave and come back, and pools that are stopped under them: each partition is
//! handed over in order, by one handler at a time, nothing is lost, the books balance and every payload is dropped once.
//!
//! `RINGLOG_STORM_SECONDS` says how long (default 1), `RINGLOG_STORM_SEED` where to begin.
#![forbid(unsafe_code)]

#[path = "support/dice.rs"]
mod dice;

use dice::Dice;
use ringlog::{Broker, Group, GroupConfig, Member, Pool, PoolConfig, Record, Retry, Topic, TopicConfig};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const TOPICS: usize = 12;
const PARTITIONS: u32 = 2;
const EACH: u64 = 300;

fn told(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// A record that is counted while it lives.
struct Payload(u64, Arc<AtomicU64>);

impl Payload {
    fn new(number: u64, alive: &Arc<AtomicU64>) -> Self {
        alive.fetch_add(1, SeqCst);
        Payload(number, alive.clone())
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
    }
}

/// What is known of one partition of one topic.
#[derive(Default)]
struct Seen {
    inside: AtomicBool,
    /// What comes next, if nothing comes again that was done.
    next: AtomicU64,
}

#[derive(Default)]
struct Scene {
    /// Who is held up waits here for the next round.
    gate: (Mutex<u64>, Condvar),
    wrong: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Scene {
    fn waits(&self) {
        let round = self.gate.0.lock().unwrap();
        let before = *round;
        drop(self.gate.1.wait_while(round, |now| *now == before && !self.over.load(SeqCst)).unwrap());
    }

    fn releases(&self, over: bool) {
        let mut round = self.gate.0.lock().unwrap();
        self.over.store(over, SeqCst);
        *round += 1;
        self.gate.1.notify_all();
    }

    fn handles(&self, seen: &[Seen], record: &Record<'_, Payload>, roll: u64) -> Result<(), &'static str> {
        let seen = &seen[record.partition() as usize];
        let (next, at) = (seen.next.load(SeqCst), record.offset());
        if seen.inside.swap(true, SeqCst) || record.0 != at || at > next {
            self.wrong.lock().unwrap().push(format!("{}/{}@{at}: {next} was next", record.topic(), record.partition()));
        }
        if roll == 0 && !self.over.load(SeqCst) {
            self.waits();
        }
        seen.inside.store(false, SeqCst);
        match roll {
            1 => return Err("by chance"),
            2 => resume_unwind(Box::new("as planned")),
            _ => {}
        }
        seen.next.fetch_max(at + 1, SeqCst);
        Ok(())
    }
}

struct Play {
    topic: Topic<Payload>,
    group: Group<Payload>,
    seen: Arc<[Seen; PARTITIONS as usize]>,
    members: Vec<Member<Payload>>,
}

impl Play {
    fn joins(&mut self, scene: &Arc<Scene>, pool: &Pool, dice: &mut Dice, name: &str) {
        let (scene, seen, mut own) = (scene.clone(), self.seen.clone(), dice.fork());
        let handler = move |record: &Record<'_, Payload>| scene.handles(&*seen, record, own.roll(150));
        // Refused by a pool that was stopped meanwhile, or by a member of its name that has not gone.
        self.members.extend(self.group.member(name).run(pool).subscribe(handler));
    }
}

fn pool(dice: &mut Dice) -> Pool {
    Pool::with(PoolConfig::new().threads(1 + dice.roll(3) as usize).most(64)).unwrap()
}

fn storm(seed: u64) {
    let (mut dice, scene, alive) = (Dice::new(seed), Arc::new(Scene::default()), Arc::new(AtomicU64::new(0)));
    let (broker, mut pools) = (Broker::new(), vec![pool(&mut dice), pool(&mut dice)]);
    let mut plays: Vec<_> = (0..TOPICS)
        .map(|n| {
            let capacity = dice.pick(&[1, 2, 3, 4, 64]);
            let config = TopicConfig::new().partitions(PARTITIONS).capacity(capacity).block(None);
            let topic: Topic<Payload> = broker.create_topic(&format!("t{n}"), config).unwrap();
            let retry = Retry::constant(1, dice.pick(&[Duration::ZERO, Duration::from_micros(50)])).unlimited();
            let group = topic.group("g", GroupConfig::earliest().retry(retry)).unwrap();
            Play { topic, group, seen: Arc::default(), members: Vec::new() }
        })
        .collect();
    let publishers: Vec<_> = plays
        .chunks(TOPICS / 4)
        .map(|plays| {
            let (topics, alive) = (plays.iter().map(|play| play.topic.clone()).collect::<Vec<_>>(), alive.clone());
            thread::spawn(move || {
                for (number, topic) in (0..EACH).flat_map(|number| topics.iter().map(move |topic| (number, topic))) {
                    for partition in 0..PARTITIONS {
                        assert!(topic.publish_to(partition, Payload::new(number, &alive)).is_ok());
                    }
                }
            })
        })
        .collect();
    let begun = Instant::now();
    for turn in 0.. {
        assert!(begun.elapsed() < LONG, "seed {seed}: publishers wait for room that nobody makes");
        if publishers.iter().all(thread::JoinHandle::is_finished) {
            break;
        }
        let (play, which) = (dice.pick(&(0..TOPICS).collect::<Vec<_>>()), dice.roll(2) as usize);
        match dice.roll(16) {
            0 => std::mem::replace(&mut pools[which], pool(&mut dice)).stop(),
            1..=3 => plays[play].members.drain(..).for_each(|member| _ = member.leave()),
            4..=6 => scene.releases(false),
            _ => plays[play].joins(&scene, &pools[which], &mut dice, &format!("m{turn}")),
        }
        thread::yield_now();
    }
    publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
    scene.releases(true);
    for play in &mut plays {
        play.joins(&scene, &pools[0], &mut dice, "last");
    }
    broker.drain(LONG).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    for play in &plays {
        let stats = play.group.stats();
        assert!(stats.balances(), "seed {seed}: {stats:#?}");
        assert_eq!((stats.acked(), stats.lag()), (u64::from(PARTITIONS) * EACH, 0), "seed {seed}: {stats:#?}");
        assert!(play.seen.iter().all(|seen| seen.next.load(SeqCst) == EACH), "seed {seed}: not each was done");
    }
    let wrong = std::mem::take(&mut *scene.wrong.lock().unwrap());
    assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    assert!(broker.close(Some(LONG)).stopped, "seed {seed}");
    pools.iter().for_each(Pool::stop);
    drop((plays, broker));
    let begun = Instant::now();
    while alive.load(SeqCst) > 0 || pools.iter().any(|pool| pool.members() + pool.threads() > 0) {
        assert!(begun.elapsed() < LONG, "seed {seed}: {} are left, {pools:?}", alive.load(SeqCst));
        thread::yield_now();
    }
}

// C-30, X36
#[test]
fn in_a_pool_whatever_happens_each_partition_is_handed_over_in_order_and_nothing_is_lost() {
    let (seed, seconds) = (told("RINGLOG_STORM_SEED", 1), told("RINGLOG_STORM_SECONDS", 1));
    let begun = Instant::now();
    for seed in seed.. {
        println!("run with RINGLOG_STORM_SEED={seed}");
        storm(seed);
        if begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
}
