//! The times of records: whether they have one, how exact it is, and who is found by it.
#![forbid(unsafe_code)]

use super::Log;
use crate::{
    ring::{PeekTimes, Why},
    seq::Seq,
    sync::Arc,
    time::{Clock, Recent, Time},
};

/// Whether a topic's records know when they were published.
///
/// The time is that of the broker's clock when the publish was called, before any wait for room. It costs 8 bytes a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Timestamps {
    /// They do not, unless they have an age, which needs exact times.
    #[default]
    Off,
    /// By a reading that may be about two milliseconds old: some nanoseconds a publish, where the processor has a counter
    /// that is cheaper than the clock. A clock that is moved by hand is always asked.
    Coarse,
    /// By a reading of the clock for each publish: some tens of nanoseconds.
    Exact,
}

/// Where the times come from.
pub(super) enum Stamps {
    Exact,
    Coarse(Box<Recent>),
}

impl Stamps {
    pub(super) fn of(timestamps: Timestamps, clock: &Arc<dyn Clock>) -> Option<Self> {
        match timestamps {
            Timestamps::Off => None,
            Timestamps::Coarse => Some(Self::Coarse(Box::new(Recent::new(clock.clone())))),
            Timestamps::Exact => Some(Self::Exact),
        }
    }
}

impl<T: Send + Sync + 'static> Log<T> {
    /// An append where records have a time: that time.
    pub(super) fn entered(&self, stamps: &Stamps) -> u64 {
        match (self.age(), stamps) {
            (Some(age), _) => self.entered_aged(age),
            (None, Stamps::Exact) => self.clock.now().as_nanos(),
            (None, Stamps::Coarse(recent)) => recent.now().as_nanos(),
        }
    }

    /// Tries to store what came in at `created`.
    pub(super) fn attempt<R>(&self, created: u64, mut attempt: impl FnMut(u64) -> Result<R, Why>) -> Result<R, Why> {
        match self.age() {
            None => attempt(created),
            Some(age) => self.attempt_aged(age, created, attempt),
        }
    }

    /// Whether its records have a time.
    pub fn has_times(&self) -> bool {
        self.stamps().is_some()
    }

    /// The first record kept whose time is `time` or later; the end if all are earlier. Looks at the times of all records
    /// before it, since they need not be in order: a publish that waits for room has its time from before. `None` where
    /// records have no times.
    pub fn at_time(&self, time: Time) -> Option<Seq> {
        self.stamps()?;
        // What comes while it looks is later than what it was asked about, or was asked about the future.
        let end = self.end();
        let mut reader = self.reader(self.earliest_only());
        loop {
            let at = reader.position();
            if !at.precedes(end) {
                return Some(at);
            }
            match reader.peek_times() {
                PeekTimes::Ready(times) => {
                    let len = times.iter().len() as u64;
                    if let Some(nth) = times.iter().position(|its| its >= time.as_nanos()) {
                        return Some(at.plus(nth as u64));
                    }
                    reader.advance(at.plus(len));
                }
                PeekTimes::Lapped { earliest } => reader.jump(earliest),
                PeekTimes::Pending => return Some(at),
            }
        }
    }

    /// The time of the record at `from`, or of the first one kept behind it; `None` where there is none, or no times.
    pub fn time_of(&self, from: Seq) -> Option<Time> {
        self.stamps()?;
        let mut reader = self.reader(from);
        loop {
            match reader.peek_times() {
                PeekTimes::Ready(times) => return times.iter().next().map(Time::from_nanos),
                PeekTimes::Lapped { earliest } => reader.jump(earliest),
                PeekTimes::Pending => return None,
            }
        }
    }
}
