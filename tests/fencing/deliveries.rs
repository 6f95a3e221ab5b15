//! What should happen where consumers poll, as plainly as it can be said: each time a record was handed out is kept, with what
//! befell it since. Two consumers, one partition, one record a poll.

/// How often a record may be tried.
pub(crate) const ATTEMPTS: u32 = 2;
/// Records that are retained.
pub(crate) const CAPACITY: u64 = 2;
/// How long a lease may become; it begins with 1.
pub(crate) const LONGEST: u64 = 2;

/// One thing that happens. Deliveries have numbers, in the order in which they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A consumer polls.
    Poll(usize),
    /// The time of a lease passes.
    Expire,
    Ack(usize),
    Nack(usize),
    /// The receipt is dropped.
    Release(usize),
    /// More time is asked for, as long as a lease may become.
    Extend(usize),
    /// The cursor goes there.
    Seek(u64),
    /// The partition is to be the other consumer's.
    Move,
    /// A consumer is dropped, and one of its name comes anew.
    Leave(usize),
    /// So much is published that what was there is gone.
    Trim,
    /// The group is deleted.
    Delete,
}

/// Why a delivery counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Expired,
    Moved,
    Seeked,
    Deleted,
    Rewound,
    /// By the acknowledgement of a later one.
    Acked,
    /// The record was, at some later time.
    Buried,
}

/// A record was handed to somebody.
#[derive(Clone, Debug)]
struct Delivery {
    who: usize,
    /// It has left since, or that was somebody else of this name.
    gone: bool,
    offset: u64,
    /// The receipt is used up.
    used: bool,
    /// What came between, in order.
    fates: Vec<Fate>,
}

impl Delivery {
    fn is_live(&self) -> bool {
        !self.used && self.fates.is_empty()
    }
}

/// What somebody is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Nothing,
    /// A poll: offset and attempt.
    Handed(u64, u32),
    Done,
    /// How long the lease lasts.
    Lasts(u64),
    /// For one of these reasons.
    Refused(Vec<Fate>),
}

/// The figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Or where the records begin, if that is later and nothing is in flight, or all is over: a gap is passed by whoever comes to it.
    pub(crate) committed: u64,
    pub(crate) end: u64,
    pub(crate) in_flight: u64,
    pub(crate) acked: u64,
    pub(crate) dead: u64,
    pub(crate) retried: u64,
    pub(crate) refused: u64,
    pub(crate) lapsed: u64,
    pub(crate) skipped: u64,
    pub(crate) replayed: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Twin {
    now: u64,
    end: u64,
    cursor: u64,
    /// Of each record that may come again.
    failures: Vec<u32>,
    deliveries: Vec<Delivery>,
    /// When the lease began that all live deliveries are under, and when it ends.
    lease: (u64, u64),
    /// Whose the partition is to be, as the assignor says.
    plan: usize,
    /// Whose time was up, and who has not been heard of since.
    hung: [bool; 2],
    counts: Figures,
    pub(crate) letters: Vec<u64>,
    /// The figures of a group that is no more.
    over: Option<Figures>,
}

impl Twin {
    /// One record is there.
    pub(crate) fn new() -> Self {
        Twin {
            now: 0,
            end: 1,
            cursor: 0,
            failures: vec![0; 64],
            deliveries: Vec::new(),
            lease: (0, 0),
            plan: 0,
            hung: [false; 2],
            counts: Figures::default(),
            letters: Vec::new(),
            over: None,
        }
    }

    /// What could happen now that would change anything, and every settlement that should be refused.
    pub(crate) fn possible(&self) -> Vec<Op> {
        let mut all = Vec::new();
        for (nth, delivery) in self.deliveries.iter().enumerate().filter(|(_, delivery)| !delivery.used) {
            all.extend([Op::Ack(nth), Op::Nack(nth)]);
            if delivery.is_live() || self.over.is_none() && self.hung[delivery.who] && !delivery.gone {
                all.extend([Op::Release(nth), Op::Extend(nth)]);
            }
        }
        if self.over.is_some() {
            return all;
        }
        for who in 0..2 {
            if self.hung[who] || self.clone().poll(who) != Answer::Nothing {
                all.push(Op::Poll(who));
            }
            if self.hung[who] || self.live().any(|live| live.who == who) {
                all.push(Op::Leave(who));
            }
        }
        if self.live().next().is_some() {
            all.push(Op::Expire);
        }
        all.extend([Op::Seek(0), Op::Seek(1), Op::Move, Op::Trim, Op::Delete]);
        all
    }

    pub(crate) fn apply(&mut self, op: Op) -> Answer {
        match op {
            Op::Poll(who) => return self.poll(who),
            Op::Ack(nth) | Op::Nack(nth) | Op::Release(nth) | Op::Extend(nth) => return self.settle(nth, op),
            Op::Expire => self.tick(),
            Op::Seek(to) => self.seek(to),
            Op::Move => self.plan = 1 - self.plan,
            Op::Leave(who) => {
                self.befalls(Fate::Moved, |delivery| delivery.who == who);
                self.deliveries.iter_mut().filter(|delivery| delivery.who == who).for_each(|it| it.gone = true);
                self.hung[who] = false;
                self.bury();
            }
            Op::Trim => self.end += CAPACITY,
            Op::Delete => {
                self.befalls_all(Fate::Deleted);
                let committed = self.cursor.max(self.earliest());
                self.over = Some(Figures { committed, ..self.figures() });
            }
        }
        Answer::Nothing
    }

    pub(crate) fn figures(&self) -> Figures {
        if let Some(over) = self.over {
            return Figures { refused: self.counts.refused, ..over };
        }
        let in_flight = self.live().count() as u64;
        let missed = self.earliest().saturating_sub(self.cursor + in_flight);
        let skipped = self.counts.skipped + missed;
        let committed = if in_flight == 0 { self.cursor.max(self.earliest()) } else { self.cursor };
        Figures { committed, end: self.end, in_flight, skipped, ..self.counts }
    }

    fn live(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.iter().filter(|delivery| delivery.is_live())
    }

    /// Something that is of all there ever was.
    fn befalls_all(&mut self, fate: Fate) {
        self.deliveries.iter_mut().filter(|delivery| !delivery.used).for_each(|delivery| delivery.fates.push(fate));
    }

    /// What is in flight, and meant.
    fn befalls(&mut self, fate: Fate, whom: impl Fn(&Delivery) -> bool) -> u64 {
        let befallen = self.deliveries.iter_mut().filter(|delivery| delivery.is_live() && whom(delivery));
        befallen.map(|delivery| delivery.fates.push(fate)).count() as u64
    }

    fn earliest(&self) -> u64 {
        self.end.saturating_sub(CAPACITY)
    }

    fn owner(&self) -> usize {
        let other = 1 - self.plan;
        if self.hung[self.plan] && !self.hung[other] { other } else { self.plan }
    }

    /// The record that a poll would give, apart from what it does for being a poll.
    fn would_hand_out(&self, who: usize) -> Option<u64> {
        let flying = self.live().count() as u64;
        if self.over.is_some() || self.owner() != who || self.live().any(|live| live.who != who) {
            return None;
        }
        let next = if flying == 0 { self.cursor.max(self.earliest()) } else { self.cursor + flying };
        (next >= self.earliest() && next < self.end && self.failures[next as usize] < ATTEMPTS).then_some(next)
    }

    fn poll(&mut self, who: usize) -> Answer {
        self.hung[who] = false;
        let flying = self.live().count() > 0;
        if self.over.is_none() && self.owner() == who && !flying {
            self.pass_the_gap();
            self.bury();
        }
        let Some(offset) = self.would_hand_out(who) else { return Answer::Nothing };
        self.lease = (self.now, if flying { self.lease.1.max(self.now + 1) } else { self.now + 1 });
        self.deliveries.push(Delivery { who, gone: false, offset, used: false, fates: Vec::new() });
        Answer::Handed(offset, self.failures[offset as usize] + 1)
    }

    /// Only where nothing is in flight.
    fn pass_the_gap(&mut self) {
        let to = self.earliest();
        if self.live().next().is_none() && self.cursor < to {
            self.counts.skipped += to - self.cursor;
            self.cursor = to;
        }
    }

    /// What is at the cursor and has no attempt left is given up, if it is still there.
    fn bury(&mut self) {
        while self.live().next().is_none() && self.failures[self.cursor as usize] >= ATTEMPTS {
            let at = self.cursor;
            if at < self.earliest() {
                return self.pass_the_gap();
            }
            self.counts.dead += 1;
            self.letters.push(at);
            self.cursor += 1;
            self.failures[at as usize] = 0;
            let those = self.deliveries.iter_mut().filter(|delivery| delivery.offset == at && !delivery.used);
            those.for_each(|delivery| delivery.fates.push(Fate::Buried));
        }
    }

    fn fails(&mut self, offset: u64) {
        self.failures[offset as usize] += 1;
        self.counts.retried += u64::from(self.failures[offset as usize] < ATTEMPTS);
    }

    fn tick(&mut self) {
        self.now += 1;
        if self.live().next().is_none() || self.now < self.lease.1 {
            return;
        }
        let over: Vec<(usize, u64)> = self.live().map(|live| (live.who, live.offset)).collect();
        self.counts.lapsed += self.befalls(Fate::Expired, |_| true);
        for (who, offset) in over {
            self.hung[who] = true;
            self.fails(offset);
        }
        self.bury();
    }

    fn settle(&mut self, nth: usize, op: Op) -> Answer {
        let Delivery { who, gone, offset, .. } = self.deliveries[nth];
        if !gone {
            self.hung[who] = false;
        }
        if !self.deliveries[nth].is_live() {
            let fates = self.deliveries[nth].fates.clone();
            self.deliveries[nth].used |= !matches!(op, Op::Extend(_));
            self.counts.refused += u64::from(matches!(op, Op::Ack(_)) && !fates.contains(&Fate::Acked));
            return if matches!(op, Op::Release(_)) { Answer::Nothing } else { Answer::Refused(fates) };
        }
        if let Op::Extend(_) = op {
            self.lease.1 = self.lease.1.max((self.now + LONGEST).min(self.lease.0 + LONGEST));
            return Answer::Lasts(self.lease.1 - self.now);
        }
        self.deliveries[nth].used = true;
        if let Op::Ack(_) = op {
            self.counts.acked += 1 + self.befalls(Fate::Acked, |other| other.offset < offset);
            (self.cursor..=offset).for_each(|done| self.failures[done as usize] = 0);
            self.cursor = offset + 1;
            self.bury();
            return Answer::Done;
        }
        // Only the one that was handed out last goes back by itself.
        if self.deliveries[nth + 1..].iter().any(|later| later.offset > offset) {
            self.befalls(Fate::Rewound, |_| true);
        }
        if let Op::Nack(_) = op {
            self.fails(offset);
        }
        self.bury();
        if matches!(op, Op::Release(_)) { Answer::Nothing } else { Answer::Done }
    }

    fn seek(&mut self, to: u64) {
        self.befalls_all(Fate::Seeked);
        let to = to.clamp(self.earliest(), self.end);
        self.counts.replayed += self.cursor.saturating_sub(to);
        self.counts.skipped += to.saturating_sub(self.cursor);
        self.cursor = to;
        self.failures.fill(0);
    }
}
