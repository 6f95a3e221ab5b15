//! After the handler: what becomes of a record that is not done, and the commit.
//!
//! The letter of a record that is given up is written while the record is still ours to read, and filed in one step with the
//! commit: a refused commit buries nothing, and who sees the commit, as a drain does, finds the letter.
#![forbid(unsafe_code)]

use super::Group;
use super::contain::contain;
use super::handler::Verdict;
use super::lane::{Held, Lane};
use super::letters::{Letter, Origin};
use super::outcome::Outcome;
use super::record::Batch;
use crate::ring::Fenced;
use crate::seq::Seq;
use std::time::Duration;

/// How a run of records ended.
pub(super) enum Ran {
    /// Nothing was there.
    Nothing,
    /// So many calls were made, and the rest can go on.
    Calls(usize),
    /// So many calls were made, and the lane has to be looked at anew.
    Stopped(usize),
}

/// What becomes of the record behind the done ones.
pub(super) enum Settled {
    /// Nothing is wrong: the handler stopped early, or was interrupted.
    Untouched,
    /// Delivered again after this time; it has failed so often.
    Again { after: Duration, failures: u32 },
    /// Nobody knows which of the records it was: once more, one by one up to here.
    Singly { until: Seq },
    /// Given up.
    Buried(Letter),
}

impl<T> Group<T> {
    /// The pause after so many failures, with the broker's dice where the group wants jitter: user code.
    fn delay_after(&self, failures: u32) -> Duration {
        let retry = &self.config.retry;
        if retry.has_jitter() {
            let roll = contain(|| self.random.next_u64()).unwrap_or(0);
            retry.jittered(failures, roll)
        } else {
            retry.delay_after(failures)
        }
    }
}

#[cold]
pub(super) fn settle<T>(group: &Group<T>, verdict: Verdict, batch: &Batch<'_, T>, done: usize) -> Settled {
    // All may be done when a batch handler panics at its very end: then nobody knows either.
    let nobody = done >= batch.len();
    let unknown = nobody || (!verdict.blames && batch.len() > 1);
    let (retry, failures) = (&group.config.retry, if done == 0 { batch.attempt } else { 1 });
    let failure = match verdict.outcome {
        Outcome::Ack => return Settled::Untouched,
        _ if unknown => return Settled::Singly { until: Seq::new(batch.offset()).plus(batch.len() as u64) },
        Outcome::Retry(_) if retry.allows_another(failures) => {
            return Settled::Again { after: group.delay_after(failures), failures };
        }
        Outcome::RetryAfter(after, _) if retry.allows_another(failures) => return Settled::Again { after, failures },
        Outcome::Retry(failure) | Outcome::RetryAfter(_, failure) | Outcome::Reject(failure) => failure,
    };
    let origin = Origin {
        topic: group.topic.clone(),
        group: group.name.clone(),
        partition: batch.partition,
        offset: batch.offset() + done as u64,
        attempts: failures,
        failed_at: group.clock.now(),
        published_at: batch.get(done).published_at(),
    };
    Settled::Buried(Letter::write(origin, batch.value(done), failure, &group.config.bury))
}

/// Commits what is done and acts on what became of the next record.
#[cold]
pub(super) fn finish<T: Send + Sync + 'static>(
    group: &Group<T>,
    lane: &Lane<T>,
    held: &mut Held<T>,
    done: usize,
    settled: Settled,
) -> Ran {
    if matches!(settled, Settled::Again { .. } | Settled::Singly { .. }) && held.epoch != lane.gate.epoch() {
        // As by a commit: what was moved away from it meanwhile has not failed.
        lane.counters.refused.add(done as u64 + 1);
        held.resync(&lane.gate);
        return Ran::Stopped(done + 1);
    }
    match settled {
        Settled::Untouched => {
            commit(group, lane, held, done, None);
            Ran::Stopped(done.max(1))
        }
        Settled::Buried(letter) => {
            commit(group, lane, held, done, Some(letter));
            Ran::Stopped(done + 1)
        }
        Settled::Again { after, failures } => {
            if commit(group, lane, held, done, None) {
                lane.counters.retried.add(1);
                held.failures = failures;
                held.due = (!after.is_zero()).then(|| group.clock.now().after(after));
                lane.notice.waits(held.next.get(), held.epoch, failures, held.due);
            }
            Ran::Stopped(done + 1)
        }
        Settled::Singly { until } => {
            lane.counters.retried.add(1);
            held.single_until = until;
            held.reader.put_down();
            Ran::Stopped(1)
        }
    }
}

/// Commits `done` records, and one more that `letter` is about. A refusal changes nothing and goes where the cursor is.
pub(super) fn commit<T: Send + Sync + 'static>(
    group: &Group<T>,
    lane: &Lane<T>,
    held: &mut Held<T>,
    done: usize,
    letter: Option<Letter>,
) -> bool {
    let dead = u64::from(letter.is_some());
    let to = held.next.plus(done as u64 + dead);
    if to == held.next {
        held.reader.put_down();
        return true;
    }
    if lane.newest.is_none() {
        held.reader.advance(to);
    }
    let (from, counters) = (held.next, &lane.counters);
    // Counted before: who sees the cursor there, as a drain does, finds the books right.
    counters.acked.add(done as u64);
    counters.dead.add(dead);
    let (stored, out) = match letter {
        None => (lane.log.go_on(&lane.gate, held.epoch, from, to), None),
        Some(letter) => file(group, lane, letter, || lane.gate.commit(held.epoch, from, to)),
    };
    if let Err(Fenced { .. }) = stored {
        counters.acked.take_back(done as u64);
        counters.dead.take_back(dead);
        counters.refused.add(done as u64 + dead);
        held.resync(&lane.gate);
        lane.log.gone_on(from, to);
        return false;
    }
    (held.next, held.lost) = (to, 0);
    if dead != 0 || held.failures != 0 || held.carries {
        (held.failures, held.due) = lane.carried(held);
    }
    group.progress.notify();
    // Only now: it runs destructors, which may ask for the figures, or take their time while others do.
    lane.log.gone_on(from, to);
    group.lose(out);
    true
}

/// Files a letter in one step with the commit, which is not made known to those who wait for room before that.
#[cold]
fn file<T: Send + Sync + 'static>(
    group: &Group<T>,
    lane: &Lane<T>,
    letter: Letter,
    commit: impl FnOnce() -> Result<(), Fenced>,
) -> (Result<(), Fenced>, Option<Letter>) {
    match group.letters.file(letter, commit) {
        Ok(out) => {
            lane.log.not_full().notify();
            (Ok(()), out)
        }
        Err(fenced) => (Err(fenced), None),
    }
}
