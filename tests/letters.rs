//! Letters beyond their group: listed, lost, and the dice of a backoff.
mod lab;

use lab::{Lab, balanced};
use ringlog::{
    Broker, BrokerConfig, GroupConfig, Manual, ManualClock, Member, Outcome, Record, Retry, SeededRandom, TopicConfig,
    Worker,
};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

//
#[test]
fn letters_are_listed_by_broker_by_topic_and_by_group() {
    let lab = Lab::new(1);
    let topics = ["a", "b"].map(|name| lab.broker.create_topic(name, TopicConfig::<u64>::new()).unwrap());
    for topic in &topics {
        for name in ["billing", "audit"] {
            let group = topic.group(name, GroupConfig::earliest()).unwrap();
            group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
        }
    }
    for n in 0..4 {
        topics[n as usize % 2].publish(n).unwrap();
        lab.settle();
        lab.clock.advance(Duration::from_secs(1));
    }
    let places = |letters: Vec<ringlog::Letter>| -> Vec<(String, u64)> {
        letters.iter().map(|letter| (letter.topic().to_owned(), letter.offset())).collect()
    };
    let in_order = [("a".to_owned(), 0), ("b".to_owned(), 0), ("a".to_owned(), 1), ("b".to_owned(), 1)];
    assert_eq!(places(lab.broker.letters_of("billing")), in_order);
    assert_eq!((lab.broker.letters().len(), topics[0].letters().len()), (8, 4));
    assert!(lab.broker.letters().is_sorted_by_key(ringlog::Letter::failed_at));
    assert!(lab.broker.letters_of("nobody").is_empty());
}

#[test]
fn the_letter_that_finds_no_room_is_told_and_a_panic_there_stops_there() {
    let lab = Lab::new(2);
    let topic = lab.topic(1, 4);
    let told = Arc::new(Mutex::new(Vec::new()));
    let (noted, of_broker) = (told.clone(), lab.broker.clone());
    let config = GroupConfig::earliest().letters(2).bury_cloned().on_letter_lost(move |letter| {
        // No lock is held: whatever it asks for, it gets.
        noted.lock().unwrap().push((letter.offset(), letter.payload::<u64>().copied(), of_broker.letters().len()));
        panic!("not my day");
    });
    let group = topic.group("g", config).unwrap();
    group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
    for n in 0..4 {
        lab.feed(&topic, 0, [10 + n]);
        lab.settle();
    }
    assert_eq!(*told.lock().unwrap(), [(0, Some(10), 2), (1, Some(11), 2)]);
    let stats = balanced(&group);
    assert_eq!((stats.letters, stats.letters_lost, stats.dead()), (2, 2, 4));
}

/// The pauses of one record that always fails, in milliseconds, and the trace.
fn pauses(seed: u64) -> (Vec<u128>, String) {
    let clock = Arc::new(ManualClock::new());
    let random = Arc::new(SeededRandom::new(seed));
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()).random(random));
    let (topic, manual) = (broker.create_topic("t", TopicConfig::<u64>::new()).unwrap(), Manual::new(1));
    let config = GroupConfig::earliest().retry(Retry::constant(20, Duration::from_millis(100)).jitter(0.5));
    topic.group("g", config).unwrap().member("m").run(&manual).subscribe(|_| Err::<(), _>("no")).unwrap();
    topic.publish(1).unwrap();
    manual.run(100);
    let mut pauses = Vec::new();
    while let Some(due) = manual.next_due() {
        pauses.push((due - ringlog::Clock::now(&*clock)).as_micros());
        clock.set(due);
        manual.run(100);
    }
    (pauses, manual.trace())
}

// A-E9, X7, A-29
#[test]
fn jitter_follows_from_the_seed_and_stays_within_its_fraction() {
    let (one, trace) = pauses(1);
    assert_eq!((one.clone(), trace), pauses(1), "byte for byte");
    assert_ne!(one, pauses(2).0);
    assert_eq!(one.len(), 19);
    assert!(one.iter().all(|pause| (50_000..=100_000).contains(pause)), "{one:?}");
    let spread = one.iter().max().unwrap() - one.iter().min().unwrap();
    assert!(spread > 20_000, "{one:?}");
}

#[derive(Debug)]
struct Loaded;
impl ringlog::Random for Loaded {
    fn next_u64(&self) -> u64 {
        panic!("no dice")
    }
}

#[test]
fn dice_that_panic_leave_the_pause_as_it_is() {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock).random(Arc::new(Loaded)));
    let (topic, manual) = (broker.create_topic("t", TopicConfig::<u64>::new()).unwrap(), Manual::new(1));
    let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::from_millis(100)).jitter(0.5));
    topic.group("g", config).unwrap().member("m").run(&manual).subscribe(|_| Err::<(), _>("no")).unwrap();
    topic.publish(1).unwrap();
    manual.run(100);
    assert_eq!(manual.next_due().unwrap().as_nanos(), 100_000_000);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stop {
    Leave,
    LeaveAnother,
    Pause,
    Close,
    DeleteGroup,
    DeleteTopic,
}

/// A record fails for good while its handler does `stop` in the last attempt: how many letters, the cursor, the refused.
fn stopped_while_burying(stop: Stop) -> (usize, u64, u64) {
    let lab = Lab::new(3);
    let topic = lab.topic(1, 4);
    let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO)).bury_cloned();
    let group = topic.group("g", config).unwrap();
    let members = Arc::new(Mutex::new(Vec::<Member<u64>>::new()));
    let stopper = {
        let (group, broker, members) = (group.clone(), lab.broker.clone(), members.clone());
        move || {
            let members = members.lock().unwrap();
            match stop {
                Stop::Leave => assert!(members[0].leave()),
                Stop::LeaveAnother => assert!(members[1].leave()),
                Stop::Pause => group.pause(),
                Stop::Close => _ = broker.close(None),
                Stop::DeleteGroup => assert!(group.delete()),
                Stop::DeleteTopic => broker.delete_topic("orders").unwrap(),
            }
        }
    };
    let fails = move |record: &Record<'_, u64>| {
        if record.attempt() == 2 {
            stopper();
        }
        Err::<(), _>("no")
    };
    let first = group.member("first").run(&lab.manual).subscribe(fails).unwrap();
    let second = group.member("second").run(&lab.manual).subscribe(|_| ()).unwrap();
    members.lock().unwrap().extend([first, second]);
    topic.publish(7).unwrap();
    lab.finish();
    let stats = balanced(&group);
    assert_eq!(stats.dead() as usize, group.letters().len(), "{stop:?}");
    (group.letters().len(), stats.lanes[0].committed, stats.refused())
}

// X20
#[test]
fn a_record_that_fails_for_good_while_its_handler_stops_things_is_buried_and_passed_or_neither() {
    for stop in [Stop::Leave, Stop::LeaveAnother, Stop::Pause] {
        assert_eq!(stopped_while_burying(stop), (1, 1, 0), "{stop:?}: one letter, committed");
    }
    for stop in [Stop::Close, Stop::DeleteGroup, Stop::DeleteTopic] {
        assert_eq!(
            stopped_while_burying(stop),
            (0, 0, 1),
            "{stop:?}: what is in hand counts as left, and for nothing else"
        );
    }
}

// X20
#[test]
fn a_record_that_fails_for_good_while_others_stop_its_member_has_one_letter_and_is_committed() {
    type Stopper = fn(&Broker, &Member<u64>, &Worker);
    let leave: Stopper = |_, member, _| assert!(member.leave());
    let leave_drained: Stopper = |_, member, _| member.leave_drained(LONG).unwrap();
    let close: Stopper = |broker, _, _| {
        let account = broker.close(Some(LONG));
        assert_eq!((account.drained, account.stopped, account.dead(), account.left()), (true, true, 1, 0));
    };
    let stop_worker: Stopper = |_, _, worker| worker.stop();
    for stop in [leave, leave_drained, close, stop_worker] {
        let (broker, worker) = (Broker::new(), Worker::spawn().unwrap());
        let topic = broker.create_topic("orders", TopicConfig::<u64>::new()).unwrap();
        let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO));
        let group = topic.group("g", config).unwrap();
        let ((says, said), (open, gate)) = (mpsc::channel(), mpsc::channel());
        let fails = move |record: &Record<'_, u64>| {
            if record.attempt() == 2 {
                says.send(()).unwrap();
                gate.recv().unwrap();
            }
            Err::<(), _>("no")
        };
        let member = group.member("m").run(&worker).subscribe(fails).unwrap();
        topic.publish(7).unwrap();
        said.recv().unwrap(); // its last attempt has begun
        thread::scope(|scope| {
            let stopping = scope.spawn(|| stop(&broker, &member, &worker));
            (0..1_000).for_each(|_| thread::yield_now()); // most probably it waits for the handler
            open.send(()).unwrap();
            stopping.join().unwrap();
        });
        let begun = Instant::now();
        while group.lag() > 0 {
            assert!(begun.elapsed() < LONG, "it is not committed: {:?}", group.stats());
            thread::yield_now();
        }
        let stats = balanced(&group);
        let letter = (group.letters().len(), stats.dead(), stats.lanes[0].committed, stats.refused());
        assert_eq!(letter, (1, 1, 1, 0));
    }
}
