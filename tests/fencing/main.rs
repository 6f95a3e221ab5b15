//! Every order of what can happen to one record, against a twin: delivered, expired, delivered again, acknowledged, failed,
//! asked more time for, seeked over, moved, overwritten, deleted; by two members, one of whom may have been left behind. With
//! handlers (`push`), with consumers that settle by receipt (`polls`), and of two records of a work queue, with handlers (`queue`)
//! and with consumers (`pulls`), under leases and under each rule for stragglers. Handlers ask for more time after each step.
//!
//! A tree: at each point all that could happen next and would change anything, to a depth that `RINGLOG_DEPTH` says (4; each step
//! more is seven times as many). The twins know nothing of epochs, claims or ranges: they keep what was handed to whom, and what
//! befell it since.

mod claims;
mod deliveries;
mod hands;
mod jobs;
mod polls;
mod pulls;
mod push;
mod queue;
mod records;
mod twin;

use push::Runner;
use records::Rule;
use ringlog::Order;
use std::collections::BTreeSet;
use std::fmt::Debug;

fn depth(least: usize) -> usize {
    std::env::var("RINGLOG_DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(least)
}

/// What two things agree on, step by step.
trait Tree: Clone {
    type Op: Copy + Debug;
    fn possible(&self) -> Vec<Self::Op>;
    fn apply(&mut self, op: Self::Op);
}

macro_rules! trees {
    ($($twin:ident),*) => {$(
        impl Tree for $twin::Twin {
            type Op = $twin::Op;

            fn possible(&self) -> Vec<$twin::Op> {
                self.possible()
            }

            fn apply(&mut self, op: $twin::Op) {
                let _answer = self.apply(op);
            }
        }
    )*};
}

trees!(claims, deliveries, jobs, twin);

/// Visits all paths of that length, or shorter ones that lead nowhere; says how many, and what happened on them.
fn paths<T: Tree>(from: T, depth: usize, visit: &mut impl FnMut(&[T::Op])) -> (u64, BTreeSet<String>) {
    fn go<T: Tree>(twin: &T, path: &mut Vec<T::Op>, depth: usize, visit: &mut impl FnMut(&[T::Op])) {
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
    let (mut count, mut kinds) = (0, BTreeSet::new());
    go(&from, &mut Vec::new(), depth, &mut |path| {
        visit(path);
        count += 1;
        kinds.extend(path.iter().map(|op| format!("{op:?}").split('(').next().unwrap_or_default().to_owned()));
    });
    println!("{count} orders");
    (count, kinds)
}

// X36, X9, B-8
#[test]
fn every_order_of_what_can_happen_to_a_record_in_a_handler_s_hands() {
    let runners = [Runner::new(), Runner::new()];
    let (count, kinds) = paths(twin::Twin::new(), depth(4), &mut |path| push::play(&runners, path));
    assert!(count > 100 && kinds.len() == 8, "{count} orders of {kinds:?}");
}

// X36, B-8
#[test]
fn every_order_of_what_can_happen_to_a_record_that_a_consumer_polled() {
    let (count, kinds) = paths(deliveries::Twin::new(), depth(4), &mut polls::play);
    assert!(count > 100 && kinds.len() == 11, "{count} orders of {kinds:?}");
}

/// In a work queue, by handlers.
fn by_handlers(order: Order, rule: Rule, kinds: usize) {
    let runners = [Runner::new(), Runner::new()];
    let twin = jobs::Twin::new(order == Order::Key, rule);
    let (count, seen) = paths(twin, depth(4), &mut |path| queue::play(&runners, order, rule, path));
    assert!(count > 100 && seen.len() == kinds, "{count} orders of {seen:?}");
}

/// In a work queue, by consumers.
fn by_consumers(order: Order, rule: Rule, kinds: usize) {
    let twin = claims::Twin::new(order == Order::Key, rule);
    let (count, seen) = paths(twin, depth(4), &mut |path| pulls::play(order, rule, path));
    assert!(count > 100 && seen.len() == kinds, "{count} orders of {seen:?}");
}

// X36, B-E5
#[test]
fn every_order_of_what_can_happen_to_the_records_of_a_work_queue() {
    by_handlers(Order::Shared, Rule::Lease, 7);
}

// X36
#[test]
fn every_order_of_what_can_happen_to_two_records_of_one_key() {
    by_handlers(Order::Key, Rule::Lease, 7);
}

// B-E5
#[test]
fn every_order_of_what_can_happen_to_a_straggler_in_a_handler_s_hands() {
    by_handlers(Order::Shared, Rule::Bury, 7);
    by_handlers(Order::Shared, Rule::Evict, 7);
}

// X36, B-E5
#[test]
fn every_order_of_what_can_happen_to_the_records_that_consumers_of_a_work_queue_polled() {
    by_consumers(Order::Shared, Rule::Lease, 9);
}

// X36
#[test]
fn every_order_of_what_can_happen_to_two_records_of_one_key_that_consumers_polled() {
    by_consumers(Order::Key, Rule::Lease, 9);
}

// B-E5
#[test]
fn every_order_of_what_can_happen_to_a_straggler_that_a_consumer_polled() {
    by_consumers(Order::Shared, Rule::Bury, 9);
    by_consumers(Order::Shared, Rule::Evict, 9);
}

// Found at depths 6 and 7.
#[test]
fn orders_that_went_wrong_once_go_right() {
    use deliveries::Op::{Ack, Delete, Expire, Nack, Poll, Trim};
    // Behind the gap lies what has no attempt left.
    polls::play(&[Poll(0), Trim, Poll(0), Nack(1), Poll(0), Expire, Poll(0)]);
    // It was acknowledged with the later one, before there was a delete.
    polls::play(&[Poll(0), Trim, Poll(0), Ack(1), Delete, Ack(0)]);
}
