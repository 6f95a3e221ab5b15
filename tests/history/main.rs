//! Real threads, judged afterwards by their history. `RINGLOG_STRESS` multiplies the records of each run.
mod checker;
#[path = "../support/dice.rs"]
mod dice;
mod payload;
mod run;

use ringlog::Retain;
use run::{Close, How, Plan, run};

const CAPACITIES: [usize; 5] = [1, 2, 3, 4, 64];

fn stress() -> u64 {
    std::env::var("RINGLOG_STRESS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn plan(capacity: usize, how: How) -> Plan {
    Plan {
        producers: 3,
        exclusive: false,
        partitions: 2,
        capacity,
        retain: Retain::Recent,
        groups: 2,
        how,
        churn: 0,
        seeks: false,
        records: 300 * stress(),
        close: Close::Drained,
        seed: capacity as u64 + 1,
    }
}

// B-V11, Q-2, Q-16: every group sees each record once and in order, however small the partition
#[test]
fn every_group_handles_each_record_once_and_in_order() {
    for capacity in CAPACITIES {
        for how in [How::OwnThread, How::ThreadPerLane, How::SharedWorker] {
            run(&plan(capacity, how));
            run(&Plan { exclusive: true, producers: 1, groups: 3, retain: Retain::Backlog, ..plan(capacity, how) });
        }
    }
}

// A-T16, A-60, Q-66: members come and go, groups pause, and nothing is lost or handled twice
#[test]
fn joining_leaving_and_pausing_lose_nothing_and_repeat_nothing() {
    for capacity in CAPACITIES {
        for how in [How::OwnThread, How::ThreadPerLane, How::SharedWorker] {
            run(&Plan { churn: 60, ..plan(capacity, how) });
        }
    }
}

// X33: a seek explains every jump, and the books stay right
#[test]
fn seeks_are_the_only_reason_for_a_jump() {
    for capacity in CAPACITIES {
        for how in [How::OwnThread, How::ThreadPerLane] {
            run(&Plan { churn: 60, seeks: true, groups: 3, ..plan(capacity, how) });
        }
    }
}

// A-T17, A-T21, Q-21: whenever the broker is closed, what was accepted is accounted for
#[test]
fn a_close_at_any_moment_leaves_a_true_account() {
    for capacity in CAPACITIES {
        for (how, after) in [(How::OwnThread, 0), (How::ThreadPerLane, 37), (How::SharedWorker, 200)] {
            let close = Close::After(after);
            run(&Plan { close, ..plan(capacity, how) });
            run(&Plan { close, churn: 40, seeks: true, retain: Retain::Unacked, ..plan(capacity, how) });
        }
    }
}
