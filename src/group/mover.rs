//! Cursors that are moved by order: a seek, and a commit from outside, which compares before it sets.
#![forbid(unsafe_code)]

use super::Group;
use super::claims::Reset;
use super::contain::drop_contained;
use super::error::{CommitError, ControlError, OffsetError};
use super::fence::FencedBy;
use super::lane::Lane;
use super::offset_store::GroupOffset;
use super::place::{SeekTo, at, by_time, within};
use crate::log::Relocated;
use crate::ring::{Fenced, Moved};
use crate::seq::Seq;
use crate::sync::lock;

/// Why a cursor was not moved.
enum Stays {
    Ended,
    /// It was not where it should have been, but here.
    Elsewhere(Seq),
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Moves the cursor at once, whoever holds the lane: commits of what is in hand are refused from now on. If `from` says
    /// so, only from there. [`Group::gone`] is to follow.
    fn go(&self, from: Option<Seq>, want: impl FnOnce() -> Seq) -> Result<Moved, Stays> {
        let unused;
        let moved = {
            let _control = lock(&self.control);
            if self.word.load().is_ended() {
                return Err(Stays::Ended);
            }
            let want = want();
            // Why it is refused is known to whoever is refused.
            let mut flight = lock(&self.flight);
            let before = self.gate.epoch();
            let closed = self.shared.as_ref().map(|shared| (shared, shared.claims.close()));
            let Relocated { moved, missed } = match self.log.relocate_from(&self.gate, from, want) {
                Ok(relocated) => relocated,
                Err(Fenced { position, .. }) => {
                    if let Some((shared, closed)) = closed {
                        shared.claims.reopen(closed);
                    }
                    return Err(Stays::Elsewhere(position));
                }
            };
            unused = flight.moved(before, self.cursor(), FencedBy::Seeked);
            drop(flight);
            let Reset { passed, forgotten } =
                closed.map_or(Reset::default(), |(shared, closed)| shared.moved(closed, moved));
            self.count(moved, missed.expired, passed);
            self.counters.replayed.add(forgotten);
            self.word.nudge();
            moved
        };
        // Outside the lock: a waker is somebody else's code.
        self.log.not_full().wake_all();
        drop_contained(unused);
        Ok(moved)
    }

    /// Of what a seek passes over, what is too old was lost for that reason; the rest is skipped, whether it is still there
    /// or not.
    fn count(&self, Moved { from, to }: Moved, expired: u64, done: u64) {
        self.counters.replayed.add(from.get().saturating_sub(to.get()));
        let passed = to.get().saturating_sub(from.get());
        self.counters.expired.add(expired);
        self.counters.skipped.add(passed - expired - done);
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Moves a partition's cursor at once and says where it landed, in `[earliest, end]`. A handler that is at work on
    /// older records goes on; its acks are refused.
    pub fn seek(&self, partition: u32, to: SeekTo) -> Result<u64, ControlError> {
        let lane = self.lane(partition)?;
        if to.is_by_time() && !lane.log.has_times() {
            return Err(ControlError::NoTimes { topic: self.topic.clone(), group: self.name.clone() });
        }
        let found = by_time(&lane.log, to);
        match lane.go(None, || found.unwrap_or_else(|| at(&lane.log, to))) {
            Ok(moved) => Ok(self.gone(partition, moved)),
            Err(Stays::Ended | Stays::Elsewhere(_)) => Err(ControlError::Deleted { group: self.name.clone() }),
        }
    }

    /// Moves a partition's cursor from `expected` to `new`, as a seek; if it is elsewhere, nothing is changed.
    pub fn commit(&self, partition: u32, expected: u64, new: u64) -> Result<u64, CommitError> {
        let lane = self.lane(partition)?;
        let to = within(&lane.log, new);
        if new >= expected && to.get() < expected && !lane.word.load().is_ended() {
            // The end comes after the mark, and the cursor may be ahead of it for that moment: forward is never back.
            return match lane.gate.position().get() {
                found if found == expected => Ok(expected),
                found => Err(CommitError::Elsewhere { group: self.name.clone(), partition, expected, found }),
            };
        }
        match lane.go(Some(Seq::new(expected)), || to) {
            Ok(moved) => Ok(self.gone(partition, moved)),
            Err(Stays::Ended) => Err(ControlError::Deleted { group: self.name.clone() }.into()),
            Err(Stays::Elsewhere(found)) => {
                // Meanwhile nobody could claim, nor take the cursor on.
                if lane.shared.is_some() {
                    self.go_over(lane);
                    self.ring_for(partition as usize);
                }
                let (group, found) = (self.name.clone(), found.get());
                Err(CommitError::Elsewhere { group, partition, expected, found })
            }
        }
    }

    /// Moves a partition's cursor to `offset` if it is there, or is the next one. Else nothing is moved.
    pub fn seek_exact(&self, partition: u32, offset: u64) -> Result<u64, OffsetError> {
        let log = &self.lane(partition)?.log;
        let (earliest, end, topic) = (log.earliest().get(), log.end().get(), self.topic.clone());
        if offset < earliest {
            return Err(OffsetError::Gone { topic, partition, offset, earliest });
        }
        if offset > end {
            return Err(OffsetError::Beyond { topic, partition, offset, end });
        }
        Ok(self.seek(partition, SeekTo::Offset(offset))?)
    }

    /// Tells whom a moved cursor concerns, and says where it is.
    fn gone(&self, partition: u32, moved: Moved) -> u64 {
        let lane = &self.lanes[partition as usize];
        if let Some(newest) = &lane.newest {
            newest.passed_over(moved.to);
        }
        let passed = self.pass_over(lane);
        self.ring_for(partition as usize);
        self.progress.notify();
        self.settle_down(lane);
        // Last: destructors run, which may take their time.
        lane.log.sweep();
        if let Some((from, to)) = passed {
            lane.log.gone_on(from, to);
        }
        moved.to.get()
    }

    /// Where the group stands, partition by partition.
    pub fn offsets(&self) -> Vec<GroupOffset> {
        let of = |lane: &Lane<T>| GroupOffset {
            topic: self.topic.clone(),
            group: self.name.clone(),
            partition: lane.partition,
            next: lane.gate.position().get(),
        };
        self.lanes.iter().map(|lane| of(lane)).collect()
    }

    /// Whether its cursor is past an offset.
    pub fn has_passed(&self, partition: u32, offset: u64) -> bool {
        self.lanes
            .get(partition as usize)
            .is_some_and(|lane| lane.gate.position().get() > offset || lane.is_done(Seq::new(offset)))
    }

    /// Whether nothing will be done any more: it was deleted, or stopped and no handler is at work.
    pub fn is_done_for(&self) -> bool {
        self.is_over() || (self.is_closed() && self.is_quiet())
    }

    /// Whether its cursors were taken away.
    pub(super) fn is_over(&self) -> bool {
        self.lanes.iter().any(|lane| lane.word.load().is_ended())
    }

    /// Moves the cursors to where `offsets` say that this group stood, and says where they landed. Those of other groups are
    /// not looked at. If there is one of a partition that the topic has not, nothing is moved.
    pub fn restore(&self, offsets: &[GroupOffset]) -> Result<Vec<GroupOffset>, ControlError> {
        let ours = |offset: &&GroupOffset| offset.topic == self.topic && offset.group == self.name;
        for offset in offsets.iter().filter(ours) {
            self.lane(offset.partition)?;
        }
        let restore = |offset: &GroupOffset| {
            let next = self.seek(offset.partition, SeekTo::Offset(offset.next))?;
            Ok(GroupOffset { next, ..offset.clone() })
        };
        offsets.iter().filter(ours).map(restore).collect()
    }
}
