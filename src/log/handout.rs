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
//! shown by whoever fills the gap before it. Who has shown [`MOST`] records beyond those it came with, which others publish while it
//! does, leaves the rest to whoever comes by next, and tells those who wait for records. They come by before they take
//! anything, and take it only when all that was published by then has been shown: so no decision is made later than what could change
//! it.
//!
//! # Who writes what
//!
//! | word         | written by                                                      |
//! |--------------|-----------------------------------------------------------------|
//! | baton        | publishers and takers: + 1; the holder: back to 0                |
//! | undone       | the holder: when it leaves work, and when it takes it up          |
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
//! | come_by:A   | baton, add    | AcqRel  | Release: our mark before it, for the holder (come_by:D), or for who finds the baton free after a holder that left work (come_by:A). Acquire: the marks of those who came by such a holder: exchanges in between carry on what they released |
//! | come_by:B   | baton, CAS won | Relaxed | nobody came by since we looked, so there is no mark to be seen; the reader, and all that is done with it, goes from holder to holder by its lock |
//! | come_by:D   | baton, CAS lost | Acquire | the marks of those who came by; pairs with come_by:A                               |
//! | come_by:C   | baton, swap   | Relaxed | the reader by its lock, as above; nobody's mark is looked for any more                |
//! | shown:A     | shown, store  | Release | what the outlets were given, before the number; pairs with shown:B                     |
//! | shown:C     | shown, store  | Relaxed | where it begins, with nothing shown                                                  |
//! | shown:B     | shown, load   | Acquire | what is not in an outlet by now never will be; pairs with shown:A                      |
//! | door:A      | door, load    | Relaxed | compared only                                                                        |
//! | door:B      | door, max     | Relaxed | one word, which says it all: what is final stays, being larger                       |
//! | door:C      | door, CAS     | Relaxed | the same                                                                             |
//! | undone:A    | undone, load  | Relaxed | a hint, told of afterwards                                                           |
//! | undone:B    | undone, store | Relaxed | the same                                                                             |
//! | undone:C    | undone, store | Relaxed | the same                                                                             |
//! | door:F      | door, load    | Relaxed | who shuts it empties the outlet afterwards, and who put something in looks afterwards: one of them sees to it |
//! | door:E      | door, load    | Relaxed | a guess, which the exchange checks                                                   |
//! | door:D      | door, store   | Relaxed | the same: shut                                                                        |
#![forbid(unsafe_code)]

use super::Log;
use crate::{
    ring::{Gate, Gating, Peek, Reader, Start},
    seq::Seq,
    sync::{
        Arc, CachePadded, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        cow::Cow,
        explore,
        hint::heavy_barrier,
        lock, passed,
    },
};
use std::fmt;
use std::sync::OnceLock;

/// How many records are shown before the baton is left to another. In models it is left at once.
const MOST: u64 = if cfg!(ringlog_loom) { 1 } else { 256 };

/// The tag of the cursor that stands where records have been shown up to.
const TAG: u64 = u64::MAX - 1;

/// Who is shown every record when it is published.
pub trait Outlet<T>: Send + Sync {
    /// The record at `at`, in its turn. Runs on whatever thread has the baton, a publisher's mostly; it must not unwind. `time`: of
    /// its publish, where records have times.
    fn offer(&self, at: Seq, value: &T, time: Option<u64>);
}

/// From where on an outlet takes records: said once it is known, and until then behind whatever it was shown.
///
/// ```text
///   63  62                                            0
///   ┌───┬──────────────────────────────────────────────┐
///   │ F │  the first offset                            │   F: that is final. Being the highest bit, no maximum takes it away
///   └───┴──────────────────────────────────────────────┘
/// ```
#[derive(Debug, Default)]
pub struct Door(AtomicU64);

impl Door {
    const FINAL: u64 = 1 << 63;
    const SHUT: u64 = u64::MAX;

    /// Whether the record at `at`, which is being shown, is to be taken.
    pub fn lets_in(&self, at: Seq) -> bool {
        // ORD(door:A) Relaxed: see the table.
        let mut word = self.0.load(Ordering::Relaxed);
        if word & Self::FINAL == 0 {
            explore();
            // ORD(door:B) Relaxed: see the table.
            word = self.0.fetch_max(at.plus(1).get(), Ordering::Relaxed);
        }
        word & Self::FINAL != 0 && word & !Self::FINAL <= at.get()
    }

    /// Settles that it is at `at`, or behind what was shown before. Returns which.
    pub fn settle(&self, at: Seq) -> Seq {
        // ORD(door:E) Relaxed: see the table.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let from = at.later(Seq::new(word & !Self::FINAL));
            explore();
            // ORD(door:C) Relaxed: see the table.
            match self.0.compare_exchange(word, from.get() | Self::FINAL, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return from,
                Err(now) => word = now,
            }
        }
    }

    /// Nothing is let in any more.
    pub fn shut(&self) {
        // ORD(door:D) Relaxed: see the table.
        self.0.store(Self::SHUT, Ordering::Relaxed);
    }

    /// Whether it is shut.
    pub fn is_shut(&self) -> bool {
        // ORD(door:F) Relaxed: see the table.
        self.0.load(Ordering::Relaxed) == Self::SHUT
    }
}

type Outlets<T> = Vec<Arc<dyn Outlet<T>>>;

/// See the module.
pub(super) struct Handout<T> {
    baton: CachePadded<AtomicU64>,
    shown: CachePadded<AtomicU64>,
    /// Somebody left the baton with work undone, and nobody has taken it up yet.
    undone: AtomicBool,
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
        Self {
            baton: zero(),
            shown: zero(),
            undone: AtomicBool::new(false),
            outlets: Cow::default(),
            place: OnceLock::new(),
        }
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

    /// Whether somebody has left records to be shown by whoever comes by.
    pub fn has_undone(&self) -> bool {
        // ORD(undone:A) Relaxed: a hint; who left it tells of it afterwards.
        self.handout.undone.load(Ordering::Relaxed)
    }

    /// Comes by, with everything before `upto` published: that is shown, by this thread or by the one that is at it.
    pub fn hand_out(&self, upto: Seq, quiet: bool) {
        let Some(place) = self.handout.place.get() else { return };
        let Handout { baton, undone, .. } = &self.handout;
        explore();
        // ORD(come_by:A) AcqRel: our mark before it, and the marks of those who came by a holder that left work. It
        // pairs with ORD(come_by:D) and ORD(come_by:A).
        if baton.fetch_add(1, Ordering::AcqRel) != 0 {
            passed("left to the holder");
            return;
        }
        // ORD(undone:B) Relaxed: as where it is read.
        undone.store(false, Ordering::Relaxed);
        let (mut seen, mut beyond, mut quiet, mut any) = (1, MOST, quiet, false);
        loop {
            any |= self.show(place, upto, &mut beyond);
            explore();
            if beyond == 0 {
                passed("left undone");
                // ORD(undone:C) Relaxed: as where it is read.
                undone.store(true, Ordering::Relaxed);
                // ORD(come_by:C) Relaxed: the reader goes by its lock; what came before is carried on.
                baton.swap(0, Ordering::Relaxed);
                return self.tell(false);
            }
            // ORD(come_by:B) Relaxed: won; the reader goes by its lock.
            // ORD(come_by:D) Acquire: lost; the marks of who came by. Pairs with ORD(come_by:A).
            match baton.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Acquire) {
                // Only now: who is woken finds what was shown, and the baton free.
                Ok(_) if any => return self.tell(quiet),
                Ok(_) => return,
                Err(now) => {
                    passed("round again");
                    (seen, quiet) = (now, false);
                }
            }
        }
    }

    /// Shows what there is: all before `upto`, and of what lies behind it no more than `beyond`, which is counted down. Whether
    /// there was anything.
    fn show(&self, place: &Place<T>, upto: Seq, beyond: &mut u64) -> bool {
        let Place { reader, gate } = place;
        let (mut reader, mut outlets) = (lock(reader), self.handout.outlets.cached());
        let (mut any, mut again) = (false, true);
        while *beyond > 0 {
            let from = reader.position();
            let most = upto.lag_behind(from).saturating_add(*beyond);
            let to = match reader.peek(usize::try_from(most).unwrap_or(usize::MAX)) {
                // Once more: on a prompt ring the log may have gone on without the reader just now.
                Peek::Pending if std::mem::take(&mut again) => continue,
                Peek::Pending => break,
                Peek::Ready(run) => {
                    for (nth, value) in (0..).zip(run.iter()) {
                        let (at, time) = (from.plus(nth), run.time_of(nth as usize).get());
                        outlets.load().iter().for_each(|outlet| outlet.offer(at, value, time));
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
            (any, again) = (true, true);
            *beyond = beyond.saturating_sub(to.lag_behind(upto.later(from)));
            // ORD(shown:A) Release: what the outlets were given, before it. Pairs with ORD(shown:B).
            self.handout.shown.store(to.get(), Ordering::Release);
            let _ = gate.commit(gate.epoch(), gate.position(), to); // nobody else moves it
            self.ring().release(from, to);
        }
        any
    }
}

impl<T> fmt::Debug for Handout<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handout").field("shown", &self.shown).finish_non_exhaustive()
    }
}
