//! A mailbox that keeps the latest of each key: of the records that wait, those that have a later one of their key are
//! passed over.
//!
//! ```text
//!   offset     40   41   42   43   44   45   46
//!   key         a    b    a    c    a    b    d        latest:  a 44   b 45   c 43   d 46
//!             ─────────────────────────────────────▶
//!              ▲ next                            ▲ the scout: has read everything there is
//! ```
//! 40, 41 and 42 are passed over: 43 is the first that is the latest of its key. Where more keys wait than may, the first of those goes
//! as well, as a loss. Keys are the user's: their code runs on the lane's thread, contained; a record whose key cannot be had is
//! like no other.
#![forbid(unsafe_code)]

use super::contain::{contain, drop_contained};
use super::lane::{Held, Lane};
use super::overflow::{Own, Rule};
use crate::log::{self, Log, Read};
use crate::ring::{Gate, Reader};
use crate::seq::Seq;
use crate::sync::Arc;
use std::collections::HashMap;
use std::hash::Hash;

/// How many records are looked at in one go.
const RUN: usize = 64;
/// How often one looks anew before a record is handed over as it is.
const LOOKS: usize = 3;

/// The latest of each key, whatever the keys are.
pub(super) trait Latest<T>: Send {
    /// There is a record at `at`.
    fn see(&mut self, at: Seq, value: &T);
    /// The record at `at` does not wait any more, if it is the latest of its key; `most` keys may wait.
    fn take(&mut self, at: Seq, value: &T, most: usize) -> Taken;
    /// Only what lies at `from` and behind waits.
    fn forget_before(&mut self, from: Seq);
    /// Nothing waits.
    fn clear(&mut self);
}

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There is a later one of its key.
    Superseded,
    /// It is the latest of its key, and too many keys wait.
    Dropped,
    /// It is handed over.
    HandedOver,
}

/// How the latest of each key is kept: made anew for each lane.
pub(super) type Keying<T> = dyn Fn() -> Box<dyn Latest<T>> + Send + Sync;

struct ByKey<K, F> {
    key: F,
    latest: HashMap<K, Seq>,
}

impl<T, K: Hash + Eq + Send, F: Fn(&T) -> K + Send> Latest<T> for ByKey<K, F> {
    fn see(&mut self, at: Seq, value: &T) {
        self.latest.insert((self.key)(value), at);
    }

    fn take(&mut self, at: Seq, value: &T, most: usize) -> Taken {
        let key = (self.key)(value);
        if self.latest.get(&key).is_some_and(|latest| *latest != at) {
            return Taken::Superseded;
        }
        let full = self.latest.len() > most;
        match self.latest.remove(&key) {
            Some(_) if full => Taken::Dropped,
            _ => Taken::HandedOver,
        }
    }

    fn forget_before(&mut self, from: Seq) {
        self.latest.retain(|_, at| !at.precedes(from));
    }

    fn clear(&mut self) {
        self.latest.clear();
    }
}

/// By this key.
pub(super) fn keying<T, K>(key: impl Fn(&T) -> K + Send + Sync + 'static) -> Arc<Keying<T>>
where
    T: 'static,
    K: Hash + Eq + Send + 'static,
{
    let key = Arc::new(key);
    Arc::new(move || {
        let key = key.clone();
        Box::new(ByKey { key: move |value: &T| key(value), latest: HashMap::new() })
    })
}

/// What a lane has of its own for it; goes with the lane from member to member.
pub(super) struct Conflater<T> {
    /// Until it is dropped.
    latest: Option<Box<dyn Latest<T>>>,
    scout: Reader<T>,
    most: usize,
    /// Where the last record was that was to be handed over: what waits lies there or behind it.
    last: Seq,
}

impl<T: Send + Sync + 'static> Conflater<T> {
    pub(super) fn of(own: Option<&Own<T>>, log: &Log<T>, gate: &Arc<Gate>) -> Option<Box<Self>> {
        let Own { rule: Rule::LatestBy(keying), most } = own? else { return None };
        let scout = log.reader(gate.position()).covered_by(gate.clone());
        Some(Box::new(Conflater { latest: Some(keying()), scout, most: *most, last: gate.position() }))
    }

    /// Begins anew at `next`.
    pub(super) fn begin(&mut self, next: Seq) {
        let _ = contain(|| self.latest.as_mut().map(|latest| latest.clear()));
        self.scout.jump(next);
        self.last = next;
    }

    /// Whether the record at `at` is the one that was last found to be next.
    pub(super) fn chose(&self, at: Seq) -> bool {
        self.last == at
    }

    /// Lets go of its page.
    pub(super) fn release(&mut self) {
        self.scout.release();
    }

    /// Looks at what there is from `next` on, and before `end`: not further, or a producer that is faster would keep us here for ever.
    fn scout(&mut self, log: &Log<T>, next: Seq, end: Seq) {
        if next != self.last && next != self.last.plus(1) {
            let _ = contain(|| self.latest.as_mut().map(|latest| latest.forget_before(next)));
        }
        if self.scout.position().precedes(next) {
            self.scout.jump(next);
        }
        while self.scout.position().precedes(end) {
            let first = self.scout.position();
            let to = match log.read(&mut self.scout, RUN) {
                Read::Pending => return,
                Read::Gap(gap) => {
                    let _ = contain(|| self.latest.as_mut().map(|latest| latest.forget_before(gap.to)));
                    self.scout.jump(gap.to);
                    continue;
                }
                Read::Ready(run) => {
                    for (nth, value) in (0..).zip(run.iter()) {
                        let _ = contain(|| self.latest.as_mut().map(|latest| latest.see(first.plus(nth), value)));
                    }
                    first.plus(run.len() as u64)
                }
            };
            self.scout.advance(to);
            // Where the cursor was moved away meanwhile, we may have kept what we looked at from whoever moved it.
            log.gone_on(first, to);
        }
    }

    /// Where the first record is that is to be handed over, of those from where `reader` stands, with how many before it expired,
    /// and how many had a later one of their key. `None`: there is nothing, or what comes next the scout has not seen.
    fn first(&mut self, log: &Log<T>, reader: &mut Reader<T>) -> Option<(Seq, u64, u64)> {
        let (mut expired, mut superseded) = (0, 0);
        loop {
            let first = reader.position();
            let run = match log.read(reader, RUN) {
                Read::Ready(run) => run,
                Read::Pending => return None,
                // Beyond what the scout has seen: not after it, or a producer that is faster would keep us here for ever.
                Read::Gap(gap) if !gap.to.precedes(self.scout.position()) => return None,
                Read::Gap(gap) => {
                    expired += gap.expired;
                    reader.jump(gap.to);
                    continue;
                }
            };
            let len = run.len() as u64;
            for (nth, value) in (0..).zip(run.iter()) {
                let at = first.plus(nth);
                if !at.precedes(self.scout.position()) {
                    return None;
                }
                match contain(|| self.latest.as_mut().map(|latest| latest.take(at, value, self.most))) {
                    Ok(Some(Taken::Superseded)) => superseded += 1,
                    Ok(Some(Taken::Dropped)) => {}
                    Ok(Some(Taken::HandedOver) | None) | Err(_) => return Some((at, expired, superseded)),
                }
            }
            reader.advance(first.plus(len));
        }
    }
}

impl<T> Drop for Conflater<T> {
    /// Keys, and what gives them, are the user's.
    fn drop(&mut self) {
        drop_contained(self.latest.take());
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// What is to be passed over before the next record is taken: nothing, if that one is the latest of its key.
    #[inline(never)]
    pub(super) fn conflate(&self, held: &mut Held<T>) -> Option<log::Gap> {
        let conflater = held.conflater.as_deref_mut()?;
        let from = held.next;
        for _ in 0..LOOKS {
            conflater.scout(&self.log, from, self.log.end());
            let found = conflater.first(&self.log, &mut held.reader);
            held.reader.jump(from);
            if let Some((to, expired, conflated)) = found {
                conflater.last = to;
                return (to != from).then_some(log::Gap { from, to, expired, conflated });
            }
            if !matches!(self.log.read(&mut held.reader, 1), Read::Ready(_)) {
                return None; // which is found by reading on
            }
            // Something has come since; or the keys are not the same each time they are asked for: then nothing is known of them.
            let _ = contain(|| conflater.latest.as_mut().map(|latest| latest.clear()));
        }
        None
    }
}
