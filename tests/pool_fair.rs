//! A pool of one thread: nobody is starved beside those that always have something.
#![forbid(unsafe_code)]

use ringlog::{Broker, GroupConfig, Pool, PoolConfig, Record, TopicConfig};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

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
