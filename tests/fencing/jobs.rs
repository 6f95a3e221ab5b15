//! What should happen in a work queue, as plainly as it can be said: two records, each somewhere; two members, each with one in
//! hand at most. In order of the keys both records are of one.

/// How often a record may be tried.
pub(crate) const ATTEMPTS: u32 = 2;
/// As many records are there.
pub(crate) const RECORDS: usize = 2;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A member is stepped until it has something in hand, or finds nothing.
    Deliver(usize),
    /// The time of a lease passes.
    Expire,
    /// The handler of a member returns, done.
    Ack(usize),
    /// The handler of a member returns, failed.
    Nack(usize),
    /// The cursor goes there.
    Seek(u64),
    /// A member leaves for good.
    Leave(usize),
    /// The group is deleted.
    Delete,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To be had, by anybody.
    Queue,
    Hand(usize),
    Done,
    /// Nobody's: the cursor was moved over it.
    Skipped,
}

/// What a handler has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
}

/// The figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) committed: u64,
    pub(crate) pending: u64,
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
    by_key: bool,
    places: [Place; RECORDS],
    failures: [u32; RECORDS],
    pub(crate) hands: [Option<Hand>; 2],
    left: [bool; 2],
    counts: Figures,
    /// In order of the offsets.
    pub(crate) letters: Vec<u64>,
    over: Option<Figures>,
}

impl Twin {
    /// All records are there.
    pub(crate) fn new(by_key: bool) -> Self {
        let (places, failures) = ([Place::Queue; RECORDS], [0; RECORDS]);
        let (hands, left, counts, letters) = Default::default();
        Twin { by_key, places, failures, hands, left, counts, letters, over: None }
    }

    /// What could happen now that would change anything.
    pub(crate) fn possible(&self) -> Vec<Op> {
        let mut all = Vec::new();
        for who in 0..2 {
            if self.hands[who].is_some() {
                all.extend([Op::Ack(who), Op::Nack(who)]);
            } else if !self.may_be_given(who).is_empty() {
                all.push(Op::Deliver(who));
            }
            if self.over.is_none() && !self.left[who] {
                all.push(Op::Leave(who));
            }
        }
        if self.over.is_some() {
            return all;
        }
        if self.places.iter().any(|place| matches!(place, Place::Hand(_))) {
            all.push(Op::Expire);
        }
        all.extend([Op::Seek(0), Op::Seek(1), Op::Seek(2), Op::Delete]);
        all
    }

    fn may_take(&self, who: usize) -> bool {
        self.over.is_none() && !self.left[who]
    }

    /// What a delivery may give, which is for the queue to choose: an offset and an attempt.
    pub(crate) fn may_be_given(&self, who: usize) -> Vec<Hand> {
        let its_turn = |at: usize| !self.by_key || self.cursor() == at;
        let there = (0..RECORDS).filter(|at| self.places[*at] == Place::Queue && self.may_take(who) && its_turn(*at));
        there.map(|at| Hand { offset: at as u64, attempt: self.failures[at] + 1 }).collect()
    }

    /// A delivery gave that.
    pub(crate) fn given(&mut self, who: usize, hand: Hand) {
        (self.places[hand.offset as usize], self.hands[who]) = (Place::Hand(who), Some(hand));
    }

    pub(crate) fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver(who) => {
                if let Some(first) = self.may_be_given(who).first().copied() {
                    self.given(who, first);
                }
            }
            Op::Expire => {
                for at in 0..RECORDS {
                    if let Place::Hand(_) = self.places[at] {
                        self.counts.lapsed += 1;
                        self.fails(at);
                    }
                }
            }
            Op::Ack(who) | Op::Nack(who) => self.settle(who, matches!(op, Op::Ack(_))),
            Op::Seek(to) => self.seek(to as usize),
            // What it has in hand it may bring to an end.
            Op::Leave(who) => self.left[who] = true,
            Op::Delete => self.over = Some(self.figures()),
        }
    }

    fn settle(&mut self, who: usize, good: bool) {
        let Some(hand) = self.hands[who].take() else { return };
        let at = hand.offset as usize;
        if self.over.is_some() || !self.is_its_own(who, at) {
            self.counts.refused += 1;
        } else if good {
            self.counts.acked += 1;
            self.places[at] = Place::Done;
        } else {
            self.fails(at);
        }
    }

    /// The place says so too as long as nothing came between: each time somebody else may have it.
    fn is_its_own(&self, who: usize, at: usize) -> bool {
        self.places[at] == Place::Hand(who)
    }

    fn fails(&mut self, at: usize) {
        self.failures[at] += 1;
        if self.failures[at] < ATTEMPTS {
            self.counts.retried += 1;
            self.places[at] = Place::Queue;
        } else {
            self.counts.dead += 1;
            self.places[at] = Place::Done;
            self.letters.push(at as u64);
            self.letters.sort_unstable();
        }
    }

    fn cursor(&self) -> usize {
        self.places.iter().position(|place| !matches!(place, Place::Done | Place::Skipped)).unwrap_or(RECORDS)
    }

    fn seek(&mut self, to: usize) {
        let from = self.cursor();
        for at in 0..RECORDS {
            let place = &mut self.places[at];
            match *place {
                // Forwards what is done stays so.
                Place::Done if to >= from => {}
                Place::Done | Place::Skipped if at >= to => {
                    self.counts.replayed += 1;
                    *place = Place::Queue;
                }
                Place::Done | Place::Skipped => {}
                Place::Queue | Place::Hand(_) if at < to => {
                    self.counts.skipped += 1;
                    *place = Place::Skipped;
                }
                Place::Queue | Place::Hand(_) => *place = Place::Queue,
            }
        }
        self.failures = [0; RECORDS];
    }

    pub(crate) fn figures(&self) -> Figures {
        if let Some(over) = self.over {
            return Figures { refused: self.counts.refused, ..over };
        }
        let open = |place: &&Place| !matches!(place, Place::Done | Place::Skipped);
        let pending = self.places.iter().filter(open).count() as u64;
        Figures { committed: self.cursor() as u64, pending, ..self.counts }
    }
}
