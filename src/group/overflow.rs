//! What becomes of the records that wait for a group of its own overflow: its *mailbox*.
//!
//! ```text
//!     committed   taken                          end
//!        │ in hand  │   w a i t i n g             │        waiting: published, and not yet handed to a handler
//!        ▼          ▼                             ▼
//!   ─────┬──────────┬─────────────────────────────┬────▶
//!                   ╰────── at most so many ──────╯
//!
//!   block         producers are held back at taken + so many: the ring's gate says so (`Gating::Waiting`)
//!   drop oldest   the reader starts at end - so many at the latest, whenever it takes the next: only it removes
//!   latest        the same with one, and what is passed over is no loss but is told all the same
//! ```
//! Nothing is counted while records go: until the reader comes by, what it will find missing is worked out by whoever asks.
//! A record that has failed and is tried again is still in hand: it does not wait, and is not passed over.
#![forbid(unsafe_code)]

use super::config::{ConfigError, GroupConfig};
use super::conflate::{Keying, keying};
use super::error::GroupError;
use super::lane::{Held, Lane};
use super::place::StartAt;
use crate::log::{self, Log};
use crate::ring::Gating;
use crate::seq::Seq;
use crate::sync::Arc;
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU64;

/// What a group does when too many records wait for it, by itself, whatever the topic does: given to
/// [`GroupConfig::overflow`].
///
/// Records *wait* from their publish until they are handed to a handler: the one that is being handled does not, nor
/// one that has failed and is tried again. How many may wait is counted for each partition, and exactly: in
/// topics of more than a few records it may be up to seven eighths of the topic's
/// [capacity](crate::TopicConfig::capacity).
pub struct Overflow<T>(pub(super) Option<Own<T>>);

/// How many records may wait for a group at most.
const WAITING_MAX: usize = 1 << 24;

/// A mailbox.
pub(super) struct Own<T> {
    pub(super) rule: Rule<T>,
    pub(super) most: usize,
}

/// What goes.
pub(super) enum Rule<T> {
    /// Nothing: publishers wait.
    Block,
    /// The oldest of those that wait.
    Oldest,
    /// The one that comes. Those that wait are clones.
    Newest(fn(&T) -> T),
    /// All but the latest.
    Latest,
    /// All but the latest of each key.
    LatestBy(Arc<Keying<T>>),
}

impl<T> Overflow<T> {
    /// The topic's rule, which is about what is not acknowledged (the default): publishers wait, or the oldest record goes,
    /// when the topic is full.
    pub const fn topic() -> Self {
        Overflow(None)
    }

    /// Publishers wait while `records` are waiting, for as long as the topic lets them
    /// ([`TopicConfig::block`](crate::TopicConfig::block)). Not on topics that drop their oldest: there nobody may hold
    /// publishers back.
    pub const fn block(records: usize) -> Self {
        Overflow(Some(Own { rule: Rule::Block, most: records }))
    }

    /// The oldest of those that wait goes, and the publisher never waits for this group. It hears of what it lost, in its
    /// place, by [`GroupConfig::on_gap`] and [`Record::lost_before`](crate::Record::lost_before), and counts it as `dropped`.
    pub const fn drop_oldest(records: usize) -> Self {
        Overflow(Some(Own { rule: Rule::Oldest, most: records }))
    }

    /// The record that comes goes: what waits is handed over in full. The group hears of what it lost, in its place, and counts
    /// it as `dropped`.
    ///
    /// What waits for such a group is a clone, made by whoever publishes (or by the group's own thread), in no lock: so a cheap one, of an
    /// `Arc` say. A clone that panics counts as dropped. A clone that does not return keeps all such groups of the
    /// partition waiting, and no publisher. The group has to start at [`StartAt::Latest`](crate::StartAt::Latest), and what it did not
    /// take when it was published cannot be replayed to it: behind a seek back it drops it once more.
    pub const fn drop_newest(records: usize) -> Self
    where
        T: Clone,
    {
        Overflow(Some(Own { rule: Rule::Newest(T::clone), most: records }))
    }

    /// Only the latest record is worth handing over: those before it that still wait are passed over, and counted
    /// as `conflated`. For what shows a state: a screen, a gauge.
    pub const fn latest() -> Self {
        Overflow(Some(Own { rule: Rule::Latest, most: 1 }))
    }

    /// Only the latest record of each key is worth handing over: those before it that still wait are passed over, and
    /// counted as `conflated`. So no more than one of each key waits, and of `keys` at most: beyond that the first goes, and is
    /// `dropped`. What is handed over is in order.
    ///
    /// `key` and the keys' comparison run on the group's own thread, twice for each record and in no lock; where they panic, the
    /// record is handed over. What is passed over is found when the group comes by: until then it counts as waiting. Settings with
    /// another function are other settings, even if the code is the same.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Overflow, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let prices = broker.create_topic("prices", TopicConfig::<(String, u64)>::new().block(None))?;
    /// let latest = Overflow::latest_by(100, |(name, _): &(String, u64)| name.clone());
    /// let screen = prices.group("screen", GroupConfig::latest().overflow(latest))?;
    /// for (name, price) in [("a", 1), ("b", 1), ("a", 2)] {
    ///     prices.publish((name.to_owned(), price))?;
    /// }
    /// let manual = Manual::new(1);
    /// screen.member("only").run(&manual).subscribe(|price| assert_ne!(**price, ("a".to_owned(), 1)))?;
    /// manual.run(100);
    /// assert_eq!((screen.stats().acked(), screen.stats().conflated()), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn latest_by<K>(keys: usize, key: impl Fn(&T) -> K + Send + Sync + 'static) -> Self
    where
        T: 'static,
        K: Hash + Eq + Send + 'static,
    {
        Overflow(Some(Own { rule: Rule::LatestBy(keying(key)), most: keys }))
    }
}

impl<T> Default for Overflow<T> {
    fn default() -> Self {
        Overflow::topic()
    }
}

impl<T> Clone for Rule<T> {
    fn clone(&self) -> Self {
        match self {
            Rule::Block => Rule::Block,
            Rule::Oldest => Rule::Oldest,
            Rule::Newest(clone) => Rule::Newest(*clone),
            Rule::Latest => Rule::Latest,
            Rule::LatestBy(keying) => Rule::LatestBy(keying.clone()),
        }
    }
}

impl<T> Clone for Own<T> {
    fn clone(&self) -> Self {
        Own { rule: self.rule.clone(), most: self.most }
    }
}

impl<T> Clone for Overflow<T> {
    fn clone(&self) -> Self {
        Overflow(self.0.clone())
    }
}

impl<T> PartialEq for Overflow<T> {
    fn eq(&self, other: &Self) -> bool {
        let plain = |overflow: &Self| overflow.0.as_ref().map(|own| (std::mem::discriminant(&own.rule), own.most));
        let same_keys = match (self.0.as_ref().map(|own| &own.rule), other.0.as_ref().map(|own| &own.rule)) {
            (Some(Rule::LatestBy(one)), Some(Rule::LatestBy(other))) => Arc::ptr_eq(one, other),
            _ => true,
        };
        same_keys && plain(self) == plain(other)
    }
}

impl<T> Eq for Overflow<T> {}

impl<T> fmt::Debug for Overflow<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_ref().map(|own| (&own.rule, own.most)) {
            None => f.write_str("topic"),
            Some((Rule::Block, most)) => write!(f, "block({most})"),
            Some((Rule::Oldest, most)) => write!(f, "drop_oldest({most})"),
            Some((Rule::Newest(_), most)) => write!(f, "drop_newest({most})"),
            Some((Rule::Latest, _)) => f.write_str("latest"),
            Some((Rule::LatestBy(_), most)) => write!(f, "latest_by({most})"),
        }
    }
}

impl<T> Overflow<T> {
    pub(super) fn validate(&self, start: StartAt) -> Result<(), ConfigError> {
        match &self.0 {
            Some(Own { rule: Rule::Newest(_), .. }) if start != StartAt::Latest => {
                let bound = "at Latest, where the newest are dropped: before that nothing was kept for the group";
                Err(ConfigError::new("start", format!("{start:?}"), bound))
            }
            Some(Own { most, .. }) if *most > WAITING_MAX => {
                Err(ConfigError::new("overflow", format!("{most} records"), "at most 16777216 records"))
            }
            Some(Own { most: 0, .. }) => Err(ConfigError::new("overflow", "0 records", "at least 1: none could wait")),
            _ => Ok(()),
        }
    }

    /// Whether a topic of these partitions can have a group like that.
    pub(super) fn fits(&self, topic: &Arc<str>, group: &Arc<str>, logs: &[Arc<Log<T>>]) -> Result<(), GroupError>
    where
        T: Send + Sync + 'static,
    {
        let (Some(own), Some(log)) = (&self.0, logs.first()) else { return Ok(()) };
        let (topic, group, capacity) = (topic.clone(), group.clone(), log.ring().capacity());
        let most = (capacity.get() - capacity.eighth()).max(u64::from(!own.blocks()));
        if own.most as u64 > most && !own.clones() {
            return Err(GroupError::Overflow {
                topic,
                group,
                records: own.most as u64,
                most,
                capacity: capacity.get(),
            });
        }
        if own.clones() && log.ages() {
            return Err(GroupError::Ages { topic, group });
        }
        if own.blocks() && log.ring().is_lossy() {
            return Err(GroupError::NeverWaits { topic, group });
        }
        Ok(())
    }

    /// How the group's cursor holds producers back; `None`: as the topic has it.
    pub(super) fn gating(&self) -> Option<Gating> {
        let own = self.0.as_ref()?;
        let waiting = NonZeroU64::new(own.most as u64).map(Gating::Waiting);
        Some(if own.blocks() { waiting.unwrap_or(Gating::Uncommitted) } else { Gating::Follows })
    }
}

/// What records that went in front of a group are to it: overwritten, dropped, or conflated.
pub(super) fn sort<T>(own: Option<&Own<T>>, records: u64) -> (u64, u64, u64) {
    match own.map(|own| &own.rule) {
        Some(Rule::Oldest | Rule::Newest(_) | Rule::LatestBy(_)) => (0, records, 0),
        Some(Rule::Latest) => (0, 0, records),
        Some(Rule::Block) | None => (records, 0, 0),
    }
}

impl<T> Own<T> {
    /// Whether only the latest of each key is handed over.
    pub(super) fn is_by_key(&self) -> bool {
        matches!(self.rule, Rule::LatestBy(_))
    }

    /// Whether nobody can poll there.
    pub(super) fn is_for_handlers(&self) -> bool {
        self.clones() || self.is_by_key()
    }

    /// Whether publishers wait for it.
    pub(super) fn blocks(&self) -> bool {
        matches!(self.rule, Rule::Block)
    }

    /// Whether clones wait.
    pub(super) fn clones(&self) -> bool {
        matches!(self.rule, Rule::Newest(_))
    }
}

impl<T> GroupConfig<T> {
    /// What the group does when too many records wait for it (default [`Overflow::topic`]): so that of many groups on one
    /// topic each has its own patience, and none is the others' business.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Overflow, TopicConfig};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let broker = Broker::new();
    /// let prices = broker.create_topic("prices", TopicConfig::<u64>::new())?;
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let screen = prices.group("screen", GroupConfig::latest().overflow(Overflow::latest()))?;
    /// let chart = prices.group("chart", GroupConfig::latest().overflow(Overflow::drop_oldest(3)))?;
    /// let manual = Manual::new(1);
    /// for group in [&screen, &chart] {
    ///     let (seen, name) = (seen.clone(), group.name().to_owned());
    ///     group.member("only").run(&manual).subscribe(move |price| seen.lock().unwrap().push((name.clone(), **price)))?;
    /// }
    /// (1..=5).try_for_each(|price| prices.publish(price).map(drop))?; // neither of them is fast enough
    /// manual.run(100);
    /// let seen = seen.lock().unwrap();
    /// let of = |group| seen.iter().filter(|(name, _)| name == group).map(|(_, price)| *price).collect::<Vec<_>>();
    /// assert_eq!((of("screen"), of("chart")), (vec![5], vec![3, 4, 5]));
    /// assert_eq!((screen.stats().conflated(), chart.stats().dropped()), (4, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overflow(mut self, rule: Overflow<T>) -> Self {
        self.overflow = rule;
        self
    }
}

/// Whether the next record is in hand still, by itself or with others of its batch: then it does not wait.
pub(super) fn is_in_hand<T>(held: &Held<T>) -> bool {
    held.failures > 0 || held.next.precedes(held.single_until)
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Where the oldest record is that may still wait, for a group that passes over others; `from`: behind what is in hand.
    pub(super) fn line(&self, from: Seq, end: Seq) -> Option<Seq> {
        let most = self.own.as_ref().filter(|own| matches!(own.rule, Rule::Oldest | Rule::Latest))?.most as u64;
        (end.lag_behind(from) > most).then(|| end.minus(most))
    }

    /// What is to be passed over before the next record is taken.
    #[inline]
    pub(super) fn over_the_line(&self, from: Seq) -> Option<log::Gap> {
        let to = self.line(from, self.log.end())?;
        let expired = if self.log.sheds() { self.log.missed(from, to).expired } else { 0 };
        Some(log::Gap { from, to, expired, conflated: 0 })
    }

    /// What is to be passed over before the next record is handed over, by the group's own rule.
    #[inline]
    pub(super) fn own_gap(&self, held: &mut Held<T>) -> Option<log::Gap> {
        let own = self.own.as_ref()?;
        if is_in_hand(held) {
            return None;
        }
        if own.is_by_key() { self.conflate(held) } else { self.over_the_line(held.next) }
    }

    /// Behind what is in hand between two runs: a record that has failed is.
    pub(super) fn behind_the_hand(&self, held: &Held<T>) -> Seq {
        if self.own.is_none() || self.newest.is_some() {
            return held.next;
        }
        held.next.plus(u64::from(held.failures > 0)).later(held.single_until)
    }

    /// How many records may be handed over at once, of so many: each is taken by itself by a handler of single records; and
    /// what is in hand and what waits fits into the topic.
    #[inline]
    pub(super) fn bound(&self, budget: usize, singly: bool, eighth: usize) -> usize {
        match &self.own {
            None => budget,
            Some(own) if singly || own.is_by_key() => 1,
            Some(own) => budget.min(own.most).min(eighth),
        }
    }

    /// Counts what was passed over.
    pub(super) fn count_passed(&self, gap: &log::Gap) {
        let (skipped, dropped, conflated) = sort(self.own.as_ref(), gap.overwritten());
        self.counters.expired.add(gap.expired);
        self.counters.skipped.add(skipped);
        self.counters.dropped.add(dropped);
        self.counters.conflated.add(conflated + gap.conflated);
    }

    /// Records up to `to` are in hand.
    #[inline]
    pub(super) fn took(&self, to: Seq, epoch: u32) {
        self.gate.take(to, epoch);
        if self.own.as_ref().is_some_and(Own::blocks) {
            self.log.not_full().notify();
        }
    }
}
