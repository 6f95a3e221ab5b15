//! Partitions that shed records, against a list of records that says of each what became of it.
#![forbid(unsafe_code)]

use super::Plain;
use crate::{
    log::{Full, Log, LogConfig, LogProducer, Missed, Read, Retain},
    ring::{Gate, Producers, Start},
    seq::{Capacity, Seq},
    sync::Arc,
    time::ManualClock,
};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Retained,
    Overwritten { dropped: bool },
    Expired,
}

/// The list.
struct Naive {
    capacity: usize,
    full: Full,
    max_age: Option<u64>,
    records: Vec<(u64, Fate)>,
    first: usize,
    cursors: Vec<Option<usize>>,
    /// Where the records begin that nobody has needed since the last group left.
    alone: usize,
    now: u64,
}

impl Naive {
    fn expire(&mut self) {
        let Some(max_age) = self.max_age else { return };
        while self.first < self.records.len() && self.records[self.first].0 < self.now.saturating_sub(max_age) {
            self.records[self.first].1 = Fate::Expired;
            self.first += 1;
        }
    }

    fn is_missed(&self, at: usize) -> bool {
        let mut cursors = self.cursors.iter().flatten().peekable();
        if cursors.peek().is_none() { at >= self.alone } else { cursors.any(|cursor| *cursor <= at) }
    }

    fn publish(&mut self, count: usize) -> bool {
        self.expire();
        let needed = self.cursors.iter().flatten().map(|cursor| self.first.max(*cursor)).min();
        let end = self.records.len() + count;
        if self.full == Full::Block && needed.is_some_and(|needed| end - needed > self.capacity) {
            return false;
        }
        self.records.extend((0..count).map(|_| (self.now, Fate::Retained)));
        while end - self.first > self.capacity {
            let dropped = self.full == Full::DropOldest && self.is_missed(self.first);
            self.records[self.first].1 = Fate::Overwritten { dropped };
            self.first += 1;
        }
        true
    }

    fn leave(&mut self, group: usize) {
        if let Some(cursor) = self.cursors[group].take() {
            self.alone = self.first.max(cursor);
        }
    }

    fn count(&self, fate: impl Fn(Fate) -> bool) -> u64 {
        self.records.iter().filter(|(_, found)| fate(*found)).count() as u64
    }

    fn missed(&self, from: usize, to: usize) -> Missed {
        let gone = &self.records[from..to.min(self.first).max(from)];
        let expired = gone.iter().filter(|(_, fate)| *fate == Fate::Expired).count() as u64;
        Missed { overwritten: gone.len() as u64 - expired, expired }
    }
}

/// The partition and the list, side by side.
struct Pair {
    log: Arc<Log<Plain>>,
    pen: Option<LogProducer<Plain>>,
    clock: Arc<ManualClock>,
    gates: Vec<Option<Arc<Gate>>>,
    naive: Naive,
    dice: u64,
    what: String,
}

const GROUPS: usize = 3;

impl Pair {
    fn new(capacity: usize, producers: Producers, full: Full, max_age: Option<u64>, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new());
        let config = LogConfig::new(Capacity::new(capacity).unwrap(), producers, Retain::Recent);
        let log = Log::new(LogConfig { full, max_age: max_age.map(Duration::from_nanos), ..config }, clock.clone());
        let log = log.unwrap();
        let (records, cursors) = (Vec::new(), vec![None; GROUPS]);
        let naive = Naive { capacity, full, max_age, records, first: 0, cursors, alone: 0, now: 0 };
        let what = format!("{capacity} {producers:?} {full:?} {max_age:?}, seed {seed}");
        let (pen, gates) = (LogProducer::new(&log), vec![None; GROUPS]);
        Self { log, pen, clock, gates, naive, dice: seed * 2 + 1, what }
    }

    fn throw(&mut self, sides: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as usize % sides
    }

    fn publish(&mut self) {
        let (way, count) = (self.throw(4), 1 + self.throw(self.naive.capacity));
        let next = self.naive.records.len() as u64;
        let count = if way < 2 { 1 } else { count };
        let mut values: Vec<Plain> = (next..).take(count).map(Plain).collect();
        let stored = match (&mut self.pen, way) {
            (Some(pen), 0) => pen.try_append(Plain(next)).is_ok(),
            (None, 0) => self.log.try_append(Plain(next)).is_ok(),
            (Some(pen), 1) => pen.try_append_in_place(|| Plain(0), |slot| slot.0 = next).is_ok(),
            (None, 1) => self.log.offer(&mut Some(Plain(next))).is_ok(),
            (Some(pen), _) => pen.try_append_all(&mut values).is_ok(),
            (None, _) => self.log.try_append_all(&mut values).is_ok(),
        };
        assert_eq!(stored, self.naive.publish(count), "{}: {count} records at {next}", self.what);
    }

    /// A group reads one run, or passes one gap.
    fn read(&mut self, group: usize) {
        let most = 1 + self.throw(3);
        self.naive.expire();
        let (Some(gate), Some(at)) = (&self.gates[group], self.naive.cursors[group]) else { return };
        let (from, epoch) = gate.snapshot();
        assert_eq!(from, Seq::new(at as u64), "{}", self.what);
        let mut reader = self.log.reader(from);
        let first = self.naive.first;
        let to = match self.log.read(&mut reader, most) {
            Read::Gap(gap) => {
                let missed = self.naive.missed(at, first);
                assert_eq!((gap.from, gap.to, gap.expired), (from, Seq::new(first as u64), missed.expired));
                assert_eq!(gap.overwritten(), missed.overwritten);
                self.log.pass(gate, epoch, &gap).unwrap();
                self.log.passed(&gap);
                first
            }
            Read::Ready(run) => {
                assert!(first <= at && run.iter().enumerate().all(|(i, plain)| plain.0 == (at + i) as u64));
                let to = at + run.len();
                self.log.commit(gate, epoch, from, Seq::new(to as u64)).unwrap();
                to
            }
            Read::Pending => {
                assert_eq!(at, self.naive.records.len(), "{}", self.what);
                at
            }
        };
        self.naive.cursors[group] = Some(to);
    }

    fn come_or_go(&mut self, group: usize) {
        self.naive.expire();
        match self.gates[group].take() {
            Some(gate) => {
                self.log.leave(&gate);
                self.naive.leave(group);
            }
            None => {
                let (start, at) = match self.throw(3) {
                    0 => (Start::End, self.naive.records.len()),
                    1 => (Start::Earliest, self.naive.first),
                    _ => (Start::At(Seq::new(1)), self.naive.first.max(1).min(self.naive.records.len())),
                };
                let gate = self.log.join(start, group as u64);
                assert_eq!(gate.position(), Seq::new(at as u64), "{} {start:?}", self.what);
                self.gates[group] = Some(gate);
                self.naive.cursors[group] = Some(at);
            }
        }
    }

    fn seek(&mut self, group: usize) {
        self.naive.expire();
        let (first, end) = (self.naive.first, self.naive.records.len());
        let want = self.throw(end + 2);
        let (Some(gate), Some(from)) = (&self.gates[group], self.naive.cursors[group]) else { return };
        let to = want.max(first).min(end);
        let missed = if from < to { self.naive.missed(from, to) } else { Missed::default() };
        let relocated = self.log.relocate(gate, Seq::new(want as u64));
        assert_eq!((relocated.moved.from.get(), relocated.moved.to.get()), (from as u64, to as u64), "{}", self.what);
        assert_eq!(relocated.missed, missed, "{}: sought from {from} to {to}", self.what);
        self.naive.cursors[group] = Some(to);
    }

    fn compare(&mut self) {
        self.naive.expire();
        let (naive, what) = (&self.naive, &self.what);
        let counts = self.log.counts();
        assert_eq!(counts.expired, naive.count(|fate| fate == Fate::Expired), "{what}: expired");
        assert_eq!(counts.dropped, naive.count(|fate| fate == Fate::Overwritten { dropped: true }), "{what}: dropped");
        assert_eq!(self.log.earliest().get(), naive.first as u64, "{what}: earliest");
        assert_eq!(self.log.len(), naive.count(|fate| fate == Fate::Retained), "{what}: retained");
        for (gate, cursor) in self.gates.iter().zip(&naive.cursors) {
            if let (Some(gate), Some(cursor)) = (gate, *cursor) {
                assert_eq!(self.log.missed(gate.position(), self.log.end()), naive.missed(cursor, naive.records.len()));
            }
        }
        if let Some(next) = self.log.next_expiry() {
            assert!(next.as_nanos() > naive.now || naive.max_age.is_none(), "{what}: {next:?} at {}", naive.now);
        }
    }

    fn step(&mut self) {
        let group = self.throw(GROUPS);
        match self.throw(20) {
            0..9 => self.publish(),
            9..14 => self.read(group),
            14..16 => self.come_or_go(group),
            16 => self.seek(group),
            17 => self.log.expire(),
            _ => {
                let by = self.throw(4) as u64;
                self.clock.advance(Duration::from_nanos(by));
                self.naive.now += by;
            }
        }
    }
}

fn storm(full: Full, max_age: Option<u64>) {
    for seed in 0..if cfg!(miri) { 1 } else { 16 } {
        for capacity in [1, 2, 3, 4, 7] {
            for producers in [Producers::Exclusive, Producers::Shared] {
                let mut pair = Pair::new(capacity, producers, full, max_age, seed);
                for _ in 0..if cfg!(miri) { 60 } else { 300 } {
                    pair.step();
                    // Not after every step, so that several go unnoticed at once.
                    if pair.throw(3) == 0 {
                        pair.compare();
                    }
                }
                pair.compare();
            }
        }
    }
}

// A-46, X27: each loss is counted once for the partition, however many groups it hits.
#[test]
fn where_the_oldest_goes_every_record_is_accounted_for() {
    storm(Full::DropOldest, None);
}

// X21
#[test]
fn where_records_have_an_age_every_record_is_accounted_for() {
    storm(Full::Block, Some(5));
}

#[test]
fn where_the_oldest_goes_and_records_have_an_age_every_record_is_accounted_for() {
    [3, 9, 40].into_iter().for_each(|age| storm(Full::DropOldest, Some(age)));
}

/// A group so far behind that its cursor is lifted, several times, before anybody asks or it leaves.
#[test]
fn what_a_cursor_was_lifted_over_is_dropped_once() {
    for (asked, stays) in [(false, false), (true, false), (false, true)] {
        let pair = Pair::new(8, Producers::Shared, Full::DropOldest, None, 0);
        let (log, gate) = (pair.log.clone(), pair.log.join(Start::Earliest, 1));
        for n in 1..50u64 {
            log.ring().skip_to((n << 34) - 4);
            (0..9).for_each(|_| _ = log.try_append(Plain(0)).unwrap());
            if asked {
                assert_eq!(log.counts().dropped, log.earliest().get());
            }
        }
        assert!(gate.lifted().0 > 0);
        let earliest = log.earliest();
        if stays {
            let late = log.join(Start::Earliest, 2);
            log.leave(&late);
        } else {
            log.leave(&gate);
        }
        assert_eq!(log.counts().dropped, earliest.get(), "asked: {asked}, stays: {stays}");
    }
}
