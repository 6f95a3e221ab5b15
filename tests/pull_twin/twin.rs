//! The twin: one group as plain numbers, written from `docs/consumers.md`.

use std::collections::BTreeMap;

pub(crate) type Census = BTreeMap<&'static str, u64>;

/// The settings of a case. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) partitions: u32,
    pub(crate) capacity: u64,
    pub(crate) unacked: bool,
    pub(crate) attempts: Option<u32>,
    pub(crate) pause: u64,
    pub(crate) lease: Option<u64>,
    pub(crate) longest: u64,
}

impl Setup {
    pub(crate) fn decode(raw: [u8; 4]) -> Self {
        Setup {
            partitions: 1 + u32::from(raw[0] % 3),
            capacity: [1, 2, 3, 8, 64][usize::from(raw[0] / 3 % 5)],
            unacked: raw[1] % 2 == 1,
            attempts: [None, Some(1), Some(2), Some(3)][usize::from(raw[1] / 2 % 4)],
            pause: [0, 5][usize::from(raw[2] % 2)],
            lease: [None, Some(10), Some(20)][usize::from(raw[2] / 2 % 3)],
            longest: 35,
        }
    }
}

/// Of so many epochs, and records, it is remembered what became of them.
const REMEMBERED: usize = 64;

/// What was handed out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Of the consumer that was handed it.
    pub(crate) member: usize,
    pub(crate) partition: u32,
    pub(crate) epoch: usize,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What came of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    NotInFlight(Option<(u64, u64)>),
    Fenced(&'static str),
}

/// The figures of a lane that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) committed: u64,
    pub(crate) in_flight: u64,
    pub(crate) pending: u64,
    pub(crate) acked: u64,
    pub(crate) dead: u64,
    pub(crate) retried: u64,
    pub(crate) refused: u64,
    pub(crate) replayed: u64,
    pub(crate) skipped: u64,
    pub(crate) expired_leases: u64,
}

#[derive(Debug, Default)]
struct Lane {
    end: u64,
    committed: u64,
    next: u64,
    /// Where the batch begins that was handed out last.
    last: u64,
    holder: Option<String>,
    /// Why each epoch before this one ended, and where the cursor was.
    ended: Vec<(&'static str, u64)>,
    deadline: Option<u64>,
    leased_at: u64,
    /// Before when a record that failed is not handed out again.
    due: BTreeMap<u64, u64>,
    failures: BTreeMap<u64, u32>,
    spent: BTreeMap<u64, &'static str>,
    /// The last of them, as many as are remembered.
    buried: Vec<u64>,
    figures: Figures,
}

impl Lane {
    fn in_flight(&self) -> Option<(u64, u64)> {
        (self.committed < self.next).then_some((self.committed, self.next))
    }

    fn end_epoch(&mut self, why: &'static str) {
        self.ended.push((why, self.committed));
    }

    fn rewind(&mut self, to: u64, why: &'static str) {
        if to < self.last {
            self.rewind_all(why); // nobody could settle what lies before it any more
        } else {
            self.next = to;
        }
    }

    fn rewind_all(&mut self, why: &'static str) -> std::ops::Range<u64> {
        let was = self.committed..self.next;
        self.end_epoch(why);
        (self.next, self.last, self.deadline) = (self.committed, self.committed, None);
        was
    }

    fn go_to(&mut self, to: u64) {
        self.committed = to;
        self.failures = self.failures.split_off(&to);
        self.spent = self.spent.split_off(&to);
        (self.next, self.last) = (self.next.max(to), self.last.max(to));
        if self.next == to {
            self.deadline = None;
        }
    }

    /// Why the ticket counts no more.
    fn fenced(&self, ticket: Ticket) -> Option<&'static str> {
        let (same, done) = (ticket.epoch == self.ended.len(), self.committed >= ticket.to);
        if same && !done && self.next >= ticket.to {
            return None;
        }
        let stale = !same || self.in_flight().is_none() || self.next < ticket.to;
        let known = self.buried.len().saturating_sub(REMEMBERED);
        if stale && done && self.buried[known..].iter().any(|at| (ticket.from..ticket.to).contains(at)) {
            return Some("Buried");
        }
        if same && done {
            return Some("AlreadyAcked");
        }
        Some(self.end_of(ticket).map_or("Rewound", |(why, _)| why))
    }

    fn end_of(&self, ticket: Ticket) -> Option<(&'static str, u64)> {
        let known = self.ended.len().saturating_sub(REMEMBERED);
        self.ended.get(ticket.epoch).filter(|_| ticket.epoch >= known).copied()
    }

    /// How many records of an ack that comes too late were not acknowledged in time.
    fn undone(&self, ticket: Ticket) -> u64 {
        let same = ticket.epoch == self.ended.len();
        let done = if same { self.committed } else { self.end_of(ticket).map_or(0, |(_, done)| done) };
        ticket.to.saturating_sub(ticket.from.max(done))
    }
}

#[derive(Debug)]
pub(crate) struct Twin {
    pub(crate) setup: Setup,
    pub(crate) census: Census,
    pub(crate) members: Vec<String>,
    /// Partition, offset, attempts, kind; in the order in which they were buried.
    pub(crate) letters: Vec<(u32, u64, u32, &'static str)>,
    pub(crate) now: u64,
    pub(crate) paused: bool,
    /// Whose lease was over, and who has not polled or settled since.
    hung: Vec<String>,
    names: Vec<String>,
    lanes: Vec<Lane>,
}

impl Twin {
    pub(crate) fn new(setup: Setup) -> Self {
        let lanes = (0..setup.partitions).map(|_| Lane::default()).collect();
        let (census, members, letters) = Default::default();
        let (hung, names) = Default::default();
        Twin { setup, census, members, letters, now: 0, paused: false, hung, names, lanes }
    }

    pub(crate) fn note(&mut self, what: &'static str) {
        *self.census.entry(what).or_default() += 1;
    }

    pub(crate) fn end(&self, p: u32) -> u64 {
        self.lanes[p as usize].end
    }

    pub(crate) fn committed(&self, p: u32) -> u64 {
        self.lanes[p as usize].committed
    }

    /// Whether there was room for one more.
    pub(crate) fn publish(&mut self, p: u32) -> bool {
        let capacity = self.setup.capacity;
        let lane = &mut self.lanes[p as usize];
        let room = lane.end - lane.committed < capacity;
        lane.end += u64::from(room);
        self.note(if room { "stored" } else { "full" });
        room
    }

    fn owner(&self, p: u32) -> Option<&String> {
        let planned = self.members.get(p as usize % self.members.len().max(1))?;
        let able: Vec<&String> = self.members.iter().filter(|member| !self.hung.contains(member)).collect();
        if able.is_empty() || able.contains(&planned) {
            return Some(planned);
        }
        able.get(p as usize % able.len()).copied()
    }

    /// It polls, or settles.
    pub(crate) fn is_back(&mut self, member: &str) {
        if let Some(at) = self.hung.iter().position(|hung| hung == member) {
            self.hung.remove(at);
            self.note("comes back");
        }
    }

    /// Who has this settles.
    fn settles(&mut self, ticket: Ticket) {
        let member = self.names[ticket.member].clone();
        self.is_back(&member);
    }

    /// How many records of a partition a poll of this member may give at most; 0 if none.
    fn due(&self, member: &str, p: u32, most: u64) -> u64 {
        let lane = &self.lanes[p as usize];
        let mine = self.owner(p).is_some_and(|owner| owner == member);
        let free = lane.in_flight().is_none() || lane.holder.as_deref() == Some(member);
        let pauses = |at: &u64| lane.due.get(at).is_some_and(|due| self.now < *due);
        let waits = pauses(&lane.next) || lane.spent.contains_key(&lane.next);
        if !mine || !free || waits || self.paused {
            return 0;
        }
        let most = most.min((lane.next..lane.end).find(pauses).unwrap_or(lane.end) - lane.next);
        let last_chance = |at: &u64| {
            let failed = lane.failures.get(at).copied().unwrap_or(0);
            self.setup.attempts.is_some_and(|attempts| failed + 1 >= attempts)
        };
        // Nobody is buried for a neighbour.
        match (lane.next..lane.next + most).find(last_chance) {
            Some(at) => (at - lane.next).max(1).min(most),
            None => most,
        }
    }

    /// A poll gave this, or nothing: checks that it had to.
    pub(crate) fn polled(
        &mut self,
        member: &str,
        most: u64,
        batch: Option<(u32, u64, Vec<u32>)>,
    ) -> Result<Option<Ticket>, String> {
        self.is_back(member);
        let Some((partition, from, attempts)) = batch else {
            self.note("nothing to be had");
            if self.lanes.iter().any(|lane| lane.in_flight().is_some() && lane.holder.as_deref() != Some(member)) {
                self.note("waits for another's settlement");
            }
            let left = (0..self.setup.partitions).find(|p| self.due(member, *p, most) > 0);
            return left.map_or(Ok(None), |p| Err(format!("a poll gave nothing, but partition {p} has something")));
        };
        self.note("a batch");
        let (len, due) = (attempts.len() as u64, self.due(member, partition, most));
        let (now, lease) = (self.now, self.setup.lease);
        let lane = &mut self.lanes[partition as usize];
        let tried = |at: u64| lane.failures.get(&at).copied().unwrap_or(0) + 1;
        let want: Vec<u32> = (from..from + len).map(tried).collect();
        if from != lane.next || !(1..=due).contains(&len) || want != attempts {
            return Err(format!(
                "a poll gave {len} from {from}, attempts {attempts:?}; due were {due} from {}, {want:?}",
                lane.next
            ));
        }
        let flew = lane.in_flight().is_some();
        (lane.last, lane.next, lane.holder) = (from, from + len, Some(member.to_owned()));
        if let Some(lease) = lease {
            let before = lane.deadline.filter(|_| flew);
            (lane.deadline, lane.leased_at) = (before.max(Some(now + lease)), now);
        }
        let known = self.names.iter().position(|name| name == member);
        let member = known.unwrap_or(self.names.len());
        if known.is_none() {
            self.names.extend(lane.holder.clone());
        }
        Ok(Some(Ticket { member, partition, epoch: lane.ended.len(), from, to: from + len }))
    }

    fn refused(&mut self, why: &'static str, of_an_ack: Option<Ticket>) -> Settled {
        if let Some(ticket) = of_an_ack {
            let lane = &mut self.lanes[ticket.partition as usize];
            lane.figures.refused += lane.undone(ticket);
        }
        self.note(match why {
            "Expired" => "refused: Expired",
            "Moved" => "refused: Moved",
            "Seeked" => "refused: Seeked",
            "Buried" => "refused: Buried",
            "AlreadyAcked" => "refused: AlreadyAcked",
            _ => "refused: Rewound",
        });
        Settled::Fenced(why)
    }

    fn not_in_flight(&mut self, p: u32) -> Settled {
        self.note("not in flight");
        Settled::NotInFlight(self.lanes[p as usize].in_flight())
    }

    /// `through`: only so far.
    pub(crate) fn ack(&mut self, ticket: Ticket, through: Option<u64>) -> Settled {
        self.settles(ticket);
        if through.is_some_and(|at| !(ticket.from..ticket.to).contains(&at)) {
            return self.not_in_flight(ticket.partition);
        }
        if let Some(why) = self.lanes[ticket.partition as usize].fenced(ticket) {
            let asked = Ticket { to: through.map_or(ticket.to, |at| at + 1), ..ticket };
            return self.refused(why, Some(asked));
        }
        self.ack_to(ticket.partition, through.map_or(ticket.to, |at| at + 1))
    }

    fn ack_to(&mut self, p: u32, to: u64) -> Settled {
        let lane = &mut self.lanes[p as usize];
        if !(lane.committed + 1..=lane.next).contains(&to) {
            return self.not_in_flight(p);
        }
        lane.figures.acked += to - lane.committed;
        lane.go_to(to);
        self.note("acked");
        self.bury(p);
        Settled::Done
    }

    /// All of it failed, or the record at `from`, before which all is done.
    pub(crate) fn nack(&mut self, ticket: Ticket, from: Option<u64>) -> Settled {
        let p = ticket.partition;
        self.settles(ticket);
        if from.is_some_and(|at| !(ticket.from..ticket.to).contains(&at)) {
            return self.not_in_flight(p);
        }
        if let Some(why) = self.lanes[p as usize].fenced(ticket) {
            return self.refused(why, None);
        }
        if from.is_some_and(|at| at < self.committed(p)) {
            return self.refused("AlreadyAcked", None);
        }
        let lane = &mut self.lanes[p as usize];
        if let Some(at) = from.filter(|at| lane.committed < *at) {
            lane.figures.acked += at - lane.committed;
            lane.go_to(at);
        }
        let first = from.unwrap_or(ticket.from).max(lane.committed);
        lane.rewind(first, "Rewound");
        let which = first..from.map_or(ticket.to, |_| first + 1);
        self.failed(p, which, "error", true);
        Settled::Done
    }

    /// Records failed once more; a nack is followed by the group's pause.
    fn failed(&mut self, p: u32, which: std::ops::Range<u64>, kind: &'static str, pauses: bool) {
        let (attempts, pause, now) = (self.setup.attempts, self.setup.pause, self.now);
        let lane = &mut self.lanes[p as usize];
        for at in which {
            let times = lane.failures.entry(at).or_insert(0);
            *times += 1;
            if attempts.is_some_and(|attempts| *times >= attempts) {
                lane.spent.insert(at, kind);
            } else {
                lane.figures.retried += 1;
                lane.due.insert(at, if pauses { now + pause } else { now });
            }
        }
        self.note("nacked");
        self.bury(p);
    }

    /// What is at the cursor and used up is given up, with what follows.
    fn bury(&mut self, p: u32) {
        let lane = &mut self.lanes[p as usize];
        let mut buried = Vec::new();
        while lane.next == lane.committed {
            let at = lane.committed;
            let Some(kind) = lane.spent.remove(&at) else { break };
            buried.push((p, at, lane.failures[&at], kind));
            lane.figures.dead += 1;
            lane.buried.push(at);
            lane.go_to(at + 1);
        }
        for letter in buried {
            self.letters.push(letter);
            self.note("buried");
        }
    }

    pub(crate) fn release(&mut self, ticket: Ticket) {
        self.settles(ticket);
        let lane = &mut self.lanes[ticket.partition as usize];
        if lane.fenced(ticket).is_none() {
            let to = ticket.from.max(lane.committed);
            lane.rewind(to, "Rewound");
            self.note("released");
            self.bury(ticket.partition);
        }
    }

    /// How long the lease lasts now; `None`: for ever.
    pub(crate) fn extend(&mut self, ticket: Ticket, by: u64) -> Result<Option<u64>, Settled> {
        self.settles(ticket);
        if let Some(why) = self.lanes[ticket.partition as usize].fenced(ticket) {
            return Err(self.refused(why, None));
        }
        let (now, longest) = (self.now, self.setup.longest);
        let lane = &mut self.lanes[ticket.partition as usize];
        let Some(deadline) = lane.deadline else { return Ok(None) };
        let until = (now + by).min(lane.leased_at + longest).max(deadline);
        lane.deadline = Some(until);
        self.note("extended");
        Ok(Some(until - now))
    }

    pub(crate) fn ack_through(&mut self, member: &str, p: u32, offset: u64) -> Settled {
        self.is_back(member);
        let lane = &self.lanes[p as usize];
        if lane.in_flight().is_none() || lane.holder.as_deref() != Some(member) {
            self.note("not in flight");
            return Settled::NotInFlight(None);
        }
        self.ack_to(p, offset + 1)
    }

    pub(crate) fn nack_all(&mut self, member: &str, p: u32) {
        self.is_back(member);
        let lane = &mut self.lanes[p as usize];
        if lane.in_flight().is_some() && lane.holder.as_deref() == Some(member) {
            let which = lane.rewind_all("Rewound");
            self.failed(p, which, "nacked", true);
        }
    }

    pub(crate) fn leave(&mut self, member: &str) {
        self.members.retain(|other| other != member);
        self.hung.retain(|other| other != member);
        for p in 0..self.setup.partitions {
            let lane = &mut self.lanes[p as usize];
            if lane.in_flight().is_some() && lane.holder.as_deref() == Some(member) {
                lane.rewind_all("Moved");
                self.bury(p);
            }
        }
    }

    pub(crate) fn seek(&mut self, p: u32, to: u64) {
        let lane = &mut self.lanes[p as usize];
        let at = lane.committed;
        lane.figures.replayed += at.saturating_sub(to);
        lane.figures.skipped += to.saturating_sub(at);
        lane.end_epoch("Seeked");
        (lane.committed, lane.next, lane.last, lane.deadline) = (to, to, to, None);
        lane.due.clear();
        lane.failures.clear();
        // As many as are remembered; and what comes again is not what was given up.
        let known = lane.buried.len().saturating_sub(REMEMBERED);
        lane.buried = lane.buried.split_off(known);
        lane.buried.retain(|at| *at < to);
        lane.spent = BTreeMap::new();
    }

    pub(crate) fn advance(&mut self, by: u64) {
        self.now += by;
        for p in 0..self.setup.partitions {
            let now = self.now;
            let lane = &mut self.lanes[p as usize];
            if lane.in_flight().is_some() && lane.deadline.is_some_and(|deadline| deadline <= now) {
                let which = lane.rewind_all("Expired");
                lane.figures.expired_leases += which.end - which.start;
                let holder = lane.holder.clone().filter(|holder| self.members.contains(holder));
                self.hung.extend(holder.filter(|holder| !self.hung.contains(holder)));
                self.note("lease over");
                self.failed(p, which, "expired", false);
            }
        }
    }

    pub(crate) fn figures(&self, p: u32) -> Figures {
        let lane = &self.lanes[p as usize];
        Figures {
            committed: lane.committed,
            in_flight: lane.next - lane.committed,
            pending: lane.end - lane.committed,
            ..lane.figures
        }
    }
}
