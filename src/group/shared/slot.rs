//! A member's hand on one lane, and what it takes with it.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::claims::share;
use super::super::context::Id;
use super::super::lane::{Held, Lane};
use super::super::roster::Member;
use super::super::word::Word;
use super::Shared;
use super::hand::Hand;
use super::keyed::keyed;
use super::settle::{Given, Work};
use crate::log::Read;
use crate::ring::Reader;
use crate::sync::Arc;

/// One lane.
pub(super) struct Slot<T> {
    pub(super) lane: Arc<Lane<T>>,
    pub(super) reader: Reader<T>,
    pub(super) hand: Arc<Hand>,
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
}

impl<T: Send + Sync + 'static> Slot<T> {
    pub(super) fn new(lane: &Arc<Lane<T>>, member: &Member, executor: Id) -> Self {
        let hand = Hand::new(member.id, member.name.clone(), executor);
        let unwanted = !member.only.is_empty() && !member.only.contains(&lane.partition);
        if let Some(shared) = lane.shared.as_ref().filter(|_| !unwanted) {
            shared.join(&hand);
        }
        let reader = lane.log.reader(lane.gate.position()).covered_by(lane.gate.clone());
        let (seen, lane) = (lane.word.load(), lane.clone());
        Slot { lane, reader, hand, held: None, seen, unwanted, gone: false, chunk: 1, fresh_next: false }
    }

    pub(super) fn work<'a>(&'a self, group: &'a Group<T>) -> Option<Work<'a, T>> {
        Some(Work { group, lane: &self.lane, shared: self.lane.shared.as_deref()? })
    }

    pub(super) fn shared(&self) -> Option<&Shared> {
        self.lane.shared.as_deref()
    }
}

/// Claims a record that was given back and is due.
pub(super) fn again<T: Send + Sync + 'static>(group: &Group<T>, slot: &mut Slot<T>) -> Option<Given> {
    let Shared { claims, failed, .. } = slot.lane.shared.as_deref()?;
    if !failed.any() {
        return None;
    }
    let (claim, failures) = failed.take(claims, group.clock.now())?;
    slot.reader.jump(claim.first());
    Some(Given { claim, failures, again: true })
}

/// Claims a run of records that nobody has had in hand.
pub(super) fn fresh<T: Send + Sync + 'static>(group: &Group<T>, slot: &mut Slot<T>, most: usize) -> Option<Given> {
    let Slot { lane, reader, .. } = slot;
    let shared = lane.shared.as_deref()?;
    if let Some(key) = &group.key {
        return keyed(group, slot, key, most);
    }
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
        if let Some(claim) = shared.claims.claim(place, len) {
            return Some(Given { claim, failures: 0, again: false });
        }
        reader.put_down();
    }
}
