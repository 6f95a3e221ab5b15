//! Random operations on one ring and on a vector, compared after each.
#![no_main]

#[path = "../../tests/ring_twin/case.rs"]
mod case;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u8; 4], Vec<[u8; 4]>)| {
    let (setup, mut ops) = input;
    ops.truncate(1_000);
    case::run(setup, &ops);
});
