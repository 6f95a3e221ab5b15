//! What can be seen from outside: where groups stand and why, what has become of a record, everything at a glance.

use ringlog::{
    Broker, BrokerConfig, Delivery, Failure, Group, GroupConfig, Manual, ManualClock, Outcome, Position, Record,
    Retain, Retry, SeekTo, Standing, StartAt, Topic, TopicConfig, Worker,
};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

struct Lab {
    clock: Arc<ManualClock>,
    broker: Broker,
    topic: Topic<u64>,
    manual: Manual,
}

fn lab(partitions: u32, capacity: usize) -> Lab {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let config = TopicConfig::new().partitions(partitions).capacity(capacity);
    let topic = broker.create_topic("t", config).unwrap();
    Lab { clock, broker, topic, manual: Manual::new(1) }
}

fn at(partition: u32, offset: u64) -> Position {
    Position { partition, offset }
}

/// What a stuck handler is held by: it reports, then waits for the other end to send or to go.
fn stuck() -> (impl FnMut(&Record<'_, u64>) + Send + 'static, Receiver<()>, Sender<()>) {
    let ((tell, told), (go, gate)) = (channel(), channel::<()>());
    let handler = move |_: &Record<'_, u64>| {
        let _ = tell.send(());
        let _ = gate.recv();
    };
    (handler, told, go)
}

fn why(topic: &Topic<u64>) -> String {
    topic.why_full(0).map_or("it is not full".to_owned(), |why| why.to_string())
}

// A-47, X6
#[test]
fn why_a_partition_is_full_is_told_down_to_the_cause() {
    for capacity in 1..=4 {
        let Lab { clock, topic, manual, broker: _broker } = lab(1, capacity);
        let records = if capacity == 1 { "record" } else { "records" };
        let full = |cause: &str| format!("t/0 is full ({capacity} {records}): group 'slow' stands at 0: {cause}");
        let retry = Retry::constant(3, 5 * SECOND);
        let slow = topic.group("slow", GroupConfig::earliest().retry(retry)).unwrap();
        assert_eq!(why(&topic), "it is not full");
        topic.publish_batch(0..capacity as u64).unwrap();
        assert_eq!(why(&topic), full("it has no member"));
        let fails = |_: &Record<'_, u64>| Outcome::Retry(Failure::new("no"));
        let member = slow.member("m").run(&manual).subscribe(fails).unwrap();
        assert_eq!(why(&topic), full("nothing hinders 'm'"));
        manual.run(100);
        clock.advance(SECOND);
        assert_eq!(why(&topic), full("its record has failed once and is tried again in 4s"));
        slow.pause();
        slow.pause_partition(0).unwrap();
        assert_eq!(why(&topic), full("the group and the partition are paused"));
        slow.resume();
        assert_eq!(why(&topic), full("the partition is paused"));
        slow.resume_partition(0).unwrap();
        member.leave();
        manual.run(100);
        assert_eq!(why(&topic), full("it has no member"));
        assert_eq!(topic.why_full(1), None);
        slow.seek(0, SeekTo::Latest).unwrap();
        assert_eq!(why(&topic), "it is not full");
    }
}

//
#[test]
fn a_backlog_that_nobody_reads_is_full_for_want_of_a_group() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::new().capacity(2).retain(Retain::Backlog)).unwrap();
    topic.publish_batch(0..2_u64).unwrap();
    assert_eq!(why(&topic), "t/0 is full (2 records): no group has read it, from 0 on, and it is kept until one comes");
}

//
#[test]
fn a_handler_at_work_is_named_also_where_its_worker_keeps_another_group_waiting() {
    let Lab { topic, broker: _broker, .. } = lab(2, 1);
    let worker = Worker::spawn().unwrap();
    let (busy, late) = (topic.group("busy", GroupConfig::earliest()), topic.group("late", GroupConfig::earliest()));
    let (busy, late) = (busy.unwrap(), late.unwrap());
    let (handler, told, go) = stuck();
    busy.member("b").run(&worker).subscribe(handler).unwrap();
    topic.publish_to(1, 0).unwrap();
    told.recv_timeout(LONG).unwrap();
    late.member("l").run(&worker).subscribe(|_| ()).unwrap();
    topic.publish_to(0, 0).unwrap();
    let elsewhere = |member: &str| Standing::Elsewhere { member: member.into(), group: "busy".into(), partition: 1 };
    assert_eq!(busy.standing(1), Ok(Standing::AtWork { member: "b".into() }));
    assert_eq!([busy.standing(0), late.standing(0)], [Ok(elsewhere("b")), Ok(elsewhere("l"))]);
    let sentence =
        "t/0 is full (1 record): group 'busy' stands at 0: what runs 'b' is at work for group 'busy' in partition 1";
    assert_eq!(
        why(&topic).replace("'late'", "'busy'").replace("'l'", "'b'"),
        sentence,
        "either of the two stands at 0"
    );
    let next = busy.subscribe("c", |_| ()).unwrap();
    let moving = Standing::Moving { from: "b".into(), to: Some("c".into()) };
    assert_eq!(busy.standing(1), Ok(moving));
    next.leave();
    drop(go);
}

// A-34, A-T11
#[test]
fn the_state_of_a_delivery_is_told_at_every_step_of_its_way() {
    for capacity in 3..=5 {
        let Lab { clock, topic, manual, broker: _broker } = lab(1, capacity);
        let retry = Retry::constant(2, 5 * SECOND);
        let group = topic.group("g", GroupConfig::earliest().retry(retry)).unwrap();
        let state = |offset| group.delivery(at(0, offset)).unwrap();
        assert_eq!(state(0), Delivery::NotPublished);
        let fails = |record: &Record<'_, u64>| if **record == 1 { Err("no") } else { Ok(()) };
        group.member("m").run(&manual).subscribe(fails).unwrap();
        topic.publish_batch(0..3).unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(state),
            [Delivery::Pending, Delivery::Pending, Delivery::Pending, Delivery::NotPublished]
        );
        manual.run(100);
        clock.advance(SECOND);
        let waits = |wait| Delivery::RetryScheduled { attempts: 1, wait };
        assert_eq!([0, 1, 2].map(state), [Delivery::Acked, waits(4 * SECOND), Delivery::Pending]);
        clock.advance(4 * SECOND);
        assert_eq!(state(1), waits(Duration::ZERO));
        manual.run(100);
        assert_eq!([0, 1, 2].map(state), [Delivery::Acked, Delivery::Dead, Delivery::Acked]);
        assert!(group.delivery(at(1, 0)).is_err());
        // Where records were passed over, it is not known which.
        topic.publish(3).unwrap();
        group.seek(0, SeekTo::Latest).unwrap();
        assert_eq!([1, 3].map(state), [Delivery::Dead, Delivery::Passed]);
    }
}

//
#[test]
fn a_record_in_a_handler_s_hand_is_in_hand_and_a_seek_takes_it_back() {
    let Lab { topic, broker, .. } = lab(1, 4);
    topic.publish_batch(0..2).unwrap();
    let group = topic.group("g", GroupConfig::new(StartAt::Offset(1))).unwrap();
    let (handler, told, go) = stuck();
    group.subscribe("m", handler).unwrap();
    told.recv_timeout(LONG).unwrap();
    assert_eq!(group.delivery(at(0, 0)), Ok(Delivery::BeforeStart));
    assert_eq!(group.delivery(at(0, 1)), Ok(Delivery::InHand));
    drop(go);
    broker.drain(LONG).unwrap();
    assert_eq!(group.delivery(at(0, 1)), Ok(Delivery::Acked));
    group.delete();
    assert!(group.standing(0).is_err());
}

//
#[test]
fn a_record_that_went_before_its_group_had_it_is_lost_before_the_group_knows() {
    for capacity in 1..=4 {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::new().capacity(capacity).drop_oldest()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        topic.publish_batch(0..capacity as u64).unwrap();
        topic.publish(9).unwrap();
        assert_eq!([0, 1].map(|offset| group.delivery(at(0, offset)).unwrap()), [Delivery::Lost, Delivery::Pending]);
        assert_eq!(topic.why_full(0), None, "it never is");
        let manual = Manual::new(1);
        group.member("m").run(&manual).subscribe(|_| ()).unwrap();
        manual.run(100);
        assert_eq!(group.delivery(at(0, 0)), Ok(Delivery::Passed));
    }
}

//
#[test]
fn an_attempt_that_waits_is_known_to_whoever_asks_also_after_a_seek_has_made_it_void() {
    let Lab { topic, manual, broker: _broker, .. } = lab(1, 4);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(2, SECOND))).unwrap();
    let fails = |_: &Record<'_, u64>| Err::<(), _>("no");
    let member = group.member("m").run(&manual).subscribe(fails).unwrap();
    topic.publish(0).unwrap();
    manual.run(100);
    let scheduled = Delivery::RetryScheduled { attempts: 1, wait: SECOND };
    assert_eq!(group.delivery(at(0, 0)), Ok(scheduled.clone()));
    member.leave();
    manual.run(100);
    assert_eq!(group.delivery(at(0, 0)), Ok(scheduled), "its attempts stay with it");
    group.seek(0, SeekTo::Earliest).unwrap();
    assert_eq!(group.delivery(at(0, 0)), Ok(Delivery::Pending), "from scratch");
}

fn members(group: &Group<u64>, manual: &Manual, names: &[&str]) {
    names.iter().for_each(|name| _ = group.member(name).run(manual).subscribe(|_| ()).unwrap());
}

// B-27, A-52, A-20, A-81
#[test]
fn everything_at_a_glance_in_order_of_names() {
    let Lab { broker, topic, manual, .. } = lab(2, 4);
    let empty = broker.create_topic("a", TopicConfig::<String>::new()).unwrap();
    let (z, b) =
        (topic.group("z", GroupConfig::earliest()).unwrap(), topic.group("b", GroupConfig::earliest()).unwrap());
    members(&b, &manual, &["b2", "b1"]);
    (0..3).for_each(|n| _ = topic.publish_to(0, n).unwrap());
    manual.run(100);
    z.seek(0, SeekTo::Offset(1)).unwrap();
    z.pause();
    members(&z, &manual, &["z1"]);
    let page = "\
broker, Open, 2 topics
a of alloc::string::String, 1 partition of 8192 records
  0: log 0..0, 0 kept, no group
t of u64, 2 partitions of 4 records
  0: log 0..3, 3 kept, all past 1
  1: log 0..0, 0 kept, all past 0
  b, 2 members, lag 0, 3 acked, 0 dead, 0 letters
    b2 has [0]
    b1 has [1]
    0: next 3 of 3, lag 0
    1: next 0 of 0, lag 0
  z, 1 member, lag 2, 0 acked, 0 dead, 0 letters
    z1 has [0, 1]
    0: next 1 of 3, lag 2, 1 skipped: the group is paused
    1: next 0 of 0, lag 0";
    assert_eq!(broker.describe().to_string(), page);
    let described = topic.describe();
    assert_eq!((described.passed(0), described.passed(2)), (Some(1), None));
    assert_eq!(described.groups[1], z.describe());
    assert_eq!(empty.describe().passed(0), Some(0), "without a group all is kept for the first");
}

//
#[test]
fn a_handler_may_look_at_everything_and_finds_itself_at_work() {
    let Lab { broker, topic, manual, .. } = lab(1, 2);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (own, seen) = (group.clone(), channel());
    let look = move |record: &Record<'_, u64>| {
        let here = own.delivery(at(0, record.offset())).unwrap();
        seen.0.send((own.standing(0).unwrap(), here, broker.describe().topics.len())).unwrap();
    };
    group.member("m").run(&manual).subscribe(look).unwrap();
    topic.publish(0).unwrap();
    manual.run(10);
    assert_eq!(seen.1.recv().unwrap(), (Standing::AtWork { member: "m".into() }, Delivery::InHand, 1));
}

// A-47, X20
#[test]
fn a_letter_that_is_tried_again_is_what_holds_its_lane_up_and_the_record_behind_it_is_not_in_hand() {
    let Lab { topic, manual, clock, broker: _broker } = lab(1, 4);
    let config = GroupConfig::earliest().retry(Retry::constant(2, 5 * SECOND)).bury_cloned();
    let group = topic.group("g", config).unwrap();
    let (own, seen) = (group.clone(), channel());
    let look = move |record: &Record<'_, u64>| {
        if record.is_redriven() {
            seen.0.send((own.delivery(record).unwrap(), own.delivery(at(0, 1)).unwrap())).unwrap();
        }
        Err::<(), _>("no")
    };
    group.member("m").run(&manual).subscribe(look).unwrap();
    topic.publish(0).unwrap();
    manual.run(10);
    clock.set(manual.next_due().unwrap());
    manual.run(10);
    assert_eq!(group.letters().len(), 1);
    topic.publish_batch(1..5).unwrap();
    assert_eq!(group.redrive(ringlog::Pick::all()).unwrap().queued, 1);
    assert_eq!(group.standing(0), Ok(Standing::Ready { member: "m".into() }), "it has not failed since");
    manual.run(10);
    assert_eq!(seen.1.recv().unwrap(), (Delivery::Redriven, Delivery::Pending));
    clock.advance(SECOND);
    assert_eq!(group.standing(0), Ok(Standing::Retrying { attempts: 1, wait: 4 * SECOND }));
    assert!(why(&topic).ends_with("its record has failed once and is tried again in 4s"), "{}", why(&topic));
    assert!(group.describe().to_string().ends_with("once and is tried again in 4s"));
}

//
#[test]
fn what_is_too_old_is_gone_before_it_is_asked_why_there_is_no_room() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let aged = TopicConfig::<u64>::new().capacity(2).timestamps(ringlog::Timestamps::Exact).max_age(SECOND);
    let topic = broker.create_topic("t", aged).unwrap();
    topic.group("g", GroupConfig::earliest()).unwrap();
    topic.publish_batch(0..2).unwrap();
    assert!(topic.why_full(0).is_some());
    clock.advance(2 * SECOND);
    assert_eq!(topic.why_full(0), None);
}
