//! An event count: publishers who find nobody waiting pay one load, waiters never miss what was published.
//!
//! ```text
//!      a publisher                                  a waiter
//!      -----------                                  --------
//!      store the data                               arm:   lock, enter the list, store `waiters`, unlock
//!      light barrier                                heavy barrier
//!      load `waiters`  ── 0 ──▶ done                look for the data  ── there ──▶ leave the list, done
//!        │ not 0                                      │ nothing
//!      lock, take a waiter out of the list,         sleep on its bell; awake: arm again, barrier, look again
//!      unlock, ring its bell
//! ```
//!
//! # Who writes what
//!
//! | word      | written by                                        | read by                              |
//! |-----------|---------------------------------------------------|--------------------------------------|
//! | `list`    | waiters and wakers, under its lock                | the same                             |
//! | `waiters` | whoever changed the list, still under the lock    | publishers, without it               |
//! | a bell    | wakers, in `sleeper`; cleared by its owner        | its owner                            |
//!
//! # Invariants
//!
//! 1. `waiters` is the length of the list whenever the lock is free. Notified waiters are not in the list, so a burst of
//!    publishes takes the lock once for each waiter, not once for each record.
//! 2. A waiter leaves the list by its own hand or by exactly one waker, who then rings it. So a waiter that does not find
//!    itself in the list has been notified since it last armed.
//! 3. The list is sorted by ticket. A waiter keeps its ticket for as long as it waits for one thing, and so its place.
//! 4. Of two, the waiter's look and the publisher's load of `waiters`, not both miss the other side (the barriers).
//! 5. With `Wake::One` no notification is lost: a waiter that was notified and leaves without having looked since, for
//!    whatever reason (a ring, a panic, a dropped registration), hands it on to the next behind it; one that looked and
//!    found something that only others can use says `Look::Unfit` and hands it on too. Those before it in the list
//!    either were notified as well, or would have been chosen.
//! 6. No waker is called and none is dropped under the lock: both are user code.
//!
//! # Orderings
//!
//! | label      | operation       | order   | why this much, and why no more                                                    |
//! |------------|-----------------|---------|-----------------------------------------------------------------------------------|
//! | notify:A   | `waiters.load`  | Relaxed | ordered after the data by the light barrier before it (inv. 4); carries nothing: the list is read under the lock |
//! | relist:A   | `waiters.store` | Relaxed | ordered before the look by the heavy barrier that every arm is followed by (inv. 4); pairs with notify:A |
#![forbid(unsafe_code)]

use super::sleeper::Bell;
use crate::sync::{
    CachePadded, Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
    hint::{heavy_barrier, light_barrier},
    lock,
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

/// Whom a notification wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One waiter: they are interchangeable, and whoever cannot use it passes it on.
    One,
    /// Everyone: they want different things.
    All,
}

/// Something that happens again and again, and those who wait for it. In lines of its own, all of it: who changes the list
/// changes what publishers read.
#[derive(Debug)]
pub struct Event(CachePadded<Body>);

#[derive(Debug)]
struct Body {
    waiters: AtomicU32,
    wake: Wake,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    entries: VecDeque<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    ticket: u64,
    who: Waiter,
}

#[derive(Clone, Debug)]
pub(super) enum Waiter {
    Thread(Bell),
    Task(Waker),
}

impl Waiter {
    fn notify(self) {
        match self {
            Waiter::Thread(bell) => bell.notify(),
            Waiter::Task(waker) => {
                // Somebody else's code in the middle of a publish: its panic is its own affair.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                    std::mem::forget(payload); // its destructor might panic in turn
                }
            }
        }
    }
}

impl Event {
    /// An event nobody waits for yet.
    pub fn new(wake: Wake) -> Self {
        Self(CachePadded::new(Body { waiters: AtomicU32::new(0), wake, list: Mutex::new(List::default()) }))
    }

    /// Says that it happened: call it after the store that a waiter's look would see. Costs one load if nobody waits.
    #[inline(always)]
    pub fn notify(&self) {
        light_barrier();
        // ORD(notify:A) Relaxed: after the data, by the barrier above. Pairs with ORD(relist:A).
        if self.0.waiters.load(Ordering::Relaxed) != 0 {
            self.notify_waiters();
        }
    }

    /// Says nothing: for publishers that must make no system call. Who waits hears of it with the next [`notify`], or when
    /// its time is up; those who poll see it at once.
    ///
    /// [`notify`]: Event::notify
    #[inline(always)]
    pub fn notify_quiet(&self) {}

    /// Wakes everyone who waits, whatever the mode: for closing, and for changes that concern all.
    pub fn wake_all(&self) {
        light_barrier();
        self.notify_range(0);
    }

    /// How many wait and have not been notified. A hint.
    pub fn waiting(&self) -> usize {
        self.lock().entries.len()
    }

    /// Registers a task to be woken once. Look again after this; the barrier is inside.
    pub fn register_waker(&self, waker: &Waker) -> Registration<'_> {
        let ticket = self.arm(None, || Waiter::Task(waker.clone()));
        heavy_barrier();
        Registration { event: self, ticket }
    }

    /// The same for a task that stays until it is notified or [withdrawn](Event::withdraw) by the ticket returned. The caller
    /// executes the heavy barrier before it looks again: one for many events.
    pub fn arm_waker(&self, waker: &Waker) -> u64 {
        self.arm(None, || Waiter::Task(waker.clone()))
    }

    /// Takes a task out that [stayed](Registration::stay), if it has not been notified; an unused notification is handed on.
    pub fn withdraw(&self, ticket: u64) {
        self.disarm(ticket);
    }

    #[cold]
    #[inline(never)]
    fn notify_waiters(&self) {
        match self.0.wake {
            Wake::One => self.notify_next(0),
            Wake::All => self.notify_range(0),
        }
    }

    /// Notifies the first waiter whose ticket is `from` or later.
    fn notify_next(&self, from: u64) {
        let taken = self.take(from, u64::MAX);
        if let Some(entry) = taken {
            entry.who.notify();
        }
    }

    /// Notifies everyone who waits now. It walks upwards, so that one who arms again meanwhile is not met twice.
    fn notify_range(&self, mut from: u64) {
        let end = self.lock().next;
        while let Some(entry) = self.take(from, end) {
            from = entry.ticket + 1;
            entry.who.notify();
        }
    }

    /// Enters the list, with a new ticket or the one it had; nothing changes for one who is in it already. The caller
    /// executes the heavy barrier before it looks. `who` runs before the lock is taken: cloning a waker is user code.
    pub(super) fn arm(&self, ticket: Option<u64>, who: impl FnOnce() -> Waiter) -> u64 {
        let who = who();
        let mut list = self.lock();
        let ticket = ticket.unwrap_or(list.next);
        list.next = list.next.max(ticket + 1);
        if let Err(at) = list.find(ticket) {
            list.entries.insert(at, Entry { ticket, who });
        }
        self.relist(&list);
        ticket
    }

    /// Leaves the list; hands on a notification that came since the last `arm` (inv. 5).
    pub(super) fn disarm(&self, ticket: u64) {
        let mine = self.take(ticket, ticket + 1);
        if mine.is_none() {
            self.pass_on(ticket);
        }
    }

    pub(super) fn wakes_all(&self) -> bool {
        self.0.wake == Wake::All
    }

    /// Hands a notification on to the next behind `ticket`.
    pub(super) fn pass_on(&self, ticket: u64) {
        if self.0.wake == Wake::One {
            self.notify_next(ticket + 1);
        }
    }

    /// Whether the waiter with this ticket has been taken out of the list by a waker.
    pub(super) fn is_notified(&self, ticket: u64) -> bool {
        self.lock().find(ticket).is_err()
    }

    /// Takes the first entry with `from <= ticket < end` out of the list.
    fn take(&self, from: u64, end: u64) -> Option<Entry> {
        let mut list = self.lock();
        let at = list.find(from).unwrap_or_else(|at| at);
        if list.entries.get(at)?.ticket >= end {
            return None;
        }
        let entry = list.entries.remove(at);
        self.relist(&list);
        entry
    }

    /// Restores inv. 1 while the lock is held.
    fn relist(&self, list: &List) {
        let waiting = u32::try_from(list.entries.len()).unwrap_or(u32::MAX);
        // ORD(relist:A) Relaxed: before the look, by the heavy barrier after every arm. Pairs with ORD(notify:A).
        self.0.waiters.store(waiting, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        lock(&self.0.list)
    }
}

impl List {
    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&ticket, |entry| entry.ticket)
    }
}

/// A task's place in the list. Dropping it leaves, and hands an unused notification on.
#[derive(Debug)]
#[must_use = "dropping it unregisters the task"]
pub struct Registration<'a> {
    event: &'a Event,
    ticket: u64,
}

impl Registration<'_> {
    /// Whether the task has been woken through it. Register anew to wait again.
    pub fn is_notified(&self) -> bool {
        self.event.is_notified(self.ticket)
    }

    /// Stays in the list after this is gone, until it is notified or [withdrawn](Event::withdraw) by the ticket returned.
    pub fn stay(self) -> u64 {
        let ticket = self.ticket;
        std::mem::forget(self);
        ticket
    }

    /// Leaves and keeps the notification: the task has found what it waited for.
    pub fn used(self) {
        drop(self.event.take(self.ticket, self.ticket + 1));
        std::mem::forget(self); // it owns nothing: only the hand-over in `drop` is skipped
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.event.disarm(self.ticket);
    }
}
