//! The threads of a scenario.
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use ringlog::internals::ring::{Exclusive, Gate, Peek, Reader, Start, Why};
use ringlog::internals::seq::Seq;

use super::{Record, Shape, Stage, Starts};
use crate::support::history::{Delivered, Published, Reading};

/// The gates of the groups, joined before the first record.
pub(crate) fn groups(stage: &Stage) -> Vec<Arc<Gate>> {
    let start = if stage.scenario.starts == Starts::End { Start::End } else { Start::Earliest };
    (0..stage.scenario.groups).map(|n| stage.ring.join(start, n as u64)).collect()
}

/// Starts the producers; each returns what it published, and what it wrote with.
pub(crate) fn producers(stage: &Arc<Stage>) -> Vec<JoinHandle<(Vec<Published>, Pen)>> {
    if stage.scenario.shape != Shape::Shared {
        let exclusive = stage.ring.exclusive().expect("the first to ask");
        assert!(stage.ring.exclusive().is_none(), "there is one exclusive producer");
        let stage = stage.clone();
        return vec![thread::spawn(move || produce(&stage, 0, Pen::Exclusive(exclusive)))];
    }
    let spawn = |producer| {
        let stage = stage.clone();
        thread::spawn(move || {
            stage.ready.fetch_add(1, Ordering::Relaxed);
            while stage.ready.load(Ordering::Relaxed) < stage.scenario.producers {
                thread::yield_now();
            }
            produce(&stage, producer, Pen::Shared)
        })
    };
    (0..stage.scenario.producers).map(spawn).collect()
}

/// What a producer writes with.
pub(crate) enum Pen {
    Shared,
    Exclusive(Exclusive<Record>),
}

/// What one attempt came to: where the records lie, or why not.
type Attempt = Result<(Seq, u64), Why>;

fn produce(stage: &Stage, producer: u32, mut pen: Pen) -> (Vec<Published>, Pen) {
    let published = publish(stage, producer, 0..stage.scenario.records, &mut pen);
    (published, pen)
}

/// Publishes the records of these numbers, unless the ring is sealed before.
pub(crate) fn publish(stage: &Stage, producer: u32, numbers: Range<u64>, pen: &mut Pen) -> Vec<Published> {
    let (mut published, mut number, total) = (Vec::new(), numbers.start, numbers.end);
    while number < total {
        let batch = (stage.scenario.batch.min(stage.scenario.capacity) as u64).min(total - number);
        let called = stage.ticks.next();
        match attempt(stage, producer, number, batch, pen) {
            Ok((first, many)) => {
                let returned = stage.ticks.next();
                published.extend((0..many).map(|n| {
                    let (offset, number) = (first.plus(n).get(), number + n);
                    Published { producer, number, offset, called, returned }
                }));
                number += many;
            }
            Err(Why::Full) if !stage.scenario.lossy => thread::yield_now(),
            Err(Why::Sealed) => break,
            Err(why) => panic!("refused: {why:?}"),
        }
    }
    published
}

fn attempt(stage: &Stage, producer: u32, number: u64, batch: u64, pen: &mut Pen) -> Attempt {
    if batch > 1 {
        let mut values: Vec<_> = (0..batch).map(|n| Record::new(producer, number + n)).collect();
        let range = match pen {
            Pen::Shared => stage.ring.try_push_all(&mut values)?,
            Pen::Exclusive(exclusive) => exclusive.try_push_all(&mut values)?,
        };
        assert!(values.is_empty(), "an accepted batch is taken");
        return Ok((range.start, batch));
    }
    let one = |offset| (offset, 1);
    match pen {
        Pen::Exclusive(exclusive) if stage.scenario.shape == Shape::InPlace => {
            let fresh = || Record::new(producer, number);
            exclusive.try_push_with(fresh, |record| record.become_(producer, number)).map(one)
        }
        Pen::Exclusive(exclusive) => exclusive.try_push(Record::new(producer, number)).map(one).map_err(back),
        Pen::Shared => stage.ring.try_push(Record::new(producer, number)).map(one).map_err(back),
    }
}

/// The value came back whole; why it was refused.
fn back(refused: ringlog::internals::ring::Refused<Record>) -> Why {
    refused.value.check();
    refused.why
}

/// Seals the ring once a part of the records is in.
pub(crate) fn seal_midway(stage: &Stage) {
    let enough = stage.scenario.records / 2;
    while stage.ring.end().since(Seq::new(stage.scenario.first)) < enough {
        thread::yield_now();
    }
    let end = stage.ring.seal();
    assert_eq!(end, stage.ring.end(), "a sealed end is final");
}

/// Reads until the ring is over, commits as it goes, and follows whoever moves its gate.
pub(crate) fn group(stage: &Arc<Stage>, n: usize, gate: &Arc<Gate>) -> Reading {
    // Plain threads: a scope's own counter is in the prebuilt standard library, where ThreadSanitizer is blind.
    let mover = |_| {
        let (stage, gate) = (stage.clone(), gate.clone());
        thread::spawn(move || move_about(&stage, &gate))
    };
    let movers: Vec<_> = (0..stage.scenario.movers).map(mover).collect();
    let mut at = gate.snapshot();
    let mut reading = Reading { name: format!("group {n}"), start: at.0.get(), ..Reading::default() };
    let mut reader = stage.ring.reader(at.0);
    while let Some(next) = step(stage, gate, &mut reader, at, &mut reading) {
        at = next;
    }
    movers.into_iter().for_each(|thread| thread.join().expect("a mover ends"));
    stage.ring.leave(gate);
    reading.end = at.0.get();
    reading
}

/// One look and one commit. `None` at the end of a ring that is over.
fn step(
    stage: &Stage,
    gate: &Gate,
    reader: &mut Reader<Record>,
    at: (Seq, u32),
    to: &mut Reading,
) -> Option<(Seq, u32)> {
    let (position, epoch) = at;
    let over = stage.over.load(Ordering::Acquire);
    let next = match reader.peek(7) {
        Peek::Ready(run) => {
            assert_eq!(run.first(), position, "a run begins where its reader stands");
            to.records.extend(delivered(run.first(), run.iter()));
            run.first().plus(run.len() as u64)
        }
        Peek::Pending if over && position == stage.ring.end() => return None,
        Peek::Pending => {
            thread::yield_now();
            position
        }
        Peek::Lapped { .. } if gate.epoch() != epoch => position,
        Peek::Lapped { earliest } => panic!("{}: lapped at {position} behind its own gate: {earliest}", to.name),
    };
    reader.advance(next);
    if gate.commit(epoch, position, next).is_ok() {
        return Some((next, epoch));
    }
    // Moved: what was read since the move belongs to the old reading; go on where the gate stands now.
    let (there, epoch) = gate.snapshot();
    reader.jump(there);
    restart(to, there);
    Some((there, epoch))
}

/// A moved reader begins a new reading; what it read before is checked by having been in order.
fn restart(reading: &mut Reading, at: Seq) {
    reading.records.iter().zip(reading.records.iter().skip(1)).for_each(|(one, two)| {
        assert_eq!(one.offset.wrapping_add(1), two.offset, "in order before the move");
    });
    (reading.start, reading.records) = (at.get(), Vec::new());
}

fn delivered<'a>(first: Seq, records: impl Iterator<Item = &'a Record>) -> Vec<Delivered> {
    let one = |(n, record): (usize, &Record)| {
        record.check();
        let offset = first.plus(n as u64).get();
        Delivered { offset, producer: record.producer, number: record.number }
    };
    records.enumerate().map(one).collect()
}

/// Moves somebody's gate back and forth until the ring is over.
fn move_about(stage: &Stage, gate: &Gate) {
    for n in 0..stage.scenario.records / 8 {
        let back = stage.ring.earliest();
        let want = if n % 2 == 0 { back } else { stage.ring.end() };
        let moved = stage.ring.seek(gate, want);
        let reach = moved.to.since(moved.from).min(moved.from.since(moved.to));
        assert!(reach <= u64::MAX / 2, "landed at {} from {}", moved.to, moved.from);
        thread::yield_now();
    }
}

/// Joins at the end, the start, or in between, reads a little, and leaves; over and over.
pub(crate) fn churn(stage: &Stage, n: usize) -> Vec<Reading> {
    let mut readings = Vec::new();
    while !stage.over.load(Ordering::Acquire) && readings.len() < 10_000 {
        let round = readings.len();
        let want = match round % 3 {
            0 => Start::End,
            1 => Start::Earliest,
            _ => Start::At(stage.ring.end().minus(1)),
        };
        let gate = stage.ring.join(want, 1_000 + n as u64);
        let (start, epoch) = gate.snapshot();
        let name = format!("joiner {n}, round {round}, {want:?}");
        let mut reading = Reading { name, start: start.get(), ..Reading::default() };
        let (mut reader, mut at) = (stage.ring.reader(start), (start, epoch));
        for _ in 0..4 {
            match step(stage, &gate, &mut reader, at, &mut reading) {
                Some(next) => at = next,
                None => break,
            }
        }
        stage.ring.leave(&gate);
        assert!(gate.commit(epoch, at.0, at.0.plus(1)).is_err(), "a commit after leaving is refused");
        reading.end = at.0.get();
        readings.push(reading);
    }
    readings
}

/// Reads without a gate, slowly: it is lapped, told so, and what it holds stays whole.
pub(crate) fn lapped(stage: &Stage, n: usize) -> Vec<Reading> {
    let mut chase = Chase::new(stage, format!("lapped {n}"), Seq::new(stage.scenario.first));
    while chase.look(|_| (0..n + 1).for_each(|_| thread::yield_now())) {}
    vec![chase.reading]
}

/// The same, but in the middle of a run, once, it stops until everything is published.
pub(crate) fn holder(stage: &Stage, n: usize) -> Vec<Reading> {
    let mut chase = Chase::new(stage, format!("holder {n}"), Seq::new(stage.scenario.first));
    let at = stage.scenario.records * (n as u64 + 1) / 4;
    let mut held = false;
    while chase.look(|so_far| {
        while !held && so_far >= at && !stage.over.load(Ordering::Acquire) {
            thread::yield_now();
        }
        held = held || so_far >= at;
    }) {}
    vec![chase.reading]
}

/// Leaves after a few looks and comes back where its cursor stands: one reading in many parts, which lacks nothing.
pub(crate) fn leaver(stage: &Stage, n: usize) -> Vec<Reading> {
    let cursor = stage.ring.follow(Start::At(Seq::new(stage.scenario.first)), 2_000 + n as u64);
    let (mut readings, mut parts) = (Vec::<Reading>::new(), 0);
    loop {
        let (at, epoch) = cursor.snapshot();
        let last = readings.last().map_or(stage.scenario.first, |reading| reading.end);
        assert!(parts == 0 || at.get() == last, "the cursor stands where the reader left");
        let mut chase = Chase::new(stage, format!("leaver {n}, part {parts}"), at);
        let more = (0..5).all(|_| chase.look(|_| thread::yield_now()));
        cursor.commit(epoch, at, Seq::new(chase.reading.end)).expect("nobody else moves it");
        if parts < 1_000 || !more {
            readings.push(chase.reading);
        } else if let Some(reading) = readings.last_mut() {
            // Long enough; only the account goes on.
            reading.gaps.extend(chase.reading.gaps);
            reading.records.extend(chase.reading.records);
            reading.end = chase.reading.end;
        }
        parts += 1;
        if !more {
            break;
        }
        thread::yield_now();
    }
    stage.ring.leave(&cursor);
    readings
}

/// A reader that nobody waits for, and what it saw.
struct Chase<'a> {
    stage: &'a Stage,
    reader: Reader<Record>,
    at: Seq,
    reading: Reading,
}

impl<'a> Chase<'a> {
    fn new(stage: &'a Stage, name: String, at: Seq) -> Self {
        let reading = Reading { name, start: at.get(), end: at.get(), ..Reading::default() };
        Self { stage, reader: stage.ring.reader(at), at, reading }
    }

    /// One look; `dawdle` is called with records in hand, and told how far the reader is. False when all is over and read.
    fn look(&mut self, mut dawdle: impl FnMut(u64)) -> bool {
        let (ring, first) = (&self.stage.ring, Seq::new(self.stage.scenario.first));
        let over = self.stage.over.load(Ordering::Acquire);
        match self.reader.peek(5) {
            Peek::Ready(run) => {
                assert_eq!(run.first(), self.at, "a run begins where its reader stands");
                self.reading.records.extend(delivered(run.first(), run.iter()));
                dawdle(self.at.since(first));
                run.iter().for_each(Record::check);
                self.at = self.at.plus(run.len() as u64);
                self.reader.advance(self.at);
            }
            Peek::Pending if over && self.at == ring.end() => return false,
            Peek::Pending => {
                self.reader.release();
                thread::yield_now();
            }
            Peek::Lapped { earliest } => {
                self.reading.gaps.push((self.at.get(), earliest.get()));
                self.reader.jump(earliest);
                self.at = earliest;
            }
        }
        self.reading.end = self.at.get();
        true
    }
}
