//! Handlers and consumers that keep a record longer than their group's lease allows: found by the broker's timer, or by
//! themselves when they return, and taken over by other members.
//!
//! A handler cannot be stopped. So what it has in hand is fenced, its failure counted, and its executor noted as one that
//! hangs: until it returns, no lane is given to it that another member can serve, and those that it holds are seized. What
//! it then makes of the record is refused, and it is given its share again.
//!
//! A consumer that hangs has nothing in hand any more: what it had has gone back, its lanes are free, and are dealt to others,
//! until it polls or settles. One that sleeps in a poll does not hang.
//!
//! Whether an executor hangs is known under the roster lock, under which lanes are dealt and seized; who returns says so there
//! before it touches another lane.
#![forbid(unsafe_code)]

use super::Group;
use super::config::GroupConfig;
use super::conflate::Conflater;
use super::gap::Hook;
use super::lane::{Held, Lane};
use super::lease::Lease;
use super::roster::{Hung, Roster};
use super::watch::Running;
use super::word::MemberId;
use crate::seq::Seq;
use crate::sync::{Arc, lock};
use crate::time::{Span, Time};
use std::fmt;
use std::time::Duration;

/// A handler or a consumer kept a record longer than its lease allows; see [`GroupConfig::on_expired`](crate::GroupConfig::on_expired).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// Who had it in hand.
    pub member: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The first offset in hand.
    pub offset: u64,
    /// How many records were in hand: they come again.
    pub records: u64,
    /// How long it was allowed to keep them, renewals included.
    pub lease: Duration,
    /// Who has the partition now; `None`: it stays where it is, as no other member could take it, or because the consumer polls
    /// or waits, as one does that forgot a receipt. The records come again when the handler returns, or the consumer polls.
    pub taken_over_by: Option<Arc<str>>,
    /// Whether it is of a work queue ([`Order::Shared`](crate::Order::Shared), [`Order::Key`](crate::Order::Key)): then nothing is taken over, and
    /// whoever has nothing to do is handed the records.
    pub shared: bool,
}

impl fmt::Display for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Expired { topic, group, member, partition, offset, records, lease, taken_over_by, shared } = self;
        let what = if *records == 1 { "a record" } else { &format!("{records} records") };
        write!(f, "{topic}/{partition}@{offset}: '{member}' of {group} has had {what} for {}, ", Span(*lease))?;
        match taken_over_by {
            Some(other) => write!(f, "'{other}' takes over"),
            None if *shared => f.write_str("it is for whoever is free"),
            None => f.write_str("nobody takes over"),
        }
    }
}

impl<T> GroupConfig<T> {
    /// Calls `hook` when a handler or a [consumer](crate::Consumer) has had a record longer than the
    /// [lease](GroupConfig::lease) allows, once each time: with who has taken over, or that nobody does.
    ///
    /// It runs on the timer's thread, or on the handler's or consumer's own if that finds out first, under no lock, and holds up what else
    /// that thread does; its panic stops there. Settings with another hook are other settings.
    ///
    /// ```
    /// use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, Manual, TopicConfig};
    /// use std::{sync::{Arc, Mutex}, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    /// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
    /// let told = Arc::new(Mutex::new(Vec::new()));
    /// let noted = told.clone();
    /// let config = GroupConfig::earliest()
    ///     .lease(Duration::from_secs(30))
    ///     .on_expired(move |expired| noted.lock().unwrap().push(expired.to_string()));
    /// let group = topic.group("billing", config)?;
    /// let (slow, other) = (Manual::new(1), Manual::new(2));
    /// group.member("slow").run(&slow).subscribe(move |_| clock.advance(Duration::from_secs(31)))?;
    /// group.member("other").run(&other).subscribe(|_| ())?;
    /// topic.publish(7)?;
    /// slow.run(1);
    /// assert_eq!(*told.lock().unwrap(), ["orders/0@0: 'slow' of billing has had a record for 30s, 'other' takes over"]);
    /// assert_eq!((group.stats().acked(), group.stats().refused(), group.stats().leases_expired()), (0, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_expired(mut self, hook: impl Fn(&Expired) + Send + Sync + 'static) -> Self {
        self.on_expired = Some(Hook::new(hook));
        self
    }
}

/// A lease that has just run out.
pub(super) struct Lapse {
    running: Running,
    /// Whether the record was still its own: nobody has moved the cursor.
    counts: bool,
}

/// What a consumer had in flight for too long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overdue {
    pub(super) member: MemberId,
    pub(super) offset: u64,
    pub(super) records: u64,
    pub(super) lease: Duration,
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Ends what a handler has in hand longer than it may, and counts it.
    pub(super) fn lapse(&self, now: Time, allows: impl Fn(u32) -> bool) -> Option<Lapse> {
        let watch = self.watch.as_ref()?;
        let mut hand = watch.lock();
        let (running, counts) = hand.lapse(watch, now)?;
        if counts {
            self.counters.lapsed.add(running.len);
            let failures = hand.kept.failures;
            if running.len > 1 || allows(failures) {
                self.counters.retried.add(1);
            }
            if running.len == 1 {
                self.notice.waits(running.at.get(), hand.kept.epoch, failures, None);
            }
        }
        Some(Lapse { running, counts })
    }

    /// Gives the lane to `to`, with a state that begins where the cursor is, from a holder that hangs: unless that has
    /// something in hand that is not over, or is only just taking the lane.
    pub(super) fn seize(&self, from: MemberId, to: MemberId) -> bool {
        let Some(watch) = &self.watch else { return false };
        let mut hand = watch.lock();
        let mut parked = lock(&self.parked);
        if !hand.may_be_seized() || parked.is_some() || self.word.seize(from, to).is_err() {
            return false;
        }
        hand.running = None;
        let (next, epoch) = self.gate.snapshot();
        let mut reader = self.log.reader(next).covered_by(self.gate.clone());
        reader.release();
        let (failures, due, single_until, lost, lifted) = (0, None, Seq::ZERO, 0, hand.kept.lifted);
        let (untold, chunk, carries) = (None, 1, false);
        let conflater = Conflater::of(self.own.as_ref(), &self.log, &self.gate);
        let mut held =
            Held { reader, next, epoch, failures, due, single_until, lost, carries, untold, lifted, chunk, conflater };
        held.recall(hand.kept);
        *parked = Some(Box::new(held));
        self.counters.serving.set(0);
        true
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// The lease, if handlers have one.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.config.sharing.lease()
    }

    /// Ends what handlers have in hand longer than they may, has others take over, and tells; says when to look again, `None`:
    /// never. User code.
    pub fn expire_leases(&self, now: Time) -> Option<Time> {
        let (next, lapsed) = self.expire_untold(now)?;
        lapsed.iter().for_each(|(partition, lapse)| self.tell_expired(*partition, lapse));
        Some(next)
    }

    /// The same, but for the telling.
    pub(super) fn expire_untold(&self, now: Time) -> Option<(Time, Vec<(u32, Lapse)>)> {
        let lease = self.lease().filter(|_| !self.is_over())?;
        // What is handed out from now on is due later than that.
        let mut next = now.after(lease.time);
        let mut is_due = |lane: &&Arc<Lane<T>>| match lane.watch.as_ref().and_then(|watch| watch.renew(now)) {
            Some(deadline) if deadline <= now => true,
            deadline => {
                next = deadline.map_or(next, |deadline| next.min(deadline));
                false
            }
        };
        let due: Vec<_> = self.lanes.iter().filter(&mut is_due).collect();
        if due.is_empty() {
            return Some((next, Vec::new()));
        }
        let lapsed: Vec<_> = {
            let mut roster = lock(&self.roster);
            let lapse = |lane: &&Arc<Lane<T>>| {
                let lapse = self.lapse(lane, now)?;
                let Running { member, executor, .. } = lapse.running;
                roster.hangs(Hung { member, executor, partition: lane.partition, polls: false });
                Some((lane.partition, lapse))
            };
            due.iter().filter_map(lapse).collect()
        };
        if !lapsed.is_empty() {
            self.redeal();
        }
        Some((next, lapsed))
    }

    fn lapse(&self, lane: &Lane<T>, now: Time) -> Option<Lapse> {
        lane.lapse(now, |failures| self.config.retry.allows_another(failures))
    }

    /// A handler has returned and finds that its time is up, which the timer has perhaps not found yet.
    pub(super) fn lapse_here(&self, lane: &Lane<T>) {
        if let Some(lapse) = self.lapse(lane, self.clock.now()) {
            self.tell_expired(lane.partition, &lapse);
        }
    }

    /// A handler that hung has returned: it is given its share again.
    pub(super) fn returned(&self, member: MemberId, partition: u32) {
        if lock(&self.roster).hangs_no_more(member, partition) {
            self.redeal();
            self.progress.notify();
            self.retire_when_empty();
        }
    }

    /// The lease of a consumer is over, and it was not that consumer who found out. User code.
    pub(super) fn misses(&self, member: MemberId, partition: u32) {
        let overdue = lock(&self.roster).is_overdue(member, partition);
        if overdue {
            self.redeal();
            // Who waits in a select or an event loop does not hang, and takes that back by looking; who hangs does not hear it.
            let seat = lock(&self.roster).find(member).and_then(|member| member.seat(partition as usize)).cloned();
            seat.iter().for_each(|seat| seat.ring());
        }
    }

    /// A consumer polls, or settles: if it was known to hang, it is given its share again. User code, then.
    pub(super) fn is_back(&self, member: MemberId) {
        if self.config.sharing.lease.is_none() {
            return;
        }
        let back = lock(&self.roster).comes_back(member);
        if back {
            self.redeal();
        }
    }

    pub(super) fn tell_expired(&self, partition: u32, Lapse { running, counts }: &Lapse) {
        let (Some(lease), true) = (self.lease(), *counts) else { return };
        let (member, lease) = (running.member, lease.longest.unwrap_or(lease.time));
        self.tell_overdue(partition, Overdue { member, offset: running.at.get(), records: running.len, lease });
    }

    /// Tells who had what for too long, and whose it is now. User code.
    pub(super) fn tell_overdue(&self, partition: u32, Overdue { member: id, offset, records, lease }: Overdue) {
        let Some(hook) = &self.config.on_expired else { return };
        let now_of = self.lanes[partition as usize].word.load().target();
        let shared = self.shares();
        let (member, taken_over_by) = {
            let roster = lock(&self.roster);
            let named = |id: MemberId| roster.find(id).map(|member| member.name.clone());
            (named(id), if now_of == id || shared { None } else { named(now_of) })
        };
        let (topic, group) = (self.topic.clone(), self.name.clone());
        let member = member.unwrap_or_else(|| "".into());
        hook.tell(&Expired { topic, group, member, partition, offset, records, lease, taken_over_by, shared });
    }

    /// Takes a lane from a holder that hangs and gives it to `target`, if that can do better.
    pub(super) fn seize(&self, roster: &Roster, lane: &Lane<T>, target: MemberId) -> bool {
        if !roster.anybody_hangs() || target == MemberId::NOBODY {
            return false;
        }
        let (word, partition) = (lane.word.load(), lane.partition as usize);
        let (holder, hangs) = (word.owner(), |id| roster.is_hung(id, partition));
        word.is_held() && holder != target && hangs(holder) && !hangs(target) && lane.seize(holder, target)
    }

    /// Whose a partition shall be: the first one's who wants just that, else as planned; if that one hangs, the next one's who
    /// wants it, else another's who can step it.
    pub(super) fn target(&self, roster: &Roster, partition: u32, planned: MemberId) -> MemberId {
        let (at, mut wanting) = (partition as usize, roster.wanting(partition));
        let first = wanting.next().unwrap_or(planned);
        if first == MemberId::NOBODY || !roster.is_hung(first, at) {
            return first;
        }
        if let Some(standby) = wanting.find(|id| !roster.is_hung(*id, at)) {
            return standby;
        }
        let able: Vec<MemberId> = roster.able(at).collect();
        if able.is_empty() { first } else { able[at % able.len()] }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Expired;
    use std::time::Duration;

    #[test]
    fn an_expiry_says_who_where_how_many_and_what_next() {
        let (topic, group, member) = ("orders".into(), "billing".into(), "a".into());
        let (lease, taken_over_by) = (Duration::from_secs(30), Some("b".into()));
        let shared = false;
        let one = Expired { topic, group, member, partition: 1, offset: 7, records: 1, lease, taken_over_by, shared };
        assert_eq!(one.to_string(), "orders/1@7: 'a' of billing has had a record for 30s, 'b' takes over");
        let queue = Expired { taken_over_by: None, shared: true, ..one.clone() };
        assert!(queue.to_string().ends_with("has had a record for 30s, it is for whoever is free"));
        let alone = Expired { taken_over_by: None, records: 3, ..one };
        assert_eq!(alone.to_string(), "orders/1@7: 'a' of billing has had 3 records for 30s, nobody takes over");
    }
}
