//! Physical pages: which are free, which lie in the table, which were set aside.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use crate::ring::chunks::Chunks;
use crate::ring::hold::Holds;
use crate::ring::release::Released;
use crate::ring::slot::Page;
use crate::ring::storage::Block;
use crate::ring::{Options, OutOfMemory, Producers};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, fence};
use crate::sync::{CachePadded, explore, passed};

/// Ready for use: marks cleared, nobody looks at it.
const FREE: u8 = 0;
/// In the table, or in the hands of one thread that takes it there or judges it.
const TAKEN: u8 = 1;
/// Set aside: it has left the table, and somebody may still be using it.
const RETIRED: u8 = 2;

/// How many retired pages are judged behind one fence. They are nobody else's meanwhile: with more, each judge that is
/// stopped at it would make others allocate what he has in his hands, again and again.
const SCAN: usize = 2;

/// The state of a physical page:
///
/// | from    | to      | by                                                                                    |
/// |---------|---------|---------------------------------------------------------------------------------------|
/// | FREE    | TAKEN   | `spare`, by exchange                                                                  |
/// | TAKEN   | RETIRED | `retire`, by whoever replaced its entry; or a scan that found it still needed         |
/// | RETIRED | TAKEN   | a scan, by exchange                                                                   |
/// | TAKEN   | FREE    | a scan that found more than it needs; `give_back`                                     |
#[derive(Debug, Default)]
struct State {
    word: AtomicU8,
    /// While RETIRED: which page of the log it holds.
    number: AtomicU64,
}

impl State {
    /// Takes the page out of state `from`, if it is in it.
    fn take(&self, from: u8) -> bool {
        // ORD(page_take:A) Relaxed: a guess, which the exchange checks.
        if self.word.load(Relaxed) != from {
            return false;
        }
        explore();
        // ORD(page_take:B) Acquire: the page is ours after all that its last owner did and saw. Pairs with ORD(page_put:A).
        // Relaxed on failure: another page will do.
        self.word.compare_exchange(from, TAKEN, Acquire, Relaxed).is_ok()
    }

    /// Hands the page on.
    fn put(&self, to: u8) {
        // ORD(page_put:A) Release: what we did to the page, and what we saw of its users. Pairs with ORD(page_take:B).
        self.word.store(to, Release);
    }

    fn is(&self, state: u8) -> bool {
        // ORD(page_state:A) Relaxed: for a gauge.
        self.word.load(Relaxed) == state
    }
}

/// A page set aside, and who has to be done with it.
#[derive(Debug)]
pub(super) struct Aside {
    /// Which page of the log it is.
    pub(super) number: u64,
    /// What the readers are called that look at it.
    pub(super) readers: Vec<Option<u64>>,
    /// The first slot of those whose claims are not finished.
    pub(super) unfinished: Option<usize>,
}

struct Extra<T>(OnceLock<(Page<T>, Block<T>)>, State, Released);

impl<T> Default for Extra<T> {
    fn default() -> Self {
        Self(OnceLock::new(), State::default(), Released::default())
    }
}

/// The pages of a ring. Those it always needs are reserved together; more only while readers or claims keep some aside,
/// and are kept for use again.
pub(super) struct Pages<T> {
    slots: usize,
    tagged: bool,
    timed: bool,
    fixed: Box<[(Page<T>, State)]>,
    slab: Block<T>,
    extra: Chunks<Extra<T>>,
    extras: AtomicUsize,
    /// Whether a page may retire with claims unfinished. Those of an exclusive producer are finished before it goes on.
    claims_may_stall: bool,
    /// On prompt rings: how far the records of each of the fixed pages have been released, in lines of their own.
    released: Option<Box<[CachePadded<Released>]>>,
    /// Whether a page may leave the table before its records have been released.
    overwrites: AtomicBool,
}

impl<T> Pages<T> {
    /// `count` pages of `slots` slots, as `options` has it.
    pub(super) fn new(count: usize, slots: usize, options: Options) -> Result<Self, OutOfMemory> {
        let (shared, timed) = (options.producers == Producers::Shared, options.timed || options.aged);
        let mut slab = Block::new(count, slots, shared, timed)?;
        if options.prefault {
            slab.prefault();
        }
        let fixed = (0..count).map(|nth| (slab.page(nth), State::default())).collect();
        let (extra, extras) = (Chunks::new(), AtomicUsize::new(0));
        let released = options.prompt.then(|| (0..count).map(|_| CachePadded::default()).collect());
        let (tagged, claims_may_stall) = (shared, shared);
        let overwrites = AtomicBool::new(options.lossy || options.aged);
        Ok(Self { slots, tagged, timed, fixed, slab, extra, extras, claims_may_stall, released, overwrites })
    }

    fn all(&self) -> usize {
        // ORD(extras:A) Relaxed: a page is read through its own cell, which publishes it.
        self.fixed.len() + self.extras.load(Relaxed)
    }

    fn state(&self, physical: u16) -> Option<&State> {
        let at = usize::from(physical);
        match self.fixed.get(at) {
            Some((_, state)) => Some(state),
            None => self.extra.get(at - self.fixed.len()).filter(|extra| extra.0.get().is_some()).map(|extra| &extra.1),
        }
    }

    /// On prompt rings, of a page that has been made: how far its records have been released.
    fn released(&self, physical: u16) -> Option<&Released> {
        let (at, fixed) = (usize::from(physical), self.released.as_ref()?);
        match fixed.get(at) {
            Some(released) => Some(released),
            None => self.extra.get(at - fixed.len()).filter(|extra| extra.0.get().is_some()).map(|extra| &extra.2),
        }
    }

    /// All physical pages.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u16> {
        (0..self.all()).map(|at| at as u16)
    }

    /// The page, which nobody else has, is to hold the positions from `first` on.
    pub(super) fn anew(&self, physical: u16, first: u64) {
        if let Some(released) = self.released(physical) {
            released.anew(first);
        }
    }

    /// From now on pages may leave the table before their records have been released.
    pub(super) fn overwrite(&self) {
        // ORD(overwrites:B) Relaxed: see where it is read.
        self.overwrites.store(true, Relaxed);
    }

    /// The first position on the page that has not been released, if there is one.
    pub(super) fn kept_from(&self, physical: u16) -> Option<u64> {
        self.released(physical)?.kept_from()
    }

    /// Drops the records of the page below `limit`, but those that somebody else was given to drop; false if it met one
    /// that is not published.
    pub(super) fn release(&self, physical: u16, limit: u64) -> bool {
        let Some(released) = self.released(physical) else { return true };
        let (page, mask) = (self.page(physical), self.slots as u64 - 1);
        while let Some(from) = released.kept_from().filter(|from| *from < limit) {
            let (slot, end) = ((from & mask) as usize, (from | mask) + 1);
            let count = page.standing(slot, slot + (limit.min(end) - from) as usize);
            if count == 0 && released.kept_from() == Some(from) {
                return false;
            }
            if count > 0 && released.give(from, from + count as u64, end) {
                (slot..slot + count).for_each(|slot| page.drop_record(slot));
            }
        }
        true
    }

    /// Where a physical page lies that was found in the table or made by `spare`.
    #[inline(always)]
    pub(super) fn page(&self, physical: u16) -> &Page<T> {
        match self.fixed.get(usize::from(physical)) {
            Some((page, _)) => page,
            None => self.extra_page(physical),
        }
    }

    #[cold]
    #[inline(never)]
    fn extra_page(&self, physical: u16) -> &Page<T> {
        let extra = self.extra.make(usize::from(physical) - self.fixed.len());
        &extra.0.get().expect("pages are only named once they are made").0
    }

    /// Whether there are times.
    pub(super) fn has_times(&self) -> bool {
        self.timed
    }

    /// The times of a physical page's slots, as far as there are any.
    #[inline]
    pub(super) fn times(&self, physical: u16) -> &[AtomicU64] {
        match usize::from(physical).checked_sub(self.fixed.len()) {
            _ if !self.timed => &[],
            None => self.slab.times(usize::from(physical)),
            Some(nth) => self.extra.get(nth).and_then(|extra| extra.0.get()).map_or(&[], |(_, block)| block.times(0)),
        }
    }

    /// The page of `physical` has left the table, where it was page `number` of the log.
    pub(super) fn retire(&self, physical: u16, number: u64) {
        if let Some(state) = self.state(physical) {
            // ORD(retire:A) Relaxed: for a diagnosis, which looks twice.
            state.number.store(number, Relaxed);
            state.put(RETIRED);
        }
    }

    /// It is still needed, and stays set aside.
    fn put_back(&self, physical: u16) {
        if let Some(state) = self.state(physical) {
            state.put(RETIRED);
        }
    }

    /// A spare was not needed after all.
    pub(super) fn give_back(&self, physical: u16) {
        if let Some(released) = self.released(physical) {
            released.forget();
        }
        if let Some(state) = self.state(physical) {
            state.put(FREE);
        }
    }

    /// A page that is the caller's alone, with cleared marks: a free one, or one set aside that nobody needs any more, or
    /// a new one.
    pub(super) fn spare(&self, holds: &Holds) -> Result<u16, OutOfMemory> {
        // Twice: pages come and go while one looks, in front of him and behind.
        let found = (0..2).find_map(|_| self.free().or_else(|| self.scan(holds)));
        found.map_or_else(|| self.allocate(), Ok)
    }

    fn free(&self) -> Option<u16> {
        self.numbers().find(|page| self.state(*page).is_some_and(|state| state.take(FREE)))
    }

    /// Frees pages set aside that nobody needs, and keeps one. Those that are needed do not hide those behind them.
    fn scan(&self, holds: &Holds) -> Option<u16> {
        let mut pages = self.numbers();
        loop {
            let mut taken = [0; SCAN];
            let retired = pages.by_ref().filter(|page| self.state(*page).is_some_and(|state| state.take(RETIRED)));
            // The places first: a page that was taken must have one.
            let count = taken.iter_mut().zip(retired).map(|(place, page)| *place = page).count();
            if count == 0 {
                return None;
            }
            if let Some(kept) = self.judge(&taken[..count], holds) {
                return Some(kept);
            }
        }
    }

    /// Of pages just taken out of RETIRED, keeps one that nobody needs, frees the others, and puts back what is needed.
    fn judge(&self, taken: &[u16], holds: &Holds) -> Option<u16> {
        // ORD(scan:A) SeqCst: the entries were replaced before; a reader that announced itself and fenced later than this
        // looks again and finds so, one that did earlier is found below. Pairs with ORD(hold:A).
        fence(SeqCst);
        explore();
        let mut kept = None;
        for page in taken {
            if self.in_use(*page, holds) {
                passed("page kept");
                self.put_back(*page);
                continue;
            }
            // Only now: cleared while a claim is unfinished, it would look unfinished for ever.
            match self.released {
                None => self.page(*page).clear(self.slots),
                Some(_) => self.page(*page).empty(self.slots),
            }
            match kept {
                None => {
                    passed("page again");
                    kept = Some(*page);
                }
                Some(_) => self.give_back(*page),
            }
        }
        kept
    }

    /// Whether cursors may be overtaken.
    pub(super) fn overwrites(&self) -> bool {
        // ORD(overwrites:C) Relaxed: see the table; asked again and again.
        self.overwrites.load(Relaxed)
    }

    fn in_use(&self, page: u16, holds: &Holds) -> bool {
        if self.released.is_none() {
            return (self.claims_may_stall && !self.page(page).all_marked(self.slots)) || holds.needed(page);
        }
        if holds.needed(page) {
            return true;
        }
        // Who does not see it set keeps the page, and looks again.
        if self.overwrites() {
            self.release(page, u64::MAX);
        }
        !self.page(page).all_dropped(self.slots)
    }

    #[cold]
    fn allocate(&self) -> Result<u16, OutOfMemory> {
        let block = Block::new(1, self.slots, self.tagged, self.timed)?;
        // ORD(allocate:A) Relaxed: it hands out numbers.
        let nth = self.extras.fetch_add(1, Relaxed);
        let Some(physical) = u16::try_from(self.fixed.len() + nth).ok().filter(|physical| *physical < u16::MAX) else {
            // ORD(allocate:B) Relaxed: and takes one back that is out of range; nobody reads beyond it.
            self.extras.fetch_sub(1, Relaxed);
            return Err(OutOfMemory { bytes: block.bytes() });
        };
        let extra = self.extra.make(nth);
        extra.1.put(TAKEN);
        let fresh = extra.0.set((block.page(0), block)).is_ok();
        assert!(fresh, "a page's number was given out twice");
        Ok(physical)
    }

    /// How many pages are set aside now.
    pub(super) fn aside(&self) -> usize {
        (0..self.all()).filter(|at| self.state(*at as u16).is_some_and(|state| state.is(RETIRED))).count()
    }

    /// The pages set aside, as they were one after the other. Between two looks that find a page the same, it was it.
    pub(super) fn kept_aside(&self, holds: &Holds) -> Vec<Aside> {
        let look = |physical: u16| {
            let state = self.state(physical)?;
            // ORD(kept_aside:A) Relaxed: for a diagnosis.
            state.is(RETIRED).then(|| state.number.load(Relaxed))
        };
        let judge = |physical| {
            let number = look(physical)?;
            let readers = holds.keepers(physical);
            let finished = self.page(physical).published(number, 0, self.slots);
            let unfinished = (self.claims_may_stall && finished < self.slots).then_some(finished);
            (look(physical) == Some(number)).then_some(Aside { number, readers, unfinished })
        };
        self.numbers().filter_map(judge).collect()
    }

    /// How many pages there are.
    pub(super) fn made(&self) -> usize {
        self.all()
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        for at in 0..self.all() {
            if self.state(at as u16).is_some() {
                self.page(at as u16).drop_values(self.slots);
            }
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use crate::ring::{Options, Peek, Producers, Ring};
    use crate::seq::{Capacity, Seq};

    #[test]
    fn pages_that_many_slow_readers_hold_do_not_hide_those_that_are_free() {
        const READERS: u64 = if cfg!(miri) { 20 } else { 40 };
        const PUBLISHED: u64 = if cfg!(miri) { 30 } else { 500 };
        let (capacity, producers) = (Capacity::new(1).unwrap(), Producers::Shared);
        let ring = Ring::new(Options::new(capacity, producers)).unwrap();
        let slow = |n| {
            ring.try_push(n).unwrap();
            let mut reader = ring.reader(Seq::new(n));
            assert!(matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n));
            reader
        };
        let slow: Vec<_> = (0..READERS).map(slow).collect();
        (0..PUBLISHED).for_each(|n| _ = ring.try_push(n).unwrap());
        assert!(ring.pages_made() <= slow.len() + 5, "{} pages for {READERS} readers", ring.pages_made());
    }
}
