//! Where groups stand: read as a copy, put back, and set from outside by who compares first.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced, group};
use ringlog::{
    Broker, CommitError, ControlError, Group, GroupConfig, GroupOffset, OffsetError, Record, SeekTo, TopicConfig,
    WaitPolicy,
};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

fn nexts(offsets: &[GroupOffset]) -> Vec<u64> {
    offsets.iter().map(|offset| offset.next).collect()
}

fn take_in(group: &Group<u64>, lab: &Lab) -> Inbox {
    let inbox = Inbox::default();
    let noted = inbox.clone();
    group.member("m").run(&lab.manual).subscribe(move |record| noted.note(record)).unwrap();
    inbox
}

//
#[test]
fn one_call_copies_the_cursors_of_a_group_a_topic_or_all_topics() {
    let lab = Lab::new(0);
    let orders = lab.topic(2, 8);
    let notes = lab.broker.create_topic("notes", TopicConfig::<String>::new()).unwrap();
    let (billing, audit) = (
        orders.group("billing", GroupConfig::earliest()).unwrap(),
        orders.group("audit", GroupConfig::earliest()).unwrap(),
    );
    notes.group("index", GroupConfig::earliest()).unwrap();
    take_in(&billing, &lab);
    lab.feed(&orders, 1, 0..3);
    notes.publish("x".to_string()).unwrap();
    lab.settle();
    let copy = lab.broker.offsets();
    let said: Vec<String> = copy.iter().map(ToString::to_string).collect();
    let expected = [
        "notes/0: index at 0",
        "orders/0: audit at 0",
        "orders/1: audit at 0",
        "orders/0: billing at 0",
        "orders/1: billing at 3",
    ];
    assert_eq!(said, expected);
    assert_eq!(orders.offsets(), copy[1..]);
    assert_eq!((billing.offsets(), audit.offsets()), (copy[3..].to_vec(), copy[1..3].to_vec()));
    lab.feed(&orders, 0, 0..1);
    lab.settle();
    assert_eq!(nexts(&copy[3..]), [0, 3], "a copy");
    assert_eq!(nexts(&billing.offsets()), [1, 3]);
}

// X33: export and import
#[test]
fn cursors_are_put_back_where_a_copy_says_as_far_as_the_log_goes() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(2, capacity);
        let group = group(&topic);
        let inbox = take_in(&group, &lab);
        let begun = lab.broker.offsets();
        lab.feed(&topic, 0, 0..1);
        lab.feed(&topic, 1, 0..1);
        lab.settle();
        let after = group.offsets();
        inbox.take();
        assert_eq!(nexts(&group.restore(&begun).unwrap()), [0, 0]);
        lab.settle();
        assert_eq!(inbox.take().len(), 2);
        assert_eq!(group.offsets(), after);
        assert_eq!(balanced(&group).replayed(), 2);

        let entry = |group: &str, partition, next| GroupOffset {
            topic: topic.name().into(),
            group: group.into(),
            partition,
            next,
        };
        let landed = group.restore(&[entry("g", 1, 1_000), entry("other", 0, 0), entry("g", 0, 1)]).unwrap();
        assert_eq!(landed, [entry("g", 1, 1), entry("g", 0, 1)], "those of others are passed over");
        let refused = group.restore(&[entry("g", 0, 0), entry("g", 2, 0)]);
        assert!(matches!(refused, Err(ControlError::NoPartition { partition: 2, partitions: 2, .. })));
        assert_eq!(group.offsets(), after, "nothing was moved");
        group.delete();
        assert!(matches!(group.restore(&begun), Err(ControlError::Deleted { .. })));
    }
}

// A-17, A-T18
#[test]
fn a_commit_from_outside_compares_before_it_sets() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        lab.feed(&topic, 0, 0..capacity as u64);
        let end = capacity as u64;
        let refused = group.commit(0, 1, end).unwrap_err();
        assert_eq!(refused, CommitError::Elsewhere { group: "g".into(), partition: 0, expected: 1, found: 0 });
        assert_eq!(refused.to_string(), "group 'g' stands at offset 0 of partition 0, not at 1");
        assert_eq!((group.offsets()[0].next, balanced(&group).skipped()), (0, 0));
        // offsets that only look like where it stands, packed into a word
        for expected in [1 << 40, 1 << 63, u64::MAX] {
            assert!(matches!(group.commit(0, expected, end), Err(CommitError::Elsewhere { found: 0, .. })));
        }
        assert_eq!(group.commit(0, 0, 1), Ok(1));
        assert_eq!(group.commit(0, 1, u64::MAX), Ok(end), "clamped, as a seek");
        let stats = balanced(&group);
        assert_eq!((stats.skipped(), stats.lag()), (end, 0));
        topic.publish(7).unwrap(); // what was passed makes room
        assert!(matches!(group.commit(1, 0, 0), Err(CommitError::Control(ControlError::NoPartition { .. }))));
        group.delete();
        assert!(matches!(group.commit(0, end, end), Err(CommitError::Control(ControlError::Deleted { .. }))));
    }
}

// of the ack in hand and a commit from outside, the later one is refused, whichever that is
#[test]
fn a_commit_from_outside_fences_the_ack_in_hand() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        let (inbox, outcome) = (Inbox::default(), Arc::new(Mutex::new(Vec::new())));
        let (own, noted, said) = (OnceLock::new(), inbox.clone(), outcome.clone());
        own.set(group.clone()).unwrap();
        let handler = move |record: &Record<'_, u64>| {
            noted.note(record);
            if noted.len() == 1 {
                // to where it stands: nothing moves, and yet what is in hand is in hand no more
                said.lock().unwrap().push(own.get().unwrap().commit(0, 0, 0));
            }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        lab.feed(&topic, 0, 0..1);
        lab.settle();
        assert_eq!(*outcome.lock().unwrap(), [Ok(0)]);
        assert_eq!(inbox.offsets(0), [0, 0], "handed over again, for its ack was refused");
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.refused(), stats.lag()), (1, 1, 0));
        assert!(matches!(group.commit(0, 0, 0), Err(CommitError::Elsewhere { found: 1, .. })), "the ack was first");
    }
}

// at one moment, however members commit meanwhile: each that succeeds passes over exactly what it says
#[test]
fn commits_from_outside_and_acks_never_undo_each_other() {
    const RECORDS: u64 = if cfg!(miri) { 40 } else { 20_000 };
    for drops in [false, true] {
        let broker = Broker::new();
        let config = TopicConfig::<u64>::new().capacity(if drops { 1 << 16 } else { 64 });
        let topic = broker.create_topic("t", if drops { config.drop_oldest() } else { config }).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.member("m").wait(WaitPolicy::Park).subscribe(|_| ()).unwrap();
        let producer = std::thread::spawn(move || (0..RECORDS).try_for_each(|n| topic.publish(n).map(drop)).unwrap());
        let (mut passed, mut refused) = (0, 0);
        while group.offsets()[0].next < RECORDS {
            let at = group.offsets()[0].next;
            match group.commit(0, at, at + 1) {
                Ok(to) => passed += to - at,
                Err(CommitError::Elsewhere { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        producer.join().unwrap();
        broker.drain(Duration::from_secs(60)).unwrap();
        assert!(broker.close(Some(Duration::from_secs(60))).stopped);
        let stats = balanced(&group);
        assert_eq!(
            (stats.acked() + passed, stats.skipped(), stats.replayed()),
            (RECORDS, passed, 0),
            "{refused} refused"
        );
    }
}

// X19, A-22: a group that reads again holds what it has still to read, and hears of what is gone
#[test]
fn a_replaying_group_pins_what_it_reads_again() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        let inbox = take_in(&group, &lab);
        lab.feed(&topic, 0, 0..2 * capacity as u64);
        lab.settle();
        inbox.take();
        group.pause();
        let landed = group.seek(0, SeekTo::Earliest).unwrap();
        let end = 2 * capacity as u64;
        assert_eq!(Some(landed), topic.earliest(0));
        let room = landed + capacity as u64 - end;
        for _ in 0..room {
            topic.publish(0).unwrap();
        }
        assert!(topic.publish(0).is_err(), "what is to be read again is not overwritten");
        group.resume();
        lab.settle();
        assert_eq!(inbox.offsets(0), (landed..end + room).collect::<Vec<_>>());
        assert_eq!(balanced(&group).replayed(), end - landed);
    }
}

// the least of all cursors, which goes back with a group that does
#[test]
fn a_partition_says_what_every_group_has_passed() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lab.topic(1, capacity);
        let passed = || topic.partition_stats(0).unwrap().passed;
        lab.feed(&topic, 0, 0..1);
        assert_eq!(passed(), 0, "nobody is there who could have passed anything");
        let (one, two) = (group(&topic), topic.group("late", GroupConfig::earliest()).unwrap());
        assert_eq!(two.stats().lanes[0].start, 0);
        take_in(&one, &lab);
        lab.settle();
        assert_eq!(passed(), 0);
        take_in(&two, &lab);
        lab.settle();
        assert_eq!(passed(), 1);
        two.seek(0, SeekTo::Earliest).unwrap();
        assert_eq!(passed(), 0);
        two.pause();
        lab.feed(&topic, 0, 1..capacity as u64);
        assert!(topic.publish(0).is_err());
        two.delete();
        lab.settle();
        assert_eq!(passed(), capacity as u64);
        one.delete();
        assert_eq!(Some(passed()), topic.earliest(0));
    }
}

// X33
#[test]
fn an_offset_that_is_gone_says_where_the_log_begins() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let config = TopicConfig::<u64>::new().capacity(capacity).drop_oldest();
        let topic = lab.broker.create_topic("ticks", config).unwrap();
        let group = topic.group("g", GroupConfig::latest()).unwrap();
        (0..2 * capacity as u64).for_each(|n| assert!(topic.publish(n).is_ok()));
        let (first, end) = (capacity as u64, 2 * capacity as u64);
        for offset in [0, first - 1] {
            match group.seek_exact(0, offset) {
                Err(OffsetError::Gone { offset: asked, earliest, .. }) => {
                    assert_eq!((asked, earliest), (offset, first))
                }
                other => panic!("{other:?}"),
            }
        }
        for offset in [end + 1, 1 << 40, u64::MAX] {
            assert!(matches!(group.seek_exact(0, offset), Err(OffsetError::Beyond { end: at, .. }) if at == end));
        }
        let stats = balanced(&group);
        assert_eq!((stats.replayed(), stats.lanes[0].committed), (0, 0), "nothing was moved");
        assert_eq!((group.seek_exact(0, first), group.seek_exact(0, end)), (Ok(first), Ok(end)));
        assert!(matches!(group.seek_exact(1, 0), Err(OffsetError::Control(ControlError::NoPartition { .. }))));
    }
}
