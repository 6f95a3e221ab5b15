//! Waiting until groups have done a record, and watermarks on what they lag by.
mod lab;

use lab::{Lab, balanced};
use ringlog::{
    Broker, ConfigError, Group, GroupConfig, GroupError, ManualClock, Outcome, Position, Record, Retry, SeekTo, Topic,
    TopicConfig, WaitError, Worker,
};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

const fn at(partition: u32, offset: u64) -> Position {
    Position { partition, offset }
}

fn now(topic: &Topic<u64>, position: Position, groups: &[&str]) -> Result<(), WaitError> {
    topic.wait_committed(position, groups, Duration::ZERO)
}

fn join(group: &Group<u64>, lab: &Lab) {
    group.member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
}

#[test]
fn a_record_is_done_once_the_cursor_of_each_group_is_past_it() {
    let lab = Lab::new(0);
    let topic = lab.topic(2, 8);
    let (one, two) =
        (topic.group("one", GroupConfig::earliest()).unwrap(), topic.group("two", GroupConfig::earliest()).unwrap());
    join(&one, &lab);
    lab.feed(&topic, 1, 0..2);
    lab.settle();
    assert_eq!(now(&topic, at(1, 1), &["one"]), Ok(()));
    for groups in [&["one", "two"][..], &["two"], &[]] {
        match now(&topic, at(1, 1), groups) {
            Err(WaitError::TimedOut { behind, waited: Duration::ZERO, .. }) => {
                assert_eq!(behind, [two.offsets()[1].clone()], "who is behind, and where");
            }
            other => panic!("{other:?}"),
        }
    }
    let said = now(&topic, at(1, 2), &[]).unwrap_err().to_string();
    assert_eq!(said, "orders/1@2 not done after 0ns: orders/1: one at 2, orders/1: two at 0");
    two.seek(1, SeekTo::Offset(1)).unwrap();
    assert_eq!(now(&topic, at(1, 0), &[]), Ok(()), "passed over is past");
    assert!(now(&topic, at(1, 1), &[]).is_err());
    assert!(matches!(now(&topic, at(2, 0), &[]), Err(WaitError::NoPartition { partition: 2, partitions: 2, .. })));
    assert!(matches!(now(&topic, at(0, 0), &["three"]), Err(WaitError::Unknown { .. })));
    one.delete();
    two.delete();
    assert_eq!(now(&topic, at(0, 100), &[]), Ok(()), "nobody is waited for");
}

// signalled by the commit, on a clock that nobody moves; published while it is waited for
#[test]
fn who_waits_is_woken_by_the_commit() {
    let broker = Broker::with(ringlog::BrokerConfig::new().clock(Arc::new(ManualClock::new())));
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::never())).unwrap();
    let (goes, waits) = mpsc::channel();
    let handler = move |record: &Record<'_, u64>| {
        waits.recv().unwrap();
        if **record == 1 { Outcome::reject("no") } else { Outcome::Ack }
    };
    group.subscribe("m", handler).unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|offset| {
            let topic = topic.clone();
            std::thread::spawn(move || topic.wait_committed(at(0, offset), &["g"], MINUTE))
        })
        .collect();
    for (offset, waiter) in (0..).zip(waiters) {
        topic.publish(offset).unwrap();
        assert!(now(&topic, at(0, offset), &["g"]).is_err());
        goes.send(()).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(()), "acknowledged or buried");
    }
    drop(broker);
}

#[test]
fn who_waits_for_a_group_that_ends_is_told() {
    let ends: [fn(&Broker, &Group<u64>); 3] = [
        |_, group| assert!(group.delete()),
        |broker, _| assert!(broker.close(Some(Duration::ZERO)).stopped),
        |broker, _| broker.delete_topic("t").unwrap(),
    ];
    for end in ends {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(ringlog::BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let waiter = std::thread::spawn(move || topic.wait_committed(at(0, 0), &[], MINUTE));
        clock.wait_for_sleepers(1);
        end(&broker, &group);
        assert_eq!(waiter.join().unwrap(), Err(WaitError::Ended { group: "g".into() }));
    }
}

// by the broker's clock
#[test]
fn the_time_is_up_when_the_clock_says_so() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(ringlog::BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap();
    let waiter = std::thread::spawn(move || topic.wait_committed(at(0, 0), &[], MINUTE));
    clock.wait_for_sleepers(1);
    clock.advance(MINUTE);
    assert!(matches!(waiter.join().unwrap(), Err(WaitError::TimedOut { waited: MINUTE, .. })));
}

// A handler that would wait for itself is refused; one that waits for others is not
#[test]
fn a_handler_may_wait_for_others_and_not_for_its_own_thread() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let worker = Worker::spawn().unwrap();
    let elsewhere = topic.group("elsewhere", GroupConfig::earliest()).unwrap();
    let beside = topic.group("beside", GroupConfig::earliest()).unwrap();
    let own = topic.group("own", GroupConfig::earliest()).unwrap();
    elsewhere.subscribe("m", |_| ()).unwrap();
    beside.member("m").run(&worker).subscribe(|_| ()).unwrap();
    let (says, said) = mpsc::channel();
    let asks = topic.clone();
    let handler = move |record: &Record<'_, u64>| {
        let position = at(0, record.offset());
        says.send(["own", "beside", "elsewhere"].map(|group| asks.wait_committed(position, &[group], MINUTE))).unwrap();
    };
    own.member("m").run(&worker).subscribe(handler).unwrap();
    topic.publish(0).unwrap();
    let [own, beside, elsewhere] = said.recv().unwrap();
    assert_eq!(own, Err(WaitError::WouldDeadlock { group: "own".into() }));
    assert!(beside.is_ok() || beside == Err(WaitError::WouldDeadlock { group: "beside".into() }));
    assert_eq!(elsewhere, Ok(()));
    broker.close(Some(MINUTE));
}

// A-E5: told on the edges, by the timer, and contained
#[test]
fn a_watermark_is_told_when_it_is_passed_and_when_the_group_has_caught_up() {
    let lab = Lab::new(0);
    let topic = lab.topic(2, 16);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (noted, own) = (told.clone(), Arc::new(OnceLock::<Group<u64>>::new()));
    let asked = own.clone();
    let config = GroupConfig::earliest().on_lag(4, move |alarm| {
        let group = asked.get().unwrap();
        group.pause(); // a hook may do anything
        group.resume();
        noted.lock().unwrap().push((alarm.raised, alarm.lag, alarm.high));
        panic!("as planned");
    });
    let group = topic.group("g", config).unwrap();
    own.set(group.clone()).unwrap();
    let look = |expected: &[(bool, u64, u64)]| {
        lab.clock.advance(Duration::from_secs(1));
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()), expected);
    };
    lab.feed(&topic, 0, 0..3);
    look(&[]);
    lab.feed(&topic, 1, 0..2);
    look(&[(true, 5, 4)]);
    lab.feed(&topic, 1, 0..2);
    look(&[]);
    group.seek(0, SeekTo::Latest).unwrap();
    look(&[]); // 4 are left
    group.seek(1, SeekTo::Offset(1)).unwrap();
    look(&[]); // 3
    join(&group, &lab);
    lab.settle();
    look(&[(false, 0, 4)]);
    look(&[]);
    lab.feed(&topic, 1, 0..4);
    look(&[(true, 4, 4)]);
    balanced(&group);
    group.delete();
    look(&[]);
    own.get().unwrap();
    let refused = topic.group("zero", GroupConfig::earliest().on_lag(0, |_| ())).unwrap_err();
    assert!(matches!(refused, GroupError::Config(ConfigError { field: "on_lag", .. })));
}

// on a clock that runs by itself
#[test]
fn the_timer_s_thread_tells_of_a_watermark_and_saves_offsets() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let (says, said) = mpsc::channel();
    let says = Mutex::new(says);
    let config = GroupConfig::earliest().on_lag(2, move |alarm| says.lock().unwrap().send(alarm.lag).unwrap());
    topic.group("g", config).unwrap();
    topic.publish_batch(0..2).unwrap();
    assert_eq!(said.recv_timeout(MINUTE).unwrap(), 2);
}

#[test]
fn a_place_is_asked_for_with_what_says_it_a_publish_a_record_or_a_letter() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest().retry(ringlog::Retry::never())).unwrap();
    let (seen, all) = std::sync::mpsc::channel();
    let handler = move |record: &ringlog::Record<'_, u64>| {
        seen.send((record.position(), ringlog::Position::from(record))).unwrap();
        Err::<(), _>("no")
    };
    group.subscribe("m", handler).unwrap();
    let published = topic.publish(7).unwrap();
    topic.wait_committed(published, &["g"], MINUTE).unwrap();
    assert_eq!(all.recv().unwrap(), (published.position, published.into()));
    let letter = group.letters().remove(0);
    assert_eq!((letter.position(), letter.kind()), (published.position, "error"));
    assert_eq!(group.delivery(&letter), group.delivery(published));
    assert_eq!(group.delivery(&letter), Ok(ringlog::Delivery::Dead));
}
