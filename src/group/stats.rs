//! What lanes and groups count, as plain data.
#![forbid(unsafe_code)]

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The counters of one lane. They belong to the lane, not to a member, so they survive every change of members.
///
/// `acked`, `dead`, `retried` and `refused` have one writer at a time, the lane's holder; `replayed`, `skipped` and `expired`
/// are written under the lane's control lock. All are Relaxed: a reader may see one before another; the books are checked
/// only where holder and controls are quiet.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) acked: Count,
    pub(super) dead: Count,
    pub(super) retried: Count,
    pub(super) refused: Count,
    /// Acks of handlers that came back after their lease, when the lane may be another's already: shared.
    pub(super) late: Count,
    /// Under the lock of the lane's watch.
    pub(super) lapsed: Count,
    pub(super) replayed: Count,
    pub(super) skipped: Count,
    pub(super) expired: Count,
    /// By the group's own overflow; both under the control lock.
    pub(super) dropped: Count,
    pub(super) conflated: Count,
    /// The executor that steps the lane at this moment; 0: none. By the lane's holder.
    pub(super) serving: Count,
    /// 1 while that is with a letter that came back, not with the records at the cursor. By the lane's holder.
    pub(super) redriving: Count,
}

/// A counter with one writer at a time.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, n: u64) {
        // ORD(tally:A) Relaxed: a statistic; the one writer reads its own last store.
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// The same, of several writers.
    pub(super) fn add_shared(&self, n: u64) {
        // ORD(tally:D) Relaxed: a statistic.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn set(&self, n: u64) {
        // ORD(tally:C) Relaxed: a figure.
        self.0.store(n, Ordering::Relaxed);
    }

    /// Takes back what was added for something that then did not come to pass.
    pub(super) fn take_back(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    pub(super) fn get(&self) -> u64 {
        // ORD(tally:B) Relaxed: a statistic; nothing is read through it.
        self.0.load(Ordering::Relaxed)
    }
}

/// What members count who share a lane; added up with the lane's own counters.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) acked: Sum,
    pub(super) dead: Sum,
    pub(super) retried: Sum,
    pub(super) refused: Sum,
    pub(super) leases_expired: Sum,
    pub(super) stragglers: Sum,
}

/// A counter that several threads add to.
#[derive(Debug, Default)]
pub(super) struct Sum(AtomicU64);

impl Sum {
    pub(super) fn more(&self, n: u64) {
        // ORD(sum:A) Relaxed: a statistic; what is counted is published by who counts it.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        // ORD(sum:B) Relaxed: a statistic.
        self.0.load(Ordering::Relaxed)
    }
}

/// One partition as its group sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStats {
    /// The partition.
    pub partition: u32,
    /// Where the group began.
    pub start: u64,
    /// The next offset that is not yet done. Where records may be lost it can lie before the earliest that is retained:
    /// then the group has not noticed yet, and what is missing counts as lost already.
    pub committed: u64,
    /// Behind the last record.
    pub end: u64,
    /// Records done by a handler, or acknowledged by a consumer.
    pub acked: u64,
    /// Records buried.
    pub dead: u64,
    /// Further attempts that were scheduled, not records.
    pub retried: u64,
    /// Acks that came too late, after a seek or a delete or when a lease had expired, and changed nothing: so many records. Those that
    /// were acknowledged in time, by an earlier ack of a part of the batch or of a later one, are not among them, as far back as it is
    /// known: for what was handed out since the last 64 times that records of the partition came again or it changed hands.
    pub refused: u64,
    /// Records to be handed out again, because of a seek back or as redriven letters.
    pub replayed: u64,
    /// Records passed over by a seek forward, or lost to the group because they were overwritten; and redriven letters that
    /// were called back.
    pub skipped: u64,
    /// Records lost to the group because they became older than the topic allows.
    pub expired: u64,
    /// Records that went because too many [waited](crate::GroupConfig::overflow), the oldest first.
    pub dropped: u64,
    /// Records passed over because later ones were there, of a group that wants the [latest](crate::Overflow::latest) only.
    pub conflated: u64,
    /// Records that are not done yet: those in a handler's hands, those retained behind them, and letters queued to be handed
    /// over again.
    pub pending: u64,
    /// Of these the ones that wait: nobody has them in hand. In a group with an [overflow](crate::GroupConfig::overflow) of its own this
    /// is what is in its mailbox; in others what a handler has in hand may count as waiting.
    pub waiting: u64,
    /// Records from the cursor on that a [`Consumer`](crate::Consumer) was handed and has not settled: what is handed out next is
    /// `committed + in_flight`. In a group with [`Order::Shared`](crate::Order::Shared), records in handlers' hands; in other groups
    /// 0 where handlers do it.
    pub in_flight: u64,
    /// Records whose [lease](crate::GroupConfig::lease) expired, once for each time.
    pub leases_expired: u64,
    /// Records that are not done although later ones are: only in a group whose members share partitions. They hold the cursor back.
    pub stragglers: u64,
    /// Times that a record was taken from a handler by the group's [rule for stragglers](crate::GroupConfig::straggler): buried, or
    /// its member put out.
    pub stragglers_ended: u64,
    /// Reasons for which the partition is paused; 0 when it runs.
    pub paused: u8,
    /// Whether some member owns it.
    pub owned: bool,
}

impl LaneStats {
    /// Records that are not done yet.
    pub fn lag(&self) -> u64 {
        self.pending
    }

    /// Whether every record is accounted for: `(end - start) + replayed = acked + dead + skipped + expired + dropped + conflated +
    /// pending`. Exact only while nothing moves.
    pub fn balances(&self) -> bool {
        let came = (self.end - self.start) + self.replayed;
        let gone = self.skipped + self.expired + self.dropped + self.conflated;
        came == self.acked + self.dead + gone + self.pending
    }
}

/// A group in figures. What moved while they were read may show in one figure and not yet in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// The topic.
    pub topic: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// Its members' names, in join order.
    pub members: Vec<Arc<str>>,
    /// Its partitions.
    pub lanes: Vec<LaneStats>,
    /// Letters kept now.
    pub letters: usize,
    /// Letters that went because there was no room.
    pub letters_lost: u64,
    /// Times that its offsets, as far as they had changed, were saved in its store.
    pub saves: u64,
    /// Times that its store failed to save them.
    pub saves_failed: u64,
    /// Times that its [assignor](crate::Assignor) gave no answer that could be used, so that its partitions were dealt by turns
    /// instead.
    pub bad_deals: u64,
}

impl GroupStats {
    fn sum(&self, of: impl Fn(&LaneStats) -> u64) -> u64 {
        self.lanes.iter().map(of).sum()
    }

    /// Records done by a handler, or acknowledged by a consumer.
    pub fn acked(&self) -> u64 {
        self.sum(|lane| lane.acked)
    }

    /// Records buried.
    pub fn dead(&self) -> u64 {
        self.sum(|lane| lane.dead)
    }

    /// Further attempts that were scheduled.
    pub fn retried(&self) -> u64 {
        self.sum(|lane| lane.retried)
    }

    /// Acks that came too late.
    pub fn refused(&self) -> u64 {
        self.sum(|lane| lane.refused)
    }

    /// Records to be handed out again.
    pub fn replayed(&self) -> u64 {
        self.sum(|lane| lane.replayed)
    }

    /// Records passed over, or overwritten before the group had read them.
    pub fn skipped(&self) -> u64 {
        self.sum(|lane| lane.skipped)
    }

    /// Records that became too old before the group had read them.
    pub fn expired(&self) -> u64 {
        self.sum(|lane| lane.expired)
    }

    /// Records that went because too many waited.
    pub fn dropped(&self) -> u64 {
        self.sum(|lane| lane.dropped)
    }

    /// Records passed over for later ones.
    pub fn conflated(&self) -> u64 {
        self.sum(|lane| lane.conflated)
    }

    /// Records not done yet.
    pub fn lag(&self) -> u64 {
        self.sum(LaneStats::lag)
    }

    /// Records that are not done and in nobody's hand.
    pub fn waiting(&self) -> u64 {
        self.sum(|lane| lane.waiting)
    }

    /// Records that consumers were handed and have not settled.
    pub fn in_flight(&self) -> u64 {
        self.sum(|lane| lane.in_flight)
    }

    /// Records whose lease expired.
    pub fn leases_expired(&self) -> u64 {
        self.sum(|lane| lane.leases_expired)
    }

    /// Whether every partition's books balance.
    pub fn balances(&self) -> bool {
        self.lanes.iter().all(LaneStats::balances)
    }
}
