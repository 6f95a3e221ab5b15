//! `Unacked` topics drop a record's value as soon as every group is past it: at once, once, and on whose thread it says.

use ringlog::{
    Broker, BrokerConfig, Group, GroupConfig, Manual, ManualClock, Outcome, Retain, Retry, SeekTo, Topic, TopicConfig,
};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Which values have been dropped, and where.
#[derive(Clone, Default)]
struct Bin(Arc<Mutex<Vec<(u64, ThreadId)>>>);

impl Bin {
    fn value(&self, number: u64) -> Value {
        Value { number, bin: self.clone() }
    }

    fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<_> = self.0.lock().unwrap().iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Exactly those below `upto` have been dropped.
    #[track_caller]
    fn holds(&self, upto: u64) {
        assert_eq!(self.numbers(), (0..upto).collect::<Vec<_>>());
    }
}

struct Value {
    number: u64,
    bin: Bin,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.bin.0.lock().unwrap().push((self.number, thread::current().id()));
        if self.number % 5 == 4 {
            std::panic::resume_unwind(Box::new("a destructor that panics"));
        }
    }
}

fn unacked(capacity: usize) -> TopicConfig<Value> {
    TopicConfig::new().capacity(capacity).retain(Retain::Unacked).block(Some(Duration::ZERO))
}

fn broker() -> (Broker, Manual) {
    (Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new()))), Manual::new(7))
}

/// Where the slowest group stands.
fn slowest(groups: &[Group<Value>]) -> u64 {
    groups.iter().map(|group| group.stats_of(0).unwrap().committed).min().unwrap()
}

// B-10, X4
#[test]
fn after_each_step_exactly_those_are_dropped_that_every_group_has_committed() {
    for capacity in [1, 2, 3, 4, 7, 1024] {
        for names in [&["a"][..], &["a", "b"], &["a", "b", "c", "d"]] {
            let ((broker, manual), bin) = (broker(), Bin::default());
            let topic = broker.create_topic("t", unacked(capacity)).unwrap();
            let join = |name: &&str| {
                let group = topic.group(name, GroupConfig::earliest()).unwrap();
                group.member("m").run(&manual).subscribe(|_| ()).unwrap();
                group
            };
            let groups: Vec<_> = names.iter().map(join).collect();
            let mut published = 0;
            while published < 60 {
                while published < 60 && topic.try_publish(bin.value(published)).map_err(std::mem::forget).is_ok() {
                    published += 1;
                }
                while manual.step().is_some() {
                    bin.holds(slowest(&groups));
                }
            }
            bin.holds(60);
        }
    }
}

// B-15, C-22, X2
#[test]
fn where_nobody_listens_a_publish_drops_what_it_published_and_nothing_waits() {
    for capacity in [1, 2, 3, 4, 7, 1024] {
        let ((broker, _), bin) = (broker(), Bin::default());
        let topic = broker.create_topic("shared", unacked(capacity)).unwrap();
        for n in 0..30 {
            assert!(!topic.publish(bin.value(n)).unwrap().kept);
            bin.holds(n + 1);
        }
        let batch: Vec<_> = (30..30 + capacity as u64).map(|n| bin.value(n)).collect();
        topic.publish_batch(batch).unwrap();
        bin.holds(30 + capacity as u64);
        assert_eq!(topic.len(0), Some(0));

        let bin = Bin::default();
        let (_topic, mut producer) = broker.create_exclusive("exclusive", unacked(capacity)).unwrap();
        for n in 0..30 {
            producer.publish(bin.value(n)).unwrap();
            bin.holds(n + 1);
            assert_eq!(bin.0.lock().unwrap()[n as usize].1, thread::current().id());
        }
        let batch: Vec<_> = (30..30 + capacity as u64).map(|n| bin.value(n)).collect();
        producer.publish_batch(batch).unwrap();
        bin.holds(30 + capacity as u64);
    }
}

// B-10
#[test]
fn publishing_in_place_finds_no_value_of_the_past() {
    let ((broker, manual), bin) = (broker(), Bin::default());
    let (topic, mut producer) = broker.create_exclusive("t", unacked(3)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group.member("m").run(&manual).subscribe(|_| ()).unwrap();
    for n in 0..20 {
        let mut fresh = 0;
        let make = || {
            fresh += 1;
            bin.value(n)
        };
        producer.publish_in_place(0, make, |value| assert_eq!(value.number, n)).unwrap();
        assert_eq!(fresh, 1);
        manual.run(usize::MAX);
        bin.holds(n + 1);
    }
}

/// A topic of pages of four, and a group with a handler that does not return before it is told to.
struct Stuck {
    topic: Topic<Value>,
    group: Group<Value>,
    bin: Bin,
    go: mpsc::Sender<()>,
}

impl Stuck {
    /// Its handler has value `at` in hand.
    fn new(broker: &Broker, at: u64) -> Self {
        let bin = Bin::default();
        let topic = broker.create_topic("t", unacked(4).block(None)).unwrap();
        let group = topic.group("stuck", GroupConfig::earliest()).unwrap();
        let ((go, stop), (here, there)) = (mpsc::channel::<()>(), mpsc::channel());
        let handler = move |record: &ringlog::Record<'_, Value>| {
            if record.number == at {
                here.send(()).unwrap();
                stop.recv().unwrap();
            }
            assert_eq!(record.number, record.offset(), "read after it was dropped");
        };
        group.subscribe("m", handler).unwrap();
        (0..=at).for_each(|n| _ = topic.publish(bin.value(n)).unwrap());
        there.recv().unwrap();
        Self { topic, group, bin, go }
    }

    /// Until as many have been dropped.
    fn await_drops(&self, count: usize) {
        while self.bin.0.lock().unwrap().len() < count {
            thread::yield_now();
        }
    }
}

// B-10, A-26
#[test]
fn what_a_handler_has_in_hand_when_its_group_is_deleted_is_dropped_when_it_returns() {
    let broker = Broker::new();
    let stuck = Stuck::new(&broker, 5);
    stuck.topic.try_publish(stuck.bin.value(6)).unwrap();
    stuck.await_drops(4);
    assert!(stuck.group.delete());
    // Nobody listens now: what is on the page behind the hand stays with it, other pages do not.
    (7..30).for_each(|n| _ = stuck.topic.try_publish(stuck.bin.value(n)).unwrap());
    let kept = stuck.bin.numbers();
    assert_eq!(
        kept,
        (0..30).filter(|n| !(5..8).contains(n)).filter(|n| *n != 4 || kept.contains(&4)).collect::<Vec<_>>()
    );
    stuck.go.send(()).unwrap();
    stuck.await_drops(30);
    stuck.bin.holds(30);
}

// B-10
#[test]
fn what_a_handler_has_in_hand_when_its_group_is_moved_is_dropped_when_it_returns() {
    let broker = Broker::new();
    let stuck = Stuck::new(&broker, 1);
    stuck.topic.try_publish(stuck.bin.value(2)).unwrap();
    assert_eq!(stuck.group.seek(0, SeekTo::Latest).unwrap(), 3);
    assert!(!stuck.bin.numbers().contains(&1), "dropped in hand");
    stuck.go.send(()).unwrap();
    stuck.await_drops(3);
    stuck.bin.holds(3);
    // It goes on.
    stuck.topic.publish(stuck.bin.value(3)).unwrap();
    stuck.await_drops(4);
}

// B-10, X4
#[test]
fn seeks_pauses_letters_and_leaving_drop_what_nobody_wants_any_more() {
    let ((broker, manual), bin) = (broker(), Bin::default());
    let topic = broker.create_topic("t", unacked(7)).unwrap();
    let config = || GroupConfig::earliest().retry(Retry::never());
    let (a, b) = (topic.group("a", config()).unwrap(), topic.group("b", config()).unwrap());
    let reject =
        |record: &ringlog::Record<'_, Value>| if record.number == 1 { Outcome::reject("no") } else { Outcome::Ack };
    let member = a.member("m").run(&manual).subscribe(reject).unwrap();
    (0..6).for_each(|n| _ = topic.publish(bin.value(n)).unwrap());
    manual.run(usize::MAX);
    assert_eq!(a.stats_of(0).unwrap().committed, 6);
    bin.holds(0);
    b.seek(0, SeekTo::Offset(2)).unwrap();
    bin.holds(2);
    // Back again is no further than what is left.
    assert_eq!(a.seek(0, SeekTo::Offset(0)).unwrap(), 2);
    a.pause();
    b.seek(0, SeekTo::Latest).unwrap();
    bin.holds(2);
    a.resume();
    assert!(member.leave());
    a.member("n").run(&manual).subscribe(|_| ()).unwrap();
    manual.run(usize::MAX);
    bin.holds(6);
    topic.publish(bin.value(6)).unwrap();
    manual.run(usize::MAX);
    bin.holds(6);
    assert!(b.delete());
    bin.holds(7);
    topic.publish(bin.value(7)).unwrap();
    assert!(a.delete());
    bin.holds(8);
}

// B-10
#[test]
fn what_is_left_goes_with_the_topic_once() {
    let ((broker, manual), bin) = (broker(), Bin::default());
    let topic = broker.create_topic("t", unacked(7)).unwrap();
    let (a, b) =
        (topic.group("a", GroupConfig::earliest()).unwrap(), topic.group("b", GroupConfig::earliest()).unwrap());
    a.member("m").run(&manual).subscribe(|_| ()).unwrap();
    (0..7).for_each(|n| _ = topic.publish(bin.value(n)).unwrap());
    manual.run(usize::MAX);
    b.seek(0, SeekTo::Offset(3)).unwrap();
    bin.holds(3);
    drop((a, b, topic, manual, broker));
    bin.holds(7);
}

// B-10, A-46
#[test]
fn what_is_overwritten_before_a_group_had_it_is_dropped_once_at_the_latest_when_the_group_is_past_it() {
    for capacity in [1, 2, 3, 4, 7, 1024] {
        let ((broker, manual), bin) = (broker(), Bin::default());
        let topic = broker.create_topic("t", unacked(capacity).drop_oldest()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.member("m").run(&manual).subscribe(|_| ()).unwrap();
        let end = 3 * capacity as u64 + 5;
        for round in 0..3 {
            group.pause();
            (end * round..end * (round + 1)).for_each(|n| _ = topic.publish(bin.value(n)).unwrap());
            let kept = end * (round + 1) - capacity as u64;
            assert!(bin.numbers().into_iter().all(|n| n < kept), "dropped while it is retained");
            group.resume();
            manual.run(usize::MAX);
            bin.holds(end * (round + 1));
        }
        // Nobody is there: dropped at once.
        group.pause();
        topic.publish(bin.value(3 * end)).unwrap();
        assert!(group.delete());
        bin.holds(3 * end + 1);
        topic.publish(bin.value(3 * end + 1)).unwrap();
        bin.holds(3 * end + 2);
    }
}

// B-10, A-51
#[test]
fn what_is_too_old_is_dropped_by_whoever_notices() {
    for lossy in [false, true] {
        let (clock, bin, manual) = (Arc::new(ManualClock::new()), Bin::default(), Manual::new(3));
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = unacked(7).max_age(Duration::from_secs(1));
        let topic = broker.create_topic("t", if lossy { config.drop_oldest() } else { config }).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        group.member("m").run(&manual).subscribe(|_| ()).unwrap();
        group.pause();
        (0..5).for_each(|n| _ = topic.publish(bin.value(n)).unwrap());
        clock.advance(Duration::from_secs(1));
        topic.publish(bin.value(5)).unwrap();
        bin.holds(0);
        clock.advance(Duration::from_nanos(1));
        topic.publish(bin.value(6)).unwrap();
        bin.holds(5);
        group.resume();
        manual.run(usize::MAX);
        bin.holds(7);
    }
}

/// How often each value was dropped.
struct Counted(usize, Arc<Vec<AtomicU8>>);

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(self.1[self.0].fetch_add(1, Relaxed), 0, "{} was dropped twice", self.0);
    }
}

// B-10, B-15
#[test]
fn in_a_storm_every_value_is_dropped_once_and_none_is_late() {
    const EACH: usize = 20_000;
    const PRODUCERS: usize = 2;
    for capacity in [1, 3, 64, 1024] {
        let (broker, made) = (Broker::new(), AtomicUsize::new(0));
        let counts: Arc<Vec<_>> = Arc::new((0..EACH * PRODUCERS).map(|_| AtomicU8::new(0)).collect());
        let topic = broker.create_topic("t", TopicConfig::new().capacity(capacity).retain(Retain::Unacked)).unwrap();
        let stay = topic.group("stay", GroupConfig::earliest()).unwrap();
        let intact = |record: &ringlog::Record<'_, Counted>| assert_eq!(record.1[record.0].load(Relaxed), 0);
        stay.subscribe("m", intact).unwrap();
        thread::scope(|scope| {
            let producers: Vec<_> = (0..PRODUCERS)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..EACH {
                            let value = Counted(made.fetch_add(1, Relaxed), counts.clone());
                            topic.publish(value).map_err(|e| e.to_string()).unwrap();
                        }
                    })
                })
                .collect();
            let mut turn = 0_usize;
            while !producers.iter().all(|producer| producer.is_finished()) {
                let guest = topic.group("guest", GroupConfig::earliest()).unwrap();
                let member = guest.subscribe("m", intact).unwrap();
                let to = [SeekTo::Latest, SeekTo::Earliest][turn % 2];
                guest.seek(0, to).unwrap();
                if turn % 3 == 0 {
                    stay.seek(0, to).unwrap();
                }
                if turn % 2 == 0 {
                    assert!(member.leave());
                }
                guest.delete();
                turn += 1;
            }
        });
        broker.drain(Duration::from_secs(60)).unwrap();
        let missing = || counts.iter().position(|count| count.load(Relaxed) != 1);
        // The last handler may still be on its way from its commit to the drop.
        while missing().is_some() {
            thread::yield_now();
        }
    }
}
