//! Sets of offsets, as few ranges.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A set of offsets: ranges in order, none empty, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<Range<u64>>);

impl Spans {
    /// The ranges that have something in common with `range` or touch it.
    fn near(&self, range: &Range<u64>) -> Range<usize> {
        let first = self.0.partition_point(|span| span.end < range.start);
        let behind = self.0.partition_point(|span| span.start <= range.end);
        first..behind.max(first)
    }

    /// Adds `range`.
    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let near = self.near(&range);
        let start = self.0.get(near.start).map_or(range.start, |span| span.start.min(range.start));
        let end = self.0[..near.end].last().map_or(range.end, |span| span.end.max(range.end));
        self.0.splice(near, std::iter::once(start..end));
    }

    /// How much of `range` is in the set.
    pub(super) fn within(&self, range: &Range<u64>) -> u64 {
        let common = |span: &Range<u64>| span.end.min(range.end).saturating_sub(span.start.max(range.start));
        self.0[self.near(range)].iter().map(common).sum()
    }

    /// The parts of `range` that are not in the set.
    pub(super) fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut at, mut parts) = (range.start, Vec::new());
        for span in &self.0[self.near(range)] {
            parts.push(at..span.start.min(range.end));
            at = at.max(span.end);
        }
        parts.push(at..range.end);
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Forgets the ranges that lie wholly before `at`.
    pub(super) fn forget_before(&mut self, at: u64) {
        let gone = self.0.partition_point(|span| span.end <= at);
        self.0.drain(..gone);
    }

    /// How many ranges there are.
    pub(super) fn ranges(&self) -> usize {
        self.0.len()
    }

    /// Fills every other hole of the earlier half, so that there are fewer ranges.
    pub(super) fn coarsen(&mut self) {
        let half = self.0.len() / 2;
        let merged = self.0[..half].chunks(2).map(|pair| pair[0].start..pair[pair.len() - 1].end).collect::<Vec<_>>();
        self.0.splice(..half, merged);
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Spans;

    /// The same set as a mask.
    fn mask(spans: &Spans) -> u32 {
        spans.0.iter().flat_map(Clone::clone).fold(0, |mask, at| mask | 1 << at)
    }

    fn is_in_order(spans: &Spans) -> bool {
        spans.0.iter().all(|span| span.start < span.end) && spans.0.windows(2).all(|two| two[0].end < two[1].start)
    }

    /// The set with exactly these offsets, of which there are `N`.
    fn set(of: u32) -> Spans {
        let mut spans = Spans::default();
        (0..N).filter(|at| of >> at & 1 == 1).for_each(|at| spans.add(at..at + 1));
        spans
    }

    const N: u64 = if cfg!(miri) { 5 } else { 9 };

    /// Every set of nine offsets, every range: against a mask of bits.
    #[test]
    fn sets_of_ranges_are_sets() {
        for of in 0..1u32 << N {
            let before = set(of);
            assert!(is_in_order(&before) && mask(&before) == of);
            for (start, end) in (0..=N).flat_map(|start| (0..=N).map(move |end| (start, end))) {
                let range = start..end;
                let bits = range.clone().fold(0u32, |mask, at| mask | 1 << at);
                assert_eq!(before.within(&range), u64::from((of & bits).count_ones()), "{before:?} within {range:?}");
                let missing = before.missing(&range);
                let missed = missing.iter().flat_map(Clone::clone).fold(0, |mask, at| mask | 1 << at);
                assert_eq!(missed, bits & !of, "{before:?} misses of {range:?}: {missing:?}");
                let mut after = before.clone();
                after.add(range.clone());
                assert!(is_in_order(&after) && mask(&after) == of | bits, "{before:?} and {range:?}: {after:?}");
            }
            for at in 0..=N {
                let mut after = before.clone();
                after.forget_before(at);
                let kept = before.0.iter().filter(|span| span.end > at).cloned().collect();
                assert_eq!(after, Spans(kept));
            }
            let mut after = before.clone();
            after.coarsen();
            assert!(is_in_order(&after) && mask(&after) & of == of);
            assert!(after.ranges() <= before.ranges() - before.ranges() / 4 + 1);
        }
    }
}
