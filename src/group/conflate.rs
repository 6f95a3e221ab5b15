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

use super::contain::contain;
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

/// The latest of each key, whatever the keys are.
pub(super) trait Latest<T>: Send {
    /// There is a record at `at`.
    fn see(&mut self, at: Seq, value: &T);
    /// Whether the record at `at` is the latest of its key.
    fn is_latest(&self, at: Seq, value: &T) -> bool;
    /// It does not wait any more.
    fn take(&mut self, at: Seq, value: &T);
    /// How many keys wait.
    fn len(&self) -> usize;
    /// Only what lies at `from` and behind waits.
    fn forget_before(&mut self, from: Seq);
    /// Nothing waits.
    fn clear(&mut self);
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

    fn is_latest(&self, at: Seq, value: &T) -> bool {
        self.latest.get(&(self.key)(value)).is_none_or(|latest| *latest == at)
    }

    fn take(&mut self, at: Seq, value: &T) {
        let key = (self.key)(value);
        if self.latest.get(&key) == Some(&at) {
            self.latest.remove(&key);
        }
    }

    fn len(&self) -> usize {
        self.latest.len()
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
    latest: Box<dyn Latest<T>>,
    scout: Reader<T>,
    most: usize,
    /// Where the last record was that was to be handed over: what waits lies there or behind it.
    last: Seq,
}

impl<T: Send + Sync + 'static> Conflater<T> {
    pub(super) fn of(own: Option<&Own<T>>, log: &Log<T>, gate: &Arc<Gate>) -> Option<Box<Self>> {
        let Own { rule: Rule::LatestBy(keying), most } = own? else { return None };
        let scout = log.reader(gate.position()).covered_by(gate.clone());
        Some(Box::new(Conflater { latest: keying(), scout, most: *most, last: gate.position() }))
    }

    /// Begins anew at `next`.
    pub(super) fn begin(&mut self, next: Seq) {
        let _ = contain(|| self.latest.clear());
        self.scout.jump(next);
        self.last = next;
    }

    /// Lets go of its page, while nobody holds the lane.
    pub(super) fn release(&mut self) {
        self.scout.release();
    }

    /// Looks at everything there is from `next` on.
    fn scout(&mut self, log: &Log<T>, next: Seq) {
        if next != self.last && next != self.last.plus(1) {
            let _ = contain(|| self.latest.forget_before(next));
        }
        if self.scout.position().precedes(next) {
            self.scout.jump(next);
        }
        loop {
            let first = self.scout.position();
            let to = match log.read(&mut self.scout, RUN) {
                Read::Pending => return,
                Read::Gap(gap) => {
                    let _ = contain(|| self.latest.forget_before(gap.to));
                    self.scout.jump(gap.to);
                    continue;
                }
                Read::Ready(run) => {
                    for (nth, value) in (0..).zip(run.iter()) {
                        let _ = contain(|| self.latest.see(first.plus(nth), value));
                    }
                    first.plus(run.len() as u64)
                }
            };
            self.scout.advance(to);
        }
    }

    /// Where the first record is that is to be handed over, of those from where `reader` stands, and how many before it had no
    /// later one of their key. `None`: the reader has found that there is a gap, or nothing.
    fn first(&mut self, log: &Log<T>, reader: &mut Reader<T>) -> Option<(Seq, u64)> {
        let mut dropped = 0;
        loop {
            let first = reader.position();
            let Read::Ready(run) = log.read(reader, RUN) else { return None };
            let len = run.len() as u64;
            for (nth, value) in (0..).zip(run.iter()) {
                let at = first.plus(nth);
                if !at.precedes(self.scout.position()) {
                    return None; // it has come since: look once more
                }
                if contain(|| self.latest.is_latest(at, value)).unwrap_or(true) {
                    let full = self.latest.len() > self.most;
                    let _ = contain(|| self.latest.take(at, value));
                    if !full {
                        return Some((at, dropped));
                    }
                    dropped += 1;
                }
            }
            reader.advance(first.plus(len));
        }
    }
}

impl<T: Send + Sync + 'static> Lane<T> {
    /// What is to be passed over before the next record is taken: nothing, if that one is the latest of its key.
    #[inline(never)]
    pub(super) fn conflate(&self, held: &mut Held<T>) -> Option<log::Gap> {
        let conflater = held.conflater.as_deref_mut().filter(|_| held.failures == 0)?;
        let from = held.next;
        loop {
            conflater.scout(&self.log, from);
            let found = conflater.first(&self.log, &mut held.reader);
            held.reader.jump(from);
            if let Some((to, dropped)) = found {
                conflater.last = to;
                let conflated = to.since(from) - dropped;
                return (to != from).then_some(log::Gap { from, to, expired: 0, conflated });
            }
            if !matches!(self.log.read(&mut held.reader, 1), Read::Ready(_)) {
                return None; // which is found by reading on
            }
            // Something has come since; or the keys are not the same each time they are asked for: then nothing is known of them.
            let _ = contain(|| conflater.latest.clear());
        }
    }
}
