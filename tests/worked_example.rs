//! A small shop, to the last figure: six events over two partitions, a group that bills, one that audits, and one that
//! ships with a handler that fails once for each event and always for one of them.
mod lab;

use lab::Lab;
use ringlog::{Broker, BrokerState, Group, GroupConfig, GroupStats, Record, Retry, SeekTo, Topic, TopicConfig};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EVENTS: [&str; 6] =
    ["alice:created", "bob:created", "alice:paid", "bob:cancelled", "alice:shipped", "carol:created"];
const POISON: &str = "bob:cancelled";

#[derive(Debug)]
struct ConsumerError(&'static str);

impl fmt::Display for ConsumerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot process {}", self.0)
    }
}

impl std::error::Error for ConsumerError {}

/// What a handler was called with, in order.
type Calls = Arc<Mutex<Vec<&'static str>>>;

struct Shop {
    lab: Lab,
    topic: Topic<&'static str>,
    billing: (Group<&'static str>, Calls),
    audit: (Group<&'static str>, Calls),
    shipping: (Group<&'static str>, Calls),
}

impl Shop {
    /// Opened, and everything delivered.
    fn after_the_day(seed: u64) -> Self {
        let lab = Lab::new(seed);
        let config = TopicConfig::new().partitions(2).capacity(1_024).key(|event: &&'static str| account(event));
        let topic = lab.broker.create_topic("orders", config).unwrap();
        let (billing, audit) = (recording(&lab, &topic, "billing"), recording(&lab, &topic, "audit"));
        let shipping = flaky(&lab, &topic);
        for event in EVENTS {
            topic.publish(event).unwrap();
        }
        lab.finish();
        Shop { lab, topic, billing, audit, shipping }
    }

    fn broker(&self) -> &Broker {
        &self.lab.broker
    }
}

fn account(event: &str) -> &str {
    event.split(':').next().unwrap_or(event)
}

fn recording(lab: &Lab, topic: &Topic<&'static str>, name: &str) -> (Group<&'static str>, Calls) {
    let (group, calls) = (topic.group(name, GroupConfig::earliest()).unwrap(), Calls::default());
    let seen = calls.clone();
    group.member("m").run(&lab.manual).subscribe(move |event| seen.lock().unwrap().push(**event)).unwrap();
    (group, calls)
}

/// Fails once for each event, and always for the poison.
fn flaky(lab: &Lab, topic: &Topic<&'static str>) -> (Group<&'static str>, Calls) {
    let retry = Retry::exponential(3).max(Duration::from_millis(50));
    let config = GroupConfig::earliest().retry(retry).bury_cloned();
    let (group, calls) = (topic.group("shipping", config).unwrap(), Calls::default());
    let seen = calls.clone();
    let mut failed = HashMap::new();
    let ship = move |event: &Record<'_, &'static str>| {
        seen.lock().unwrap().push(**event);
        let before = failed.insert(**event, ());
        if before.is_none() || **event == POISON { Err(ConsumerError(**event)) } else { Ok(()) }
    };
    group.member("m").run(&lab.manual).subscribe(ship).unwrap();
    (group, calls)
}

fn figures(stats: &GroupStats) -> [u64; 4] {
    assert!(stats.balances(), "{stats:#?}");
    [stats.acked(), stats.retried(), stats.dead(), stats.skipped()]
}

//
#[test]
fn billing_and_audit_get_all_six_and_each_account_in_order() {
    for seed in 0..10 {
        let shop = Shop::after_the_day(seed);
        for (group, calls) in [&shop.billing, &shop.audit] {
            let calls = calls.lock().unwrap();
            let mut all = calls.clone();
            all.sort_unstable();
            let mut expected = EVENTS;
            expected.sort_unstable();
            assert_eq!(all, expected, "six of six, each once");
            let of = |name| calls.iter().copied().filter(|event| account(event) == name).collect::<Vec<_>>();
            assert_eq!(of("alice"), ["alice:created", "alice:paid", "alice:shipped"]);
            assert_eq!(of("bob"), ["bob:created", "bob:cancelled"]);
            assert_eq!(figures(&group.stats()), [6, 0, 0, 0]);
        }
    }
}

//
#[test]
fn shipping_delivers_five_retries_seven_times_and_buries_the_one_that_always_fails() {
    for seed in 0..10 {
        let shop = Shop::after_the_day(seed);
        let (group, calls) = &shop.shipping;
        assert_eq!(figures(&group.stats()), [5, 7, 1, 0]);
        let calls = calls.lock().unwrap();
        assert_eq!(calls.iter().filter(|event| **event == "alice:paid").count(), 2);
        assert_eq!((calls.iter().filter(|event| **event == POISON).count(), calls.len()), (3, 13));
        let letters = group.letters();
        assert_eq!((letters.len(), letters[0].attempts()), (1, 3));
        let (payload, kind) = (letters[0].payload::<&'static str>().unwrap(), letters[0].kind());
        let kind = kind.rsplit("::").next().unwrap();
        let text = format!("{payload} ({kind}: {})", letters[0].message());
        assert_eq!(text, "bob:cancelled (ConsumerError: cannot process bob:cancelled)");
        assert_eq!((letters[0].partition(), letters[0].offset()), (0, 1));
    }
}

//
#[test]
fn lag_is_zero_before_a_replay_which_doubles_what_billing_got_and_then_the_broker_stops() {
    for seed in 0..10 {
        let shop = Shop::after_the_day(seed);
        let (billing, calls) = &shop.billing;
        assert_eq!(billing.lag(), 0);
        assert_eq!(billing.replay(SeekTo::Offset(0)).unwrap(), [0, 0]);
        shop.lab.finish();
        assert_eq!(calls.lock().unwrap().len(), 12);
        assert_eq!(figures(&billing.stats()), [12, 0, 0, 0]);
        let account = shop.broker().close(Some(Duration::ZERO));
        assert_eq!(shop.broker().state(), BrokerState::Closed);
        assert_eq!((account.dead(), account.left(), shop.shipping.0.letters().len()), (1, 0, 1));
        assert!(shop.topic.is_closed());
    }
}
