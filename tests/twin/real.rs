//! The real broker, driven by hand: the manual clock, the manual executor, handlers that do as they are told.

use crate::again::Moved;
use crate::answers::{answer, batch_outcome, outcome, refusal};
use crate::ops::{Act, BACKOFF_CAP, From, Keep, Rule, Setup, To};
use crate::own::KEYS;
use crate::parts::{Answer, Books, Call, Gap, Letter, Seen, Stored};
use ringlog::{
    Assignment, Batch, BatchError, Broker, BrokerConfig, CommitError, ControlError, Group, GroupConfig, GroupError,
    LaneStats, LeaveError, Manual, ManualClock, Member, Overflow, Pick, Producer, Record, Retain, Retry, SeekTo, Share,
    StartAt, StickyAssignor, Time, Timestamps, Topic, TopicConfig,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The clock's reading after so many milliseconds.
fn millis(n: u64) -> Time {
    Time::ZERO + Duration::from_millis(n)
}

/// What is published: a number, perhaps a key, and a count of those alive.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) serial: u64,
    key: Option<[u8; 1]>,
    alive: Arc<AtomicUsize>,
}

impl Event {
    fn new(serial: u64, key: Option<u8>, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { serial, key: key.map(|key| [key]), alive: alive.clone() }
    }
}

/// What a letter keeps.
impl Clone for Event {
    fn clone(&self) -> Self {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Self { serial: self.serial, key: self.key, alive: self.alive.clone() }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let before = self.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "event {} was dropped twice", self.serial);
    }
}

type Shared<T> = Arc<Mutex<T>>;

/// A group, its script, and the members that have not left.
pub(crate) struct RealGroup {
    pub(crate) group: Group<Event>,
    script: Shared<VecDeque<Act>>,
    pub(crate) members: Vec<(String, Member<Event>)>,
}

pub(crate) struct Real {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) manual: Manual,
    pub(crate) broker: Broker,
    pub(crate) topic: Topic<Event>,
    pub(crate) groups: BTreeMap<u8, RealGroup>,
    producer: Option<Producer<Event>>,
    seen: Shared<Vec<Seen>>,
    alive: Arc<AtomicUsize>,
    serials: Arc<AtomicU64>,
    setup: Setup,
    joined: u32,
}

impl Real {
    pub(crate) fn new(setup: &Setup) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let retain = match setup.keep {
            Keep::Backlog => Retain::Backlog,
            Keep::Recent => Retain::Recent,
            Keep::Unacked => Retain::Unacked,
        };
        let config = TopicConfig::new()
            .partitions(setup.partitions)
            .capacity(setup.capacity as usize)
            .optional_key(|event: &Event| event.key.as_ref().map(|key| &key[..]))
            .retain(retain)
            .block(Some(Duration::ZERO));
        let config = if setup.drops { config.drop_oldest() } else { config };
        let config = match setup.age {
            Some(millis) => config.max_age(Duration::from_millis(millis)),
            None => config,
        };
        let config = if setup.timed { config.timestamps(Timestamps::Coarse) } else { config };
        // Every second case keeps last values: publishing takes another way then.
        let config = if setup.seed % 2 == 0 { config } else { config.last_value(|event| event.serial) };
        let (topic, producer) = if setup.exclusive {
            let (topic, producer) = broker.create_exclusive("t", config).expect("good settings");
            (topic, Some(producer))
        } else {
            (broker.create_topic("t", config).expect("good settings"), None)
        };
        let manual = Manual::new(setup.seed);
        let (groups, seen, alive, serials) = Default::default();
        Self { clock, manual, broker, topic, producer, groups, seen, alive, serials, setup: setup.clone(), joined: 0 }
    }

    fn event(&self, serial: u64, key: Option<u8>) -> Event {
        Event::new(serial, key, &self.alive)
    }

    /// Offset and number of the last event of a partition, if the topic keeps it at all.
    pub(crate) fn last(&self, partition: u32) -> Option<Option<(u64, u64)>> {
        let last = self.topic.last_value::<u64>().ok()?.of(partition);
        Some(last.map(|last| (last.position().offset, *last)))
    }

    /// The number of the next event.
    pub(crate) fn next(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// As `publish_to`, but where the producer is the only one, into the event that lies in the slot already.
    pub(crate) fn publish_in_place(&mut self, serial: u64, partition: u32) -> (Option<u32>, Answer) {
        let alive = self.alive.clone();
        let Some(producer) = &mut self.producer else { return self.publish_to(serial, partition) };
        let fill = |slot: &mut Event| (slot.serial, slot.key) = (serial, None);
        match producer.publish_in_place(partition, || Event::new(0, None, &alive), fill) {
            Ok(stored) => (Some(stored.partition()), Answer::Stored { offset: stored.offset(), kept: stored.kept }),
            Err(error) => (error.full().map(|full| full.partition), refusal(&error)),
        }
    }

    pub(crate) fn publish(&mut self, serial: u64, key: Option<u8>) -> (Option<u32>, Answer) {
        let event = self.event(serial, key);
        let published = match &mut self.producer {
            Some(producer) => producer.try_publish(event),
            None => self.topic.try_publish(event),
        };
        answer(serial, published)
    }

    pub(crate) fn publish_to(&mut self, serial: u64, partition: u32) -> (Option<u32>, Answer) {
        let event = self.event(serial, None);
        let published = match &mut self.producer {
            Some(producer) => producer.publish_to(partition, event),
            None => self.topic.publish_to(partition, event),
        };
        answer(serial, published)
    }

    pub(crate) fn publish_batch(&mut self, events: &[(u64, Option<u8>)]) -> Stored {
        let events: Vec<Event> = events.iter().map(|(serial, key)| self.event(*serial, *key)).collect();
        let published = match &mut self.producer {
            Some(producer) => producer.publish_batch(events),
            None => self.topic.publish_batch(events),
        };
        let shares = |stored: Vec<Share>| {
            let of = |share: Share| {
                (share.partition, share.offsets.start, share.offsets.end - share.offsets.start, share.kept)
            };
            stored.into_iter().map(of).collect()
        };
        let serials = |rest: Vec<Event>| rest.iter().map(|event| event.serial).collect();
        match published {
            Ok(stored) => Stored { shares: shares(stored), rest: Vec::new(), why: None },
            Err(BatchError::TooLarge { rest, .. }) => {
                Stored { shares: Vec::new(), rest: serials(rest), why: Some(Answer::TooLarge) }
            }
            Err(BatchError::Stopped { stored, rest, why }) => {
                Stored { shares: shares(stored), rest: serials(rest), why: Some(refusal(&why)) }
            }
            Err(other) => panic!("refused for a reason that cannot be: {other}"),
        }
    }

    /// Or why it cannot be made.
    pub(crate) fn add_group(&mut self, name: u8, from: From, rule: Rule) -> Result<(), &'static str> {
        let config = match from {
            From::Earliest => GroupConfig::earliest(),
            From::Latest => GroupConfig::latest(),
            From::Offset(at) => GroupConfig::at(at),
            From::LastN(n) => GroupConfig::new(StartAt::LastN(n)),
            From::Time(time) => GroupConfig::new(StartAt::Time(millis(time))),
        };
        let cap = Duration::from_millis(BACKOFF_CAP);
        let retry = Retry::exponential(self.setup.attempts).first(Duration::from_millis(self.setup.backoff)).max(cap);
        let seen = self.seen.clone();
        let note = move |gap: &ringlog::Gap| {
            let &ringlog::Gap { partition, from, to, overwritten, expired, dropped, conflated, .. } = gap;
            let gap = Gap { group: name, partition, from, to, overwritten, expired, dropped, conflated };
            seen.lock().expect("no panic holds it").push(Seen::Gap(gap));
        };
        let config = config.retry(retry).letters(self.setup.letters).on_gap(note);
        let config = if self.setup.clones { config.bury_cloned() } else { config };
        let config = if self.setup.sticky { config.assignor(StickyAssignor) } else { config };
        let config = config.overflow(overflow(rule));
        let group = match self.topic.group(&format!("g{name}"), config) {
            Ok(group) => group,
            Err(GroupError::NoTimes { .. }) => return Err("no times"),
            Err(GroupError::Config(_)) => return Err("start"),
            Err(GroupError::Overflow { .. }) => return Err("too many"),
            Err(GroupError::Ages { .. }) => return Err("ages"),
            Err(GroupError::NeverWaits { .. }) => return Err("never waits"),
            Err(other) => panic!("refused for a reason that cannot be: {other}"),
        };
        self.groups.insert(name, RealGroup { group, script: Shared::default(), members: Vec::new() });
        Ok(())
    }

    /// Joins and returns the new member's name.
    pub(crate) fn join(&mut self, name: u8, batches: bool) -> Result<String, String> {
        self.joined += 1;
        let member = format!("m{}", self.joined);
        let publish = self.nested();
        let (seen, noted) = (self.seen.clone(), member.clone());
        let real = self.groups.get_mut(&name).expect("the group exists");
        let script = real.script.clone();
        let builder = real.group.member(&member).run(&self.manual);
        let mine = real.group.clone();
        let call = move |partition, offset, attempt, lost_before, serials, redriven| {
            let act = script.lock().expect("no panic holds it").pop_front().unwrap_or(Act::Ack);
            let published = publish(act);
            let inside = published.as_ref().map(|_| books(&mine.stats_of(partition).expect("its own partition")));
            let (group, member) = (name, noted.clone());
            let call = Call {
                group,
                member,
                partition,
                offset,
                attempt,
                lost_before,
                serials,
                act,
                redriven,
                published,
                inside,
            };
            seen.lock().expect("no panic holds it").push(Seen::Call(call));
            act
        };
        let joined = if batches {
            builder.subscribe_batch(move |batch: &Batch<'_, Event>| {
                let serials: Vec<u64> = batch.iter().map(|record| record.serial).collect();
                let (attempt, lost) = (batch.get(0).attempt(), batch.lost_before());
                let act = call(batch.partition(), batch.offset(), attempt, lost, serials, batch.is_redriven());
                batch_outcome(act, batch.len())
            })
        } else {
            builder.subscribe(move |record: &Record<'_, Event>| {
                let (attempt, lost) = (record.attempt(), record.lost_before());
                let redriven = record.is_redriven();
                outcome(call(record.partition(), record.offset(), attempt, lost, vec![record.serial], redriven))
            })
        };
        let joined = joined.map_err(|error| error.to_string())?;
        real.members.push((member.clone(), joined));
        Ok(member)
    }

    /// What a handler does that is told to publish.
    fn nested(&self) -> impl Fn(Act) -> Option<(u64, Option<u32>, Answer)> + Send + 'static {
        let (topic, alive, serials) = (self.topic.clone(), self.alive.clone(), self.serials.clone());
        move |act| {
            let Act::Publish { key } = act else { return None };
            let serial = serials.fetch_add(1, Ordering::Relaxed);
            let (partition, answer) = answer(serial, topic.try_publish(Event::new(serial, key, &alive)));
            Some((serial, partition, answer))
        }
    }

    pub(crate) fn leave(&mut self, name: u8, member: &str) {
        let members = &mut self.groups.get_mut(&name).expect("the group exists").members;
        let at = members.iter().position(|(known, _)| known == member).expect("a member that has not left");
        assert!(members.remove(at).1.leave(), "a member left twice");
    }

    /// Leaves when it is done, without waiting: how much it had still to do.
    pub(crate) fn leave_drained(&mut self, name: u8, member: &str) -> u64 {
        let members = &mut self.groups.get_mut(&name).expect("the group exists").members;
        let at = members.iter().position(|(known, _)| known == member).expect("a member that has not left");
        match members.remove(at).1.leave_drained(Duration::ZERO) {
            Ok(()) => 0,
            Err(LeaveError::TimedOut { left, .. }) => left,
            Err(other) => panic!("left for a reason that cannot be: {other}"),
        }
    }

    /// Where it landed, or where the cursor is.
    pub(crate) fn commit(&self, name: u8, partition: u32, expected: u64, new: u64) -> Result<u64, u64> {
        self.groups[&name].group.commit(partition, expected, new).map_err(|error| match error {
            CommitError::Elsewhere { found, .. } => found,
            other => panic!("refused for a reason that cannot be: {other}"),
        })
    }

    pub(crate) fn redrive(&self, name: u8, most: usize) -> Moved {
        let done = self.groups[&name].group.redrive(Pick::first(most)).expect("a living group");
        (done.queued, done.without_record, done.no_room)
    }

    /// Whatever runs the member ends without notice.
    pub(crate) fn kill(&mut self, name: u8, member: &str) {
        let members = &mut self.groups.get_mut(&name).expect("the group exists").members;
        let at = members.iter().position(|(known, _)| known == member).expect("a member that has not left");
        assert!(self.manual.kill(&format!("g{name}"), member), "nobody ran {member}");
        assert!(!members.remove(at).1.leave(), "a member whose task is gone was still in");
    }

    pub(crate) fn delete_group(&mut self, name: u8) {
        let gone = self.groups.remove(&name).expect("the group exists");
        assert!(gone.group.delete(), "a group was deleted twice");
    }

    /// One step of the executor: whether there was anything to do.
    pub(crate) fn step(&self) -> bool {
        self.manual.step().is_some()
    }

    pub(crate) fn assignment(&self, name: u8) -> BTreeMap<String, Vec<u32>> {
        let of = |of: Assignment| (of.member.to_string(), of.partitions);
        self.groups[&name].group.assignment().into_iter().map(of).collect()
    }

    pub(crate) fn script(&self, name: u8, act: Act, times: u8) {
        let mut script = self.groups[&name].script.lock().expect("no panic holds it");
        script.extend(std::iter::repeat_n(act, usize::from(times)));
    }

    /// `None` if it is refused, because records have no times.
    pub(crate) fn seek(&self, name: u8, partition: u32, to: To) -> Option<u64> {
        let to = match to {
            To::Earliest => SeekTo::Earliest,
            To::Latest => SeekTo::Latest,
            To::Offset(at) => SeekTo::Offset(at),
            To::LastN(n) => SeekTo::LastN(n),
            To::Time(time) => SeekTo::Time(millis(time)),
        };
        match self.groups[&name].group.seek(partition, to) {
            Ok(landed) => Some(landed),
            Err(ControlError::NoTimes { .. }) => None,
            Err(other) => panic!("refused for a reason that cannot be: {other}"),
        }
    }

    /// What handlers and hooks saw since the last time.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().expect("no panic holds it"))
    }

    /// As plain data. A letter that keeps no record has number 0.
    pub(crate) fn plain(letters: &[ringlog::Letter]) -> Vec<Letter> {
        let kind = |kind: &str| ["reject", "panic"].into_iter().find(|known| *known == kind).unwrap_or("error");
        let of = |letter: &ringlog::Letter| Letter {
            nth: 0,
            partition: letter.partition(),
            offset: letter.offset(),
            attempts: letter.attempts(),
            kind: kind(letter.kind()),
            serial: letter.payload::<Event>().map_or(0, |event| event.serial),
        };
        letters.iter().map(of).collect()
    }

    /// Drops everything and returns how many events are still alive.
    pub(crate) fn drop(self) -> usize {
        let alive = self.alive.clone();
        std::mem::drop(self);
        alive.load(Ordering::Relaxed)
    }
}

fn overflow(rule: Rule) -> Overflow<Event> {
    match rule {
        Rule::Topic => Overflow::topic(),
        Rule::Block(most) => Overflow::block(most as usize),
        Rule::Oldest(most) => Overflow::drop_oldest(most as usize),
        Rule::Newest(most) => Overflow::drop_newest(most as usize),
        Rule::Latest => Overflow::latest(),
        Rule::LatestBy(most) => Overflow::latest_by(most as usize, |event: &Event| event.serial % KEYS),
    }
}

pub(crate) fn books(seen: &LaneStats) -> Books {
    Books {
        replayed: seen.replayed,
        acked: seen.acked,
        dead: seen.dead,
        skipped: seen.skipped,
        expired: seen.expired,
        dropped: seen.dropped,
        conflated: seen.conflated,
        pending: seen.lag(),
        retried: seen.retried,
    }
}
