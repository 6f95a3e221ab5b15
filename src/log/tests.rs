//! What publishers and groups of one partition may rely on. Time is the manual clock's.
#![forbid(unsafe_code)]

use super::{AppendCtl, AppendError, Limiting, Log, LogConfig, LogProducer, Retain};
use crate::{
    ring::{Gate, Peek, Producers, Start},
    seq::{Capacity, Seq},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        thread::{self, JoinHandle},
    },
    time::{Clock, Deadline, ManualClock, Time},
    wait::{Canceller, Sleeper, Wait, WaitPolicy},
};
use std::time::Duration;

/// A value without `Debug`, `Clone` or anything else.
struct Plain(u64);

struct Bench {
    log: Arc<Log<Plain>>,
    clock: Arc<ManualClock>,
}

/// Producers that do not spin, so that "blocked" is "asleep".
const PARK: AppendCtl<'static> = AppendCtl { cancel: None, refuse: None, quiet: false, wait: WaitPolicy::Park };

fn bench_with(capacity: usize, retain: Retain, producers: Producers) -> Bench {
    let clock = Arc::new(ManualClock::new());
    let capacity = Capacity::new(capacity).unwrap();
    let config = LogConfig { capacity, producers, retain, prefault: false };
    Bench { log: Log::new(config, clock.clone()).unwrap(), clock }
}

fn bench(capacity: usize, retain: Retain) -> Bench {
    bench_with(capacity, retain, Producers::Shared)
}

type Outcome = Result<u64, AppendError<Plain>>;

impl Bench {
    fn fill(&self, count: u64) {
        for n in 0..count {
            self.log.try_append(Plain(n)).unwrap();
        }
    }

    /// A thread that appends `value` and waits for room until `deadline`.
    fn appender(&self, value: u64, deadline: Deadline) -> JoinHandle<Outcome> {
        let log = self.log.clone();
        thread::spawn(move || log.append(Plain(value), deadline, &PARK).map(|stored| stored.offset.get()))
    }

    fn commit(&self, gate: &Gate, count: u64) {
        let (at, epoch) = gate.snapshot();
        self.log.commit(gate, epoch, at, at.plus(count)).unwrap();
    }

    /// Reads and commits all there is.
    fn drain(&self, gate: &Gate) -> Vec<u64> {
        let (from, epoch) = gate.snapshot();
        let mut reader = self.log.reader(from);
        let mut read = Vec::new();
        loop {
            let to = match reader.peek(usize::MAX) {
                Peek::Pending => break,
                Peek::Lapped { earliest } => panic!("lapped: {earliest}"),
                Peek::Ready(run) => {
                    read.extend(run.iter().map(|plain| plain.0));
                    run.first().plus(run.len() as u64)
                }
            };
            reader.advance(to);
        }
        self.log.commit(gate, epoch, from, reader.position()).unwrap();
        read
    }
}

fn full(outcome: Outcome) -> (u64, Option<Limiting>, Duration) {
    match outcome {
        Err(AppendError::Full { value, limiting, waited }) => (value.0, limiting, waited),
        other => panic!("{other:?}"),
    }
}

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
        let limiting = Some(Limiting { tag: 7, lag: capacity as u64 });
        assert_eq!(full(refused), (99, limiting, Duration::ZERO));
        assert_eq!(slow.position(), Seq::ZERO);
        assert_eq!(bench.log.counts().blocked, 0, "B-V2: a call that does not wait is not a wait");
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

// A-48, A-T21: also with the longest deadlines there are.
#[test]
fn closing_wakes_every_blocked_publisher_and_gives_its_value_back() {
    let bench = bench(1, Retain::Recent);
    let group = bench.log.join(Start::Earliest, 1);
    bench.fill(1);
    let longest = Deadline::within(Some(Duration::MAX), &*bench.clock);
    let blocked = [Deadline::Never, longest, Deadline::At(Time::MAX)].map(|until| bench.appender(9, until));
    bench.clock.wait_for_sleepers(3);
    assert_eq!(bench.log.close().get(), 1);
    for appender in blocked {
        assert!(matches!(appender.join().unwrap(), Err(AppendError::Closed(Plain(9)))));
    }
    assert!(matches!(bench.log.try_append(Plain(3)), Err(AppendError::Closed(Plain(3)))));
    assert_eq!(bench.drain(&group), [0], "a closed partition still serves what it has");
    assert!(matches!(bench.log.try_append(Plain(3)), Err(AppendError::Closed(_))), "closed stays closed");
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
        Err(AppendError::WouldDeadlock { value: Plain(4), limiting: Limiting { tag: 7, lag: 1 } }) => {}
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

#[test]
fn a_publish_wakes_a_sleeping_reader_and_a_quiet_one_does_not() {
    let bench = bench(8, Retain::Recent);
    let reader = thread::spawn({
        let (log, clock) = (bench.log.clone(), bench.clock.clone());
        move || {
            let mut reader = log.reader(Seq::ZERO);
            let wait = Sleeper::new(clock).wait(
                [log.not_empty()],
                None,
                || matches!(reader.peek(8), Peek::Ready(run) if run.len() == 2),
            );
            assert_eq!(wait, Wait::Ready);
        }
    });
    bench.clock.wait_for_sleepers(1);
    bench.log.append(Plain(0), Deadline::Now, &AppendCtl { quiet: true, ..PARK }).unwrap();
    assert_eq!((bench.clock.sleepers(), bench.log.not_empty().waiting()), (1, 1));
    bench.log.append(Plain(1), Deadline::Now, &PARK).unwrap();
    reader.join().unwrap();
}

#[test]
fn an_exclusive_producer_waits_like_the_others_and_publishes_in_place() {
    let bench = bench_with(1, Retain::Recent, Producers::Exclusive);
    let group = bench.log.join(Start::Earliest, 1);
    let mut producer = LogProducer::new(&bench.log).unwrap();
    assert!(LogProducer::new(&bench.log).is_none());
    producer.try_append(Plain(1)).unwrap();
    assert!(matches!(producer.try_append(Plain(2)), Err(AppendError::Full { value: Plain(2), .. })));
    let blocked = thread::spawn(move || {
        let stored = producer.append(Plain(2), Deadline::Never, &PARK).map(|stored| stored.offset.get());
        (stored.unwrap(), producer)
    });
    bench.clock.wait_for_sleepers(1);
    assert_eq!(bench.drain(&group), [1]);
    let (offset, mut producer) = blocked.join().unwrap();
    assert_eq!(offset, 1);
    let filler = thread::spawn(move || {
        producer.append_in_place(|| Plain(0), |plain| plain.0 = 30, Deadline::Never, &PARK).map(|stored| stored.offset)
    });
    bench.clock.wait_for_sleepers(1);
    assert_eq!(bench.drain(&group), [2]);
    assert_eq!(filler.join().unwrap().unwrap().get(), 2);
    assert_eq!(bench.drain(&group), [30]);
}

// X17, Q-70: what was accepted is read, what was not comes back; nothing is both or neither.
#[test]
fn closing_cuts_exactly() {
    for round in 0..if cfg!(miri) { 2 } else { 100 } {
        let bench = bench(1024, Retain::Recent);
        let group = bench.log.join(Start::Earliest, 1);
        let producers: Vec<_> = (0..3_u64)
            .map(|_| {
                let log = bench.log.clone();
                thread::spawn(move || (0..300).take_while(|n| log.try_append(Plain(*n)).is_ok()).count() as u64)
            })
            .collect();
        (0..round * 20).for_each(|_| std::hint::spin_loop());
        let end = bench.log.close().get();
        let accepted: u64 = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
        assert_eq!((accepted, bench.log.end().get()), (end, end));
        assert_eq!(bench.drain(&group).len() as u64, end);
    }
}

// Every producer gets through, and each one's records stay in order, though the partition holds almost nothing.
#[test]
fn many_publishers_and_a_tiny_capacity_lose_nothing_and_wake_whom_they_must() {
    let count = if cfg!(miri) { 10 } else { 2_000 };
    for capacity in [1, 3] {
        let bench = bench(capacity, Retain::Recent);
        let group = bench.log.join(Start::Earliest, 1);
        let producers: Vec<_> = (0..3_u64)
            .map(|producer| {
                let log = bench.log.clone();
                thread::spawn(move || {
                    for n in 0..count {
                        log.append(Plain(producer << 32 | n), Deadline::Never, &PARK).unwrap();
                    }
                })
            })
            .collect();
        let mut next = [0; 3];
        let mut sleeper = Sleeper::new(bench.clock.clone());
        while next.iter().sum::<u64>() < 3 * count {
            let from = group.position();
            let mut reader = bench.log.reader(from);
            sleeper.wait([bench.log.not_empty()], None, || !matches!(reader.peek(1), Peek::Pending));
            drop(reader);
            for record in bench.drain(&group) {
                let (producer, n) = ((record >> 32) as usize, record & u64::from(u32::MAX));
                assert_eq!(n, next[producer], "in order");
                next[producer] += 1;
            }
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    }
}

#[test]
fn errors_say_who_where_and_how_many_without_asking_the_value_for_anything() {
    let limiting = Limiting { tag: 3, lag: 8 };
    let full = AppendError::Full { value: Plain(0), limiting: Some(limiting), waited: Duration::from_millis(20) };
    assert_eq!(full.to_string(), "partition full after waiting 20ms: group #3 is 8 records behind");
    let nobody = AppendError::Full { value: (), limiting: None, waited: Duration::ZERO };
    assert_eq!(nobody.to_string(), "partition full after waiting 0ns: no group has taken the records that are kept");
    assert!(format!("{full:?}").contains("lag: 8"));
    assert_eq!(full.map(|Plain(value)| value + 1).into_value(), 1);
}
