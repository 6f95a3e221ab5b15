//! The partition itself: joining, committing, closing, and the appends that do not wait.
//!
//! # What may be relied on
//!
//! * All that a publisher did before its append is seen by whoever reads the record.
//! * An append either succeeded before the seal, and its record is read by every group that is there, or it gets its value
//!   back. After [`Log::close`] has returned the end no longer moves.
//! * `end`, `earliest`, `len` are right at some moment during the call, and may be old when they arrive.
#![forbid(unsafe_code)]

use super::{
    AppendError, Relocated,
    age::Age,
    handout::Handout,
    producer::given_back,
    retain::{Gates, OWN, Retain},
    stamp::{Stamps, Timestamps},
    tally::Tally,
};
use crate::{
    ring::{Gate, Gating, Kept, Moved, Options, OutOfMemory, Producers, Ring, Start, Why},
    seq::{Capacity, Seq},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        hint::light_barrier,
    },
    time::Clock,
    wait::{Event, Sleeper, Wake},
};
use std::{fmt, ops::Range, time::Duration};

/// How a partition is made.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    /// How many records it holds, exactly.
    pub capacity: Capacity,
    /// Who may publish.
    pub producers: Producers,
    /// What it keeps.
    pub retain: Retain,
    /// What happens when it is full.
    pub full: Full,
    /// Whether records know when they were published; where they have an age, they do in any case.
    pub timestamps: Timestamps,
    /// How long a record is kept at most, if there is a limit.
    pub max_age: Option<Duration>,
    /// Touch all memory at once, instead of page by page as it is used.
    pub prefault: bool,
    /// Whether the largest backlog is kept.
    pub measured: bool,
}

impl LogConfig {
    /// A partition that makes producers wait when it is full.
    pub const fn new(capacity: Capacity, producers: Producers, retain: Retain) -> Self {
        let (full, timestamps, max_age) = (Full::Block, Timestamps::Off, None);
        Self { capacity, producers, retain, full, timestamps, max_age, prefault: false, measured: false }
    }
}

/// What happens when a partition is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Full {
    /// Producers wait for the slowest group.
    #[default]
    Block,
    /// The oldest record goes, read or not; producers never wait.
    DropOldest,
}

/// A record was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its offset.
    pub offset: Seq,
    /// False if nobody was listening and nothing is kept: then it is gone, and the offset is used up all the same. A group
    /// that joins at the same moment may get it nevertheless.
    pub kept: bool,
}

/// A batch was stored, one offset after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedAll {
    /// The offsets.
    pub offsets: Range<Seq>,
    /// As in [`Appended::kept`], for the first of them.
    pub kept: bool,
}

/// One partition. What every publish reads and nobody writes lies together.
#[repr(C)]
pub struct Log<T> {
    ring: Ring<T>,
    /// Where records have a time.
    stamps: Option<Stamps>,
    /// Where records have an age: then they have a time too.
    age: Option<Box<Age<T>>>,
    /// Nothing is done behind an append but to tell those who wait for records.
    plain: AtomicBool,
    pub(super) clock: Arc<dyn Clock>,
    not_empty: Event,
    not_full: Event,
    pub(super) gates: Gates,
    /// How many appends wait that want to know whenever the limiting group changes.
    pub(super) wary: AtomicU64,
    /// Sleepers of appends that have waited, for the next that must.
    pub(super) sleepers: Mutex<Vec<Sleeper>>,
    pub(super) tally: Tally,
    pub(super) handout: Handout<T>,
}

impl<T: Send + Sync + 'static> Log<T> {
    /// An empty partition, or an error if its pages cannot be reserved.
    pub fn new(config: LogConfig, clock: Arc<dyn Clock>) -> Result<Arc<Self>, OutOfMemory> {
        let LogConfig { capacity, producers, retain, full, timestamps, max_age, prefault, measured } = config;
        let (lossy, aged, prompt) = (full == Full::DropOldest, max_age.is_some(), retain == Retain::Unacked);
        let timed = timestamps != Timestamps::Off;
        let ring = Ring::new(Options { prefault, lossy, timed, aged, prompt, ..Options::new(capacity, producers) })?;
        let stamps = Stamps::of(timestamps, &clock);
        let log = Self::aged_around(ring, retain, max_age, clock);
        let stamps = log.stamps.or(stamps);
        Ok(Arc::new(Self { stamps, tally: Tally::new(measured), ..log }))
    }

    /// A partition around a ring that nobody uses yet.
    pub fn around(ring: Ring<T>, retain: Retain, clock: Arc<dyn Clock>) -> Self {
        Self::aged_around(ring, retain, None, clock)
    }

    /// A partition around a ring that nobody uses yet, and that is an aged one if its records have an age.
    pub fn aged_around(ring: Ring<T>, retain: Retain, max_age: Option<Duration>, clock: Arc<dyn Clock>) -> Self {
        Self {
            stamps: max_age.map(|_| Stamps::Exact),
            age: max_age.map(|limit| Box::new(Age::new(limit, &ring))),
            gates: Gates::new(retain, &ring),
            ring,
            clock,
            not_empty: Event::new(Wake::All),
            not_full: Event::new(Wake::One),
            wary: AtomicU64::new(0),
            sleepers: Mutex::new(Vec::new()),
            tally: Tally::default(),
            handout: Handout::default(),
            plain: AtomicBool::new(retain != Retain::Unacked),
        }
    }

    /// The ring.
    #[inline]
    pub fn ring(&self) -> &Ring<T> {
        &self.ring
    }

    /// The clock its waits go by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// One past the last record.
    #[inline]
    pub fn end(&self) -> Seq {
        self.ring.end()
    }

    /// The earliest record that is kept; the end if there is none.
    pub fn earliest(&self) -> Seq {
        self.look();
        self.gates.earliest(&self.ring)
    }

    /// As [`earliest`](Self::earliest), for who holds a lock: no destructor runs here.
    pub fn earliest_only(&self) -> Seq {
        self.look_only();
        self.gates.earliest(&self.ring)
    }

    /// How many records are kept.
    pub fn len(&self) -> u64 {
        self.end().lag_behind(self.earliest())
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Happens when there are new records, when a group was moved, and when the partition closes. Everybody is woken.
    #[inline]
    pub fn not_empty(&self) -> &Event {
        &self.not_empty
    }

    /// Happens when there is room. One producer is woken, and wakes the next if it leaves any.
    #[inline]
    pub fn not_full(&self) -> &Event {
        &self.not_full
    }

    /// Adds a group's gate. `gate.position()` says where it landed. The tag `u64::MAX` is the partition's own. A
    /// [`sweep`](Self::sweep) follows.
    pub fn join(&self, want: Start, tag: u64) -> Arc<Gate> {
        self.admit(want, tag, None)
    }

    /// The same, of a group with another idea of what holds producers back than the partition's own.
    pub fn admit(&self, want: Start, tag: u64, gating: Option<Gating>) -> Arc<Gate> {
        debug_assert_ne!(tag, OWN, "the tag of the partition's own gate");
        self.look_only();
        let gate = self.gates.join(&self.ring, want, tag, gating);
        self.not_full.wake_all(); // the partition's own gate may have stood further back
        gate
    }

    /// After a gate came or was moved, outside every lock: what nobody wants any more is dropped, where it is at once.
    pub fn sweep(&self) {
        self.ring.sweep();
    }

    /// Removes a group's gate; its commits are refused from now on. Once is enough. A [`sweep`](Self::sweep) follows.
    pub fn leave(&self, gate: &Gate) {
        if self.gates.leave(&self.ring, gate) {
            self.not_full.wake_all();
            self.not_empty.wake_all();
        }
    }

    /// Moves a group's gate to `want`, or as near as what is kept allows. Commits of what was in hand are refused.
    pub fn seek(&self, gate: &Gate, want: Seq) -> Moved {
        let Relocated { moved, .. } = self.relocate(gate, want);
        self.not_full.wake_all();
        self.not_empty.wake_all();
        self.ring.sweep();
        moved
    }

    /// Refuses every later append and wakes everybody. Returns the final end.
    pub fn close(&self) -> Seq {
        let end = self.ring.seal();
        self.not_full.wake_all();
        self.not_empty.wake_all();
        end
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.ring.is_sealed()
    }

    /// Which of its pages are set aside, and who keeps them: readers by the tags of their cursors.
    pub fn why_stalled(&self) -> Vec<Kept> {
        self.ring.why_stalled()
    }

    /// Stores the record in `from`, which is empty then, if there is room: moved once, from where it lies into its slot.
    /// For callers that go on to wait: a refusal leaves the record there, and is not counted and not explained yet; see
    /// [`Log::refusal`].
    #[inline(always)]
    pub fn offer(&self, from: &mut Option<T>) -> Result<Appended, Why> {
        let offset = self.push(from)?;
        Ok(self.stored(offset, false))
    }

    /// As [`Log::offer`], and wakes nobody: see [`Event::notify_quiet`].
    pub fn offer_quietly(&self, from: &mut Option<T>) -> Result<Appended, Why> {
        let offset = self.push(from)?;
        Ok(self.stored(offset, true))
    }

    /// Stores one record if there is room. Lock-free; never waits.
    #[inline]
    pub fn try_append(&self, value: T) -> Result<Appended, AppendError<T>> {
        let mut value = Some(value);
        match self.push(&mut value) {
            Ok(offset) => Ok(self.stored(offset, false)),
            Err(why) => Err(self.refusal(why, given_back(value), 1, Duration::ZERO)),
        }
    }

    /// Stores all of `values` (which is empty then) or none of them, one offset after the other, if there is room.
    pub fn try_append_all(&self, values: &mut Vec<T>) -> Result<AppendedAll, AppendError<()>> {
        let len = values.len();
        match self.push_all(values) {
            Ok(offsets) => Ok(self.stored_all(offsets, false)),
            Err(why) => Err(self.refusal(why, (), len, Duration::ZERO)),
        }
    }

    #[inline(always)]
    fn push(&self, from: &mut Option<T>) -> Result<Seq, Why> {
        match &self.stamps {
            None => self.ring.try_push_from(from),
            Some(stamps) => self.push_timed(self.entered(stamps), from),
        }
    }

    #[inline(never)]
    pub(super) fn push_timed(&self, created: u64, from: &mut Option<T>) -> Result<Seq, Why> {
        self.attempt(created, |created| self.ring.try_push_from_at(from, created))
    }

    fn push_all(&self, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        match &self.stamps {
            None => self.ring.try_push_all(values),
            Some(stamps) => self.push_all_timed(self.entered(stamps), values),
        }
    }

    pub(super) fn push_all_timed(&self, created: u64, values: &mut Vec<T>) -> Result<Range<Seq>, Why> {
        self.attempt(created, |created| self.ring.try_push_all_at(values, created))
    }

    /// Where the times of records come from, where they have any.
    #[inline(always)]
    pub(super) fn stamps(&self) -> Option<&Stamps> {
        self.stamps.as_ref()
    }

    /// How old records get, where they have an age.
    #[inline(always)]
    pub(super) fn age(&self) -> Option<&Age<T>> {
        self.age.as_deref()
    }

    #[inline(always)]
    pub(super) fn tell(&self, quiet: bool) {
        if quiet {
            self.not_empty.notify_quiet();
            light_barrier(); // as in `notify`, for `is_plain`
        } else {
            self.not_empty.notify();
        }
    }

    #[inline(always)]
    pub(super) fn stored(&self, offset: Seq, quiet: bool) -> Appended {
        self.measure(offset.plus(1));
        self.tell(quiet);
        let kept = self.is_plain() || self.is_kept(offset, 1, quiet);
        Appended { offset, kept }
    }

    /// Whether nothing more is to be done behind what was published and told of.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        // ORD(plain:A) Relaxed: behind our publish by the barrier in `tell`: either we see that records are to be shown, or who wants
        // to be shown them finds the partition's end behind our record.
        self.plain.load(Ordering::Relaxed)
    }

    /// Shows what was published to those who want that, and says whether the first of it is kept.
    #[inline(never)]
    fn is_kept(&self, first: Seq, count: u64, quiet: bool) -> bool {
        let kept = self.gates.kept(&self.ring, first, count);
        self.hand_out(first.plus(count), quiet);
        kept
    }

    /// From now on publishers look whether there is anybody to show records to. A heavy barrier is to follow.
    pub(super) fn is_watched(&self) {
        // ORD(plain:B) Relaxed: before the look at the end, by the barrier pair.
        self.plain.store(false, Ordering::Relaxed);
    }

    pub(super) fn stored_all(&self, offsets: Range<Seq>, quiet: bool) -> AppendedAll {
        self.measure(offsets.end);
        self.tell(quiet);
        let kept = self.is_plain() || self.is_kept(offsets.start, offsets.end.since(offsets.start), quiet);
        AppendedAll { offsets, kept }
    }
}

impl<T> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("gates", &self.gates).finish_non_exhaustive()
    }
}
