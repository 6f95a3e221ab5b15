//! Order shared: what a member has in hand, seen from outside: before its handler is called, while it hangs in the middle of a
//! run, and when its time is up.
mod lab;

use lab::balanced;
use ringlog::{
    Broker, BrokerConfig, Clock, Consumer, Delivery, Futex, Group, GroupConfig, Manual, Member, Order, Position,
    Readiness, Record, Retry, Standing, Time, Topic, TopicConfig, Woken,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

const LONG: Duration = Duration::from_secs(60);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// At which of the next readings, whom to tell, and what to wait for.
type Gate = (usize, Sender<()>, Receiver<()>);

/// Offsets and attempts.
type Seen = Arc<Mutex<Vec<(u64, u32)>>>;

thread_local! {
    /// At which of its next readings this thread is held up, and where it says so and waits.
    static GATE: Cell<Option<Gate>> = const { Cell::new(None) };
    /// Whether its next reading panics.
    static BOMB: Cell<bool> = const { Cell::new(false) };
}

/// A clock under which no timer ever runs: so what ends in time, others have seen to.
#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Still {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_nanos() as u64, SeqCst);
    }
}

impl Clock for Still {
    fn now(&self) -> Time {
        assert!(!BOMB.take(), "as planned");
        match GATE.take() {
            Some((1, tell, go)) => {
                tell.send(()).unwrap();
                go.recv().unwrap();
            }
            Some((more, tell, go)) => GATE.set(Some((more - 1, tell, go))),
            None => {}
        }
        Time::from_nanos(self.0.load(SeqCst))
    }
    fn wall(&self, _: Time) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
    fn sleep(&self, word: &Arc<Futex>, expected: u32, _: Option<Time>) -> Woken {
        word.wait(expected, None)
    }
    fn on_move(&self, _: Weak<dyn Fn() + Send + Sync>) -> bool {
        true
    }
}

fn queue() -> GroupConfig<u64> {
    GroupConfig::earliest().order(Order::Shared)
}

fn still(config: GroupConfig<u64>, capacity: usize) -> (Arc<Still>, Broker, Topic<u64>, Group<u64>) {
    let clock = Arc::new(Still::default());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let config_of_topic = TopicConfig::new().capacity(capacity).block(Some(Duration::ZERO));
    let topic = broker.create_topic("orders", config_of_topic).unwrap();
    let group = topic.group("g", config).unwrap();
    (clock, broker, topic, group)
}

/// A member that is stepped by a thread of its own, and says what it sees. At the offset `at` it hangs until it is let go.
struct Hangs {
    member: Member<u64>,
    seen: Arc<Mutex<Vec<u64>>>,
    inside: Receiver<()>,
    go: Sender<()>,
    manual: Manual,
}

impl Hangs {
    fn join(group: &Group<u64>, at: u64) -> Self {
        Hangs::seeded(group, at, 1)
    }

    fn seeded(group: &Group<u64>, at: u64, seed: u64) -> Self {
        let (seen, manual): (Arc<Mutex<Vec<u64>>>, _) = (Arc::default(), Manual::new(seed));
        let ((tell, inside), (go, gate)) = (mpsc::channel(), mpsc::channel());
        let sees = seen.clone();
        let handler = move |record: &Record<'_, u64>| {
            sees.lock().unwrap().push(record.offset());
            if record.offset() == at {
                tell.send(()).unwrap();
                let _ = gate.recv();
            }
        };
        let member = group.member("hangs").run(&manual).subscribe(handler).unwrap();
        Hangs { member, seen, inside, go, manual }
    }

    /// Steps it until it hangs.
    fn hang(&self) -> JoinHandle<()> {
        let manual = self.manual.clone();
        let thread = thread::spawn(move || _ = manual.run(100));
        self.inside.recv_timeout(LONG).unwrap();
        thread
    }

    fn seen(&self) -> Vec<u64> {
        self.seen.lock().unwrap().clone()
    }
}

/// A member that notes what it is handed: offset and attempt.
fn free(group: &Group<u64>) -> (Manual, Seen) {
    let (manual, seen) = (Manual::new(2), Seen::default());
    let notes = seen.clone();
    let note = move |record: &Record<'_, u64>| notes.lock().unwrap().push((record.offset(), record.attempt()));
    group.member("free").run(&manual).subscribe(note).unwrap();
    (manual, seen)
}

fn standing(group: &Group<u64>) -> Standing {
    group.standing(0).unwrap()
}

// ---- before the handler is called ------------------------------------------------------------------------------------

// B-E5, X4: "its handler will not be called again"
#[test]
fn who_is_told_that_a_member_has_nothing_in_hand_can_rely_on_that() {
    let mut seen_in_hand = false;
    for nth in 1..=4 {
        let (_clock, _broker, topic, group) = still(queue().lease(LONG), 8);
        let owner = Manual::new(1);
        group.member("owner").run(&owner).subscribe(|_: &Record<'_, u64>| ()).unwrap();
        let (manual, calls) = (Manual::new(2), Arc::new(AtomicUsize::new(0)));
        let counts = calls.clone();
        let count = move |_: &Record<'_, u64>| _ = counts.fetch_add(1, SeqCst);
        let late = group.member("late").run(&manual).subscribe(count).unwrap();
        topic.publish(0).unwrap();
        let ((tell, told), (go, gate)) = (mpsc::channel(), mpsc::channel());
        let thread = thread::spawn(move || {
            GATE.set(Some((nth, tell, gate)));
            manual.run(3);
            GATE.set(None);
        });
        let _in_time_or_at_its_end = told.recv_timeout(LONG);
        let (quiet, before) = (late.leave_drained(Duration::ZERO).is_ok(), calls.load(SeqCst));
        seen_in_hand |= !quiet;
        let _gone_on_already = go.send(());
        thread.join().unwrap();
        assert!(!quiet || calls.load(SeqCst) == before, "called after all, held up at reading {nth}");
    }
    assert!(seen_in_hand, "it was never held up on its way to a record");
}

#[test]
fn a_clock_that_panics_while_a_record_is_claimed_keeps_it_from_nobody() {
    let (_clock, _broker, topic, group) = still(queue().straggler(ringlog::Straggler::Bury(LONG)), 8);
    let (tell, told) = mpsc::channel();
    let handler = move |record: &Record<'_, u64>| {
        BOMB.set(true);
        tell.send(record.offset()).unwrap();
    };
    topic.publish_batch(0..4).unwrap();
    group.subscribe("bomb", handler).map(drop).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(0));
    while group.stats().members.contains(&"bomb".into()) {
        thread::yield_now();
    }
    let (manual, seen) = free(&group);
    manual.run(100);
    assert_eq!((seen.lock().unwrap().len(), balanced(&group).lag()), (3, 0));
}

// ---- in the middle of a run ------------------------------------------------------------------------------------------

/// A run whose handler hangs at record 4, with others before and behind it, and nobody else; and where that run ends.
fn hung_run(config: &GroupConfig<u64>) -> (Arc<Still>, Broker, Group<u64>, Hangs, JoinHandle<()>, u64) {
    for seed in 1..1_000 {
        let (clock, broker, topic, group) = still(config.clone(), 1_024);
        let hangs = Hangs::seeded(&group, 4, seed);
        topic.publish_batch(0..64).unwrap();
        let thread = hangs.hang();
        let stats = balanced(&group);
        let (begin, len) = (stats.lanes[0].committed, stats.lanes[0].in_flight);
        if begin < 4 && begin + len > 6 {
            return (clock, broker, group, hangs, thread, begin + len);
        }
        hangs.go.send(()).unwrap();
        thread.join().unwrap();
    }
    panic!("the manual executor never took such a run");
}

fn from_to(from: u64, to: u64) -> Vec<(u64, u32)> {
    (from..to).map(|offset| (offset, 1)).collect()
}

// B-E5: "holds up its record"
#[test]
fn a_hang_in_the_middle_of_a_run_holds_up_its_record_and_no_other() {
    let (clock, _broker, group, hangs, thread, end) = hung_run(&queue());
    let (manual, seen) = free(&group);
    manual.run(1_000);
    assert_eq!(*seen.lock().unwrap(), from_to(end, 64), "it may be on its way");
    clock.advance(ms(1));
    manual.run(1_000);
    assert_eq!(*seen.lock().unwrap(), [from_to(end, 64), from_to(5, end)].concat());
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lanes[0].committed, stats.lanes[0].in_flight, stats.retried()), (63, 4, 1, 0));
    assert_eq!(standing(&group), Standing::AtWork { member: "hangs".into() });
    hangs.go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(hangs.seen(), [0, 1, 2, 3, 4], "it was not called with what was another's");
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lag(), stats.refused(), stats.lanes[0].committed), (64, 0, 0, 64));
}

/// What a consumer is handed, acknowledged at once.
fn polls(consumer: &mut Consumer<u64>) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    loop {
        let batch = consumer.try_poll(9).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend(batch.iter().map(|record| (record.offset(), record.attempt())));
        batch.ack().unwrap();
    }
}

// B-E5: "holds up its record"
#[test]
fn a_consumer_that_has_nothing_to_do_is_given_what_a_handler_that_hangs_has_not_begun() {
    let (clock, _broker, group, hangs, thread, end) = hung_run(&queue());
    let mut consumer = group.consumer("polls").unwrap();
    assert_eq!(polls(&mut consumer), from_to(end, 64), "it may be on its way");
    assert_eq!(consumer.poll_ready(Waker::noop()), Readiness::Waiting { at_most: Some(ms(1)) });
    clock.advance(ms(1));
    assert_eq!(consumer.poll_ready(Waker::noop()), Readiness::Ready);
    assert_eq!(polls(&mut consumer), from_to(5, end));
    assert_eq!(consumer.poll_ready(Waker::noop()), Readiness::Waiting { at_most: None }, "one record is nobody else's");
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lanes[0].committed, stats.lanes[0].in_flight, stats.retried()), (63, 4, 1, 0));
    hangs.go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(hangs.seen(), [0, 1, 2, 3, 4], "it was not called with what was another's");
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lag(), stats.refused(), stats.lanes[0].committed), (64, 0, 0, 64));
}

// B-E5, X9, X36
#[test]
fn a_lease_that_is_over_in_the_middle_of_a_run_ends_what_its_handler_is_at() {
    let config = queue().lease(ms(100)).retry(Retry::constant(3, ms(7)));
    let (clock, _broker, group, hangs, thread, _) = hung_run(&config);
    let (manual, seen) = free(&group);
    clock.advance(ms(100));
    manual.run(1_000);
    let mut all = seen.lock().unwrap().clone();
    all.sort_unstable();
    assert_eq!(all, [vec![(4, 2)], from_to(5, 64)].concat(), "one has failed");
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lag(), stats.lanes[0].leases_expired, stats.retried()), (64, 0, 1, 1));
    assert_eq!(standing(&group), Standing::Done, "whoever has not returned");
    hangs.go.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!((hangs.seen(), balanced(&group).refused(), balanced(&group).acked()), (vec![0, 1, 2, 3, 4], 1, 64));
    assert_eq!(standing(&group), Standing::Done);
    assert!(hangs.member.leave());
}

// ---- when its time is up ---------------------------------------------------------------------------------------------

// X36: "exactly at now >= deadline"
#[test]
fn an_acknowledgement_at_the_deadline_is_refused_and_one_before_it_is_not() {
    for (late, took) in [(false, ms(100) - Duration::from_nanos(1)), (true, ms(100)), (true, ms(300))] {
        let (clock, _broker, topic, group) = still(queue().lease(ms(100)), 8);
        let manual = Manual::new(1);
        let passes = clock.clone();
        let handler = move |record: &Record<'_, u64>| {
            if record.attempt() == 1 {
                passes.advance(took);
            }
        };
        group.member("m").run(&manual).subscribe(handler).unwrap();
        topic.publish(0).unwrap();
        manual.run(100);
        let (stats, late) = (balanced(&group), u64::from(late));
        let figures = (stats.acked(), stats.lag(), stats.refused(), stats.lanes[0].leases_expired, stats.retried());
        assert_eq!(figures, (1, 0, late, late, late), "{took:?}");
    }
}

#[test]
fn a_renewed_lease_ends_at_its_limit_and_not_before() {
    for (late, took) in [(0, ms(249)), (1, ms(250))] {
        let (clock, _broker, topic, group) = still(queue().lease(ms(100)).lease_renewed_up_to(ms(250)), 8);
        let manual = Manual::new(1);
        let passes = clock.clone();
        let first = move |record: &Record<'_, u64>| {
            if record.attempt() == 1 {
                passes.advance(took)
            }
        };
        group.member("m").run(&manual).subscribe(first).unwrap();
        topic.publish(0).unwrap();
        manual.run(100);
        assert_eq!((balanced(&group).refused(), balanced(&group).acked()), (late, 1), "{took:?}");
    }
}

// A batch: nobody knows what of it was done.
#[test]
fn a_batch_that_comes_back_too_late_is_refused_as_a_whole() {
    let (clock, _broker, topic, group) = still(queue().lease(ms(100)), 1_024);
    let (manual, sizes): (_, Arc<Mutex<Vec<usize>>>) = (Manual::new(1), Arc::default());
    let (passes, notes) = (clock.clone(), sizes.clone());
    let handler = move |batch: &ringlog::Batch<'_, u64>| {
        if notes.lock().unwrap().is_empty() {
            passes.advance(ms(100));
        }
        notes.lock().unwrap().push(batch.len());
    };
    group.member("m").run(&manual).subscribe_batch(handler).unwrap();
    topic.publish_batch(0..10).unwrap();
    manual.run(100);
    let (stats, sizes) = (balanced(&group), sizes.lock().unwrap().clone());
    let late = sizes[0] as u64;
    assert_eq!((stats.acked(), stats.refused(), stats.lanes[0].leases_expired), (10, late, late));
    assert!(late > 1, "{sizes:?}");
}

// X7: "first what others wait for, then what is the user's"
#[test]
fn the_timer_ends_leases_before_it_runs_anything_of_the_users() {
    let lab = lab::Lab::new(1);
    let (other, found) =
        (lab.broker.create_topic("other", TopicConfig::<u64>::new()).unwrap(), Arc::new(Mutex::new(None)));
    let queue_of: Arc<Mutex<Option<Group<u64>>>> = Arc::default();
    let (looks, finds) = (queue_of.clone(), found.clone());
    let hook = move |_: &ringlog::LagAlarm| {
        let expired = looks.lock().unwrap().as_ref().map(|group| group.stats().leases_expired());
        *finds.lock().unwrap() = expired;
    };
    let _alarmed = other.group("alarmed", GroupConfig::earliest().on_lag(1, hook)).unwrap();
    let topic = lab.topic(1, 8);
    let group = topic.group("g", queue().lease(ms(100))).unwrap();
    *queue_of.lock().unwrap() = Some(group.clone());
    let hangs = Hangs::join(&group, 0);
    topic.publish(0).unwrap();
    let thread = hangs.hang();
    other.publish(0).unwrap();
    lab.clock.advance(ms(100));
    assert_eq!(*found.lock().unwrap(), Some(1));
    drop(hangs.go);
    thread.join().unwrap();
    queue_of.lock().unwrap().take();
}

#[test]
fn a_burying_function_that_waits_for_the_room_of_what_it_buries_is_told() {
    let lab = lab::Lab::new(1);
    let topic = lab.broker.create_topic("loop", TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    let (tell, told) = mpsc::channel();
    let again = topic.clone();
    let requeue = move |value: &u64, _: &ringlog::Failure| tell.send(again.publish(*value).is_err()).unwrap();
    let group = topic.group("g", queue().lease(ms(100)).retry(Retry::never()).bury_with(requeue)).unwrap();
    let hangs = Hangs::join(&group, 0);
    let (_other, _seen) = free(&group);
    topic.publish(0).unwrap();
    let thread = hangs.hang();
    let clock = lab.clock.clone();
    thread::spawn(move || clock.advance(ms(100)));
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    hangs.go.send(()).unwrap();
    thread.join().unwrap();
    while group.lag() > 0 {
        thread::yield_now();
    }
    assert_eq!(
        (balanced(&group).dead(), group.delivery(Position { partition: 0, offset: 0 }).unwrap()),
        (1, Delivery::Dead)
    );
}
