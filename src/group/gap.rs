//! A gap: records that went before a group had read them, as its members hear of it.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::contain;
use super::lane::{Held, Lane};
use super::overflow::is_in_hand;
use super::word::Word;
use crate::log;
use crate::sync::Arc;
use std::fmt;

/// Records that a group lost, in the place where they are missing.
///
/// A hook of the group hears of it ([`GroupConfig::on_gap`](crate::GroupConfig::on_gap)) before the next record is handed
/// over, and that record says how many are missing before it ([`Record::lost_before`](crate::Record::lost_before)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The partition.
    pub partition: u32,
    /// The first offset that is missing: where the group stood.
    pub from: u64,
    /// The offset behind the last that is missing: where the group goes on.
    pub to: u64,
    /// How many of them were overwritten because the topic was full.
    pub overwritten: u64,
    /// How many of them were older than the topic allows.
    pub expired: u64,
    /// How many of them went because too many waited, by the group's [own rule](crate::GroupConfig::overflow).
    pub dropped: u64,
    /// How many of them were passed over because the group wants the [latest](crate::Overflow::latest) only.
    pub conflated: u64,
}

impl Gap {
    /// How many records are missing, for whatever reason.
    pub fn lost(&self) -> u64 {
        self.to - self.from
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gap { topic, group, partition, from, to, overwritten, expired, dropped, conflated } = self;
        let lost = self.lost();
        let records = if lost == 1 { "record" } else { "records" };
        write!(
            f,
            "{topic}/{partition}: {group} lost {lost} {records}, offsets {from} to {}: {overwritten} overwritten, {expired} expired",
            to.saturating_sub(1)
        )?;
        match (dropped, conflated) {
            (0, 0) => Ok(()),
            (_, 0) => write!(f, ", {dropped} dropped by its own overflow"),
            (0, _) => write!(f, ", {conflated} conflated"),
            (_, _) => write!(f, ", {dropped} dropped by its own overflow, {conflated} conflated"),
        }
    }
}

/// Records went before the lane had read them: it takes in hand what comes behind them, commits over them, counts, and tells
/// who wants to hear of it. In that order: a producer that is faster than all this would else take the next ones as well, and
/// the lane would be told of losses for ever. Says how many it has in hand, if it may go on with them.
#[cold]
pub(super) fn behind<T: Send + Sync + 'static>(
    group: &Group<T>,
    lane: &Lane<T>,
    seen: Word,
    held: &mut Held<T>,
    gap: log::Gap,
    most: usize,
) -> Option<usize> {
    // Of what was in hand and is gone, the group's own rule was not asked what comes next.
    let unasked = lane.own.is_some() && is_in_hand(held);
    let mut len = held.reach(gap.to, most);
    if !lane.pass(held.epoch, &gap) {
        held.resync(&lane.gate);
        return None;
    }
    held.passed(&gap);
    if len == 0 {
        // Where nothing is shown but to the cursor, it had to come here first.
        len = held.reach(gap.to, most);
    }
    lane.gate.take(gap.to.plus(len as u64), held.epoch);
    group.progress.notify();
    group.tell(lane.partition, &gap);
    // What lies behind a gap that was found by reading may have a later one of its key: that is to be asked first.
    let chosen = held.conflater.as_ref().is_none_or(|conflater| conflater.chose(gap.to));
    (len > 0 && chosen && !unasked && !lane.word.differs(seen)).then_some(len)
}

/// Who wants to hear of an event: user code, run under no lock.
pub(super) struct Hook<E>(Arc<dyn Fn(&E) + Send + Sync>);

impl<E> Hook<E> {
    pub(super) fn new(hook: impl Fn(&E) + Send + Sync + 'static) -> Self {
        Hook(Arc::new(hook))
    }

    /// Calls the hook; its panic stops here.
    pub(super) fn tell(&self, event: &E) {
        let _ = contain(|| (self.0)(event));
    }

    pub(super) fn same(one: Option<&Self>, other: Option<&Self>) -> bool {
        match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(&one.0, &other.0),
            _ => false,
        }
    }
}

impl<E> Clone for Hook<E> {
    fn clone(&self) -> Self {
        Hook(self.0.clone())
    }
}

impl<E> fmt::Debug for Hook<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("with a function")
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Gap;

    #[test]
    fn a_gap_says_where_and_how_many_and_why() {
        let (topic, group) = ("orders".into(), "billing".into());
        let gap =
            Gap { topic, group, partition: 2, from: 3, to: 8, overwritten: 4, expired: 1, dropped: 0, conflated: 0 };
        assert_eq!(gap.lost(), 5);
        assert_eq!(gap.to_string(), "orders/2: billing lost 5 records, offsets 3 to 7: 4 overwritten, 1 expired");
        let own = Gap { overwritten: 0, dropped: 4, ..gap.clone() };
        assert!(own.to_string().ends_with("offsets 3 to 7: 0 overwritten, 1 expired, 4 dropped by its own overflow"));
        let one = Gap { to: 4, overwritten: 0, ..gap };
        assert_eq!(one.to_string(), "orders/2: billing lost 1 record, offsets 3 to 3: 0 overwritten, 1 expired");
    }
}
