//! Every order of what can happen to one record, against a twin: delivered, expired, delivered again, acknowledged, failed,
//! asked more time for, seeked over, moved, overwritten, deleted; by two members, one of whom may have been left behind.
//!
//! A tree: at each point all that could happen next and would change anything, to a depth that `RINGLOG_DEPTH` says. Time is
//! asked for by whoever has anything in hand, after each step.

mod push;
mod twin;

use push::Runner;
use std::collections::BTreeSet;
use twin::{Op, Twin};

fn depth(least: usize) -> usize {
    std::env::var("RINGLOG_DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(least)
}

/// All paths of that length, or shorter ones that lead nowhere.
fn paths(depth: usize, visit: &mut impl FnMut(&[Op])) {
    fn go(twin: &Twin, path: &mut Vec<Op>, depth: usize, visit: &mut impl FnMut(&[Op])) {
        let next = twin.possible();
        if path.len() == depth || next.is_empty() {
            return visit(path);
        }
        for op in next {
            let mut twin = twin.clone();
            twin.apply(op);
            path.push(op);
            go(&twin, path, depth, visit);
            path.pop();
        }
    }
    go(&Twin::new(), &mut Vec::new(), depth, visit);
}

// X36, X9, B-8
#[test]
fn every_order_of_what_can_happen_to_a_record_in_a_handler_s_hands() {
    let runners = [Runner::new(), Runner::new()];
    let (mut count, mut kinds) = (0_u64, BTreeSet::new());
    paths(depth(5), &mut |path| {
        push::play(&runners, path);
        count += 1;
        kinds.extend(path.iter().map(|op| format!("{op:?}")));
    });
    println!("{count} orders");
    assert!(count > 1_000 && kinds.len() == 11, "{count} orders of {kinds:?}");
}
