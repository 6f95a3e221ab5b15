//! Reading, under a hold.
#![forbid(unsafe_code)]

use std::fmt;

use crate::ring::hold::Hold;
use crate::ring::run::Run;
use crate::ring::slot::Page;
use crate::ring::table::Found;
use crate::ring::times::Times;
use crate::ring::{Body, Gate};
use crate::seq::Seq;
use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::atomic::fence;
use crate::sync::{Arc, explore, passed};

/// What a reader finds at its position.
#[derive(Debug)]
pub enum Peek<'a, T> {
    /// Records; never beyond the page.
    Ready(Run<'a, T>),
    /// Nothing yet.
    Pending,
    /// Overwritten, or below the floor: `jump` to `earliest` or later. What lies between is lost.
    Lapped {
        /// The earliest offset retained, later than the reader's position.
        earliest: Seq,
    },
}

/// What a reader finds at its position, of the times beside the records.
#[derive(Debug)]
pub enum PeekTimes<'a> {
    /// Times of as many records.
    Ready(Times<'a>),
    /// Nothing yet.
    Pending,
    /// As in [`Peek`].
    Lapped {
        /// The earliest offset retained, later than the reader's position.
        earliest: Seq,
    },
}

/// A reader: a position, and a hold on the page that it is looking at.
///
/// The records it lends stay valid however far producers get and wherever anybody moves a gate. A reader that is idle
/// keeps its page from being used again until it reads on, is released, or dropped: one page a reader at most.
pub struct Reader<T> {
    /// The position to read next.
    position: u64,
    /// Everything below this, and not below the position, is known to be published.
    known: u64,
    /// The page held, if `held`.
    page: Page<T>,
    number: u64,
    physical: u16,
    held: bool,
    /// Whether the log may go on without this reader: on a ring that sheds records, or because its cursor only follows.
    sheds: bool,
    /// Whether times lie beside the records.
    timed: bool,
    hold: usize,
    /// Whether the ring is prompt; there: the first record in hand, and the cursor that covers it.
    prompt: bool,
    in_hand: Option<u64>,
    cursor: Option<Arc<Gate>>,
    ring: Arc<Body<T>>,
}

/// What a reader gets of a page.
#[derive(Debug, PartialEq, Eq)]
enum Take {
    Held,
    Missing,
    Gone,
}

impl<T: Send + Sync + 'static> Reader<T> {
    pub(super) fn new(ring: Arc<Body<T>>, at: Seq) -> Self {
        let (position, hold, page) = (ring.tail.nth(at), ring.holds.register(), *ring.pages.page(0));
        let (sheds, timed, prompt) = (ring.sheds(), ring.pages.has_times(), ring.is_prompt());
        let (number, physical, held, in_hand, cursor) = (0, 0, false, None, None);
        Self {
            position,
            known: position,
            page,
            number,
            physical,
            held,
            sheds,
            timed,
            hold,
            prompt,
            in_hand,
            cursor,
            ring,
        }
    }

    /// The offset it reads next.
    #[inline(always)]
    pub fn position(&self) -> Seq {
        self.ring.tail.seq(self.position)
    }

    /// Reads on at `to`, wherever that is.
    pub fn jump(&mut self, to: Seq) {
        self.put_down();
        self.position = self.ring.tail.nth(to);
        self.known = self.position;
    }

    /// The same reader, which reads from where `cursor` stands on. On a prompt ring nobody is shown anything else: what no cursor
    /// covers may be dropped at any moment. What was lent, and put down, may be asked for again for as long as the cursor
    /// has not gone past it.
    ///
    /// # Panics
    /// When it is a cursor of another ring.
    #[must_use]
    pub fn covered_by(mut self, cursor: Arc<Gate>) -> Self {
        assert!(cursor.is_of(&self.ring.tail), "a cursor of another ring");
        let tag = cursor.tag();
        self.sheds |= !cursor.holds_back();
        self.cursor = Some(cursor);
        self.called(tag)
    }

    pub(super) fn called(self, tag: u64) -> Self {
        self.ring.holds.cell(self.hold).say(Some(tag));
        self
    }

    /// What there is to read: at most `max` records (at least one), never beyond the page.
    ///
    /// What is known to be published is handed out before the marks are looked at again. Where the log goes on without its
    /// readers, what it has gone past is not: but a run that was handed out is the reader's.
    #[inline]
    pub fn peek(&mut self, max: usize) -> Peek<'_, T> {
        if self.sheds && self.ring.is_gone(self.position) {
            self.known = self.position;
            return Peek::Lapped { earliest: self.ring.earliest() };
        }
        if self.position == self.known {
            match self.look(Page::published) {
                Take::Held => {}
                Take::Missing => return Peek::Pending,
                Take::Gone => return Peek::Lapped { earliest: self.ring.earliest() },
            }
        }
        if self.prompt && !self.take_in_hand() {
            return Peek::Pending; // its cursor has gone elsewhere, or the log has gone on without it
        }
        let len = ((self.known - self.position) as usize).min(max.max(1));
        Peek::Ready(self.run_of(len))
    }

    /// As [`peek`](Self::peek), of the times only: what a prompt ring has dropped has its time still.
    pub fn peek_times(&mut self) -> PeekTimes<'_> {
        if self.ring.is_gone(self.position) {
            self.known = self.position;
            return PeekTimes::Lapped { earliest: self.ring.earliest() };
        }
        match self.look(Page::written) {
            Take::Missing => PeekTimes::Pending,
            Take::Gone => PeekTimes::Lapped { earliest: self.ring.earliest() },
            Take::Held => {
                let slot = self.ring.geometry.slot(self.position);
                let slots = slot..slot + (self.known - self.position) as usize;
                PeekTimes::Ready(Times::new(self.ring.pages.times(self.physical), slots))
            }
        }
    }

    /// On prompt rings: nobody drops the records from the position on, to the end of the page, if the cursor stands there or
    /// before.
    #[inline(never)]
    fn take_in_hand(&mut self) -> bool {
        self.in_hand = Some(self.position);
        self.ring.holds.cell(self.hold).take_in_hand(self.position);
        self.ring.show_hand();
        let at = self.ring.tail.seq(self.position);
        let stands = self.cursor.as_ref().is_some_and(|cursor| cursor.covers(at));
        let covered = stands && self.position >= self.ring.floor();
        if !covered {
            self.put_down();
        }
        covered
    }

    /// Goes on to `to`, after the records below it were handled and **before** they are committed: at the end of a page
    /// the next one is announced here, where no store is about to miss that the fence would wait for.
    #[inline]
    pub fn advance(&mut self, to: Seq) {
        let to = self.ring.tail.nth(to);
        debug_assert!(self.position <= to && to <= self.known, "advanced beyond what was lent");
        if self.in_hand.take().is_some() {
            self.ring.holds.cell(self.hold).put_down(); // and the commit goes on from there
        }
        self.position = to;
        self.known = self.known.max(to);
        if self.held && self.ring.geometry.page(to) != self.number {
            self.turn();
        }
    }

    /// Lends the first `len` records of the last run once more, wherever the log has gone meanwhile.
    ///
    /// # Panics
    /// When there were not so many, or the reader has gone on or let go since.
    pub fn lent(&self, len: usize) -> Run<'_, T> {
        assert!(self.held && len as u64 <= self.known - self.position, "what was lent has been given back");
        self.run_of(len)
    }

    /// The first `len` records that are known to be published.
    #[inline(always)]
    fn run_of(&self, len: usize) -> Run<'_, T> {
        let times = if self.timed { self.ring.pages.times(self.physical) } else { &[] };
        Run::new(self.page, self.position(), self.ring.geometry.slot(self.position), len, times)
    }

    /// True when the last look ended at a record that was not published yet, and all before it has been handled: looking
    /// again at once would mostly take the line away from whoever is about to write it.
    #[inline]
    pub fn caught_up(&self) -> bool {
        self.position == self.known && self.ring.geometry.slot(self.position) != 0
    }

    /// Lets go of the page, while idle.
    pub fn release(&mut self) {
        self.put_down();
        self.known = self.position;
        self.held = false;
        self.ring.holds.cell(self.hold).clear();
    }

    /// Looks for records at the position, of those that `there` counts on the page.
    #[inline]
    fn look(&mut self, there: impl FnOnce(&Page<T>, u64, usize, usize) -> usize) -> Take {
        let number = self.ring.geometry.page(self.position);
        if !self.held || number != self.number {
            let take = self.take(number);
            if take != Take::Held {
                return take;
            }
        }
        let (from, slots) = (self.ring.geometry.slot(self.position), self.ring.geometry.slots());
        let found = there(&self.page, number, from, slots);
        self.known = self.position + found as u64;
        if found == 0 { Take::Missing } else { Take::Held }
    }

    /// The next page, if it is there: later looks then find it held.
    #[cold]
    fn turn(&mut self) {
        let next = self.ring.geometry.page(self.position);
        self.take(next);
    }

    /// Takes hold of page `number`, letting go of the one held before if that page is there.
    fn take(&mut self, number: u64) -> Take {
        let hold: &Hold = self.ring.holds.cell(self.hold);
        loop {
            let physical = match self.ring.table.look(number) {
                Found::Here(physical) => physical,
                Found::Gone => return Take::Gone,
                Found::Missing(_) => return Take::Missing,
            };
            hold.announce(physical);
            explore();
            // ORD(hold:A) SeqCst: the announcement before the second look. Pairs with ORD(scan:A).
            fence(SeqCst);
            if self.ring.table.still(number, physical) {
                (self.page, self.number, self.held) = (*self.ring.pages.page(physical), number, true);
                self.physical = physical;
                return Take::Held;
            }
            passed("page gone");
            self.held = false;
            hold.clear();
        }
    }
}

impl<T> Reader<T> {
    /// Has nothing in hand any more: for who is not going to advance. On prompt rings, what its cursor was moved over
    /// meanwhile is dropped.
    #[inline]
    pub fn put_down(&mut self) {
        if let Some(position) = self.in_hand.take() {
            self.let_fall(position);
        }
    }

    #[cold]
    fn let_fall(&mut self, position: u64) {
        self.ring.holds.cell(self.hold).put_down();
        // It has kept what lies behind it on its page from whoever moved the cursor away.
        self.ring.release_range(self.ring.tail.seq(position), 1);
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.put_down();
        self.ring.holds.unregister(self.hold);
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("position", &self.ring.tail.seq(self.position))
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
