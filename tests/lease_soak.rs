//! Members that hang, fail, panic, die, leave and come back, by handler and by poll, in each order, under short leases and on
//! real threads: at every quiet point the books balance, and every record has been done by somebody who said so, or has a
//! letter. In order of the keys, that is so of every earlier record of the key already when one is handed over.
//!
//! `RINGLOG_STORM_SECONDS` says how long (default 2), `RINGLOG_STORM_SEED` where to begin.
#![forbid(unsafe_code)]

#[path = "support/dice.rs"]
mod dice;

use dice::Dice;
use ringlog::{
    Batch, Broker, Failure, Group, GroupConfig, Member, Order, Outcome, Record, Retain, Retry, Run, Straggler, Topic,
    TopicConfig, Worker,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_millis(2);
const PARTITIONS: u32 = 4;
const ORDERS: [Order; 3] = [Order::Partition, Order::Shared, Order::Key];
/// What is published is its key; the last one is none.
const KEYS: u64 = 6;

/// A partition, and an offset.
type At = (u32, u64);

/// What all members share.
struct Scene {
    /// Whether they may do more than their work.
    storming: AtomicBool,
    /// Those that hang wait here, until it is over.
    gate: (Mutex<u64>, Condvar),
    /// What somebody has said is done.
    done: Mutex<HashSet<At>>,
    hung: AtomicU64,
    seed: AtomicU64,
    stopped: AtomicBool,
    /// In order of the keys: what has been handed over of each.
    keyed: Option<Mutex<HashMap<u64, BTreeSet<At>>>>,
    /// What a member saw that must not be. (A handler that panics is a record that has failed, and no more.)
    wrong: Mutex<Vec<String>>,
}

impl Scene {
    fn dice(&self) -> Dice {
        Dice::new(self.seed.fetch_add(1, Relaxed))
    }

    /// Longer than any lease, or until it is told to go on.
    fn hang(&self) {
        self.hung.fetch_add(1, Relaxed);
        let (round, told) = &self.gate;
        let round = round.lock().unwrap();
        let before = *round;
        drop(told.wait_timeout_while(round, LEASE * 20, |now| *now == before).unwrap());
    }

    fn release(&self) {
        *self.gate.0.lock().unwrap() += 1;
        self.gate.1.notify_all();
    }

    /// What comes before it, of its key, is done or given up, or came with it, from `first` on. (What has not been handed over,
    /// has been given up.)
    fn in_order(&self, group: &Group<u64>, record: &Record<'_, u64>, first: u64) {
        let Some(keyed) = self.keyed.as_ref().filter(|_| **record < KEYS) else { return };
        let at = (record.partition(), record.offset());
        let before: Vec<_> = {
            let mut keyed = keyed.lock().unwrap();
            let of_key = keyed.entry(**record).or_default();
            of_key.insert(at);
            of_key.range(..(at.0, first.min(at.1))).copied().collect()
        };
        let open = |done: &HashSet<At>| before.iter().find(|at| !done.contains(at)).copied();
        let Some(open) = open(&self.done.lock().unwrap()) else { return };
        let letters = group.letters();
        if !letters.iter().any(|letter| (letter.partition(), letter.offset()) == open) {
            self.object(format!(
                "{at:?} of key {} is handed over, and {open:?} is neither done nor given up",
                **record
            ));
        }
    }

    fn object(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// What a handler makes of a record.
    fn work(&self, group: &Group<u64>, dice: &mut Dice, record: &Record<'_, u64>) -> Outcome {
        self.in_order(group, record, record.offset());
        let at = (record.partition(), record.offset());
        if record.attempt() == 0 || !(1..=KEYS).contains(&**record) {
            self.object(format!("{at:?}: {}, attempt {}", **record, record.attempt()));
        }
        if self.storming.load(Relaxed) {
            match dice.roll(200) {
                0 | 1 => self.hang(),
                2 => return Outcome::retry("no"),
                3 => return Outcome::retry_after(LEASE / 4, "not yet"),
                4 => resume_unwind(Box::new("as planned")),
                5 => return Outcome::reject("never"),
                6 => drop(record.extend(LEASE)),
                _ => {}
            }
        }
        self.done.lock().unwrap().insert(at);
        Outcome::Ack
    }

    /// A consumer's life: polls until it is told to stop, or dies.
    fn consume(&self, group: &Group<u64>, name: &str, leave: &AtomicBool) {
        let (mut dice, Ok(mut consumer)) = (self.dice(), group.consumer(name)) else { return };
        let mut receipts = Vec::new();
        while !leave.load(Relaxed) && !self.stopped.load(Relaxed) {
            let most = 1 + dice.roll(8) as usize;
            let Ok(mut batch) = consumer.poll(most, Duration::from_millis(1)) else { return };
            if batch.is_empty() {
                continue;
            }
            let (partition, offsets) = (batch.partition().unwrap(), batch.offsets());
            let storming = self.storming.load(Relaxed);
            if !batch.iter().all(|record| (1..=KEYS).contains(&*record)) {
                self.object(format!("{offsets:?} of {partition}: not what was published"));
            }
            batch.iter().for_each(|record| self.in_order(group, &record, offsets.start));
            let say = || self.done.lock().unwrap().extend(offsets.clone().map(|offset| (partition, offset)));
            match if storming { dice.roll(60) } else { 99 } {
                0 => self.hang(),
                1 => drop(batch.nack(Failure::new("no"))),
                2 => drop(batch.nack_from(offsets.start, Failure::new("no"))),
                3 => drop(batch),
                // A later ack covers these, too.
                4 => {
                    say();
                    std::mem::forget(batch.detach());
                }
                5 => {
                    say();
                    receipts.push(batch.detach());
                }
                6 => drop(receipts.pop().map(|receipt| receipt.extend(LEASE))),
                7 => return,
                _ => {
                    say();
                    drop(batch.ack());
                }
            }
        }
    }
}

/// Somebody in the group, and how to be rid of him.
enum Somebody {
    Handler(Member<u64>),
    Consumer(Arc<AtomicBool>, JoinHandle<()>),
}

struct Game {
    scene: Arc<Scene>,
    group: Group<u64>,
    workers: Vec<Worker>,
    members: Vec<Somebody>,
}

impl Game {
    fn join(&mut self, dice: &mut Dice) {
        // Who comes may have been here before, or be here still; a consumer whose group has none is gone at once.
        let name = format!("m{}", dice.roll(12));
        let scene = self.scene.clone();
        let handler = || {
            let (scene, group, mut dice) = (scene.clone(), self.group.clone(), scene.dice());
            move |record: &Record<'_, u64>| scene.work(&group, &mut dice, record)
        };
        let member = self.group.member(&name);
        let joined = match dice.roll(6) {
            0 => member.run(Run::ThreadPerLane).subscribe_with(|_| handler()),
            1 => member.run(&self.workers[dice.roll(2) as usize]).subscribe(handler()),
            2 => {
                let (scene, mut dice) = (scene.clone(), scene.dice());
                member.subscribe_batch(move |batch: &Batch<'_, u64>| {
                    if scene.storming.load(Relaxed) && dice.roll(50) == 0 {
                        scene.hang();
                    }
                    scene.done.lock().unwrap().extend(batch.iter().map(|record| (record.partition(), record.offset())));
                })
            }
            3 | 4 => {
                let (leave, group) = (Arc::new(AtomicBool::new(false)), self.group.clone());
                let told = leave.clone();
                let thread = thread::spawn(move || scene.consume(&group, &name, &told));
                return self.members.push(Somebody::Consumer(leave, thread));
            }
            _ => member.subscribe(handler()),
        };
        self.members.extend(joined.ok().map(Somebody::Handler));
    }

    /// The thread of a worker ends, and with it all that is on it.
    fn die(&mut self, dice: &mut Dice) {
        let nth = dice.roll(2) as usize;
        self.workers[nth] = Worker::spawn().unwrap();
    }

    fn leave(&mut self, dice: &mut Dice) {
        if self.members.is_empty() {
            return;
        }
        match self.members.swap_remove(dice.roll(self.members.len() as u64) as usize) {
            Somebody::Handler(member) if dice.roll(2) == 0 => drop(member.leave_drained(LEASE)),
            // False if it has left already: thrown out as a straggler, or with its worker.
            Somebody::Handler(member) => _ = member.leave(),
            Somebody::Consumer(leave, thread) => {
                leave.store(true, Relaxed);
                thread.join().unwrap();
            }
        }
    }
}

fn publisher(topic: &Topic<u64>, scene: &Arc<Scene>, count: &Arc<AtomicU64>) -> JoinHandle<()> {
    let (topic, scene, count, mut dice) = (topic.clone(), scene.clone(), count.clone(), scene.dice());
    thread::spawn(move || {
        while scene.storming.load(Relaxed) {
            if topic.publish_within(1 + dice.roll(KEYS), Duration::from_millis(1)).is_ok() {
                count.fetch_add(1, Relaxed);
            }
        }
    })
}

/// What a group of any order may be told.
fn settings(dice: &mut Dice, order: Order, counted: Arc<AtomicU64>) -> GroupConfig<u64> {
    let attempts = dice.pick(&[1, 2, 5]);
    let config = GroupConfig::earliest()
        .retry(Retry::constant(attempts, Duration::ZERO))
        .lease(LEASE)
        .letters(1 << 20)
        .on_expired(move |_| _ = counted.fetch_add(1, Relaxed));
    let config = if dice.roll(2) == 0 { config.lease_renewed_up_to(LEASE * 3) } else { config };
    match order {
        Order::Partition => config,
        _ => {
            let rules = [Straggler::Wait, Straggler::Bury(LEASE * 2), Straggler::Evict(LEASE * 2)];
            config.order(order).straggler(dice.pick(&rules))
        }
    }
}

/// Members that are at work until all is done. Who is slow on a busy machine may be thrown out: then another comes.
fn finish(broker: &Broker, group: &Group<u64>, scene: &Arc<Scene>) {
    let began = Instant::now();
    for nth in 0.. {
        let (scene, of, mut dice) = (scene.clone(), group.clone(), scene.dice());
        let handler = move |record: &Record<'_, u64>| scene.work(&of, &mut dice, record);
        group.subscribe(&format!("last{nth}"), handler).unwrap();
        match broker.drain(Duration::from_secs(5)) {
            // A group that has lost all its members is not waited for.
            Ok(_) if group.stats().lag() == 0 => return,
            Ok(_) if began.elapsed() > LONG => panic!("nobody stays: {:#?}", group.stats()),
            Ok(_) => {}
            Err(error) if began.elapsed() > LONG => panic!("{error}: {:#?}", group.stats()),
            Err(_) => {}
        }
    }
}

/// Says which order it was, and how many leases expired.
fn round(seed: u64) -> (Order, u64) {
    let mut dice = Dice::new(seed);
    let broker = Broker::new();
    let capacity = 1 << (1 + dice.roll(8));
    let retain = dice.pick(&[Retain::Recent, Retain::Unacked, Retain::Backlog]);
    let config = TopicConfig::new().partitions(PARTITIONS).capacity(capacity).retain(retain);
    let config = config.optional_key(|key: &u64| (*key < KEYS).then_some(key));
    let topic = broker.create_topic("orders", config).unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let counted = told.clone();
    let order = dice.pick(&ORDERS);
    let config = settings(&mut dice, order, counted);
    let group = topic.group("g", config).unwrap();
    let scene = Arc::new(Scene {
        storming: AtomicBool::new(true),
        gate: Default::default(),
        done: Mutex::default(),
        hung: AtomicU64::new(0),
        seed: AtomicU64::new(seed << 20),
        stopped: AtomicBool::new(false),
        keyed: (order == Order::Key).then(Mutex::default),
        wrong: Mutex::default(),
    });
    let workers = (0..2).map(|_| Worker::spawn().unwrap()).collect();
    let mut game = Game { scene: scene.clone(), group: group.clone(), workers, members: Vec::new() };
    let published = Arc::new(AtomicU64::new(0));
    let publishers: Vec<_> = (0..2).map(|_| publisher(&topic, &scene, &published)).collect();
    for _ in 0..40 {
        match dice.roll(17) {
            0..=7 => game.join(&mut dice),
            8..=11 => game.leave(&mut dice),
            12 => game.die(&mut dice),
            13 | 14 => scene.release(),
            _ => {
                let (round, told) = &scene.gate;
                drop(told.wait_timeout(round.lock().unwrap(), LEASE * 4).unwrap());
            }
        }
    }
    scene.storming.store(false, Relaxed);
    publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
    scene.release();
    finish(&broker, &group, &scene);
    let stats = group.stats();
    assert!(stats.balances(), "{stats:#?}");
    assert_eq!((stats.acked() + stats.dead(), stats.lag()), (published.load(Relaxed), 0), "{stats:#?}");
    let letters: HashSet<_> = group.letters().iter().map(|letter| (letter.partition(), letter.offset())).collect();
    assert_eq!(letters.len() as u64, stats.dead(), "one letter for each");
    let done = scene.done.lock().unwrap();
    for lane in &stats.lanes {
        for at in (lane.start..lane.end).map(|offset| (lane.partition, offset)) {
            assert!(done.contains(&at) || letters.contains(&at), "{at:?} is neither done nor given up");
        }
    }
    drop(done);
    scene.stopped.store(true, Relaxed);
    while !game.members.is_empty() {
        game.leave(&mut dice);
    }
    let account = broker.close(Some(LONG));
    assert!(group.stats().balances(), "{account:?}");
    assert!(scene.wrong.lock().unwrap().is_empty(), "{:?}", scene.wrong);
    (order, stats.leases_expired())
}

// X9, X36, X29
#[test]
fn whoever_hangs_dies_leaves_and_returns_the_books_balance_and_nothing_is_lost() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (seconds, first) = (number("RINGLOG_STORM_SECONDS").unwrap_or(2), number("RINGLOG_STORM_SEED").unwrap_or(1));
    let (started, mut expired) = (Instant::now(), ORDERS.map(|_| 0));
    let (mut seed, mut minutes) = (first, 0);
    while started.elapsed() < Duration::from_secs(seconds) {
        let played = catch_unwind(AssertUnwindSafe(|| round(seed)));
        let (order, over) = played.unwrap_or_else(|said| {
            eprintln!("seed {seed}");
            resume_unwind(said)
        });
        expired[ORDERS.iter().position(|one| *one == order).unwrap()] += over;
        seed += 1;
        // So that a run that is lost shows how far it came.
        if started.elapsed().as_secs() / 60 > minutes {
            minutes = started.elapsed().as_secs() / 60;
            println!("{minutes} min: {} rounds, {expired:?} leases expired; seed {seed} is next", seed - first);
        }
    }
    println!("{} rounds, leases expired in {ORDERS:?}: {expired:?}", seed - first);
    assert!(!expired.contains(&0), "nobody hung: {expired:?}");
}
