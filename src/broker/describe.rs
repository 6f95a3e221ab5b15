//! A broker, a topic, a group as plain data that one can read.
#![forbid(unsafe_code)]

use super::core::Core;
use super::group::Group;
use super::handle::Broker;
use super::life::BrokerState;
use super::sight::PartitionStats;
use super::topic::Topic;
use super::why::standing_among;
use crate::group::{Assignment, Group as Inner, GroupStats, LaneStats, Standing};
use crate::sync::Arc;
use std::fmt;

/// A broker at a glance. The parts are read one after the other, so what moves meanwhile may show in one and not yet in
/// another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerDescription {
    /// Whether it takes records.
    pub state: BrokerState,
    /// Its topics, in order of their names.
    pub topics: Vec<TopicDescription>,
}

/// A topic at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicDescription {
    /// The name.
    pub name: Arc<str>,
    /// The type of its records.
    pub holds: &'static str,
    /// The records that each partition holds at most.
    pub capacity: u64,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionStats>,
    /// Its groups, in order of their names.
    pub groups: Vec<GroupDescription>,
}

/// A group at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDescription {
    /// Its figures, with a line for each partition.
    pub stats: GroupStats,
    /// Its members in join order, with what they have and what is on its way.
    pub assignment: Vec<Assignment>,
    /// Why it does not go on, partition by partition; [`Standing::Done`] where it has nothing to do.
    pub standing: Vec<Standing>,
}

impl TopicDescription {
    /// What every group has passed in a partition: the least of their cursors. `None` if there is no such partition.
    ///
    /// Without a group it is 0: nobody has passed anything. That says nothing of what is kept; only
    /// [`Retain::Backlog`](crate::Retain::Backlog) keeps everything for the group that is still to come. Where records go
    /// by rule ([`drop_oldest`](crate::TopicConfig::drop_oldest), [`max_age`](crate::TopicConfig::max_age)) it may lie before the
    /// earliest record retained, for a group that has not noticed yet what it has lost.
    pub fn passed(&self, partition: u32) -> Option<u64> {
        self.partitions.get(partition as usize)?;
        let of = |group: &GroupDescription| group.stats.lanes.get(partition as usize).map(|lane| lane.committed);
        Some(self.groups.iter().filter_map(of).min().unwrap_or(0))
    }
}

impl Broker {
    /// Everything at a glance, as plain data that displays as a page of text: topics, partitions, groups, members, cursors
    /// and lags, in order of names. A look at everything: for people and for monitors, not for loops.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::<u64>::new().capacity(8))?;
    /// orders.group("billing", GroupConfig::earliest())?;
    /// orders.publish_batch(0..3)?;
    /// assert_eq!(broker.describe().to_string(), "\
    /// broker, Open, 1 topic
    /// orders of u64, 1 partition of 8 records
    ///   0: log 0..3, 3 kept, all past 0
    ///   billing, no member, lag 3, 0 acked, 0 dead, 0 letters
    ///     0: next 0 of 3, lag 3: it has no member");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(&self) -> BrokerDescription {
        BrokerDescription {
            state: self.state(),
            topics: self.0.topics.all().iter().map(|topic| topic.describe()).collect(),
        }
    }
}

impl<T: Send + Sync + 'static> Topic<T> {
    /// The topic at a glance; see [`Broker::describe`].
    pub fn describe(&self) -> TopicDescription {
        self.0.description()
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// The group at a glance; see [`Broker::describe`].
    pub fn describe(&self) -> GroupDescription {
        describe(self.inner(), &self.siblings())
    }
}

impl<T: Send + Sync + 'static> Core<T> {
    pub(super) fn description(self: &Core<T>) -> TopicDescription {
        let groups = self.groups.all();
        let partitions = (0..).zip(&self.logs).map(|(partition, log)| PartitionStats::of(partition, log)).collect();
        TopicDescription {
            name: self.name.clone(),
            holds: std::any::type_name::<T>(),
            capacity: self.capacity() as u64,
            partitions,
            groups: groups.iter().map(|group| describe(group, &groups)).collect(),
        }
    }
}

fn describe<T: Send + Sync + 'static>(group: &Inner<T>, all: &[Arc<Inner<T>>]) -> GroupDescription {
    let stats = group.stats();
    let of = |lane: &LaneStats| standing_among(group, all, lane.partition).unwrap_or(Standing::NoMember);
    let standing = stats.lanes.iter().map(of).collect();
    GroupDescription { stats, assignment: group.assignment(), standing }
}

/// "1 topic", "2 topics".
fn many(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// What stands on a line of its own below `f`, by so much to the right.
fn below(f: &mut fmt::Formatter<'_>, indent: &str, part: &dyn fmt::Display) -> fmt::Result {
    part.to_string().lines().try_for_each(|line| write!(f, "\n{indent}{line}"))
}

impl fmt::Display for BrokerDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broker, {:?}, {}", self.state, many(self.topics.len() as u64, "topic"))?;
        self.topics.iter().try_for_each(|topic| below(f, "", topic))
    }
}

impl fmt::Display for TopicDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = many(self.partitions.len() as u64, "partition");
        write!(f, "{} of {}, {partitions} of {}", self.name, self.holds, many(self.capacity, "record"))?;
        for it in &self.partitions {
            write!(f, "\n  {}: log {}..{}, {} kept", it.partition, it.earliest, it.end, it.retained())?;
            match self.passed(it.partition) {
                Some(passed) if !self.groups.is_empty() => write!(f, ", all past {passed}")?,
                _ => write!(f, ", no group")?,
            }
            let counts =
                [(it.dropped, "dropped"), (it.expired, "expired"), (it.blocked, "blocked"), (it.rejected, "rejected")];
            counts.iter().filter(|(n, _)| *n > 0).try_for_each(|(n, what)| write!(f, ", {n} {what}"))?;
            it.largest_backlog.map_or(Ok(()), |most| write!(f, ", largest backlog {most}"))?;
        }
        self.groups.iter().try_for_each(|group| below(f, "  ", group))
    }
}

impl fmt::Display for GroupDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupDescription { stats, assignment, standing } = self;
        let members =
            if assignment.is_empty() { "no member".to_owned() } else { many(assignment.len() as u64, "member") };
        let (lag, acked, dead) = (stats.lag(), stats.acked(), stats.dead());
        let letters = many(stats.letters as u64, "letter");
        write!(f, "{}, {members}, lag {lag}, {acked} acked, {dead} dead, {letters}", stats.group)?;
        for of in assignment {
            write!(f, "\n  {} has {:?}", of.member, of.partitions)?;
            let moves = [(&of.coming, "coming"), (&of.going, "going")];
            let mut moves = moves.iter().filter(|(which, _)| !which.is_empty());
            moves.try_for_each(|(which, what)| write!(f, ", {what} {which:?}"))?;
        }
        for (lane, why) in stats.lanes.iter().zip(standing) {
            write!(f, "\n  {}: next {} of {}, lag {}", lane.partition, lane.committed, lane.end, lane.pending)?;
            let counts = [
                (lane.in_flight, "in flight"),
                (lane.skipped, "skipped"),
                (lane.expired, "expired"),
                (lane.dropped, "dropped"),
                (lane.conflated, "conflated"),
                (lane.retried, "retried"),
                (lane.leases_expired, if lane.leases_expired == 1 { "lease expired" } else { "leases expired" }),
            ];
            counts.iter().filter(|(n, _)| *n > 0).try_for_each(|(n, what)| write!(f, ", {n} {what}"))?;
            if lane.pending > 0 {
                write!(f, ": {why}")?;
            }
        }
        Ok(())
    }
}
