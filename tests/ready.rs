//! A consumer on somebody else's event loop: wakers, and on Linux a descriptor.
#![forbid(unsafe_code)]

use ringlog::{
    Broker, BrokerConfig, Consumer, Failure, Group, GroupConfig, ManualClock, PollError, Readiness, Retry, Topic,
    TopicConfig,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Count {
    fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel)
    }
}

fn waiting(consumer: &mut Consumer<u64>, waker: &Waker) -> Option<Duration> {
    match consumer.poll_ready(waker) {
        Readiness::Waiting { at_most } => at_most,
        Readiness::Ready => panic!("nothing should be there"),
    }
}

struct Bench {
    clock: Arc<ManualClock>,
    _broker: Broker,
    topic: Topic<u64>,
    group: Group<u64>,
    count: Arc<Count>,
    waker: Waker,
}

fn bench(partitions: u32, config: GroupConfig<u64>) -> Bench {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("t", TopicConfig::new().partitions(partitions).capacity(8)).unwrap();
    let (group, count) = (topic.group("g", config).unwrap(), Arc::<Count>::default());
    Bench { clock, _broker: broker, topic, group, waker: count.clone().into(), count }
}

#[test]
fn a_consumer_that_finds_nothing_does_not_wake_itself_where_records_may_be_lost_either() {
    let topic = TopicConfig::<u64>::new().capacity(4).drop_oldest();
    let broker = Broker::new();
    let topic = broker.create_topic("t", topic).unwrap();
    let (group, count) = (topic.group("g", GroupConfig::earliest()).unwrap(), Arc::<Count>::default());
    let (mut consumer, waker) = (group.consumer("c").unwrap(), count.clone().into());
    for _ in 0..3 {
        assert_eq!(waiting(&mut consumer, &waker), None);
        assert!(consumer.try_poll(1).unwrap().is_empty());
    }
    assert_eq!(count.take(), 0);
}

#[test]
fn a_waker_is_woken_once_when_there_may_be_something() {
    let Bench { topic, group, count, waker, _broker, .. } = bench(2, GroupConfig::earliest());
    let mut consumer = group.consumer("c").unwrap();
    assert_eq!(waiting(&mut consumer, &waker), None);
    assert_eq!(waiting(&mut consumer, &waker), None, "asked again, it is registered once");
    topic.publish_to(0, 1).unwrap();
    topic.publish_to(0, 2).unwrap();
    assert_eq!(count.take(), 1, "once for each partition at most");
    assert_eq!(consumer.poll_ready(&waker), Readiness::Ready);
    topic.publish_to(0, 3).unwrap();
    assert_eq!(count.take(), 0, "who knows is not woken");
    let batch = consumer.try_poll(10).unwrap();
    assert_eq!(batch.len(), 3);
    batch.ack().unwrap();
    assert_eq!(waiting(&mut consumer, &waker), None);
    topic.publish_to(1, 4).unwrap();
    assert_eq!((count.take(), consumer.poll_ready(&waker)), (1, Readiness::Ready));
}

#[test]
fn the_waker_is_let_go_of_by_who_replaces_it_or_drops_the_consumer() {
    let Bench { topic, group, count, waker, _broker, .. } = bench(3, GroupConfig::earliest());
    let handles = || Arc::strong_count(&count);
    let before = handles();
    let mut consumer = group.consumer("c").unwrap();
    assert_eq!(waiting(&mut consumer, &waker), None);
    assert!(handles() > before);
    let other = Arc::<Count>::default();
    assert_eq!(waiting(&mut consumer, &other.clone().into()), None);
    assert_eq!(handles(), before, "nobody keeps the first one");
    topic.publish(1).unwrap();
    assert_eq!((count.take(), other.take()), (0, 1));
    drop(consumer);
    assert_eq!((Arc::strong_count(&other), handles()), (1, before));
}

// B-34
#[test]
fn when_a_lease_ends_or_a_pause_is_told_in_advance() {
    let config = GroupConfig::earliest().lease(30 * SECOND).retry(Retry::constant(9, 7 * SECOND));
    let Bench { clock, topic, group, waker, _broker, .. } = bench(1, config);
    let mut consumer = group.consumer("c").unwrap();
    topic.publish(1).unwrap();
    let receipt = consumer.try_poll(1).unwrap().detach();
    clock.advance(10 * SECOND);
    assert_eq!(waiting(&mut consumer, &waker), Some(20 * SECOND), "what is left of the lease");
    receipt.nack(Failure::new("not now")).unwrap();
    assert_eq!(waiting(&mut consumer, &waker), Some(7 * SECOND), "the pause before the next attempt");
    clock.advance(7 * SECOND);
    assert_eq!(consumer.poll_ready(&waker), Readiness::Ready);
    std::mem::forget(consumer.try_poll(1).unwrap().detach());
    clock.advance(30 * SECOND - Duration::from_nanos(1));
    assert_eq!(waiting(&mut consumer, &waker), Some(Duration::from_nanos(1)));
}

#[test]
fn moves_resumes_releases_and_ends_wake_it_too() {
    let Bench { topic, group, count, waker, _broker, .. } = bench(2, GroupConfig::earliest());
    let mut consumer = group.consumer("mine").unwrap();
    let other = group.consumer("other").unwrap();
    topic.publish_to(1, 1).unwrap();
    assert_eq!(waiting(&mut consumer, &waker), None);
    count.take();
    drop(other);
    assert_eq!((count.take(), consumer.poll_ready(&waker)), (1, Readiness::Ready), "left to this one");

    let receipt = consumer.try_poll(1).unwrap().detach();
    assert_eq!(waiting(&mut consumer, &waker), None);
    thread::spawn(move || drop(receipt)).join().unwrap();
    assert_eq!((count.take(), consumer.poll_ready(&waker)), (1, Readiness::Ready), "released");

    group.pause();
    assert_eq!(waiting(&mut consumer, &waker), None);
    group.resume();
    assert_eq!((count.take() >= 1, consumer.poll_ready(&waker)), (true, Readiness::Ready), "resumed");

    consumer.try_poll(1).unwrap().ack().unwrap();
    assert_eq!(waiting(&mut consumer, &waker), None);
    group.delete();
    assert_eq!((count.take() >= 1, consumer.poll_ready(&waker)), (true, Readiness::Ready), "deleted");
    assert!(matches!(consumer.try_poll(1), Err(PollError::Closed { .. })));
}

/// A waker of a thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

// Wakes that get lost show as a run that never ends: small partitions, and a loop that sleeps as often as it can.
#[test]
fn an_event_loop_gets_everything_in_order_and_never_sleeps_beside_it() {
    let broker = Broker::new();
    for capacity in [1, 2, 3, 64] {
        let config = TopicConfig::new().partitions(4).capacity(capacity).block(None);
        let topic = broker.create_topic(&format!("t{capacity}"), config).unwrap();
        let mut consumer = topic.group("g", GroupConfig::earliest()).unwrap().consumer("c").unwrap();
        let (waker, each) = (Waker::from(Arc::new(Unpark(thread::current()))), 500);
        let producers: Vec<_> = (0..4)
            .map(|partition| {
                let topic = topic.clone();
                thread::spawn(move || (0..each).for_each(|n| assert!(topic.publish_to(partition, n).is_ok())))
            })
            .collect();
        let mut next = [0; 4];
        while next.iter().sum::<u64>() < 4 * each {
            if let Readiness::Waiting { at_most } = consumer.poll_ready(&waker) {
                assert_eq!(at_most, None);
                thread::park();
                continue;
            }
            let batch = consumer.try_poll(3).unwrap();
            for record in &batch {
                let next = &mut next[record.partition() as usize];
                assert_eq!(*record, *next);
                *next += 1;
            }
            batch.ack().unwrap();
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    }
}

#[cfg(target_os = "linux")]
mod descriptor {
    use super::{bench, waiting};
    use ringlog::{EventFd, GroupConfig, Readiness};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::thread;

    /// Whether it is readable now; with `wait`, or becomes so.
    fn readable(fd: &EventFd, wait: bool) -> bool {
        let (mut fds, now) = ([PollFd::new(fd, PollFlags::IN)], Timespec { tv_sec: 0, tv_nsec: 0 });
        poll(&mut fds, (!wait).then_some(&now)).unwrap() == 1
    }

    #[test]
    fn it_is_readable_from_the_wake_until_it_is_cleared() {
        let super::Bench { topic, group, _broker, .. } = bench(2, GroupConfig::earliest());
        let (fd, mut consumer) = (EventFd::new().unwrap(), group.consumer("c").unwrap());
        let waker = fd.waker();
        assert!(!readable(&fd, false) && !fd.clear());
        assert_eq!(waiting(&mut consumer, &waker), None);
        let publisher = topic.clone();
        let publish = thread::spawn(move || publisher.publish(1).unwrap());
        assert!(readable(&fd, true) && readable(&fd, true), "until it is cleared");
        publish.join().unwrap();
        assert!(fd.clear() && !readable(&fd, false) && !fd.clear());
        assert_eq!(consumer.poll_ready(&waker), Readiness::Ready);
        topic.publish(2).unwrap();
        assert!(!readable(&fd, false), "nobody was registered");
        drop((fd, consumer));
        waker.wake(); // keeps the descriptor open
    }

    #[test]
    fn one_descriptor_serves_several_consumers() {
        let super::Bench { topic, group, _broker, .. } = bench(2, GroupConfig::earliest());
        let (fd, mut one, mut two) =
            (EventFd::new().unwrap(), group.consumer("1").unwrap(), group.consumer("2").unwrap());
        for partition in [0, 1, 1, 0] {
            fd.clear();
            assert_eq!((waiting(&mut one, &fd.waker()), waiting(&mut two, &fd.waker())), (None, None));
            topic.publish_to(partition, 1).unwrap();
            assert!(readable(&fd, true));
            let owner = if partition == 0 { &mut one } else { &mut two };
            assert_eq!(owner.poll_ready(&fd.waker()), Readiness::Ready);
            owner.try_poll(1).unwrap().ack().unwrap();
        }
    }
}
