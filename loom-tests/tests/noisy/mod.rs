//! Records that notice being read after they were dropped, and a group that reads them from a prompt ring.
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use ringlog::internals::ring::{Gate, Options, Peek, Producers, Reader, Ring, Start};
use ringlog::internals::seq::Capacity;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often each record was dropped, four bits a record; loom does not see it.
pub(crate) type Bin = std::sync::Arc<AtomicU64>;

/// A record: read under loom's eyes, and written to when it is dropped.
pub(crate) struct Noisy(u64, UnsafeCell<u64>, Bin);

// SAFETY: loom watches the cell.
unsafe impl Sync for Noisy {}

impl Noisy {
    pub(crate) fn new(nth: u64, bin: &Bin) -> Self {
        Self(nth, UnsafeCell::new(nth), bin.clone())
    }

    pub(crate) fn read(&self) -> u64 {
        // SAFETY: loom checks that nobody writes meanwhile, nor without an order between the two.
        self.1.with(|value| unsafe { *value })
    }
}

impl Drop for Noisy {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.1.with_mut(|value| unsafe { *value = u64::MAX });
        let before = self.2.fetch_add(1 << (4 * self.0), Relaxed);
        assert!(before >> (4 * self.0) & 15 == 0, "record {} was dropped twice", self.0);
    }
}

pub(crate) fn dropped(bin: &Bin, nth: u64) -> bool {
    bin.load(Relaxed) >> (4 * nth) & 15 == 1
}

pub(crate) fn ring(capacity: usize, producers: Producers) -> Ring<Noisy> {
    ring_with(Options::new(Capacity::new(capacity).unwrap(), producers))
}

pub(crate) fn ring_with(options: Options) -> Ring<Noisy> {
    let ring = Ring::with_spares(Options { prompt: true, ..options }, 0).unwrap();
    ring.share();
    ring
}

/// A group with its cursor and its reader, at the end.
pub(crate) struct Group(pub(crate) Ring<Noisy>, pub(crate) Arc<Gate>, pub(crate) Reader<Noisy>);

impl Group {
    pub(crate) fn new(ring: &Ring<Noisy>) -> Self {
        let gate = if ring.is_lossy() { ring.follow(Start::End, 0) } else { ring.join(Start::End, 0) };
        ring.sweep();
        let reader = ring.reader(gate.position()).covered_by(gate.clone());
        Self(ring.clone(), gate, reader)
    }

    /// Reads one run where the cursor stands and commits it: how many records, if it was not fenced.
    pub(crate) fn run(&mut self) -> Result<u64, &'static str> {
        let Self(ring, gate, reader) = self;
        let (from, epoch) = gate.snapshot();
        reader.jump(from);
        let count = match reader.peek(9) {
            Peek::Ready(run) => {
                for (n, record) in run.iter().enumerate() {
                    assert_eq!(record.read(), from.get() + n as u64, "not the record that was asked for");
                    ringlog::internals::sync::explore();
                    assert_eq!(record.read(), from.get() + n as u64, "dropped in hand");
                }
                run.len() as u64
            }
            Peek::Pending => return Err("nothing"),
            Peek::Lapped { earliest } => {
                let _ = gate.commit(epoch, from, earliest);
                ring.release(from, earliest);
                return Err("lapped");
            }
        };
        let to = from.plus(count);
        reader.advance(to);
        let committed = gate.commit(epoch, from, to);
        ring.release(from, to);
        committed.map(|()| count).map_err(|_| "fenced")
    }
}
