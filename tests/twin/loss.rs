//! What the twin loses: the oldest record where a topic is full and drops it, and what is too old.

use crate::model::Twin;
use crate::ops::Keep;
use crate::parts::{Books, Call, Gap, Gone, Lane};

impl Twin {
    /// The position of the slowest group of partition `p`, or of the topic's own gate.
    pub(crate) fn slowest(&self, p: u32) -> Option<u64> {
        self.positions(p, false).into_iter().min()
    }

    /// Every record that is too old goes, in every partition: strictly older than the topic allows, and from the front.
    pub(crate) fn expire(&mut self) {
        let Some(age) = self.setup.age else { return };
        for p in 0..self.setup.partitions {
            self.forget_done(p);
            let log = &mut self.logs[p as usize];
            let mut n = 0;
            while log.floor < log.end() && log.created[log.floor as usize] + age < self.now {
                // What was overwritten before it got too old, or is not kept any more, does not count.
                if log.floor >= log.earliest {
                    log.gone[log.floor as usize] = Some(Gone::Expired);
                    log.expired += 1;
                    log.earliest = log.floor + 1;
                    n += 1;
                }
                log.floor += 1;
            }
            self.note_many("expired", n);
        }
    }

    /// On a topic that keeps only what somebody has still to do, the rest is gone.
    pub(crate) fn forget_done(&mut self, p: u32) {
        if self.setup.keep == Keep::Unacked {
            let log_end = self.logs[p as usize].end();
            let done = self.slowest(p).unwrap_or(log_end);
            let log = &mut self.logs[p as usize];
            log.earliest = log.earliest.max(done);
        }
    }

    /// The partition drops its oldest: as many as are too many by now.
    pub(crate) fn shed(&mut self, p: u32) {
        self.forget_done(p);
        let (mut n, capacity) = (0, self.setup.capacity);
        let log = &mut self.logs[p as usize];
        while log.end() - log.earliest > capacity {
            let at = log.earliest as usize;
            log.gone[at] = Some(Gone::Overwritten);
            // While there is no group: unless the last one that was there had it done.
            log.dropped[at] = log.alone.is_some_and(|since| since <= log.earliest);
            log.earliest += 1;
            n += 1;
        }
        self.note_many("overwritten", n);
        self.drop_what_is_lost(p);
    }

    /// What was overwritten before some group had it done, or in hand, is dropped.
    pub(crate) fn drop_what_is_lost(&mut self, p: u32) {
        if !self.setup.drops {
            return;
        }
        let log = &mut self.logs[p as usize];
        let lanes = self.groups.values().map(|group| &group.lanes[p as usize]);
        let Some(slowest) = lanes.map(Lane::taken).min() else { return };
        for at in slowest as usize..log.earliest as usize {
            log.dropped[at] |= log.gone[at] == Some(Gone::Overwritten);
        }
    }

    /// What a handler that published saw of its lane: what it has in hand is pending, gone or not; all else that is gone is
    /// lost. Where a run may be longer than what the handler was given, the broker alone knows what is in hand.
    pub(crate) fn inside(&self, call: &Call) -> Result<(), String> {
        let (log, lane) =
            (&self.logs[call.partition as usize], &self.groups[&call.group].lanes[call.partition as usize]);
        let len = call.serials.len() as u64;
        if len < self.setup.capacity / 8 || lane.rule.is_own() {
            return Ok(());
        }
        let (overwritten, expired) = log.missing(lane.cursor + len, log.earliest);
        let want = Books {
            skipped: lane.books.skipped + overwritten,
            expired: lane.books.expired + expired,
            pending: log.end() - lane.cursor - overwritten - expired + lane.queue.len() as u64,
            ..lane.books
        };
        match call.inside {
            Some(seen) if seen == want => Ok(()),
            seen => Err(format!("a handler saw its lane's books as {seen:?}, the twin has {want:?}: {call:?}")),
        }
    }

    /// The members heard of a gap: checks that it had to be exactly this one, and books it.
    pub(crate) fn lost(&mut self, gap: &Gap) -> Result<(), String> {
        let (name, p) = (gap.group, gap.partition);
        if let Some(why) = self.blocked(name, p) {
            return Err(format!("a loss was told though the lane {why}: {gap:?}"));
        }
        if !self.groups[&name].lanes[p as usize].queue.is_empty() {
            return Err(format!("a loss was told though a letter comes first: {gap:?}"));
        }
        let want = self.gap_due(gap)?;
        let Gap { overwritten, expired, dropped, conflated, .. } = want;
        if want != *gap || want.from >= want.to {
            return Err(format!("told was {gap:?}\n  but lost is {want:?}"));
        }
        let lane = &mut self.group(name).lanes[p as usize];
        let (again, singly) = (lane.tried > 0, lane.singly);
        (lane.hand, lane.tried, lane.singly) = (0, 0, 0); // it is in nobody's hand any more
        self.drop_what_is_lost(p);
        let lane = &mut self.group(name).lanes[p as usize];
        lane.singly = singly;
        lane.books.skipped += overwritten;
        lane.books.expired += expired;
        lane.books.dropped += dropped;
        lane.books.conflated += conflated;
        (lane.cursor, lane.tried, lane.due) = (gap.to, 0, None);
        lane.lost += gap.to - gap.from;
        self.note_many("dropped", dropped);
        self.note_many("conflated", conflated);
        self.note("a gap");
        if again {
            self.note("lost between two attempts");
        }
        if overwritten > 0 && expired > 0 {
            self.note("lost for both reasons");
        }
        Ok(())
    }
}
