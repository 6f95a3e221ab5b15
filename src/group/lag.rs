//! What a group lags by, in time.
#![forbid(unsafe_code)]

use super::Group;
use super::error::ControlError;
use super::lane::Lane;
use crate::time::Time;
use std::time::Duration;

impl<T: Send + Sync + 'static> Lane<T> {
    /// How old the oldest record is that is not done; zero if all are. `None` where records have no times.
    fn lag_time(&self, now: Time) -> Option<Duration> {
        if !self.log.has_times() {
            return None;
        }
        let oldest = if self.lag() > 0 { self.log.time_of(self.gate.position()) } else { None };
        let oldest = oldest.into_iter().chain(self.redrives.get().and_then(|redrives| redrives.oldest())).min();
        Some(oldest.map_or(Duration::ZERO, |oldest| now - oldest))
    }

    /// How old the oldest record is that waits: is published, and neither handed over nor lost. Zero if none is. `None` where
    /// records have no times.
    fn waiting_time(&self, now: Time) -> Option<Duration> {
        if !self.log.has_times() {
            return None;
        }
        let oldest = match &self.newest {
            _ if self.over.get().is_some() => None,
            Some(newest) => newest.oldest(),
            None if self.stats().waiting == 0 => None,
            None => {
                let end = self.log.end(); // first: see `view`
                let (committed, taken) = self.gate.places();
                let behind_hand = taken.later(committed.plus(self.in_flight(committed).0));
                self.log.time_of(self.line(behind_hand, end).unwrap_or(behind_hand))
            }
        };
        let oldest = oldest.into_iter().chain(self.redrives.oldest()).min();
        Some(oldest.map_or(Duration::ZERO, |oldest| now - oldest))
    }

    /// How old the oldest record is that keeps the cursor where it is; zero if none does. `None` where records have no times.
    fn oldest_unacked_age(&self, now: Time) -> Option<Duration> {
        let oldest = self.log.has_times().then(|| self.log.time_of(self.gate.position()))?;
        Some(oldest.map_or(Duration::ZERO, |oldest| now - oldest))
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// How old the oldest record is that is not done, over all partitions; zero if all are. `None` where records have no
    /// times.
    pub fn lag_time(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.lanes.iter().filter_map(|lane| lane.lag_time(now)).max()
    }

    /// The same of one partition.
    pub fn lag_time_of(&self, partition: u32) -> Result<Option<Duration>, ControlError> {
        Ok(self.lane(partition)?.lag_time(self.clock.now()))
    }

    /// How old the oldest record is that waits, over all partitions; zero if none does. `None` where records have no times. In a
    /// work queue what is in hand counts, if it lies before the first that waits.
    pub fn waiting_time(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.lanes.iter().filter_map(|lane| lane.waiting_time(now)).max()
    }

    /// How old the oldest record is that keeps the cursor of the gate `tag` where it is; zero if none does. `None` where
    /// records have no times, and where the gate is not of this group.
    pub fn oldest_unacked_age(&self, tag: u64) -> Option<Duration> {
        let lane = self.lanes.iter().find(|lane| lane.gate.tag() == tag)?;
        lane.oldest_unacked_age(self.clock.now())
    }
}
