//! Sleeping readers, producers of every kind, and the end of a log.
#![forbid(unsafe_code)]

use super::{PARK, Plain, bench, bench_with};
use crate::{
    log::{AppendCtl, AppendError, Limiting, LogProducer, Retain},
    ring::{Peek, Producers, Start},
    seq::Seq,
    sync::thread,
    time::{Deadline, Time},
    wait::{Sleeper, Wait},
};
use std::time::Duration;

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
    let limiting = Limiting { tag: 3, lag: 8, waiting: None };
    let full = AppendError::Full { value: Plain(0), limiting: Some(limiting), waited: Duration::from_millis(20) };
    assert_eq!(full.to_string(), "partition full after waiting 20ms: group #3 is 8 records behind");
    let nobody = AppendError::Full { value: (), limiting: None, waited: Duration::ZERO };
    assert_eq!(nobody.to_string(), "partition full after waiting 0ns: no group has taken the records that are kept");
    assert!(format!("{full:?}").contains("lag: 8"));
    assert_eq!(full.map(|Plain(value)| value + 1).into_value(), 1);
}
