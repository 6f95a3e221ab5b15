//! A lane as tasks, controls and the timer treat it: the real word and the real cursor, and what is parked between them.
#![allow(dead_code)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;
use ringlog::internals::{
    group::watched::Watched,
    group::word::{LaneWord, MemberId, Word},
    ring::{Gate, Options, Producers, Ring, Start},
    seq::{Capacity, Seq},
};

/// What travels with a lane. The cell stands for the reader, which is one thread's at a time.
pub(crate) struct Held {
    pub(crate) next: Seq,
    pub(crate) epoch: u32,
    pub(crate) calls: UnsafeCell<u64>,
}

pub(crate) struct Lane {
    pub(crate) word: LaneWord,
    pub(crate) gate: Arc<Gate>,
    pub(crate) ring: Ring<u64>,
    pub(crate) parked: Mutex<Option<Box<Held>>>,
    /// What is in a handler's hands under the lease.
    pub(crate) watch: Watched,
    /// Under the roster's lock: whether member 1 hangs.
    pub(crate) hung: Mutex<bool>,
}

pub(crate) fn member(n: u32) -> MemberId {
    MemberId::new(n).unwrap()
}

/// A lane of two records, both there, that belongs to member 1.
pub(crate) fn lane() -> Arc<Lane> {
    let ring = Ring::with_spares(Options::new(Capacity::new(2).unwrap(), Producers::Exclusive), 0).unwrap();
    let gate = ring.join(Start::Earliest, 1);
    let mut pen = ring.exclusive().unwrap();
    (0..2).for_each(|n| pen.try_push(n).map(drop).unwrap());
    let (next, epoch) = gate.snapshot();
    let parked = Mutex::new(Some(Box::new(Held { next, epoch, calls: UnsafeCell::new(0) })));
    let word = LaneWord::default();
    word.retarget(member(1)).unwrap();
    let (watch, hung) = (Watched::new(gate.clone()), Mutex::new(false));
    Arc::new(Lane { word, gate, ring, parked, watch, hung })
}

impl Lane {
    /// As a task takes a lane: the word, the state, where the cursor is now; and the word again, for an end in between.
    pub(crate) fn take(&self, me: MemberId) -> Option<(Word, Box<Held>)> {
        let seen = self.word.take(me).ok()?;
        let mut held = self.parked.lock().unwrap().take().expect("a free lane's state is parked");
        (held.next, held.epoch) = self.gate.snapshot();
        if self.word.load().is_ended() {
            self.let_go(me, held);
            return None;
        }
        Some((seen, held))
    }

    /// False: it was seized, and what `me` has of it is of no use.
    pub(crate) fn let_go(&self, me: MemberId, held: Box<Held>) -> bool {
        let mut parked = self.parked.lock().unwrap();
        let word = self.word.let_go(me);
        if word.is_ok_and(|word| !word.is_ended()) {
            assert!(parked.is_none(), "somebody else's state is there");
            *parked = Some(held);
        }
        word.is_ok()
    }

    /// Hands over one record and commits it; false if the commit was refused.
    pub(crate) fn deliver(&self, held: &mut Held) -> bool {
        // SAFETY: loom's cell: it fails the model if another thread's access is not ordered with this one.
        held.calls.with_mut(|calls| unsafe { *calls += 1 });
        let to = held.next.plus(1);
        let stored = self.gate.commit(held.epoch, held.next, to).is_ok();
        if stored {
            held.next = to;
        }
        stored
    }

    /// As the dealer; refused as long as its holder may still be taking it, or has something in hand that is not over.
    pub(crate) fn seize(&self, from: MemberId, to: MemberId) -> bool {
        self.watch.seize(|| self.seize_anyway(from, to))
    }

    /// As that, whatever is in hand.
    pub(crate) fn seize_anyway(&self, from: MemberId, to: MemberId) -> bool {
        let mut parked = self.parked.lock().unwrap();
        let seized = parked.is_none() && self.word.seize(from, to).is_ok();
        if seized {
            let (next, epoch) = self.gate.snapshot();
            *parked = Some(Box::new(Held { next, epoch, calls: UnsafeCell::new(0) }));
        }
        seized
    }
}

pub(crate) fn spawn<R: 'static>(lane: &Arc<Lane>, actor: impl FnOnce(&Lane) -> R + 'static) -> thread::JoinHandle<R> {
    let lane = lane.clone();
    thread::spawn(move || actor(&lane))
}
