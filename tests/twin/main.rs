//! The broker against a stupid twin: random operations on both, everything compared after each.
//!
//! `RINGLOG_CASES` says how many cases. What is compared and what is free: `README.md` beside this file.

mod again;
mod alone;
mod answers;
mod drive;
mod found;
mod loss;
mod model;
mod ops;
mod own;
mod parts;
mod real;

use proptest::{
    prelude::{Strategy, any},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

type Raw = ([u8; 8], Vec<[u8; 4]>);

fn cases() -> impl Strategy<Value = Raw> {
    (any::<[u8; 8]>(), proptest::collection::vec(any::<[u8; 4]>(), 0..120))
}

fn check(seed: u64, holds: impl Fn(&Raw)) {
    check_many(std::env::var("RINGLOG_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300), seed, holds);
}

fn check_many(many: u32, seed: u64, holds: impl Fn(&Raw)) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: many, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&cases(), |raw| {
        holds(&raw);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
}

// X21, X27, B-4, A-44, A-15, Q-64, Q-65, Q-66, Q-69
#[test]
fn the_broker_does_what_the_twin_does() {
    (1..=2).for_each(|seed| check(seed, |(setup, ops)| drive::run(*setup, ops)));
}

#[test]
fn the_broker_does_what_the_twin_does_from_a_new_seed() {
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed: {seed}");
    check(seed, |(setup, ops)| drive::run(*setup, ops));
}

#[test]
fn the_same_seed_and_the_same_operations_give_the_same_trace() {
    check_many(100, 5, |(setup, ops)| {
        let (setup, ops) = drive::decode(*setup, ops);
        let play = || drive::play(&setup, &ops, |_| ());
        assert_eq!(play(), play());
    });
}

// the comparison has teeth for the fault that is hardest to see
#[test]
fn a_wake_up_that_gets_lost_is_found() {
    let found = std::cell::Cell::new(0);
    check(6, |(setup, ops)| {
        let (setup, ops) = drive::decode(*setup, ops);
        if drive::play(&setup, &ops, |manual| manual.lose_wake(0)).is_err_and(|said| said.contains("lost wake-up")) {
            found.set(found.get() + 1);
        }
    });
    assert!(found.get() > 0, "a broker that loses its first wake-up looks as good as any");
}

// green tools that explored nothing
#[test]
fn the_cases_reach_what_they_are_for() {
    let all = std::cell::RefCell::new(model::Census::new());
    check_many(1_000, 7, |(setup, ops)| {
        let (setup, ops) = drive::decode(*setup, ops);
        let (_, census) = drive::play(&setup, &ops, |_| ()).unwrap_or_else(|said| panic!("{said}"));
        census.into_iter().for_each(|(what, times)| *all.borrow_mut().entry(what).or_default() += times);
    });
    let reached = all.into_inner();
    let all = [
        ("stored", 1_000),
        ("full", 500),
        ("a batch too large", 100),
        ("a batch stopped half way", 10),
        ("a record", 1_000),
        ("a batch", 50),
        ("a batch taken apart", 4),
        ("error", 50),
        ("panic", 10),
        ("reject", 10),
        ("a letter lost", 10),
        ("replayed", 20),
        ("skipped", 50),
        ("a handler published", 10),
        ("a handler found no room", 10),
        ("attempts moved to another member", 1),
        ("overwritten", 500),
        ("expired", 200),
        ("a gap", 100),
        ("lost between two attempts", 5),
        ("lost for both reasons", 5),
        ("lost what was too old in a seek", 3),
        ("redriven", 40),
        ("a letter handed over again", 30),
        ("buried again", 10),
        ("called back", 5),
        ("committed from outside", 10),
        ("dealt by the sticky rule", 100),
        ("by time", 20),
        ("by time without times", 5),
        ("by the last few", 20),
        ("passed over", 100),
        ("dropped", 100),
        ("conflated", 50),
        ("full for a mailbox", 50),
        ("a batch larger than may wait", 10),
        ("start", 1),
        ("too many", 5),
        ("ages", 5),
        ("never waits", 5),
    ];
    let missed: Vec<_> = all.iter().filter(|(what, least)| reached.get(what).is_none_or(|n| n < least)).collect();
    assert!(missed.is_empty(), "too rare: {missed:?}\nreached: {reached:#?}");
}
