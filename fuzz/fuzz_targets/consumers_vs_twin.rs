//! Random polls and settlements on the broker and on the stupid twin of `tests/pull_twin`, compared after each.
#![no_main]

#[path = "../../tests/pull_twin/play.rs"]
mod play;
#[path = "../../tests/pull_twin/twin.rs"]
mod twin;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: ([u8; 4], Vec<[u8; 3]>)| {
    let (setup, mut ops) = case;
    ops.truncate(200);
    play::run(setup, &ops);
});
