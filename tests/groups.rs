//! Groups as objects: members and the deal, pausing, seeking, deleting, figures.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced, group};
use ringlog::{
    Broker, ControlError, GroupConfig, GroupError, NameError, PublishError, Retry, SeekTo, SubscribeError, TopicConfig,
};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

fn deal(group: &ringlog::Group<u64>) -> Vec<(String, Vec<u32>)> {
    group.assignment().into_iter().map(|of| (of.member.to_string(), of.partitions)).collect()
}

// A-66, A-T10, A-36, A-60, A-65, X15
#[test]
fn empty_and_duplicate_names_and_other_settings_are_typed_errors() {
    let lab = Lab::new(0);
    let topic = lab.topic(1, 4);
    assert!(matches!(topic.group("", GroupConfig::earliest()), Err(GroupError::Name { reason: NameError::Empty, .. })));
    assert!(matches!(topic.find_group("g"), Err(GroupError::Unknown { .. })));
    assert_eq!(topic.delete_group("g").unwrap_err().to_string(), topic.find_group("g").unwrap_err().to_string());
    let group = group(&topic);
    group.member("x").run(&lab.manual).subscribe(|_| ()).unwrap();
    let twice = group.member("x").run(&lab.manual).subscribe(|_| ()).unwrap_err();
    assert_eq!(twice.to_string(), "member 'x' is already in group 'g'");
    let unnamed = group.member("").run(&lab.manual).subscribe(|_| ()).unwrap_err();
    assert!(matches!(unnamed, SubscribeError::Name { reason: NameError::Empty, .. }));
    let broken = group.member("a\nb").run(&lab.manual).subscribe(|_| ()).unwrap_err();
    assert_eq!(broken.to_string(), r#"a member of group 'g': name "a\nb" holds a control character at byte 1"#);
    let long = topic.group(&"x".repeat(256), GroupConfig::earliest()).unwrap_err();
    assert_eq!(long.to_string(), "a group of topic 'orders': name has 256 bytes, must have at most 255");
    let other = topic.group("g", GroupConfig::earliest().retry(Retry::never())).unwrap_err();
    assert_eq!(
        other.to_string(),
        "group 'g' of topic 'orders' exists with another retry; delete it first, or ask with its settings"
    );
    assert!(topic.group("g", GroupConfig::earliest()).is_ok(), "equal settings find the same group");
    assert!(matches!(
        topic.group("h", GroupConfig::earliest().retry(Retry::constant(0, Duration::ZERO))),
        Err(GroupError::Config(_))
    ));
}

// A-61, B-22
#[test]
fn partition_p_belongs_to_member_p_mod_n_in_join_order() {
    let lab = Lab::new(0);
    let topic = lab.topic(5, 4);
    let group = group(&topic);
    let join = |name| group.member(name).run(&lab.manual).subscribe(|_| ()).unwrap();
    let named = |name: &str, lanes: &[u32]| (name.to_owned(), lanes.to_vec());
    let a = join("a");
    assert_eq!(deal(&group), [named("a", &[0, 1, 2, 3, 4])]);
    join("b");
    assert_eq!(deal(&group), [named("a", &[0, 2, 4]), named("b", &[1, 3])]);
    for name in ["c", "d", "e", "f"] {
        join(name);
    }
    assert_eq!(deal(&group)[5], named("f", &[]), "more members than partitions: the rest is idle");
    a.leave();
    assert_eq!(deal(&group)[0], named("b", &[0]));
    assert_eq!(deal(&group).len(), 5);
}

// A-38, A-60, A-62, A-72, C-30
#[test]
fn members_that_come_and_go_lose_nothing_and_keep_each_partition_in_order() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64 + 7);
        let topic = lab.topic(4, capacity);
        let group = group(&topic);
        let inbox = Inbox::default();
        let mut members = Vec::new();
        for round in 0..40_u64 {
            let seen = inbox.clone();
            let member = group.member(&format!("m{round}")).run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
            members.push(member);
            if round % 3 != 0 {
                members.remove((round as usize * 7) % members.len()).leave();
            }
            for partition in 0..4 {
                lab.feed(&topic, partition, [round]);
                lab.manual.run(3);
            }
        }
        lab.settle();
        for partition in 0..4 {
            assert_eq!(inbox.offsets(partition), (0..40).collect::<Vec<_>>(), "no handler failed: once each, in order");
        }
        assert_eq!((balanced(&group).acked(), group.lag()), (160, 0), "figures outlive the members");
    }
}

#[test]
fn a_group_without_a_member_gates_all_the_same() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        for n in 0..capacity as u64 {
            topic.publish_to(0, n).unwrap();
        }
        assert!(matches!(topic.publish_to(0, 9), Err(PublishError::Full { .. })));
        assert_eq!(group.lag(), capacity as u64);
        let inbox = Inbox::default();
        let seen = inbox.clone();
        group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
        lab.settle();
        assert_eq!(inbox.len(), capacity);
        topic.publish_to(0, 9).unwrap();
    }
}

// A-62
#[test]
fn a_group_and_its_partitions_are_paused_for_separate_reasons() {
    let lab = Lab::new(3);
    let topic = lab.topic(2, 8);
    let group = group(&topic);
    let inbox = Inbox::default();
    let seen = inbox.clone();
    group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
    lab.settle();
    group.pause();
    group.pause_partition(1).unwrap();
    lab.feed(&topic, 0, 0..3);
    lab.feed(&topic, 1, 0..3);
    lab.settle();
    assert_eq!(inbox.len(), 0);
    group.resume();
    lab.settle();
    assert_eq!((inbox.offsets(0).len(), inbox.offsets(1).len()), (3, 0), "one partition is still paused on its own");
    group.pause();
    group.resume_partition(1).unwrap();
    lab.settle();
    assert_eq!(inbox.offsets(1).len(), 0);
    group.resume();
    lab.settle();
    assert_eq!(inbox.offsets(1), [0, 1, 2]);
    balanced(&group);
    assert!(matches!(group.pause_partition(2), Err(ControlError::NoPartition { .. })));
}

// A-T12, A-8, A-18, A-67, X33
#[test]
fn a_seek_lands_within_the_log_and_is_accounted_for() {
    for capacity in CAPACITIES {
        let lab = Lab::new(4);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        let inbox = Inbox::default();
        let seen = inbox.clone();
        group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
        lab.feed(&topic, 0, 0..20);
        lab.settle();
        inbox.take();
        let earliest = topic.earliest(0).unwrap();
        assert_eq!(group.seek(0, SeekTo::Offset(0)), Ok(earliest));
        assert_eq!(balanced(&group).replayed(), 20 - earliest);
        lab.settle();
        assert_eq!(inbox.offsets(0), (earliest..20).collect::<Vec<_>>());
        assert_eq!(group.seek(0, SeekTo::Offset(u64::MAX)), Ok(20));
        group.pause();
        lab.feed(&topic, 0, [20]);
        assert_eq!(group.seek(0, SeekTo::Latest), Ok(21));
        group.resume();
        lab.settle();
        let stats = balanced(&group);
        assert_eq!((stats.skipped(), stats.lag()), (1, 0));
        assert!(matches!(group.seek(1, SeekTo::Latest), Err(ControlError::NoPartition { .. })));
    }
}

#[test]
fn a_seek_starts_the_attempts_afresh() {
    let lab = Lab::new(5);
    let topic = lab.topic(1, 4);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(9, Duration::from_secs(1)))).unwrap();
    let inbox = Inbox::default();
    let seen = inbox.clone();
    let handler = move |r: &ringlog::Record<'_, u64>| {
        seen.note(r);
        Err::<(), _>("no")
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    lab.feed(&topic, 0, [0]);
    lab.settle();
    lab.clock.advance(Duration::from_secs(1));
    lab.settle();
    group.seek(0, SeekTo::Earliest).unwrap();
    lab.settle();
    assert_eq!(inbox.take(), [(0, 0, 1), (0, 0, 2), (0, 0, 1)], "at once, and as a first attempt");
}

// X29, B-21
#[test]
fn deleting_a_group_lets_blocked_publishers_go_on_and_refuses_what_its_handlers_have_in_hand() {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (started, start) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let dropped = Arc::new(());
    let (watch, kept) = (Arc::downgrade(&dropped), dropped);
    group
        .subscribe("m", move |_| {
            let _kept = &kept;
            started.send(()).unwrap();
            let _ = gate.recv();
        })
        .unwrap();
    topic.publish(0).unwrap();
    start.recv().unwrap();
    let blocked = thread::spawn({
        let topic = topic.clone();
        move || topic.publish(1).map(|published| published.position.offset)
    });
    assert!(group.delete());
    assert_eq!(blocked.join().unwrap().unwrap(), 1, "nobody is waited for any more");
    release.send(()).unwrap();
    let again = topic.group("g", GroupConfig::latest()).unwrap();
    assert_eq!(again.stats().lanes[0].start, 2, "the name is free, for a group of its own");
    assert!(matches!(group.seek(0, SeekTo::Earliest), Err(ControlError::Deleted { .. })));
    assert!(matches!(group.subscribe("n", |_| ()), Err(SubscribeError::Closed { .. })));
    while watch.upgrade().is_some() {
        thread::yield_now(); // its thread ends and drops the handler
    }
    assert_eq!(group.stats().acked(), 0, "the ack came after the delete");
}

// A-68
#[test]
fn lag_is_known_for_each_partition_and_adds_up() {
    let lab = Lab::new(6);
    let topic = lab.topic(3, 8);
    let group = group(&topic);
    lab.feed(&topic, 0, 0..2);
    lab.feed(&topic, 2, 0..5);
    assert_eq!([0, 1, 2].map(|partition| group.lag_of(partition).unwrap()), [2, 0, 5]);
    assert_eq!(group.lag(), 7);
    group.member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
    lab.settle();
    assert_eq!(group.lag(), 0);
}

// A-T13, B-14, C-6, A-21
#[test]
fn a_late_group_begins_where_it_says() {
    let lab = Lab::new(7);
    let topic = lab.topic(1, 1_000);
    lab.feed(&topic, 0, 0..10);
    let inboxes: Vec<_> = [GroupConfig::earliest(), GroupConfig::latest(), GroupConfig::at(7)]
        .into_iter()
        .enumerate()
        .map(|(n, config)| {
            let (inbox, group) = (Inbox::default(), topic.group(&format!("g{n}"), config).unwrap());
            let seen = inbox.clone();
            group.member("m").run(&lab.manual).subscribe(move |r| seen.note(r)).unwrap();
            inbox
        })
        .collect();
    lab.feed(&topic, 0, [10]);
    lab.settle();
    let offsets: Vec<_> = inboxes.iter().map(|inbox| inbox.offsets(0)).collect();
    assert_eq!(offsets, [(0..11).collect::<Vec<_>>(), vec![10], vec![7, 8, 9, 10]]);
}

#[test]
fn user_code_runs_under_no_lock_of_the_group() {
    let lab = Lab::new(8);
    let topic = lab.topic(1, 1_000);
    let caller: Arc<Mutex<Option<ringlog::Group<u64>>>> = Arc::default();
    let inside = caller.clone();
    let ask = move || {
        let group = inside.lock().unwrap().clone().unwrap();
        group.pause();
        group.resume();
        (group.stats().letters, group.letters().len(), group.assignment().len(), group.lag())
    };
    let asking = ask.clone();
    let config = GroupConfig::earliest().retry(Retry::never()).letters(1).bury_with(move |_: &u64, _| asking());
    let group = topic.group("g", config).unwrap();
    *caller.lock().unwrap() = Some(group.clone());
    group
        .member("m")
        .run(&lab.manual)
        .subscribe(move |_| {
            ask();
            Err::<(), _>("no")
        })
        .unwrap();
    lab.feed(&topic, 0, 0..3);
    lab.settle();
    assert_eq!(balanced(&group).dead(), 3);
    caller.lock().unwrap().take();
}
