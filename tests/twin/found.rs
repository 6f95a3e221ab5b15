//! Faults that the comparison found, each as the shortest case that shows it.

use crate::drive::play;
use crate::ops::{From, Keep, Op, Setup, To};

fn holds(partitions: u32, ops: &[Op]) {
    let (keep, drops, age, exclusive, timed) = (Keep::Recent, false, None, false, false);
    let (capacity, attempts, backoff, letters, seed, clones, sticky) = (2, 1, 0, 2, 0, false, false);
    let setup = Setup {
        partitions,
        capacity,
        keep,
        drops,
        age,
        exclusive,
        timed,
        attempts,
        backoff,
        letters,
        clones,
        sticky,
        seed,
    };
    if let Err(said) = play(&setup, ops, |_| ()) {
        panic!("{said}");
    }
}

const PUBLISH: Op = Op::Publish { key: None };
const GROUP: Op = Op::AddGroup { group: 0, from: From::Earliest };
const JOIN: Op = Op::Join { group: 0, batches: false };

// X33
#[test]
fn an_offset_beyond_everything_is_the_end() {
    holds(1, &[PUBLISH, GROUP, Op::Seek { group: 0, partition: 0, to: To::Offset(u64::MAX - 89) }]);
    holds(1, &[PUBLISH, Op::AddGroup { group: 0, from: From::Offset(u64::MAX) }]);
}

//
#[test]
fn a_lane_that_was_stepped_while_paused_stays_paused() {
    // Another group's join makes the executor look at all its lanes.
    let (pause, other) = (Op::Pause { group: 0 }, Op::AddGroup { group: 1, from: From::Earliest });
    let join_other = Op::Join { group: 1, batches: false };
    holds(1, &[GROUP, other, JOIN, Op::Settle, pause, PUBLISH, Op::Settle, join_other, PUBLISH, Op::Settle]);
}
