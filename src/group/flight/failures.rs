//! How often records that are not done have failed, and before when they are not tried again: by runs of neighbours that fare
//! alike, for a batch mostly fails as one.
#![forbid(unsafe_code)]

use crate::time::Time;
use std::collections::BTreeMap;
use std::ops::Range;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::group) struct Failures {
    /// By the first offset of each. They do not overlap.
    runs: BTreeMap<u64, Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    end: u64,
    times: u32,
    due: Option<Time>,
}

impl Failures {
    fn at(&self, offset: u64) -> Option<Run> {
        self.runs.range(..=offset).next_back().map(|(_, run)| *run).filter(|run| offset < run.end)
    }

    pub(super) fn of(&self, offset: u64) -> u32 {
        self.at(offset).map_or(0, |run| run.times)
    }

    pub(super) fn due(&self, offset: u64) -> Option<Time> {
        self.at(offset).and_then(|run| run.due)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.runs.last_key_value().map(|(_, run)| run.end - 1)
    }

    /// Those of `which` that have failed, by runs.
    pub(super) fn within(&self, which: Range<u64>) -> impl Iterator<Item = (Range<u64>, u32, Option<Time>)> {
        let first = self.runs.range(..which.start).next_back().filter(|(_, run)| which.start < run.end);
        let all = first.into_iter().chain(self.runs.range(which.start..which.end.max(which.start)));
        all.map(move |(from, run)| ((*from).max(which.start)..run.end.min(which.end), run.times, run.due))
    }

    /// Has a run begin at `offset`, where it lies within one.
    fn cut(&mut self, offset: u64) {
        if let Some((_, run)) = self.runs.range_mut(..offset).next_back().filter(|(_, run)| offset < run.end) {
            let rest = *run;
            run.end = offset;
            self.runs.insert(offset, rest);
        }
    }

    fn put(&mut self, which: Range<u64>, times: u32, due: Option<Time>) {
        match self.runs.range_mut(..which.start).next_back() {
            Some((_, run)) if (run.end, run.times, run.due) == (which.start, times, due) => run.end = which.end,
            _ => {
                self.runs.insert(which.start, Run { end: which.end, times, due });
            }
        }
    }

    /// Takes out what is known of `which`.
    fn take(&mut self, which: &Range<u64>) -> Vec<(Range<u64>, u32)> {
        self.cut(which.start);
        self.cut(which.end);
        let known: Vec<_> = self.runs.range(which.clone()).map(|(from, run)| (*from..run.end, run.times)).collect();
        for (run, _) in &known {
            self.runs.remove(&run.start);
        }
        known
    }

    /// Each of `which` has failed once more; `told` how often by now, run by run, it says when they are due.
    pub(super) fn add(&mut self, which: Range<u64>, mut told: impl FnMut(Range<u64>, u32) -> Option<Time>) {
        let known = self.take(&which);
        let mut add = |all: &mut Self, run: Range<u64>, times: u32| {
            if !run.is_empty() {
                let due = told(run.clone(), times);
                all.put(run, times, due);
            }
        };
        let mut from = which.start;
        for (run, times) in known {
            add(self, from..run.start, 1);
            from = run.end;
            add(self, run, times.saturating_add(1));
        }
        add(self, from..which.end, 1);
    }

    /// What is known of one record, from elsewhere.
    pub(super) fn set(&mut self, offset: u64, times: u32, due: Option<Time>) {
        self.forget(offset);
        if times > 0 || due.is_some() {
            self.put(offset..offset + 1, times, due);
        }
    }

    pub(super) fn forget(&mut self, offset: u64) {
        self.take(&(offset..offset + 1));
    }

    pub(super) fn forget_before(&mut self, offset: u64) {
        self.cut(offset);
        self.runs = self.runs.split_off(&offset);
    }

    pub(super) fn clear(&mut self) {
        self.runs.clear();
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Failures;
    use crate::time::Time;
    use std::time::Duration;

    fn time(millis: u64) -> Option<Time> {
        Some(Time::ZERO.after(Duration::from_millis(millis)))
    }

    #[test]
    fn a_batch_that_fails_as_one_is_one_entry() {
        let mut failures = Failures::default();
        failures.add(10..1_000_000, |_, _| None);
        failures.add(10..1_000_000, |_, times| time(u64::from(times)));
        assert_eq!(failures.runs.len(), 1);
        assert_eq!((failures.of(9), failures.of(10), failures.of(999_999), failures.of(1_000_000)), (0, 2, 2, 0));
        failures.add(20..21, |which, times| {
            assert_eq!((which, times), (20..21, 3));
            time(3)
        });
        assert_eq!((failures.of(19), failures.of(20), failures.of(21), failures.runs.len()), (2, 3, 2, 3));
        assert_eq!((failures.due(19), failures.due(20), failures.last()), (time(2), time(3), Some(999_999)));
        failures.forget_before(500);
        assert_eq!((failures.of(499), failures.of(500), failures.runs.len()), (0, 2, 1));
    }

    #[test]
    fn every_record_by_itself_says_the_same() {
        let (mut failures, mut plain) = (Failures::default(), [0_u32; 12]);
        let mut seed = 7_u64;
        for step in 0..2_000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (from, len) = (seed >> 33 & 7, seed >> 40 & 3);
            let which = from..(from + len).min(12);
            match seed >> 50 & 7 {
                0 => {
                    failures.set(from, 5, None);
                    plain[from as usize] = 5;
                }
                1 => {
                    failures.forget(from);
                    plain[from as usize] = 0;
                }
                2 if step % 7 == 0 => {
                    failures.forget_before(from);
                    plain[..from as usize].fill(0);
                }
                _ => {
                    failures.add(which.clone(), |_, _| None);
                    which.clone().for_each(|at| plain[at as usize] += 1);
                }
            }
            let is: Vec<u32> = (0..12).map(|at| failures.of(at)).collect();
            assert_eq!(is, plain, "step {step}");
            let within: u64 =
                failures.within(3..9).map(|(run, times, _)| (run.end - run.start) * u64::from(times)).sum();
            assert_eq!(within, plain[3..9].iter().map(|times| u64::from(*times)).sum::<u64>());
        }
    }
}
