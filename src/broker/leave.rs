//! The handle of a member, and how it leaves: now, or when it is done.
#![forbid(unsafe_code)]

use super::life::{Ended, Life};
use crate::group::{Group, MemberId};
use crate::sync::Arc;
use crate::time::Span;
use crate::wait::Canceller;
use std::fmt;
use std::time::Duration;

/// A member of a group. It belongs to the broker: dropping this handle changes nothing, [`Member::leave`] ends it.
pub struct Member<T> {
    pub(super) group: Arc<Group<T>>,
    pub(super) name: Arc<str>,
    pub(super) id: MemberId,
    pub(super) life: Arc<Life>,
}

/// Why a member that was to leave when it is done had not done everything.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The time was up first. The member has left all the same; what it had not done is for the others, or waits for the
    /// next member.
    #[error("member '{member}' of group '{group}' left after {} with {}{}", Span(*waited), to_do(*left), at_work(*in_hand))]
    TimedOut {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
        /// How long was waited, by the broker's clock.
        waited: Duration,
        /// How many of the records that were its to do it has not done.
        left: u64,
        /// Whether its handler is still at work on a record; it will not get another one.
        in_hand: bool,
    },
    /// The canceller was used first. The member has left all the same, as when the time is up.
    #[error("member '{member}' of group '{group}' left on a cancel with {}{}", to_do(*left), at_work(*in_hand))]
    Cancelled {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
        /// How many of the records that were its to do it has not done.
        left: u64,
        /// Whether its handler is still at work on a record; it will not get another one.
        in_hand: bool,
    },
    /// The group was deleted, or its topic, or its broker closed, before it had done everything.
    #[error("member '{member}' of group '{group}' was stopped with {left} records to do{}", at_work(*in_hand))]
    Stopped {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
        /// How many of the records that were its to do it has not done.
        left: u64,
        /// Whether its handler is still at work on a record; it will not get another one.
        in_hand: bool,
    },
    /// A handler of this broker asked, or one on a worker that serves both. It has not left: what it would wait for can only
    /// be done when the handler returns. Use [`Member::leave`].
    #[error("a handler cannot wait for member '{member}' of group '{group}' to be done; use leave()")]
    WouldDeadlock {
        /// The group.
        group: Arc<str>,
        /// The member.
        member: Arc<str>,
    },
}

fn to_do(left: u64) -> String {
    if left == 1 { "1 record to do".to_owned() } else { format!("{left} records to do") }
}

fn at_work(in_hand: bool) -> &'static str {
    if in_hand { ", its handler still at work" } else { "" }
}

impl<T: Send + Sync + 'static> Member<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves the group: its partitions go to the other members, from where it committed. A handler that is at work
    /// finishes its record, which counts; this call does not wait for it. False if it was out already.
    pub fn leave(&self) -> bool {
        self.group.leave(self.id)
    }

    /// Leaves when it is done: keeps its partitions until it has handled what lay in them when it was called, then leaves,
    /// and returns when its handler has returned and will not be called again. All of that within `limit` of the broker's
    /// clock; when the time is up, it leaves as it is.
    ///
    /// Others may publish meanwhile, which makes it no longer: it may be handed some of that as well. A partition that goes
    /// to another member meanwhile is that one's to do. Letters that are [redriven](crate::Group::redrive) to its partitions are
    /// waited for, too. In a [work queue](crate::Order::Shared) partitions are everybody's, and it waits until what lay in those that it
    /// owns is done, by whomever. Paused partitions are waited for. With the manual executor nothing
    /// is done while this waits: step from another thread, or give it no time.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("billing", GroupConfig::earliest())?;
    /// let member = group.subscribe("billing-1", |_| ())?;
    /// topic.publish_batch(0..100)?;
    /// member.leave_drained(Duration::from_secs(5))?;
    /// assert_eq!(group.stats().acked(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Not done in time, stopped before that (group or topic deleted, broker closed), or asked by a handler that it would have to wait for; see [`LeaveError`]. Out already: nothing to
    /// wait for but a record in hand.
    pub fn leave_drained(&self, limit: Duration) -> Result<(), LeaveError> {
        self.leave_when_done(limit, None)
    }

    /// As [`Member::leave_drained`]; a `cancel` ends the wait as if the time were up.
    ///
    /// # Errors
    ///
    /// As [`Member::leave_drained`], and [`LeaveError::Cancelled`].
    pub fn leave_drained_or_cancel(&self, limit: Duration, cancel: &Canceller) -> Result<(), LeaveError> {
        self.leave_when_done(limit, Some(cancel))
    }

    fn leave_when_done(&self, limit: Duration, cancel: Option<&Canceller>) -> Result<(), LeaveError> {
        let (group, member) = (self.group.name().clone(), self.name.clone());
        if self.life.inside() || self.group.is_served_here() {
            return Err(LeaveError::WouldDeadlock { group, member });
        }
        let (begun, deadline) = (self.life.clock().now(), self.life.within(Some(limit)));
        let mut goals = self.group.goals(self.id);
        self.life.wait_until(deadline, cancel, || {
            self.group.cut_goals(self.id, &mut goals);
            self.group.is_closed() || self.group.left_of(self.id, &goals) == 0
        });
        let mut left = self.group.left_of(self.id, &goals);
        let stopped = self.group.is_closed();
        self.leave();
        let ended = self.life.wait_until(deadline, cancel, || !self.group.has_in_hand(self.id));
        let in_hand = self.group.has_in_hand(self.id);
        if stopped {
            left = self.group.left_of(self.id, &goals); // what it had in hand may have counted all the same
        }
        match ended {
            _ if left == 0 && !in_hand => Ok(()),
            _ if stopped => Err(LeaveError::Stopped { group, member, left, in_hand }),
            Ended::Cancelled => Err(LeaveError::Cancelled { group, member, left, in_hand }),
            Ended::Done | Ended::TimedOut if cancel.is_some_and(Canceller::is_cancelled) => {
                Err(LeaveError::Cancelled { group, member, left, in_hand })
            }
            Ended::Done | Ended::TimedOut => {
                let waited = self.life.clock().now() - begun;
                Err(LeaveError::TimedOut { group, member, waited, left, in_hand })
            }
        }
    }
}

impl<T> fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("name", &self.name).finish_non_exhaustive()
    }
}
