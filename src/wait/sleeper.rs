//! One thread's sleep: on any set of events, until a time, or until somebody rings its bell.
//!
//! # The bell's word
//!
//! | bit        | set by                                   | means                                                   |
//! |------------|------------------------------------------|---------------------------------------------------------|
//! | `NOTIFIED` | a waker that took us out of an event's list | look again                                            |
//! | `RUNG`     | `Bell::ring`, from anywhere, at any time | the wait ends and says so; stays set until a wait ends with it |
//! | `TICK`     | a clock that owns sleeping               | look at the time                                        |
//!
//! | from    | to           | by                     |                                                           |
//! |---------|--------------|------------------------|-----------------------------------------------------------|
//! | any     | 0            | its owner, `listen`    | at the start of each round, before it arms and looks      |
//! | 0       | bits         | wakers, `set`          | and one system call, which wakes the owner                |
//! | bits    | more bits    | wakers, `set`          | no system call: whoever made it non-zero woke the owner   |
//!
//! # A round of `Sleeper::wait`
//!
//! Clear the bell; rung? arm every event that took us out; heavy barrier; look; is it time? sleep while the word is 0.
//! The bell is cleared *before* the arm, so whatever comes after the clearing ends the sleep, and whatever came before it
//! is seen by the look: a waker takes us out of the list (and we arm under the same lock) before it sets a bit.
//!
//! # Orderings
//!
//! | label    | operation       | order   | why this much, and why no more                                                      |
//! |----------|-----------------|---------|-------------------------------------------------------------------------------------|
//! | set:A    | `word.fetch_or` | Release | all that the ringer did before is seen by who is rung; pairs with listen:A. Not AcqRel: it reads nothing the owner wrote |
//! | listen:A | `word.swap`     | Acquire | the other half of set:A; the read-modify-writes of several ringers form one release sequence |
//! | rescue:A | `RESCUES.load`  | Relaxed | a counter                                                                           |
//! | rescue:B | `RESCUES.fetch_add` | Relaxed | a counter                                                                       |
#![forbid(unsafe_code)]

use super::event::{Event, Waiter};
use crate::{
    sync::{
        Arc,
        atomic::Ordering,
        futex::{Futex, Woken},
        hint::heavy_barrier,
    },
    time::{Clock, Time},
};

const NOTIFIED: u32 = 1;
const RUNG: u32 = 2;

/// What ends a sleeper's sleep. Clones ring the same sleeper.
#[derive(Clone, Debug)]
pub struct Bell(Arc<Futex>);

impl Bell {
    /// Ends the sleeper's wait, or its next one if it is not waiting. All that the caller did before, the rung one sees.
    pub fn ring(&self) {
        self.set(RUNG);
    }

    pub(super) fn notify(&self) {
        self.set(NOTIFIED);
    }

    /// Whether the two ring the same sleeper.
    pub fn is_same(&self, other: &Bell) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn set(&self, bit: u32) {
        // ORD(set:A) Release: what the ringer did before. Pairs with ORD(listen:A).
        let before = self.0.word().fetch_or(bit, Ordering::Release);
        if before == 0 {
            self.0.wake(1);
        }
    }

    fn listen(&self) -> u32 {
        // ORD(listen:A) Acquire: we act on what the ringer did. Pairs with ORD(set:A).
        self.0.word().swap(0, Ordering::Acquire)
    }
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// What we wait for.
    Ready,
    /// Nothing.
    Nothing,
    /// Something that others might use and we cannot: with [`Wake::One`](super::Wake::One) the next waiter is woken.
    Unfit,
}

impl From<bool> for Look {
    fn from(ready: bool) -> Self {
        if ready { Look::Ready } else { Look::Nothing }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The look found what it was for.
    Ready,
    /// Somebody rang the bell; what it was for may be there too.
    Rung,
    /// The time is up, and a look after that found nothing.
    TimedOut,
}

/// A thread's place to sleep. One at a time may wait with it; its [`Bell`] may be rung from anywhere.
#[derive(Debug)]
pub struct Sleeper {
    bell: Bell,
    clock: Arc<dyn Clock>,
    tickets: Vec<Option<u64>>,
}

impl Sleeper {
    /// A sleeper on `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { bell: Bell(Arc::new(Futex::new(0))), clock, tickets: Vec::new() }
    }

    /// The bell that ends its waits.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The clock it sleeps on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Waits until `ready` finds something, the bell is rung, or the clock reaches `until` (`None`: for ever).
    ///
    /// `ready` is called at least once unless the bell has been rung, and again whenever one of `events` happened since it was
    /// called. It may do the thing itself (take, claim) rather than only look. With `Wake::One`, one who leaves more
    /// behind than it took calls [`Event::notify`] for the next.
    pub fn wait<'e, L: Into<Look>>(
        &mut self,
        events: impl IntoIterator<Item = &'e Event, IntoIter: Clone>,
        until: Option<Time>,
        mut ready: impl FnMut() -> L,
    ) -> Wait {
        let (bell, clock) = (self.bell.clone(), self.clock.clone());
        let mut armed = Armed { bell: &bell, events: events.into_iter(), tickets: &mut self.tickets };
        let mut unannounced = false;
        loop {
            let heard = bell.listen();
            if heard & RUNG != 0 {
                return Wait::Rung;
            }
            armed.arm();
            heavy_barrier();
            match ready().into() {
                Look::Ready => {
                    if unannounced && heard == 0 {
                        count_rescue();
                    }
                    return Wait::Ready;
                }
                Look::Unfit => armed.pass_on(),
                Look::Nothing => {}
            }
            let Some(woken) = doze(&*clock, &bell, until) else { return Wait::TimedOut };
            unannounced = woken == Woken::TimedOut;
            // Arming and its barrier cost as much as the wake: who was woken for good reason is spared both. Not where a
            // notification is for one alone: there the drop of `armed` would hand on what has just been used.
            if !unannounced && armed.wake_all() && matches!(ready().into(), Look::Ready) {
                return Wait::Ready;
            }
        }
    }

    /// Waits for the bell alone.
    pub fn wait_for_bell(&mut self, until: Option<Time>) -> Wait {
        self.wait([], until, || false)
    }
}

/// Sleeps one round; `None` if the time is up already, so that the look just made was the last.
fn doze(clock: &dyn Clock, bell: &Bell, until: Option<Time>) -> Option<Woken> {
    let safeguard = clock.look_again();
    if until.is_none() && safeguard.is_none() {
        return Some(clock.sleep(&bell.0, 0, None));
    }
    let now = clock.now();
    if until.is_some_and(|until| until <= now) {
        return None;
    }
    let again = safeguard.map(|span| now + span);
    let until = [until, again].into_iter().flatten().min();
    Some(clock.sleep(&bell.0, 0, until))
}

/// The events a wait is registered with. Dropping it leaves them all, on every path out of the wait.
struct Armed<'a, 'e, I: Iterator<Item = &'e Event> + Clone> {
    bell: &'a Bell,
    events: I,
    tickets: &'a mut Vec<Option<u64>>,
}

impl<'e, I: Iterator<Item = &'e Event> + Clone> Armed<'_, 'e, I> {
    fn arm(&mut self) {
        for (at, event) in self.events.clone().enumerate() {
            if at == self.tickets.len() {
                self.tickets.push(None);
            }
            let ticket = event.arm(self.tickets[at], || Waiter::Thread(self.bell.clone()));
            self.tickets[at] = Some(ticket);
        }
    }

    fn registered(&self) -> impl Iterator<Item = (&'e Event, u64)> {
        let tickets = self.tickets.iter().flatten().copied();
        self.events.clone().zip(tickets)
    }

    fn wake_all(&self) -> bool {
        self.events.clone().all(Event::wakes_all)
    }

    fn pass_on(&self) {
        self.registered().for_each(|(event, ticket)| event.pass_on(ticket));
    }
}

impl<'e, I: Iterator<Item = &'e Event> + Clone> Drop for Armed<'_, 'e, I> {
    fn drop(&mut self) {
        self.registered().for_each(|(event, ticket)| event.disarm(ticket));
        self.tickets.clear();
    }
}

/// How often a sleeper's safeguard (a look after ten seconds) found something that no wake had announced. Zero, unless a
/// wake was lost here or below, or a quiet publisher relied on it.
pub fn rescues() -> u64 {
    #[cfg(ringlog_loom)]
    return 0;
    #[cfg(not(ringlog_loom))]
    // ORD(rescue:A) Relaxed: a counter.
    return RESCUES.load(Ordering::Relaxed);
}

#[cfg(not(ringlog_loom))]
static RESCUES: crate::sync::atomic::AtomicU64 = crate::sync::atomic::AtomicU64::new(0);

#[cold]
fn count_rescue() {
    #[cfg(not(ringlog_loom))]
    // ORD(rescue:B) Relaxed: a counter.
    RESCUES.fetch_add(1, Ordering::Relaxed);
}
