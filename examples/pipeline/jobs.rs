//! What the five groups do with a departure. Each is a plain state; nothing here knows of topics or threads.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::flights::{Code, Departure};

/// What became of a departure in a group's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    /// It failed, and may succeed if tried again.
    Again(&'static str),
    /// It will never succeed.
    Poison(&'static str),
}

/// A group's work. `attempt` counts from 1.
pub(crate) trait Job: Send + 'static {
    fn handle(&mut self, departure: &Departure, attempt: u32) -> Verdict;
}

/// How many flights of a carrier left, and how many minutes late in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mean {
    pub(crate) flights: u64,
    pub(crate) minutes: i64,
}

impl Mean {
    /// Minutes a flight.
    pub(crate) fn value(self) -> f64 {
        if self.flights == 0 { 0.0 } else { self.minutes as f64 / self.flights as f64 }
    }
}

/// Group `delays`: by carrier. A cancelled flight has no delay, so it is rejected.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    carriers: BTreeMap<Code, Mean>,
}

impl Job for Delays {
    fn handle(&mut self, departure: &Departure, _: u32) -> Verdict {
        let Some(delay) = departure.delay else { return Verdict::Poison("cancelled: no departure time") };
        let mean = self.carriers.entry(departure.carrier).or_default();
        mean.flights += 1;
        mean.minutes += i64::from(delay);
        Verdict::Done
    }
}

impl Delays {
    /// Carriers, the latest first.
    pub(crate) fn ranked(&self) -> Vec<(Code, Mean)> {
        let mut all: Vec<_> = self.carriers.iter().map(|(carrier, mean)| (*carrier, *mean)).collect();
        all.sort_by(|(_, a), (_, b)| b.value().total_cmp(&a.value()));
        all
    }
}

/// From one airport to another.
pub(crate) type Route = (Code, Code);

/// Group `routes`: how often each is flown, cancelled flights included.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    flights: HashMap<Route, u64>,
}

impl Job for Routes {
    fn handle(&mut self, departure: &Departure, _: u32) -> Verdict {
        *self.flights.entry((departure.origin, departure.dest)).or_default() += 1;
        Verdict::Done
    }
}

impl Routes {
    /// Routes, the busiest first; equally busy ones by name.
    pub(crate) fn ranked(&self) -> Vec<(Route, u64)> {
        let mut all: Vec<_> = self.flights.iter().map(|(route, flights)| (*route, *flights)).collect();
        all.sort_by_key(|&(route, flights)| (std::cmp::Reverse(flights), route));
        all
    }
}

/// Group `notices`: tells passengers of delays of an hour and more, through a mail gate that fails now and then.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    fail_every: u64,
    airports: BTreeMap<Code, u64>,
}

impl Job for Notices {
    fn handle(&mut self, departure: &Departure, attempt: u32) -> Verdict {
        if attempt == 1 && self.fail_every > 0 && departure.row % self.fail_every == 0 {
            return Verdict::Again("the mail gate did not answer");
        }
        if departure.delay.is_some_and(|minutes| minutes >= 60) {
            *self.airports.entry(departure.origin).or_default() += 1;
        }
        Verdict::Done
    }
}

impl Notices {
    /// At every row that is a multiple of `fail_every`, the first attempt fails; 0 means never.
    pub(crate) fn failing(fail_every: u64) -> Self {
        Self { fail_every, ..Self::default() }
    }

    /// Notices sent, by airport.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (Code, u64)> {
        self.airports.iter().map(|(airport, notices)| (*airport, *notices))
    }
}

/// Group `order`: for each key, row numbers only rise.
#[derive(Debug, Default)]
pub(crate) struct Order {
    last: HashMap<Box<str>, u64>,
    pub(crate) checked: u64,
    pub(crate) keyless: u64,
    pub(crate) broken: u64,
}

impl Job for Order {
    fn handle(&mut self, departure: &Departure, _: u32) -> Verdict {
        let Some(key) = departure.key.as_deref() else {
            self.keyless += 1;
            return Verdict::Done;
        };
        self.checked += 1;
        match self.last.get_mut(key) {
            Some(last) => {
                self.broken += u64::from(departure.row <= *last);
                *last = departure.row;
            }
            None => {
                self.last.insert(key.into(), departure.row);
            }
        }
        Verdict::Done
    }
}

impl Order {
    /// How many different keys were met.
    pub(crate) fn keys(&self) -> u64 {
        self.last.len() as u64
    }
}

/// Group `audit`: every row arrives, and none twice.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pause: Duration,
    seen: Vec<bool>,
    pub(crate) rows: u64,
    pub(crate) twice: u64,
}

impl Job for Audit {
    fn handle(&mut self, departure: &Departure, _: u32) -> Verdict {
        if !self.pause.is_zero() {
            std::thread::sleep(self.pause);
        }
        let row = departure.row as usize;
        if self.seen.len() <= row {
            self.seen.resize(row + 1, false);
        }
        if std::mem::replace(&mut self.seen[row], true) {
            self.twice += 1;
        } else {
            self.rows += 1;
        }
        Verdict::Done
    }
}

impl Audit {
    /// Takes `pause` over each row, to be the slow one.
    pub(crate) fn pausing(pause: Duration) -> Self {
        Self { pause, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Audit, Delays, Job, Mean, Notices, Order, Routes, Verdict};
    use crate::flights::{Code, Departure};

    fn code(text: &str) -> Code {
        Code::new(text).expect("codes in tests are short")
    }

    fn departure(row: u64, key: Option<&str>, carrier: &str, dest: &str, delay: Option<i32>) -> Departure {
        let (carrier, origin, dest) = (code(carrier), code("JFK"), code(dest));
        Departure {
            row,
            line: row + 1,
            key: key.map(Box::from),
            carrier,
            origin,
            dest,
            delay,
            published: Instant::now(),
        }
    }

    #[test]
    fn delays_ranks_by_mean_and_rejects_cancelled_flights() {
        let mut delays = Delays::default();
        for (row, carrier, delay) in [(1, "UA", 1), (2, "HA", 9), (3, "UA", -4)] {
            assert_eq!(delays.handle(&departure(row, None, carrier, "LAX", Some(delay)), 1), Verdict::Done);
        }
        assert!(matches!(delays.handle(&departure(4, None, "UA", "LAX", None), 1), Verdict::Poison(_)));
        let means = [(code("HA"), Mean { flights: 1, minutes: 9 }), (code("UA"), Mean { flights: 2, minutes: -3 })];
        assert_eq!(delays.ranked(), means);
        assert_eq!(means[1].1.value(), -1.5);
        assert_eq!(Mean::default().value(), 0.0);
    }

    #[test]
    fn routes_ranks_by_flights_then_name() {
        let mut routes = Routes::default();
        for (row, dest) in [(1, "SFO"), (2, "LAX"), (3, "BOS"), (4, "LAX")] {
            routes.handle(&departure(row, None, "UA", dest, None), 1);
        }
        let ranked: Vec<_> = routes.ranked().into_iter().map(|((_, dest), n)| (dest.to_string(), n)).collect();
        assert_eq!(ranked, [("LAX".to_owned(), 2), ("BOS".to_owned(), 1), ("SFO".to_owned(), 1)]);
    }

    #[test]
    fn notices_fails_once_at_every_nth_row() {
        let mut notices = Notices::failing(2);
        let late = |row| departure(row, None, "UA", "LAX", Some(60));
        assert_eq!(notices.handle(&late(1), 1), Verdict::Done);
        assert!(matches!(notices.handle(&late(2), 1), Verdict::Again(_)));
        assert_eq!(notices.handle(&late(2), 2), Verdict::Done);
        assert_eq!(notices.handle(&departure(3, None, "UA", "LAX", Some(59)), 1), Verdict::Done);
        assert_eq!(notices.sent().collect::<Vec<_>>(), [(code("JFK"), 2)]);
        let mut never = Notices::default();
        assert_eq!(never.handle(&late(1), 1), Verdict::Done);
    }

    #[test]
    fn order_sees_a_row_that_goes_back_or_stands_still() {
        let mut order = Order::default();
        for (row, key) in [(1, Some("a")), (2, Some("b")), (3, Some("a")), (1, None)] {
            order.handle(&departure(row, key, "UA", "LAX", None), 1);
        }
        assert_eq!((order.checked, order.keyless, order.keys(), order.broken), (3, 1, 2, 0));
        order.handle(&departure(1, Some("b"), "UA", "LAX", None), 1);
        order.handle(&departure(1, Some("b"), "UA", "LAX", None), 1);
        assert_eq!(order.broken, 2);
    }

    #[test]
    fn audit_counts_each_row_once() {
        let mut audit = Audit::default();
        for row in [3, 1, 3, 2] {
            audit.handle(&departure(row, None, "UA", "LAX", None), 1);
        }
        assert_eq!((audit.rows, audit.twice), (3, 1));
    }
}
