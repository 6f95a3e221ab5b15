//! Groups with an overflow of their own: what waits for them, what goes, and what of that they are told.

use crate::model::Twin;
use crate::ops::{From, Keep, Rule, Setup, To};
use crate::parts::{Books, Gap, Lane, Log};

/// By what `latest_by` groups go.
pub(crate) const KEYS: u64 = 3;

impl Setup {
    /// Whether a topic of this kind can have a group of that kind; the word says why not.
    pub(crate) fn takes(&self, rule: Rule, from: From) -> Result<(), &'static str> {
        let eighth = (self.capacity / 8).max(1);
        let least = u64::from(!matches!(rule, Rule::Block(_)));
        match rule {
            Rule::Newest(_) if from != To::Latest => Err("start"),
            _ if matches!(from, To::Time(_)) && !self.timed && self.age.is_none() => Err("no times"),
            Rule::Block(most) | Rule::Oldest(most) | Rule::LatestBy(most)
                if most > (self.capacity - eighth).max(least) =>
            {
                Err("too many")
            }
            Rule::Newest(_) if self.age.is_some() => Err("ages"),
            Rule::Block(_) if self.drops => Err("never waits"),
            _ => Ok(()),
        }
    }
}

impl Rule {
    pub(crate) fn is_own(self) -> bool {
        self != Rule::Topic
    }

    /// Whether publishers wait for a group of this kind.
    pub(crate) fn gates(self) -> bool {
        matches!(self, Rule::Topic | Rule::Block(_))
    }

    /// Whether it is handed single records, whatever its handler would take.
    fn is_single(self) -> bool {
        matches!(self, Rule::Newest(_) | Rule::LatestBy(_))
    }

    /// As what `records` count that went, for no reason but that.
    fn sort(self, records: u64) -> (u64, u64, u64) {
        match self {
            Rule::Topic | Rule::Block(_) => (records, 0, 0),
            Rule::Oldest(_) | Rule::Newest(_) | Rule::LatestBy(_) => (0, records, 0),
            Rule::Latest => (0, 0, records),
        }
    }

    fn line(self) -> Option<u64> {
        match self {
            Rule::Oldest(most) => Some(most),
            Rule::Latest => Some(1),
            _ => None,
        }
    }
}

impl Lane {
    /// Up to where records are done, or in hand: what has failed and is tried again is, by itself or with its batch.
    pub(crate) fn taken(&self) -> u64 {
        match self.rule {
            Rule::Topic | Rule::Newest(_) => self.cursor.max(self.hand),
            _ => (self.cursor + u64::from(self.tried > 0)).max(self.singly).max(self.hand),
        }
    }

    /// How many records there is room for in front of a log that ends at `end`.
    pub(crate) fn room(&self, (end, floor): (u64, u64), capacity: u64) -> u64 {
        let room = |at: u64, most: u64| most.saturating_sub(end - at.max(floor).min(end));
        match self.rule {
            Rule::Topic => room(self.cursor, capacity),
            Rule::Block(most) => room(self.cursor, capacity).min(room(self.taken(), most)),
            _ => u64::MAX,
        }
    }

    /// The record at `at` was published: where the newest go it is known now whether it does.
    pub(crate) fn came(&mut self, at: u64) {
        if let Rule::Newest(most) = self.rule {
            if (self.mail.len() as u64) < most {
                self.mail.push_back(at);
            }
        }
    }

    /// The first that waits of those where the newest go, or has failed.
    fn first_kept(&self) -> Option<u64> {
        self.held.or_else(|| self.mail.front().copied())
    }

    /// It is in a handler's hands.
    pub(crate) fn open(&mut self) {
        if self.held.take().is_none() {
            self.mail.pop_front();
        }
    }

    /// The cursor was moved: what lies behind it still waits, the one that had failed as well.
    pub(crate) fn reopen(&mut self) {
        if let Some(held) = self.held.take() {
            self.mail.push_front(held);
        }
        let cursor = self.cursor;
        self.mail.retain(|at| *at >= cursor);
    }

    /// How many of the records behind the cursor count as gone by now, whoever has noticed: overwritten, too old, dropped, conflated.
    pub(crate) fn gone_by(&self, log: &Log) -> (u64, u64, u64, u64) {
        let end = log.end();
        let (gone, expired) = match self.rule {
            Rule::Newest(_) => {
                let kept = self.mail.len() as u64 + u64::from(self.held.is_some());
                (end - self.cursor - kept, 0)
            }
            rule => {
                let from = self.taken().min(end);
                let line = rule.line().map_or(0, |most| end.saturating_sub(most)).max(log.earliest);
                let expired = log.missing(from, line).1;
                (line.saturating_sub(from) - expired, expired)
            }
        };
        let (overwritten, dropped, conflated) = self.rule.sort(gone);
        (overwritten, expired, dropped, conflated)
    }

    /// How many records one call may be given.
    pub(crate) fn most_at_once(&self, capacity: u64) -> u64 {
        let eighth = (capacity / 8).max(1);
        match self.rule {
            Rule::Topic => u64::MAX,
            rule if rule.is_single() => 1,
            Rule::Block(most) | Rule::Oldest(most) => most.min(eighth),
            _ => 1,
        }
    }

    /// Whether it may be shown what lies before the earliest record that is promised: where memory is not exact.
    pub(crate) fn may_see_more(&self, setup: &Setup) -> bool {
        matches!(self.rule, Rule::LatestBy(_)) && !setup.drops
    }

    /// What the group's own rule passes over before the next record is handed over: one of these, where it may be shown more than is
    /// promised.
    pub(crate) fn own_gaps(&self, log: &Log, free: bool) -> Vec<Option<Gap>> {
        let earliest = self.cursor.max(log.earliest);
        let first = if free { self.cursor.max(log.floor).min(earliest) } else { earliest };
        (first..=earliest).rev().map(|from| self.own_gap(log, from)).collect()
    }

    fn own_gap(&self, log: &Log, from: u64) -> Option<Gap> {
        let end = log.end();
        if self.tried > 0 || self.cursor < self.singly {
            return None;
        }
        let (to, conflated) = match self.rule {
            Rule::Newest(_) => (self.first_kept().unwrap_or(end), 0),
            Rule::LatestBy(most) => self.latest_by(log, from, most)?,
            rule => (end.saturating_sub(rule.line()?), 0),
        };
        (to > self.cursor).then(|| self.gap(log, to, conflated))
    }

    /// Where the first is that is the latest of its key, when no more than `most` keys wait; and how many of those before it have a
    /// later one.
    fn latest_by(&self, log: &Log, from: u64, most: u64) -> Option<(u64, u64)> {
        let key = |at: u64| log.serials[at as usize] % KEYS;
        let is_last = |at: u64| (at + 1..log.end()).all(|later| key(later) != key(at));
        let last: Vec<u64> = (from..log.end()).filter(|at| is_last(*at)).collect();
        let to = *last.get(last.len().saturating_sub(most as usize))?;
        Some((to, (from..to).filter(|at| !is_last(*at)).count() as u64))
    }

    /// What is missing up to `to`, of which so many were passed over for later ones of their key.
    pub(crate) fn gap(&self, log: &Log, to: u64, merged: u64) -> Gap {
        let from = self.cursor;
        let expired = if matches!(self.rule, Rule::Newest(_)) { 0 } else { log.missing(from, to.min(log.earliest)).1 };
        let (overwritten, dropped, conflated) = self.rule.sort(to - from - expired - merged);
        let conflated = conflated + merged;
        Gap { group: 0, partition: 0, from, to, overwritten, expired, dropped, conflated }
    }

    /// The books of the lane over its log: what is lost counts, whether the lane has noticed or not.
    pub(crate) fn books(&self, log: &Log) -> Books {
        let (overwritten, expired, dropped, conflated) = self.gone_by(log);
        Books {
            skipped: self.books.skipped + overwritten,
            expired: self.books.expired + expired,
            dropped: self.books.dropped + dropped,
            conflated: self.books.conflated + conflated,
            pending: log.end() - self.cursor - overwritten - expired - dropped - conflated + self.queue.len() as u64,
            ..self.books
        }
    }
}

impl Twin {
    /// Whether some group has a record of the partition in hand between two steps.
    pub(crate) fn is_in_hand(&self, p: u32) -> bool {
        self.groups.values().any(|group| group.lanes[p as usize].taken() > group.lanes[p as usize].cursor)
    }

    /// Which gap had to be told now: by the group's own rule, or of what is gone from the log. Where the log may keep more than it
    /// promises, it is as the broker has it, within the promise.
    pub(crate) fn gap_due(&mut self, told: &Gap) -> Result<Gap, String> {
        let (name, p) = (told.group, told.partition);
        let (group, partition) = (name, p);
        let lane = &self.groups[&name].lanes[p as usize];
        let gaps = lane.own_gaps(&self.logs[p as usize], lane.may_see_more(&self.setup));
        let mut gaps: Vec<Gap> = gaps.into_iter().flatten().map(|gap| Gap { group, partition, ..gap }).collect();
        if !gaps.is_empty() {
            self.note("passed over");
            let at = gaps.iter().position(|gap| gap == told).unwrap_or(0);
            return Ok(gaps.swap_remove(at));
        }
        if lane.rule.is_own() && !self.setup.drops && self.setup.keep != Keep::Unacked {
            self.observe_earliest(p, told.to)?;
        }
        let (lane, log) = (&self.groups[&name].lanes[p as usize], &self.logs[p as usize]);
        Ok(Gap { group, partition, ..lane.gap(log, log.earliest.max(lane.cursor), 0) })
    }
}
