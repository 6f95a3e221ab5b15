//! Claiming in the order of keys.
#![forbid(unsafe_code)]

use super::super::Group;
use super::super::claims::{RUN, share};
use super::super::contain::contain;
use super::super::group::KeyOf;
use super::super::outcome::Failure;
use super::failed::Deal;
use super::keys::number;
use super::settle::{Given, Work};
use super::slot::Reaches;
use crate::log::Read;
use crate::seq::Seq;
use crate::time::Time;

/// The kind of the failure of a record that was buried because too many wait behind one of its key that has failed.
const BEHIND: &str = "behind";

/// The keys of some records, as numbers.
struct Learned {
    from: Seq,
    numbers: [u64; RUN],
    len: usize,
}

/// Asks for the keys of the records from `from` on that are there: user code.
fn learn<T: Send + Sync + 'static>(
    group: &Group<T>,
    reaches: &mut Reaches<'_, T>,
    key: &KeyOf<T>,
    from: Seq,
) -> Option<Learned> {
    let Reaches { lane, reader, hand, .. } = reaches;
    let _here = group.enter_as(hand.executor);
    if reader.position() != from {
        reader.jump(from);
    }
    let Read::Ready(run) = lane.log.read(reader, RUN) else { return None };
    let (mut numbers, len) = ([0; RUN], run.len());
    for (to, value) in numbers.iter_mut().zip(run.iter()) {
        *to = number(contain(|| key(value)));
    }
    reader.put_down();
    Some(Learned { from, numbers, len })
}

/// Claims a run of records that nobody has had in hand, and of whose keys nothing is in hand or waits.
pub(super) fn keyed<T: Send + Sync + 'static>(
    group: &Group<T>,
    reaches: &mut Reaches<'_, T>,
    key: &KeyOf<T>,
    most: usize,
) -> Option<(Given, Time)> {
    let lane = reaches.lane;
    let shared = lane.shared.as_deref()?;
    let mut learned: Option<Learned> = None;
    loop {
        if shared.failed.stays() {
            return None;
        }
        let ready = lane.log.end().lag_behind(shared.claims.upcoming()?.at());
        let most = share(ready, shared.members(), most.min(group.longest_run()));
        let now = group.time_of_claim();
        let known = learned.take();
        let known = known.as_ref().map(|learned| (learned.from, &learned.numbers[..learned.len]));
        match shared.failed.deal(&shared.claims, most, known) {
            Deal::Hand(claim) => {
                reaches.reader.jump(claim.first());
                return Some((Given { claim, failures: 0, again: false }, now));
            }
            Deal::Unknown(from) => learned = Some(learn(group, reaches, key, from)?),
            Deal::Bury(claim) => {
                let why = "too many records wait behind one of its key that has failed";
                let (given, why) = (Given { claim, failures: 0, again: false }, Failure::of_kind(BEHIND, why));
                Work { group, lane, shared }.bury_behind(given, why, reaches.hand.executor);
            }
            Deal::More => {}
            Deal::Nothing => return None,
        }
        if lane.word.differs(reaches.seen) {
            return None;
        }
    }
}
