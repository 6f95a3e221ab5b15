//! Members in a pool that publish to themselves, panic, drop what they run on, or run beside those of another broker.
#![forbid(unsafe_code)]

#[path = "support/mailbox.rs"]
mod mailbox;

use mailbox::{mailbox, one_thread};
use ringlog::{
    Broker, BrokerConfig, GroupConfig, ManualClock, Overflow, PlaceError, Pool, PublishError, Record, Retry,
    SubscribeError, TopicConfig,
};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn on(clock: &Arc<ManualClock>) -> Broker {
    Broker::with(BrokerConfig::new().clock(clock.clone()))
}

#[test]
fn brokers_on_one_clock_share_a_pool_and_one_on_another_clock_is_refused() {
    let (clock, pool) = (Arc::new(ManualClock::new()), one_thread());
    let [one, two] = [on(&clock), on(&clock)];
    let (tell, seen) = mpsc::channel();
    let topics = [&one, &two].map(|broker| {
        let tell = tell.clone();
        mailbox(broker, "t", &pool, move |record| tell.send(**record).unwrap())
    });
    for (n, topic) in (0..100).zip(topics.iter().cycle()) {
        topic.publish(n).unwrap();
        assert_eq!(seen.recv_timeout(LONG), Ok(n));
    }
    let other = on(&Arc::new(ManualClock::new()));
    let topic = other.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let refused = group.member("m").run(&pool).subscribe(|_| ());
    assert!(matches!(refused, Err(SubscribeError::NotPlaced { reason: PlaceError::OtherClock, .. })));
    assert_eq!(pool.members(), 2);
    assert_eq!([one, two].map(|broker| broker.close(None).acked()), [50, 50]);
}

// C-23, C-X8: what it has in hand takes room too.
#[test]
fn a_handler_in_a_pool_publishes_to_its_own_topic_as_long_as_there_is_room() {
    for capacity in 1..=4 {
        let (broker, pool) = (Broker::new(), one_thread());
        let config = TopicConfig::<u64>::new().capacity(capacity).block(None);
        let topic = broker.create_topic("t", config).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (own, (tell, seen)) = (topic.clone(), mpsc::channel());
        let handler = move |record: &Record<'_, u64>| {
            if **record == 0 {
                let refused = (1..).find_map(|n| own.publish(n).err().map(|error| (n, error))).unwrap();
                tell.send((refused.0, matches!(refused.1, PublishError::WouldDeadlock { .. }))).unwrap();
            }
        };
        group.member("m").run(&pool).subscribe(handler).unwrap();
        topic.publish(0).unwrap();
        assert_eq!(seen.recv_timeout(LONG), Ok((capacity as u64, true)));
        assert_eq!(broker.close(Some(LONG)).acked(), capacity as u64);
    }
}

struct Bomb(u64);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(self.0 % 3 != 0, "in a destructor, as planned");
    }
}

// C-25
#[test]
fn panics_in_a_handler_a_destructor_and_a_hook_cost_a_pool_nothing() {
    const ALL: u64 = 60;
    let (broker, pool) = (Broker::new(), one_thread());
    let topic = broker.create_topic("t", TopicConfig::<Bomb>::new().capacity(128)).unwrap();
    let config = GroupConfig::latest().overflow(Overflow::drop_oldest(2)).retry(Retry::never());
    let group = topic.group("g", config.on_gap(|_| panic!("in a hook, as planned"))).unwrap();
    let (begin, begun) = (Arc::new(Mutex::new(())), mpsc::channel());
    let (gate, held) = (begin.clone(), begin.lock().unwrap());
    let handler = move |record: &Record<'_, Bomb>| {
        if record.0 == 1 {
            begun.0.send(()).unwrap();
            drop(gate.lock());
        }
        assert!(record.0 % 2 != 0, "in a handler, as planned");
    };
    group.member("m").run(&pool).subscribe(handler).unwrap();
    topic.publish(Bomb(1)).unwrap();
    begun.1.recv_timeout(LONG).unwrap();
    (2..ALL).for_each(|n| _ = topic.publish(Bomb(n)).unwrap());
    drop(held);
    broker.drain(LONG).unwrap();
    let stats = group.stats();
    assert!(stats.balances() && stats.dropped() > 0 && stats.dead() > 0, "{stats:?}");
    assert_eq!(stats.acked() + stats.dead() + stats.dropped(), ALL - 1, "{stats:?}");
    let (tell, seen) = mpsc::channel();
    let after = mailbox(&broker, "after", &pool, move |record| tell.send(**record).unwrap());
    after.publish(7).unwrap();
    assert_eq!(seen.recv_timeout(LONG), Ok(7));
    broker.close(Some(LONG));
}

// What a handler holds goes while it runs: the last handle of its pool, its broker, its own member.
#[test]
fn a_handler_that_drops_its_pool_its_broker_and_its_member_ends_in_peace() {
    for leaves in [false, true] {
        let (broker, pool) = (Broker::new(), one_thread());
        let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (kept, weak) = {
            let kept = Arc::new(());
            let weak = Arc::downgrade(&kept);
            (kept, weak)
        };
        type Held = Option<(Broker, Pool, ringlog::Member<u64>)>;
        let holds: Arc<Mutex<Held>> = Arc::default();
        let (mine, (tell, seen)) = (holds.clone(), mpsc::channel());
        let handler = move |record: &Record<'_, u64>| {
            let _ = &kept;
            if let Some((broker, pool, member)) = mine.lock().unwrap().take() {
                if leaves {
                    assert!(member.leave());
                }
                drop((pool, broker, member));
            }
            tell.send(**record).unwrap();
        };
        let member = group.member("m").run(&pool).subscribe(handler).unwrap();
        *holds.lock().unwrap() = Some((broker.clone(), pool, member));
        topic.publish(1).unwrap();
        assert_eq!(seen.recv_timeout(LONG), Ok(1));
        if !leaves {
            topic.publish(2).unwrap();
            assert_eq!(seen.recv_timeout(LONG), Ok(2), "the pool goes on until its members have left");
        }
        broker.close(Some(LONG));
        while weak.strong_count() > 0 {
            thread::yield_now();
        }
    }
}

// C-17: neither before its time nor later, and the pool sleeps until then.
#[test]
fn in_a_pool_a_failed_record_comes_again_at_its_time_and_not_before() {
    const STEP: Duration = Duration::from_millis(100);
    let (clock, pool) = (Arc::new(ManualClock::new()), one_thread());
    let broker = on(&clock);
    let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(1)).unwrap();
    let group = topic.group("g", GroupConfig::earliest().retry(Retry::linear(4, STEP))).unwrap();
    let (tell, seen) = mpsc::channel();
    let handler = move |record: &Record<'_, u64>| {
        tell.send(record.attempt()).unwrap();
        if record.attempt() < 4 { Err("not yet") } else { Ok(()) }
    };
    group.member("m").run(&pool).subscribe(handler).unwrap();
    topic.publish(7).unwrap();
    assert_eq!(seen.recv_timeout(LONG), Ok(1));
    for attempt in 1..4_u32 {
        while clock.sleepers() < 2 {
            thread::yield_now(); // until who works and who stands by are asleep
        }
        clock.advance(STEP * attempt - Duration::from_nanos(1));
        while clock.sleepers() < 2 {
            thread::yield_now();
        }
        assert!(seen.try_recv().is_err(), "not before its time");
        clock.advance(Duration::from_nanos(1));
        assert_eq!(seen.recv_timeout(LONG), Ok(attempt + 1));
    }
    assert_eq!(broker.close(None).acked(), 1);
}
