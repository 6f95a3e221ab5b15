//! Appends that may wait for room.
//!
//! A waiting append holds no claim: each look is a whole attempt, and one that fails leaves nothing behind. So a producer
//! that times out, is cancelled or dies has no effect on anybody.
//!
//! # Who is woken
//!
//! Producers are interchangeable, so a commit wakes one, and whoever was woken sees to it that nobody sleeps beside room:
//!
//! 1. It stored its record and room is left: it notifies the next.
//! 2. It found no room: somebody else took it, and whoever commits next notifies again. But a batch may find too little
//!    room for itself and enough for others: it hands the notification on (`Look::Unfit`).
//! 3. It leaves without storing (cancelled, refused, no memory): it notifies the next.
//! 4. It found no room, and somebody waits who must know when the *limiting group* changes, because he may not wait for
//!    some of them (`wary`): it hands the notification on until it has reached him.
//! 5. Closing wakes all.
#![forbid(unsafe_code)]

use super::{
    AppendError, Limiting,
    partition::{Appended, AppendedAll, Log},
    producer::given_back,
    retain::OWN,
};
use crate::{
    ring::Why,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        lock,
    },
    time::{Deadline, Time},
    wait::{Canceller, Look, Sleeper, Spin, Wait, WaitPolicy},
};
use std::time::Duration;

/// What may end or shape a wait besides room and time.
#[derive(Clone, Copy, Default)]
pub struct AppendCtl<'a> {
    /// Ends the wait when used.
    pub cancel: Option<&'a Canceller>,
    /// Asked, before each sleep, with the tag of the group that holds producers back: true means that this thread must not
    /// wait for it, because it is what serves it.
    pub refuse: Option<&'a dyn Fn(u64) -> bool>,
    /// Store without waking anybody: no system call, where records have no age. Those who poll see the record; those who
    /// sleep with the next wake.
    pub quiet: bool,
    /// How long to look before sleeping.
    pub wait: WaitPolicy,
}

impl std::fmt::Debug for AppendCtl<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendCtl").field("quiet", &self.quiet).field("wait", &self.wait).finish_non_exhaustive()
    }
}

/// How a wait for room ended without a record stored.
pub(super) enum Gone {
    Refused(Why, Duration),
    Cancelled,
    WouldDeadlock(Limiting),
}

impl<T: Send + Sync + 'static> Log<T> {
    /// Stores one record, waiting for room until `deadline` at most. A publish blocks nobody but its caller, and a call
    /// that gives up has claimed nothing.
    pub fn append(&self, value: T, deadline: Deadline, ctl: &AppendCtl<'_>) -> Result<Appended, AppendError<T>> {
        let mut value = Some(value);
        let stored = match self.stamps() {
            None => self.until_room(deadline, ctl, 1, || self.ring().try_push_from(&mut value)),
            Some(stamps) => {
                let created = self.entered(stamps);
                self.until_room(deadline, ctl, 1, || self.push_timed(created, &mut value))
            }
        };
        match stored {
            Ok(offset) => Ok(self.stored(offset, ctl.quiet)),
            Err(gone) => Err(self.gone(gone, (), 1).map(|()| given_back(value))),
        }
    }

    /// Stores all of `values` (which is empty then) or none of them, waiting until there is room for all.
    pub fn append_all(
        &self,
        values: &mut Vec<T>,
        deadline: Deadline,
        ctl: &AppendCtl<'_>,
    ) -> Result<AppendedAll, AppendError<()>> {
        let len = values.len();
        let stored = match self.stamps() {
            None => self.until_room(deadline, ctl, len, || self.ring().try_push_all(values)),
            Some(stamps) => {
                let created = self.entered(stamps);
                self.until_room(deadline, ctl, len, || self.push_all_timed(created, values))
            }
        };
        match stored {
            Ok(offsets) => Ok(self.stored_all(offsets, ctl.quiet)),
            Err(gone) => Err(self.gone(gone, (), len)),
        }
    }

    pub(super) fn gone<V>(&self, gone: Gone, value: V, len: usize) -> AppendError<V> {
        match gone {
            Gone::Refused(why, waited) => self.refusal(why, value, len, waited),
            Gone::Cancelled => AppendError::Cancelled(value),
            Gone::WouldDeadlock(limiting) => AppendError::WouldDeadlock { value, limiting },
        }
    }

    /// Tries until it works, there is no sense in going on, or the time is up.
    #[inline]
    pub(super) fn until_room<R>(
        &self,
        deadline: Deadline,
        ctl: &AppendCtl<'_>,
        len: usize,
        mut attempt: impl FnMut() -> Result<R, Why>,
    ) -> Result<R, Gone> {
        match attempt() {
            Ok(stored) => Ok(stored),
            Err(Why::Full) if deadline != Deadline::Now => self.wait_for_room(deadline, ctl, len, &mut attempt),
            Err(why) => Err(Gone::Refused(why, Duration::ZERO)),
        }
    }

    /// The wait is counted from here, where no room was found: what the caller did before is no waiting, though its limit ran.
    #[cold]
    #[inline(never)]
    fn wait_for_room<R>(
        &self,
        deadline: Deadline,
        ctl: &AppendCtl<'_>,
        len: usize,
        attempt: &mut dyn FnMut() -> Result<R, Why>,
    ) -> Result<R, Gone> {
        let begun = self.clock.now();
        if deadline.at().is_some_and(|at| at <= begun) {
            return Err(Gone::Refused(Why::Full, Duration::ZERO));
        }
        self.tally.waits();
        self.measure(self.end());
        let mut look = || match attempt() {
            Ok(stored) => Some(Ok(stored)),
            Err(Why::Full) => self.may_wait(ctl).err().map(Err),
            Err(why) => Some(Err(Gone::Refused(why, self.clock.now() - begun))),
        };
        let outcome = match spin_for(ctl.wait, &mut look) {
            None => self.sleep_for(deadline.at(), ctl, len, look),
            found => found,
        };
        match outcome {
            Some(Ok(stored)) => {
                self.notify_if_room();
                Ok(stored)
            }
            Some(Err(gone)) => {
                self.not_full().notify();
                Err(gone)
            }
            None => Err(Gone::Refused(Why::Full, self.clock.now() - begun)),
        }
    }

    /// Sleeps between looks; nothing comes of it when the time is up.
    fn sleep_for<R>(
        &self,
        until: Option<Time>,
        ctl: &AppendCtl<'_>,
        len: usize,
        mut look: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let mut sleeper = self.sleeper();
        let cancellable = ctl.cancel.map(|cancel| cancel.register(sleeper.bell()));
        let wary = ctl.refuse.is_some().then(|| Wary::new(&self.wary));
        let mut outcome = None;
        loop {
            // What becomes too old makes room, and nobody else may be there to see it.
            let expiry = self.next_expiry().filter(|expiry| until.is_none_or(|until| *expiry < until));
            let wait = sleeper.wait([self.not_full()], expiry.or(until), || {
                outcome = look();
                match outcome {
                    Some(_) => Look::Ready,
                    None if len > 1 || self.is_anybody_wary() => Look::Unfit,
                    None => Look::Nothing,
                }
            });
            match wait {
                Wait::TimedOut if expiry.is_some() => self.expire(),
                Wait::Rung => {}
                Wait::Ready | Wait::TimedOut => break,
            }
        }
        drop((cancellable, wary));
        lock(&self.sleepers).push(sleeper);
        outcome
    }

    /// Whether this thread may go on waiting for room.
    fn may_wait(&self, ctl: &AppendCtl<'_>) -> Result<(), Gone> {
        if ctl.cancel.is_some_and(Canceller::is_cancelled) {
            return Err(Gone::Cancelled);
        }
        let Some(refuse) = ctl.refuse else { return Ok(()) };
        match self.limiting() {
            Some(limiting) if refuse(limiting.tag) => Err(Gone::WouldDeadlock(limiting)),
            None if refuse(OWN) => Err(Gone::Refused(Why::Full, Duration::ZERO)),
            _ => Ok(()),
        }
    }

    fn notify_if_room(&self) {
        if self.not_full().waiting() > 0 && self.has_room() {
            self.not_full().notify();
        }
    }

    fn is_anybody_wary(&self) -> bool {
        // ORD(wary:C) Relaxed: see `Wary`.
        self.wary.load(Ordering::Relaxed) > 0
    }

    fn sleeper(&self) -> Sleeper {
        let spare = lock(&self.sleepers).pop();
        spare.unwrap_or_else(|| Sleeper::new(Arc::clone(&self.clock)))
    }
}

/// Somebody who waits and may not wait for some groups: while there is one, producers hand their wakes on (rule 4).
///
/// | label   | operation        | order   | why this much, and why no more                                                    |
/// |---------|------------------|---------|-----------------------------------------------------------------------------------|
/// | wary:A, wary:B, wary:C | `wary`, all of it | Relaxed | counted before we enter the event's list and read by those who entered it after us or were woken past us: the list's lock orders it |
struct Wary<'a>(&'a AtomicU64);

impl<'a> Wary<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        // ORD(wary:A) Relaxed: see the table.
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Wary<'_> {
    fn drop(&mut self) {
        // ORD(wary:B) Relaxed: see the table.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Looks for a short while without sleeping.
fn spin_for<R>(policy: WaitPolicy, look: &mut impl FnMut() -> Option<R>) -> Option<R> {
    let mut spin = Spin::new(policy);
    let mut found = None;
    while found.is_none() && spin.turn() {
        found = look();
    }
    found
}
