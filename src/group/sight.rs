//! Where a group stands, and why it does not go on: what can be said from outside while its members work.
#![forbid(unsafe_code)]

use super::Group;
use super::error::ControlError;
use super::lane::{Held, Lane};
use super::word::{MemberId, PauseReason};
use crate::seq::Seq;
use crate::sync::{Arc, Mutex, lock};
use crate::time::{Span, Time};
use std::fmt;
use std::time::Duration;

/// A record that waits for its next attempt. True as long as the cursor stands there in that epoch, so nobody takes it back.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    offset: u64,
    epoch: u32,
    failures: u32,
    until: Option<Time>,
}

/// What a lane leaves word of for those who look on.
#[derive(Debug, Default)]
pub(super) struct Notice(Mutex<Option<Waiting>>);

impl Notice {
    /// The record at the cursor has failed so often and is tried again then.
    pub(super) fn waits(&self, offset: u64, epoch: u32, failures: u32, until: Option<Time>) {
        *lock(&self.0) = Some(Waiting { offset, epoch, failures, until });
    }

    fn at(&self, offset: u64, epoch: u32) -> Option<Waiting> {
        lock(&self.0).filter(|waiting| waiting.offset == offset && waiting.epoch == epoch)
    }
}

/// What becomes of one record, as its group knows it at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// There is no such record yet.
    NotPublished,
    /// It lay before the group's start.
    BeforeStart,
    /// It waits for its turn. If records before it are in hand, it may be in hand with them.
    Pending,
    /// It is next, and a handler is at work: on it, or on one close behind it, of the same run. Or a consumer was handed it, and
    /// has not settled it.
    InHand,
    /// It has failed, and waits for its next attempt.
    RetryScheduled {
        /// How often it has failed.
        attempts: u32,
        /// How long it still has to wait; zero: it is due.
        wait: Duration,
    },
    /// It is gone before the group had it done (overwritten, or too old), and the group will find out when it gets there.
    Lost,
    /// A handler has acknowledged it.
    Acked,
    /// It was given up; its letter is kept.
    Dead,
    /// It was given up, and its letter is queued to be handed over again, or in a handler's hands.
    Redriven,
    /// The group is past it: it was acknowledged, or given up with a letter that is not kept any more, or passed over by a
    /// seek or a loss. No list is kept of which, only how many of each; see [`LaneStats`](crate::LaneStats).
    Passed,
}

/// Why a group does not go on in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It is at the end: there is nothing to do.
    Done,
    /// Nobody is in the group who could do it.
    NoMember,
    /// It is paused, for these reasons.
    Paused {
        /// The whole group is.
        group: bool,
        /// This partition is.
        partition: bool,
    },
    /// A handler has a record in hand and has not returned.
    AtWork {
        /// Whose handler.
        member: Arc<str>,
    },
    /// A consumer was handed records and has not settled them.
    InFlight {
        /// Whose they are.
        member: Arc<str>,
        /// How many.
        records: u64,
    },
    /// The record that comes next, at the cursor or of a letter that is to be handed over again, has failed and waits for its
    /// next attempt.
    Retrying {
        /// How often it has failed.
        attempts: u32,
        /// How long it still has to wait; zero: it is due.
        wait: Duration,
    },
    /// Letters are queued to be handed over again, before anything else of the partition: they wait for the next poll of this
    /// consumer.
    LettersWait {
        /// The consumer.
        member: Arc<str>,
    },
    /// It goes to another member, and the one that has it has not let go yet.
    Moving {
        /// Who has it.
        from: Arc<str>,
        /// Who gets it; nobody if it is `None`.
        to: Option<Arc<str>>,
    },
    /// What steps it is at work in another lane.
    Elsewhere {
        /// Whose lane this is.
        member: Arc<str>,
        /// The group whose handler keeps it.
        group: Arc<str>,
        /// The partition whose handler keeps it.
        partition: u32,
    },
    /// Nothing hinders it: it is about to go on.
    Ready {
        /// Whose it is.
        member: Arc<str>,
    },
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Done => write!(f, "it has nothing to do"),
            Standing::NoMember => write!(f, "it has no member"),
            Standing::Paused { group: true, partition: true } => write!(f, "the group and the partition are paused"),
            Standing::Paused { group: true, .. } => write!(f, "the group is paused"),
            Standing::Paused { .. } => write!(f, "the partition is paused"),
            Standing::AtWork { member } => write!(f, "the handler of '{member}' is at work"),
            Standing::InFlight { member, records: 1 } => write!(f, "1 record is in flight at '{member}'"),
            Standing::InFlight { member, records } => write!(f, "{records} records are in flight at '{member}'"),
            Standing::Retrying { attempts, wait } => {
                let times = if *attempts == 1 { "once" } else { &format!("{attempts} times") };
                write!(f, "its record has failed {times} and is tried again in {}", Span(*wait))
            }
            Standing::LettersWait { member } => {
                write!(f, "redriven letters wait for the next poll of '{member}'")
            }
            Standing::Moving { from, to: Some(to) } => {
                write!(f, "it moves from '{from}', who has it in hand, to '{to}'")
            }
            Standing::Moving { from, to: None } => write!(f, "'{from}', who has left, has it in hand"),
            Standing::Elsewhere { member, group, partition } => {
                write!(f, "what runs '{member}' is at work for group '{group}' in partition {partition}")
            }
            Standing::Ready { member } => write!(f, "nothing hinders '{member}'"),
        }
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    fn retrying(&self, now: Time) -> Option<(u64, u32, Duration)> {
        let (committed, epoch) = self.gate.snapshot();
        let waiting = self.notice.get()?.at(committed.get(), epoch)?;
        let wait = waiting.until.map_or(Duration::ZERO, |until| until.since(now));
        Some((committed.get(), waiting.failures, wait))
    }

    /// `None`: the group is past it.
    fn delivery(&self, offset: u64, now: Time) -> Option<Delivery> {
        let stats = self.stats();
        if offset >= stats.end {
            return Some(Delivery::NotPublished);
        }
        if offset < stats.committed {
            return (offset < stats.start && stats.replayed == 0).then_some(Delivery::BeforeStart);
        }
        let end = self.log.end(); // first: see `view`
        let taken = self.gate.taken();
        let line = self.line(taken, end).unwrap_or(taken);
        if self.loses
            && self.newest.is_none()
            && offset < self.log.earliest().later(line).get()
            && offset >= taken.get()
        {
            return Some(Delivery::Lost);
        }
        if let Some(shared) = &self.shared {
            return shared.delivery(Seq::new(offset), now);
        }
        if offset < stats.committed + stats.in_flight {
            return Some(Delivery::InHand);
        }
        if offset > stats.committed {
            return Some(Delivery::Pending);
        }
        Some(match self.retrying(now) {
            _ if self.counters.serving.get() != 0 && self.counters.redriving.get() == 0 => Delivery::InHand,
            Some((at, attempts, wait)) if at == offset => Delivery::RetryScheduled { attempts, wait },
            _ => Delivery::Pending,
        })
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// What has become of the record at `offset`.
    pub fn delivery(&self, partition: u32, offset: u64) -> Result<Delivery, ControlError> {
        let lane = self.lane(partition)?;
        if lane.redrives.get().is_some_and(|redrives| redrives.has(offset)) {
            return Ok(Delivery::Redriven);
        }
        Ok(lane.delivery(offset, self.clock.now()).unwrap_or_else(|| self.past(lane, offset)))
    }

    /// What became of a record that the cursor is past, as far as that is known.
    fn past(&self, lane: &Lane<T>, offset: u64) -> Delivery {
        // In this order: a letter that goes for want of room in between must not leave counts that agree.
        let letters = self.letters();
        let stats = lane.stats();
        let mut kept = letters.iter().filter(|letter| letter.partition() == lane.partition);
        let dead = kept.clone().count() as u64;
        if kept.any(|letter| letter.offset() == offset) {
            return Delivery::Dead;
        }
        let gone = stats.skipped + stats.expired + stats.dropped + stats.conflated;
        let all_told = stats.dead == dead && gone + stats.replayed == 0;
        if all_told { Delivery::Acked } else { Delivery::Passed }
    }

    /// The partition that an executor is serving in this group at the moment.
    pub fn served_by(&self, executor: u64) -> Option<u32> {
        self.lanes.iter().find(|lane| lane.is_served_by(executor)).map(|lane| lane.partition)
    }

    /// Where a lane stands. `other` says where in other groups an executor is at work.
    pub fn standing(
        &self,
        partition: u32,
        other: impl Fn(u64) -> Option<(Arc<str>, u32)>,
    ) -> Result<Standing, ControlError> {
        let lane = self.lane(partition)?;
        let (word, serving) = (lane.word.load(), lane.counters.serving.get());
        let named = |id: MemberId| lock(&self.roster).find(id).map(|member| member.name.clone());
        if word.is_ended() {
            return Err(ControlError::Deleted { group: self.name.clone() });
        }
        let mut hung = None;
        match lane.shared.as_ref().and_then(|shared| shared.holder(lane.gate.position())) {
            Some((standing, true)) => return Ok(standing),
            Some((standing, false)) => hung = Some(standing),
            None => {}
        }
        if word.is_held() && word.owner() != word.target() {
            let from = named(word.owner()).unwrap_or_else(|| "".into());
            return Ok(Standing::Moving { from, to: named(word.target()) });
        }
        let Some(member) = named(word.owner()) else { return Ok(Standing::NoMember) };
        if serving != 0 {
            return Ok(Standing::AtWork { member });
        }
        if let Some(member) = lane.redrives.get().and_then(|redrives| redrives.out_with()).and_then(named) {
            return Ok(Standing::InFlight { member, records: 1 });
        }
        let (records, ..) = lane.in_flight(lane.gate.position());
        if records > 0 {
            return Ok(Standing::InFlight { member, records });
        }
        if lane.lag() == 0 && !word.redrives() {
            return Ok(Standing::Done);
        }
        if word.paused() != 0 {
            let [group, partition] =
                [PauseReason::Group, PauseReason::Partition].map(|reason| word.is_paused_for(reason));
            return Ok(Standing::Paused { group, partition });
        }
        let seat = lock(&self.roster).find(word.owner()).and_then(|it| it.seat(partition as usize)).cloned();
        if word.redrives() && seat.as_ref().is_some_and(|seat| seat.polls()) {
            return Ok(Standing::LettersWait { member });
        }
        let now = self.clock.now();
        let own = || match &lane.shared {
            Some(shared) => shared.retrying(now),
            None => lane.retrying(now).map(|(_, attempts, wait)| (attempts, wait)),
        };
        // Letters go first: while one waits, nothing else is tried.
        if let Some((attempts, wait)) = if word.redrives() { lane.redrives.retrying(now) } else { own() } {
            return Ok(Standing::Retrying { attempts, wait });
        }
        if let Some(standing) = hung {
            return Ok(standing);
        }
        let executor = seat.map_or(0, |seat| seat.executor().get());
        let own = self.served_by(executor).map(|partition| (self.name.clone(), partition));
        Ok(match own.or_else(|| other(executor)) {
            Some((group, partition)) => Standing::Elsewhere { member, group, partition },
            None => Standing::Ready { member },
        })
    }

    /// The first offset of a partition that is not committed.
    pub fn committed(&self, partition: u32) -> Result<u64, ControlError> {
        Ok(self.lane(partition)?.gate.position().get())
    }
}

impl<T> fmt::Debug for Lane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane({}, {:?})", self.partition, self.word.load())
    }
}

impl<T> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Held(next {:?}, failures {})", self.next, self.failures)
    }
}
