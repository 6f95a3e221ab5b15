//! The asymmetric barrier on the real machine: no checker understands `membarrier`, so the processor itself is asked.
//!
//! A publisher stores `x = n`, passes the light barrier and loads `y`; a sleeper stores `y = m`, passes the heavy barrier
//! and loads `x`. Both count upwards as fast as they can. A publisher's round n and a sleeper's round m *missed each
//! other* if n did not see m and m did not see n; that is the store buffer's outcome which loses a wake-up, and the pair
//! of barriers forbids it. The twin without the heavy barrier must be seen to do it.
//!
//! `RINGLOG_LITMUS_ROUNDS` sets the sleeper's rounds (20,000 by default; the long run is 100,000,000: about six minutes);
//! the publisher makes many to each.
#![cfg(not(miri))]
#![forbid(unsafe_code)]

use ringlog::internals::sync::{
    CachePadded,
    hint::{barrier_is_asymmetric, heavy_barrier, light_barrier},
    processors,
};
use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering, compiler_fence},
    },
    thread,
    time::{Duration, Instant},
};

/// Rounds of the sleeper whose logs are held in memory at once.
const BLOCK: u64 = 100_000;

#[derive(Debug, Default)]
struct Seen {
    publisher_rounds: u64,
    sleeper_rounds: u64,
    missed: u64,
}

/// One block of `rounds`: both sides run, then their logs are compared.
fn block(rounds: u64, heavy: fn()) -> Seen {
    let (x, y) = (CachePadded::new(AtomicU64::new(0)), CachePadded::new(AtomicU64::new(0)));
    let start = Barrier::new(2);
    let (first, saw) = thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(rounds, &start, &x, &y));
        let sleeper = scope.spawn(|| sleep(rounds, &start, &x, &y, heavy));
        (publisher.join().expect("the publisher ends"), sleeper.join().expect("the sleeper ends"))
    });
    // Round m of the sleeper saw x = saw[m], so it missed the publisher's round saw[m] + 1, which therefore must have seen m.
    let missed = (1..=rounds as usize).filter(|&m| first[m] > saw[m] + 1).count() as u64;
    Seen { publisher_rounds: first[rounds as usize], sleeper_rounds: rounds, missed }
}

/// For each m, the first round that saw y at m or beyond.
fn publish(rounds: u64, start: &Barrier, x: &AtomicU64, y: &AtomicU64) -> Vec<u64> {
    let mut first = vec![0; rounds as usize + 1];
    let (mut n, mut seen) = (0, 0);
    start.wait();
    while seen < rounds {
        n += 1;
        x.store(n, Ordering::Relaxed);
        light_barrier();
        let now = y.load(Ordering::Relaxed);
        first[seen as usize + 1..=now as usize].fill(n);
        seen = now;
    }
    first
}

/// For each m, what x was.
fn sleep(rounds: u64, start: &Barrier, x: &AtomicU64, y: &AtomicU64, heavy: fn()) -> Vec<u64> {
    let mut saw = vec![0; rounds as usize + 1];
    start.wait();
    for m in 1..=rounds {
        y.store(m, Ordering::Relaxed);
        heavy();
        saw[m as usize] = x.load(Ordering::Relaxed);
    }
    saw
}

/// Says why this machine cannot be asked, if it cannot.
fn cannot_ask() -> bool {
    let why = match (barrier_is_asymmetric(), processors()) {
        (_, 1) => "only one processor may be used: nothing runs side by side",
        (false, _) => "membarrier is refused or not built in: both sides use fences, which the models cover",
        (true, _) => return false,
    };
    eprintln!("SKIPPED: {why}");
    true
}

fn rounds_asked_for() -> u64 {
    let asked = std::env::var("RINGLOG_LITMUS_ROUNDS");
    asked.map_or(20_000, |rounds| rounds.replace('_', "").parse().expect("RINGLOG_LITMUS_ROUNDS is a number"))
}

//
#[test]
fn publisher_and_sleeper_never_miss_each_other() {
    if cannot_ask() {
        return;
    }
    let (mut left, mut all) = (rounds_asked_for(), Seen::default());
    while left > 0 {
        let seen = block(left.min(BLOCK), heavy_barrier);
        left -= seen.sleeper_rounds;
        all.publisher_rounds += seen.publisher_rounds;
        all.sleeper_rounds += seen.sleeper_rounds;
        assert_eq!(seen.missed, 0, "a wake-up would be lost: {seen:?} after {all:?}");
    }
    println!("{all:?}");
}

#[test]
fn without_the_heavy_barrier_they_are_seen_to_miss_each_other() {
    if cannot_ask() {
        return;
    }
    let (begun, patience) = (Instant::now(), Duration::from_secs(60));
    let mut rounds = 0;
    while begun.elapsed() < patience {
        let seen = block(BLOCK, || compiler_fence(Ordering::SeqCst));
        rounds += seen.sleeper_rounds;
        if seen.missed > 0 {
            println!("missed {} of {rounds} rounds", seen.missed);
            return;
        }
    }
    panic!("{rounds} rounds without a barrier and none missed the other: this test sees nothing here");
}
