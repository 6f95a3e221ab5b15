//! Prompt rings: after every step exactly those records are dropped that everybody is past.
#![forbid(unsafe_code)]

use super::{Pen, everywhere};
use crate::ring::{Gate, Options, Peek, Producers, Reader, Ring, Start};
use crate::seq::{Capacity, Geometry, Seq};
use crate::sync::{Arc, Mutex, lock};
use std::collections::BTreeSet;

/// Which records have been dropped, in order.
type Bin = Arc<Mutex<Vec<u64>>>;

/// A record that says when it goes, and panics then if it is a multiple of seven.
struct Noisy(u64, Bin);

impl Drop for Noisy {
    fn drop(&mut self) {
        lock(&self.1).push(self.0);
        if self.0 % 7 == 0 {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

fn ring(capacity: usize, producers: Producers, first: u64, lossy: bool) -> Ring<Noisy> {
    let options = Options::new(Capacity::new(capacity).unwrap(), producers);
    Ring::new(Options { first: Seq::new(first), prompt: true, lossy, ..options }).unwrap()
}

/// A group: its cursor, its reader, and where the run begins that its handler has in hand.
struct Group {
    gate: Arc<Gate>,
    reader: Reader<Noisy>,
    in_hand: Option<(u64, u64, u32)>,
    /// Its group was deleted under it.
    deleted: bool,
}

/// A ring with its groups, and what is to be dropped.
struct Bench {
    ring: Ring<Noisy>,
    pen: Pen<Noisy>,
    geometry: Geometry,
    bin: Bin,
    groups: Vec<Group>,
    /// How many of them there have been at a time, and how many there may be.
    most: usize,
    limit: usize,
    first: u64,
    published: u64,
    /// All below this have been dropped; of the others, those that have been, and those that should have been.
    below: u64,
    dropped: BTreeSet<u64>,
    expected: BTreeSet<u64>,
    dice: u64,
}

impl Bench {
    fn new(capacity: usize, producers: Producers, first: u64, lossy: bool) -> Self {
        let ring = ring(capacity, producers, first, lossy);
        let (pen, geometry) = (Pen::of(&ring), Geometry::new(Capacity::new(capacity).unwrap()));
        let (bin, groups) = (Bin::default(), Vec::new());
        let (below, dropped, expected) = (0, BTreeSet::new(), BTreeSet::new());
        let dice = first.wrapping_add(capacity as u64 * 977);
        Self {
            ring,
            pen,
            geometry,
            bin,
            groups,
            most: 0,
            limit: 4,
            first,
            published: 0,
            below,
            dropped,
            expected,
            dice,
        }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % sides
    }

    fn nth(&self, at: Seq) -> u64 {
        at.since(Seq::new(self.first))
    }

    /// What everybody is past, but for what lies behind a hand on its page; on a lossy ring, of what has been overwritten
    /// before that, any.
    fn check(&mut self, what: &str) {
        let listening = self.groups.iter().filter(|group| !group.deleted);
        let low = listening.map(|group| self.nth(group.gate.position())).min().unwrap_or(self.published);
        let kept = |at: u64| {
            let hands = self.groups.iter().filter_map(|group| group.in_hand);
            hands.into_iter().any(|(hand, ..)| hand <= at && self.geometry.page(hand) == self.geometry.page(at))
        };
        let more: Vec<u64> = (self.below..low).filter(|at| !kept(*at)).collect();
        self.expected.extend(more);
        for at in lock(&self.bin).drain(..) {
            assert!(at >= self.below && self.dropped.insert(at), "{at} was dropped twice, after {what}");
        }
        if self.ring.is_lossy() {
            let gone = self.nth(self.ring.earliest());
            let early: Vec<u64> = self.dropped.difference(&self.expected).copied().collect();
            assert!(early.iter().all(|at| *at < gone && !kept(*at)), "dropped before its time, after {what}");
            self.expected.extend(early);
        }
        let (dropped, expected, end) = (&mut self.dropped, &mut self.expected, self.published);
        assert_eq!(dropped, expected, "after {what} ({end} published, everybody past {low})");
        let (pages, most) = (self.ring.pages_made(), self.geometry.pages() + 3 + self.most);
        assert!(pages <= most, "{pages} pages, after {what}");
        while expected.remove(&self.below) && dropped.remove(&self.below) {
            self.below += 1;
        }
    }

    fn publish(&mut self) {
        let value = Noisy(self.published, self.bin.clone());
        let listening = self.groups.iter().filter(|group| !group.deleted && group.gate.holds_back());
        let low = listening.map(|group| self.nth(group.gate.position())).min().unwrap_or(self.published);
        let stored = self.pen.push(value);
        assert_eq!(stored.is_ok(), self.published - low < self.ring.capacity().get(), "room is where there is some");
        match stored {
            Ok(at) => {
                self.ring.published(at, 1);
                self.published += 1;
            }
            Err(refused) => std::mem::forget(refused.value),
        }
    }

    fn publish_all(&mut self, count: u64) {
        let (from, bin) = (self.published, &self.bin);
        let mut values: Vec<_> = (from..from + count).map(|n| Noisy(n, bin.clone())).collect();
        match self.pen.push_all(&mut values) {
            Ok(offsets) => {
                self.ring.published(offsets.start, count);
                self.published += count;
            }
            Err(_) => values.into_iter().for_each(std::mem::forget),
        }
    }

    fn join(&mut self) {
        let back = self.roll(self.ring.capacity().get() + 1);
        let want = match self.roll(3) {
            0 => Start::End,
            1 => Start::Earliest,
            _ => Start::At(self.ring.end().minus(back)),
        };
        let gate = if self.ring.is_lossy() { self.ring.follow(want, 0) } else { self.ring.join(want, 0) };
        self.ring.sweep();
        let reader = self.ring.reader(gate.position()).covered_by(gate.clone());
        self.groups.push(Group { gate, reader, in_hand: None, deleted: false });
        self.most = self.most.max(self.groups.len());
    }

    /// The handler gets what is there, and keeps it.
    fn take(&mut self, index: usize, max: usize) {
        let first = self.first;
        let group = &mut self.groups[index];
        let (at, epoch) = group.gate.snapshot();
        group.reader.jump(at);
        match group.reader.peek(max) {
            Peek::Ready(run) => {
                let nth = at.since(Seq::new(first));
                run.iter().enumerate().for_each(|(i, record)| assert_eq!(record.0, nth + i as u64));
                group.in_hand = Some((nth, run.len() as u64, epoch));
            }
            Peek::Pending => {}
            Peek::Lapped { earliest } => {
                assert!(self.ring.is_lossy() && at.precedes(earliest), "a gate was lapped");
                group.gate.commit(epoch, at, earliest).unwrap();
                self.ring.release(at, earliest);
            }
        }
    }

    /// The handler returns, with some of it done.
    fn settle(&mut self, index: usize) {
        let part = self.roll(4);
        let group = &mut self.groups[index];
        let Some((nth, len, epoch)) = group.in_hand.take() else { return };
        let done = if part == 0 { len / 2 } else { len };
        let (from, to) = (Seq::new(self.first).plus(nth), Seq::new(self.first).plus(nth + done));
        if done == 0 {
            group.reader.put_down();
            return;
        }
        group.reader.advance(to);
        let _ = group.gate.commit(epoch, from, to);
        self.ring.release(from, to);
        if group.deleted {
            self.groups.swap_remove(index);
        }
    }

    fn seek(&mut self, index: usize) {
        let back = self.roll(self.ring.capacity().get() + 1);
        self.ring.seek(&self.groups[index].gate, self.ring.end().minus(back));
        self.ring.sweep();
    }

    fn delete(&mut self, index: usize) {
        let group = &mut self.groups[index];
        self.ring.leave(&group.gate);
        self.ring.sweep();
        group.deleted = true;
        if group.in_hand.is_none() {
            self.groups.swap_remove(index);
        }
    }

    fn step(&mut self) -> &'static str {
        let capacity = self.ring.capacity().get();
        let index = match self.groups.len() as u64 {
            0 => 0,
            many => self.roll(many) as usize,
        };
        let (group, live) = match self.groups.get(index) {
            Some(group) => (group.in_hand.is_some(), !group.deleted),
            None => (false, false),
        };
        match self.roll(14) {
            0..4 => {
                self.publish();
                "a publish"
            }
            4 => {
                let count = self.roll(capacity) + 1;
                self.publish_all(count);
                "a batch"
            }
            5 if self.groups.len() < self.limit => {
                self.join();
                "a join"
            }
            6 if live => {
                self.seek(index);
                "a seek"
            }
            7 if live && self.roll(3) == 0 => {
                self.delete(index);
                "a delete"
            }
            _ if group => {
                self.settle(index);
                "a commit"
            }
            _ if live => {
                let max = self.roll(capacity) as usize + 1;
                self.take(index, max);
                "a look"
            }
            _ => "nothing",
        }
    }

    /// Whatever is left goes with the ring, once.
    fn end(self) {
        let Self { ring, pen, bin, groups, published, below, mut dropped, .. } = self;
        drop((groups, pen, ring));
        lock(&bin).drain(..).for_each(|at| assert!(at >= below && dropped.insert(at), "{at} was dropped twice"));
        assert!(dropped.into_iter().eq(below..published), "some are left");
    }
}

// B-10, B-15, X4
#[test]
fn what_everybody_is_past_is_dropped_at_once_and_nothing_else() {
    const STEPS: usize = if cfg!(miri) { 40 } else { 1_500 };
    const CAPACITIES: &[usize] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 3, 4, 7, 300] };
    for (producers, first) in everywhere() {
        for &capacity in CAPACITIES {
            for lossy in [false, true] {
                let mut bench = Bench::new(capacity, producers, first, lossy);
                for _ in 0..STEPS {
                    let what = bench.step();
                    bench.check(what);
                }
                bench.end();
            }
        }
    }
}

// The same among so many that nobody looks at all of them who need not.
#[test]
fn among_very_many_too() {
    const STEPS: usize = if cfg!(miri) { 30 } else { 2_500 };
    for (producers, lossy) in [(Producers::Exclusive, false), (Producers::Shared, false), (Producers::Shared, true)] {
        for capacity in [1, 7, 300] {
            let mut bench = Bench::new(capacity, producers, 0, lossy);
            (bench.limit, bench.most) = (50, 50);
            (0..45).for_each(|_| bench.join());
            for _ in 0..STEPS {
                let what = bench.step();
                bench.check(what);
                // All by turns: as when everybody gets what was published.
                for index in (0..bench.groups.len()).rev().filter(|_| what == "a batch") {
                    if bench.groups[index].in_hand.is_none() {
                        bench.take(index, 300);
                    }
                    bench.settle(index);
                    bench.check("a turn");
                }
            }
            bench.end();
        }
    }
}
