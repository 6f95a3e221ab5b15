//! The ring alone, without keys, groups or handlers, against the raw queues: P1 to P6, and P27 on one core.
use std::time::Duration;

use super::Scale;
use crate::exchange::{Load, exchange, exchange_shared};
use crate::judge::Limit::Times;
use crate::judge::{Bound, Case, foundation, goal};
use crate::machine;
use crate::ours::ring;
use crate::peers::{broadcast, channel, disruptor, spsc};
use crate::rounds::{Contender, Who};

/// The disruptor in either mode.
pub const D: &[Who] = &[Who::DisruptorSingle, Who::DisruptorMulti];
/// The disruptor for many producers.
pub const MULTI: &[Who] = &[Who::DisruptorMulti];
/// rtrb.
pub const R: &[Who] = &[Who::Rtrb];
/// crossbeam-channel.
pub const C: &[Who] = &[Who::Crossbeam];
/// tokio broadcast.
pub const BROADCAST: &[Who] = &[Who::Broadcast];
/// Whoever is best.
pub const BEST: &[Who] = &[Who::DisruptorSingle, Who::DisruptorMulti, Who::Rtrb, Who::Crossbeam, Who::Broadcast];

const RING: &str = "ringlog ring, exclusive";
const SHARED: &str = "ringlog ring, shared";

/// How long a peer pauses, in the rows with a pausing wait, after it found nothing.
pub fn pause() -> u32 {
    machine::spins_for(Duration::from_nanos(300))
}

/// The producer's work of 5 ns.
pub fn work() -> u32 {
    machine::steps_for(Duration::from_nanos(5))
}

/// The peers for one producer.
pub fn peers(load: Load) -> Vec<Contender> {
    let paused = Load { pause: pause(), ..load };
    let size = load.capacity;
    vec![
        Contender::new(Who::DisruptorSingle, "disruptor single", move || exchange(&load, disruptor::single(size))),
        Contender::new(Who::Aside, "disruptor single, pausing", move || exchange(&paused, disruptor::single(size))),
        Contender::new(Who::Rtrb, "rtrb", move || exchange(&load, spsc::open(size))),
        Contender::new(Who::Rtrb, "rtrb in chunks", move || exchange(&load, spsc::open_chunks(size))),
        Contender::new(Who::Aside, "rtrb in chunks, pausing", move || exchange(&paused, spsc::open_chunks(size))),
        Contender::new(Who::DisruptorMulti, "disruptor multi", move || exchange(&load, disruptor::multi(size))),
        Contender::new(Who::Crossbeam, "crossbeam-channel", move || exchange(&load, channel::open(size))),
        Contender::new(Who::Broadcast, "tokio broadcast (may lose)", move || exchange(&load, broadcast::open(size))),
    ]
}

fn ours(name: &str, run: impl Fn() -> f64 + 'static) -> Vec<Contender> {
    vec![Contender::new(Who::Ours, name, run)]
}

fn one_producer(title: &str, load: Load, bounds: Vec<Bound>) -> Case {
    let mut contenders = ours(RING, move || exchange(&load, ring::exclusive(load.capacity)));
    contenders.extend(peers(load));
    Case { title: title.to_owned(), contenders, bounds }
}

/// Exclusive, one by one, 65,536.
pub fn p1(scale: Scale) -> Vec<Case> {
    let bounds = vec![foundation(RING, Times(1.3, D)), goal(RING, Times(1.0, D)), goal(RING, Times(0.5, R))];
    vec![one_producer("P1: one by one, 65,536 slots", Load::new(scale.messages, 65_536), bounds)]
}

/// Exclusive, one by one, smaller rings.
pub fn p2(scale: Scale) -> Vec<Case> {
    let case = |size, title, least, most| {
        let bounds = vec![foundation(RING, Times(least, D)), goal(RING, Times(most, D))];
        one_producer(title, Load::new(scale.messages, size), bounds)
    };
    vec![case(8_192, "P2: one by one, 8,192 slots", 1.5, 1.0), case(1_024, "P2: one by one, 1,024 slots", 1.0, 0.8)]
}

/// Exclusive, with work between messages.
pub fn p3(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load { work: work(), ..Load::new(scale.messages, size) };
        let bounds = vec![foundation(RING, Times(0.5, D)), goal(RING, Times(0.25, D)), goal(RING, Times(0.25, R))];
        one_producer(&format!("P3: 5 ns of work before each message, {size} slots"), load, bounds)
    };
    [65_536, 8_192, 1_024].map(case).into()
}

/// Batches.
pub fn p4(scale: Scale) -> Vec<Case> {
    let case = |(size, batch): (usize, u64)| {
        let load = Load::new(scale.messages, size).batches(batch);
        let bounds = vec![foundation(RING, Times(1.3, BEST)), goal(RING, Times(1.0, BEST))];
        one_producer(&format!("P4: batches of {batch}, {size} slots"), load, bounds)
    };
    [(65_536, 16), (65_536, 64), (1_024, 16), (1_024, 64)].map(case).into()
}

/// Shared producers, one of them active.
pub fn p5(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load::new(scale.messages, size);
        let mut contenders = ours(SHARED, move || exchange(&load, ring::shared(size)));
        contenders.extend(peers(load));
        let bounds =
            vec![foundation(SHARED, Times(0.4, MULTI)), goal(SHARED, Times(0.12, MULTI)), goal(SHARED, Times(1.0, C))];
        Case { title: format!("P5: shared producers, one active, {size} slots"), contenders, bounds }
    };
    [65_536, 8_192, 1_024].map(case).into()
}

/// Four producers at once.
pub fn p6(scale: Scale) -> Vec<Case> {
    let case = |batch: u64, bounds: Vec<Bound>| {
        let load = Load::new(scale.messages / 2, 8_192).batches(batch);
        let title = format!("P6: 4 producers and a consumer on 2 cores, batches of {batch}, 8,192 slots");
        Case { title, contenders: four_to_one(load), bounds }
    };
    vec![
        case(1, vec![foundation(SHARED, Times(1.5, C)), goal(SHARED, Times(0.8, BEST))]),
        case(64, vec![foundation(SHARED, Times(2.0, MULTI)), goal(SHARED, Times(1.0, BEST))]),
    ]
}

fn four_to_one(load: Load) -> Vec<Contender> {
    let size = load.capacity;
    let many = |who, name, run: Box<dyn Fn() -> f64>| Contender::new(who, name, move || crowded(&run));
    vec![
        many(Who::Ours, SHARED, Box::new(move || exchange_shared(&load, 4, ring::shared(size)))),
        many(
            Who::DisruptorMulti,
            "disruptor multi",
            Box::new(move || exchange_shared(&load, 4, disruptor::multi(size))),
        ),
        many(Who::Crossbeam, "crossbeam-channel", Box::new(move || exchange_shared(&load, 4, channel::open(size)))),
        many(
            Who::Broadcast,
            "tokio broadcast (may lose)",
            Box::new(move || exchange_shared(&load, 4, broadcast::open(size))),
        ),
    ]
}

/// Runs with every thread making way when it is stuck.
pub fn crowded<O>(run: impl FnOnce() -> O) -> O {
    machine::crowd(true);
    let out = run();
    machine::crowd(false);
    out
}

/// Everything on one core.
pub fn p27(scale: Scale) -> Vec<Case> {
    let load = Load::new(scale.messages, 8_192);
    let size = load.capacity;
    let note = if machine::one_core() { "" } else { " (NOT on one core: run under taskset -c 0)" };
    let alone = |who, name, run: Box<dyn Fn() -> f64>| Contender::new(who, name, move || crowded(&run));
    let contenders = vec![
        alone(Who::Ours, RING, Box::new(move || exchange(&load, ring::exclusive(size)))),
        alone(Who::DisruptorSingle, "disruptor single", Box::new(move || exchange(&load, disruptor::single(size)))),
        alone(Who::Rtrb, "rtrb in chunks", Box::new(move || exchange(&load, spsc::open_chunks(size)))),
        alone(Who::Crossbeam, "crossbeam-channel", Box::new(move || exchange(&load, channel::open(size)))),
    ];
    let bounds = vec![foundation(RING, Times(4.0, C)), goal(RING, Times(1.0, C))];
    vec![Case { title: format!("P27: one core, 8,192 slots{note}"), contenders, bounds }]
}
