//! Faults that the comparison found, each as the shortest case that shows it.

use crate::drive::play;
use crate::ops::{Act, From, Keep, Op, Rule, Setup, To};

fn holds(partitions: u32, ops: &[Op]) {
    let (capacity, drops, attempts) = (2, false, 1);
    holds_in(partitions, (capacity, drops, attempts), ops);
}

fn holds_in(partitions: u32, (capacity, drops, attempts): (u64, bool, u32), ops: &[Op]) {
    let (keep, age, exclusive, timed) = (Keep::Recent, None, false, false);
    let (backoff, letters, seed, clones, sticky) = (0, 2, 0, false, false);
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
const GROUP: Op = Op::AddGroup { group: 0, from: From::Earliest, rule: Rule::Topic };
const JOIN: Op = Op::Join { group: 0, batches: false };

// X33
#[test]
fn an_offset_beyond_everything_is_the_end() {
    holds(1, &[PUBLISH, GROUP, Op::Seek { group: 0, partition: 0, to: To::Offset(u64::MAX - 89) }]);
    holds(1, &[PUBLISH, Op::AddGroup { group: 0, from: From::Offset(u64::MAX), rule: Rule::Topic }]);
}

//
#[test]
fn a_lane_that_was_stepped_while_paused_stays_paused() {
    // Another group's join makes the executor look at all its lanes.
    let (pause, other) = (Op::Pause { group: 0 }, Op::AddGroup { group: 1, from: From::Earliest, rule: Rule::Topic });
    let join_other = Op::Join { group: 1, batches: false };
    holds(1, &[GROUP, other, JOIN, Op::Settle, pause, PUBLISH, Op::Settle, join_other, PUBLISH, Op::Settle]);
}

// C-11, C-12: what waits behind a gap waits, whether it has been looked at or not.
#[test]
fn a_mailbox_that_drops_the_newest_has_no_room_beside_what_was_looked_at_behind_a_gap() {
    let make = Op::AddGroup { group: 0, from: From::Latest, rule: Rule::Newest(2) };
    let move_on = |by| Op::Commit { group: 0, partition: 0, off: 0, by };
    holds_in(1, (64, false, 1), &[make.clone(), PUBLISH, PUBLISH, PUBLISH, move_on(1), move_on(0), PUBLISH, PUBLISH]);
    let once = Op::Step { steps: 1 };
    let batch = Op::Batch { keys: vec![None; 3] };
    let gap = [make, JOIN, batch, Op::Settle, PUBLISH, PUBLISH, PUBLISH];
    let script = Op::Script { group: 0, act: Act::Fail, times: 1 };
    holds_in(
        1,
        (64, false, 2),
        &[&gap[..], &[script, once.clone(), Op::Pause { group: 0 }, PUBLISH, once, PUBLISH]].concat(),
    );
}

// C-11, X21: behind what was in hand and is gone the group's own rule says what comes next.
#[test]
fn the_latest_is_the_latest_behind_a_record_that_failed_and_was_overwritten_as_well() {
    for rule in [Rule::Latest, Rule::Oldest(1)] {
        let make = Op::AddGroup { group: 0, from: From::Earliest, rule };
        let script = Op::Script { group: 0, act: Act::Fail, times: 1 };
        let once = Op::Step { steps: 1 };
        holds_in(1, (2, true, 2), &[make, JOIN, script, PUBLISH, once, PUBLISH, PUBLISH, Op::Settle]);
    }
}
