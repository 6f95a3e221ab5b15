//! Letters that go to a topic, as new records.
mod lab;

use lab::{CAPACITIES, Lab, balanced};
use ringlog::{Group, GroupConfig, Message, Outcome, Pick, PublishError, Record, SeekTo, Topic, TopicConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A group that has buried `0..n` of `topic`, with their records.
fn buried(lab: &Lab, topic: &Topic<u64>, n: u64) -> Group<u64> {
    let group = topic.group("g", GroupConfig::earliest().bury_cloned()).unwrap();
    group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
    lab.feed(topic, 0, 0..n);
    lab.settle();
    group
}

fn offsets(group: &Group<u64>) -> Vec<u64> {
    group.letters().iter().map(|letter| letter.offset()).collect()
}

// C-18, A-28
#[test]
fn letters_become_new_records_in_order_and_what_finds_no_room_stays_a_letter() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64);
        let topic = lab.topic(1, capacity);
        let group = buried(&lab, &topic, 6);
        let other = lab.broker.create_topic("other", TopicConfig::new().capacity(capacity)).unwrap();
        let reader = other.group("reader", GroupConfig::earliest()).unwrap();
        let room = capacity.min(6) as u64;
        let (done, why) = match other.redrive(&group, Pick::all(), Duration::ZERO) {
            Ok(done) => (done, None),
            Err(stopped) => (stopped.done, Some(stopped.why)),
        };
        let places: Vec<_> = done.published.iter().map(|(letter, at)| (letter.offset(), at.offset())).collect();
        assert_eq!(places, (0..room).map(|n| (n, n)).collect::<Vec<_>>());
        assert_eq!(offsets(&group), (room..6).collect::<Vec<_>>());
        assert_eq!(why.is_none(), room == 6);
        if let Some(why) = why {
            assert!(matches!(why, PublishError::Full { .. }), "{why}");
            let again = other.redrive(&group, Pick::first(1), Duration::ZERO).unwrap_err();
            assert_eq!((again.done.published.len(), group.letters().len()), (0, (6 - room) as usize));
            reader.seek(0, SeekTo::Latest).unwrap();
            assert_eq!(other.redrive(&group, Pick::first(1), Duration::ZERO).unwrap().published[0].1.offset(), room);
        }
        balanced(&group);
    }
}

#[test]
fn letters_without_a_record_stay_and_a_function_may_make_one() {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 8);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
    lab.feed(&topic, 0, 0..3);
    lab.settle();
    let done = topic.redrive(&group, Pick::all(), Duration::ZERO).unwrap();
    assert_eq!((done.published.len(), done.without_record, offsets(&group)), (0, 3, vec![0, 1, 2]));
    let notes = lab.broker.create_topic("notes", TopicConfig::<String>::new()).unwrap();
    let make = |letter: &ringlog::Letter| (letter.offset() != 1).then(|| letter.to_string());
    let done = notes.redrive_with(&group, Pick::all(), Duration::ZERO, make).unwrap();
    assert_eq!((done.published.len(), done.without_record, offsets(&group)), (2, 1, vec![1]));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let reader = notes.group("reader", GroupConfig::earliest()).unwrap();
    let note = move |r: &Record<'_, String>| noted.lock().unwrap().push(r.to_string());
    reader.member("m").run(&lab.manual).subscribe(note).unwrap();
    lab.settle();
    assert_eq!(seen.lock().unwrap()[0], "notes/0@0 orders/0@0 given up by g after 1 attempt: error: no");
}

#[test]
fn an_exclusive_a_closed_and_a_deleted_topic_refuse_and_nothing_has_moved() {
    let lab = Lab::new(2);
    let topic = lab.topic(1, 8);
    let group = buried(&lab, &topic, 2);
    let (exclusive, _producer) = lab.broker.create_exclusive("x", TopicConfig::<u64>::new()).unwrap();
    let gone = lab.broker.create_topic("gone", TopicConfig::<u64>::new()).unwrap();
    lab.broker.delete_topic("gone").unwrap();
    let refused = |topic: &Topic<u64>| topic.redrive(&group, Pick::all(), Duration::MAX).unwrap_err();
    let stopped = refused(&exclusive);
    assert!(matches!(stopped.why, PublishError::Exclusive { .. }));
    let text = "redrive stopped, 0 published before: topic 'x' has an exclusive producer; publish through that";
    assert_eq!(stopped.to_string(), text);
    assert!(matches!(refused(&gone).why, PublishError::Deleted { .. }));
    lab.broker.close(Some(Duration::ZERO));
    assert!(matches!(refused(&topic).why, PublishError::Closed { .. }));
    assert_eq!(offsets(&group), [0, 1]);
}

#[test]
fn a_panic_of_a_key_extractor_or_of_the_function_leaves_the_letter_where_it_was() {
    let lab = Lab::new(3);
    let topic = lab.topic(1, 8);
    let group = buried(&lab, &topic, 3);
    let rude = Arc::new(AtomicBool::new(true));
    let is_rude = rude.clone();
    let config = TopicConfig::<u64>::new().partitions(2).key(move |value: &u64| {
        assert!(!is_rude.load(Ordering::Relaxed), "no key");
        value
    });
    let keyed = lab.broker.create_topic("keyed", config).unwrap();
    let calls: [&dyn Fn() -> usize; 2] =
        [&|| keyed.redrive(&group, Pick::all(), Duration::ZERO).unwrap().published.len(), &|| {
            keyed.redrive_with(&group, Pick::all(), Duration::ZERO, |_| panic!("no record")).unwrap().published.len()
        }];
    for call in calls {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
        assert_eq!(offsets(&group), [0, 1, 2]);
    }
    rude.store(false, Ordering::Relaxed);
    assert_eq!((calls[0](), group.letters().len()), (3, 0));
}

/// A wait that is told how long it may be.
#[test]
fn it_waits_for_room_no_longer_than_told_for_all_letters_together() {
    let (lab, limit) = (Lab::new(6), Duration::from_millis(20));
    let topic = lab.topic(1, 8);
    let group = buried(&lab, &topic, 4);
    let tight = lab.broker.create_topic("tight", TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    let reader = tight.group("reader", GroupConfig::earliest()).unwrap();
    let redriving = thread::spawn({
        let (tight, group) = (tight.clone(), group.clone());
        move || tight.redrive(&group, Pick::all(), limit)
    });
    let waits = |times| {
        while tight.counts().blocked < times {
            thread::yield_now();
        }
    };
    waits(1);
    lab.clock.advance(limit / 4 * 3);
    reader.seek(0, SeekTo::Latest).unwrap(); // there is room, and the second letter goes
    waits(2);
    lab.clock.advance(limit / 4);
    let stopped = redriving.join().unwrap().unwrap_err();
    assert_eq!(stopped.why.full().unwrap().waited, limit / 4, "the first wait has used up the rest");
    assert_eq!((stopped.done.published.len(), group.letters().len()), (2, 2));
    reader.subscribe("m", |_: &Record<'_, u64>| ()).unwrap();
    assert_eq!(tight.redrive(&group, Pick::all(), Duration::from_secs(60)).unwrap().published.len(), 2);
}

// A-25, A-26
#[test]
fn a_message_never_changes_and_shows_itself_with_its_place() {
    let lab = Lab::new(4);
    let topic = lab.broker.create_topic("orders", TopicConfig::messages().partitions(2)).unwrap();
    lab.clock.advance(Duration::from_secs(7));
    let message: Message = lab.broker.message("alice:paid").key("alice").header("a", "1").header("b", "2").build();
    let changed = message.with_header("a", "3");
    assert_eq!((message.header("a"), changed.header("a"), changed.header("b")), (Some("1"), Some("3"), Some("2")));
    assert_eq!((message.id(), message.created().as_nanos()), ("m1", 7_000_000_000));
    assert!(message != changed && message == message.clone());
    assert_eq!(changed.headers().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
    assert_eq!(topic.publish(message).unwrap().partition(), 1);
    let keyless: Message = Message::with_id("x", vec![0, 255, b'z']).build();
    assert_eq!((keyless.key(), keyless.headers().count(), &keyless.payload()[..]), (None, 0, &[0, 255, b'z'][..]));
    assert!(format!("{keyless:?}").contains(r#"payload: b"\x00\xffz""#), "{keyless:?}");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let noted = shown.clone();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let show = move |r: &Record<'_, Message>| noted.lock().unwrap().push((r.to_string(), r.key().map(str::to_owned)));
    group.member("m").run(&lab.manual).subscribe(show).unwrap();
    lab.settle();
    assert_eq!(*shown.lock().unwrap(), [("orders/1@0 alice:paid".to_owned(), Some("alice".to_owned()))]);
}

#[test]
fn a_message_redriven_twice_names_the_place_it_was_in_first() {
    let lab = Lab::new(5);
    let topic = lab.broker.create_topic("orders", TopicConfig::<Message<u64>>::messages()).unwrap();
    let group = topic.group("g", GroupConfig::earliest().bury_cloned()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let handler = move |r: &Record<'_, Message<u64>>| {
        noted.lock().unwrap().push(r.header(ringlog::ORIGIN_HEADER).map(str::to_owned));
        Outcome::reject("never")
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    topic.publish(lab.broker.message(7_u64).build()).unwrap();
    for _ in 0..2 {
        lab.settle();
        topic.redrive_with(&group, Pick::all(), Duration::ZERO, Message::redriven).unwrap();
    }
    lab.settle();
    let origin = Some("orders/0@0 g".to_owned());
    assert_eq!(*seen.lock().unwrap(), [None, origin.clone(), origin]);
    assert!(Message::<String>::redriven(&group.letters()[0]).is_none(), "another payload");
}
