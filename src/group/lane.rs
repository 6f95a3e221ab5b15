//! A lane: one partition as one group sees it. Its cursor, its counters, and the state that travels with it from member
//! to member.
#![forbid(unsafe_code)]

use super::clones::Newest;
use super::conflate::Conflater;
use super::context::Id;
use super::figures::View;
use super::flight::Flight;
use super::lease::{Lease, Order};
use super::overflow::{Overflow, Own};
use super::place::within;
use super::redrive::Redrives;
use super::shared::Shared;
use super::sight::Notice;
use super::stats::Counters;
use super::watch::{Kept, Watch};
use super::word::{LaneWord, MemberId, Word};
use crate::log::{self, Log};
use crate::ring::{Gate, Peek, Reader, Start};
use crate::seq::Seq;
use crate::sync::rare::Rare;
use crate::sync::{Arc, Mutex, lock};
use crate::time::{Clock, Time};
use std::sync::OnceLock;

/// One (group, partition). What changes in it changes by the member that has it, or seldom; it shares no line with others.
#[repr(align(64))]
pub(super) struct Lane<T> {
    pub(super) word: LaneWord,
    pub(super) log: Arc<Log<T>>,
    pub(super) gate: Arc<Gate>,
    pub(super) partition: u32,
    pub(super) start: Seq,
    /// Whether records may go before this group has read them.
    pub(super) loses: bool,
    /// Whether what is in hand is to be known: where records are lost, or counted while they wait.
    pub(super) tells: bool,
    /// The group's own overflow.
    pub(super) own: Option<Own<T>>,
    /// What waits, where the newest are dropped.
    pub(super) newest: Option<Arc<Newest<T>>>,
    pub(super) counters: Counters,
    /// What was to be seen when the lane ended, where records may be lost.
    pub(super) over: OnceLock<View>,
    /// Up to where records were in hand when commits were refused from then on.
    pub(super) stopped: OnceLock<Seq>,
    /// The state, while nobody holds the lane (word inv. 2), or a consumer does.
    pub(super) parked: Mutex<Option<Box<Held<T>>>>,
    /// What consumers have in flight. Taken within `control`, never around it; no push member takes it at work.
    pub(super) flight: Rare<Mutex<Flight>>,
    /// Where members share it: who has which record in hand.
    pub(super) shared: Option<Box<Shared>>,
    /// Held by whoever moves the cursor other than by a commit of what is done, and by whoever adds up what is lost.
    pub(super) control: Mutex<()>,
    /// Letters to be handed over before the next record.
    pub(super) redrives: Rare<Redrives<T>>,
    pub(super) notice: Rare<Notice>,
    /// What handlers have in hand, where they have a lease.
    pub(super) watch: Option<Arc<Watch>>,
}

/// What kind of lane it is to be.
pub(super) struct Kind<T> {
    pub(super) order: Order,
    pub(super) overflow: Overflow<T>,
}

/// What belongs to the lane and is in one member's hands at a time: it survives every change of members.
pub(super) struct Held<T> {
    pub(super) reader: Reader<T>,
    /// The next record to hand over; everything before it is committed, at every boundary.
    pub(super) next: Seq,
    /// The cursor's epoch under which `next` was read.
    pub(super) epoch: u32,
    /// How often the record at `next` has failed.
    pub(super) failures: u32,
    /// When it is tried again.
    pub(super) due: Option<Time>,
    /// Up to here a batch handler gets single records, because one of them made its batch fail.
    pub(super) single_until: Seq,
    /// How many records are missing right before `next`.
    pub(super) lost: u64,
    /// Records behind `next` may have failed before, in a consumer's hands: then they are handed over one by one.
    pub(super) carries: bool,
    /// What the group had missed when it was made, if that has not been told.
    pub(super) untold: Option<log::Gap>,
    /// Of how many the group has been told that the cursor was lifted over them.
    pub(super) lifted: u64,
    /// How many records are handed over between two looks at the clock.
    pub(super) chunk: usize,
    /// Where only the latest of each key is handed over.
    pub(super) conflater: Option<Box<Conflater<T>>>,
}

impl<T: Send + Sync + 'static> Held<T> {
    /// Forgets what was in hand and goes where the cursor is.
    pub(super) fn resync(&mut self, gate: &Gate) {
        (self.next, self.epoch) = gate.snapshot();
        (self.failures, self.due, self.single_until, self.lost, self.untold) = (0, None, Seq::ZERO, 0, None);
        self.carries = false;
        self.reader.jump(self.next);
        if let Some(conflater) = &mut self.conflater {
            conflater.begin(self.next);
        }
    }

    /// The same for a state that begins anew at the cursor, with nobody's failures but those that are kept of the record there.
    pub(super) fn recall(&mut self, kept: Kept) {
        if (kept.at, kept.epoch) == (self.next, self.epoch) {
            (self.failures, self.due, self.single_until) = (kept.failures, kept.due, kept.single_until);
            self.lost = kept.lost;
        }
    }

    /// What is to be kept of the record at the cursor.
    pub(super) fn kept(&self) -> Kept {
        let Held { next: at, epoch, failures, due, single_until, lost, lifted, .. } = *self;
        Kept { at, epoch, failures, due, single_until, lost, lifted }
    }

    /// Goes on behind a gap, which is committed already.
    pub(super) fn passed(&mut self, gap: &log::Gap) {
        self.lost += gap.len();
        (self.next, self.failures, self.due) = (gap.to, 0, None);
    }

    /// Takes in hand what can be read at `to`: how many records, at most `most`.
    pub(super) fn reach(&mut self, to: Seq, most: usize) -> usize {
        self.reader.jump(to);
        match self.reader.peek(most) {
            Peek::Ready(run) => run.len(),
            Peek::Pending | Peek::Lapped { .. } => 0,
        }
    }

    /// The gap that the cursor was lifted over because it was so far behind, if that has not been told.
    pub(super) fn lifted_over(&mut self, gate: &Gate) -> Option<log::Gap> {
        let (lifted, to) = gate.lifted();
        let by = lifted - std::mem::replace(&mut self.lifted, lifted);
        if by == 0 {
            return None;
        }
        self.resync(gate);
        self.lost = by;
        Some(log::Gap { from: to.minus(by), to, expired: 0, conflated: 0 })
    }

    /// Lets go of its pages.
    pub(super) fn release(&mut self) {
        self.reader.release();
        if let Some(conflater) = &mut self.conflater {
            conflater.release();
        }
    }

    /// How many records may be handed over at once.
    pub(super) fn limit(&self, bound: usize) -> usize {
        if self.next.precedes(self.single_until) { 1 } else { bound }
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Begins at the offset that was stored, or where the group starts if none was. What is gone of the records from the
    /// stored one on counts as skipped.
    pub(super) fn new(
        log: Arc<Log<T>>,
        partition: u32,
        start: Start,
        stored: Option<u64>,
        lease: Option<(Lease, Arc<dyn Clock>)>,
        Kind { order, overflow }: Kind<T>,
    ) -> Self {
        let start = stored.map_or(start, |stored| Start::At(within(&log, stored)));
        let newest = Newest::of(overflow.0.as_ref(), &log);
        let gate = log.admit(start, Id::fresh().get(), overflow.gating());
        if let Some(newest) = &newest {
            newest.begin(&gate);
        }
        let (next, epoch) = gate.snapshot();
        let shared = Shared::new(order, log.ring().capacity().get(), gate.clone()).map(Box::new);
        let begun = stored.map_or(next, |stored| Seq::new(stored.min(next.get())));
        let counters = Counters::default();
        counters.skipped.add(next.since(begun));
        let untold = (begun != next).then_some(log::Gap { from: begun, to: next, expired: 0, conflated: 0 });
        let mut reader = log.reader(next).covered_by(gate.clone());
        reader.release();
        let (failures, due, single_until, lost) = (0, None, Seq::ZERO, next.since(begun));
        let (lifted, chunk, carries) = (0, 1, false);
        let conflater = Conflater::of(overflow.0.as_ref(), &log, &gate);
        let held =
            Held { reader, next, epoch, failures, due, single_until, lost, carries, untold, lifted, chunk, conflater };
        let loses = log.sheds() || !gate.holds_back();
        let watch = lease.map(|(lease, clock)| Watch::new(lease, gate.clone(), move || clock.now(), held.kept()));
        Lane {
            word: LaneWord::default(),
            loses,
            tells: loses || overflow.0.is_some(),
            own: overflow.0,
            newest,
            log,
            gate,
            partition,
            start: begun,
            counters,
            over: OnceLock::new(),
            stopped: OnceLock::new(),
            flight: Rare::default(),
            parked: Mutex::new(Some(Box::new(held))),
            shared,
            control: Mutex::new(()),
            redrives: Rare::default(),
            notice: Rare::default(),
            watch,
        }
    }

    /// Takes the lane's state, if `me` may have it, with the word as it was taken: what changes it from then on is seen
    /// by comparing with that one, not with a later load, which could already hold an order that nobody has read.
    pub(super) fn take(&self, me: MemberId) -> Option<(Word, Box<Held<T>>)> {
        let word = self.word.take(me).ok()?;
        let mut held = lock(&self.parked).take();
        if let Some(held) = &mut held {
            if held.epoch != self.gate.epoch() {
                held.resync(&self.gate);
            }
            self.lend(held, me);
        }
        debug_assert!(held.is_some(), "word inv. 2: a free lane's state is parked");
        Some((word, held?))
    }

    /// Parks the lane's state and lets it go; returns whose it is now. Of an ended lane, drops it; so too of one that was
    /// seized from `me`, and that is nobody's to be told of.
    pub(super) fn let_go(&self, me: MemberId, mut held: Box<Held<T>>) -> Option<MemberId> {
        held.release();
        let (word, rest) = {
            let mut parked = lock(&self.parked);
            let word = self.word.let_go(me);
            let parks = word.is_ok_and(|word| !word.is_ended());
            (word, if parks { parked.replace(held) } else { Some(held) })
        };
        drop(rest);
        word.ok().map(Word::owner)
    }

    /// Commits over a gap and counts it. False: the cursor was moved meanwhile.
    pub(super) fn pass(&self, epoch: u32, gap: &log::Gap) -> bool {
        let passed = {
            let _control = lock(&self.control);
            let passed = self.log.pass(&self.gate, epoch, gap).is_ok();
            if passed {
                self.count_passed(gap);
            }
            passed
        };
        // Outside the lock, as in `seek`: this may drop records.
        self.log.passed(gap);
        passed
    }

    /// Ends the lane: its cursor stops gating at once. Whether this call did it.
    pub(super) fn end(&self) -> bool {
        let (ended, closed) = {
            let _control = lock(&self.control);
            let ended = self.word.end();
            let closed = self.shared.as_ref().filter(|_| ended).map(|shared| shared.claims.close());
            if ended && self.loses {
                // From here on no commit is stored; and the log forgets what it lost to a group that has left.
                self.gate.bump();
                let last = self.view();
                self.over.get_or_init(|| last);
            }
            (ended, closed)
        };
        if ended {
            if let Some(watch) = &self.watch {
                watch.ended();
            }
            self.log.leave(&self.gate);
            if let Some(newest) = &self.newest {
                newest.clone().end(&self.log);
            }
            if let (Some(shared), Some(closed)) = (&self.shared, closed) {
                let _control = lock(&self.control);
                shared.end(closed, self.gate.position());
            }
            self.log.sweep(); // destructors
            let rest = if self.word.load().is_held() { None } else { lock(&self.parked).take() };
            drop(rest);
        }
        ended
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::super::{Closing, Found, Group, GroupConfig, GroupSpec, Join, Run};
    use super::Id;
    use crate::log::{Log, LogConfig, Retain};
    use crate::ring::Producers;
    use crate::seq::Capacity;
    use crate::sync::{Arc, lock, thread};
    use crate::time::{ManualClock, SeededRandom};
    use crate::wait::{Event, WaitPolicy, Wake};

    /// A group of one partition that holds one record.
    fn group() -> Arc<Group<u64>> {
        let (clock, capacity) = (Arc::new(ManualClock::new()), Capacity::new(8).unwrap());
        let config = LogConfig::new(capacity, Producers::Shared, Retain::Backlog);
        let log = Log::new(config, clock.clone()).unwrap();
        log.try_append(1).unwrap();
        let (progress, broker) = (Arc::new(Event::new(Wake::All)), Id::fresh());
        let (topic, name, config) = ("t".into(), "g".into(), Arc::new(GroupConfig::earliest()));
        let random = Arc::new(SeededRandom::new(1));
        let (logs, key, found, closing) = (vec![log], None, Found::default(), Closing::default());
        let retire = Box::new(|_: &Group<u64>| ());
        let spec =
            GroupSpec { topic, name, logs, config, key, found, clock, random, progress, broker, closing, retire };
        Group::new(spec).unwrap()
    }

    // The member is halted between the word, in which the lane is not over, and the gate, which already is in the epoch
    // of its end.
    #[test]
    fn a_lane_that_ends_while_it_is_taken_acknowledges_nothing() {
        let group = group();
        let lane = &group.lanes[0];
        let parked = lock(&lane.parked);
        let join = Join { name: "m".into(), run: Run::OwnThread, wait: WaitPolicy::Park, only: Vec::new() };
        group.subscribe(join, |_| ()).map(drop).unwrap();
        while !lane.word.load().is_held() {
            thread::yield_now();
        }
        assert!(lane.end());
        drop(parked);
        while lane.word.load().is_held() {
            thread::yield_now();
        }
        let stats = lane.stats();
        assert_eq!((stats.acked, stats.retried, stats.dead, stats.refused), (0, 0, 0, 0));
    }
}
