//! The stupid twin: one topic as plain vectors and numbers, written from the promises alone.
//!
//! It shares no code with the library: it has its own routing, retry, books and assignment. It is driven: the manual
//! executor says which lane it stepped and the handlers say what they were given; the twin says whether that was
//! allowed and what it means. See `README.md` beside this file for what is free and what is exact.

use crate::ops::{Act, BACKOFF_CAP, From, Keep, Rule, Setup, To};
use crate::parts::{Answer, Books, Call, Gone, Group, Lane, Letter, Log, Stored, crc32};
use std::collections::BTreeMap;

pub(crate) type Census = BTreeMap<&'static str, u64>;

#[derive(Debug)]
pub(crate) struct Twin {
    pub(crate) setup: Setup,
    pub(crate) logs: Vec<Log>,
    pub(crate) groups: BTreeMap<u8, Group>,
    pub(crate) closed: bool,
    /// What happened, and how often: a run that reached nothing proves nothing.
    pub(crate) census: Census,
    /// Who was called last, by group and partition.
    last: BTreeMap<(u8, u32), String>,
    pub(crate) now: u64,
    /// Where the broker has just stored something: it may have been promised the room before what waits grew, by a move or a join.
    pub(crate) stored_in: Vec<u32>,
    /// There was a group whose records wait in clones.
    pub(crate) clones_waited: bool,
    robin: u64,
}

impl Twin {
    pub(crate) fn new(setup: Setup) -> Self {
        let base = (setup.keep == Keep::Backlog && !setup.drops).then_some(0);
        let alone = (setup.keep != Keep::Unacked && setup.drops).then_some(0);
        let logs = (0..setup.partitions).map(|_| Log { base, alone, ..Log::default() }).collect();
        Self {
            setup,
            logs,
            groups: BTreeMap::new(),
            closed: false,
            census: Census::new(),
            last: BTreeMap::new(),
            now: 0,
            stored_in: Vec::new(),
            clones_waited: false,
            robin: 0,
        }
    }

    pub(crate) fn advance(&mut self, millis: u64) {
        self.now += millis;
        self.expire();
    }

    /// Where a key goes; a record without one goes round.
    pub(crate) fn route(&mut self, key: Option<u8>) -> u32 {
        let number = match key {
            Some(key) => u64::from(crc32(&[key])),
            None => {
                self.robin += 1;
                self.robin - 1
            }
        };
        (number % u64::from(self.setup.partitions)) as u32
    }

    /// The positions of the groups in partition `p`, and the topic's own; or only of those that publishers wait for.
    pub(crate) fn positions(&self, p: u32, gating: bool) -> Vec<u64> {
        let lanes = self.groups.values().map(|group| &group.lanes[p as usize]);
        let groups = lanes.filter(|lane| !gating || lane.rule.gates()).map(|lane| lane.cursor);
        groups.chain(self.logs[p as usize].base).collect()
    }

    /// How much room the groups leave in partition `p`, each with its group, and the topic's own gate.
    fn rooms(&self, p: u32) -> Vec<(u64, Option<u8>)> {
        let (log, capacity) = (&self.logs[p as usize], self.setup.capacity);
        let place = (log.end(), log.floor);
        let room = |lane: &Lane| lane.room(place, capacity);
        let groups = self.groups.iter().map(|(name, group)| (room(&group.lanes[p as usize]), Some(*name)));
        let base = log.base.map(|at| (room(&Lane { cursor: at, ..Lane::default() }), None));
        groups.chain(base).collect()
    }

    /// How many records at most may wait for every group.
    fn narrowest(&self) -> u64 {
        let most = |group: &Group| match group.lanes[0].rule {
            Rule::Block(most) => most,
            _ => self.setup.capacity,
        };
        self.groups.values().map(most).min().unwrap_or(self.setup.capacity)
    }

    /// Stores all of a share in one partition, or none of it.
    pub(crate) fn publish(&mut self, p: u32, serials: &[u64]) -> Answer {
        let (count, capacity) = (serials.len() as u64, self.setup.capacity);
        if self.closed {
            return Answer::Closed;
        }
        if count > capacity {
            return Answer::TooLarge;
        }
        let rooms = if self.setup.drops { Vec::new() } else { self.rooms(p) };
        let offset = self.logs[p as usize].end();
        let least = rooms.iter().map(|(room, _)| *room).min().unwrap_or(u64::MAX);
        let promised = self.stored_in.contains(&p) && offset + count <= self.logs[p as usize].promised;
        if least < count && promised {
            self.note("room that had been promised");
        }
        if least < count && !promised {
            if count > 1 && self.narrowest() < count {
                self.note("a batch larger than may wait");
                return Answer::TooMany;
            }
            let limits: Vec<_> = rooms.iter().filter(|(room, _)| *room == least).map(|(_, name)| *name).collect();
            self.logs[p as usize].rejected += 1;
            let own = |name: &Option<u8>| name.is_some_and(|name| self.groups[&name].lanes[0].rule.is_own());
            self.note(if limits.iter().all(own) { "full for a mailbox" } else { "full" });
            return Answer::Full { limits };
        }
        self.note("stored");
        let log = &mut self.logs[p as usize];
        log.promised = log.promised.max(offset.saturating_add(least.min(count.max(capacity / 8))));
        for serial in serials {
            let log = &mut self.logs[p as usize];
            log.serials.push(*serial);
            log.created.push(self.now);
            log.gone.push(None);
            log.dropped.push(false);
            if self.setup.drops {
                self.shed(p);
            }
        }
        for at in offset..offset + count {
            self.groups.values_mut().for_each(|group| group.lanes[p as usize].came(at));
        }
        Answer::Stored { offset, kept: self.setup.keep != Keep::Unacked || !self.groups.is_empty() }
    }

    /// Routes first, then stores the shares in the order of the partitions, until one is refused.
    pub(crate) fn publish_batch(&mut self, events: &[(u64, Option<u8>)]) -> Stored {
        let mut shares = vec![Vec::new(); self.setup.partitions as usize];
        let all = || events.iter().map(|(serial, _)| *serial).collect();
        for (serial, key) in events {
            let share = &mut shares[self.route(*key) as usize];
            share.push(*serial);
            if share.len() as u64 > self.setup.capacity {
                self.note("a batch too large");
                return Stored { shares: Vec::new(), rest: all(), why: Some(Answer::TooLarge) };
            }
        }
        let mut stored = Stored { shares: Vec::new(), rest: Vec::new(), why: None };
        for (p, share) in (0..).zip(shares).filter(|(_, share)| !share.is_empty()) {
            match stored.why.clone().unwrap_or_else(|| self.publish(p, &share)) {
                Answer::Stored { offset, kept } => stored.shares.push((p, offset, share.len() as u64, kept)),
                why => {
                    stored.why = Some(why);
                    stored.rest.extend(share);
                }
            }
        }
        if stored.why.is_some() && !stored.shares.is_empty() {
            self.note("a batch stopped half way");
        }
        stored
    }

    pub(crate) fn note(&mut self, what: &'static str) {
        self.note_many(what, 1);
    }

    pub(crate) fn note_many(&mut self, what: &'static str, times: u64) {
        *self.census.entry(what).or_default() += times;
    }

    /// What a new reader may start at was seen to be `seen`: true if that is within the promise.
    pub(crate) fn observe_earliest(&mut self, p: u32, seen: u64) -> Result<(), String> {
        let capacity = self.setup.capacity;
        self.forget_done(p);
        let least = self.positions(p, true).into_iter().min();
        let log = &mut self.logs[p as usize];
        let (end, floor) = (log.end(), log.floor);
        let below = |end: u64| end.saturating_sub(capacity).max(log.earliest);
        let gated = |at: u64| least.map_or(at, |least| at.min(least.max(floor)));
        let (low, high) = match self.setup.keep {
            _ if self.setup.drops => (log.earliest, log.earliest),
            _ => (below(end), gated(below(end + (capacity / 8).max(1)))),
        };
        if !(low..=high).contains(&seen) {
            return Err(format!("earliest of partition {p} is {seen}, promised is {low} to {high}"));
        }
        for at in log.earliest..seen {
            log.gone[at as usize].get_or_insert(Gone::Overwritten);
        }
        log.earliest = seen;
        Ok(())
    }

    pub(crate) fn add_group(&mut self, name: u8, from: From, rule: Rule) {
        let lanes = self.logs.iter_mut().map(|log| {
            (log.base, log.alone) = (None, None);
            let at = log.place(from);
            Lane { cursor: at, start: at, rule, ..Lane::default() }
        });
        let lanes = lanes.collect();
        self.clones_waited |= matches!(rule, Rule::Newest(_));
        self.groups.insert(name, Group { lanes, ..Group::default() });
    }

    pub(crate) fn delete_group(&mut self, name: u8) {
        self.group(name).lanes.iter_mut().for_each(|lane| (lane.tried, lane.singly, lane.hand) = (0, 0, 0));
        (0..self.setup.partitions).for_each(|p| self.drop_what_is_lost(p));
        let gone = self.groups.remove(&name);
        if self.groups.is_empty() && self.setup.keep != Keep::Unacked && self.setup.drops {
            let lanes = gone.iter().flat_map(|group| &group.lanes);
            self.logs.iter_mut().zip(lanes).for_each(|(log, lane)| log.alone = Some(lane.cursor.max(log.earliest)));
        }
        if self.groups.is_empty() && self.setup.keep == Keep::Backlog && !self.setup.drops {
            self.logs.iter_mut().for_each(|log| log.base = Some(log.earliest));
        }
    }

    /// Whether groups may start and be moved there: by time only where records have times.
    pub(crate) fn knows(&mut self, to: To) -> bool {
        let known = !matches!(to, To::Time(_)) || self.setup.timed || self.setup.age.is_some();
        self.note(match to {
            To::Time(_) if known => "by time",
            To::Time(_) => "by time without times",
            To::LastN(_) => "by the last few",
            _ => "by place",
        });
        known
    }

    /// Moves a lane, forgetting its attempts, and says where it landed.
    pub(crate) fn seek(&mut self, name: u8, p: u32, to: To) -> u64 {
        let lane = &mut self.group(name).lanes[p as usize];
        (lane.tried, lane.singly) = (0, 0); // nothing is in hand any more
        self.drop_what_is_lost(p);
        let log = &self.logs[p as usize];
        let at = log.place(to);
        let lane = &mut self.groups.get_mut(&name).expect("the group exists").lanes[p as usize];
        let back = at < lane.cursor;
        let (_, expired) = log.missing(lane.cursor, at.min(log.earliest));
        lane.books.replayed += lane.cursor.saturating_sub(at);
        lane.books.skipped += at.saturating_sub(lane.cursor) - expired;
        lane.books.expired += expired;
        (lane.cursor, lane.tried, lane.due, lane.singly, lane.lost) = (at, 0, None, 0, 0);
        lane.reopen();
        self.note(if back { "replayed" } else { "skipped" });
        if expired > 0 {
            self.note("lost what was too old in a seek");
        }
        at
    }

    /// Why the lane may not run now, if it may not.
    pub(crate) fn blocked(&self, name: u8, p: u32) -> Option<&'static str> {
        let group = &self.groups[&name];
        let lane = &group.lanes[p as usize];
        match () {
            () if group.members.is_empty() => Some("has no member"),
            () if group.paused || lane.paused => Some("is paused"),
            () if lane.queue.front().is_some_and(|head| head.due.is_some_and(|due| due > self.now)) => {
                Some("waits for its letter's retry")
            }
            () if !lane.queue.is_empty() => None,
            () if lane.cursor == self.logs[p as usize].end() => Some("is at the end"),
            () if lane.due.is_some_and(|due| due > self.now) => Some("waits for its retry"),
            () => None,
        }
    }

    /// The handler was called: checks that it had to be exactly so, and books what came of it.
    pub(crate) fn called(&mut self, call: &Call) -> Result<(), String> {
        let (name, p, len) = (call.group, call.partition, call.serials.len() as u64);
        if !self.groups.contains_key(&name) {
            return Err(format!("a handler ran for a group that does not exist: {call:?}"));
        }
        if let Some(why) = self.blocked(name, p) {
            return Err(format!("a handler ran though its lane {why}: {call:?}"));
        }
        if !self.groups[&name].lanes[p as usize].queue.is_empty() {
            return self.called_again(call);
        }
        let group = self.groups.get_mut(&name).expect("looked at above");
        let (lane, log) = (&group.lanes[p as usize], &self.logs[p as usize]);
        let free = lane.may_see_more(&self.setup);
        // What has failed may be there still, and what waits where the newest go is a clone.
        let kept = matches!(lane.rule, Rule::Newest(_)) || lane.taken() > lane.cursor;
        let kept = kept || lane.rule.is_own() && !self.setup.drops;
        if lane.cursor < log.settled && !kept {
            return Err(format!("a handler was given what was gone when the step began: {call:?}"));
        }
        let most = if lane.cursor < lane.singly { 1 } else { log.end() - lane.cursor };
        let most = most.min(lane.most_at_once(self.setup.capacity));
        let gaps = lane.own_gaps(log, free);
        if gaps.iter().all(Option::is_some) {
            return Err(format!("a handler was given {call:?}\n  though before it comes one of {gaps:?}"));
        }
        if !(1..=most).contains(&len) {
            return Err(format!("a handler was given {len} records, and {most} at most were due: {call:?}"));
        }
        let want = Call {
            member: group.owner(p).expect("looked at above").clone(),
            offset: lane.cursor,
            attempt: lane.tried + 1,
            lost_before: lane.lost,
            serials: log.serials[lane.cursor as usize..][..len as usize].to_vec(),
            act: group.next_act(),
            redriven: false,
            ..call.clone()
        };
        if want != *call {
            return Err(format!("a handler saw {call:?}\n  but had to see {want:?}"));
        }
        group.lanes[p as usize].open();
        if let Some(published) = &call.published {
            self.nested(call, published)?;
            self.inside(call)?;
        }
        if call.attempt > 1 && self.last.insert((name, p), call.member.clone()).as_ref() != Some(&call.member) {
            self.note("attempts moved to another member");
        } else {
            self.last.insert((name, p), call.member.clone());
        }
        self.book(call, len);
        Ok(())
    }

    /// A handler published. Of what this step has handled, the broker may have committed all or nothing.
    fn nested(&mut self, call: &Call, (serial, at, real): &(u64, Option<u32>, Answer)) -> Result<(), String> {
        let Act::Publish { key } = call.act else { return Err(format!("nobody told it to publish: {call:?}")) };
        let p = self.route(key);
        let full = |answer: &Answer| matches!(answer, Answer::Full { .. });
        // A run is an eighth of the capacity at most, and at least what was handed over.
        let run = (self.setup.capacity / 8).max(call.serials.len() as u64);
        self.stored_in = if full(real) { Vec::new() } else { vec![p] };
        let lane = &mut self.group(call.group).lanes[call.partition as usize];
        let cursor = lane.cursor;
        if lane.rule.is_own() {
            lane.hand = cursor + call.serials.len() as u64;
        } else {
            lane.hand = cursor + run;
            if full(real) {
                lane.cursor = lane.settled;
            }
        }
        let twin = self.publish(p, &[*serial]);
        self.group(call.group).lanes[call.partition as usize].cursor = cursor;
        match at.unwrap_or(p) == p && (*real == twin || full(real) && full(&twin)) {
            true => {
                self.note(if full(real) { "a handler found no room" } else { "a handler published" });
                Ok(())
            }
            false => Err(format!("a handler published to {p}: real {real:?}, twin {twin:?}")),
        }
    }

    /// A step begins: everything handled so far is committed.
    pub(crate) fn settle(&mut self) {
        self.groups.values_mut().flat_map(|group| &mut group.lanes).for_each(|lane| {
            (lane.settled, lane.hand) = (lane.cursor, 0);
        });
        self.logs.iter_mut().for_each(|log| log.settled = log.earliest);
    }

    fn book(&mut self, call: &Call, len: u64) {
        let group = self.groups.get_mut(&call.group).expect("checked by the caller");
        let lane = &mut group.lanes[call.partition as usize];
        if lane.rule.is_own() {
            lane.hand = 0;
        }
        let done = match call.act {
            Act::Ack | Act::Publish { .. } => len,
            Act::FailAt(n) => n % len,
            Act::Fail | Act::Panic if len > 1 => {
                // Nobody knows which record it was.
                lane.books.retried += 1;
                lane.singly = lane.cursor + len;
                return self.note("a batch taken apart");
            }
            _ => 0,
        };
        (0..done).for_each(|_| lane.pass());
        lane.books.acked += done;
        self.note(if len > 1 { "a batch" } else { "a record" });
        if done < len {
            self.failed(call);
        }
        let lane = &self.groups[&call.group].lanes[call.partition as usize];
        lane.check(&self.logs[call.partition as usize]);
    }

    /// The record at the cursor failed once more.
    fn failed(&mut self, call: &Call) {
        let Setup { attempts: most, letters, backoff, clones, .. } = self.setup;
        let group = self.groups.get_mut(&call.group).expect("checked by the caller");
        let lane = &mut group.lanes[call.partition as usize];
        lane.tried += 1;
        let (offset, attempts) = (lane.cursor, lane.tried);
        lane.held = matches!(lane.rule, Rule::Newest(_)).then_some(offset);
        if attempts == most || call.act == Act::Reject {
            lane.books.dead += 1;
            lane.held = None;
            lane.pass();
            let kind = match call.act {
                Act::Reject => "reject",
                Act::Panic => "panic",
                _ => "error",
            };
            let serial = if clones { call.serials[(offset - call.offset) as usize] } else { 0 };
            let lost =
                group.bury(Letter { nth: 0, partition: call.partition, offset, attempts, kind, serial }, letters);
            self.note(kind);
            return if lost {
                self.note("a letter lost")
            };
        }
        lane.books.retried += 1;
        let wait = match call.act {
            Act::RetryAfter(millis) => millis,
            _ => (backoff << (attempts - 1)).min(BACKOFF_CAP),
        };
        lane.due = Some(self.now + wait);
    }

    /// Every lane that has something to do now, which is nobody's when the executor says it is idle.
    pub(crate) fn runnable(&self) -> Vec<(u8, u32)> {
        let lanes = self.groups.keys().flat_map(|name| (0..self.setup.partitions).map(|p| (*name, p)));
        lanes.filter(|(name, p)| self.blocked(*name, *p).is_none()).collect()
    }

    /// Whether a drain finds nothing left: lanes without a member do not count.
    pub(crate) fn drained(&self) -> bool {
        let manned = self.groups.iter().filter(|(_, group)| !group.members.is_empty());
        manned.map(|(name, _)| self.books(*name).pending).all(|pending| pending == 0)
    }

    pub(crate) fn group(&mut self, name: u8) -> &mut Group {
        self.groups.get_mut(&name).expect("asked for first")
    }

    /// The books of all lanes of a group, added up.
    pub(crate) fn books(&self, name: u8) -> Books {
        let lanes = self.groups[&name].lanes.iter().zip(&self.logs).map(|(lane, log)| lane.books(log));
        lanes.fold(Books::default(), |a, b| Books {
            replayed: a.replayed + b.replayed,
            acked: a.acked + b.acked,
            dead: a.dead + b.dead,
            skipped: a.skipped + b.skipped,
            expired: a.expired + b.expired,
            dropped: a.dropped + b.dropped,
            conflated: a.conflated + b.conflated,
            pending: a.pending + b.pending,
            retried: a.retried + b.retried,
        })
    }
}
