//! What producers and readers of one partition did, and whether it can have been a log: offsets dense and unique, each
//! producer's order kept, real-time order kept, and each group given every record from its start exactly once.
#![allow(dead_code, reason = "each test that includes this uses a part of it")]
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// One clock of ticks for all threads: ticks in the order of their happening.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Ticks {
    /// The next tick.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel)
    }
}

/// One record accepted: by whom, its number there, where it lies, and when the call began and returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub producer: u32,
    pub number: u64,
    pub offset: u64,
    pub called: u64,
    pub returned: u64,
}

/// One record delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub offset: u64,
    pub producer: u32,
    pub number: u64,
}

/// What one reader saw: where it began, where it stopped, its records, and what it was told it missed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reading {
    pub name: String,
    pub start: u64,
    pub end: u64,
    pub records: Vec<Delivered>,
    pub gaps: Vec<(u64, u64)>,
}

/// Everything that was accepted, in order of offsets, after checking that it is a log that begins at `first`.
///
/// # Panics
/// When it is not one.
pub(crate) fn check_log(first: u64, mut published: Vec<Published>) -> BTreeMap<u64, Published> {
    published.sort_by_key(|record| record.offset.wrapping_sub(first));
    let mut next_of: BTreeMap<u32, u64> = BTreeMap::new();
    let mut latest_call = (0, None);
    for (at, record) in (first..=u64::MAX).chain(0..).zip(&published) {
        assert_eq!(record.offset, at, "offsets are dense and unique: {record:?}");
        let next = next_of.entry(record.producer).or_insert(0);
        assert_eq!(record.number, *next, "the order of a producer is kept: {record:?}");
        *next += 1;
        let (call, earlier) = latest_call;
        assert!(record.returned > call || earlier.is_none(), "{record:?} returned before {earlier:?} was called");
        if record.called >= call {
            latest_call = (record.called, Some(*record));
        }
    }
    published.into_iter().map(|record| (record.offset.wrapping_sub(first), record)).collect()
}

/// Checks that `reading` had every record of `log` from its start to its end, once, in order, but for its gaps.
///
/// # Panics
/// When it had not.
pub(crate) fn check_reading(first: u64, log: &BTreeMap<u64, Published>, reading: &Reading) {
    let mut want = reading.start;
    let mut gaps = reading.gaps.iter().copied().peekable();
    for record in &reading.records {
        while let Some((from, to)) = gaps.next_if(|(from, _)| *from == want) {
            assert!(to.wrapping_sub(from) < u64::MAX / 2, "{}: a gap that goes back: {from} to {to}", reading.name);
            want = to;
        }
        assert_eq!(record.offset, want, "{}: in order, each once, and gaps are told: {record:?}", reading.name);
        same(&reading.name, record, log.get(&record.offset.wrapping_sub(first)));
        want = want.wrapping_add(1);
    }
    for (from, to) in gaps {
        assert_eq!(from, want, "{}: a gap begins where the reading stood", reading.name);
        want = to;
    }
    assert_eq!(want, reading.end, "{}: everything up to the end", reading.name);
}

fn same(name: &str, record: &Delivered, published: Option<&Published>) {
    let Some(published) = published else { panic!("{name}: delivered, but never accepted: {record:?}") };
    let pair = (published.producer, published.number);
    assert_eq!((record.producer, record.number), pair, "{name}: another record than was accepted: {record:?}");
}

/// Demands that `check` panics.
pub(crate) fn refuses<T: Debug>(check: impl FnOnce() -> T + std::panic::UnwindSafe) {
    let result = std::panic::catch_unwind(check);
    assert!(result.is_err(), "a bad history passed: {result:?}");
}
