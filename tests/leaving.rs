//! Leaving at once, leaving when done, and groups that go with their last member.

use ringlog::{
    Assignor, Broker, BrokerConfig, Canceller, Deal, Group, GroupConfig, GroupError, LeaveError, Manual, ManualClock,
    Member, Outcome, Pick, Record, SubscribeError, Topic, TopicConfig, Worker,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn setting(capacity: usize, config: GroupConfig<u64>) -> (Broker, Topic<u64>, Group<u64>) {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::new().capacity(capacity)).unwrap();
    let group = topic.group("g", config).unwrap();
    (broker, topic, group)
}

/// A member that reports each offset and then waits to be let go; once nobody lets it go any more, it goes on.
fn slow(group: &Group<u64>, name: &str) -> (Member<u64>, Receiver<u64>, Sender<()>) {
    let ((tell, at), (go, gate)) = (channel(), channel::<()>());
    let handler = move |record: &Record<'_, u64>| {
        let _ = tell.send(record.offset());
        let _ = gate.recv();
    };
    (group.subscribe(name, handler).unwrap(), at, go)
}

// X29, C-19, C-X3
#[test]
fn who_leaves_when_done_handles_what_lay_there_and_nothing_runs_afterwards() {
    for capacity in 1..=4 {
        let (_broker, topic, group) = setting(capacity, GroupConfig::earliest());
        let (member, at, go) = slow(&group, "m");
        let all = capacity as u64;
        topic.publish_batch(0..all).unwrap();
        assert_eq!(at.recv_timeout(LONG), Ok(0));
        thread::scope(|scope| {
            let leaver = scope.spawn(|| member.leave_drained(LONG));
            drop(go);
            assert_eq!(leaver.join().unwrap(), Ok(()));
        });
        assert_eq!((group.stats().acked(), group.lag()), (all, 0));
        topic.publish(all).unwrap();
        assert_eq!(at.iter().count() as u64, all - 1, "its handler is gone, and was not called for what came later");
        assert_eq!(group.lag(), 1);
    }
}

// X29
#[test]
fn letters_that_are_to_be_handed_over_again_are_waited_for_too() {
    let (_broker, topic, group) = setting(4, GroupConfig::earliest().bury_cloned());
    let (mut opened, manual) = (0..2, Manual::new(1));
    let handler = move |_: &Record<'_, u64>| match opened.next() {
        Some(_) => Outcome::reject("closed"),
        None => Outcome::Ack,
    };
    let member = group.member("m").run(&manual).subscribe(handler).unwrap();
    topic.publish_batch(0..2).unwrap();
    manual.run(100);
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 2);
    let left = member.leave_drained(Duration::ZERO);
    assert!(matches!(left, Err(LeaveError::TimedOut { left: 2, .. })), "{left:?}");
    manual.run(100);
    let (_, again) = (group.subscribe("n", |_| ()).unwrap(), group.clone());
    while again.lag() > 0 {
        thread::yield_now();
    }
    assert_eq!((group.stats().acked(), group.stats().dead()), (2, 2));
}

// X29
#[test]
fn who_cannot_get_done_in_time_leaves_all_the_same_and_says_what_is_left() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock));
    let topic = broker.create_topic("t", TopicConfig::new().capacity(4)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (member, at, go) = slow(&group, "m");
    topic.publish_batch(0..3).unwrap();
    at.recv_timeout(LONG).unwrap();
    match member.leave_drained(Duration::ZERO) {
        Err(LeaveError::TimedOut { left: 3, in_hand: true, waited: Duration::ZERO, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!member.leave(), "it is out");
    drop(go);
    assert_eq!(at.iter().count(), 0, "the record in hand was its last");
    assert_eq!((group.stats().acked(), group.lag()), (1, 2), "and counts");
    assert_eq!(member.leave_drained(Duration::ZERO), Ok(()), "nothing is left that would be its to do");
}

// X29
#[test]
fn a_cancel_ends_the_wait_as_if_the_time_were_up() {
    for used_before in [true, false] {
        let (_broker, topic, group) = setting(4, GroupConfig::earliest());
        let (member, at, go) = slow(&group, "m");
        topic.publish_batch(0..3).unwrap();
        at.recv_timeout(LONG).unwrap();
        let cancel = Canceller::new();
        let left = thread::scope(|scope| {
            if used_before {
                cancel.cancel();
            }
            let leaver = scope.spawn(|| member.leave_drained_or_cancel(Duration::MAX, &cancel));
            cancel.cancel();
            leaver.join().unwrap()
        });
        assert!(matches!(left, Err(LeaveError::Cancelled { left: 3, in_hand: true, .. })), "{left:?}");
        drop(go);
    }
}

// X29
#[test]
fn what_goes_to_an_other_member_meanwhile_is_that_one_s_to_do() {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::new().partitions(2).capacity(2)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let manual = Manual::new(1);
    let first = group.member("first").run(&manual).subscribe(|_: &Record<'_, u64>| ()).unwrap();
    topic.publish_to(1, 0).unwrap();
    group.member("second").run(&manual).subscribe(|_: &Record<'_, u64>| ()).unwrap();
    assert_eq!(first.leave_drained(Duration::ZERO), Ok(()), "its partition 0 is empty");
    assert_eq!(&*group.assignment()[0].member, "second");
}

// X29
#[test]
fn a_handler_leaves_at_once_or_is_told_that_it_cannot_wait_for_itself() {
    let (broker, topic, group) = setting(4, GroupConfig::earliest());
    let worker = Worker::spawn().unwrap();
    let me: Arc<Mutex<Option<Arc<Member<u64>>>>> = Arc::default();
    let (own, (tell, told)) = (me.clone(), channel());
    let handler = move |record: &Record<'_, u64>| {
        let member = own.lock().unwrap().clone().unwrap();
        tell.send(member.leave_drained(LONG).map_err(|error| error.to_string())).unwrap();
        assert!(member.leave() && !member.leave());
        assert_eq!(record.offset(), 0, "it has left");
    };
    let member = Arc::new(group.member("m").run(&worker).subscribe(handler).unwrap());
    *me.lock().unwrap() = Some(member.clone());
    topic.publish_batch(0..3).unwrap();
    let sentence = "a handler cannot wait for member 'm' of group 'g' to be done; use leave()";
    assert_eq!(told.recv_timeout(LONG).unwrap(), Err(sentence.to_owned()));
    member.leave_drained(LONG).unwrap();
    assert_eq!((group.stats().acked(), group.lag()), (1, 2), "the record in hand counts");
    broker.close(Some(LONG));
}

// X29
#[test]
fn an_ephemeral_group_goes_with_its_last_member() {
    for capacity in 1..=4 {
        let (broker, topic, group) = setting(capacity, GroupConfig::earliest().ephemeral());
        let manual = Manual::new(1);
        let join = |group: &Group<u64>, name: &str| group.member(name).run(&manual).subscribe(|_| ());
        assert!(topic.find_group("g").is_ok(), "it waits for its first member");
        let (a, b) = (join(&group, "a").unwrap(), join(&group, "b").unwrap());
        topic.publish_batch(0..capacity as u64).unwrap();
        assert!(topic.try_publish(9).is_err(), "it holds publishers back");
        a.leave();
        assert!(topic.find_group("g").is_ok());
        b.leave();
        assert!(matches!(topic.find_group("g"), Err(GroupError::Unknown { .. })));
        topic.try_publish(9).unwrap();
        assert!(matches!(join(&group, "c"), Err(SubscribeError::Closed { .. })), "the old one takes nobody");
        let again = topic.group("g", GroupConfig::earliest().ephemeral()).unwrap();
        join(&again, "c").unwrap();
        assert!(manual.kill("g", "c"), "whoever dies leaves as well");
        assert!(topic.find_group("g").is_err());
        broker.close(Some(Duration::ZERO));
    }
}

// X29
#[test]
fn an_ephemeral_group_waits_for_the_record_in_hand_which_counts() {
    let (_broker, topic, group) = setting(2, GroupConfig::earliest().ephemeral());
    let (member, at, go) = slow(&group, "m");
    topic.publish_batch(0..2).unwrap();
    at.recv_timeout(LONG).unwrap();
    member.leave();
    assert!(matches!(group.subscribe("n", |_| ()), Err(SubscribeError::Closed { .. })), "it is going");
    assert!(topic.find_group("g").is_ok(), "and still gates");
    assert!(topic.try_publish(9).is_err());
    drop(go);
    assert_eq!(at.iter().count(), 0);
    member.leave_drained(LONG).unwrap();
    let until_gone = || topic.find_group("g").is_ok();
    while until_gone() {
        thread::yield_now();
    }
    assert_eq!((group.stats().acked(), group.stats().refused()), (1, 0));
    topic.try_publish(9).unwrap();
}

// X29
#[test]
fn who_is_stopped_before_it_is_done_is_told_so_and_its_handler_is_waited_for() {
    type Stop = fn(&Broker, &Topic<u64>, &Group<u64>);
    let stops: [Stop; 3] = [
        |_, _, group| assert!(group.delete()),
        |broker, _, _| broker.delete_topic("t").unwrap(),
        |broker, _, _| assert!(!broker.close(Some(Duration::ZERO)).drained),
    ];
    for stop in stops {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::new().capacity(4)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (member, at, go) = slow(&group, "m");
        topic.publish_batch(0..3).unwrap();
        assert_eq!(at.recv_timeout(LONG), Ok(0));
        thread::scope(|scope| {
            let leaves = scope.spawn(|| member.leave_drained(LONG));
            clock.wait_for_sleepers(1);
            stop(&broker, &topic, &group);
            go.send(()).unwrap(); // only now does the handler return, and nothing that follows comes
            let stopped = leaves.join().unwrap().unwrap_err();
            let LeaveError::Stopped { left, in_hand, .. } = stopped else { panic!("{stopped:?}") };
            assert!(left >= 2 && !in_hand, "{left} left, in hand: {in_hand}");
            assert!(at.try_recv().is_err());
        });
    }
}

// X29
#[test]
fn who_finds_an_ephemeral_group_going_makes_the_next_one() {
    let (_broker, topic, group) = setting(2, GroupConfig::earliest().ephemeral());
    let (member, at, go) = slow(&group, "m");
    topic.publish(0).unwrap();
    at.recv_timeout(LONG).unwrap();
    member.leave();
    let next = topic.group("g", GroupConfig::earliest().ephemeral()).unwrap();
    next.subscribe("m", |_| ()).unwrap();
    drop(go);
    assert_eq!(topic.find_group("g").unwrap().assignment().len(), 1, "the old one's end is not its end");
}

// X29
#[test]
fn a_member_that_nobody_would_run_does_not_take_an_ephemeral_group_with_it() {
    let (_broker, topic, group) = setting(2, GroupConfig::earliest().ephemeral());
    let worker = Worker::spawn().unwrap();
    worker.stop();
    assert!(matches!(group.member("m").run(&worker).subscribe(|_| ()), Err(SubscribeError::NotPlaced { .. })));
    assert!(topic.find_group("g").is_ok());
    group.member("m").run(&Manual::new(1)).subscribe(|_| ()).unwrap();
}

// X29
#[test]
fn a_close_keeps_an_ephemeral_group_in_its_account() {
    let (broker, topic, group) = setting(2, GroupConfig::earliest().ephemeral());
    let manual = Manual::new(1);
    group.member("m").run(&manual).subscribe(|_| ()).unwrap();
    topic.publish(0).unwrap();
    let account = broker.close(Some(Duration::ZERO));
    assert_eq!(account.group("t", "g").map(|group| group.lag()), Some(1));
}

/// Partition 0 to the first, partition 1 to the last.
#[derive(Debug)]
struct Ends;

impl Assignor for Ends {
    fn assign(&self, deal: &Deal) -> Vec<usize> {
        vec![0, deal.members().len() - 1]
    }
}

#[test]
fn who_leaves_does_not_wait_for_what_another_has_in_hand_of_a_group_that_is_over() {
    let (clock, manual) = (Arc::new(ManualClock::new()), Manual::new(1));
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("t", TopicConfig::new().partitions(2).capacity(4)).unwrap();
    let group = topic.group("g", GroupConfig::earliest().assignor(Ends)).unwrap();
    let one = group.member("one").run(&manual).subscribe(|_| ()).unwrap();
    group.pause_partition(0).unwrap();
    topic.publish_to(0, 0).unwrap();
    thread::scope(|scope| {
        let leaver = scope.spawn(|| one.leave_drained(LONG));
        clock.wait_for_sleepers(1);
        let (_other, at, go) = slow(&group, "other");
        topic.publish_to(1, 0).unwrap();
        assert_eq!(at.recv_timeout(LONG), Ok(0));
        assert!(group.delete());
        let left = leaver.join().unwrap();
        assert!(matches!(left, Err(LeaveError::Stopped { left: 1, in_hand: false, .. })), "{left:?}");
        drop(go);
    });
}
