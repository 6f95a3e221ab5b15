//! Keeps a broker busy, to be watched from outside: `busy SECONDS`.
//!
//! One exclusive producer, a topic of 4 partitions, a group with its lanes on one worker. After a second of warming up it
//! says `warm` and its process id, and goes on for so many seconds more. Then it says what was allocated in that time.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringlog::{Broker, GroupConfig, Producer, Record, TopicConfig, WorkerConfig};
use ringlog_benches::event::Event;
use ringlog_benches::machine;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BURST: u64 = 16_384;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4);
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(4).capacity(16_384).key(|event: &Event| &event.key).block(None);
    let (topic, mut producer) = broker.create_exclusive("busy", config.prefault(true))?;
    // Each on a core of its own where there are two: a thread that waits for a core leaves the other idle, and it sleeps.
    let cores = if machine::one_core() { Vec::new() } else { vec![machine::CONSUMER] };
    let (worker, handled) = (WorkerConfig::new().affinity(cores).spawn()?, Arc::new(AtomicU64::new(0)));
    machine::pin(machine::PRODUCER);
    let seen = handled.clone();
    // Handlers are what is slow in earnest. It also keeps the worker busy while a tracer makes the producer's system
    // calls slow: without it one sleep leads to the next.
    let steps = machine::steps_for(Duration::from_nanos(100));
    let count = move |event: &Record<'_, Event>| {
        std::hint::black_box(machine::work(event.id, steps));
        seen.fetch_add(1, Ordering::Relaxed);
    };
    topic.group("watchers", GroupConfig::earliest())?.member("only").run(&worker).subscribe(count)?;

    let mut sent = 0;
    publish_for(Duration::from_secs(1), &mut producer, &handled, &mut sent)?;
    println!("warm {}", std::process::id());
    let region = Region::new(ALLOCATOR);
    let before = sent;
    publish_for(Duration::from_secs(seconds), &mut producer, &handled, &mut sent)?;
    let change = region.change();
    println!("{} messages, {} allocations, {} freed", sent - before, change.allocations, change.deallocations);
    Ok(())
}

/// Publishes in bursts, the next when most of the last has been handled: busy, but with nobody held back.
fn publish_for(
    time: Duration,
    producer: &mut Producer<Event>,
    handled: &AtomicU64,
    sent: &mut u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..BURST {
            producer.publish(Event::new(*sent))?;
            *sent += 1;
        }
        while *sent - handled.load(Ordering::Relaxed) > BURST {
            std::hint::spin_loop();
        }
    }
    Ok(())
}
