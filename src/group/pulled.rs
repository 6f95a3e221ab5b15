//! For models: a lane that a consumer polls, record by record. What is in flight is the code's, and the cursor; between the
//! two stand the few lines of `pull`, `handing`, `settling` and `mover` that a model can do.
#![forbid(unsafe_code)]

use super::fence::{FencedBy, Refusal};
use super::flight::{Cursor, Flight, Ticket};
use super::retry::Retry;
use super::word::MemberId;
use crate::ring::{Fenced, Gate, Ring};
use crate::seq::Seq;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(1);

/// The right to settle what a poll gave.
#[derive(Clone, Copy, Debug)]
pub struct Slip(Ticket);

impl Slip {
    /// The record.
    pub fn offset(self) -> u64 {
        self.0.from.get()
    }
}

/// See the module.
pub struct Pulled {
    flight: Mutex<Flight>,
    gate: Arc<Gate>,
    ring: Ring<u64>,
    acked: AtomicU64,
}

impl Pulled {
    /// Nothing is in flight, and `member` has the lane.
    pub fn new(ring: Ring<u64>, gate: Arc<Gate>, member: MemberId) -> Self {
        let (committed, epoch) = gate.snapshot();
        let mut flight = Flight::default();
        flight.open(member, Cursor { committed, epoch }, 0, None, 0, &Retry::constant(1, Duration::ZERO).unlimited());
        Pulled { flight: Mutex::new(flight), gate, ring, acked: AtomicU64::new(0) }
    }

    fn cursor(&self) -> Cursor {
        let (committed, epoch) = self.gate.snapshot();
        Cursor { committed, epoch }
    }

    /// An operation at a time when the lease is over, or is not.
    fn fly<R>(&self, over: bool, act: impl FnOnce(&mut Flight, Cursor) -> R) -> (R, Range<u64>) {
        let mut flight = lock(&self.flight);
        let at = self.cursor();
        drop(flight.follow(at, FencedBy::Trimmed));
        let mut lapsed = 0..0;
        if flight.is_over(at, if over { Time::ZERO.after(LEASE) } else { Time::ZERO }) {
            lapsed = flight.rewind_all(at, FencedBy::Expired, || self.gate.bump());
        }
        (act(&mut flight, self.cursor()), lapsed)
    }

    /// Hands out the next record, if there is one.
    pub fn poll(&self) -> Option<Slip> {
        let hand_out = |flight: &mut Flight, at: Cursor| {
            let next = flight.next();
            let there = next.precedes(self.ring.end());
            there.then(|| Slip(flight.hand_out(next.plus(1), at, Some((Time::ZERO, LEASE)))))
        };
        self.fly(false, hand_out).0
    }

    /// It is done, with all that was handed out before it.
    pub fn ack(&self, Slip(ticket): Slip) -> Result<(), FencedBy> {
        loop {
            let acked = self.fly(false, |flight, at| {
                flight.is_current(ticket, at).map_err(Some)?;
                flight.may_ack(ticket.to, at).map_err(|refusal| match refusal {
                    Refusal::Fenced(why) => Some(why),
                    Refusal::NotInFlight(_) => Some(FencedBy::AlreadyAcked),
                })?;
                let done = ticket.to.since(at.committed);
                match self.gate.commit(at.epoch, at.committed, ticket.to) {
                    Ok(()) => {
                        // Relaxed: a figure.
                        self.acked.fetch_add(done, Ordering::Relaxed);
                        drop(flight.acked(ticket.to));
                        Ok(())
                    }
                    Err(Fenced { .. }) => Err(None),
                }
            });
            match acked.0 {
                Err(None) => {}
                Err(Some(why)) => return Err(why),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// It comes again.
    pub fn release(&self, Slip(ticket): Slip) {
        self.fly(false, |flight, at| {
            if flight.is_current(ticket, at).is_ok() {
                flight.rewind(ticket.from.later(at.committed), at, FencedBy::Rewound, || self.gate.bump());
            }
        });
    }

    /// The lease is over: what came back.
    pub fn expire(&self) -> Range<u64> {
        self.fly(true, |_, _| ()).1
    }

    /// The cursor goes to `to`; where it was.
    pub fn seek(&self, to: Seq) -> Seq {
        let mut flight = lock(&self.flight);
        let before = self.gate.epoch();
        let moved = self.ring.seek(&self.gate, to);
        drop(flight.moved(before, self.cursor(), FencedBy::Seeked));
        moved.from
    }

    /// The group is deleted, which waits for nobody: the cursor, which nobody moves any more.
    pub fn end(&self) -> Seq {
        self.gate.bump();
        self.gate.position()
    }

    /// Where the cursor is.
    pub fn position(&self) -> Seq {
        self.gate.position()
    }

    /// As [`expire`](Self::expire) by one that leaves the epoch as it is, for a model that must fail.
    pub fn expire_in_the_same_epoch(&self) -> Range<u64> {
        let mut flight = lock(&self.flight);
        let at = self.cursor();
        if !flight.is_over(at, Time::ZERO.after(LEASE)) {
            return 0..0;
        }
        flight.rewind_all(at, FencedBy::Expired, || at.epoch)
    }

    /// How many were acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Pulled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulled").field("acked", &self.acked()).finish_non_exhaustive()
    }
}
