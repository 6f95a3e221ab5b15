//! What users' tests are given (feature `testing`) does what it says.
#![forbid(unsafe_code)]

use ringlog::testing::{Counter, Flaky, Lab, Planned, Recorder, Stuck};
use ringlog::{
    BatchError, Broker, Group, GroupConfig, ManualClock, PublishError, Record, Retry, SeekTo, Time, Topic, TopicConfig,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SLOTS: [usize; 5] = [1, 2, 3, 4, 1_000];

fn account(event: &str) -> &str {
    event.split(':').next().unwrap_or(event)
}

fn orders(broker: &Broker, slots: usize) -> Topic<&'static str> {
    let config =
        TopicConfig::new().partitions(2).capacity(slots).key(|event: &&'static str| account(event)).block(None);
    broker.create_topic("orders", config).unwrap()
}

fn balanced<T: Send + Sync + 'static>(group: &Group<T>) {
    assert!(group.stats().balances(), "{:#?}", group.stats());
}

const EVENTS: [&str; 4] = ["alice:created", "bob:created", "alice:paid", "bob:cancelled"];

// A-T23, C-T11
#[test]
fn a_recorder_keeps_positions_attempts_and_clones_in_order_and_waits_for_them() {
    for slots in SLOTS {
        let broker = Broker::new();
        let topic = orders(&broker, slots);
        let group = topic.group("billing", GroupConfig::earliest()).unwrap();
        let seen = Recorder::new();
        group.subscribe("m", seen.handler()).unwrap();
        assert!(seen.is_empty());
        let few = seen.wait_for(1, Duration::from_millis(1)).unwrap_err();
        assert_eq!((few.wanted, few.came, few.to_string().as_str()), (1, 0, "waited 1ms for 1 call, but there were 0"));
        let publisher = thread::spawn(move || EVENTS.map(|event| topic.publish(event).unwrap().position));
        seen.wait_for(EVENTS.len(), LONG).unwrap();
        let published = publisher.join().unwrap();
        assert_eq!(seen.values_where(|event| account(event) == "alice"), ["alice:created", "alice:paid"]);
        assert_eq!((seen.offsets(0), seen.offsets(1)), (vec![0, 1], vec![0, 1]));
        let mut positions = seen.positions();
        positions.sort_unstable();
        let mut expected = published.to_vec();
        expected.sort_unstable();
        assert_eq!(positions, expected);
        for one in seen.seen() {
            assert_eq!((&*one.topic, one.attempt, one.lost_before), ("orders", 1, 0));
            let at = published.iter().position(|position| *position == one.position()).unwrap();
            assert_eq!(EVENTS[at], one.value);
        }
        assert_eq!((seen.take().len(), seen.len()), (4, 0));
        broker.drain(LONG).unwrap();
        balanced(&group);
    }
}

// A-T23
#[test]
fn a_flaky_handler_fails_so_often_for_each_record_and_always_for_poison() {
    for slots in SLOTS {
        for seed in 0..5 {
            let lab = Lab::new(seed);
            let topic = orders(lab.broker(), slots);
            let group = topic.group("shipping", GroupConfig::earliest().retry(Retry::constant(4, LONG))).unwrap();
            let flaky = Flaky::failing(2).poison(|event: &&str| *event == "bob:cancelled");
            group.member("m").run(lab.manual()).subscribe(flaky.handler()).unwrap();
            for event in EVENTS {
                topic.publish(event).unwrap();
                lab.finish();
            }
            assert_eq!(flaky.accepted().values(), &EVENTS[..3]);
            assert_eq!(
                (flaky.attempts(|event| *event == "alice:paid"), flaky.attempts(|event| *event == EVENTS[3])),
                (3, 4)
            );
            let attempts: Vec<u32> = flaky.accepted().seen().iter().map(|seen| seen.attempt).collect();
            assert_eq!(attempts, [3, 3, 3]);
            assert_eq!((group.stats().retried(), group.stats().dead()), (2 * 3 + 3, 1));
            assert_eq!(group.letters()[0].message(), Planned::Poison { call: 4 }.to_string());
            balanced(&group);
        }
    }
}

// A-T23
#[test]
fn what_a_flaky_handler_accepted_once_it_accepts_again() {
    let lab = Lab::new(1);
    let topic = orders(lab.broker(), 8);
    let group = topic.group("shipping", GroupConfig::earliest()).unwrap();
    let flaky = Flaky::failing(1);
    group.member("m").run(lab.manual()).subscribe(flaky.handler()).unwrap();
    topic.publish_batch(EVENTS).unwrap();
    lab.finish();
    group.replay(SeekTo::Earliest).unwrap();
    lab.finish();
    assert_eq!((flaky.tried().len(), flaky.accepted().len(), group.stats().retried()), (12, 8, 4));
    balanced(&group);
}

// A-T23, C-T11
#[test]
fn a_stuck_handler_says_when_it_is_in_and_goes_when_it_is_let() {
    let broker = Broker::new();
    let config = TopicConfig::<u64>::new().capacity(2).block(Some(Duration::ZERO));
    let topic = broker.create_topic("ticks", config).unwrap();
    let (stuck, quick) = (Stuck::new(), Counter::new());
    let slow = topic.group("slow", GroupConfig::earliest()).unwrap();
    slow.subscribe("m", stuck.handler()).unwrap();
    topic.group("fast", GroupConfig::earliest()).unwrap().subscribe("m", quick.handler()).unwrap();
    topic.publish_batch([0, 1]).unwrap();
    stuck.wait_until_in(1, LONG).unwrap();
    quick.wait_for(2, LONG).unwrap();
    assert_eq!((stuck.inside(), stuck.entered()), (1, 1), "one record at a time");
    assert_eq!(stuck.wait_until_in(2, Duration::ZERO).unwrap_err().came, 1);
    assert!(topic.publish(2).is_err(), "and it holds its record");
    stuck.release(1);
    stuck.wait_until_in(2, LONG).unwrap();
    topic.publish_within(2, Duration::ZERO).unwrap();
    drop(stuck); // opens it
    broker.drain(LONG).unwrap();
    assert_eq!(slow.stats().acked(), 3);
    assert!(broker.close(Some(LONG)).stopped);
}

// A-T23
#[test]
fn a_counter_counts_over_all_members_and_lanes() {
    let broker = Broker::new();
    let topic = broker.create_topic("ticks", TopicConfig::<u64>::new().partitions(3).capacity(4).block(None)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let counter = Counter::new();
    for name in ["a", "b"] {
        group.member(name).run(ringlog::Run::ThreadPerLane).subscribe_with(|_| counter.handler()).unwrap();
    }
    (0..500).for_each(|n| _ = topic.publish(n).unwrap());
    counter.wait_for(500, LONG).unwrap();
    broker.drain(LONG).unwrap();
    assert_eq!(counter.count(), 500);
}

// A-T23, A-16
#[test]
fn a_lab_is_reproducible_and_time_passes_only_there() {
    let run = |seed| {
        let lab = Lab::new(seed);
        let topic = orders(lab.broker(), 2);
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(2, LONG))).unwrap();
        let name = lab.broker().next_id();
        let flaky = Flaky::failing(1);
        group.member(&name).run(lab.manual()).subscribe(flaky.handler()).unwrap();
        topic.publish_batch(EVENTS).unwrap();
        lab.settle();
        assert_eq!((flaky.tried().len(), flaky.accepted().len(), name.as_str()), (2, 0, "m1"), "both lanes wait");
        lab.pass(LONG);
        assert_eq!(flaky.accepted().len(), 2);
        lab.finish();
        assert_eq!(lab.clock().now_is(), 2 * LONG);
        lab.manual().trace()
    };
    assert_eq!(run(5), run(5));
    assert!((0..10).map(run).collect::<std::collections::HashSet<_>>().len() > 1, "the seed chooses");
}

trait NowIs {
    fn now_is(&self) -> Duration;
}

impl NowIs for ManualClock {
    fn now_is(&self) -> Duration {
        use ringlog::Clock;
        self.now().since(Time::default())
    }
}

// A-T23, A-14
#[test]
fn a_topic_that_is_full_now_refuses_whoever_publishes_and_however() {
    let lab = Lab::new(1);
    let topic = orders(lab.broker(), 8);
    let other = lab.broker().create_topic("other", TopicConfig::<u8>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let full = |refused: Result<_, PublishError<&'static str>>| match refused {
        Err(PublishError::Full { value, full }) => (value, full.limiting.is_some(), full.waited),
        other => panic!("{other:?}"),
    };
    lab.manual().full_now(&topic, 5);
    other.publish(1).unwrap();
    let expected = ("alice:paid", true, Duration::ZERO);
    assert_eq!(full(topic.publish("alice:paid")), expected);
    assert_eq!(full(topic.try_publish("alice:paid")), expected);
    assert_eq!(full(topic.publish_within("alice:paid", LONG)), expected);
    assert_eq!(full(topic.publish_quietly("alice:paid")), expected);
    let BatchError::Stopped { stored, rest, .. } = topic.publish_batch(EVENTS).unwrap_err() else { panic!() };
    assert_eq!((stored.len(), rest.len()), (0, 4));
    assert_eq!(topic.counts().rejected, 5);
    assert_eq!(topic.publish("alice:paid").unwrap().offset(), 0, "that was all, and nothing was used up");
    lab.manual().full_now(&topic, 9);
    lab.manual().full_now(&topic, 0);
    topic.publish("alice:shipped").unwrap();
    assert_eq!(group.lag(), 2);
    assert!(lab.manual().trace().contains("orders is full for 9 publishes"));
}

// A-T23, A-14
#[test]
fn a_topic_with_one_producer_can_be_full_now_as_well() {
    let lab = Lab::new(1);
    let config = TopicConfig::<u64>::new().partitions(2).block(None);
    let (topic, mut producer) = lab.broker().create_exclusive("ticks", config).unwrap();
    lab.manual().full_now(&topic, 4);
    assert!(matches!(producer.publish(1), Err(PublishError::Full { value: 1, .. })));
    assert!(matches!(producer.publish_quietly(1), Err(PublishError::Full { value: 1, .. })));
    assert!(matches!(producer.publish_in_place(0, || 1, |_| ()), Err(PublishError::Full { .. })));
    let BatchError::Stopped { stored, rest, .. } = producer.publish_batch([1, 2, 3]).unwrap_err() else { panic!() };
    assert_eq!((stored.len(), rest.len()), (0, 3));
    assert_eq!(producer.publish_to(0, 1).unwrap().offset(), 0);
}

// A-T23, A-56
#[test]
fn a_planned_panic_a_dead_member_and_a_full_topic_leave_the_books_exact() {
    for slots in SLOTS {
        for seed in 0..10 {
            let lab = Lab::new(seed);
            let topic = orders(lab.broker(), slots);
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let seen = Recorder::new();
            for name in ["one", "two"] {
                group.member(name).run(lab.manual()).subscribe(seen.handler()).unwrap();
            }
            lab.manual().panic_at("g", 1, 1);
            let mut refused = 0;
            for (n, event) in EVENTS.into_iter().cycle().take(20).enumerate() {
                if n % 7 == 3 {
                    lab.manual().full_now(&topic, 1);
                    refused += usize::from(topic.publish(event).is_err());
                } else {
                    topic.publish(event).unwrap();
                }
                if n == 10 {
                    assert!(lab.manual().kill("g", "one"));
                }
                lab.finish();
            }
            assert_eq!((seen.len(), refused, group.stats().retried()), (17, 3, 1));
            assert_eq!((group.lag(), group.assignment().len()), (0, 1));
            balanced(&group);
        }
    }
}

#[test]
fn a_recorder_goes_round_a_handler_of_one_s_own() {
    let lab = Lab::new(1);
    let topic = orders(lab.broker(), 8);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::never())).unwrap();
    let seen = Recorder::new();
    let ours = |event: &Record<'_, &str>| if **event == "alice:paid" { Err("no") } else { Ok(()) };
    group.member("m").run(lab.manual()).subscribe(seen.around(ours)).unwrap();
    topic.publish_batch(EVENTS).unwrap();
    lab.finish();
    assert_eq!((seen.len(), group.stats().acked(), group.stats().dead()), (4, 3, 1));
    let shared = Arc::new(seen.clone());
    assert_eq!(format!("{shared:?}"), "Recorder(4 calls)");
}
