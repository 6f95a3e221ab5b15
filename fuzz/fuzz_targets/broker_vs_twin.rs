//! Random operations on the broker and on the stupid twin of `tests/twin`, compared after each step.
#![no_main]

#[path = "../../tests/twin/again.rs"]
mod again;
#[path = "../../tests/twin/answers.rs"]
mod answers;
#[path = "../../tests/twin/drive.rs"]
mod drive;
#[path = "../../tests/twin/loss.rs"]
mod loss;
#[path = "../../tests/twin/model.rs"]
mod model;
#[path = "../../tests/twin/ops.rs"]
mod ops;
#[path = "../../tests/twin/own.rs"]
mod own;
#[path = "../../tests/twin/parts.rs"]
mod parts;
#[path = "../../tests/twin/real.rs"]
mod real;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|case: ([u8; 8], Vec<[u8; 4]>)| {
    let (setup, mut ops) = case;
    ops.truncate(200);
    drive::run(setup, &ops);
});
