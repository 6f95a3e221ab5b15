//! What should happen, as plainly as it can be said: one partition, two members, nobody at work at the same time.

/// How often a record may be tried.
pub(crate) const ATTEMPTS: u32 = 2;
/// Records that are retained.
pub(crate) const CAPACITY: u64 = 2;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Whoever has nothing in hand is stepped until nothing moves: the first delivery, and every later one.
    Deliver,
    /// The time of a lease passes.
    Expire,
    /// The handler of a member returns, done.
    Ack(usize),
    /// The handler of a member returns, failed.
    Nack(usize),
    /// The cursor goes there.
    Seek(u64),
    /// The partition is to be the other member's.
    Move,
    /// So much is published that what was there is gone.
    Trim,
    /// The group is deleted.
    Delete,
}

/// Why what a handler has in hand is its own no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    Expired,
    Seeked,
    Deleted,
}

/// What a handler has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    /// It may not settle.
    fenced: Option<Fence>,
    /// Its time was up.
    over: bool,
}

/// The figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) committed: u64,
    pub(crate) end: u64,
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
    committed: u64,
    end: u64,
    failures: u32,
    /// Whose the partition is to be, as the assignor says.
    plan: usize,
    /// Whose it is, or becomes as soon as its holder lets go.
    target: usize,
    holder: Option<usize>,
    hung: [bool; 2],
    pub(crate) hands: [Option<Hand>; 2],
    counts: Figures,
    pub(crate) letters: Vec<u64>,
    /// The figures of a group that is no more.
    over: Option<(u64, u64, u64)>,
}

impl Twin {
    /// One record is there, and the partition is member 0's.
    pub(crate) fn new() -> Self {
        let (counts, letters) = (Figures::default(), Vec::new());
        let (failures, plan, target, holder, hung, hands, over) = (0, 0, 0, None, [false; 2], [None; 2], None);
        Twin { committed: 0, end: 1, failures, plan, target, holder, hung, hands, counts, letters, over }
    }

    /// What could happen now that would change anything.
    pub(crate) fn possible(&self) -> Vec<Op> {
        let mut all = Vec::new();
        for member in 0..2 {
            if self.hands[member].is_some() {
                all.extend([Op::Ack(member), Op::Nack(member)]);
            }
        }
        if self.over.is_some() {
            return all;
        }
        if self.in_hand().is_none() && self.hands[self.target].is_none() {
            all.push(Op::Deliver);
        }
        if self.in_hand().is_some_and(|hand| !hand.over) {
            all.push(Op::Expire);
        }
        all.extend([Op::Seek(0), Op::Seek(1), Op::Move, Op::Trim, Op::Delete]);
        all
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver => self.deliver(),
            Op::Expire => self.expire(),
            Op::Ack(member) => self.settle(member, true),
            Op::Nack(member) => self.settle(member, false),
            Op::Seek(to) => self.seek(to),
            Op::Move => {
                self.plan = 1 - self.plan;
                self.deal();
            }
            Op::Trim => self.end += CAPACITY,
            Op::Delete => {
                self.fence(Fence::Deleted);
                self.over = Some((self.committed, self.end, self.missed()));
            }
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        let (committed, end, missed) = self.over.unwrap_or((self.committed, self.end, self.missed()));
        Figures { committed, end, skipped: self.counts.skipped + missed, ..self.counts }
    }

    /// What a handler hears when it asks for more time; `None`: it may have it.
    pub(crate) fn fence_of(&self, member: usize) -> Option<Fence> {
        let hand = self.hands[member]?;
        if self.over.is_some() {
            return Some(Fence::Deleted);
        }
        if hand.over { Some(Fence::Expired) } else { hand.fenced }
    }

    /// What the partition's holder has in hand.
    fn in_hand(&self) -> Option<Hand> {
        self.holder.and_then(|holder| self.hands[holder])
    }

    fn earliest(&self) -> u64 {
        self.end.saturating_sub(CAPACITY)
    }

    /// What is gone, and nobody has noticed.
    fn missed(&self) -> u64 {
        let taken = match self.in_hand() {
            Some(Hand { offset, fenced: None, .. }) => offset + 1,
            _ => self.committed,
        };
        self.earliest().saturating_sub(taken)
    }

    fn fence(&mut self, why: Fence) {
        if let Some(hand) = self.holder.and_then(|holder| self.hands[holder].as_mut()) {
            hand.fenced = hand.fenced.or(Some(why));
        }
    }

    fn deliver(&mut self) {
        let to = self.target;
        if self.over.is_some() || self.in_hand().is_some() || self.hands[to].is_some() {
            return;
        }
        self.holder = Some(to);
        loop {
            let lost = self.earliest().saturating_sub(self.committed);
            if lost > 0 {
                (self.committed, self.failures) = (self.earliest(), 0);
                self.counts.skipped += lost;
            }
            if self.committed == self.end {
                return;
            }
            if self.failures < ATTEMPTS {
                break;
            }
            self.bury(self.committed);
        }
        let (offset, attempt) = (self.committed, self.failures + 1);
        self.hands[to] = Some(Hand { offset, attempt, fenced: None, over: false });
    }

    fn bury(&mut self, offset: u64) {
        self.counts.dead += 1;
        self.letters.push(offset);
        (self.committed, self.failures) = (offset + 1, 0);
    }

    fn expire(&mut self) {
        let Some(holder) = self.holder else { return };
        let Some(hand) = self.hands[holder].as_mut().filter(|hand| !hand.over) else { return };
        hand.over = true;
        if hand.fenced.is_none() {
            hand.fenced = Some(Fence::Expired);
            self.counts.lapsed += 1;
            self.failures += 1;
            self.counts.retried += u64::from(self.failures < ATTEMPTS);
        }
        self.hung[holder] = true;
        self.deal();
    }

    fn settle(&mut self, member: usize, good: bool) {
        let Some(hand) = self.hands[member].take() else { return };
        if hand.fenced.is_some() || self.over.is_some() {
            self.counts.refused += 1;
        } else if good {
            self.counts.acked += 1;
            (self.committed, self.failures) = (hand.offset + 1, 0);
        } else {
            self.failures += 1;
            if self.failures < ATTEMPTS {
                self.counts.retried += 1;
            } else {
                self.bury(hand.offset);
            }
        }
        if self.over.is_none() && std::mem::take(&mut self.hung[member]) {
            self.deal();
        }
    }

    fn seek(&mut self, to: u64) {
        self.fence(Fence::Seeked);
        let to = to.clamp(self.earliest(), self.end);
        self.counts.replayed += self.committed.saturating_sub(to);
        self.counts.skipped += to.saturating_sub(self.committed);
        (self.committed, self.failures) = (to, 0);
    }

    fn deal(&mut self) {
        let other = 1 - self.plan;
        self.target = if self.hung[self.plan] && !self.hung[other] { other } else { self.plan };
        let from_hung = |holder: usize| holder != self.target && self.hung[holder] && !self.hung[self.target];
        if self.holder.is_some_and(from_hung) {
            self.holder = None;
        }
    }
}
