//! The gates' side of what is lost: joins, moves and departures settle what their group had not had.
#![forbid(unsafe_code)]

use super::{
    Gap, Missed, Relocated,
    age::Patience,
    retain::{Gates, Members, Retain},
};
use crate::{
    ring::{Fenced, Gate, Ring},
    seq::Seq,
    sync::lock,
};
use std::ops::Range;

/// The offsets of `from..to`.
fn range(from: Seq, to: Seq) -> Range<u64> {
    from.get()..to.get()
}

impl Members {
    /// What is gone and not settled: from the furthest group back, or while there is none since the last one left, to
    /// the earliest record.
    fn owed(&self, earliest: Seq) -> Range<u64> {
        let furthest = self.groups.values().map(|member| member.gate.taken()).reduce(Seq::earlier);
        furthest.or(self.alone).map_or(0..0, |from| range(from, earliest))
    }

    /// Settles what producers took cursors over, forgets what nobody will ask for, and says where the log begins.
    pub(super) fn tidy<T: Send + Sync + 'static>(&mut self, ring: &Ring<T>) -> Seq {
        let earliest = ring.earliest();
        if !ring.sheds() {
            return earliest;
        }
        for member in self.groups.values_mut() {
            let (lifted, to) = member.gate.lifted();
            let fresh = lifted - std::mem::replace(&mut member.lifted, lifted);
            if fresh > 0 && ring.is_lossy() {
                self.losses.lose(range(to.minus(fresh), to));
            }
        }
        let furthest = self.groups.values().map(|member| member.gate.position()).reduce(Seq::earlier);
        let owed = if ring.is_lossy() { self.owed(earliest) } else { 0..0 };
        if furthest.is_none() && !owed.is_empty() {
            self.losses.lose(owed.clone());
            self.alone = Some(earliest);
        }
        self.losses.tidy(furthest.unwrap_or(earliest).get(), owed);
        earliest
    }

    /// A group has come, or goes on, past what is gone up to `to`.
    pub(super) fn settle<T: Send + Sync + 'static>(&mut self, ring: &Ring<T>, from: Seq, to: Seq) {
        if ring.is_lossy() {
            self.losses.lose(range(from, to.earlier(ring.earliest())));
        }
        self.tidy(ring);
    }
}

impl Gates {
    /// Moves `gate` over `gap` and settles it.
    pub(super) fn pass<T: Send + Sync + 'static>(
        &self,
        ring: &Ring<T>,
        gate: &Gate,
        epoch: u32,
        gap: &Gap,
    ) -> Result<(), Fenced> {
        let mut members = lock(&self.gates);
        gate.commit(epoch, gap.from, gap.to)?;
        members.settle(ring, gap.from, gap.to);
        Ok(())
    }

    /// Moves `gate` to `want`, or as near as what is kept allows; if `from` says so, only from there.
    pub(super) fn relocate<T: Send + Sync + 'static>(
        &self,
        ring: &Ring<T>,
        gate: &Gate,
        from: Option<Seq>,
        want: Seq,
    ) -> Result<Relocated, Fenced> {
        let mut members = lock(&self.gates);
        let moved = ring.seek_from(gate, from, want.later(self.earliest(ring)))?;
        let missed = members.losses.missed(&range(moved.from, moved.to.earlier(ring.earliest())));
        members.settle(ring, moved.from, moved.to);
        Ok(Relocated { moved, missed })
    }

    /// What was retained before `to` is too old. Whether there was any; `None` if somebody was busy and was not waited for.
    pub(super) fn forget<T: Send + Sync + 'static>(&self, ring: &Ring<T>, to: Seq, patience: Patience) -> Option<bool> {
        let mut members = match patience {
            Patience::Waits => lock(&self.gates),
            Patience::Leaves => self.gates.try_lock().ok()?,
        };
        // A record may be marked and not be counted in the end yet: its turn comes when its publish notes it.
        let to = to.earlier(ring.end());
        // As of now: what was overwritten or done with while somebody looked at its age is not retained any more.
        let from = self.earliest(ring);
        if !from.precedes(to) {
            return Some(false);
        }
        members.losses.expire(range(from, to));
        ring.raise_floor(to);
        members.tidy(ring);
        Some(true)
    }

    /// Where the group stands that is furthest behind, if there is one.
    pub(super) fn low_water(&self) -> Option<Seq> {
        lock(&self.gates).groups.values().map(|member| member.gate.position()).reduce(Seq::earlier)
    }

    /// Why what of `from..to` is gone is.
    pub(super) fn missed<T: Send + Sync + 'static>(&self, ring: &Ring<T>, from: Seq, to: Seq) -> Missed {
        lock(&self.gates).losses.missed(&range(from, to.earlier(ring.earliest())))
    }

    /// How many records were dropped, and how many expired.
    pub(super) fn lost<T: Send + Sync + 'static>(&self, ring: &Ring<T>) -> (u64, u64) {
        if !ring.sheds() {
            return (0, 0);
        }
        let mut members = lock(&self.gates);
        let earliest = members.tidy(ring);
        let owed = if ring.is_lossy() { members.owed(earliest) } else { 0..0 };
        (members.losses.dropped_with(&owed), members.losses.all_expired())
    }

    /// A group has left, its cursor at `at`. Nobody needs what comes from now on, if it was the last one.
    pub(super) fn left<T: Send + Sync + 'static>(&self, members: &mut Members, ring: &Ring<T>, at: Seq) {
        if ring.is_lossy() {
            let earliest = ring.earliest();
            members.losses.lose(range(at, earliest));
            if members.groups.is_empty() && self.retain != Retain::Unacked {
                members.alone = Some(at.later(earliest));
            }
        }
        members.tidy(ring);
    }
}
