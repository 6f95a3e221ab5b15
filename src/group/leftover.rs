//! What a stopped group had not done, for who wants to have it all the same.
#![forbid(unsafe_code)]

use super::Group;
use super::clones::Waiting;
use super::contain::drop_contained;
use super::fence::FencedBy;
use super::lane::Lane;
use super::record::{Batch, Lent, Record};
use crate::log::Read;
use crate::ring::Moved;
use crate::seq::Seq;
use crate::sync::{Arc, lock};

/// Why a group's leftovers are not to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOverError {
    /// The group is still at work, or may be again: nothing is left over yet. Close its broker first.
    #[error("group '{group}' has nothing left over yet: its broker is not closed")]
    Open {
        /// The group.
        group: Arc<str>,
    },
    /// The group was deleted, and what it had not done was given up with it.
    #[error("group '{group}' was deleted")]
    Deleted {
        /// The group.
        group: Arc<str>,
    },
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Refuses from now on what members have still in hand: late acknowledgements of a close that did not wait. The cursors
    /// stay where they are, and gate.
    pub fn fence(&self) {
        self.lanes.iter().filter(|lane| !lane.is_quiet()).for_each(|lane| {
            lane.fence();
            // What was done while nobody could take the cursor on.
            self.go_over(lane);
            self.settle_down(lane);
        });
        self.call_back();
        self.progress.notify();
    }

    /// Shows each record that is not done, by partition and in order, and says how many there were.
    pub fn left_over(&self, mut visit: impl FnMut(&Record<'_, T>)) -> Result<u64, LeftOverError> {
        let group = self.name.clone();
        if self.lanes.iter().any(|lane| lane.word.load().is_ended()) {
            return Err(LeftOverError::Deleted { group });
        }
        if !self.is_closed() || !self.lanes.iter().all(|lane| lane.log.is_closed()) {
            return Err(LeftOverError::Open { group });
        }
        Ok(self.lanes.iter().map(|lane| self.show(lane, &mut visit)).sum())
    }

    fn show(&self, lane: &Lane<T>, visit: &mut impl FnMut(&Record<'_, T>)) -> u64 {
        let (from, end) = (lane.gate.position(), lane.log.end());
        let behind_hand = lane.in_hand_at_the_end(from);
        let line = lane.line(behind_hand, end);
        let mut reader = lane.log.reader(from).covered_by(lane.gate.clone());
        let (mut shown, mut lost) = (0, 0);
        loop {
            if !reader.position().precedes(behind_hand) {
                if let Some(newest) = &lane.newest {
                    return shown + self.show_clones(lane, newest.left(), behind_hand, visit);
                }
                if let Some(line) = line.filter(|line| reader.position().precedes(*line)) {
                    reader.jump(line);
                }
            }
            // One at a time: where records have an age, the next one may be too old by then.
            let next = match lane.log.read(&mut reader, 1) {
                Read::Ready(run) => {
                    let next = run.first().plus(1);
                    let batch =
                        Batch { lent: Lent::Run(run), home: &self.home, partition: lane.partition, attempt: 1, lost };
                    if !lane.is_done(next.minus(1)) {
                        visit(&batch.get(0));
                        shown += 1;
                    }
                    lost = 0;
                    next
                }
                Read::Gap(gap) => {
                    lost += gap.len();
                    gap.to
                }
                Read::Pending => return shown,
            };
            reader.jump(next);
        }
    }

    fn show_clones(
        &self,
        lane: &Lane<T>,
        left: &[Waiting<T>],
        from: Seq,
        visit: &mut impl FnMut(&Record<'_, T>),
    ) -> u64 {
        let left = left.iter().filter(|waiting| !waiting.at.precedes(from));
        let show = |waiting: &Waiting<T>| {
            let (lent, home, partition) = (waiting.lent(), &self.home, lane.partition);
            visit(&Batch { lent, home, partition, attempt: 1, lost: 0 }.get(0));
        };
        left.map(show).count() as u64
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Commits of what is in hand are refused from now on.
    fn fence(&self) {
        let control = lock(&self.control);
        if self.word.load().is_ended() {
            return; // nothing of it counts any more, and nothing is handed out
        }
        let unused = {
            let mut flight = lock(&self.flight);
            let before = self.gate.epoch();
            let _ = self.stopped.set(self.gate.taken());
            let closed = self.shared.as_ref().map(|shared| (shared, shared.claims.close()));
            self.gate.bump();
            if let Some((shared, closed)) = closed {
                let at = self.gate.position();
                shared.moved(closed, Moved { from: at, to: at });
            }
            flight.moved(before, self.cursor(), FencedBy::Deleted)
        };
        self.word.nudge();
        drop(control);
        drop_contained(unused);
    }
}
