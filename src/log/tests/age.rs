//! Records that get too old, by the manual clock.
#![forbid(unsafe_code)]

use super::{Outcome, PARK, Plain, full};
use crate::{
    log::{AppendCtl, Full, Log, LogConfig, LogProducer, Read, Retain},
    ring::{Producers, Start},
    seq::{Capacity, Seq},
    sync::{
        Arc,
        thread::{self, JoinHandle},
    },
    time::{Clock, Deadline, ManualClock, Time},
};
use std::time::Duration;

const AGE: u64 = 10;

struct Aged {
    log: Arc<Log<Plain>>,
    clock: Arc<ManualClock>,
}

fn aged_with(capacity: usize, producers: Producers, retain: Retain, full: Full) -> Aged {
    let clock = Arc::new(ManualClock::new());
    let config = LogConfig::new(Capacity::new(capacity).unwrap(), producers, retain);
    let max_age = Some(Duration::from_nanos(AGE));
    Aged { log: Log::new(LogConfig { full, max_age, ..config }, clock.clone()).unwrap(), clock }
}

fn aged(capacity: usize) -> Aged {
    aged_with(capacity, Producers::Shared, Retain::Recent, Full::Block)
}

impl Aged {
    fn at(&self, nanos: u64) -> &Log<Plain> {
        self.clock.set(Time::from_nanos(nanos));
        &self.log
    }

    fn publish(&self, nanos: u64) {
        self.at(nanos).try_append(Plain(nanos)).unwrap();
    }

    fn appender(&self, value: u64, deadline: Deadline) -> JoinHandle<Outcome> {
        let log = self.log.clone();
        thread::spawn(move || log.append(Plain(value), deadline, &PARK).map(|stored| stored.offset.get()))
    }
}

// A-51, A-T15
#[test]
fn a_record_exactly_as_old_as_the_limit_stays_and_a_moment_later_it_is_gone() {
    for (producers, policy) in [Producers::Exclusive, Producers::Shared]
        .into_iter()
        .flat_map(|p| [Full::Block, Full::DropOldest].map(|f| (p, f)))
    {
        let aged = aged_with(8, producers, Retain::Recent, policy);
        let mut pen = LogProducer::new(&aged.log);
        for nanos in [100, 100, 103] {
            aged.clock.set(Time::from_nanos(nanos));
            match &mut pen {
                Some(pen) => _ = pen.try_append(Plain(nanos)).unwrap(),
                None => _ = aged.log.try_append(Plain(nanos)).unwrap(),
            }
        }
        assert_eq!(aged.log.next_expiry(), Some(Time::from_nanos(111)));
        assert_eq!((aged.at(110).earliest(), aged.log.len()), (Seq::ZERO, 3));
        assert_eq!((aged.at(111).earliest(), aged.log.len()), (Seq::new(2), 1));
        assert_eq!(aged.log.next_expiry(), Some(Time::from_nanos(114)));
        assert_eq!((aged.at(113).counts().expired, aged.at(114).counts().expired), (2, 3));
        assert!(aged.log.is_empty() && aged.log.next_expiry().is_none());
        assert_eq!(aged.log.counts().dropped, 0);
    }
}

// X21: whoever asks sees no record that is too old, with nobody publishing.
#[test]
fn every_way_to_look_at_the_log_looks_at_the_age_first() {
    type Look = fn(&Log<Plain>);
    let looks: [(&str, Look); 8] = [
        ("earliest", |log| assert_eq!(log.earliest(), Seq::new(2))),
        ("len", |log| assert_eq!(log.len(), 1)),
        ("counts", |log| assert_eq!(log.counts().expired, 2)),
        ("expire", Log::expire),
        ("join", |log| assert_eq!(log.join(Start::Earliest, 2).position(), Seq::new(2))),
        ("seek", |log| assert_eq!(log.seek(&log.join(Start::End, 2), Seq::ZERO).to, Seq::new(2))),
        ("append", |log| _ = log.try_append(Plain(9)).unwrap()),
        ("read", |log| {
            let mut reader = log.reader(Seq::ZERO);
            assert!(matches!(log.read(&mut reader, 9), Read::Gap(gap) if (gap.to, gap.expired) == (Seq::new(2), 2)));
            assert_eq!(reader.position(), Seq::ZERO, "the reader goes on when its group does");
        }),
    ];
    for (name, look) in looks {
        let aged = aged(8);
        let group = aged.log.join(Start::Earliest, 1);
        [100, 102, 105].into_iter().for_each(|nanos| aged.publish(nanos));
        look(aged.at(113));
        assert_eq!(aged.log.ring().earliest(), Seq::new(2), "{name}");
        assert_eq!(group.position(), Seq::ZERO, "{name}");
    }
}

//
#[test]
fn age_counts_from_the_call_and_not_from_the_moment_it_found_room() {
    let aged = aged(1);
    let group = aged.log.join(Start::Earliest, 1);
    aged.publish(100);
    aged.clock.set(Time::from_nanos(104));
    let blocked = aged.appender(5, Deadline::Never);
    aged.clock.wait_for_sleepers(1);
    aged.clock.set(Time::from_nanos(108));
    aged.log.commit(&group, 0, Seq::ZERO, Seq::new(1)).unwrap();
    assert_eq!(blocked.join().unwrap().unwrap(), 1);
    assert_eq!(aged.log.next_expiry(), Some(Time::from_nanos(111)), "a guess from before, corrected when it is due");
    assert_eq!((aged.at(114).len(), aged.at(115).len()), (1, 0));
}

/// A full partition, a group that never reads, and a publisher that waits: age makes room without anybody's help.
#[test]
fn a_blocked_publisher_wakes_when_the_oldest_record_is_too_old() {
    for (capacity, deadline) in [1, 2, 3, 7].into_iter().flat_map(|c| {
        [Deadline::Never, Deadline::At(Time::from_nanos(111)), Deadline::At(Time::from_nanos(5_000))].map(|d| (c, d))
    }) {
        let aged = aged(capacity);
        let _stuck = aged.log.join(Start::Earliest, 1);
        aged.publish(100);
        (1..capacity).for_each(|_| aged.publish(105));
        aged.clock.set(Time::from_nanos(106));
        let blocked = aged.appender(5, deadline);
        aged.clock.wait_for_sleepers(1);
        aged.clock.set(Time::from_nanos(110));
        aged.clock.wait_for_sleepers(1);
        assert_eq!(aged.log.end(), Seq::new(capacity as u64), "too early");
        aged.clock.set(Time::from_nanos(111));
        assert_eq!(blocked.join().unwrap().unwrap(), capacity as u64, "{deadline:?}");
        assert_eq!((aged.log.counts().expired, aged.log.counts().blocked), (1, 1));
    }
}

#[test]
fn a_deadline_before_the_next_expiry_ends_the_wait() {
    let aged = aged(1);
    let _stuck = aged.log.join(Start::Earliest, 1);
    aged.publish(100);
    let blocked = aged.appender(5, Deadline::At(Time::from_nanos(110)));
    aged.clock.wait_for_sleepers(1);
    aged.clock.set(Time::from_nanos(110));
    let (value, limiting, waited) = full(blocked.join().unwrap());
    assert_eq!((value, limiting.unwrap().lag, waited), (5, 1, Duration::from_nanos(10)));
}

#[test]
fn many_blocked_publishers_get_in_one_after_the_other_as_records_age() {
    let aged = aged(2);
    let _stuck = aged.log.join(Start::Earliest, 1);
    [100, 101].into_iter().for_each(|nanos| aged.publish(nanos));
    let blocked: Vec<_> = (0..4).map(|n| aged.appender(n, Deadline::Never)).collect();
    aged.clock.wait_for_sleepers(4);
    // Each record of theirs is as old as their call.
    for nanos in [111, 112, 112, 112] {
        aged.clock.set(Time::from_nanos(nanos));
    }
    let mut offsets: Vec<_> = blocked.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
    offsets.sort_unstable();
    assert_eq!(offsets, [2, 3, 4, 5]);
}

#[test]
fn a_batch_in_place_or_staged_waits_for_age_as_well() {
    let aged = aged_with(16, Producers::Exclusive, Retain::Recent, Full::Block);
    let _stuck = aged.log.join(Start::Earliest, 1);
    let mut pen = LogProducer::new(&aged.log).unwrap();
    let fill = |pen: &mut LogProducer<Plain>, count| (0..count).for_each(|n| _ = pen.try_append(Plain(n)).unwrap());
    fill(&mut pen, 16);
    let now = |nanos| aged.clock.set(Time::from_nanos(nanos));
    assert!(pen.stage(&mut Some(Plain(0))).is_err(), "staging looks at gates and the line only");
    now(5);
    let waiting = thread::spawn(move || {
        let mut batch: Vec<_> = (0..16).map(Plain).collect();
        assert_eq!(pen.append_all(&mut batch, Deadline::Never, &PARK).unwrap().offsets.start, Seq::new(16));
        pen
    });
    aged.clock.wait_for_sleepers(1);
    now(11);
    let mut pen = waiting.join().unwrap();
    assert_eq!((aged.log.counts().expired, aged.log.len()), (16, 16));
    let waiting = thread::spawn(move || {
        pen.append_in_place(|| Plain(0), |slot| slot.0 = 7, Deadline::Never, &PARK).unwrap();
        pen
    });
    aged.clock.wait_for_sleepers(1);
    now(16);
    let mut pen = waiting.join().unwrap();
    assert_eq!((aged.log.counts().expired, aged.log.len()), (32, 1));
    pen.stage(&mut Some(Plain(1))).unwrap();
    now(20);
    assert_eq!(pen.store_staged().unwrap().offsets, Seq::new(33)..Seq::new(34));
    now(22);
    assert_eq!((aged.log.len(), aged.log.next_expiry()), (1, Some(Time::from_nanos(31))));
}

#[test]
fn the_line_never_goes_back_and_clocks_that_jump_neither_panic_nor_resurrect() {
    let aged = aged(8);
    aged.publish(1_000);
    assert_eq!(aged.at(u64::MAX).len(), 0, "forwards, as far as it goes");
    assert_eq!(aged.at(1_000).len(), 0, "what is gone stays gone");
    aged.publish(1_000);
    aged.publish(3);
    // The later record's clock had gone back: it waits for the one before it.
    assert_eq!(aged.at(500).len(), 2);
    assert_eq!(aged.at(0).len(), 2, "earlier than everything: nothing is that old");
    assert_eq!((aged.at(1_010).len(), aged.at(1_011).len()), (2, 0));
    assert_eq!(aged.log.earliest(), Seq::new(3));
    aged.publish(u64::MAX - 3);
    assert_eq!(
        (aged.at(u64::MAX).len(), aged.log.next_expiry()),
        (1, None),
        "it would be too old after the end of time"
    );
}

/// A publisher that finds no room looks at the ages themselves, whatever was expected.
#[test]
fn no_room_is_never_for_a_record_that_is_too_old() {
    let aged = aged(3);
    let group = aged.log.join(Start::Earliest, 1);
    aged.publish(1_000);
    (0..2).for_each(|nanos| aged.publish(nanos));
    aged.log.expire(); // the first one will be too old at 1,011
    aged.log.commit(&group, 0, Seq::ZERO, Seq::new(1)).unwrap();
    aged.publish(5); // in the place of the first
    assert_eq!(aged.log.next_expiry().map(Time::as_nanos).filter(|next| *next < 17), Some(16));
    aged.log.expire();
    assert_eq!(aged.log.next_expiry(), Some(Time::from_nanos(11)));
    for nanos in [11, 12, 16] {
        aged.publish(nanos);
        assert!(aged.log.try_append(Plain(0)).is_err());
    }
    assert_eq!((aged.log.counts().expired, aged.log.counts().dropped), (3, 0));
}

#[test]
fn what_every_group_has_had_goes_with_age_too_and_unacked_partitions_count_only_what_they_kept() {
    for (retain, expired) in [(Retain::Recent, 3), (Retain::Backlog, 3), (Retain::Unacked, 1)] {
        let aged = aged_with(8, Producers::Shared, retain, Full::Block);
        let group = aged.log.join(Start::Earliest, 1);
        (0..3).for_each(|_| aged.publish(100));
        aged.log.commit(&group, 0, Seq::ZERO, Seq::new(2)).unwrap();
        assert_eq!(aged.at(200).counts().expired, expired, "{retain:?}");
        assert_eq!(aged.log.len(), 0);
    }
}

/// A backlog without a group fills up, and age alone keeps it going.
#[test]
fn a_backlog_without_a_group_makes_room_by_age() {
    let aged = aged_with(2, Producers::Shared, Retain::Backlog, Full::Block);
    for nanos in [100, 105] {
        aged.publish(nanos);
    }
    assert!(aged.log.try_append(Plain(0)).is_err());
    aged.publish(111);
    assert!(aged.log.try_append(Plain(0)).is_err());
    assert_eq!(aged.log.join(Start::Earliest, 1).position(), Seq::new(1));
}

#[test]
fn looking_at_ages_keeps_no_page() {
    let aged = aged_with(1, Producers::Shared, Retain::Recent, Full::DropOldest);
    for nanos in 0..100 {
        aged.publish(nanos);
        aged.log.expire();
    }
    assert!(aged.log.ring().pages_made() <= 4 && aged.log.ring().pages_aside() <= 2);
}

#[test]
fn quiet_and_waiting_publishers_stamp_too() {
    let aged = aged(8);
    let quiet = AppendCtl { quiet: true, ..PARK };
    aged.at(100).offer_quietly(&mut Some(Plain(0))).unwrap();
    aged.log.append(Plain(1), Deadline::Never, &quiet).unwrap();
    aged.log.append_all(&mut vec![Plain(2)], Deadline::Never, &PARK).unwrap();
    aged.log.offer(&mut Some(Plain(3))).unwrap();
    assert_eq!((aged.at(110).len(), aged.at(111).len()), (4, 0));
    assert_eq!(aged.clock.now(), Time::from_nanos(111));
}
