//! The group: its settings, its lanes, its members. It exists without members and gates all the same.
#![forbid(unsafe_code)]

use super::config::GroupConfig;
use super::context::{self, Id};
use super::deal::Rings;
use super::error::{ControlError, GroupError};
use super::gap::Gap;
use super::home::{Closing, Home};
use super::lane::{Kind, Lane};
use super::lease::Order;
use super::letters::Letters;
use super::name;
use super::overflow::sort;
use super::place::{Found, start_in};
use super::roster::Roster;
use super::saving::Saved;
use super::stats::{GroupStats, LaneStats};
use super::watermark::Raised;
use super::word::{MemberId, PauseReason};
use crate::log::{self, Log};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, lock};
use crate::time::{Clock, Random};
use crate::wait::Event;
use std::fmt;

/// What a group needs from its topic and its broker.
pub struct GroupSpec<T> {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The group's name.
    pub name: Arc<str>,
    /// The topic's partitions.
    pub logs: Vec<Arc<Log<T>>>,
    /// The settings, which groups that are alike may share.
    pub config: Arc<GroupConfig<T>>,
    /// The key of a record, if records of the topic have keys.
    pub key: Option<KeyOf<T>>,
    /// Where it begins.
    pub found: Found,
    /// The broker's clock.
    pub clock: Arc<dyn Clock>,
    /// The broker's dice.
    pub random: Arc<dyn Random>,
    /// Notified on every commit, skip and hand-over: for those who wait for a group to get somewhere.
    pub progress: Arc<Event>,
    /// The broker, for [`context::inside`].
    pub broker: Id,
    /// Whether the broker is closing.
    pub closing: Closing,
    /// Takes the group off the list of its topic; called when the last member of an ephemeral group has left.
    pub retire: Retire<T>,
}

/// The key of a record as a number; `None`: it has none. Keys with one number are one key. User code.
pub type KeyOf<T> = Arc<dyn Fn(&T) -> Option<u64> + Send + Sync>;

/// See [`GroupSpec::retire`].
pub type Retire<T> = Box<dyn Fn(&Group<T>) + Send + Sync>;

impl<T> fmt::Debug for GroupSpec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupSpec({}/{})", self.topic, self.name)
    }
}

/// A consumer group of one topic.
pub struct Group<T> {
    pub(super) topic: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) config: Arc<GroupConfig<T>>,
    /// Where it keeps the order of each key.
    pub(super) key: Option<KeyOf<T>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) progress: Arc<Event>,
    pub(super) broker: Id,
    pub(super) lanes: Vec<Arc<Lane<T>>>,
    pub(super) letters: Letters,
    /// At most this many finished records are uncommitted: an eighth of the capacity.
    pub(super) commit_bound: usize,
    pub(super) home: Home,
    pub(super) roster: Mutex<Roster>,
    pub(super) bad_deals: AtomicU64,
    /// Called when the last member of an ephemeral group has left: takes it off its topic's list.
    pub(super) retire: Retire<T>,
    pub(super) saved: Saved,
    pub(super) raised: Raised,
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Makes the group and its lanes; from now on it gates.
    pub fn new(spec: GroupSpec<T>) -> Result<Arc<Self>, GroupError> {
        let GroupSpec { topic, name, logs, config, key, found, clock, random, progress, broker, closing, retire } =
            spec;
        if let Err(reason) = name::check(&name) {
            return Err(GroupError::Name { topic, reason });
        }
        config.validate()?;
        let eighth = logs.iter().map(|log| log.ring().capacity().eighth()).min().unwrap_or(1);
        if config.start.is_by_time() && !logs.iter().all(|log| log.has_times()) {
            return Err(GroupError::NoTimes { topic, group: name });
        }
        let shares = config.sharing.order != Order::Partition;
        if shares && logs.iter().any(|log| log.sheds()) {
            return Err(GroupError::Sheds { topic, group: name });
        }
        let key = key.filter(|_| config.sharing.order == Order::Key);
        if config.sharing.order == Order::Key && key.is_none() {
            return Err(GroupError::NoKeys { topic, group: name });
        }
        config.overflow.fits(&topic, &name, &logs)?;
        let lanes = logs.into_iter().zip(0..).map(|(log, partition)| {
            let start = start_in(&log, config.start, found.place(partition));
            let lease = config.sharing.lease().filter(|_| !shares).map(|lease| (lease, clock.clone()));
            let kind = Kind { order: config.sharing.order, overflow: config.overflow.clone() };
            Arc::new(Lane::new(log, partition, start, found.stored(partition), lease, kind))
        });
        let lanes = lanes.collect();
        Ok(Arc::new(Group {
            lanes,
            letters: Letters::new(config.letters),
            commit_bound: usize::try_from(eighth).unwrap_or(usize::MAX).max(1),
            home: Home { topic: topic.clone(), closing, term: None, loan: None, grasp: None },
            saved: Saved::new(found.stored, found.now, &config.storing),
            raised: Raised::default(),
            roster: Mutex::new(Roster::default()),
            bad_deals: AtomicU64::new(0),
            retire,
            topic,
            name,
            config,
            key,
            clock,
            random,
            progress,
            broker,
        }))
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The group's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The settings.
    pub fn config(&self) -> &Arc<GroupConfig<T>> {
        &self.config
    }

    /// Whether the group is this one for settings `config`; names the first that differs.
    pub fn check(&self, config: &GroupConfig<T>) -> Result<(), GroupError> {
        config.validate()?;
        let differs = |field| GroupError::Differs { topic: self.topic.clone(), group: self.name.clone(), field };
        self.config.differs_in(config).map_or(Ok(()), |field| Err(differs(field)))
    }

    // ---- controls ------------------------------------------------------------------------------------------------

    pub(super) fn lane(&self, partition: u32) -> Result<&Arc<Lane<T>>, ControlError> {
        let partitions = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        let none = || ControlError::NoPartition { topic: self.topic.clone(), partition, partitions };
        self.lanes.get(partition as usize).ok_or_else(none)
    }

    /// Rings who owns or holds a lane.
    pub(super) fn ring_for(&self, partition: usize) {
        let word = self.lanes[partition].word.load();
        let seats: Rings = if self.shares() {
            lock(&self.roster).everybody().filter_map(|member| member.seat(partition)).cloned().collect()
        } else {
            let roster = lock(&self.roster);
            let concerned = [word.owner(), word.target()].into_iter().filter_map(|id| roster.find(id));
            concerned.filter_map(|member| member.seat(partition)).cloned().collect()
        };
        seats.iter().for_each(|seat| seat.ring());
    }

    /// Pauses the whole group: each lane stops at its next record, which it may still hand over. Returns at once.
    pub fn pause(&self) {
        for lane in &self.lanes {
            lane.word.pause(PauseReason::Group);
        }
    }

    /// Takes the group's pause back; partitions paused on their own stay paused.
    pub fn resume(&self) {
        for (partition, lane) in self.lanes.iter().enumerate() {
            lane.word.resume(PauseReason::Group);
            self.ring_for(partition);
        }
    }

    /// Pauses one partition, apart from the group's own pause.
    pub fn pause_partition(&self, partition: u32) -> Result<(), ControlError> {
        self.lane(partition)?.word.pause(PauseReason::Partition);
        Ok(())
    }

    /// Takes one partition's own pause back.
    pub fn resume_partition(&self, partition: u32) -> Result<(), ControlError> {
        self.lane(partition)?.word.resume(PauseReason::Partition);
        self.ring_for(partition as usize);
        Ok(())
    }

    /// Tells the group's hook of a gap; user code.
    #[cold]
    pub(super) fn tell(&self, partition: u32, gap: &log::Gap) {
        let Some(hook) = &self.config.on_gap else { return };
        let (topic, group) = (self.topic.clone(), self.name.clone());
        let (from, to, expired) = (gap.from.get(), gap.to.get(), gap.expired);
        let (overwritten, dropped, conflated) = sort(self.config.overflow.0.as_ref(), gap.overwritten());
        let conflated = conflated + gap.conflated;
        hook.tell(&Gap { topic, group, partition, from, to, overwritten, expired, dropped, conflated });
    }

    // ---- questions -----------------------------------------------------------------------------------------------

    /// Records not done yet, over all partitions.
    pub fn lag(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.lag()).sum()
    }

    /// Records of one partition not done yet.
    pub fn lag_of(&self, partition: u32) -> Result<u64, ControlError> {
        Ok(self.lane(partition)?.lag())
    }

    /// The group in figures.
    pub fn stats(&self) -> GroupStats {
        // First and by itself: no lane's lock is taken under the roster's.
        let members = lock(&self.roster).members().iter().map(|member| member.name.clone()).collect();
        let (saves, saves_failed) = self.saved.counts();
        GroupStats {
            topic: self.topic.clone(),
            group: self.name.clone(),
            members,
            lanes: self.lanes.iter().map(|lane| lane.stats()).collect(),
            letters: self.letters.len(),
            letters_lost: self.letters.lost(),
            saves,
            saves_failed,
            // ORD(bad_deal:B) Relaxed: a counter.
            bad_deals: self.bad_deals.load(Ordering::Relaxed),
        }
    }

    /// One partition in figures.
    pub fn stats_of(&self, partition: u32) -> Result<LaneStats, ControlError> {
        Ok(self.lane(partition)?.stats())
    }

    /// Whether every lane that has a member is at the end of its partition. One without a member holds nobody up.
    pub fn is_drained(&self) -> bool {
        self.lanes.iter().all(|lane| lane.word.load().target() == MemberId::NOBODY || lane.lag() == 0)
    }

    /// Whether no member has a lane in hand: after [`stop`](Self::stop), no handler will be called any more.
    ///
    /// Nor has one hung and not returned, although its lane was seized.
    pub fn is_quiet(&self) -> bool {
        let quiet = self.lanes.iter().all(|lane| lane.is_quiet());
        quiet && (self.lease().is_none() || !lock(&self.roster).any_handler_hangs())
    }

    /// Whether the caller runs in a handler, and the executor that runs it serves a member of this group.
    pub fn is_served_here(&self) -> bool {
        context::current().is_some() && lock(&self.roster).any_seat(context::steps)
    }

    /// Whether the group was stopped or deleted.
    pub fn is_closed(&self) -> bool {
        lock(&self.roster).is_closed()
    }

    /// The tags of the gates of its lanes.
    pub fn gates(&self) -> impl Iterator<Item = u64> {
        self.lanes.iter().map(|lane| lane.gate.tag())
    }

    /// Whether waiting for the gate `tag` on this thread would never end: it is the gate of one of our lanes, and the
    /// lane is stepped, or about to be, by the executor that runs the caller. Outside handlers: no.
    pub fn would_deadlock(&self, tag: u64) -> bool {
        let at = |_| self.lanes.iter().position(|lane| lane.gate.tag() == tag);
        context::current().and_then(at).is_some_and(|partition| self.is_stepped_here(partition as u32, None))
    }

    /// Whether the lane of a partition is stepped, or about to be, by the executor that runs the caller, so that waiting there for
    /// the record at `offset`, or for room, never ends; or the caller is run by a timer, which waits for nobody. Outside these: no.
    pub fn is_stepped_here(&self, partition: u32, offset: Option<u64>) -> bool {
        let partition = partition as usize;
        if context::current().is_none() {
            return false;
        }
        if context::on_timer() {
            return true;
        }
        if let Some(waits) = self.shared_waits_here(partition, offset) {
            return waits || lock(&self.roster).any_seat(context::lends);
        }
        let word = self.lanes[partition].word.load();
        let roster = lock(&self.roster);
        let concerned = [word.owner(), word.target()].into_iter().filter_map(|id| roster.find(id));
        let mut seats = concerned.filter_map(|member| member.seat(partition));
        seats.any(|seat| context::steps(&**seat))
    }
}

impl<T> fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({}/{}, {} lanes)", self.topic, self.name, self.lanes.len())
    }
}
