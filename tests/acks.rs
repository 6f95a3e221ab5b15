//! Acknowledging: what a cursor says at each step, what outlives a member, a failure, a broker, and what a failure keeps.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced, group};
use ringlog::{
    Broker, Group, GroupConfig, GroupError, LookupError, Outcome, PublishError, Record, Retry, SeekTo, TopicConfig,
};
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Committed, acknowledged, not done.
fn figures(group: &Group<u64>) -> [u64; 3] {
    let lane = group.stats_of(0).unwrap();
    [lane.committed, lane.acked, lane.lag()]
}

// A-9, A-T11, X8
#[test]
fn a_record_is_pending_then_in_hand_then_acknowledged_and_only_the_last_step_moves_the_cursor() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64);
        let (topic, inside) = (lab.topic(1, capacity), Arc::new(Mutex::new(Vec::new())));
        let group = group(&topic);
        let (asked, seen) = (group.clone(), inside.clone());
        let look = move |_: &Record<'_, u64>| seen.lock().unwrap().push(figures(&asked));
        group.member("m").run(&lab.manual).subscribe(look).unwrap();
        for n in 0..10 {
            topic.publish(n).unwrap();
            assert_eq!(figures(&group), [n, n, 1], "pending");
            lab.settle();
            assert_eq!(std::mem::take(&mut *inside.lock().unwrap()), [[n, n, 1]], "in its handler");
            assert_eq!(figures(&group), [n + 1, n + 1, 0], "acknowledged");
        }
    }
}

// A-T11, A-9
#[test]
fn a_cursor_never_runs_ahead_of_the_handler_however_many_records_are_ready() {
    for capacity in CAPACITIES {
        let lab = Lab::new(3);
        let topic = lab.topic(1, capacity);
        let group = group(&topic);
        let (asked, mut next) = (group.clone(), 0);
        let check = move |record: &Record<'_, u64>| {
            let [committed, acked, lag] = figures(&asked);
            assert!(
                committed <= record.offset() && acked == committed && lag > 0,
                "acknowledged before it was handled"
            );
            assert_eq!(record.offset(), next);
            next += 1;
        };
        group.member("m").run(&lab.manual).subscribe(check).unwrap();
        (0..capacity as u64).for_each(|n| assert!(topic.publish(n).is_ok()));
        lab.settle();
        assert_eq!(figures(&group), [capacity as u64, capacity as u64, 0]);
        assert_eq!((balanced(&group).dead(), group.letters().len()), (0, 0), "no look went wrong");
    }
}

//
#[test]
fn cursors_belong_to_group_and_partition_and_are_read_as_a_copy() {
    let lab = Lab::new(4);
    let topic = lab.topic(3, 8);
    for partition in 0..3 {
        lab.feed(&topic, partition, 0..5);
    }
    let groups = ["a", "b"].map(|name| topic.group(name, GroupConfig::earliest()).unwrap());
    for (from, group) in groups.iter().enumerate() {
        for partition in 0..3 {
            group.seek(partition, SeekTo::Offset(u64::from(partition) + from as u64)).unwrap();
        }
    }
    let cursors = || -> Vec<Vec<u64>> {
        let of = |group: &Group<u64>| group.stats().lanes.iter().map(|lane| lane.committed).collect();
        topic.groups().iter().map(of).collect()
    };
    let (copy, stats) = (cursors(), groups[0].stats());
    assert_eq!(copy, [[0, 1, 2], [1, 2, 3]]);
    let inbox = Inbox::default();
    let seen = inbox.clone();
    let member = groups[0].member("m").run(&lab.manual).subscribe(move |record| seen.note(record)).unwrap();
    lab.settle();
    assert!(member.leave());
    lab.settle();
    assert_eq!(inbox.offsets(2), [2, 3, 4], "a cursor is the offset that is read next");
    assert_eq!(cursors(), [[5, 5, 5], [1, 2, 3]], "it outlives its member, and the other group's are where they were");
    assert_eq!(stats.lanes.iter().map(|lane| lane.committed).collect::<Vec<_>>(), copy[0], "a copy stays as it was");
}

// B-35, C-24, B-17
#[test]
fn a_member_outlives_its_handler_s_failures_and_when_it_leaves_the_cursor_stays_and_gates() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64);
        let topic = lab.topic(1, capacity);
        let group = topic.group("g", GroupConfig::earliest().retry(Retry::constant(3, Duration::ZERO))).unwrap();
        let inbox = Inbox::default();
        let seen = inbox.clone();
        let handler = move |record: &Record<'_, u64>| {
            seen.note(record);
            match (record.offset() % 3, record.attempt()) {
                (0, 1) => Err("once"),
                (1, 1 | 2) => panic!("twice"),
                _ => Ok(()),
            }
        };
        let member = group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        for n in 0..6 {
            lab.feed(&topic, 0, [n]);
            lab.finish();
        }
        assert_eq!(inbox.take().iter().map(|seen| seen.1).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 2, 3, 3, 4, 4, 4, 5]);
        assert_eq!(figures(&group), [6, 6, 0], "each came until it was acknowledged");
        assert!(member.leave());
        lab.settle();
        (0..capacity as u64).for_each(|n| assert!(topic.publish(n).is_ok()));
        assert!(matches!(topic.publish(0), Err(PublishError::Full { .. })), "nobody is there, and it holds producers");
        let seen = inbox.clone();
        group.member("next").run(&lab.manual).subscribe(move |record| seen.note(record)).unwrap();
        lab.settle();
        assert_eq!(inbox.offsets(0), (6..6 + capacity as u64).collect::<Vec<_>>(), "from where the first one was");
    }
}

// C-24, C-X9: nothing outlives the broker that holds it, so what was queued comes no second time either.
#[test]
fn a_new_broker_knows_nothing_of_what_another_one_held() {
    let hold = || {
        let broker = Broker::new();
        let topic = broker.create_topic("orders", TopicConfig::<u64>::new()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let found = (topic.end(0).unwrap(), group.stats().lanes[0].committed, group.letters().len());
        (0..5).for_each(|n| assert!(topic.publish(n).is_ok()));
        let (tell, told) = mpsc::channel();
        let handler = move |record: &Record<'_, u64>| {
            tell.send(record.offset()).unwrap();
            if record.offset() == 2 { Outcome::reject("poison") } else { Outcome::Ack }
        };
        group.subscribe("m", handler).unwrap();
        let seen: Vec<_> = (0..5).map(|_| told.recv_timeout(LONG).unwrap()).collect();
        (found, seen)
    };
    for _ in 0..2 {
        assert_eq!(hold(), ((0, 0, 0), vec![0, 1, 2, 3, 4]));
    }
}

#[derive(Debug, PartialEq)]
struct Declined {
    code: u32,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "declined with {}", self.code)
    }
}

impl Error for Declined {}

// X16
#[test]
fn a_letter_keeps_the_error_itself_with_its_kind_and_its_text() {
    let lab = Lab::new(5);
    let topic = lab.topic(1, 1);
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::never())).unwrap();
    let handler = |record: &Record<'_, u64>| match **record {
        0 => Err(Box::<dyn Error + Send + Sync>::from(Declined { code: 51 })),
        1 => panic!("out of order"),
        _ => Ok(()),
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    let typed = |_: &Record<'_, u64>| Err(Declined { code: 52 });
    let other = topic.group("typed", GroupConfig::earliest().retry(Retry::never())).unwrap();
    other.member("m").run(&lab.manual).subscribe(typed).unwrap();
    for n in 0..4 {
        lab.feed(&topic, 0, [n]);
        lab.settle();
    }
    let (letters, copy) = (group.letters(), group.letters());
    let error = |at: usize| letters[at].failure().error().unwrap();
    assert_eq!(error(0).downcast_ref(), Some(&Declined { code: 51 }), "the object, long after its record went");
    assert!(std::ptr::eq(std::ptr::from_ref(error(0)).cast::<u8>(), {
        std::ptr::from_ref(copy[0].failure().error().unwrap()).cast::<u8>()
    }));
    assert_eq!((letters[1].kind(), letters[1].message()), ("panic", "out of order"));
    let letter = &other.letters()[0];
    assert_eq!((letter.kind().rsplit("::").next(), letter.message()), (Some("Declined"), "declined with 52"));
    let (short, long) = (letter.failure().message(), letter.to_string());
    assert!(short == "declined with 52" && long.ends_with(&format!("{}: {short}", letter.kind())), "{long}");
}

// X30
#[test]
fn without_a_word_a_record_is_tried_three_times_and_pauses_double_from_a_millisecond_to_a_second() {
    let pauses = |config: GroupConfig<u64>| {
        let lab = Lab::new(6);
        let topic = lab.topic(1, 4);
        let group = topic.group("g", config).unwrap();
        group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Err::<(), _>("no")).unwrap();
        topic.publish(0).unwrap();
        lab.settle();
        let mut pauses = Vec::new();
        while let Some(due) = lab.manual.next_due() {
            pauses.push((due - lab.broker.clock().now()).as_millis());
            lab.clock.set(due);
            lab.settle();
        }
        assert_eq!(group.letters()[0].attempts() as usize, pauses.len() + 1, "no pause after the last");
        pauses
    };
    assert_eq!(pauses(GroupConfig::earliest()), [1, 2]);
    let longer = pauses(GroupConfig::earliest().retry(Retry::exponential(13)));
    assert_eq!(longer, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000, 1_000]);
}

// X1
#[test]
fn a_new_group_starts_where_it_says_and_one_that_exists_keeps_its_cursor() {
    for capacity in [4, 1_000] {
        let lab = Lab::new(7);
        let topic = lab.topic(1, capacity);
        lab.feed(&topic, 0, 0..4);
        let cursor = |name, config| topic.group(name, config).map(|group| group.stats().lanes[0].committed);
        assert_eq!(cursor("a", GroupConfig::earliest()), Ok(0));
        assert_eq!(cursor("b", GroupConfig::latest()), Ok(4));
        assert_eq!(cursor("c", GroupConfig::at(2)), Ok(2));
        topic.find_group("a").unwrap().seek(0, SeekTo::Offset(3)).unwrap();
        topic.find_group("b").unwrap().seek(0, SeekTo::Offset(1)).unwrap();
        assert_eq!(cursor("a", GroupConfig::earliest()), Ok(3), "asked for again, it is where it was");
        assert_eq!(cursor("b", GroupConfig::latest()), Ok(1));
        assert!(matches!(cursor("a", GroupConfig::latest()), Err(GroupError::Differs { field: "start", .. })));
    }
}

// X12
#[test]
fn looking_for_a_topic_never_makes_one() {
    let broker = Broker::new();
    for _ in 0..2 {
        assert!(matches!(broker.topic::<u64>("orders"), Err(LookupError::Unknown { .. })));
        assert!(matches!(broker.delete_topic("orders"), Err(LookupError::Unknown { .. })));
        assert!(broker.topic_names().is_empty());
    }
    let made = broker.create_topic("orders", TopicConfig::<u64>::new().capacity(3)).unwrap();
    assert!(broker.create_topic("orders", TopicConfig::<u64>::new()).is_err(), "made once");
    let found = broker.topic_or_create("orders", TopicConfig::<u64>::new().capacity(9)).unwrap();
    assert_eq!((made.capacity(), found.capacity()), (3, 3));
    assert!(matches!(made.find_group("g"), Err(GroupError::Unknown { .. })), "nor does looking for a group");
    assert!(made.groups().is_empty());
}

// A handler that gathers is told which record is the last one before a pause, so a pause may come one record late.
#[test]
fn a_pause_lets_at_most_one_more_record_through_which_says_that_it_ends_a_batch() {
    for capacity in CAPACITIES {
        for at in 0..6 {
            let lab = Lab::new(at);
            let topic = lab.topic(1, capacity);
            let group = group(&topic);
            let (pausing, seen) = (group.clone(), Arc::new(Mutex::new(Vec::new())));
            let note = seen.clone();
            let handler = move |record: &Record<'_, u64>| {
                note.lock().unwrap().push((record.offset(), record.ends_batch()));
                if record.offset() == at {
                    pausing.pause();
                }
            };
            group.member("m").run(&lab.manual).subscribe(handler).unwrap();
            let all = 10_u64.min(capacity as u64);
            (0..all).for_each(|n| assert!(topic.publish(n).is_ok()));
            lab.settle();
            let before = std::mem::take(&mut *seen.lock().unwrap());
            let (last, ends_batch) = *before.last().unwrap();
            assert!(ends_batch && (last == at.min(all - 1) || last == at + 1), "{before:?}");
            assert_eq!(figures(&group), [last + 1, last + 1, all - last - 1]);
            group.resume();
            lab.settle();
            assert_eq!(
                seen.lock().unwrap().iter().map(|seen| seen.0).collect::<Vec<_>>(),
                (last + 1..all).collect::<Vec<_>>()
            );
        }
    }
}
