//! A lane whose records several members compete for: the real claims over a real ring and cursor.
#![allow(dead_code, reason = "each file that includes this uses a part of it")]

use loom::sync::Arc;
use loom::thread;
use ringlog::internals::{
    group::claims::{Claim, Claims, Stand},
    ring::{Exclusive, Gate, Options, Peek, Producers, Reader, Ring, Start},
    seq::{Capacity, Seq},
};

pub(crate) struct Lane {
    pub(crate) claims: Claims,
    pub(crate) gate: Arc<Gate>,
    pub(crate) ring: Ring<u64>,
}

/// A lane over a ring of two records, both of them there.
pub(crate) fn lane() -> Arc<Lane> {
    full(2).0
}

/// A lane over a full ring of `capacity` records, and its producer.
pub(crate) fn full(capacity: usize) -> (Arc<Lane>, Exclusive<u64>) {
    let ring = Ring::with_spares(Options::new(Capacity::new(capacity).unwrap(), Producers::Exclusive), 1).unwrap();
    let gate = ring.join(Start::Earliest, 1);
    let mut pen = ring.exclusive().unwrap();
    (0..capacity as u64).for_each(|n| pen.try_push(n).map(drop).unwrap());
    (Arc::new(Lane { claims: Claims::new(capacity as u64, gate.clone()), gate, ring }), pen)
}

pub(crate) fn spawn<R: 'static>(lane: &Arc<Lane>, actor: impl FnOnce(&Lane) -> R + 'static) -> thread::JoinHandle<R> {
    let lane = lane.clone();
    thread::spawn(move || actor(&lane))
}

impl Lane {
    /// Claims up to `most` of what is there, as a member does: its reader first.
    pub(crate) fn claim(&self, reader: &mut Reader<u64>, most: usize) -> Option<Claim> {
        let place = self.claims.upcoming()?;
        reader.jump(place.at());
        let Peek::Ready(run) = reader.peek(most) else { return None };
        let len = run.len();
        self.claims.claim(place, len)
    }

    pub(crate) fn done(&self, claim: Claim) -> u64 {
        let done = self.claims.settle(claim, |_| ());
        self.claims.advance();
        done
    }

    /// Does all that is left, as the only one; how many records that were.
    pub(crate) fn finish(&self) -> u64 {
        let end = self.ring.end();
        let (mut reader, mut done) = (self.ring.reader(self.gate.position()), 0);
        for at in 0..end.get() {
            if self.claims.stand(Seq::new(at)) == Stand::Pooled {
                done += self.done(self.claims.take_again(Seq::new(at), self.gate.epoch()).unwrap());
            }
        }
        while let Some(claim) = self.claim(&mut reader, 2) {
            done += self.done(claim);
        }
        assert_eq!((self.gate.position(), self.claims.pending(end)), (end, 0), "a record was left");
        done
    }
}
