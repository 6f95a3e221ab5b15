//! One partition's records: a ring of pages that producers fill and readers chase.
//!
//! A position is the offset is the sequence, dense, for ever. Records lie in place; readers borrow them. Producers wait
//! for nobody but gates, and readers hold nobody up: a page that somebody still looks at when its turn comes is set
//! aside, and another takes its place. That is hazard pointers with pages as the objects.
//!
//! # Layout                capacity 8 as 3 pages of 4; 13 claimed; a reader still looks at page 0
//!
//! ```text
//!                 page 1        page 2        page 3                  granted = 14: claims below it are allowed
//!   table      ┌─────────────┬─────────────┬─────────────┐            place n mod 3 names page n's physical page
//!   (place)    │ 1: page 1   │ 2: page 2   │ 0: page 3   │
//!              └──────┬──────┴──────┬──────┴──────┬──────┘
//!   physical       ┌──▼──┐       ┌──▼──┐       ┌──▼──┐       ┌─────┐       ┌─────┐
//!   pages          │ P1  │       │ P2  │       │ P3  │       │ P0  │       │ P4  │
//!                  │ 4..8│       │ 8.. │       │ 12  │       │ 0..4│       │     │
//!                  └─────┘       └─────┘       └─────┘       └──▲──┘       └─────┘
//!                   taken         taken         taken        retired         free
//!                                                               └── hold of a reader that was lapped
//! ```
//!
//! # Who writes what
//!
//! | word                | written by                                            | read by                             |
//! |---------------------|-------------------------------------------------------|-------------------------------------|
//! | `tail`              | producers: each claim (shared), each publish (exclusive, or the owner of a shared ring); `seal` | producers, joiners, statistics |
//! | owner and flags of a shared ring | see `bias`                               | its producers                       |
//! | `granted` (offset, stamp) | `raise` upwards; `join` and `seek` add a stamp; all by RMW | producers out of room, joiners |
//! | what is kept of the last look at the gates | see `gates` | producers out of room; who drops records |
//! | table entry, `newest` | who installs page n, by CAS; `newest` by the winner  | producers and readers, once per page |
//! | time of a slot      | its claimant, before the mark                         | readers of timed rings              |
//! | mark, tag of a slot | its claimant; marks also by `clear`, `empty`, releasers | readers (marks of bare, tags of tagged pages); `scan` |
//! | `floor`             | who overwrites a page of a lossy ring, before it does; `raise_floor` | producers out of room, readers of lossy and aged rings |
//! | hold                | its reader, once per page                             | `scan`                              |
//! | words of prompt rings | see `release`                                       | producers, readers, releasers       |
//! | state of a physical page | its owner of the moment                          | `spare`                             |
//! | gate                | anybody, by CAS                                       | `raise`                             |
//!
//! # Invariants
//!
//! 1. A position is claimed once: by the CAS on `tail`, by the one exclusive producer, or by the one owner of a shared
//!    ring, while it has one (`bias` keeps the last two claims apart). Until it is marked, its slot is
//!    the claimant's alone. No user code runs between claim and mark: values are built before and old ones dropped after.
//! 2. Nobody claims at or beyond `granted`, and no gate stands further back than `granted` less the capacity, unless the
//!    floor does not, below which nothing counts as covered. A raise counts only if no gate came or was moved since it
//!    loaded the word: the stamp says so. Page n is installed only once `granted` has reached its first position; it replaces page n - N, which lies wholly below
//!    `granted` less the capacity, as (N - 1) * S >= capacity. So what a gate covers is always in the table.
//! 3. A reader touches a page only while it holds it: announced, fenced, and then found in the table still. `scan` fences
//!    after the entry was replaced and before it looks at holds. If the reader's fence comes first, `scan` sees the hold;
//!    if `scan`'s comes first, the reader sees that the entry has gone. In both cases no page is used again under a reader.
//! 4. A shared producer looks up its page before it claims. Page n gives way to n + N only once the tail is past page n, so
//!    that a claim that succeeds proves the entry. (An owner's: nobody else moves the tail while it is one, and it moves it
//!    only behind its marks. Nor does it itself, in a destructor below: whoever took a page that may have had records to
//!    drop looks at the tail anew.) From then on the missing mark keeps the page from being used again.
//! 5. A physical page out of the table is used again by one thread that took it from RETIRED, saw every mark set (shared)
//!    or published them all itself (exclusive), or saw every record dropped (prompt rings, see `release`), and found no
//!    hold on it. Nobody else can come to touch it.
//! 6. Pages are freed with the ring, which readers and producers keep alive. There are N + spares, and at most one more for
//!    each reader and unfinished claim, and two for each producer and releaser at work, who judges so many at once. (A look
//!    at all pages is no single moment: a producer that others overtake all the while may make one that was not needed.)
//!
//! A stalled producer delays what comes after its claim, and keeps one page; it stops no other producer that no gate stops,
//! but those that take a shared ring from its owner: they wait until its publish under way is done (`bias`, inv. 4).
//! Page numbers count modulo 2^48, `granted` and gates modulo 2^40: a thread would have to sleep through as many pages
//! (records) between two of its steps to take one for another. Positions inside a ring count from its first offset, in
//! 64 bits, so that they do not wrap.
//!
//! # Orderings
//!
//! | label | operation | order | why this much, and why no more |
//! |---|---|---|---|
//! | commit:A | gate, CAS | Release | what a group did with its records, before its commit; pairs with gate:A, force:B, catch_up:B. Not Acquire: a commit reads nothing |
//! | bump:A | gate, add | Release | what the new owner did, before whoever sees its epoch; pairs with gate:A. It reads nothing: the gate is read after it |
//! | force:A | gate, CAS | Release | the same for a seek; pairs with gate:A. Not Acquire: it succeeds on a word acquired before |
//! | force:B | gate, CAS lost | Acquire | it goes on from what won; pairs with commit:A |
//! | lift:A | gate, CAS | Relaxed | corrects a position that nobody could have used |
//! | catch_up:A | gate, CAS | Relaxed | passes over records that nobody did anything with, and carries on what was released before |
//! | catch_up:B | gate, CAS lost | Acquire | it goes on from what won; pairs with commit:A |
//! | catch_up:C | lifted to, store | Relaxed | a figure |
//! | catch_up:D | lifted, add | Relaxed | a counter |
//! | lifted:A | lifted, load | Relaxed | a counter |
//! | lifted:B | lifted to, load | Relaxed | a figure |
//! | gate_take:A | in hand, store | Relaxed | a number to count with; memory goes by the gate's word |
//! | places:A | in hand, load | Relaxed | the same |
//! | gate:A | gate, load | Acquire | what the group did before is visible to the producer that it lets in; pairs with commit:A, bump:A, force:A |
//! | granted:A | `granted`, load | Acquire | the same for a producer that claims under another's raise; pairs with raise:B |
//! | raise:A | `granted`, load | Acquire | a gate whose stamp is in the word is on the list we scan; pairs with stamp:A |
//! | raise:B | `granted`, CAS | AcqRel | passes on what the gates showed (granted:A), and the chain of stamps (stamp:A) |
//! | stamp:A | `granted`, add | AcqRel | our gate before our stamp (raise:A), after the raises and stamps before us (raise:B) |
//! | announce:A | hold, store | Release | ends the use of the page held before; pairs with needed:A. Not more: the fence hold:A follows |
//! | let_go:A | hold, store | Release | ends the use of the page; pairs with needed:A |
//! | needed:A | hold, load | Acquire | the next writers come after the readers; pairs with announce:A, let_go:A |
//! | register:A | holds in use, load | Relaxed | read under the lock that all writers take |
//! | register:B | holds in use, store | Relaxed | seen by needed:B because of the fences hold:A and scan:A |
//! | needed:B | holds in use, load | Relaxed | see register:B |
//! | exclusive:A | taken, swap | Relaxed | says who was first |
//! | page_take:A | state, load | Relaxed | a guess |
//! | page_take:B | state, CAS | Acquire | the page after its last owner; pairs with page_put:A |
//! | page_put:A | state, store | Release | what its owner did and saw; pairs with page_take:B |
//! | page_state:A | state, load | Relaxed | a gauge |
//! | retire:A | page's number, store | Relaxed | for a diagnosis, which finds the page RETIRED before and after |
//! | kept_aside:A | page's number, load | Relaxed | the same |
//! | overwrites:C | pages overwrite, load | Relaxed | who does not see it set keeps the page, and looks again when it wants one |
//! | overwrites:B | pages overwrite, store | Relaxed | the same |
//! | extras:A | extra pages, load | Relaxed | each is read through a cell that publishes it |
//! | allocate:A | extra pages, add | Relaxed | hands out numbers |
//! | allocate:B | extra pages, sub | Relaxed | takes back one out of range |
//! | scan:A | `fence` | SeqCst | entries replaced before holds are read (inv. 3); pairs with hold:A |
//! | hold:A | `fence` | SeqCst | the hold before the second look (inv. 3); pairs with scan:A |
//! | has_old:A | mark, load | Relaxed | the slot is the claimant's; the clear came with the entry |
//! | lend:A | mark, load | Relaxed | the same |
//! | lend:B | mark, store | Relaxed | nobody reads it before it is published |
//! | stage:A | mark, store | Relaxed | as lend:B |
//! | unstage:A | mark, store | Relaxed | as lend:B |
//! | mark:A | mark, store | Release | the record before its mark; pairs with published:A, all_marked:A |
//! | tag:A | tag, store | Release | the record before its tag; pairs with published:B |
//! | put_time:A | time, store | Relaxed | goes with the record: mark:A, tag:A |
//! | time:A | time, load | Relaxed | came with the record: published:A, published:B |
//! | published:A | mark, load | Acquire | the reader reads the record; pairs with mark:A |
//! | published:B | tag, load | Acquire | the same; pairs with tag:A |
//! | all_marked:A | mark, load | Acquire | the next writers come after these; pairs with mark:A |
//! | drop_values:A | mark, load | Relaxed | nobody is left |
//! | look:A | entry, load | Acquire | the page is clear and free of its earlier users; pairs with install:A |
//! | newest:A | `newest`, load | Acquire | the same; pairs with newest:B |
//! | newest:B | `newest`, store | Release | the same as install:A; pairs with newest:A |
//! | still:A | entry, load | Relaxed | equal to what look:A acquired, so the same installation |
//! | install:A | entry, CAS | AcqRel | Release: the clear page before its entry (look:A). Acquire: we retire what another installed |
//! | end:A | `tail`, load | Acquire | what an exclusive producer published below; pairs with finish:A, begin:A |
//! | floor:A | `floor`, load | Relaxed | a number that only grows: memory goes by holds. Who finds a page gone finds the floor past it: it was raised before the entry changed (install:A, look:A), by whoever changed it or saw it raised (raise:B, granted:A) |
//! | floor:B | `floor`, max | Relaxed | the same |
//! | is_sealed:A | `tail`, load | Relaxed | a bit that only rises |
//! | is_sealed:B | `sealed`, load | Relaxed | a flag that only rises |
//! | claim:A | `tail`, load | Relaxed | a guess |
//! | claim:B | `tail`, CAS | Relaxed | hands out positions; the right to write came with the entry (inv. 4) |
//! | begin:A | `tail`, store | Release | the same end once more, so it must cover as much as finish:A (whose release sequence a relaxed store would end); pairs with end:A. Before begin:B by the barrier pair |
//! | begin:B | `sealed`, load | Relaxed | either we see the seal, or the sealer sees us busy |
//! | finish:A | `tail`, store | Release | records and marks before the end that covers them; pairs with end:A, seal:C |
//! | seal:A | `tail`, or | Relaxed | claims and seal are ordered by the one word |
//! | seal:B | `sealed`, store | Relaxed | before seal:C by the barrier pair |
//! | seal:C | `tail`, load | Acquire | what lies below the final end is published; pairs with finish:A |
//!
//! Nothing is SeqCst but the fence pair of inv. 3 and the barrier pairs of `begin` and `seal`, and of `bias`.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod batch;
mod bias;
mod chunks;
mod cursors;
mod exclusive;
mod floor;
mod gate;
mod gates;
mod grant;
mod hold;
mod pages;
mod reader;
mod release;
mod run;
mod shared;
#[allow(unsafe_code)]
mod slot;
mod stall;
#[allow(unsafe_code)]
mod storage;
mod table;
mod tail;
mod times;
mod types;

pub use batch::push_from;
pub use exclusive::Exclusive;
pub use gate::{Gate, Gating};
pub use reader::{Peek, PeekTimes, Reader};
pub use run::{Records, Run};
pub use stall::{Keeper, Kept};
pub use times::{TimeOf, Times};
pub use types::{Fenced, Moved, Options, OutOfMemory, Producers, Refused, Start, Why};

use std::fmt;
use std::mem::needs_drop;
use std::ops::Deref;

use crate::seq::{Capacity, Geometry, Seq, Stamped};
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::epoch::EpochCell;
use crate::sync::{Arc, CachePadded, Mutex};

use bias::Bias;
use gates::{Gates, Joining, Narrowest};
use hold::Holds;
use pages::Pages;
use release::Lines;
use table::Table;
use tail::Tail;

type Shared = Arc<Gate>;

/// How far producers may go, and what is kept of the last look at the gates: written together.
#[derive(Debug)]
struct Promise {
    granted: AtomicU64,
    narrowest: Narrowest,
}

impl Promise {
    fn new(first: Seq) -> Self {
        Self { granted: AtomicU64::new(Stamped::new(first, 0).word()), narrowest: Narrowest::default() }
    }
}

/// What nobody but producers touches, and nearly always one of them; joins, seeks and seals seldom.
#[derive(Debug)]
struct Producing {
    bias: Bias,
    promise: Promise,
}

/// Pages beyond those in the table that a ring has from the start.
const SPARES: usize = 2;

/// One partition's records: published once, in place, and read by any number of readers. Clones are the same ring.
pub struct Ring<T>(Arc<Body<T>>);

/// What a ring, its readers and its producers share; a ring gives way to it. What every publish reads and nobody writes lies
/// together.
#[repr(C)]
pub struct Body<T> {
    producing: CachePadded<Producing>,
    table: CachePadded<Table>,
    /// Positions below it are gone; see `floor`.
    floor: CachePadded<AtomicU64>,
    geometry: Geometry,
    tail: Arc<Tail>,
    /// If it is a prompt one, and has records that care.
    lines: Option<Box<Lines>>,
    lossy: bool,
    aged: bool,
    exclusive_taken: AtomicBool,
    pages: Pages<T>,
    gates: EpochCell<Gates>,
    holds: Holds,
    joining: Mutex<Joining>,
}

impl<T: Send + Sync + 'static> Ring<T> {
    /// A ring. Its pages are reserved at once and touched one by one as they are needed (or now, if `prefault`).
    pub fn new(options: Options) -> Result<Self, OutOfMemory> {
        Self::with_spares(options, SPARES)
    }

    /// A ring with another number of spare pages: with none, pages come round soonest, which is what models want.
    pub fn with_spares(options: Options, spares: usize) -> Result<Self, OutOfMemory> {
        let Options { capacity, producers, first, lossy, aged, .. } = options;
        let options = Options { prompt: options.prompt && needs_drop::<T>(), ..options };
        let geometry = Geometry::new(capacity);
        let body = Body {
            geometry,
            tail: Arc::new(Tail::new(producers, first)),
            producing: CachePadded::new(Producing { bias: Bias::new(producers), promise: Promise::new(first) }),
            floor: CachePadded::new(AtomicU64::new(0)),
            lossy,
            aged,
            table: CachePadded::new(Table::new(geometry.pages())),
            pages: Pages::new(geometry.pages() + spares, geometry.slots(), options)?,
            holds: Holds::new(),
            gates: EpochCell::new(Gates::default()),
            joining: Mutex::new(Joining::default()),
            exclusive_taken: AtomicBool::new(false),
            lines: options.prompt.then(Box::default),
        };
        Ok(Self(Arc::new(body)))
    }

    /// The one producer of an exclusive ring; `None` for a shared one, and the second time.
    pub fn exclusive(&self) -> Option<Exclusive<T>> {
        // ORD(exclusive:A) Relaxed: it only says who was first.
        let mine = self.producers() == Producers::Exclusive && !self.exclusive_taken.swap(true, Relaxed);
        mine.then(|| Exclusive::new(self.0.clone()))
    }

    /// A reader that starts at `at`. It holds nobody back; give its group a gate for that.
    pub fn reader(&self, at: Seq) -> Reader<T> {
        Reader::new(self.0.clone(), at)
    }

    /// The same, and [`why_stalled`](Body::why_stalled) calls it `tag`.
    pub fn reader_of(&self, at: Seq, tag: u64) -> Reader<T> {
        self.reader(at).called(tag)
    }
}

impl<T> Clone for Ring<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Ring<T> {
    type Target = Body<T>;

    #[inline(always)]
    fn deref(&self) -> &Body<T> {
        &self.0
    }
}

impl<T: Send + Sync + 'static> Body<T> {
    /// How many records it holds, exactly.
    pub fn capacity(&self) -> Capacity {
        self.geometry.capacity()
    }

    /// Who may publish.
    pub fn producers(&self) -> Producers {
        self.tail.producers()
    }

    /// Whether records go when they are further back than the capacity, read or not.
    pub fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// As if everything up to the `nth` record had been published and overwritten long ago.
    #[cfg(all(test, not(ringlog_loom)))]
    pub(crate) fn skip_to(&self, nth: u64) {
        self.tail.finish(nth);
        let granted = self.granted().at(self.tail.seq(nth));
        self.producing.promise.granted.store(granted.word(), Relaxed);
    }

    /// One past the last offset claimed (shared producers) or published (an exclusive one, or the one thread that publishes
    /// to a shared ring). Readers may be a record or a batch ahead of what is published so: its marks come first.
    #[inline]
    pub fn end(&self) -> Seq {
        self.tail.end_seq()
    }

    /// No claim succeeds afterwards. Returns the final end: an exclusive producer has published all below it, shared ones
    /// have claimed it and are about to. Waits for a publish that is under way of an exclusive producer, or of the one
    /// thread that has a shared ring to itself, in which no user code runs.
    pub fn seal(&self) -> Seq {
        self.share();
        self.tail.seq(self.tail.seal())
    }

    /// Shared producers claim by exchange from now on, even where there is one thread only. Waits for a publish that is
    /// under way on the thread that had the ring to itself.
    pub fn share(&self) {
        self.producing.bias.share();
    }

    /// True once sealed.
    pub fn is_sealed(&self) -> bool {
        self.tail.is_sealed()
    }

    /// Pages that have left the table and wait until nobody needs them, or until somebody looks whether they do.
    pub fn pages_aside(&self) -> usize {
        self.pages.aside()
    }

    /// Pages in memory: the N in the table, two spares, and what readers and stalled claims once made necessary beyond
    /// that: about one for each reader and unfinished claim, and two for each producer at work.
    pub fn pages_made(&self) -> usize {
        self.pages.made()
    }
}

impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> fmt::Debug for Body<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("capacity", &self.geometry.capacity().get())
            .field("producers", &self.tail.producers())
            .field("end", &self.tail.end_seq())
            .field("sealed", &self.tail.is_sealed())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests;
