//! All that is known at the end of a run, and whether it is as it should be.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::flights::{Code, Tally};
use crate::jobs::{Mean, Route};

/// The books of one group: what was published must be what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// Counted by the publisher; the rest is from the account that the broker gives when it closes.
    pub(crate) published: u64,
    pub(crate) acked: u64,
    pub(crate) dead: u64,
    pub(crate) skipped: u64,
    pub(crate) left: u64,
}

impl Books {
    pub(crate) fn balance(&self) -> bool {
        self.published == self.acked + self.dead + self.skipped + self.left
    }
}

/// One group at the end.
#[derive(Debug)]
pub(crate) struct GroupEnd {
    pub(crate) name: &'static str,
    /// Handled well, as counted by the handler and not by the broker.
    pub(crate) done: u64,
    pub(crate) retried: u64,
    /// Why its latest dead letter died.
    pub(crate) reason: Option<String>,
    pub(crate) books: Books,
    pub(crate) latency: Histogram<u64>,
}

impl GroupEnd {
    /// The books balance, nothing is left, and the broker counted what the handlers counted.
    pub(crate) fn sound(&self) -> bool {
        self.books.balance() && self.books.left == 0 && self.books.acked == self.done
    }
}

/// How often and how long the publisher had to wait for room, and for whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocked {
    pub(crate) publishes: u64,
    pub(crate) time: Duration,
    pub(crate) by_group: BTreeMap<String, u64>,
}

/// What group `order` found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OrderEnd {
    pub(crate) checked: u64,
    pub(crate) keys: u64,
    pub(crate) keyless: u64,
    pub(crate) broken: u64,
}

/// What group `audit` found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AuditEnd {
    pub(crate) rows: u64,
    pub(crate) twice: u64,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) source: String,
    pub(crate) key: String,
    pub(crate) partitions: u32,
    pub(crate) capacity: u32,
    pub(crate) tally: Tally,
    pub(crate) published: u64,
    pub(crate) elapsed: Duration,
    pub(crate) blocked: Blocked,
    pub(crate) groups: Vec<GroupEnd>,
    pub(crate) delays: Vec<(Code, Mean)>,
    pub(crate) routes: Vec<(Route, u64)>,
    pub(crate) notices: Vec<(Code, u64)>,
    pub(crate) order: OrderEnd,
    pub(crate) audit: AuditEnd,
}

impl Summary {
    pub(crate) fn order_holds(&self) -> bool {
        self.order.broken == 0 && self.order.checked + self.order.keyless == self.published
    }

    pub(crate) fn audit_holds(&self) -> bool {
        self.audit.rows == self.published && self.audit.twice == 0
    }

    /// Every check passed.
    pub(crate) fn sound(&self) -> bool {
        self.order_holds() && self.audit_holds() && self.groups.iter().all(GroupEnd::sound)
    }
}
