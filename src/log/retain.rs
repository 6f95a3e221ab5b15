//! What a partition keeps, and for whom.
//!
//! | retain    | while there are groups                    | while there is none                                        |
//! |-----------|-------------------------------------------|------------------------------------------------------------|
//! | `Backlog` | the slowest group gates                   | a gate of the partition's own stands at the earliest record |
//! | `Recent`  | the slowest group gates                   | nothing gates; records stay until they are overwritten      |
//! | `Unacked` | the slowest group gates; what all have committed is gone | nothing gates and nothing is kept            |
//!
//! Where the oldest record goes when the partition is full nothing gates: groups follow, and `Backlog` is `Recent`.
//! `Unacked` is a prompt ring: what nobody wants any more is dropped at once (the ring's `release` says by whom). Its
//! destructors run outside the lock below, as whatever moves a gate sweeps only afterwards.
//!
//! The partition's own gate joins before the last group's leaves, and leaves after the first group's has joined, so that
//! `Backlog` is never ungated in between.
#![forbid(unsafe_code)]

use super::losses::Losses;
use crate::{
    ring::{Gate, Gating, Ring, Start},
    seq::Seq,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        lock,
    },
};
use std::{collections::BTreeMap, fmt};

/// What a partition keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retain {
    /// Everything from the earliest record on, also before the first group comes and after the last has gone: then the
    /// partition fills up and producers wait.
    Backlog,
    /// What has not been overwritten. Without a group nothing holds producers back.
    #[default]
    Recent,
    /// What some group has not committed yet. Without a group nothing is kept: offsets are used up all the same.
    ///
    /// The value of a record is dropped as soon as every group is past it, on the thread by which that came about: that of
    /// the last group to commit it, mostly; of whoever moved, ended or deleted the last group that wanted it; of whoever
    /// noticed that it is too old; and of the publisher where no group is there to want it, or where the topic drops its
    /// oldest and the publisher needs the memory of what was overwritten. What a handler has in hand while its group is taken away from under
    /// it is dropped when it returns, and so is what lies behind that on the same page. A destructor that panics is
    /// contained; one that blocks holds up the thread it runs on and nobody else.
    Unacked,
}

/// The tag of a gate that belongs to the partition itself. Groups use smaller ones.
pub(super) const OWN: u64 = u64::MAX;

/// The gates of a partition.
///
/// | label       | operation          | order   | why this much, and why no more                                               |
/// |-------------|--------------------|---------|------------------------------------------------------------------------------|
/// | set_listening:A | `listening.store`  | Relaxed | under the lock; says who was there, carries nothing                          |
/// | kept:A      | `listening.load`   | Relaxed | a join that happened before the publish is seen by coherence; one at the same moment may go either way, and the docs of `kept` say so |
pub(super) struct Gates {
    pub(super) retain: Retain,
    /// 0: no group. Otherwise one more than the offset where the first of the present groups came in.
    listening: AtomicU64,
    pub(super) gates: Mutex<Members>,
}

#[derive(Default)]
pub(super) struct Members {
    /// By the numbers under which they came in.
    pub(super) groups: BTreeMap<u64, Member>,
    own: Option<Arc<Gate>>,
    pub(super) losses: Losses,
    /// While there is no group: from here on nobody has needed what is overwritten.
    pub(super) alone: Option<Seq>,
}

/// A group's gate, and how much of what producers lifted it over has been settled.
pub(super) struct Member {
    pub(super) gate: Arc<Gate>,
    pub(super) lifted: u64,
}

impl Gates {
    /// The gates of a fresh partition.
    pub(super) fn new<T: Send + Sync + 'static>(retain: Retain, ring: &Ring<T>) -> Self {
        let retain = if ring.is_lossy() && retain == Retain::Backlog { Retain::Recent } else { retain };
        let own = (retain == Retain::Backlog).then(|| ring.join(Start::Earliest, OWN));
        let alone = (ring.is_lossy() && retain != Retain::Unacked).then(|| ring.earliest());
        let members = Members { own, alone, ..Members::default() };
        Self { retain, listening: AtomicU64::new(0), gates: Mutex::new(members) }
    }

    /// Whether the first of `count` records just stored from `offset` on is kept for anybody. What is not is dropped here.
    #[inline]
    pub(super) fn kept<T: Send + Sync + 'static>(&self, ring: &Ring<T>, offset: Seq, count: u64) -> bool {
        if self.retain != Retain::Unacked {
            return true;
        }
        ring.published(offset, count);
        // ORD(kept:A) Relaxed: see the table.
        match self.listening.load(Ordering::Relaxed) {
            0 => false,
            since => !offset.precedes(Seq::new(since - 1)),
        }
    }

    /// The earliest record that is kept.
    pub(super) fn earliest<T: Send + Sync + 'static>(&self, ring: &Ring<T>) -> Seq {
        match (self.retain, ring.slowest()) {
            (Retain::Unacked, Some(slowest)) => ring.earliest().later(slowest),
            (Retain::Unacked, None) => ring.end(),
            _ => ring.earliest(),
        }
    }

    /// Where `want` may begin: nothing that is gone comes back.
    fn clamp<T: Send + Sync + 'static>(&self, ring: &Ring<T>, want: Start) -> Start {
        match (self.retain, want) {
            (Retain::Unacked, Start::Earliest) => Start::At(self.earliest(ring)),
            (Retain::Unacked, Start::At(at)) => Start::At(at.later(self.earliest(ring))),
            _ => want,
        }
    }

    pub(super) fn join<T: Send + Sync + 'static>(
        &self,
        ring: &Ring<T>,
        want: Start,
        tag: u64,
        gating: Option<Gating>,
    ) -> Arc<Gate> {
        let mut members = lock(&self.gates);
        let want = self.clamp(ring, want);
        let own = if ring.is_lossy() { Gating::Follows } else { Gating::Uncommitted };
        let gate = ring.admit(want, tag, gating.unwrap_or(own));
        if members.groups.is_empty() {
            self.set_listening(gate.position().get().saturating_add(1));
        }
        if let Some(since) = members.alone.take() {
            members.settle(ring, since, gate.position());
        }
        members.groups.insert(gate.number(), Member { gate: gate.clone(), lifted: 0 });
        if let Some(own) = members.own.take() {
            ring.leave(&own);
        }
        gate
    }

    fn set_listening(&self, since: u64) {
        // ORD(set_listening:A) Relaxed: see the table.
        self.listening.store(since, Ordering::Relaxed);
    }

    /// False if the gate had left already.
    pub(super) fn leave<T: Send + Sync + 'static>(&self, ring: &Ring<T>, gate: &Gate) -> bool {
        let mut members = lock(&self.gates);
        if !members.groups.contains_key(&gate.number()) {
            return false;
        }
        members.tidy(ring); // what this one was lifted over
        members.groups.remove(&gate.number());
        if members.groups.is_empty() {
            if self.retain == Retain::Backlog {
                members.own = Some(ring.join(Start::Earliest, OWN));
            }
            self.set_listening(0);
        }
        ring.leave(gate);
        self.left(&mut members, ring, gate.position());
        true
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gates").field("retain", &self.retain).finish_non_exhaustive()
    }
}
