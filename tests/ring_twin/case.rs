//! One ring against a vector: every operation on both, every result compared. Shared with the fuzz target.
//!
//! The twin is the whole history in a `Vec`, and a number for each gate and each reader. Free is only what
//! [`Twin::observe_earliest`] says, and when a reader outside every gate is told that it was lapped.

use ringlog::internals::ring::{Exclusive, Gate, Options, Peek, Producers, Reader, Ring, Start, Why};
use ringlog::internals::seq::{Capacity, Seq};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the values alive, so that a leak or a second drop shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alive(Arc<AtomicUsize>);

#[derive(Debug)]
pub(crate) struct Value {
    serial: u64,
    alive: Alive,
}

impl Alive {
    fn value(&self, serial: u64) -> Value {
        self.0.fetch_add(1, Ordering::Relaxed);
        Value { serial, alive: self.clone() }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let before = self.alive.0.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "value {} was dropped twice", self.serial);
    }
}

struct Gated {
    gate: Arc<Gate>,
    at: u64,
    epoch: u32,
}

struct Reading {
    reader: Reader<Value>,
    at: u64,
}

struct Case {
    ring: Ring<Value>,
    exclusive: Option<Exclusive<Value>>,
    alive: Alive,
    capacity: u64,
    first: u64,
    /// Every value ever stored, by offset from `first`.
    history: Vec<u64>,
    earliest: u64,
    sealed: bool,
    serial: u64,
    gates: Vec<Gated>,
    readers: Vec<Reading>,
}

/// Runs one case: four bytes for the ring, then four for each operation.
pub(crate) fn run(setup: [u8; 4], ops: &[[u8; 4]]) {
    let mut case = Case::new(setup);
    for op in ops {
        case.apply(*op);
        case.compare();
    }
    let Case { alive, ring, exclusive, readers, gates, .. } = case;
    drop((exclusive, readers, gates, ring));
    assert_eq!(alive.count(), 0, "values outlived their ring");
}

impl Case {
    fn new(setup: [u8; 4]) -> Self {
        let capacity = [1, 2, 3, 4, 7, 9, 64, 300][usize::from(setup[0] % 8)];
        let exclusive = setup[1] % 2 == 1;
        // Near the wrap of the 40 bits that a cursor word carries, too.
        let first = [0, (1 << 40) - 5, 3 << 40, 1 << 20][usize::from(setup[2] % 4)];
        let producers = if exclusive { Producers::Exclusive } else { Producers::Shared };
        let room = Capacity::new(capacity).expect("within the bounds");
        let options = Options { first: Seq::new(first), ..Options::new(room, producers) };
        let ring = Ring::new(options).expect("memory for a small ring");
        let exclusive = ring.exclusive();
        Self {
            exclusive,
            ring,
            alive: Alive::default(),
            capacity: capacity as u64,
            first,
            history: Vec::new(),
            earliest: first,
            sealed: false,
            serial: 0,
            gates: Vec::new(),
            readers: Vec::new(),
        }
    }

    fn end(&self) -> u64 {
        self.first + self.history.len() as u64
    }

    fn slowest(&self) -> Option<u64> {
        self.gates.iter().map(|gate| gate.at).min()
    }

    fn apply(&mut self, [kind, a, b, _]: [u8; 4]) {
        match kind {
            0..90 => self.push(),
            90..120 => self.push_all(a),
            120..135 => self.join(a, b),
            135..145 => self.leave(a),
            145..175 => self.commit(a, b),
            175..187 => self.seek(a, b),
            187..200 => self.read_from(a, b),
            200..235 => self.read(a, b),
            235..242 => self.jump(a, b),
            242..248 => self.forget(a),
            248..253 => self.readers.iter_mut().for_each(|reading| reading.reader.release()),
            253.. => self.seal(),
        }
    }

    fn fresh(&mut self) -> Value {
        self.serial += 1;
        self.alive.value(self.serial)
    }

    /// What storing `count` values must answer: the offset of the first, or the reason.
    fn room(&self, count: u64) -> Result<u64, Why> {
        match self.slowest() {
            _ if count > self.capacity => Err(Why::TooLarge),
            _ if self.sealed => Err(Why::Sealed),
            Some(at) if self.end() + count > at + self.capacity => Err(Why::Full),
            _ => Ok(self.end()),
        }
    }

    fn push(&mut self) {
        let value = self.fresh();
        let serial = value.serial;
        let want = self.room(1);
        let got = match &mut self.exclusive {
            Some(exclusive) => exclusive.try_push(value),
            None => self.ring.try_push(value),
        };
        match got {
            Ok(at) => {
                assert_eq!(Ok(at.get()), want);
                self.history.push(serial);
            }
            Err(refused) => {
                assert_eq!(refused.value.serial, serial, "another value came back");
                assert_eq!(Err(refused.why), want);
            }
        }
    }

    fn push_all(&mut self, a: u8) {
        let count = 1 + u64::from(a) % (self.capacity.min(12) + 1);
        let mut values: Vec<Value> = (0..count).map(|_| self.fresh()).collect();
        let serials: Vec<u64> = values.iter().map(|value| value.serial).collect();
        let want = self.room(count);
        let got = match &mut self.exclusive {
            Some(exclusive) => exclusive.try_push_all(&mut values),
            None => self.ring.try_push_all(&mut values),
        };
        match got {
            Ok(range) => {
                assert_eq!((Ok(range.start.get()), range.end.get() - range.start.get()), (want, count));
                assert!(values.is_empty(), "values were stored and given back");
                self.history.extend(serials);
            }
            Err(why) => {
                assert_eq!(Err(why), want);
                let back: Vec<u64> = values.iter().map(|value| value.serial).collect();
                assert_eq!(back, serials, "a refused batch comes back whole");
            }
        }
    }

    fn join(&mut self, a: u8, b: u8) {
        if self.gates.len() >= 4 {
            return;
        }
        let wanted = self.first + u64::from(b);
        let (start, want) = match a % 3 {
            0 => (Start::Earliest, self.earliest),
            1 => (Start::End, self.end()),
            _ => (Start::At(Seq::new(wanted)), wanted.clamp(self.earliest, self.end())),
        };
        let gate = self.ring.join(start, u64::from(a));
        let (at, epoch) = gate.snapshot();
        assert_eq!((at.get(), gate.tag()), (want, u64::from(a)));
        self.gates.push(Gated { gate, at: want, epoch });
    }

    fn leave(&mut self, a: u8) {
        if let Some(at) = pick(a, self.gates.len()) {
            let gone = self.gates.swap_remove(at);
            self.ring.leave(&gone.gate);
            let (from, to) = (Seq::new(gone.at), Seq::new(gone.at));
            assert!(gone.gate.commit(gone.epoch, from, to).is_err(), "a gate that left took a commit");
        }
    }

    fn commit(&mut self, a: u8, b: u8) {
        let end = self.end();
        let Some(at) = pick(a, self.gates.len()) else { return };
        let gate = &mut self.gates[at];
        let to = gate.at + u64::from(b) % (end - gate.at + 1);
        let (from, to) = (Seq::new(gate.at), Seq::new(to));
        if b % 5 == 0 {
            assert!(gate.gate.commit(gate.epoch.wrapping_sub(1), from, to).is_err(), "a stale epoch was taken");
            return;
        }
        assert!(gate.gate.commit(gate.epoch, from, to).is_ok(), "a good commit was refused");
        gate.at = to.get();
    }

    fn seek(&mut self, a: u8, b: u8) {
        let (earliest, end) = (self.earliest, self.end());
        let Some(at) = pick(a, self.gates.len()) else { return };
        let gate = &mut self.gates[at];
        let want = self.first.saturating_sub(2) + u64::from(b);
        let moved = self.ring.seek(&gate.gate, Seq::new(want));
        assert_eq!((moved.from.get(), moved.to.get()), (gate.at, want.clamp(earliest, end)));
        let epoch = gate.gate.epoch();
        assert_ne!(epoch, gate.epoch, "a seek left the epoch as it was");
        (gate.at, gate.epoch) = (moved.to.get(), epoch);
    }

    fn read_from(&mut self, a: u8, b: u8) {
        if self.readers.len() >= 4 {
            return;
        }
        let at = self.place(a, b);
        self.readers.push(Reading { reader: self.ring.reader(Seq::new(at)), at });
    }

    /// Somewhere between the first offset and the end, more often where a gate stands.
    fn place(&self, a: u8, b: u8) -> u64 {
        match pick(a, self.gates.len()) {
            Some(gate) if b % 2 == 0 => self.gates[gate].at,
            _ => self.first + u64::from(b) % (self.end() - self.first + 1),
        }
    }

    fn read(&mut self, a: u8, b: u8) {
        let (first, end, earliest) = (self.first, self.end(), self.earliest);
        let Some(index) = pick(a, self.readers.len()) else { return };
        let reading = &mut self.readers[index];
        let most = 1 + usize::from(b % 16);
        let mut taken = 0;
        match reading.reader.peek(most) {
            Peek::Ready(run) => {
                assert_eq!(run.first().get(), reading.at);
                let seen: Vec<u64> = run.iter().map(|value| value.serial).collect();
                assert!((1..=most).contains(&seen.len()) && seen.len() == run.len());
                let from = (reading.at - first) as usize;
                assert_eq!(seen, self.history[from..from + seen.len()], "read at {}", reading.at);
                taken = 1 + u64::from(a) % seen.len() as u64;
            }
            Peek::Pending => assert_eq!(reading.at, end, "nothing to read below the end"),
            Peek::Lapped { earliest: at } => {
                assert!(reading.at < earliest, "lapped at {}, though all from {earliest} is promised", reading.at);
                assert!((reading.at + 1..=earliest).contains(&at.get()), "lapped to {at:?}, promised {earliest}");
                reading.reader.jump(at);
                reading.at = at.get();
            }
        }
        if taken > 0 {
            reading.at += taken;
            reading.reader.advance(Seq::new(reading.at));
        }
        assert_eq!(reading.reader.position().get(), reading.at);
    }

    fn jump(&mut self, a: u8, b: u8) {
        let at = self.place(a, b);
        if let Some(index) = pick(a, self.readers.len()) {
            self.readers[index].reader.jump(Seq::new(at));
            self.readers[index].at = at;
        }
    }

    fn forget(&mut self, a: u8) {
        if let Some(index) = pick(a, self.readers.len()) {
            self.readers.swap_remove(index);
        }
    }

    fn seal(&mut self) {
        assert_eq!(self.ring.seal().get(), self.end());
        self.sealed = true;
    }

    fn compare(&mut self) {
        let end = self.end();
        assert_eq!((self.ring.end().get(), self.ring.is_sealed()), (end, self.sealed));
        self.observe_earliest(self.ring.earliest().get());
        for gate in &self.gates {
            assert_eq!((gate.gate.position().get(), gate.gate.epoch()), (gate.at, gate.epoch));
        }
        match (self.ring.limiting(), self.slowest()) {
            (None, None) => {}
            (Some((at, _)), Some(slowest)) => assert_eq!(at.get(), slowest),
            (got, want) => panic!("limited by {got:?}, should be {want:?}"),
        }
        let most = (self.capacity * 3 + 600) as usize;
        assert!(self.alive.count() <= most + self.readers.len() * 128, "{} values are alive", self.alive.count());
    }

    /// What a new reader may start at: the capacity below the end, or up to an eighth of the capacity later.
    fn observe_earliest(&mut self, seen: u64) {
        let (capacity, end) = (self.capacity, self.end());
        let below = |at: u64| at.saturating_sub(capacity).max(self.earliest);
        let (low, high) = (below(end), below(end + (capacity / 8).max(1)));
        let high = high.min(end).min(self.slowest().unwrap_or(end));
        assert!((low..=high).contains(&seen), "earliest is {seen}, promised is {low} to {high}, the end {end}");
        self.earliest = seen;
    }
}

fn pick(a: u8, len: usize) -> Option<usize> {
    (len > 0).then(|| usize::from(a) % len)
}
