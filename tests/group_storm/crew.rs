//! One group with its members, and what its handlers do and check.
#![forbid(unsafe_code)]

use super::dice::Dice;
use super::watch::{Payload, Place, until};
use ringlog::{
    Batch, BatchOutcome, Group, GroupConfig, GroupOffset, Member, MemoryOffsets, OffsetStore, Outcome, Pick, Record,
    Retry, Run, SeekTo, StartAt, StickyAssignor, StoreError, Topic, Worker,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The payload of a panic that was meant.
pub(crate) struct Worked;

const ATTEMPTS: u32 = 3;

pub(crate) struct Crew {
    pub(crate) group: Group<Payload>,
    pub(crate) members: Vec<Member<Payload>>,
    places: Arc<Vec<Place>>,
    /// Whether anybody may move its cursors, and whether anybody may have its letters handed over again.
    seeks: bool,
    redrives: bool,
    ledger: Arc<Ledger>,
    storming: Arc<AtomicBool>,
}

/// Where letters went that are no letters any more, and came from without a burial.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    taken: AtomicU64,
    queued: AtomicU64,
    called_back: AtomicU64,
}

/// What a handler needs.
struct Hand {
    group: Group<Payload>,
    places: Arc<Vec<Place>>,
    seeks: bool,
    redrives: bool,
    ledger: Arc<Ledger>,
    storming: Arc<AtomicBool>,
    may_panic: bool,
    dice: Dice,
}

/// A store that fails every third time and panics every seventh.
#[derive(Default)]
struct Shaky {
    offsets: MemoryOffsets,
    saves: AtomicU64,
}

impl OffsetStore for Shaky {
    fn load(&self, topic: &str, group: &str, partition: u32) -> Result<Option<u64>, StoreError> {
        self.offsets.load(topic, group, partition)
    }

    fn save(&self, offsets: &[GroupOffset]) -> Result<(), StoreError> {
        match self.saves.fetch_add(1, Relaxed) {
            n if n % 7 == 6 => std::panic::panic_any(Worked),
            n if n % 3 == 2 => Err("no room".into()),
            _ => self.offsets.save(offsets),
        }
    }
}

fn make(topic: &Topic<Payload>, number: u64, dice: &mut Dice) -> (Group<Payload>, Arc<Vec<Place>>) {
    let retry = match dice.roll(3) {
        0 => Retry::constant(ATTEMPTS, Duration::ZERO),
        1 => Retry::constant(ATTEMPTS, Duration::from_micros(50)),
        _ => Retry::list(ATTEMPTS, [Duration::ZERO, Duration::from_micros(300)]),
    };
    let mut config = GroupConfig::new(dice.pick(&[StartAt::Earliest, StartAt::Latest, StartAt::LastN(2)]));
    config = config.retry(retry).letters(dice.pick(&[0, 1, 8, 1_024]));
    if dice.roll(3) > 0 {
        config = config.bury_cloned();
    }
    if dice.roll(2) == 0 {
        config = config.assignor(StickyAssignor);
    }
    if dice.roll(4) == 0 {
        config = config.offset_store(Arc::new(Shaky::default())).save_every(Duration::from_micros(500));
    }
    let group = topic.group(&format!("g{number}"), config).unwrap();
    let places: Vec<Place> = group
        .stats()
        .lanes
        .iter()
        .map(|lane| {
            let place = Place::default();
            place.seen.lock().unwrap().next = lane.start;
            place
        })
        .collect();
    (group, Arc::new(places))
}

impl Crew {
    pub(crate) fn new(topic: &Topic<Payload>, number: u64, storming: &Arc<AtomicBool>, dice: &mut Dice) -> Self {
        let (group, places) = make(topic, 1_000_000 + number, dice);
        let (seeks, redrives) = (dice.roll(2) == 0, dice.roll(2) == 0);
        Self { group, places, members: Vec::new(), seeks, redrives, ledger: Arc::default(), storming: storming.clone() }
    }

    /// Deletes the group under its handlers, and makes another.
    pub(crate) fn replace(&mut self, topic: &Topic<Payload>, number: u64, dice: &mut Dice) {
        assert!(self.group.delete());
        // Whoever is at work counts what he acknowledges before that is refused, and takes it back.
        until("the books balance", || self.group.stats().balances());
        self.members.clear();
        (self.group, self.places) = make(topic, number, dice);
        self.ledger = Arc::default();
    }

    pub(crate) fn partitions(&self) -> u64 {
        self.places.len() as u64
    }

    fn hand(&self, may_panic: bool, dice: &mut Dice) -> Hand {
        Hand {
            group: self.group.clone(),
            places: self.places.clone(),
            seeks: self.seeks,
            redrives: self.redrives,
            ledger: self.ledger.clone(),
            storming: self.storming.clone(),
            may_panic,
            dice: dice.fork(),
        }
    }

    pub(crate) fn join(&mut self, name: &str, workers: &[Worker], dice: &mut Dice) {
        let member = self.group.member(name);
        let worker = &workers[dice.roll(workers.len() as u64) as usize];
        let joined = match dice.roll(5) {
            0 => member.subscribe(self.hand(true, dice).for_records()),
            1 => member.run(Run::ThreadPerLane).subscribe_with(|_| self.hand(true, dice).for_records()),
            2 => member.run(worker).subscribe(self.hand(true, dice).for_records()),
            3 => member.run(worker).subscribe_batch_with(|_| self.hand(false, dice).for_batches()),
            _ => member.subscribe_batch(self.hand(false, dice).for_batches()),
        };
        self.members.push(joined.unwrap());
    }

    pub(crate) fn leave(&mut self, dice: &mut Dice) {
        if !self.members.is_empty() {
            let at = dice.roll(self.members.len() as u64) as usize;
            let member = self.members.swap_remove(at);
            if dice.roll(4) == 0 {
                _ = member.leave_drained(Duration::from_micros(dice.roll(2_000))); // done by then or not
            }
            member.leave(); // false if it has left, or its worker was stopped
        }
    }

    pub(crate) fn letters(&self, dice: &mut Dice) {
        if self.redrives {
            letters(&self.group, &self.ledger, dice);
        }
    }

    pub(crate) fn forget_those_gone(&mut self) {
        let there = self.group.stats().members;
        self.members.retain(|member| there.iter().any(|name| &**name == member.name()));
    }

    pub(crate) fn seek(&self, dice: &mut Dice) {
        if self.seeks {
            seek(&self.group, self.partitions(), dice);
        }
    }

    /// Nobody is at work and everything is done.
    pub(crate) fn check_when_quiet(&self, published: &HashMap<(u32, u64), Option<u64>>) {
        let stats = self.group.stats();
        assert!(stats.balances(), "{stats:#?}");
        assert_eq!((stats.lag(), self.group.redriving().len()), (0, 0), "{stats:#?}");
        let Ledger { taken, queued, called_back } = &*self.ledger;
        let went = stats.letters as u64 + stats.letters_lost + taken.load(Relaxed) + queued.load(Relaxed);
        assert_eq!(went, stats.dead() + called_back.load(Relaxed), "{stats:#?} {:?}", self.ledger);
        for (lane, place) in stats.lanes.iter().zip(self.places.iter()) {
            let (acks, given_up) = (&place.acks, &place.given_up);
            // A handler whose cursor was moved away may only be about to hear that its word counts no more.
            until("every answer of a handler is counted", || {
                let lane = self.group.stats_of(lane.partition).unwrap();
                lane.acked + lane.dead + lane.refused >= acks.load(Relaxed) + given_up.load(Relaxed)
                    && !place.busy.load(Relaxed)
            });
            assert!(lane.acked <= acks.load(Relaxed), "{lane:#?} {place:?}");
            if !self.seeks {
                assert_eq!(place.seen.lock().unwrap().next, lane.end, "{lane:#?}");
            }
            if !self.seeks && !self.redrives {
                let seen = (acks.load(Relaxed), given_up.load(Relaxed), 0, 0);
                assert_eq!((lane.acked, lane.dead, lane.refused, lane.replayed), seen, "{lane:#?}");
            }
            for (offset, id) in &place.seen.lock().unwrap().ids {
                let published = published[&(lane.partition, *offset)];
                assert!(published.is_none_or(|published| published == *id), "{lane:#?}: {offset}");
            }
        }
    }

    /// Whatever was going on: a handler that outlasted the end finds that its answer counts no more, and takes it back.
    pub(crate) fn check_when_closed(&self) {
        for (partition, place) in (0..).zip(self.places.iter()) {
            let lane = || self.group.stats_of(partition).unwrap();
            until("the books balance", || lane().balances());
            until("no more is counted than handlers said", || lane().acked <= place.acks.load(Relaxed));
        }
    }
}

/// Takes letters out, has them handed over again, or takes that back.
fn letters(group: &Group<Payload>, ledger: &Ledger, dice: &mut Dice) {
    let pick = if dice.roll(2) == 0 { Pick::all() } else { Pick::first(dice.roll(4) as usize) };
    match dice.roll(6) {
        0 => _ = ledger.taken.fetch_add(group.drain_letters(pick).len() as u64, Relaxed),
        1 => _ = ledger.called_back.fetch_add(group.call_back() as u64, Relaxed),
        _ => {
            if let Ok(redriven) = group.redrive(pick) {
                ledger.queued.fetch_add(redriven.queued as u64, Relaxed);
            }
        }
    }
}

fn seek(group: &Group<Payload>, partitions: u64, dice: &mut Dice) {
    let partition = dice.roll(partitions) as u32;
    let Ok(lane) = group.stats_of(partition) else { return };
    if dice.roll(4) == 0 {
        let (expected, new) = (lane.committed + dice.roll(2), lane.committed + dice.roll(3));
        _ = group.commit(partition, expected, new); // it may have moved on
        return;
    }
    let to = match dice.roll(6) {
        5 => SeekTo::LastN(dice.roll(4)),
        0 => SeekTo::Earliest,
        1 => SeekTo::Latest,
        2 => SeekTo::Offset(lane.committed),
        3 => SeekTo::Offset(lane.committed.saturating_sub(1 + dice.roll(5))),
        _ => SeekTo::Offset(lane.committed + dice.roll(5)),
    };
    _ = group.seek(partition, to); // its own group may be gone by now
}

impl Hand {
    fn for_records(mut self) -> impl FnMut(&Record<'_, Payload>) -> Outcome + Send + 'static {
        move |record| {
            let place = self.places.clone();
            let place = &place[record.partition() as usize];
            self.enter(place);
            let outcome = self.judge(place, record);
            place.busy.store(false, Relaxed);
            match outcome {
                Some(outcome) => outcome,
                None => std::panic::panic_any(Worked),
            }
        }
    }

    fn for_batches(mut self) -> impl FnMut(&Batch<'_, Payload>) -> BatchOutcome + Send + 'static {
        move |batch| {
            let place = self.places.clone();
            let place = &place[batch.partition() as usize];
            self.enter(place);
            let mut result = BatchOutcome::after(batch.len(), Outcome::Ack);
            for (done, record) in batch.iter().enumerate() {
                match self.judge(place, &record) {
                    Some(Outcome::Ack) => {}
                    other => {
                        result = BatchOutcome::after(done, other.unwrap());
                        break;
                    }
                }
            }
            place.busy.store(false, Relaxed);
            result
        }
    }

    fn enter(&mut self, place: &Place) {
        assert!(!place.busy.swap(true, Relaxed), "one partition in two hands");
    }

    /// What the handler says; `None`: it panics.
    fn judge(&mut self, place: &Place, record: &Record<'_, Payload>) -> Option<Outcome> {
        record.assert_whole();
        if self.storming.load(Relaxed) {
            self.interfere();
        }
        let (outcome, over) = self.decide(record.attempt());
        {
            let mut seen = place.seen.lock().unwrap();
            let known = *seen.ids.entry(record.offset()).or_insert(record.id);
            assert_eq!(known, record.id, "the same record each time");
            if !self.seeks && !record.is_redriven() {
                assert_eq!(record.offset(), seen.next + record.lost_before(), "in order, without a hole");
                if over {
                    seen.next = record.offset() + 1; // until then it is told as well what is missing before it
                }
            }
        }
        match outcome {
            Some(Outcome::Ack) => _ = place.acks.fetch_add(1, Relaxed),
            _ if over => _ = place.given_up.fetch_add(1, Relaxed),
            _ => {}
        }
        record.assert_whole();
        outcome
    }

    /// An outcome, and whether the record is done with it.
    fn decide(&mut self, attempt: u32) -> (Option<Outcome>, bool) {
        let last = attempt >= ATTEMPTS;
        match self.dice.roll(30) {
            0 => (Some(Outcome::reject("rejected")), true),
            1..=3 => (Some(Outcome::retry("failed")), last),
            4 => (Some(Outcome::retry_after(Duration::from_micros(100), "later")), last),
            5 if self.may_panic => (None, last),
            _ => (Some(Outcome::Ack), true),
        }
    }

    /// What a handler has no business to do.
    fn interfere(&mut self) {
        match self.dice.roll(60) {
            0 if self.seeks => seek(&self.group, self.places.len() as u64, &mut self.dice),
            4 | 5 if self.redrives => letters(&self.group, &self.ledger, &mut self.dice),
            1 => {
                self.group.pause();
                self.group.resume();
            }
            2 => drop((self.group.stats(), self.group.letters(), self.group.describe(), self.group.offsets())),
            3 => (0..self.dice.roll(200)).for_each(|_| thread::yield_now()),
            _ => {}
        }
    }
}
