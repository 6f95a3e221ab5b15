//! Many members on few threads.
#![forbid(unsafe_code)]

#[path = "support/mailbox.rs"]
mod mailbox;

use mailbox::{mailbox, one_thread};
use ringlog::{
    Broker, BrokerConfig, GroupConfig, ManualClock, Pool, PoolConfig, PoolError, PublishError, Record, Retry,
    SubscribeError, TopicConfig, Worker,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

// C-30, C-2
#[test]
fn every_record_reaches_every_member_of_many_topics_in_order() {
    for threads in [1, 2, 4] {
        let (broker, pool) = (Broker::new(), Pool::with(PoolConfig::new().threads(threads)).unwrap());
        let got: Vec<_> = (0..100).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
        let topics: Vec<_> = (0..100_usize)
            .map(|n| {
                let got = got[n].clone();
                mailbox(&broker, &format!("t{n}"), &pool, move |record| got.lock().unwrap().push(**record))
            })
            .collect();
        thread::scope(|scope| {
            for part in topics.chunks(50) {
                scope.spawn(move || {
                    for number in 0..100 {
                        part.iter().for_each(|topic| {
                            topic.publish(number).unwrap();
                        });
                    }
                });
            }
        });
        assert_eq!(broker.close(Some(LONG)).acked(), 10_000);
        for got in got {
            assert!(got.lock().unwrap().iter().copied().eq(0..100));
        }
    }
}

// C-2, C-30
#[test]
fn every_member_of_one_topic_sees_one_order() {
    for threads in [1, 3] {
        let (broker, pool) = (Broker::new(), Pool::with(PoolConfig::new().threads(threads)).unwrap());
        let topic = broker.create_topic("prices", TopicConfig::<u64>::new().capacity(2)).unwrap();
        let got: Vec<_> = (0..200).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
        for (n, got) in got.iter().enumerate() {
            let group = topic.group(&format!("g{n}"), GroupConfig::earliest()).unwrap();
            let got = got.clone();
            group.member("m").run(&pool).subscribe(move |record| got.lock().unwrap().push(**record)).unwrap();
        }
        thread::scope(|scope| {
            for number in 0..3 {
                let topic = &topic;
                scope.spawn(move || {
                    (0..40).for_each(|n| {
                        topic.publish(number * 100 + n).unwrap();
                    })
                });
            }
        });
        broker.close(Some(LONG));
        let first = got[0].lock().unwrap().clone();
        assert_eq!(first.len(), 120);
        assert!(got.iter().all(|got| *got.lock().unwrap() == first));
    }
}

// C-30
#[test]
fn no_two_threads_run_one_member_at_once() {
    let (broker, pool) = (Broker::new(), Pool::with(PoolConfig::new().threads(4)).unwrap());
    let topic = broker.create_topic("t", TopicConfig::<u64>::new().partitions(8).capacity(4)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (inside, twice) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let seen = twice.clone();
    let handler = move |_: &Record<'_, u64>| {
        seen.fetch_or(inside.swap(true, SeqCst), SeqCst);
        thread::yield_now();
        inside.store(false, SeqCst);
    };
    group.member("m").run(&pool).subscribe(handler).unwrap();
    thread::scope(|scope| {
        for producer in 0..4 {
            let topic = &topic;
            scope.spawn(move || {
                (0..200).for_each(|n| {
                    topic.publish_to((producer + n) as u32 % 8, n).unwrap();
                })
            });
        }
    });
    assert_eq!(broker.close(Some(LONG)).acked(), 800);
    assert!(!twice.load(SeqCst));
}

#[test]
fn members_come_and_go_and_a_pool_without_members_ends() {
    let broker = Broker::new();
    let pool = one_thread();
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    for n in 0..20 {
        let (done, seen) = mpsc::channel();
        let handler = move |record: &Record<'_, u64>| done.send(**record).unwrap();
        let member = group.member("m").run(&pool).subscribe(handler).unwrap();
        topic.publish(n).unwrap();
        assert_eq!(seen.recv().unwrap(), n);
        assert!(member.leave());
        assert!(seen.recv().is_err(), "its handler has gone with it");
    }
    while pool.members() > 0 {
        thread::yield_now();
    }
    let shared = Arc::new(());
    let (kept, weak) = (shared.clone(), Arc::downgrade(&shared));
    drop(shared);
    group
        .member("m")
        .run(&pool)
        .subscribe(move |_: &Record<'_, u64>| {
            let _ = &kept;
        })
        .unwrap();
    drop(pool);
    topic.publish(1).unwrap();
    broker.drain(LONG).unwrap();
    broker.close(Some(LONG));
    while weak.strong_count() > 0 {
        thread::yield_now();
    }
}

#[test]
fn a_stopped_pool_has_its_members_leave_and_takes_no_more() {
    let (broker, pool) = (Broker::new(), one_thread());
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group.member("m").run(&pool).subscribe(|_| ()).unwrap();
    topic.publish(1).unwrap();
    broker.drain(LONG).unwrap();
    pool.stop();
    while pool.members() > 0 || pool.threads() > 0 {
        thread::yield_now();
    }
    let refused = group.member("m2").run(&pool).subscribe(|_| ());
    assert!(matches!(refused, Err(SubscribeError::NotPlaced { .. })));
    topic.publish(2).unwrap();
    let worker = Worker::spawn().unwrap();
    group.member("m3").run(&worker).subscribe(|_| ()).unwrap();
    assert_eq!(broker.close(Some(LONG)).acked(), 2);
}

// C-23
#[test]
fn a_handler_waits_for_nobody_of_its_own_pool() {
    let (broker, pool) = (Broker::new(), Pool::with(PoolConfig::new().threads(2)).unwrap());
    let full = broker.create_topic("full", TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    let group = full.group("inbox", GroupConfig::earliest()).unwrap();
    let (start, hold) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (starts, holds) = (start.clone(), hold.clone());
    let slow = move |_: &Record<'_, u64>| {
        starts.wait();
        holds.wait();
    };
    group.member("only").run(&pool).subscribe(slow).unwrap();
    full.publish(0).unwrap();
    start.wait();
    let (tell, told) = mpsc::channel();
    let target = full.clone();
    let asks = mailbox(&broker, "asks", &pool, move |record| {
        let refused = matches!(target.publish(**record), Err(PublishError::WouldDeadlock { .. }));
        tell.send(refused).unwrap();
    });
    asks.publish(1).unwrap();
    assert!(told.recv().unwrap(), "only the pool could make room");
    hold.wait();
    broker.close(Some(LONG));
}

#[test]
fn a_panic_in_a_handler_stays_in_it() {
    let (broker, pool) = (Broker::new(), one_thread());
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let odd = |record: &Record<'_, u64>| assert!(**record % 2 == 0, "odd");
    group.member("m").run(&pool).subscribe(odd).unwrap();
    (0..10).for_each(|n| {
        topic.publish(n).unwrap();
    });
    let account = broker.close(Some(LONG));
    assert_eq!((account.acked(), account.left()), (5, 0));
    assert_eq!(group.stats().dead(), 5);
}

#[test]
fn one_member_can_do_everything_from_its_own_handler() {
    let (broker, pool) = (Broker::new(), one_thread());
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (inner, owner, threads) = (topic.clone(), pool.clone(), Arc::new(Mutex::new(HashSet::new())));
    let seen = threads.clone();
    let handler = move |record: &Record<'_, u64>| {
        seen.lock().unwrap().insert(thread::current().id());
        if **record < 5 {
            let other = inner.group(&format!("g{}", **record), GroupConfig::latest()).unwrap();
            other.member("m").run(&owner).subscribe(|_| ()).unwrap();
            inner.publish(**record + 1).unwrap();
        } else {
            owner.stop();
        }
    };
    group.member("m").run(&pool).subscribe(handler).unwrap();
    topic.publish(0).unwrap();
    while pool.members() > 0 {
        thread::yield_now();
    }
    assert!(!threads.lock().unwrap().is_empty());
    broker.close(Some(Duration::ZERO));
}

#[test]
fn a_pool_of_nobody_is_refused() {
    let sizes = [(0, 5), (2, 2), (1, 0)];
    for (threads, most) in sizes {
        let refused = Pool::with(PoolConfig::new().name("p").threads(threads).most(most)).unwrap_err();
        assert_eq!(refused, PoolError::Size { name: "p".to_owned(), threads, most });
    }
}

#[test]
fn nothing_is_left_of_a_topic_once_it_and_the_pool_are_gone() {
    let clock = Arc::new(ManualClock::new());
    let kept = Arc::new(());
    for stops in [false, true] {
        let (broker, pool) = (Broker::with(BrokerConfig::new().clock(clock.clone())), one_thread());
        let topic = broker.create_topic("t", TopicConfig::<Arc<()>>::new()).unwrap();
        let config = GroupConfig::earliest().retry(Retry::constant(9, Duration::from_secs(60)));
        let group = topic.group("g", config).unwrap();
        let (tried, tries) = mpsc::channel();
        let handler = move |_: &Record<'_, Arc<()>>| {
            let _ = tried.send(());
            Err::<(), _>("not yet") // it stands in the list of timers from here on
        };
        let member = group.member("m").run(&pool).subscribe(handler).unwrap();
        topic.publish(kept.clone()).unwrap();
        tries.recv().unwrap();
        if stops {
            pool.stop();
        } else {
            assert!(member.leave());
        }
        drop(pool);
        broker.close(Some(Duration::ZERO));
        drop((member, group, topic, broker));
        while Arc::strong_count(&kept) > 1 {
            thread::yield_now();
        }
    }
}
