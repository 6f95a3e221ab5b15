//! The ring against a vector, as a property of random cases. `RINGLOG_CASES` says how many.

mod case;

use proptest::{
    prelude::any,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

fn run(seed: [u8; 32]) {
    let cases = std::env::var("RINGLOG_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let ops = proptest::collection::vec(any::<[u8; 4]>(), 0..120);
    let outcome = runner.run(&(any::<[u8; 4]>(), ops), |(setup, ops)| {
        case::run(setup, &ops);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("seed {seed:?}: {failure}"));
}

//
#[test]
fn a_ring_is_a_vector_with_a_window() {
    run([7; 32]);
}

#[test]
fn a_ring_is_a_vector_with_a_window_from_a_new_seed() {
    let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
    println!("seed: {random}");
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&random.to_le_bytes());
    run(seed);
}
