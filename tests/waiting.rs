//! Who waits, who wakes whom, and what a wait may cost others. On a clock that watches each sleep: nobody looks again by
//! chance, and a test can wake a sleeper for no reason.

use ringlog::{
    Broker, BrokerConfig, Clock, Futex, Group, GroupConfig, ManualClock, PublishError, Record, Retry, SeekTo, Time,
    Topic, TopicConfig, WaitPolicy, Woken,
};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, SystemTime};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);
const TIGHT: [usize; 4] = [1, 2, 3, 4];

/// A manual clock that counts each thread's sleeps.
#[derive(Default)]
struct Watch {
    clock: ManualClock,
    /// So many sleeps end at once, for no reason.
    early: AtomicU32,
    over: Mutex<HashMap<ThreadId, u32>>,
    /// What happens, once, on the thread whose sleep is over, before it looks.
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clock.fmt(f)
    }
}

impl Clock for Watch {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn wall(&self, at: Time) -> SystemTime {
        self.clock.wall(at)
    }

    fn sleep(&self, word: &Arc<Futex>, expected: u32, until: Option<Time>) -> Woken {
        let one_less = |left: u32| left.checked_sub(1);
        if self.early.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() {
            thread::yield_now();
            return Woken::Woken;
        }
        let woken = self.clock.sleep(word, expected, until);
        *self.over.lock().unwrap().entry(thread::current().id()).or_default() += 1;
        let then = self.then.lock().unwrap().take();
        then.into_iter().for_each(|then| then());
        woken
    }

    fn look_again(&self) -> Option<Duration> {
        None
    }
}

impl Watch {
    fn sleeps_of(&self, thread: ThreadId) -> u32 {
        self.over.lock().unwrap().get(&thread).copied().unwrap_or(0)
    }
}

fn watched() -> (Arc<Watch>, Broker) {
    let watch = Arc::new(Watch::default());
    (watch.clone(), Broker::with(BrokerConfig::new().clock(watch)))
}

fn topic(broker: &Broker, name: &str, capacity: usize) -> Topic<u64> {
    broker.create_topic(name, TopicConfig::new().capacity(capacity).block(None)).unwrap()
}

fn fill(topic: &Topic<u64>) {
    while topic.try_publish(topic.end(0).unwrap()).is_ok() {}
}

/// A member whose handler says which record it is at, and on which thread, and then waits for a token.
fn held(group: &Group<u64>) -> (mpsc::Sender<()>, mpsc::Receiver<(u64, ThreadId)>) {
    let ((token, tokens), (at, seen)) = (mpsc::channel(), mpsc::channel());
    let handler = move |record: &Record<'_, u64>| {
        at.send((record.offset(), thread::current().id())).unwrap();
        let _ = tokens.recv();
    };
    group.member("held").wait(WaitPolicy::Park).subscribe(handler).unwrap();
    (token, seen)
}

/// A member that hands on what it sees.
fn listening(topic: &Topic<u64>, name: &str) -> mpsc::Receiver<u64> {
    let (tell, told) = mpsc::channel();
    let handler = move |record: &Record<'_, u64>| tell.send(record.offset()).unwrap();
    let group = topic.group(name, GroupConfig::earliest()).unwrap();
    group.member("m").wait(WaitPolicy::Park).subscribe(handler).unwrap();
    told
}

/// Publishes on a thread of its own and says where.
fn blocked(topic: &Topic<u64>, tell: &mpsc::Sender<u64>) -> JoinHandle<()> {
    let (topic, tell) = (topic.clone(), tell.clone());
    thread::spawn(move || tell.send(topic.publish(0).unwrap().offset()).unwrap())
}

// B-24
#[test]
fn a_publisher_woken_for_nothing_goes_back_to_sleep_and_stores_nothing() {
    for capacity in TIGHT {
        let (watch, broker) = watched();
        let topic = topic(&broker, "orders", capacity);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        fill(&topic);
        watch.early.store(500, Ordering::Release);
        let (tell, told) = mpsc::channel();
        let publisher = blocked(&topic, &tell);
        watch.clock.wait_for_sleepers(1);
        assert_eq!(watch.early.load(Ordering::Acquire), 0, "woken five hundred times");
        assert_eq!((topic.end(0), told.try_recv().is_err()), (Some(capacity as u64), true));
        group.seek(0, SeekTo::Offset(1)).unwrap();
        assert_eq!(told.recv_timeout(LONG).unwrap(), capacity as u64);
        publisher.join().unwrap();
    }
}

// B-24
#[test]
fn a_member_or_a_drain_woken_for_nothing_goes_back_to_sleep() {
    let (watch, broker) = watched();
    let topic = topic(&broker, "orders", 4);
    let group = topic.group("slow", GroupConfig::earliest()).unwrap();
    let (token, at) = held(&group);
    let told = listening(&topic, "idle");
    watch.clock.wait_for_sleepers(2);
    for n in 0..3 {
        watch.early.store(200, Ordering::Release);
        topic.wake();
        watch.clock.wait_for_sleepers(2);
        assert_eq!(watch.early.load(Ordering::Acquire), 0);
        assert!(told.try_recv().is_err(), "there was nothing to hand over");
        topic.publish(n).unwrap();
        assert_eq!((told.recv_timeout(LONG).unwrap(), at.recv_timeout(LONG).unwrap().0), (n, n));
        watch.clock.wait_for_sleepers(1); // the other one is in its handler
        watch.early.store(200, Ordering::Release);
        let (broker, (tell, drained)) = (broker.clone(), mpsc::channel());
        let drain = thread::spawn(move || tell.send(broker.drain(LONG)).unwrap());
        watch.clock.wait_for_sleepers(2);
        assert_eq!(watch.early.load(Ordering::Acquire), 0);
        assert!(drained.try_recv().is_err(), "one record is not done");
        token.send(()).unwrap();
        assert!(drained.recv_timeout(LONG).unwrap().is_ok());
        drain.join().unwrap();
        watch.clock.wait_for_sleepers(2);
    }
}

// B-24, C-36
#[test]
fn a_woken_publisher_whose_room_somebody_else_took_waits_on() {
    for capacity in TIGHT {
        let (watch, broker) = watched();
        let topic = topic(&broker, "orders", capacity);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        fill(&topic);
        let (tell, told) = mpsc::channel();
        let publisher = blocked(&topic, &tell);
        watch.clock.wait_for_sleepers(1);
        // It is awake, and has not looked yet, when another publish takes the room.
        let (thief, (stole, stolen)) = (topic.clone(), mpsc::channel());
        let steal = move || stole.send(thief.try_publish(7).map(|published| published.offset())).unwrap();
        *watch.then.lock().unwrap() = Some(Box::new(steal));
        group.seek(0, SeekTo::Offset(1)).unwrap();
        assert_eq!(stolen.recv_timeout(LONG).unwrap().unwrap(), capacity as u64);
        watch.clock.wait_for_sleepers(1);
        assert_eq!((topic.end(0), told.try_recv().is_err()), (Some(capacity as u64 + 1), true));
        group.seek(0, SeekTo::Offset(2)).unwrap();
        assert_eq!(told.recv_timeout(LONG).unwrap(), capacity as u64 + 1);
        publisher.join().unwrap();
    }
}

// B-24
#[test]
fn one_record_wakes_every_group_that_sleeps() {
    for capacity in [1, 2, 3, 4, 1_000] {
        let (watch, broker) = watched();
        let topic = topic(&broker, "orders", capacity);
        let told = ["a", "b", "c", "d"].map(|name| listening(&topic, name));
        for n in 0..5 {
            watch.clock.wait_for_sleepers(4);
            topic.publish(n).unwrap();
            told.iter().for_each(|told| assert_eq!(told.recv_timeout(LONG).expect("not woken"), n));
        }
    }
}

// B-28, C-36
#[test]
fn each_place_that_an_acknowledgement_frees_admits_one_of_those_who_wait() {
    for capacity in TIGHT {
        let (watch, broker) = watched();
        let topic = topic(&broker, "orders", capacity);
        let (token, at) = held(&topic.group("g", GroupConfig::earliest()).unwrap());
        fill(&topic);
        let (tell, told) = mpsc::channel();
        let waiting: Vec<_> = (0..4).map(|_| blocked(&topic, &tell)).collect();
        for admitted in 0..4 {
            assert_eq!(at.recv_timeout(LONG).unwrap().0, admitted);
            watch.clock.wait_for_sleepers(4 - admitted as usize); // the member is in its handler
            assert_eq!((topic.end(0), told.try_recv().is_err()), (Some(capacity as u64 + admitted), true));
            token.send(()).unwrap();
            assert_eq!(told.recv_timeout(LONG).expect("nobody was admitted"), capacity as u64 + admitted);
        }
        waiting.into_iter().for_each(|publisher| publisher.join().unwrap());
        drop(token);
        broker.drain(LONG).unwrap();
        assert_eq!((topic.end(0), topic.counts().blocked), (Some(capacity as u64 + 4), 4));
    }
}

// C-36: a seek wakes all of them, and it is the look that decides.
#[test]
fn each_place_that_a_seek_frees_admits_one_of_those_who_wait() {
    for capacity in [1, 2, 3, 4, 1_000] {
        let (watch, broker) = watched();
        let topic = topic(&broker, "orders", capacity);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        fill(&topic);
        let (tell, told) = mpsc::channel();
        let waiting: Vec<_> = (0..4).map(|_| blocked(&topic, &tell)).collect();
        for admitted in 0..4 {
            watch.clock.wait_for_sleepers(4 - admitted as usize);
            assert_eq!((topic.end(0), told.try_recv().is_err()), (Some(capacity as u64 + admitted), true));
            group.seek(0, SeekTo::Offset(admitted + 1)).unwrap();
            assert_eq!(told.recv_timeout(LONG).expect("nobody was admitted"), capacity as u64 + admitted);
        }
        waiting.into_iter().for_each(|publisher| publisher.join().unwrap());
    }
}

// B-25: a batch waits for more room than there is, so that single records still find theirs.
#[test]
fn records_wake_members_and_acknowledgements_wake_publishers_and_neither_the_other() {
    let (watch, broker) = watched();
    let topic = topic(&broker, "orders", 3);
    topic.group("gate", GroupConfig::earliest()).unwrap(); // never moves
    let members = ["one", "two"].map(|name| held(&topic.group(name, GroupConfig::earliest()).unwrap()));
    let enter = |n| members.each_ref().map(|(_, at)| at.recv_timeout(LONG).map(|(at, id)| (at == n).then_some(id)));
    watch.clock.wait_for_sleepers(2);
    topic.publish(0).unwrap();
    let [one, two] = enter(0).map(|entered| entered.unwrap().unwrap());
    members.iter().for_each(|(token, _)| token.send(()).unwrap());
    watch.clock.wait_for_sleepers(2);
    let batch = thread::spawn({
        let topic = topic.clone();
        move || topic.publish_batch([7, 8, 9])
    });
    let publisher = batch.thread().id();
    watch.clock.wait_for_sleepers(3);
    for n in 1..3 {
        let slept = [publisher, one, two].map(|thread| watch.sleeps_of(thread));
        let since = || {
            let now = [publisher, one, two].map(|thread| watch.sleeps_of(thread));
            [now[0] - slept[0], now[1] - slept[1], now[2] - slept[2]]
        };
        topic.publish(n).unwrap();
        assert!(enter(n).into_iter().all(|entered| entered.unwrap().is_some()));
        watch.clock.wait_for_sleepers(1); // the members are in their handlers
        assert_eq!(since(), [0, 1, 1], "a record wakes the members and not the publisher");
        members[0].0.send(()).unwrap();
        // Whoever was woken by the acknowledgement has fallen asleep again when all three but one are.
        watch.clock.wait_for_sleepers(2);
        assert_eq!(since(), [1, 1, 1], "an acknowledgement wakes the publisher");
        members[1].0.send(()).unwrap();
        watch.clock.wait_for_sleepers(3);
        assert_eq!(since(), [2, 1, 1], "and not the member that sleeps");
    }
    broker.close(Some(Duration::ZERO));
    assert!(batch.join().unwrap().is_err());
}

// X31
#[test]
fn a_publisher_that_waits_has_claimed_nothing_and_holds_up_its_partition_only() {
    for capacity in TIGHT {
        let (watch, broker) = watched();
        let config = TopicConfig::new().partitions(2).capacity(capacity).block(Some(SECOND));
        let topic = broker.create_topic("orders", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let end = capacity as u64;
        (0..end).for_each(|n| assert!(topic.publish_to(0, n).is_ok()));
        let waiting = thread::spawn({
            let topic = topic.clone();
            move || topic.publish_to(0, 99)
        });
        watch.clock.wait_for_sleepers(1);
        assert_eq!(topic.end(0), Some(end), "no offset is taken while it waits");
        (0..end).for_each(|n| assert_eq!(topic.publish_to(1, n).unwrap().offset(), n, "the other partition goes on"));
        watch.clock.advance(SECOND);
        assert!(matches!(waiting.join().unwrap(), Err(PublishError::Full { value: 99, .. })));
        group.seek(0, SeekTo::Offset(1)).unwrap();
        assert_eq!(topic.publish_to(0, 100).unwrap().offset(), end, "and it leaves no hole behind");
    }
}

// C-1
#[test]
fn a_stuck_or_failing_subscriber_costs_others_nothing_and_the_publisher_its_own_limit() {
    for capacity in TIGHT {
        for fails in [false, true] {
            let (watch, broker) = watched();
            let topic = topic(&broker, "orders", capacity);
            let retry = Retry::constant(2, 100 * LONG);
            let slow = topic.group("slow", GroupConfig::earliest().retry(retry)).unwrap();
            let (release, gate) = mpsc::channel::<()>();
            let (enter, entered) = mpsc::channel();
            let handler = move |_: &Record<'_, u64>| {
                enter.send(()).unwrap();
                if fails { Err("on purpose") } else { gate.recv().map_err(|_| "released") }
            };
            slow.member("m").wait(WaitPolicy::Park).subscribe(handler).unwrap();
            let told = listening(&topic, "fast");
            fill(&topic);
            entered.recv_timeout(LONG).unwrap();
            for n in 0..capacity as u64 {
                assert_eq!(told.recv_timeout(LONG).unwrap(), n, "the other one has everything");
            }
            assert!(topic.try_publish(0).unwrap_err().full().unwrap().waited.is_zero());
            // The fast member sleeps, and so does the failing one; the stuck one is in its handler.
            let asleep = 1 + usize::from(fails);
            for limit in [SECOND, 3 * SECOND] {
                watch.clock.wait_for_sleepers(asleep);
                let publishing = topic.clone();
                let waiting = thread::spawn(move || publishing.publish_within(0, limit));
                watch.clock.wait_for_sleepers(asleep + 1);
                watch.clock.advance(limit);
                let refused = waiting.join().unwrap().unwrap_err();
                let full = refused.full().unwrap();
                assert_eq!((full.waited, &*full.limiting.as_ref().unwrap().group), (limit, "slow"));
            }
            drop(release);
            broker.close(Some(Duration::ZERO));
        }
    }
}

// C-9
#[test]
fn a_topic_whose_handlers_and_publishers_are_stuck_holds_up_no_other_topic() {
    let (watch, broker) = watched();
    let (stuck, free) = (topic(&broker, "stuck", 1), topic(&broker, "free", 1));
    let (token, at) = held(&stuck.group("g", GroupConfig::earliest()).unwrap());
    let told = listening(&free, "g");
    fill(&stuck);
    assert_eq!(at.recv_timeout(LONG).unwrap().0, 0);
    let (tell, admitted) = mpsc::channel();
    let publisher = blocked(&stuck, &tell);
    watch.clock.wait_for_sleepers(2);
    for n in 0..100 {
        assert_eq!(free.publish(n).unwrap().offset(), n);
        assert_eq!(told.recv_timeout(LONG).unwrap(), n);
    }
    assert_eq!((stuck.end(0), admitted.try_recv().is_err()), (Some(1), true));
    token.send(()).unwrap();
    assert_eq!(admitted.recv_timeout(LONG).unwrap(), 1);
    publisher.join().unwrap();
    drop(token);
    broker.drain(LONG).unwrap();
}
