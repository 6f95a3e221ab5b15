//! Records that become too old: when, and up to where.
//!
//! A record is too old when its time, the clock's at the entry of the append and before any wait, is *earlier* than now
//! less the limit: one exactly as old as the limit stays. Only the earliest record retained is looked at, then the next.
//! The line that is drawn so (the ring's floor) never goes back, whatever the clock does. A record whose clock had gone
//! back goes with the one before it at the latest.
//!
//! ```text
//!        appender                                who looks (one at a time, under the lock)
//!        --------                                -----------------------------------------
//!     A  store the record, mark it            D  find the first record that is not too old
//!        light barrier                           raise the floor to it
//!     B  load next                            E  store next = when that one will be;
//!        later than our own? lower it            if there is none: NEVER, heavy barrier
//!                                             F  look for a record once more, and go on at D if there is one
//! ```
//!
//! # Invariants
//!
//! 1. `next` is never later than the time at which the earliest record retained, then known, becomes too old. It may be
//!    earlier: then a look finds nothing and corrects it.
//! 2. Of B and F not both miss the other side (the barriers): a record that comes while the last look says NEVER is seen
//!    by that look, or lowers `next` itself.
//! 3. The floor is raised before `next` says that nothing is due.
//!
//! # Orderings
//!
//! | label        | operation          | order   | why this much, and why no more                                              |
//! |--------------|--------------------|---------|-----------------------------------------------------------------------------|
//! | due:A        | `next`, load       | Acquire | who finds nothing due finds the floor raised (inv. 3); pairs with settled:A |
//! | settled:A    | `next`, store      | Release | the floor before it; pairs with due:A                                       |
//! | settled:B    | heavy barrier      | SeqCst  | NEVER before the second look (inv. 2); pairs with note:A                    |
//! | note:A       | light barrier      | SeqCst  | the record before the look at `next` (inv. 2); pairs with settled:B         |
//! | note:B       | `next`, load       | Relaxed | compared only                                                               |
//! | note:C       | `next`, min        | Relaxed | carries nothing; the release sequence of settled:A goes on through it       |
//! | owe:A        | `owes`, store      | Relaxed | a reminder: the timer comes by whoever misses it                            |
//! | drop_owed:A  | `owes`, load       | Relaxed | a guess                                                                     |
//! | drop_owed:B  | `owes`, swap       | Relaxed | says who sweeps; the sweep finds by itself what is to be dropped            |
#![forbid(unsafe_code)]

use super::Log;
use crate::{
    ring::{PeekTimes, Reader, Ring, Why},
    seq::Seq,
    sync::{
        CachePadded, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        explore,
        hint::{heavy_barrier, light_barrier},
        lock, passed,
    },
    time::Time,
};
use std::time::Duration;

/// What to do when somebody is just counting what was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// Wait for him.
    Waits,
    /// Leave it to the next.
    Leaves,
}

/// Nothing is known that could become too old.
const NEVER: u64 = u64::MAX;

/// See the module.
pub(super) struct Age<T> {
    limit: u64,
    next: CachePadded<AtomicU64>,
    /// Looks for what is too old; whoever has it may.
    looker: Mutex<Reader<T>>,
    /// What was forgotten may still have to be dropped: whoever noticed must not.
    owes: AtomicBool,
}

impl<T: Send + Sync + 'static> Age<T> {
    pub(super) fn new(limit: Duration, ring: &Ring<T>) -> Self {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let (next, owes) = (CachePadded::new(AtomicU64::new(NEVER)), AtomicBool::new(false));
        Self { limit, next, looker: Mutex::new(ring.reader(ring.earliest())), owes }
    }

    /// When a record of time `created` is too old.
    fn expiry(&self, created: u64) -> u64 {
        created.saturating_add(self.limit).saturating_add(1)
    }

    fn next(&self) -> u64 {
        // ORD(due:A) Acquire: who finds that nothing is due finds the floor raised. Pairs with ORD(settled:A).
        self.next.load(Ordering::Acquire)
    }

    /// When there is something to do, as far as is known.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        Some(self.next()).filter(|next| *next != NEVER).map(Time::from_nanos)
    }

    #[inline]
    fn is_due(&self, now: Time) -> bool {
        let next = self.next();
        next <= now.as_nanos() && next != NEVER
    }

    /// A record of time `created` was stored.
    fn note(&self, created: u64) {
        explore();
        // ORD(note:A) SeqCst: the record before the look at `next`. Pairs with ORD(settled:B).
        light_barrier();
        let expiry = self.expiry(created);
        // ORD(note:B) Relaxed: compared only.
        if expiry < self.next.load(Ordering::Relaxed) {
            passed("lowered");
            // ORD(note:C) Relaxed: carries nothing; what settled:A released goes on through it.
            self.next.fetch_min(expiry, Ordering::Relaxed);
        }
    }

    /// The first record from `from` on that is not too old, and when it will be (perhaps NEVER); the end of the records if all
    /// are.
    fn first_young(&self, looker: &mut Reader<T>, from: Seq, now: Time) -> (Seq, Option<u64>) {
        looker.jump(from);
        loop {
            let at = looker.position();
            match looker.peek_times() {
                PeekTimes::Ready(times) => {
                    let expiries = times.iter().map(|time| self.expiry(time));
                    let young = (0..).zip(expiries).find(|(_, expiry)| *expiry > now.as_nanos() || *expiry == NEVER);
                    let len = times.iter().len() as u64;
                    match young {
                        Some((old, expiry)) => return (at.plus(old), Some(expiry)),
                        None => looker.advance(at.plus(len)),
                    }
                }
                PeekTimes::Lapped { earliest } => looker.jump(earliest),
                PeekTimes::Pending => return (at, None),
            }
        }
    }
}

impl<T: Send + Sync + 'static> Log<T> {
    /// When the oldest record will be too old, as far as is known: not later than that. `None`: nothing is kept that could
    /// become so.
    pub fn next_expiry(&self) -> Option<Time> {
        self.age().and_then(Age::next_expiry)
    }

    /// Forgets the records that are too old by the clock.
    pub fn expire(&self) {
        if let Some(age) = self.age() {
            self.forget(age, self.clock.now());
            self.drop_owed(age);
        }
    }

    /// Forgets what is too old, if there may be any.
    #[inline]
    pub(super) fn look(&self) {
        if let Some(age) = self.age() {
            let now = self.clock.now();
            if age.is_due(now) {
                passed("due");
                self.forget(age, now);
            }
            self.drop_owed(age);
        }
    }

    /// The same, for who holds a lock: what is dropped at once, if anything is, is left to the next look.
    pub(super) fn look_only(&self) {
        if let Some(age) = self.age() {
            let now = self.clock.now();
            if age.is_due(now) {
                let forgotten = self.draw_line(age, lock(&age.looker), now, Patience::Waits);
                self.owe(age, forgotten);
            }
        }
    }

    /// What was forgotten has to be dropped by somebody else. Whether there was anything.
    fn owe(&self, age: &Age<T>, forgotten: Option<Seq>) -> bool {
        if forgotten.is_some() && self.ring().is_prompt() {
            // ORD(owe:A) Relaxed: see the table.
            age.owes.store(true, Ordering::Relaxed);
        }
        forgotten.is_some()
    }

    #[inline]
    fn drop_owed(&self, age: &Age<T>) {
        // ORD(drop_owed:A) Relaxed: a guess.
        if age.owes.load(Ordering::Relaxed) {
            // ORD(drop_owed:B) Relaxed: says who does it; the sweep looks for itself.
            let mine = age.owes.swap(false, Ordering::Relaxed);
            if mine {
                self.ring().sweep();
            }
        }
    }

    /// Forgets what is too old, and drops it where that is due at once.
    fn forget(&self, age: &Age<T>, now: Time) {
        if let Some(from) = self.draw_line(age, lock(&age.looker), now, Patience::Waits) {
            self.ring().release(from, self.ring().earliest());
        }
    }

    /// Raises the line to the first record that is not too old at `now`. Whether that forgot anything, and from where on.
    #[cold]
    fn draw_line(
        &self,
        age: &Age<T>,
        mut looker: MutexGuard<'_, Reader<T>>,
        now: Time,
        patience: Patience,
    ) -> Option<Seq> {
        let (begun, mut forgot) = (self.gates.earliest(self.ring()), false);
        loop {
            let (to, next) = age.first_young(&mut looker, self.gates.earliest(self.ring()), now);
            // Marked, and not in the end yet: it is too old as soon as it is there.
            let next = if self.ring().end().precedes(to) { Some(now.as_nanos()) } else { next };
            let Some(some) = self.gates.forget(self.ring(), to, patience) else { break };
            forgot |= some;
            explore();
            // ORD(settled:A) Release: the floor before it. Pairs with ORD(due:A).
            age.next.store(next.unwrap_or(NEVER), Ordering::Release);
            if next.is_some() {
                break;
            }
            // ORD(settled:B) SeqCst: NEVER before the second look. Pairs with ORD(note:A).
            heavy_barrier();
            if let PeekTimes::Pending = looker.peek_times() {
                break;
            }
            passed("came meanwhile");
        }
        looker.release();
        drop(looker);
        if forgot {
            self.not_full().notify();
        }
        forgot.then_some(begun)
    }

    /// An append where records have an age: the time of its record, after a look at what is too old.
    pub(super) fn entered_aged(&self, age: &Age<T>) -> u64 {
        let now = self.clock.now();
        if age.is_due(now) {
            // Unless somebody is at it, or counts what he lost: nothing that a publisher waits for.
            let looker = age.looker.try_lock().ok();
            let forgotten = looker.and_then(|looker| self.draw_line(age, looker, now, Patience::Leaves));
            self.owe(age, forgotten);
        }
        now.as_nanos()
    }

    /// Forgets what is too old for who finds no room; whether there was anything.
    fn made_room(&self, age: &Age<T>) -> bool {
        let now = self.clock.now();
        let forgotten = age.is_due(now).then(|| self.draw_line(age, lock(&age.looker), now, Patience::Waits));
        self.owe(age, forgotten.flatten())
    }

    /// Tries to store what came in at `created`; where there is no room, after a look at what is too old.
    pub(super) fn attempt_aged<R>(
        &self,
        age: &Age<T>,
        created: u64,
        mut attempt: impl FnMut(u64) -> Result<R, Why>,
    ) -> Result<R, Why> {
        let mut looks = 0;
        loop {
            match attempt(created) {
                Ok(stored) => {
                    age.note(created);
                    return Ok(stored);
                }
                // Once more after the first look even if that forgot nothing: somebody else may just have done so.
                Err(Why::Full) if self.made_room(age) || looks == 0 => looks += 1,
                Err(why) => return Err(why),
            }
        }
    }
}
