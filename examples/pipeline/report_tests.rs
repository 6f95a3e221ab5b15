//! The report: what it says and how wide it is.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::flights::{Code, Date, Malformed, Tally};
use crate::jobs::Mean;
use crate::report::{days, full, malformed, short};
use crate::station::empty;
use crate::summary::{AuditEnd, Blocked, Books, GroupEnd, OrderEnd, Summary};
use crate::text::Style;

fn code(text: &str) -> Code {
    Code::new(text).expect("codes in tests are short")
}

fn day(month: u8, day: u8) -> Date {
    Date { year: 2013, month, day }
}

fn group(name: &'static str, acked: u64, dead: u64) -> GroupEnd {
    let mut latency = empty();
    for n in 1..=1000 {
        latency.record(n * 1000).expect("in range");
    }
    let books = Books { published: 1000, acked, dead, skipped: 0, left: 0 };
    GroupEnd { name, done: acked, retried: 7, reason: Some("line 9, cancelled".to_owned()), books, latency }
}

fn summary() -> Summary {
    Summary {
        source: "flights.csv".to_owned(),
        key: "tailnum".to_owned(),
        partitions: 4,
        capacity: 1024,
        tally: Tally { rows: 1000, days: Some((day(1, 1), day(1, 31))), ..Tally::default() },
        published: 1000,
        elapsed: Duration::from_millis(10),
        blocked: Blocked::default(),
        groups: vec![group("delays", 990, 10), group("audit", 1000, 0)],
        delays: vec![(code("HA"), Mean { flights: 10, minutes: 545 }), (code("ZZ"), Mean { flights: 1, minutes: -3 })],
        routes: vec![((code("JFK"), code("LAX")), 937)],
        notices: vec![(code("JFK"), 12)],
        order: OrderEnd { checked: 990, keys: 33, keyless: 10, broken: 0 },
        audit: AuditEnd { rows: 1000, twice: 0 },
    }
}

fn empty_summary() -> Summary {
    Summary {
        tally: Tally::default(),
        published: 0,
        elapsed: Duration::ZERO,
        groups: Vec::new(),
        delays: Vec::new(),
        routes: Vec::new(),
        notices: Vec::new(),
        order: OrderEnd::default(),
        audit: AuditEnd::default(),
        ..summary()
    }
}

#[test]
fn says_what_happened() {
    let text = full(&summary(), Style::plain());
    for said in [
        "Departures from New York, 1 to 31 January 2013",
        "100,000 events a second",
        "  ok  delays         1,000  =         990  +       10  +        0  +      0\n",
        "HA  Hawaiian Airlines       54.5",
        "JFK → LAX",
        "no publish had to wait for room",
        "10 dead letters in delays, the latest from line 9, cancelled",
    ] {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
}

#[test]
fn fits_a_terminal_and_has_no_colour_when_plain() {
    for summary in [summary(), empty_summary()] {
        let text = full(&summary, Style::plain());
        assert!(!text.contains('\x1b'));
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line:?} is too wide");
            assert_eq!(line.trim_end(), line, "blanks at the end");
        }
    }
}

#[test]
fn names_the_group_that_holds_the_publisher_back() {
    let blocked = Blocked {
        publishes: 30,
        time: Duration::from_millis(5),
        by_group: [("audit".to_owned(), 29), ("routes".to_owned(), 1)].into(),
    };
    let text = full(&Summary { blocked, ..summary() }, Style::plain());
    assert!(text.contains("30 of 1,000 publishes waited for room, 5.00 ms in all, 50 % of the run"), "{text}");
    let audit = text.find("held back by audit").expect("audit is named");
    assert!(audit < text.find("held back by routes").expect("routes too"), "the worst comes first");
}

#[test]
fn a_failed_check_is_seen() {
    let good = summary();
    assert!(good.sound() && short(&good).ends_with("all checks passed\n"));
    let unordered = Summary { order: OrderEnd { broken: 1, ..good.order }, ..summary() };
    let incomplete = Summary { audit: AuditEnd { rows: 999, twice: 0 }, ..summary() };
    let doubled = Summary { audit: AuditEnd { rows: 1000, twice: 1 }, ..summary() };
    let lost = Summary { groups: vec![group("delays", 990, 9)], ..summary() };
    let mut miscounted = group("delays", 1000, 0);
    miscounted.done = 999;
    let miscounted = Summary { groups: vec![miscounted], ..summary() };
    for bad in [unordered, incomplete, doubled, lost, miscounted] {
        assert!(!bad.sound());
        assert!(full(&bad, Style::plain()).contains("  NO  "));
        assert!(short(&bad).contains("A CHECK FAILED"));
    }
}

#[test]
fn lists_malformed_lines() {
    assert_eq!(malformed(&Tally::default()), "");
    let one = Malformed { line: 3, column: "dest".to_owned(), what: "found \"\"".to_owned() };
    let tally = Tally { malformed: 1, shown: vec![one.clone()], ..Tally::default() };
    assert_eq!(malformed(&tally), "pipeline: 1 malformed line, skipped:\n  line 3, column dest: found \"\"\n");
    let tally = Tally { malformed: 1234, shown: vec![one; 10], ..Tally::default() };
    assert!(malformed(&tally).starts_with("pipeline: 1,234 malformed lines, skipped; the first 10:\n"));
}

#[test]
fn days_are_said_shortly() {
    assert_eq!(days(day(1, 1), day(1, 1)), "1 January 2013");
    assert_eq!(days(day(1, 1), day(1, 31)), "1 to 31 January 2013");
    assert_eq!(days(day(1, 1), day(12, 31)), "1 January to 31 December 2013");
    assert_eq!(days(day(12, 31), Date { year: 2014, month: 1, day: 1 }), "31 December 2013 to 1 January 2014");
}
