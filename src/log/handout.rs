//! Handing out: each record of a partition is shown, in the order of the offsets and right after it was published, to those
//! who have to decide about it then. That is how the *newest* can be dropped: whether there was room for a record is known
//! only when it comes.
//!
//! ```text
//!   publisher:  mark ── come by: baton + 1 ── it was 0? ── no ──▶ go: whoever has it will come round again
//!                                                 │ yes
//!               ┌─────────────────────────────────▶
//!               │   show what is published and has not been shown, one by one       (shown: up to here)
//!               │   baton: as many as I saw ──▶ 0 ── won ──▶ go
//!               │                                │ lost: others came by
//!               └────────────────────────────────┘
//! ```
//! Nobody waits: a publisher adds one and goes, or it is the one who hands out. A record that was published out of order is
//! shown by whoever fills the gap before it. Who has shown [`MOST`] records, which others publish while it does, leaves the
//! rest to whoever comes by next, and tells those who wait for records: before they take anything they come by as well, so
//! a decision is never made later than what could change it.
//!
//! # Who writes what
//!
//! | word         | written by                                                      |
//! |--------------|-----------------------------------------------------------------|
//! | baton        | publishers and takers: + 1; the holder: back to 0                |
//! | shown        | the holder                                                       |
//! | the reader   | the holder, under a lock that nobody else ever takes              |
//! | the list     | who comes and goes                                               |
//! | `from` of an outlet | see [`Door`]                                              |
//!
//! # Invariants
//!
//! 1. One holder at a time: the one that found 0. It leaves by an exchange that proves that nobody came by since it looked, or
//!    with work left, which it has told of.
//! 2. A record that is marked is shown: its publisher comes by after the mark, so the holder of that moment, or the next one, looks
//!    behind the addition, which comes behind the mark.
//! 3. An outlet is shown every record from its door on, once, in order: it is on the list before it looks where the partition
//!    ends (a barrier between the two), and whoever publishes behind that end finds the list with it on it.
//!
//! # Orderings
//!
//! | label       | operation     | order   | why this much, and why no more                                                       |
//! |-------------|---------------|---------|--------------------------------------------------------------------------------------|
//! | come_by:A   | baton, add    | AcqRel  | Release: our mark before it, for the holder (come_by:B). Acquire: the reader as the last holder left it (come_by:B, come_by:C) |
//! | come_by:B   | baton, CAS    | AcqRel  | Release: the reader, for the next holder; pairs with come_by:A. Acquire, won or lost: the marks of those who came by |
//! | come_by:C   | baton, swap   | Release | the reader, for the next holder; pairs with come_by:A. Nobody's mark is looked for any more |
//! | shown:A     | shown, store  | Release | what the outlets were given, before the number; pairs with shown:B                     |
//! | shown:C     | shown, store  | Relaxed | where it begins, with nothing shown                                                  |
//! | shown:B     | shown, load   | Acquire | what is not in an outlet by now never will be; pairs with shown:A                      |
//! | door:A      | door, load    | Relaxed | compared only                                                                        |
//! | door:B      | door, max     | Relaxed | one word, and the record goes with the outlet's own means                             |
//! | door:C      | door, CAS     | Relaxed | the same                                                                             |
//! | door:E      | door, load    | Relaxed | a guess, which the exchange checks                                                   |
//! | door:D      | door, store   | Relaxed | the same: shut                                                                        |
#![forbid(unsafe_code)]

use super::Log;
use crate::{
    ring::{Gate, Gating, Peek, Reader, Start},
    seq::Seq,
    sync::{
        Arc, CachePadded, Mutex,
        atomic::{AtomicU64, Ordering},
        cow::Cow,
        explore,
        hint::heavy_barrier,
        lock, passed,
    },
};
use std::fmt;
use std::sync::OnceLock;

/// How many records are shown before the baton is left to another.
const MOST: u64 = 256;

/// The tag of the cursor that stands where records have been shown up to.
const TAG: u64 = u64::MAX - 1;

/// Who is shown every record when it is published.
pub trait Outlet<T>: Send + Sync {
    /// The record at `at`, in its turn. Runs on whatever thread has the baton, a publisher's mostly; it must not unwind. Whether
    /// it took it. `time`: of its publish, where records have times.
    fn offer(&self, at: Seq, value: &T, time: Option<u64>) -> bool;
}

/// From where on an outlet takes records: said once it is known, and until then behind whatever it was shown.
///
/// ```text
///   63                                            1  0
///   ┌──────────────────────────────────────────────┬───┐
///   │  the first offset                            │ F │   F: that is final
///   └──────────────────────────────────────────────┴───┘
/// ```
#[derive(Debug, Default)]
pub struct Door(AtomicU64);

impl Door {
    const FINAL: u64 = 1;

    /// Whether the record at `at`, which is being shown, is to be taken.
    pub fn lets_in(&self, at: Seq) -> bool {
        // ORD(door:A) Relaxed: see the table.
        let mut word = self.0.load(Ordering::Relaxed);
        if word & Self::FINAL == 0 {
            // ORD(door:B) Relaxed: see the table.
            word = self.0.fetch_max(at.plus(1).get() << 1, Ordering::Relaxed);
        }
        word & Self::FINAL != 0 && word >> 1 <= at.get()
    }

    /// Settles that it is at `at`, or behind what was shown before. Returns which.
    pub fn settle(&self, at: Seq) -> Seq {
        // ORD(door:E) Relaxed: see the table.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let from = at.later(Seq::new(word >> 1));
            explore();
            // ORD(door:C) Relaxed: see the table.
            match self.0.compare_exchange(word, from.get() << 1 | Self::FINAL, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return from,
                Err(now) => word = now,
            }
        }
    }

    /// Nothing is let in any more.
    pub fn shut(&self) {
        // ORD(door:D) Relaxed: see the table.
        self.0.store(u64::MAX, Ordering::Relaxed);
    }
}

type Outlets<T> = Vec<Arc<dyn Outlet<T>>>;

/// See the module.
pub(super) struct Handout<T> {
    baton: CachePadded<AtomicU64>,
    shown: CachePadded<AtomicU64>,
    outlets: Cow<Outlets<T>>,
    /// Once there was anybody.
    place: OnceLock<Place<T>>,
}

struct Place<T> {
    reader: Mutex<Reader<T>>,
    gate: Arc<Gate>,
}

impl<T> Default for Handout<T> {
    fn default() -> Self {
        let zero = || CachePadded::new(AtomicU64::new(0));
        Self { baton: zero(), shown: zero(), outlets: Cow::default(), place: OnceLock::new() }
    }
}

impl<T: Send + Sync + 'static> Log<T> {
    /// `outlet` is shown every record from now on. Where the partition ends is to be looked at afterwards: from there on it
    /// misses nothing.
    pub fn show_to(&self, outlet: Arc<dyn Outlet<T>>) {
        let handout = &self.handout;
        handout.place.get_or_init(|| {
            let gate = self.ring().admit(Start::End, TAG, Gating::Follows);
            let reader = self.ring().reader(gate.position()).covered_by(gate.clone());
            // ORD(shown:C) Relaxed: nothing was shown before.
            handout.shown.store(gate.position().get(), Ordering::Relaxed);
            Place { reader: Mutex::new(reader), gate }
        });
        handout.outlets.update(|all| all.iter().cloned().chain([outlet.clone()]).collect());
        self.is_watched();
        heavy_barrier();
    }

    /// It is shown nothing more, but what is being shown.
    pub fn show_no_more(&self, outlet: &Arc<dyn Outlet<T>>) {
        self.handout.outlets.update(|all| all.iter().filter(|other| !Arc::ptr_eq(other, outlet)).cloned().collect());
    }

    /// Up to where records have been shown.
    pub fn shown(&self) -> Seq {
        // ORD(shown:B) Acquire: what is not in an outlet by now never will be. Pairs with ORD(shown:A).
        Seq::new(self.handout.shown.load(Ordering::Acquire))
    }

    /// Comes by: what has been published is shown, by this thread or by the one that is at it.
    pub fn hand_out(&self, quiet: bool) {
        let Some(place) = self.handout.place.get() else { return };
        let baton = &*self.handout.baton;
        explore();
        // ORD(come_by:A) AcqRel: our mark before it; the reader as it was left. Pairs with ORD(come_by:B), ORD(come_by:C).
        if baton.fetch_add(1, Ordering::AcqRel) != 0 {
            passed("left to the holder");
            return;
        }
        let (mut seen, mut left) = (1, MOST);
        loop {
            let (shown, taken) = self.show(place, left);
            left -= shown;
            if taken || left == 0 {
                self.tell(quiet);
            }
            explore();
            if left == 0 {
                // ORD(come_by:C) Release: the reader, for the next holder. Pairs with ORD(come_by:A).
                baton.swap(0, Ordering::Release);
                return;
            }
            // ORD(come_by:B) AcqRel: the reader, for the next holder, or the marks of who came by. Pairs with ORD(come_by:A).
            match baton.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => {
                    passed("round again");
                    seen = now;
                }
            }
        }
    }

    /// Shows what there is, at most so many records: how many, and whether any was taken.
    fn show(&self, place: &Place<T>, most: u64) -> (u64, bool) {
        let Place { reader, gate } = place;
        let (mut reader, mut outlets) = (lock(reader), self.handout.outlets.cached());
        let (mut shown, mut taken) = (0, false);
        while shown < most {
            let from = reader.position();
            let to = match reader.peek((most - shown) as usize) {
                Peek::Pending => break,
                Peek::Ready(run) => {
                    for (nth, value) in (0..).zip(run.iter()) {
                        let (at, time) = (from.plus(nth), run.time_of(nth as usize).get());
                        let offer = |taken, outlet: &Arc<dyn Outlet<T>>| outlet.offer(at, value, time) | taken;
                        taken = outlets.load().iter().fold(taken, offer);
                    }
                    let to = from.plus(run.len() as u64);
                    reader.advance(to);
                    to
                }
                // It was stopped for so long that the log has gone round: nobody took what is gone.
                Peek::Lapped { earliest } => {
                    reader.jump(earliest);
                    earliest
                }
            };
            shown += to.since(from).min(most - shown);
            // ORD(shown:A) Release: what the outlets were given, before it. Pairs with ORD(shown:B).
            self.handout.shown.store(to.get(), Ordering::Release);
            let _ = gate.commit(gate.epoch(), gate.position(), to); // nobody else moves it
            self.ring().release(from, to);
        }
        (shown, taken)
    }
}

impl<T> fmt::Debug for Handout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handout").field("shown", &self.shown).finish_non_exhaustive()
    }
}
