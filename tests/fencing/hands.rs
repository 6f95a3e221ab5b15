//! What `polls` and `pulls` share: two consumers that poll one record at a time and detach it, who holds what, and what whoever
//! settles is told.

use super::deliveries::{Answer, Fate};
use ringlog::{Consumer, Failure, FencedBy, Group, Receipt, SettleError};
use std::fmt::Debug;
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const NAMES: [&str; 2] = ["c0", "c1"];

pub(crate) struct Hands {
    group: Group<u64>,
    consumers: [Option<Consumer<u64>>; 2],
    receipts: Vec<Option<Receipt>>,
}

impl Hands {
    pub(crate) fn new(group: &Group<u64>) -> Self {
        let consumers = NAMES.map(|name| Some(group.consumer(name).unwrap()));
        Hands { group: group.clone(), consumers, receipts: Vec::new() }
    }

    pub(crate) fn poll(&mut self, who: usize) -> Answer {
        let Ok(batch) = self.consumers[who].as_mut().unwrap().try_poll(1) else { return Answer::Nothing };
        let Some(record) = batch.get(0) else { return Answer::Nothing };
        let handed = Answer::Handed(record.offset(), record.attempt());
        self.receipts.push(Some(batch.detach()));
        handed
    }

    pub(crate) fn ack(&mut self, nth: usize) -> Answer {
        answer(self.take(nth).ack().map(|()| Answer::Done))
    }

    pub(crate) fn nack(&mut self, nth: usize) -> Answer {
        answer(self.take(nth).nack(Failure::new("no")).map(|()| Answer::Done))
    }

    pub(crate) fn release(&mut self, nth: usize) {
        drop(self.take(nth));
    }

    pub(crate) fn extend(&self, nth: usize, leases: u64) -> Answer {
        let extended = self.receipts[nth].as_ref().unwrap().extend(LEASE * leases as u32);
        answer(extended.map(|lasts| match lasts {
            Duration::MAX => Answer::Lasts(u64::MAX),
            _ => {
                assert_eq!(lasts.as_secs() % LEASE.as_secs(), 0, "{lasts:?}");
                Answer::Lasts(lasts.as_secs() / LEASE.as_secs())
            }
        }))
    }

    /// Leaves, and joins again.
    pub(crate) fn leave(&mut self, who: usize) {
        self.consumers[who] = None;
        self.consumers[who] = Some(self.group.consumer(NAMES[who]).unwrap());
    }

    pub(crate) fn unsettled(&self) -> Vec<usize> {
        (0..self.receipts.len()).filter(|nth| self.receipts[*nth].is_some()).collect()
    }

    fn take(&mut self, nth: usize) -> Receipt {
        self.receipts[nth].take().expect("it is used once")
    }
}

fn answer(settled: Result<Answer, SettleError>) -> Answer {
    match settled {
        Ok(answer) => answer,
        Err(SettleError::Fenced { reason, .. }) => Answer::Refused(vec![fate(reason)]),
        Err(other) => panic!("{other}"),
    }
}

fn fate(by: FencedBy) -> Fate {
    match by {
        FencedBy::Expired => Fate::Expired,
        FencedBy::Moved => Fate::Moved,
        FencedBy::Seeked => Fate::Seeked,
        FencedBy::Deleted => Fate::Deleted,
        FencedBy::Rewound => Fate::Rewound,
        FencedBy::Buried => Fate::Buried,
        FencedBy::AlreadyAcked => Fate::Acked,
        other => panic!("{other}"),
    }
}

pub(crate) fn check<V: PartialEq + Debug>(what: &str, real: V, twin: V, after: &[impl Debug]) {
    assert!(real == twin, "{what}: {real:?}, but the twin {twin:?}\nafter {after:?}");
}

/// Of several reasons for a refusal the real one says one.
pub(crate) fn check_answer(said: Answer, expected: Answer, after: &[impl Debug]) {
    match (said, expected) {
        (Answer::Refused(said), Answer::Refused(fates)) => {
            assert!(said.iter().all(|why| fates.contains(why)), "refused for {said:?}, not {fates:?}\nafter {after:?}");
        }
        (said, expected) => check("the answer", said, expected, after),
    }
}
