//! A pool at its limits: somebody stands by, however many handlers block, and nobody is starved.
#![forbid(unsafe_code)]

#[path = "support/mailbox.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod mailbox;

use mailbox::mailbox;
use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, Pool, PoolConfig, Record, Topic, TopicConfig};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(5);

fn setting(threads: usize) -> (Arc<ManualClock>, Broker, Pool) {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    (clock, broker, Pool::with(PoolConfig::new().threads(threads)).unwrap())
}

/// A mailbox whose handler says when it begins, and goes on when it is told to.
fn gate(broker: &Broker, name: &str, pool: &Pool) -> (Topic<u64>, mpsc::Receiver<u64>, mpsc::Sender<()>) {
    let ((enter, entered), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
    let topic = mailbox(broker, name, pool, move |record| {
        let _ = enter.send(**record);
        let _ = gone.recv();
    });
    (topic, entered, go)
}

/// Moves the clock, a hundred thousand ticks at most, until there is something.
fn moved<V>(clock: &ManualClock, mut look: impl FnMut() -> Option<V>) -> Option<V> {
    (0..100_000).find_map(|_| {
        clock.advance(TICK);
        thread::yield_now();
        look()
    })
}

// C-30
#[test]
fn somebody_stands_by_however_long_handlers_block() {
    let (clock, broker, pool) = setting(1);
    let (a, in_a, go_a) = gate(&broker, "a", &pool);
    let (b, in_b, go_b) = gate(&broker, "b", &pool);
    let (done, seen) = mpsc::channel();
    let quick = mailbox(&broker, "quick", &pool, move |record| done.send(**record).unwrap());
    a.publish(1).unwrap();
    in_a.recv().unwrap();
    b.publish(1).unwrap();
    moved(&clock, || in_b.try_recv().ok()).unwrap();
    while pool.threads() < 3 {
        thread::yield_now();
    }
    let _gone = moved(&clock, || (pool.threads() < 3).then_some(()));
    quick.publish(7).unwrap();
    let seen = moved(&clock, || seen.try_recv().ok());
    drop((go_a, go_b));
    assert_eq!(seen, Some(7), "of {} threads nobody looks", pool.threads());
    broker.close(None);
}

// C-30
#[test]
fn a_partition_that_many_read_is_served_beside_two_that_send_each_other_the_next_record() {
    const MANY: u64 = 10_000;
    let broker = Broker::new();
    let pool = Pool::with(PoolConfig::new().threads(1)).unwrap();
    let topic = |name: &str| broker.create_topic::<u64>(name, TopicConfig::new().capacity(8)).unwrap();
    let (shared, ping, pong) = (topic("shared"), topic("ping"), topic("pong"));
    let ((done, ended), at) = (mpsc::channel(), Arc::new(AtomicU64::new(0)));
    for n in 0..5 {
        let (done, at) = (done.clone(), at.clone());
        let group = shared.group(&format!("g{n}"), GroupConfig::earliest()).unwrap();
        group.member("m").run(&pool).subscribe(move |_| _ = done.send(at.load(Ordering::Relaxed))).unwrap();
    }
    for (from, to) in [(&ping, &pong), (&pong, &ping)] {
        let (to, shared, at) = (to.clone(), shared.clone(), at.clone());
        let passes = move |record: &Record<'_, u64>| {
            at.store(**record, Ordering::Relaxed);
            if **record == MANY / 2 {
                shared.publish(0).unwrap();
            }
            if **record < MANY {
                to.publish(**record + 1).unwrap();
            }
        };
        from.group("g", GroupConfig::earliest()).unwrap().member("m").run(&pool).subscribe(passes).unwrap();
    }
    ping.publish(1).unwrap();
    for _ in 0..5 {
        let waited = ended.recv().unwrap() - MANY / 2;
        assert!(waited < 500, "{waited} of the others' records came first");
    }
    broker.close(None);
}
