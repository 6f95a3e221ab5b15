//! Push as a loop that takes what there is, hands it over one by one, and stops at what fails.
mod lab;

use lab::{CAPACITIES, Lab};
use ringlog::{
    Batch, Broker, BrokerConfig, Clock, Futex, Group, GroupConfig, ManualClock, Outcome, Pick, Record, Retain, Retry,
    Run, Time, TopicConfig, WaitPolicy, Woken,
};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

const LONG: Duration = Duration::from_secs(60);

/// As often as it takes, and at once.
fn at_once() -> Retry {
    Retry::constant(1, Duration::ZERO).unlimited()
}

fn committed(group: &Group<impl Send + Sync + 'static>) -> u64 {
    group.stats_of(0).unwrap().committed
}

// B-V10, B-11
#[test]
fn a_handler_that_fails_once_gets_the_record_again_and_the_log_ends_empty() {
    let lab = Lab::new(0);
    let config = TopicConfig::new().capacity(10).retain(Retain::Unacked);
    let payments = lab.broker.create_topic("payments", config).unwrap();
    let ledger = payments.group("ledger", GroupConfig::latest().retry(at_once())).unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (written, group, mut failed) = (lines.clone(), ledger.clone(), false);
    let handler = move |record: &Record<'_, String>| {
        assert_eq!(committed(&group), record.offset(), "what came before is acknowledged already");
        let fails = record.as_str() == "pay-2" && !std::mem::replace(&mut failed, true);
        let done = if fails { "throws, nacked" } else { "ok, acked" };
        written.lock().unwrap().push(format!("handle {}:{} -> {done}", record.offset(), **record));
        if fails { Outcome::retry("not now") } else { Outcome::Ack }
    };
    ledger.member("ledger-1").run(&lab.manual).subscribe(handler).unwrap();
    for payment in ["pay-1", "pay-2", "pay-3"] {
        payments.publish(payment.to_owned()).unwrap();
    }
    lab.settle();
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "handle 0:pay-1 -> ok, acked",
            "handle 1:pay-2 -> throws, nacked",
            "handle 1:pay-2 -> ok, acked",
            "handle 2:pay-3 -> ok, acked"
        ]
    );
    let log = payments.partition_stats(0).unwrap();
    assert_eq!((log.earliest, log.end, log.retained(), committed(&ledger)), (3, 3, 0, 3));
}

// B-11: the rest of the batch waits behind what failed, and what was before it is acknowledged when it comes again
#[test]
fn a_failure_stops_the_batch_and_what_came_before_it_is_acknowledged() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(1, capacity);
        let group = topic.group("g", GroupConfig::earliest().retry(at_once())).unwrap();
        let came = Arc::new(Mutex::new(Vec::new()));
        let (seen, of) = (came.clone(), group.clone());
        let handler = move |record: &Record<'_, u64>| {
            seen.lock().unwrap().push(record.offset());
            let again = record.attempt() < 3 && record.offset() % 2 == 1;
            if record.attempt() > 1 {
                assert_eq!(committed(&of), record.offset());
            }
            if again { Outcome::retry("odd") } else { Outcome::Ack }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        lab.feed(&topic, 0, 0..50);
        lab.settle();
        let expected: Vec<u64> = (0..50).flat_map(|n| vec![n; if n % 2 == 1 { 3 } else { 1 }]).collect();
        assert_eq!(*came.lock().unwrap(), expected, "capacity {capacity}");
        assert_eq!(lab::balanced(&group).acked(), 50);
    }
}

// B-E2: five attempts, then a topic of its own, and done in the original
#[test]
fn what_fails_five_times_goes_to_a_topic_of_its_own_and_holds_nobody_up() {
    let lab = Lab::new(0);
    let (topic, dead) = (lab.topic(1, 16), lab.broker.create_topic("dead", TopicConfig::new()).unwrap());
    let config = GroupConfig::earliest().retry(Retry::constant(5, Duration::ZERO)).bury_cloned();
    let group = topic.group("g", config).unwrap();
    let came = Arc::new(Mutex::new(Vec::new()));
    let (seen, of, aside) = (came.clone(), group.clone(), dead.clone());
    let handler = move |record: &Record<'_, u64>| {
        seen.lock().unwrap().push((record.offset(), record.attempt()));
        let moved = aside.redrive(&of, Pick::all(), Duration::ZERO); // what was buried before
        assert!(moved.is_ok(), "{moved:?}");
        if **record == 2 { Outcome::retry("poison") } else { Outcome::Ack }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, 0..5);
    lab.settle();
    let expected = [(0, 1), (1, 1), (2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (3, 1), (4, 1)];
    assert_eq!(*came.lock().unwrap(), expected);
    let stats = lab::balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.letters, committed(&group)), (4, 1, 0, 5));
    assert_eq!(dead.end(0), Some(1), "the one record, and once");
}

// B-12: no batch is larger than an eighth of the capacity
#[test]
fn batches_are_small_however_much_there_is() {
    for capacity in CAPACITIES {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::new().capacity(capacity)).unwrap();
        let group = lab::group(&topic);
        topic.publish_batch(0..capacity as u64).unwrap();
        let largest = Arc::new(Mutex::new(0));
        let seen = largest.clone();
        let handler = move |batch: &Batch<'_, u64>| {
            let mut largest = seen.lock().unwrap();
            *largest = batch.len().max(*largest);
        };
        group.member("m").subscribe_batch(handler).unwrap();
        broker.drain(LONG).unwrap();
        assert_eq!(lab::balanced(&group).acked(), capacity as u64);
        let largest = *largest.lock().unwrap();
        assert!((1..=(capacity / 8).max(1)).contains(&largest), "capacity {capacity}: {largest}");
    }
}

/// A manual clock on which whoever sleeps looks again every ten seconds, as on the system's.
#[derive(Debug, Default)]
struct Restless(ManualClock);

impl Clock for Restless {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.0.wall(at)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        self.0.sleep(word, expected, until)
    }

    fn look_again(&self) -> Option<Duration> {
        ringlog::SystemClock::new().look_again()
    }
}

// B-12: a thread for each partition, none of which sleeps for ever
#[test]
fn a_member_that_nobody_wakes_looks_by_itself() {
    let clock = Arc::new(Restless::default());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("t", TopicConfig::new().partitions(2)).unwrap();
    let group = topic.group("g", GroupConfig::latest()).unwrap();
    let (tell, told) = mpsc::channel();
    let lane = |_| {
        let tell = tell.clone();
        move |record: &Record<'_, u64>| tell.send((**record, thread::current().id())).unwrap()
    };
    group.member("m").run(Run::ThreadPerLane).wait(WaitPolicy::Park).subscribe_with(lane).unwrap();
    for n in 0..6 {
        clock.0.wait_for_sleepers(2);
        topic.publish_quietly(n).unwrap();
        assert!(told.try_recv().is_err(), "both are asleep, and nobody woke them");
        clock.0.advance(Duration::from_secs(10));
        assert_eq!(told.recv_timeout(LONG).unwrap().0, n);
    }
}
