//! Records lent by a reader.
#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;

use crate::ring::slot::Page;
use crate::ring::times::{TimeOf, time};
use crate::seq::Seq;
use crate::sync::atomic::AtomicU64;

/// Consecutive records on one page, borrowed.
///
/// They stay valid for as long as the reader that lent them is borrowed, overwritten or not.
pub struct Run<'a, T> {
    first: Seq,
    records: Records<'a, T>,
    /// Of the whole page; empty on rings without times.
    times: &'a [AtomicU64],
}

impl<'a, T> Run<'a, T> {
    /// The `len` records from slot `at` of a held page on, seen to be published, with the page's times.
    #[inline(always)]
    pub(super) fn new(page: Page<T>, first: Seq, at: usize, len: usize, times: &'a [AtomicU64]) -> Self {
        Self { first, records: Records { page, at, end: at + len, of: PhantomData }, times }
    }

    /// The offset of the first record.
    #[inline(always)]
    pub fn first(&self) -> Seq {
        self.first
    }

    /// How many records there are; at least one.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.records.end - self.records.at
    }

    /// Whether there are none, which `peek` never returns.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `i`th record.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline(always)]
    pub fn get(&self, i: usize) -> &'a T {
        assert!(i < self.len(), "record {i} of a run of {}", self.len());
        self.records.page.record(self.records.at + i)
    }

    /// The time that was given with the `i`th record; 0 on rings without times.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub fn time(&self, i: usize) -> u64 {
        assert!(i < self.len(), "record {i} of a run of {}", self.len());
        time(self.times, self.records.at + i)
    }

    /// Where the time of the `i`th record lies, if it has one.
    #[inline(always)]
    pub fn time_of(&self, i: usize) -> TimeOf<'a> {
        TimeOf(self.times.get(self.records.at + i))
    }

    /// All of them, in order.
    #[inline(always)]
    pub fn iter(&self) -> Records<'a, T> {
        self.records.clone()
    }
}

impl<T> fmt::Debug for Run<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("first", &self.first).field("len", &self.len()).finish()
    }
}

/// The records of a [`Run`], in order.
pub struct Records<'a, T> {
    page: Page<T>,
    at: usize,
    end: usize,
    of: PhantomData<&'a T>,
}

impl<T> Clone for Records<'_, T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T> fmt::Debug for Records<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("left", &self.len()).finish()
    }
}

impl<'a, T> Iterator for Records<'a, T> {
    type Item = &'a T;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a T> {
        if self.at == self.end {
            return None;
        }
        self.at += 1;
        Some(self.page.record(self.at - 1))
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.at, Some(self.end - self.at))
    }
}

impl<T> ExactSizeIterator for Records<'_, T> {}
