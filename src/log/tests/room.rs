//! Who waits for room, for how long, and who is told of it.
#![forbid(unsafe_code)]

use super::{PARK, Plain, bench, full};
use crate::{
    log::{AppendCtl, AppendError, Limiting, Retain},
    ring::Start,
    seq::Seq,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        thread,
    },
    time::{Clock, Deadline, Time},
    wait::Canceller,
};
use std::time::Duration;

// A-T3, A-23, A-46: without a group the records are kept, the partition fills, and the error names nobody.
#[test]
fn a_backlog_fills_up_without_a_group_and_goes_on_when_one_has_read() {
    let bench = bench(2, Retain::Backlog);
    bench.fill(2);
    let third = bench.appender(2, Deadline::At(Time::from_nanos(20)));
    bench.clock.wait_for_sleepers(1);
    bench.clock.advance(Duration::from_nanos(20));
    assert_eq!(full(third.join().unwrap()), (2, None, Duration::from_nanos(20)));
    let billing = bench.log.join(Start::Earliest, 1);
    assert_eq!(bench.drain(&billing), [0, 1]);
    assert_eq!(bench.log.try_append(Plain(2)).unwrap().offset.get(), 2);
    assert_eq!(bench.drain(&billing), [2]);
}

#[test]
fn a_backlog_gates_again_when_its_last_group_leaves() {
    let bench = bench(2, Retain::Backlog);
    let group = bench.log.join(Start::Earliest, 1);
    bench.fill(2);
    assert_eq!(bench.drain(&group), [0, 1]);
    bench.log.leave(&group);
    bench.log.leave(&group); // once is enough, twice is harmless
    let stored = (0..10).map_while(|n| bench.log.try_append(Plain(n)).ok()).count();
    assert!(stored <= 2, "{stored} records stored into a capacity of 2 that nobody empties");
    let late = bench.log.join(Start::Earliest, 2);
    let kept = bench.log.end().since(late.position());
    assert_eq!(bench.drain(&late).len() as u64, kept);
}

//
#[test]
fn full_names_the_slowest_group_and_its_lag() {
    for capacity in [1, 2, 3, 7, 1000] {
        let bench = bench(capacity, Retain::Recent);
        let (slow, fast) = (bench.log.join(Start::Earliest, 7), bench.log.join(Start::Earliest, 8));
        bench.fill(capacity as u64);
        bench.commit(&fast, capacity as u64);
        let refused = bench.log.try_append(Plain(99)).map(|stored| stored.offset.get());
        let limiting = Some(Limiting { tag: 7, lag: capacity as u64, waiting: None });
        assert_eq!(full(refused), (99, limiting, Duration::ZERO));
        assert_eq!(slow.position(), Seq::ZERO);
        assert_eq!(bench.log.counts().blocked, 0, "a call that does not wait is not a wait");
        assert_eq!(bench.log.counts().rejected, 1);
    }
}

// A-58, B-37
#[test]
fn a_commit_wakes_a_blocked_publisher() {
    for capacity in [1, 2, 64] {
        let bench = bench(capacity, Retain::Recent);
        let group = bench.log.join(Start::Earliest, 1);
        bench.fill(capacity as u64);
        let blocked = bench.appender(50, Deadline::Never);
        bench.clock.wait_for_sleepers(1);
        assert_eq!(bench.log.end().get(), capacity as u64, "a blocked publisher holds no claim");
        bench.commit(&group, 1);
        assert_eq!(blocked.join().unwrap().unwrap(), capacity as u64);
        assert_eq!(bench.log.counts().blocked, 1);
    }
}

#[test]
fn a_deadline_that_is_past_does_not_wait() {
    let bench = bench(1, Retain::Recent);
    let _group = bench.log.join(Start::Earliest, 1);
    bench.fill(1);
    bench.clock.advance(Duration::from_secs(1));
    for deadline in [Deadline::Now, Deadline::At(Time::ZERO), Deadline::At(bench.clock.now())] {
        let outcome = bench.log.append(Plain(1), deadline, &PARK).map(|stored| stored.offset.get());
        assert_eq!(full(outcome).2, Duration::ZERO);
    }
    assert_eq!(bench.log.counts().blocked, 0);
}

#[test]
fn cancelling_gives_the_value_back_and_the_room_to_the_next() {
    let bench = bench(1, Retain::Recent);
    let group = bench.log.join(Start::Earliest, 1);
    bench.fill(1);
    let cancel = Canceller::new();
    let cancelled = thread::spawn({
        let (log, cancel) = (bench.log.clone(), cancel.clone());
        move || {
            let ctl = AppendCtl { cancel: Some(&cancel), ..PARK };
            log.append(Plain(5), Deadline::Never, &ctl).map(|stored| stored.offset.get())
        }
    });
    bench.clock.wait_for_sleepers(1);
    let second = bench.appender(6, Deadline::Never);
    bench.clock.wait_for_sleepers(2);
    cancel.cancel();
    assert!(matches!(cancelled.join().unwrap(), Err(AppendError::Cancelled(Plain(5)))));
    bench.commit(&group, 1);
    assert_eq!(second.join().unwrap().unwrap(), 1);
}

#[test]
fn a_publisher_never_waits_for_a_group_that_it_serves_itself() {
    let bench = bench(1, Retain::Recent);
    let _mine = bench.log.join(Start::Earliest, 7);
    bench.fill(1);
    let ctl = AppendCtl { refuse: Some(&|tag| tag == 7), ..PARK };
    match bench.log.append(Plain(4), Deadline::Never, &ctl) {
        Err(AppendError::WouldDeadlock { value: Plain(4), limiting: Limiting { tag: 7, lag: 1, waiting: None } }) => {}
        other => panic!("{other:?}"),
    }
}

// The limiting group changes while the publisher sleeps, and another publisher sleeps in front of it.
#[test]
fn a_publisher_looks_again_for_whom_it_waits_whenever_a_group_commits() {
    let bench = bench(1, Retain::Recent);
    let _slow = bench.log.join(Start::Earliest, 7);
    bench.fill(1);
    let bystander = bench.appender(1, Deadline::Never);
    bench.clock.wait_for_sleepers(1);
    let asked = Arc::new(AtomicU64::new(0));
    let forbidden = Arc::new(AtomicU64::new(u64::MAX));
    let wary = thread::spawn({
        let (log, asked, forbidden) = (bench.log.clone(), asked.clone(), forbidden.clone());
        move || {
            let refuse = |tag: u64| {
                asked.fetch_add(1, Ordering::Relaxed);
                tag == forbidden.load(Ordering::Acquire)
            };
            let ctl = AppendCtl { refuse: Some(&refuse), ..PARK };
            log.append(Plain(2), Deadline::Never, &ctl).map(|stored| stored.offset.get())
        }
    });
    bench.clock.wait_for_sleepers(2);
    forbidden.store(7, Ordering::Release);
    bench.log.not_full().notify(); // as a commit does that makes no room
    assert!(matches!(wary.join().unwrap(), Err(AppendError::WouldDeadlock { .. })));
    assert!(asked.load(Ordering::Relaxed) >= 2);
    bench.log.close();
    assert!(bystander.join().unwrap().is_err());
}

// B-V11: nobody sleeps beside room, however few commits there are.
#[test]
fn one_commit_of_many_serves_as_many_blocked_publishers() {
    let bench = bench(4, Retain::Recent);
    let group = bench.log.join(Start::Earliest, 1);
    bench.fill(4);
    let blocked: Vec<_> = (0..4).map(|n| bench.appender(n, Deadline::Never)).collect();
    bench.clock.wait_for_sleepers(4);
    bench.commit(&group, 4);
    let mut offsets: Vec<_> = blocked.into_iter().map(|appender| appender.join().unwrap().unwrap()).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [4, 5, 6, 7]);
}

#[test]
fn a_batch_that_finds_too_little_room_lets_the_next_one_have_it() {
    let bench = bench(2, Retain::Recent);
    let group = bench.log.join(Start::Earliest, 1);
    bench.fill(2);
    let batch = thread::spawn({
        let log = bench.log.clone();
        move || log.append_all(&mut vec![Plain(10), Plain(11)], Deadline::Never, &PARK)
    });
    bench.clock.wait_for_sleepers(1);
    let single = bench.appender(12, Deadline::Never);
    bench.clock.wait_for_sleepers(2);
    bench.commit(&group, 1);
    assert_eq!(single.join().unwrap().unwrap(), 2);
    bench.clock.wait_for_sleepers(1);
    bench.commit(&group, 2);
    assert_eq!(batch.join().unwrap().unwrap().offsets, Seq::new(3)..Seq::new(5));
}

#[test]
fn a_batch_larger_than_the_capacity_is_an_error_and_stays_with_the_caller() {
    let bench = bench(2, Retain::Recent);
    let mut values = vec![Plain(0), Plain(1), Plain(2)];
    match bench.log.append_all(&mut values, Deadline::Never, &PARK) {
        Err(AppendError::TooLarge { len: 3, capacity: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(values.len(), 3);
    values.pop();
    let stored = bench.log.try_append_all(&mut values).unwrap();
    assert_eq!((stored.offsets, stored.kept, values.len()), (Seq::ZERO..Seq::new(2), true, 0));
}

// B-15, C-22: nobody listens and nothing is kept, yet the offset is used up.
#[test]
fn unacked_keeps_nothing_for_nobody() {
    let bench = bench(2, Retain::Unacked);
    for n in 0..5 {
        let stored = bench.log.try_append(Plain(n)).unwrap();
        assert_eq!((stored.offset.get(), stored.kept), (n, false));
    }
    assert_eq!((bench.log.earliest(), bench.log.len()), (bench.log.end(), 0));
    let group = bench.log.join(Start::Earliest, 1);
    assert_eq!(group.position().get(), 5);
    assert!(bench.log.try_append(Plain(5)).unwrap().kept);
    assert_eq!(bench.drain(&group), [5]);
    assert_eq!(bench.log.len(), 0, "a record goes once every group is past");
    assert_eq!(bench.log.seek(&group, Seq::ZERO).to.get(), 6, "and does not come back");
    bench.log.leave(&group);
    assert!(!bench.log.try_append(Plain(6)).unwrap().kept);
}

#[test]
fn recent_lets_nobody_wait_without_a_group_and_keeps_the_last_records() {
    let bench = bench(3, Retain::Recent);
    for n in 0..20 {
        assert!(bench.log.try_append(Plain(n)).unwrap().kept);
    }
    let group = bench.log.join(Start::Earliest, 1);
    let read = bench.drain(&group);
    assert!(!read.is_empty() && read.len() <= 3, "{read:?}");
    assert_eq!(read.last(), Some(&19));
}

#[test]
fn seeking_forward_makes_room_and_wakes_a_publisher() {
    let bench = bench(2, Retain::Recent);
    let group = bench.log.join(Start::Earliest, 1);
    bench.fill(2);
    let blocked = bench.appender(7, Deadline::Never);
    bench.clock.wait_for_sleepers(1);
    let moved = bench.log.seek(&group, Seq::new(1000));
    assert_eq!((moved.from.get(), moved.to.get()), (0, 2));
    assert_eq!(blocked.join().unwrap().unwrap(), 2);
}

#[test]
fn leaving_makes_room_and_wakes_a_publisher() {
    let bench = bench(2, Retain::Recent);
    let (fast, slow) = (bench.log.join(Start::End, 1), bench.log.join(Start::Earliest, 2));
    bench.fill(1);
    bench.commit(&fast, 1);
    bench.fill(1);
    bench.commit(&fast, 1);
    let blocked = bench.appender(7, Deadline::Never);
    bench.clock.wait_for_sleepers(1);
    bench.log.leave(&slow);
    assert_eq!(blocked.join().unwrap().unwrap(), 2);
}
