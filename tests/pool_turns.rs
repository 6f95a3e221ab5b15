//! Many members on few threads: whose turn it is, what happens when it is time, and when a handler takes long.
#![forbid(unsafe_code)]

#[path = "support/mailbox.rs"]
mod mailbox;

use mailbox::{mailbox, one_thread};
use ringlog::{Broker, BrokerConfig, GroupConfig, ManualClock, Pool, PoolConfig, Record, Retry, TopicConfig};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

// C-30
#[test]
fn a_handler_that_blocks_holds_up_nobody_else() {
    let clock = Arc::new(ManualClock::new());
    let (broker, pool) = (Broker::with(BrokerConfig::new().clock(clock.clone())), one_thread());
    let (enter, entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let slow = mailbox(&broker, "slow", &pool, move |_| {
        enter.send(()).unwrap();
        released.recv().unwrap();
    });
    let (done, seen) = mpsc::channel();
    let quick = mailbox(&broker, "quick", &pool, move |record| done.send(**record).unwrap());
    slow.publish(0).unwrap();
    entered.recv().unwrap();
    quick.publish(7).unwrap();
    // Nobody else is at work: only the clock shows that the handler hangs.
    let seen = loop {
        clock.advance(Duration::from_millis(5));
        match seen.try_recv() {
            Ok(seen) => break seen,
            Err(_) => thread::yield_now(),
        }
    };
    assert_eq!(seen, 7);
    assert!(pool.threads() >= 2);
    release.send(()).unwrap();
    assert_eq!(broker.close(None).acked(), 2);
}

// C-30
#[test]
fn a_pool_grows_to_its_limit_and_shrinks_again() {
    const MOST: usize = 5;
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let pool = Pool::with(PoolConfig::new().threads(1).most(MOST)).unwrap();
    let inside = Arc::new(AtomicU64::new(0));
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let topics: Vec<_> = (0..2 * MOST)
        .map(|n| {
            let (inside, released) = (inside.clone(), released.clone());
            mailbox(&broker, &format!("t{n}"), &pool, move |_| {
                inside.fetch_add(1, SeqCst);
                let _ = released.lock().unwrap().recv();
            })
        })
        .collect();
    topics.iter().for_each(|topic| {
        topic.publish(1).unwrap();
    });
    while inside.load(SeqCst) < MOST as u64 {
        clock.advance(Duration::from_millis(5));
        thread::yield_now();
    }
    assert_eq!(pool.threads(), MOST);
    drop(release);
    while inside.load(SeqCst) < topics.len() as u64 || pool.threads() > 2 {
        clock.advance(Duration::from_millis(500));
        thread::yield_now();
    }
    assert_eq!(broker.close(None).acked(), topics.len() as u64);
}

#[test]
fn a_failed_record_is_tried_again_when_it_is_time() {
    let clock = Arc::new(ManualClock::new());
    let (broker, pool) = (Broker::with(BrokerConfig::new().clock(clock.clone())), one_thread());
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let config = GroupConfig::earliest().retry(Retry::constant(3, Duration::from_secs(60)));
    let group = topic.group("g", config).unwrap();
    let (tried, tries) = mpsc::channel();
    let handler = move |record: &Record<'_, u64>| {
        tried.send(record.attempt()).unwrap();
        if record.attempt() < 3 { Err("not yet") } else { Ok(()) }
    };
    group.member("m").run(&pool).subscribe(handler).unwrap();
    topic.publish(7).unwrap();
    for attempt in 1..=3 {
        // What it waits for begins when it has failed, so the clock moves until it has.
        let tried = loop {
            match tries.try_recv() {
                Ok(tried) => break tried,
                Err(_) => thread::yield_now(),
            }
            clock.advance(Duration::from_secs(60));
        };
        assert_eq!(tried, attempt);
    }
    assert_eq!(broker.close(None).acked(), 1);
}

#[test]
fn a_retry_is_not_held_up_by_a_handler_that_blocks() {
    let clock = Arc::new(ManualClock::new());
    let (broker, pool) = (Broker::with(BrokerConfig::new().clock(clock.clone())), one_thread());
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let config = GroupConfig::earliest().retry(Retry::constant(2, Duration::from_secs(60)));
    let group = topic.group("g", config).unwrap();
    let (tried, tries) = mpsc::channel();
    let fails = move |record: &Record<'_, u64>| {
        tried.send(record.attempt()).unwrap();
        Err::<(), _>("no")
    };
    group.member("m").run(&pool).subscribe(fails).unwrap();
    let (enter, entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let slow = mailbox(&broker, "slow", &pool, move |_| {
        enter.send(()).unwrap();
        let _ = released.recv();
    });
    topic.publish(7).unwrap();
    assert_eq!(tries.recv().unwrap(), 1);
    while group.stats().retried() == 0 {
        thread::yield_now();
    }
    slow.publish(0).unwrap();
    entered.recv().unwrap();
    let attempt = loop {
        clock.advance(Duration::from_secs(20));
        match tries.try_recv() {
            Ok(attempt) => break attempt,
            Err(_) => thread::yield_now(),
        }
    };
    assert_eq!(attempt, 2);
    drop(release);
    assert_eq!(broker.close(None).acked(), 1);
}

// C-30
#[test]
fn as_many_handlers_run_at_once_as_a_pool_has_threads() {
    for threads in [2, 4] {
        // A clock that stands still: nobody is taken to hang.
        let broker = Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
        let pool = Pool::with(PoolConfig::new().threads(threads)).unwrap();
        let all = Arc::new(Barrier::new(threads));
        let topics: Vec<_> = (0..threads)
            .map(|n| {
                let all = all.clone();
                mailbox(&broker, &format!("t{n}"), &pool, move |_| {
                    all.wait();
                })
            })
            .collect();
        for _ in 0..20 {
            topics.iter().for_each(|topic| {
                topic.publish(1).unwrap();
            });
        }
        assert_eq!(broker.close(None).acked(), 20 * threads as u64);
    }
}

#[test]
fn who_has_much_to_do_does_not_keep_others_from_their_turn() {
    const TURN: u64 = 256;
    let broker = Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
    let pool = one_thread();
    let seen = Arc::new(AtomicU64::new(0));
    let count = seen.clone();
    let quiet = mailbox(&broker, "quiet", &pool, move |_| {
        count.fetch_add(1, SeqCst);
    });
    let busy = broker.create_topic("busy", TopicConfig::<u64>::new().capacity(4_096)).unwrap();
    let group = busy.group("g", GroupConfig::earliest()).unwrap();
    (0..10 * TURN).for_each(|n| {
        busy.publish(n).unwrap();
    });
    let late = Arc::new(Mutex::new(Vec::new()));
    let notes = late.clone();
    let handler = move |record: &Record<'_, u64>| {
        let (turn, first) = (**record / TURN, **record % TURN == 0);
        if first && turn % 3 == 0 {
            quiet.publish(turn).unwrap();
        }
        if first && turn % 3 == 2 {
            notes.lock().unwrap().push((turn / 3 + 1, seen.load(SeqCst)));
        }
    };
    group.member("m").run(&pool).subscribe(handler).unwrap();
    broker.close(None);
    let late = late.lock().unwrap();
    assert_eq!(late.len(), 3);
    assert!(late.iter().all(|(published, seen)| published == seen), "{late:?}");
}
