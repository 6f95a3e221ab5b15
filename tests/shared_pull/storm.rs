//! Consumers and handlers on threads that ack, fail, release, forget, leave and come back: in the end each record was done once
//! where nothing expired, and the books balance.

use ringlog::{Broker, Failure, Group, GroupConfig, GroupOffset, Order, Record, Retry, SeekTo, TopicConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(60);

const RECORDS: u64 = if cfg!(miri) { 60 } else { 4_000 };

fn mix(one: u64, other: u64) -> u64 {
    let mut x = one.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// Moves the cursors a little back, whenever they have gone on a little further.
fn seeks(group: &Group<u64>, until: impl Fn() -> bool) {
    let (mut turn, mut behind) = (0, [0; 2]);
    while !until() {
        turn += 1;
        for GroupOffset { partition, next, .. } in group.offsets() {
            let (roll, behind) = (mix(77, turn), &mut behind[partition as usize]);
            if next >= *behind + 8 {
                *behind = group.seek(partition, SeekTo::Offset(next - (roll & 3))).unwrap();
            }
        }
        thread::yield_now();
    }
}

/// One consumer after another, until everything is done.
fn works(group: &Group<u64>, done: &[AtomicU64], seed: u64, forgets: bool) {
    let (mut turn, mut out) = (0, Vec::new());
    let until = Instant::now() + LONG;
    while group.stats().lag() > 0 {
        assert!(Instant::now() < until, "records are in nobody's hands: {:?}", group.stats());
        let mut consumer = group.consumer(&format!("c{seed}-{turn}")).unwrap();
        for _ in 0..50 {
            turn += 1;
            let roll = mix(seed, turn);
            let mut batch = consumer.poll(1 + (roll % 9) as usize, Duration::from_millis(1)).unwrap();
            let all: Vec<u64> = batch.iter().map(|record| *record).collect();
            if all.is_empty() {
                out.clear(); // what is kept for later goes back
                continue;
            }
            let count = |all: &[u64]| {
                for at in all {
                    done[*at as usize].fetch_add(1, Ordering::Relaxed);
                }
            };
            let first = batch.offsets().start;
            match roll >> 8 & 15 {
                0 => {
                    let _expired = batch.nack(Failure::new("no"));
                }
                1 => drop(batch),
                2 => {
                    let at = (roll >> 16) as usize % all.len();
                    if batch.nack_from(first + at as u64, Failure::new("no")).is_ok() {
                        count(&all[..at]);
                    }
                }
                3 => {
                    let at = (roll >> 16) as usize % all.len();
                    if batch.ack_through(first + at as u64).is_ok() {
                        count(&all[..=at]);
                    }
                }
                4 => out.push((batch.detach(), all)),
                5 if forgets => batch.detach().leave_in_flight(),
                _ => {
                    if batch.ack().is_ok() {
                        count(&all);
                    }
                }
            }
            if out.len() > 3 {
                let (receipt, all) = out.swap_remove((roll >> 20) as usize % 4);
                if receipt.ack().is_ok() {
                    count(&all);
                }
            }
        }
    }
}

fn storm(config: GroupConfig<u64>, forgets: bool, moves: bool) {
    let broker = Broker::new();
    let topic = TopicConfig::new().partitions(2).capacity(64).block(Some(LONG));
    let topic = broker.create_topic("jobs", topic).unwrap();
    let retry = Retry::constant(1, Duration::ZERO).unlimited();
    let group = topic.group("g", config.order(Order::Shared).retry(retry)).unwrap();
    let done: Arc<[AtomicU64]> = (0..RECORDS).map(|_| AtomicU64::new(0)).collect();
    let handled = done.clone();
    let handler = move |record: &Record<'_, u64>| {
        handled[**record as usize].fetch_add(1, Ordering::Relaxed);
    };
    if !forgets {
        group.subscribe("h", handler).unwrap();
    }
    // So that there is something to do from the beginning.
    (0..2).for_each(|n| assert!(topic.publish(n).is_ok()));
    thread::scope(|scope| {
        (0..3).for_each(|seed| {
            drop(scope.spawn({
                let (group, done) = (group.clone(), done.clone());
                move || works(&group, &done, seed, forgets)
            }))
        });
        scope.spawn(|| (2..RECORDS).for_each(|n| assert!(topic.publish(n).is_ok())));
        scope.spawn(|| {
            // Nobody stops before the last is published, whoever finds nothing to do.
            while topic.end(0).unwrap() + topic.end(1).unwrap() < RECORDS || group.stats().lag() > 0 {
                works(&group, &done, 9, forgets);
                thread::yield_now();
            }
        });
        let (group, published) = (&group, || topic.end(0).unwrap() + topic.end(1).unwrap() == RECORDS);
        scope.spawn(move || seeks(group, || !moves || published()));
    });
    let stats = group.stats();
    assert!(stats.balances(), "{stats:?}");
    assert_eq!((stats.acked(), stats.lag(), stats.in_flight()), (RECORDS + stats.replayed(), 0, 0));
    assert!(done.iter().all(|times| moves || times.load(Ordering::Relaxed) == 1));
    assert!(broker.drain(Duration::from_secs(60)).is_ok());
    assert!(broker.close(Some(Duration::from_secs(60))).stopped);
}

#[test]
fn every_record_is_acknowledged_once_whoever_has_it_and_however_often_it_came_back() {
    storm(GroupConfig::earliest(), false, false);
}

#[test]
fn what_is_forgotten_comes_again_when_its_lease_is_over() {
    storm(GroupConfig::earliest().lease(Duration::from_millis(5)), true, false);
}

// A move of the cursor leaves alone what was claimed behind it.
#[test]
fn moves_of_the_cursor_leave_nothing_in_nobody_s_hands() {
    storm(GroupConfig::earliest(), false, true);
}
