//! What a close left behind, and what a drain waited for in vain.
#![forbid(unsafe_code)]

use crate::group::GroupStats;
use crate::sync::Arc;
use crate::time::Span;
use std::fmt;
use std::time::Duration;

/// What every group of a broker did and left when it closed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// One entry for each group, by topic and group name. Its lag is what the group left.
    pub groups: Vec<GroupStats>,
    /// Whether every lane with a member had handled everything before it was stopped.
    pub drained: bool,
    /// Whether every handler had returned when the account was taken, not to be called again. If not, a handler outlasted the
    /// deadline, or closed the broker itself; what it had in hand counts as left and its acknowledgement is refused.
    ///
    /// A member that merely sleeps has to wake and go before it counts. A close that is given no time (a limit of zero, a
    /// canceller already used, a close from inside a handler, the drop of the last handle) does not wait for that: so there
    /// this is mostly false although no handler is at work, and says only that nobody looked any longer.
    pub stopped: bool,
}

impl Account {
    /// The entry of a group.
    pub fn group(&self, topic: &str, group: &str) -> Option<&GroupStats> {
        self.groups.iter().find(|entry| &*entry.topic == topic && &*entry.group == group)
    }

    /// The records acknowledged, over all groups.
    pub fn acked(&self) -> u64 {
        self.groups.iter().map(GroupStats::acked).sum()
    }

    /// The records that were given up as dead letters, over all groups.
    pub fn dead(&self) -> u64 {
        self.groups.iter().map(GroupStats::dead).sum()
    }

    /// The records that groups passed over by a seek, or lost because they were overwritten, over all groups.
    pub fn skipped(&self) -> u64 {
        self.groups.iter().map(GroupStats::skipped).sum()
    }

    /// The records that groups lost because they became too old, over all groups.
    pub fn expired(&self) -> u64 {
        self.groups.iter().map(GroupStats::expired).sum()
    }

    /// The records that groups lost by their own [overflow](crate::Overflow), over all groups.
    pub fn dropped(&self) -> u64 {
        self.groups.iter().map(GroupStats::dropped).sum()
    }

    /// The records that groups passed over for a later one, over all groups.
    pub fn conflated(&self) -> u64 {
        self.groups.iter().map(GroupStats::conflated).sum()
    }

    /// The records that groups had not done, over all groups; those of groups without a member included.
    pub fn left(&self) -> u64 {
        self.groups.iter().map(GroupStats::lag).sum()
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acked, {} dead, {} left", self.acked(), self.dead(), self.left())?;
        let (skipped, expired) = (self.skipped(), self.expired());
        if skipped + expired > 0 {
            write!(f, ", {skipped} skipped, {expired} expired")?;
        }
        let own = [(self.dropped(), "dropped"), (self.conflated(), "conflated")];
        own.iter().filter(|(n, _)| *n > 0).try_for_each(|(n, what)| write!(f, ", {n} {what}"))?;
        for entry in self.groups.iter().filter(|entry| entry.lag() > 0) {
            write!(f, "; {}/{} left {}", entry.topic, entry.group, entry.lag())?;
        }
        if !self.stopped {
            write!(f, "; not every member had stopped")?;
        }
        Ok(())
    }
}

/// A group that has a member and is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Behind {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The records it has not done.
    pub lag: u64,
}

/// Why a drain did not see everything done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The time was up first. Wait longer, or see to the groups named.
    #[error("not drained after {}{}", Span(*waited), list(behind))]
    TimedOut {
        /// How long was waited, by the broker's clock.
        waited: Duration,
        /// Who was not done, each group once; may be empty if they finished just then.
        behind: Vec<Behind>,
    },
    /// The canceller that was given was used first.
    #[error("cancelled before everything was done{}", list(behind))]
    Cancelled {
        /// Who was not done, each group once; may be empty if they finished just then.
        behind: Vec<Behind>,
    },
    /// A handler of this broker asked, or of another one on a worker that serves both: what it would wait for can only be
    /// done when it returns. Drain from another thread.
    #[error("a handler cannot drain the broker that waits for it")]
    WouldDeadlock,
}

fn list(behind: &[Behind]) -> String {
    let of = |it: &Behind| format!("{}/{} has {} left", it.topic, it.group, it.lag);
    let all: Vec<String> = behind.iter().map(of).collect();
    if all.is_empty() { String::new() } else { format!(": {}", all.join(", ")) }
}
