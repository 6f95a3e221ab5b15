//! Where cursors come in, are moved, and leave.
#![forbid(unsafe_code)]

use crate::ring::gate::Gating;
use crate::ring::gates::Joining;
use crate::ring::{Body, Fenced, Gate, Moved, Shared, Start};
use crate::seq::Seq;
use crate::sync::{Arc, lock};

impl<T: Send + Sync + 'static> Body<T> {
    /// Adds a gate, as near to where it is wanted as what is retained allows; `position()` says where. From there on its
    /// group misses nothing but what [`raise_floor`](Self::raise_floor) passes.
    pub fn join(&self, want: Start, tag: u64) -> Arc<Gate> {
        self.admit(want, tag, Gating::Uncommitted)
    }

    /// Adds a cursor that holds nobody back, where it is wanted as nearly as what is retained allows.
    pub fn follow(&self, want: Start, tag: u64) -> Arc<Gate> {
        self.admit(want, tag, Gating::Follows)
    }

    /// Adds a cursor that holds producers back as `gating` says, where it is wanted as nearly as what is retained allows. What
    /// has been promised to producers before, an eighth of the capacity at most, they may use all the same.
    pub fn admit(&self, want: Start, tag: u64, gating: Gating) -> Arc<Gate> {
        let at = match want {
            Start::At(seq) => self.within(seq),
            Start::End => self.end(),
            Start::Earliest => self.earliest(),
        };
        if gating == Gating::Follows {
            self.pages.overwrite();
        }
        let gate = self.change_gates(|joining| {
            let gate = Arc::new(Gate::new(at, (tag, joining.next()), self.tail.clone(), gating));
            joining.gates.add(&gate);
            gate
        });
        // Not below what is being dropped; and from its stamp on grants keep to the gate, up to it to what was retained before.
        let front = self.come_in();
        let kept = if gate.holds_back() { self.tail.seq(self.retained(self.stamp())).later(front) } else { front };
        if at.precedes(kept) {
            gate.lift(at, kept);
        }
        self.listen(at.later(kept));
        gate
    }

    /// Removes a gate: it holds nobody back any more, and commits in its epoch fail.
    pub fn leave(&self, gate: &Gate) {
        gate.go();
        gate.bump();
        self.change_gates(|joining| joining.gates.remove(gate));
    }

    /// Moves a gate, from any thread, in a new epoch; as near to where it is wanted as what is retained allows.
    pub fn seek(&self, gate: &Gate, want: Seq) -> Moved {
        match self.seek_from(gate, None, want) {
            Ok(moved) => moved,
            Err(Fenced { .. }) => unreachable!("moved from wherever it was"),
        }
    }

    /// The same, if `from` says so only from there: else nothing is moved.
    pub fn seek_from(&self, gate: &Gate, from: Option<Seq>, want: Seq) -> Result<Moved, Fenced> {
        if !gate.holds_back() && !self.is_prompt() {
            let to = self.within(want);
            return Ok(Moved { from: gate.widen(gate.force(from, to)?), to });
        }
        // Another takes the place first, so that from its first moment there what the moved one covers is retained: its owner
        // may commit in the new epoch at once.
        let place = self.admit(Start::At(want), gate.tag(), gate.gating());
        let to = place.position();
        let before = gate.force(from, to);
        self.leave(&place);
        Ok(Moved { from: gate.widen(before?), to })
    }

    /// The gate that holds producers back most: where it stands, or the floor if it stands further back; and its tag.
    pub fn limiting(&self) -> Option<(Seq, u64)> {
        self.tightest().map(|(gate, _)| (gate.position().later(self.floor_seq()), gate.tag()))
    }

    /// The gate that holds producers back most, and how many records it leaves room for. Of several the one that came last; of
    /// very many that leave no room, any.
    pub fn tightest(&self) -> Option<(Arc<Gate>, u64)> {
        let (end, floor, capacity) = (self.end(), self.floor_seq(), self.capacity().get());
        let room = |gate: &Gate| gate.room(end, floor, capacity).0;
        self.gates.read(|gates| {
            if let Some(gate) = self.producing.promise.narrowest.one_of_many(gates).filter(|gate| room(gate) == 0) {
                return Some((gate.clone(), 0));
            }
            let mut tightest: Option<(&Shared, u64)> = None;
            gates.each_gating(|gate| {
                let (room, number) = (room(gate), gate.number());
                if tightest.is_none_or(|(other, least)| room < least || room == least && number > other.number()) {
                    tightest = Some((gate, room));
                }
            });
            tightest.map(|(gate, room)| (gate.clone(), room))
        })
    }

    /// Whether no gate holds a producer of one record back.
    pub fn has_room(&self) -> bool {
        self.tightest().is_none_or(|(_, room)| room > 0)
    }

    /// Where the slowest cursor stands, whether it holds producers back or not.
    pub fn slowest(&self) -> Option<Seq> {
        let end = self.end();
        let mut slowest: Option<Seq> = None;
        self.gates.read(|gates| {
            gates.each(|gate| {
                let at = gate.read().widen(end);
                if slowest.is_none_or(|slowest| end.lag_behind(at) > end.lag_behind(slowest)) {
                    slowest = Some(at);
                }
            });
        });
        slowest
    }

    /// `want`, or the nearest offset retained.
    fn within(&self, want: Seq) -> Seq {
        let end = self.end();
        want.later(self.earliest()).earlier(end)
    }

    fn change_gates<R>(&self, change: impl FnOnce(&mut Joining) -> R) -> R {
        let mut joining = lock(&self.joining);
        let changed = change(&mut joining);
        if joining.gates.is_empty() {
            self.nobody_listens();
        }
        self.gates.replace(joining.gates.clone());
        changed
    }
}
