//! What becomes of the two records of a work queue, as plainly as it can be said: each is somewhere, and nothing else matters.

/// How often a record may be tried.
pub(crate) const ATTEMPTS: u32 = 2;
/// As many records are there.
pub(crate) const RECORDS: usize = 2;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To be had, by anybody.
    Queue,
    /// With somebody, by number.
    Hand(usize),
    Done,
    /// Nobody's: the cursor was moved over it.
    Skipped,
}

/// What is over when its time has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What is in hand: it has failed.
    Lease,
    /// What is in hand although a later one is done: it is buried.
    Bury,
    /// The same: who has it is put out.
    Evict,
}

/// The figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) committed: u64,
    pub(crate) pending: u64,
    pub(crate) in_flight: u64,
    pub(crate) acked: u64,
    pub(crate) dead: u64,
    pub(crate) retried: u64,
    pub(crate) refused: u64,
    /// Leases, or stragglers, that were over.
    pub(crate) over: u64,
    pub(crate) skipped: u64,
    pub(crate) replayed: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// In order of the keys both are of one.
    by_key: bool,
    pub(crate) rule: Rule,
    places: [Place; RECORDS],
    failures: [u32; RECORDS],
    pub(crate) counts: Figures,
    /// In order of the offsets.
    pub(crate) letters: Vec<u64>,
    over: Option<Figures>,
}

impl Records {
    /// All are there.
    pub(crate) fn new(by_key: bool, rule: Rule) -> Self {
        let (places, failures, counts) = ([Place::Queue; RECORDS], [0; RECORDS], Figures::default());
        Records { by_key, rule, places, failures, counts, letters: Vec::new(), over: None }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Nothing changes any more, but how many were refused.
    pub(crate) fn end(&mut self, in_flight: u64) {
        self.over = Some(self.figures(in_flight));
    }

    /// What may be handed over, which is for the queue to choose: an offset and an attempt.
    pub(crate) fn there(&self) -> Vec<(u64, u32)> {
        let its_turn = |at: &usize| !self.by_key || self.cursor() == *at;
        let there = (0..RECORDS).filter(|at| self.over.is_none() && self.places[*at] == Place::Queue);
        there.filter(its_turn).map(|at| (at as u64, self.failures[at] + 1)).collect()
    }

    pub(crate) fn place(&self, at: u64) -> Place {
        self.places[at as usize]
    }

    pub(crate) fn put(&mut self, at: u64, place: Place) {
        self.places[at as usize] = place;
    }

    pub(crate) fn done(&mut self, at: u64) {
        self.counts.acked += 1;
        self.put(at, Place::Done);
    }

    pub(crate) fn fails(&mut self, at: u64) {
        self.failures[at as usize] += 1;
        if self.failures[at as usize] < ATTEMPTS {
            self.counts.retried += 1;
            self.put(at, Place::Queue);
        } else {
            self.bury(at);
        }
    }

    fn bury(&mut self, at: u64) {
        self.counts.dead += 1;
        self.put(at, Place::Done);
        self.letters.push(at);
        self.letters.sort_unstable();
    }

    /// The time of what is with `whom` has passed: whether that is over.
    pub(crate) fn passes(&mut self, at: u64, whom: usize) -> bool {
        let straggles = self.places[at as usize + 1..].contains(&Place::Done);
        if self.place(at) != Place::Hand(whom) || (self.rule != Rule::Lease && !straggles) {
            return false;
        }
        self.counts.over += 1;
        match self.rule {
            Rule::Lease | Rule::Evict => self.fails(at),
            Rule::Bury => self.bury(at),
        }
        true
    }

    fn cursor(&self) -> usize {
        self.places.iter().position(|place| !matches!(place, Place::Done | Place::Skipped)).unwrap_or(RECORDS)
    }

    pub(crate) fn seek(&mut self, to: usize) {
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

    /// With so many in flight.
    pub(crate) fn figures(&self, in_flight: u64) -> Figures {
        if let Some(over) = self.over {
            return Figures { refused: self.counts.refused, ..over };
        }
        let open = |place: &&Place| !matches!(place, Place::Done | Place::Skipped);
        let pending = self.places.iter().filter(open).count() as u64;
        Figures { committed: self.cursor() as u64, pending, in_flight, ..self.counts }
    }
}
