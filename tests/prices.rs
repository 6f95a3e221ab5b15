//! The example `prices` on its built-in series: whoever loses says how much, and the screen ends with the latest of each carrier.
#![forbid(unsafe_code)]

#[allow(dead_code)]
#[path = "../examples/prices.rs"]
mod example;

use clap::Parser;

/// Quotes of January 2013: 27,004 departures less 521 that were cancelled.
const QUOTES: u64 = 26_483;

#[test]
fn every_reader_accounts_for_every_quote() {
    let args = example::Args::parse_from(["prices", "--quiet", "--rate", "0"]);
    let report = example::run(&args).unwrap();
    assert_eq!(report.quotes, QUOTES);
    for group in &report.groups {
        assert!(group.balances());
        assert_eq!(group.acked() + group.dropped() + group.conflated(), QUOTES, "{}", group.group);
    }
    let [screen, chart, sampler, risk] = &report.groups[..] else { panic!("four readers") };
    assert_eq!(risk.acked(), QUOTES, "the risk check misses nothing");
    assert!(screen.dropped() == 0 && chart.conflated() == 0 && sampler.dropped() > 0);
    assert!(report.text.contains("on the screen, in minutes: 9E "), "{}", report.text);
    assert!(!report.text.contains("does not add up"), "{}", report.text);
}
