//! Consumers against a stupid twin: random polls, settlements, leases, moves and seeks on both, everything compared after each.
//!
//! `RINGLOG_CASES` says how many cases. The fuzz target `consumers_vs_twin` uses the same files and the same decoding. What is
//! free, and followed: which of a consumer's partitions a poll takes, and how many of the records that are due it gives.
mod play;
mod twin;

use proptest::{
    prelude::any,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

fn check(cases: u32, seed: u64, holds: impl Fn(&[u8; 4], &[[u8; 3]])) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let raw = (any::<[u8; 4]>(), proptest::collection::vec(any::<[u8; 3]>(), 0..150));
    let outcome = runner.run(&raw, |(setup, ops)| {
        holds(&setup, &ops);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
}

fn cases() -> u32 {
    std::env::var("RINGLOG_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

// X36, B-3, B-4, B-6, B-7, B-8, B-16
#[test]
fn consumers_do_what_the_twin_does() {
    check(cases(), 1, |setup, ops| drop(play::run(*setup, ops)));
}

#[test]
fn consumers_do_what_the_twin_does_from_a_new_seed() {
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed: {seed}");
    check(cases(), seed, |setup, ops| drop(play::run(*setup, ops)));
}

// A comparison that reaches nothing proves nothing.
#[test]
fn the_cases_reach_what_they_are_for() {
    let all = std::cell::RefCell::new(twin::Census::new());
    check(400, 2, |setup, ops| {
        for (what, times) in play::run(*setup, ops) {
            *all.borrow_mut().entry(what).or_default() += times;
        }
    });
    let reached = all.into_inner();
    let wanted = [
        ("stored", 1_000),
        ("full", 500),
        ("a batch", 500),
        ("nothing to be had", 500),
        ("acked", 100),
        ("refused: Expired", 20),
        ("refused: Moved", 20),
        ("refused: Seeked", 20),
        ("refused: Rewound", 20),
        ("refused: AlreadyAcked", 20),
        ("refused: Buried", 1),
        ("not in flight", 50),
        ("nacked", 100),
        ("released", 100),
        ("extended", 5),
        ("lease over", 50),
        ("buried", 50),
        ("waits for another's settlement", 10),
    ];
    let missed: Vec<_> = wanted.iter().filter(|(what, least)| reached.get(what).is_none_or(|n| n < least)).collect();
    assert!(missed.is_empty(), "too rare: {missed:?}\nreached: {reached:#?}");
}
