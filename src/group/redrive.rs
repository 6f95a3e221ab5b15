//! Redrive: letters that come back to their group, to be handed over before the lane's next record.
//!
//! A lane has one bounded queue of them. It belongs to the lane, not to a member, so it survives every change of members; only
//! the lane's holder serves it, so a lane never runs twice. That something waits is a bit of the lane word, which the holder
//! compares once per record anyway: a lane without letters pays nothing.
//!
//! | event     | by whom                        | under the queue's lock                                     | counted     |
//! |-----------|--------------------------------|------------------------------------------------------------|-------------|
//! | queued    | anybody, with the control lock | out of the store, into the queue; bit set                   | `replayed`  |
//! | done      | the holder                     | out of the queue; bit cleared with the last                 | `acked`     |
//! | again     | the holder                     | stays the head, with its failures and its time              | `retried`   |
//! | given up  | the holder                     | a new letter into the store, the old one out of the queue   | `dead`      |
//! | called back | who ends the lane, or anybody, with the control lock | back into the store, all of them       | `skipped`   |
//!
//! The head stays in the queue while its handler runs. If it was called back meanwhile, what the handler made of it is
//! refused, as after a seek. Locks nest as control, queue, store; under none of them runs user code.
#![forbid(unsafe_code)]

mod polled;

pub(super) use polled::Posted;

use super::Group;
use super::contain::{contain, drop_contained};
use super::error::ControlError;
use super::executor::{Step, Turn};
use super::fence::FencedBy;
use super::handler::{Deliver, Interrupt, Verdict};
use super::lane::Lane;
use super::letters::{Letter, Letters};
use super::outcome::{Failure, Outcome};
use super::pick::Pick;
use super::record::{Batch, Lent};
use super::settle::{Settled, settle};
use super::stats::Tally;
use super::word::LaneWord;
use crate::sync::{Arc, Mutex, MutexGuard, lock};
use crate::time::Time;
use polled::Out;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// What a redrive did. What it did not move are letters as before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// Letters that are queued now, to be handed over before the next record of their partition.
    pub queued: usize,
    /// Letters that do not keep their record, or something else than the record: see
    /// [`GroupConfig::bury_cloned`](crate::GroupConfig::bury_cloned).
    pub without_record: usize,
    /// Letters for which there was no room: as many may be queued in each partition as the group keeps letters.
    pub no_room: usize,
}

/// A letter on its way back.
struct Entry<T> {
    /// Which one it is: a letter that was called back may be queued again while its handler still runs.
    ticket: u64,
    letter: Letter,
    value: Arc<T>,
    /// How often it has failed since it was queued.
    failures: u32,
    /// When it is tried again.
    due: Option<Time>,
    /// It is in a consumer's hands.
    out: Option<Out>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Entry { letter: self.letter.clone(), value: self.value.clone(), ..*self }
    }
}

/// The queue of one lane.
pub(super) struct Redrives<T> {
    queue: Mutex<Queue<T>>,
    /// What consumers made of letters.
    pub(super) tally: Tally,
}

struct Queue<T> {
    entries: VecDeque<Entry<T>>,
    last: u64,
    /// What has become of those that consumers had.
    past: VecDeque<(u64, FencedBy)>,
}

impl<T> Default for Redrives<T> {
    fn default() -> Self {
        let queue = Queue { entries: VecDeque::new(), last: 0, past: VecDeque::new() };
        Redrives { queue: Mutex::new(queue), tally: Tally::default() }
    }
}

impl<T> Queue<T> {
    fn head(&mut self, ticket: u64) -> Option<&mut Entry<T>> {
        self.entries.front_mut().filter(|head| head.ticket == ticket)
    }
}

impl<T> fmt::Debug for Redrives<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redrives({})", self.len())
    }
}

impl<T> Redrives<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        lock(&self.queue)
    }

    /// How many are queued, the one in hand included.
    pub(super) fn len(&self) -> u64 {
        self.lock().entries.len() as u64
    }

    fn head(&self) -> Option<Entry<T>> {
        self.lock().entries.front().cloned()
    }

    /// The offset of what comes next.
    pub(super) fn next(&self) -> Option<u64> {
        self.lock().entries.front().map(|head| head.letter.offset())
    }

    /// Whether a letter about this offset is queued, or in hand.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.lock().entries.iter().any(|entry| entry.letter.offset() == offset)
    }

    /// When the oldest record that is queued was published.
    pub(super) fn oldest(&self) -> Option<Time> {
        self.lock().entries.iter().filter_map(|entry| entry.letter.published_at()).min()
    }

    /// How often what comes next has failed since it was queued, and how long it still has to wait; `None`: it has not.
    pub(super) fn retrying(&self, now: Time) -> Option<(u32, Duration)> {
        let queue = self.lock();
        let head = queue.entries.front().filter(|head| head.failures > 0)?;
        Some((head.failures, head.due.map_or(Duration::ZERO, |due| due.since(now))))
    }

    /// Whether a step would hand something over without waiting for a time.
    pub(super) fn is_ready(&self) -> bool {
        self.lock().entries.front().is_some_and(|head| head.due.is_none() && head.out.is_none())
    }

    fn letters(&self) -> Vec<Letter> {
        self.lock().entries.iter().map(|entry| entry.letter.clone()).collect()
    }

    /// Takes the head out, if it still is the one with this ticket, and does `first` right before that.
    fn pop<R>(&self, word: &LaneWord, ticket: u64, first: impl FnOnce() -> R) -> Option<(Entry<T>, R)> {
        let mut queue = self.lock();
        queue.head(ticket)?;
        let done = first();
        let head = queue.entries.pop_front();
        if queue.entries.is_empty() {
            word.redriven();
        }
        head.map(|head| (head, done))
    }

    /// Notes how the head fares, if it still is the one with this ticket.
    fn note(&self, ticket: u64, failures: u32, due: Option<Time>) -> bool {
        let mut queue = self.lock();
        let Some(head) = queue.head(ticket) else { return false };
        (head.failures, head.due) = (failures, due);
        true
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// Queues those of `letters` that are still in `store`: how many, and for how many there was no room. `None`: the lane
    /// takes none any more.
    fn redrive(
        &self,
        letters: &[Letter],
        store: &Letters,
        bound: usize,
        open: impl FnOnce() -> bool,
    ) -> Option<(usize, usize)> {
        let _control = lock(&self.control);
        if self.word.load().is_ended() || !open() {
            return None;
        }
        let mut queue = self.redrives.lock();
        let Queue { entries, last, .. } = &mut *queue;
        let (taken, no_room) = store.take(letters, bound.saturating_sub(entries.len()));
        let entry = |letter: Letter| {
            *last += 1;
            letter.record().map(|value| Entry { ticket: *last, value, letter, failures: 0, due: None, out: None })
        };
        let before = entries.len();
        entries.extend(taken.into_iter().filter_map(entry));
        let queued = entries.len() - before;
        if queued > 0 {
            self.counters.replayed.add(queued as u64);
            self.word.redrive();
        }
        Some((queued, no_room))
    }

    /// Puts all that is queued, what is in hand included, back into `store`: how many, and the letters that found no room
    /// there.
    fn call_back(&self, store: &Letters) -> (usize, Vec<Letter>) {
        let (entries, out) = {
            let _control = lock(&self.control);
            let Some(redrives) = self.redrives.get() else { return (0, Vec::new()) };
            let mut queue = redrives.lock();
            let entries = std::mem::take(&mut queue.entries);
            self.word.redriven();
            self.counters.skipped.add(entries.len() as u64);
            let out = store.restore(entries.iter().map(|entry| entry.letter.clone()).collect());
            (entries, out)
        };
        let count = entries.len();
        drop_contained(entries);
        (count, out)
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Has the chosen letters that keep their record handed over again; see the broker's `Group::redrive`.
    pub fn redrive(&self, pick: Pick<'_>) -> Result<Redriven, ControlError> {
        let (mut done, mut of_lane) = (Redriven::default(), vec![Vec::new(); self.lanes.len()]);
        for letter in pick.of(self.letters.all()) {
            match of_lane.get_mut(letter.partition() as usize).filter(|_| letter.payload::<T>().is_some()) {
                Some(letters) => letters.push(letter),
                None => done.without_record += 1,
            }
        }
        let mut refused = self.is_closed();
        for (partition, letters) in of_lane.into_iter().enumerate().filter(|(_, letters)| !letters.is_empty()) {
            let queued =
                self.lanes[partition].redrive(&letters, &self.letters, self.config.letters, || !self.is_closed());
            refused |= queued.is_none();
            let (queued, no_room) = queued.unwrap_or_default();
            (done.queued, done.no_room) = (done.queued + queued, done.no_room + no_room);
            self.ring_for(partition);
        }
        if refused && done.queued == 0 {
            return Err(ControlError::Deleted { group: self.name.clone() });
        }
        Ok(done)
    }

    /// The letters that are queued to be handed over again, what is in hand included: partition by partition, in order.
    pub fn redriving(&self) -> Vec<Letter> {
        self.lanes.iter().filter_map(|lane| lane.redrives.get()).flat_map(Redrives::letters).collect()
    }

    /// Puts back among the letters what is queued to be handed over again, each where it was, and says how many. What a handler makes
    /// of the one it has in hand is refused.
    pub fn call_back(&self) -> usize {
        let called = (0..self.lanes.len()).map(|partition| self.call_back_of(partition)).sum();
        self.progress.notify();
        called
    }

    /// How many records were ever sent back, by a seek or a redrive.
    pub fn sent_back(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.counters.replayed.get()).sum()
    }

    fn call_back_of(&self, partition: usize) -> usize {
        let (count, out) = self.lanes[partition].call_back(&self.letters);
        out.into_iter().for_each(|letter| self.lose(Some(letter)));
        if count > 0 {
            self.ring_for(partition); // it may be asleep until the next attempt of what is gone
        }
        count
    }

    /// Once nobody joins any more: calls back what lies in lanes that nobody holds. For the others' the stop is repeated when they
    /// have let go.
    pub(super) fn call_back_idle(&self) {
        let idle = |partition: &usize| !self.lanes[*partition].word.load().is_held();
        (0..self.lanes.len()).filter(idle).for_each(|partition| {
            self.call_back_of(partition);
        });
    }
}

/// One step of a lane in which letters wait: hands over the first, or says how long it waits for its next attempt.
#[cold]
pub(super) fn serve<T: Send + Sync + 'static, D: Deliver<T>>(
    group: &Group<T>,
    lane: &Lane<T>,
    handler: &mut D,
    interrupt: Interrupt<'_>,
    turn: Turn<'_>,
) -> Step {
    let nothing = Step::Worked { handled: 0, more: true };
    let Some(head) = lane.redrives.head() else { return nothing };
    if head.out.is_some() {
        return Step::Waits; // it is in a consumer's hands, who rings when it is settled
    }
    if let Some(until) = head.due.filter(|until| group.clock.now() < *until) {
        return Step::Backoff { until };
    }
    if turn.budget == 0 {
        return nothing;
    }
    let (letter, value, failures): (_, &T, _) = (&head.letter, &head.value, head.failures);
    let (home, partition, attempt) = (&group.home, lane.partition, failures.saturating_add(1));
    let batch = Batch { lent: Lent::Redriven(value, letter), home, partition, attempt, lost: 0 };
    let mut done = 0;
    let verdict = contain(|| {
        if turn.panic {
            std::panic::resume_unwind(Box::new("a planned fault"));
        }
        handler.deliver(&batch, &mut done, interrupt)
    });
    let settled = match verdict {
        Ok(_) if done == 1 => None,
        Ok(verdict) => Some(settle(group, verdict, &batch, done)),
        Err(text) => {
            let verdict = Verdict { outcome: Outcome::Retry(Failure::panic(text)), blames: D::BLAMES };
            Some(settle(group, verdict, &batch, 0))
        }
    };
    finish(group, lane, &head, settled);
    drop_contained(head);
    Step::Worked { handled: 1, more: true }
}

/// Acts on what became of the letter in hand. `None`: it is done.
fn finish<T: Send + Sync + 'static>(group: &Group<T>, lane: &Lane<T>, head: &Entry<T>, settled: Option<Settled>) {
    let counters = &lane.counters;
    let pop = |first: &mut dyn FnMut() -> Option<Letter>| lane.redrives.pop(&lane.word, head.ticket, first);
    let again = |after: Duration, failures| {
        let due = (!after.is_zero()).then(|| group.clock.now().after(after));
        let noted = lane.redrives.note(head.ticket, failures, due);
        counters.retried.add(u64::from(noted));
        noted
    };
    let stored = match settled {
        None => {
            let popped = pop(&mut || {
                counters.acked.add(1);
                None
            });
            popped.map(drop_contained).is_some()
        }
        Some(Settled::Buried(new)) => {
            let mut new = Some(new);
            let popped = pop(&mut || {
                counters.dead.add(1);
                new.take().and_then(|new| group.letters.add(new))
            });
            let stored = popped.is_some();
            if let Some((old, out)) = popped {
                group.lose(out);
                drop_contained(old);
            }
            stored
        }
        Some(Settled::Again { after, failures }) => again(after, failures),
        Some(Settled::Untouched) => lane.redrives.note(head.ticket, head.failures, None),
        Some(Settled::Singly { .. }) => again(Duration::ZERO, head.failures),
    };
    counters.refused.add(u64::from(!stored));
    group.progress.notify();
}
