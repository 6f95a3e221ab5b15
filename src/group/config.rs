//! The settings of a group.
#![forbid(unsafe_code)]

use super::assign::{Assignor, Rule};
use super::gap::{Gap, Hook};
use super::hung::Expired;
use super::lease::{Order, Sharing};
use super::letters::{Bury, Letter};
use super::outcome::Failure;
use super::overflow::Overflow;
use super::place::StartAt;
use super::retry::Retry;
use super::saving::Storing;
use super::watermark::OnLag;
use crate::sync::Arc;
use std::any::Any;
use std::fmt;

/// A setting with an impossible value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, but must be {bound}")]
pub struct ConfigError {
    /// Which setting.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is allowed.
    pub bound: &'static str,
}

impl ConfigError {
    /// A refusal of `value` for `field`.
    pub fn new(field: &'static str, value: impl Into<String>, bound: &'static str) -> Self {
        ConfigError { field, value: value.into(), bound }
    }
}

/// The settings of a group over a topic of `T`. Made by [`earliest`](Self::earliest), [`latest`](Self::latest) or
/// [`at`](Self::at): where a new group starts must be said. Or by a preset: [`handbook`](Self::handbook), [`leased`](Self::leased),
/// [`mailbox`](Self::mailbox).
pub struct GroupConfig<T> {
    pub(super) start: StartAt,
    pub(super) retry: Retry,
    pub(super) letters: usize,
    pub(super) bury: Bury<T>,
    pub(super) on_gap: Option<Hook<Gap>>,
    pub(super) on_letter_lost: Option<Hook<Letter>>,
    pub(super) assignor: Rule,
    pub(super) ephemeral: bool,
    pub(super) storing: Storing,
    pub(super) on_lag: Option<OnLag>,
    pub(super) sharing: Sharing,
    pub(super) on_expired: Option<Hook<Expired>>,
    pub(super) overflow: Overflow<T>,
}

/// Letters kept by default.
pub const LETTERS: usize = 1_024;
/// Letters kept at most.
const LETTERS_MAX: usize = 1 << 30;

impl<T> GroupConfig<T> {
    /// A group that starts where `start` says, with the default retry and 1,024 letters of facts only.
    pub fn new(start: StartAt) -> Self {
        let (retry, letters, bury, assignor) = (Retry::default(), LETTERS, Bury::Facts, Rule::default());
        let (on_gap, on_letter_lost, on_lag, storing) = (None, None, None, Storing::new());
        let (ephemeral, sharing, on_expired, overflow) = (false, Sharing::default(), None, Overflow::topic());
        GroupConfig {
            start,
            retry,
            letters,
            bury,
            on_gap,
            on_letter_lost,
            assignor,
            ephemeral,
            storing,
            on_lag,
            sharing,
            on_expired,
            overflow,
        }
    }

    /// Starts at the earliest retained record.
    pub fn earliest() -> Self {
        Self::new(StartAt::Earliest)
    }

    /// Starts behind the last record.
    pub fn latest() -> Self {
        Self::new(StartAt::Latest)
    }

    /// Starts at `offset` in every partition.
    pub fn at(offset: u64) -> Self {
        Self::new(StartAt::Offset(offset))
    }

    /// Attempts and backoff.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// How many letters are kept; the oldest goes first and is counted. With 0, burying only counts.
    pub fn letters(mut self, capacity: usize) -> Self {
        self.letters = capacity;
        self
    }

    /// A letter keeps a clone of its record. A clone that panics leaves the letter without one.
    pub fn bury_cloned(mut self) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.bury = Bury::Cloned(Arc::new(|value: &T, _| Some(Arc::new(value.clone()) as Arc<dyn Any + Send + Sync>)));
        self
    }

    /// A letter keeps what `make` returns; if it panics, nothing.
    pub fn bury_with<D: Send + Sync + 'static>(
        mut self,
        make: impl Fn(&T, &Failure) -> D + Send + Sync + 'static,
    ) -> Self {
        self.bury = Bury::With(Arc::new(move |value, failure| Some(Arc::new(make(value, failure)) as _)));
        self
    }

    /// Calls `hook` whenever the group has lost records: they were overwritten on a topic that
    /// [drops its oldest](crate::TopicConfig::drop_oldest), or became older than
    /// [the topic allows](crate::TopicConfig::max_age), before the group had read them.
    ///
    /// It is called in their place: on the thread that serves the lane, after the records before the gap and before the one
    /// behind it, when the group's cursor has already moved on. No lock is held, so it may publish, seek, pause or leave. If
    /// it panics, the panic stops there and delivery goes on. The same loss is told once, and not to a group that passes it
    /// by a seek; a loss that nobody has noticed yet, because the group is paused or a handler hangs, shows in the figures
    /// at once and is told when the group reads on. Settings with another hook are other settings, even if the code is the
    /// same.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, TopicConfig};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("ticks", TopicConfig::<u64>::new().capacity(2).drop_oldest())?;
    /// let lost = Arc::new(Mutex::new(Vec::new()));
    /// let noted = lost.clone();
    /// let config = GroupConfig::earliest().on_gap(move |gap| noted.lock().unwrap().push(gap.to_string()));
    /// let group = topic.group("screen", config)?;
    /// let manual = Manual::new(1);
    /// group.member("screen-1").run(&manual).subscribe(|_| ())?;
    ///
    /// (0..5).try_for_each(|n| topic.publish(n).map(drop))?; // none of them waits
    /// manual.run(100);
    /// assert_eq!(*lost.lock().unwrap(), ["ticks/0: screen lost 3 records, offsets 0 to 2: 3 overwritten, 0 expired"]);
    /// assert_eq!((group.stats().acked(), group.stats().skipped()), (2, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_gap(mut self, hook: impl Fn(&Gap) + Send + Sync + 'static) -> Self {
        self.on_gap = Some(Hook::new(hook));
        self
    }

    /// Calls `hook` with each letter that goes because there is no room for it: the last chance to write it somewhere else.
    ///
    /// It is called on the thread that buried another record, or that put letters back, after the commit and under no lock.
    /// If it panics, the panic stops there. Settings with another hook are other settings, even if the code is the same.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Outcome, Record, TopicConfig};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let lost = Arc::new(Mutex::new(Vec::new()));
    /// let noted = lost.clone();
    /// let config = GroupConfig::earliest().letters(1).on_letter_lost(move |letter| noted.lock().unwrap().push(letter.offset()));
    /// let manual = Manual::new(1);
    /// let bury = |_: &Record<'_, u64>| Outcome::reject("no");
    /// topic.group("billing", config)?.member("billing-1").run(&manual).subscribe(bury)?;
    /// topic.publish_batch(0..3)?;
    /// manual.run(100);
    /// assert_eq!(*lost.lock().unwrap(), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_letter_lost(mut self, hook: impl Fn(&Letter) + Send + Sync + 'static) -> Self {
        self.on_letter_lost = Some(Hook::new(hook));
        self
    }

    /// Who gets which partition (default [`RoundRobinAssignor`](crate::RoundRobinAssignor): partition p goes to the member
    /// p mod n, in join order). Settings with another assignor are other settings, unless both are of one type without
    /// state.
    pub fn assignor(mut self, rule: impl Assignor) -> Self {
        self.assignor = Rule::new(rule);
        self
    }

    /// The group lives as long as it has members: it is [deleted](crate::Group::delete) with the last one that leaves, as
    /// soon as that one has nothing in hand any more. (Default: it lives until it is deleted.) Before its first member, and
    /// when its broker closes, it stays. While it goes, and once it is gone, its name makes a new group.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, TopicConfig};
    ///
    /// let broker = Broker::new();
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let group = topic.group("tail", GroupConfig::latest().ephemeral())?;
    /// let member = group.subscribe("only", |_| ())?;
    /// member.leave();
    /// # while topic.find_group("tail").is_ok() { std::thread::yield_now() } // it may be about to look at its lane
    /// assert!(topic.find_group("tail").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }

    /// Checks every setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.retry.validate()?;
        self.storing.validate()?;
        self.sharing.validate()?;
        self.overflow.validate(self.start)?;
        if self.overflow.0.as_ref().is_some_and(|own| own.clones()) && self.sharing.lease.is_some() {
            let bound = "left out where the newest are dropped";
            return Err(ConfigError::new("lease", format!("set with overflow {:?}", self.overflow), bound));
        }
        if self.overflow != Overflow::topic() && self.sharing.order != Order::Partition {
            let bound = "left to the topic where members share partitions";
            return Err(ConfigError::new("overflow", format!("{:?}", self.overflow), bound));
        }
        self.on_lag.as_ref().map_or(Ok(()), OnLag::validate)?;
        if self.start == StartAt::Committed && !self.storing.is_there() {
            return Err(ConfigError::new("start", "Committed", "another place, or have a GroupConfig::offset_store"));
        }
        if self.letters > LETTERS_MAX {
            return Err(ConfigError::new("letters", self.letters.to_string(), "at most 2^30"));
        }
        Ok(())
    }

    /// The first setting in which `other` differs; functions are equal when they are the same one.
    pub fn differs_in(&self, other: &Self) -> Option<&'static str> {
        if self.start != other.start {
            Some("start")
        } else if self.retry != other.retry {
            Some("retry")
        } else if self.letters != other.letters {
            Some("letters")
        } else if !self.bury.same(&other.bury) {
            Some("bury")
        } else if !Hook::same(self.on_gap.as_ref(), other.on_gap.as_ref()) {
            Some("on_gap")
        } else if !Hook::same(self.on_letter_lost.as_ref(), other.on_letter_lost.as_ref()) {
            Some("on_letter_lost")
        } else if !self.assignor.same(&other.assignor) {
            Some("assignor")
        } else if self.ephemeral != other.ephemeral {
            Some("ephemeral")
        } else if !OnLag::same(self.on_lag.as_ref(), other.on_lag.as_ref()) {
            Some("on_lag")
        } else if self.overflow != other.overflow {
            Some("overflow")
        } else if !Hook::same(self.on_expired.as_ref(), other.on_expired.as_ref()) {
            Some("on_expired")
        } else {
            self.sharing.differs_in(&other.sharing).or_else(|| self.storing.differs_in(&other.storing))
        }
    }

    /// Where a new group starts.
    pub fn start(&self) -> StartAt {
        self.start
    }
}

impl<T> Clone for GroupConfig<T> {
    fn clone(&self) -> Self {
        let (retry, bury, assignor) = (self.retry.clone(), self.bury.clone(), self.assignor.clone());
        let (on_gap, on_letter_lost) = (self.on_gap.clone(), self.on_letter_lost.clone());
        let (storing, on_lag, on_expired) = (self.storing.clone(), self.on_lag.clone(), self.on_expired.clone());
        let overflow = self.overflow.clone();
        GroupConfig { retry, bury, on_gap, on_letter_lost, assignor, storing, on_lag, on_expired, overflow, ..*self }
    }
}

impl<T> fmt::Debug for GroupConfig<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupConfig")
            .field("start", &self.start)
            .field("retry", &self.retry)
            .field("letters", &self.letters)
            .field("bury", &self.bury)
            .field("on_gap", &self.on_gap)
            .field("on_letter_lost", &self.on_letter_lost)
            .field("assignor", &self.assignor)
            .field("ephemeral", &self.ephemeral)
            .field("storing", &self.storing)
            .field("on_lag", &self.on_lag)
            .field("sharing", &self.sharing)
            .field("on_expired", &self.on_expired)
            .field("overflow", &self.overflow)
            .finish()
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::GroupConfig;
    use crate::group::{Retry, StartAt};

    #[test]
    fn equal_settings_are_equal_and_a_difference_is_named() {
        let base = || GroupConfig::<String>::earliest();
        assert_eq!(base().differs_in(&base()), None);
        assert_eq!(base().differs_in(&GroupConfig::new(StartAt::Offset(3))), Some("start"));
        assert_eq!(base().differs_in(&base().retry(Retry::never())), Some("retry"));
        assert_eq!(base().differs_in(&base().letters(1)), Some("letters"));
        assert_eq!(base().differs_in(&base().bury_cloned()), Some("bury"));
        assert_eq!(base().bury_cloned().differs_in(&base().bury_cloned()), None);
        let with = base().bury_with(|value, _| value.len());
        assert_eq!(with.differs_in(&with.clone()), None);
        let hooked = base().on_gap(|_| ());
        assert_eq!(hooked.differs_in(&hooked.clone()), None);
        assert_eq!(hooked.differs_in(&base()), Some("on_gap"));
        assert_eq!(base().on_letter_lost(|_| ()).differs_in(&base()), Some("on_letter_lost"));
        let seen = std::sync::Arc::new(());
        let another = || {
            base().on_gap({
                let seen = seen.clone();
                move |_| drop(seen.clone())
            })
        };
        assert_eq!(another().differs_in(&another()), Some("on_gap"), "by identity");
    }
}
