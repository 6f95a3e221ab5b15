//! A member's hand on one lane, and what it takes with it.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::claims::share;
use super::super::context::Id;
use super::super::home::Home;
use super::super::lane::{Held, Lane};
use super::super::roster::Member;
use super::super::word::Word;
use super::Shared;
use super::hand::{Grasp, Hand};
use super::keyed::keyed;
use super::settle::{Given, Work};
use crate::log::Read;
use crate::ring::Reader;
use crate::sync::Arc;
use crate::time::Time;
use std::time::Duration;

/// One lane.
pub(super) struct Slot<T> {
    pub(super) lane: Arc<Lane<T>>,
    pub(super) reader: Reader<T>,
    pub(super) hand: Arc<Hand>,
    /// What its records have in common, where they have a lease.
    pub(super) home: Option<Home>,
    /// The lane's state, of which only the letters are served: if it was dealt to us.
    pub(super) held: Option<Box<Held<T>>>,
    /// The word as we last acted on it.
    pub(super) seen: Word,
    /// The member does not want this partition.
    pub(super) unwanted: bool,
    /// It has been found that the member has left.
    pub(super) gone: bool,
    /// How many records are handed over between two looks at the clock.
    pub(super) chunk: usize,
    /// Whether it is the turn of fresh records.
    pub(super) fresh_next: bool,
    /// The runs of others as they were seen, and when to look whether they still are.
    pub(super) eyed: Eyed,
}

impl<T: Send + Sync + 'static> Slot<T> {
    pub(super) fn new(group: &Group<T>, lane: &Arc<Lane<T>>, member: &Member, executor: Id) -> Self {
        let hand = Hand::new(member.id, member.name.clone(), member.left.clone(), executor);
        let unwanted = !member.only.is_empty() && !member.only.contains(&lane.partition);
        if let Some(shared) = lane.shared.as_ref().filter(|_| !unwanted) {
            shared.join(&hand);
        }
        let reader = lane.log.reader(lane.gate.position()).covered_by(lane.gate.clone());
        let grasp = || Grasp::new(hand.clone(), lane.gate.clone(), group.clock.clone());
        let home = group.lease().map(|_| group.home.grasped(grasp()));
        let (seen, lane, eyed) = (lane.word.load(), lane.clone(), Eyed::default());
        Slot { lane, reader, hand, home, held: None, seen, unwanted, gone: false, chunk: 1, fresh_next: false, eyed }
    }

    pub(super) fn work<'a>(&'a self, group: &'a Group<T>) -> Option<Work<'a, T>> {
        Some(Work { group, lane: &self.lane, shared: self.lane.shared.as_deref()? })
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        self.lane.shared.as_deref()
    }
}

/// Whether it is worth while to reach for something.
pub(super) fn may_claim<T: Send + Sync + 'static>(lane: &Lane<T>) -> bool {
    lane.shared.as_deref().is_some_and(|shared| shared.failed.any() || has_fresh(lane, shared))
}

/// Whether there are records that nobody has had in hand.
pub(super) fn has_fresh<T: Send + Sync + 'static>(lane: &Lane<T>, shared: &Shared) -> bool {
    !shared.failed.stays() && shared.claims.upcoming().is_some_and(|place| place.at().precedes(lane.log.end()))
}

/// Who reaches for something: with which reader and hand, and the word as it was seen behind that.
pub(super) struct Reaches<'a, T> {
    pub(super) lane: &'a Lane<T>,
    pub(super) reader: &'a mut Reader<T>,
    pub(super) hand: &'a Hand,
    pub(super) seen: Word,
}

/// Claims a record that was given back and is due; with the time, read before. The clock is the user's.
pub(super) fn again<T: Send + Sync + 'static>(
    group: &Group<T>,
    Reaches { lane, reader, .. }: &mut Reaches<'_, T>,
) -> Option<(Given, Time)> {
    let Shared { claims, failed, .. } = lane.shared.as_deref()?;
    if !failed.any() {
        return None;
    }
    let now = group.clock.now();
    let (claim, failures) = failed.take(claims, now)?;
    reader.jump(claim.first());
    Some((Given { claim, failures, again: true }, now))
}

/// Claims a run of records that nobody has had in hand; with the time, read before, if anybody looks at it.
pub(super) fn fresh<T: Send + Sync + 'static>(
    group: &Group<T>,
    reaches: &mut Reaches<'_, T>,
    most: usize,
) -> Option<(Given, Time)> {
    if let Some(key) = &group.key {
        return keyed(group, reaches, key, most);
    }
    let Reaches { lane, reader, .. } = reaches;
    let shared = lane.shared.as_deref()?;
    loop {
        let place = shared.claims.upcoming()?;
        if reader.position() != place.at() {
            reader.jump(place.at());
        }
        let ready = lane.log.end().lag_behind(place.at());
        let most = share(ready, shared.members(), most.min(group.longest_run()));
        // Read first, so that its page is held when it is claimed.
        let Read::Ready(run) = lane.log.read(reader, most) else { return None };
        let len = run.len();
        let now = group.time_of_claim();
        if let Some(claim) = shared.claims.claim(place, len) {
            return Some((Given { claim, failures: 0, again: false }, now));
        }
        reader.put_down();
    }
}

/// So long whoever takes a run may keep what it has not begun of it from others who have nothing to do.
const PATIENCE: Duration = Duration::from_millis(1);

/// Runs in the hands of others, and since when they have been seen by somebody who has nothing to do.
#[derive(Debug, Default)]
pub(super) struct Eyed(Vec<(u32, Time)>);

impl Eyed {
    /// Of the runs of others, `None` if the number is not known yet: those that have been there for long enough; and when to look again.
    pub(super) fn look(&mut self, runs: &[Option<u32>], now: Time) -> (Vec<u32>, Option<Time>) {
        self.0.retain(|(seen, _)| runs.contains(&Some(*seen)));
        for run in runs.iter().flatten() {
            if self.0.iter().all(|(seen, _)| seen != run) {
                self.0.push((*run, now));
            }
        }
        let is_old = |since: Time| since.after(PATIENCE) <= now;
        let old = self.0.iter().filter(|(_, since)| is_old(*since)).map(|(run, _)| *run).collect();
        let unknown = runs.contains(&None).then_some(now);
        let others = self.0.iter().map(|(_, since)| *since).filter(|since| !is_old(*since));
        (old, others.chain(unknown).min().map(|since| since.after(PATIENCE)))
    }
}
