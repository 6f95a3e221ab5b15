//! Times beside records, on rings that were asked for them: stored before the mark, and read by who saw the mark.
#![forbid(unsafe_code)]

use std::ops::Range;

use crate::ring::pages::Pages;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;

/// What a publish says about the time of its records.
pub(super) trait Stamp: Copy {
    /// Notes it for `slots` of page `physical`, which are the caller's alone and not marked yet.
    fn put<T>(self, pages: &Pages<T>, physical: u16, slots: Range<usize>);
}

/// Nothing.
#[derive(Clone, Copy)]
pub(super) struct Unstamped;

impl Stamp for Unstamped {
    #[inline(always)]
    fn put<T>(self, _: &Pages<T>, _: u16, _: Range<usize>) {}
}

/// This time.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) u64);

impl Stamp for At {
    #[inline(always)]
    fn put<T>(self, pages: &Pages<T>, physical: u16, slots: Range<usize>) {
        for time in pages.times(physical).get(slots).into_iter().flatten() {
            // ORD(put_time:A) Relaxed: published with the record, by its mark or tag.
            time.store(self.0, Relaxed);
        }
    }
}

/// The time of the record in slot `i`; 0 where there are no times.
#[inline]
pub(super) fn time(times: &[AtomicU64], i: usize) -> u64 {
    TimeOf(times.get(i)).get().unwrap_or(0)
}

/// Where the time of a record lies, if it has one; read only when somebody asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeOf<'a>(pub(super) Option<&'a AtomicU64>);

impl<'a> TimeOf<'a> {
    /// Of a record that was copied, with its time.
    pub fn of(time: &'a Option<AtomicU64>) -> Self {
        TimeOf(time.as_ref())
    }

    /// The time; `None` on rings without times.
    pub fn get(self) -> Option<u64> {
        // ORD(time:A) Relaxed: the reader has seen the record's mark or tag, which came after it.
        self.0.map(|time| time.load(Relaxed))
    }
}

/// The times beside consecutive records on one page.
#[derive(Debug)]
pub struct Times<'a> {
    page: &'a [AtomicU64],
    slots: Range<usize>,
}

impl<'a> Times<'a> {
    /// Of a held page, in `slots` that were seen to be written.
    pub(super) fn new(page: &'a [AtomicU64], slots: Range<usize>) -> Self {
        Self { page, slots }
    }

    /// All of them, in order; zeros on rings without times.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> {
        self.slots.clone().map(|i| time(self.page, i))
    }
}
