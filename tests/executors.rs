//! Who runs a member: a thread of its own, a thread for each lane, a worker shared with others, your own thread.

#[path = "support/numbers.rs"]
mod numbers;

use numbers::{publish, topic};
use ringlog::{
    Broker, BrokerConfig, GroupConfig, ManualClock, PublishError, Run, SubscribeError, TopicConfig, WaitPolicy, Worker,
    WorkerConfig,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const POLICIES: [WaitPolicy; 4] = [WaitPolicy::Latency, WaitPolicy::Balanced, WaitPolicy::Throughput, WaitPolicy::Park];

// B-32, A-53, X32, C-7, C-8
#[test]
fn one_handler_runs_on_one_thread_of_its_own_whatever_the_policy() {
    for policy in POLICIES {
        for capacity in [1, 2, 3, 1_000] {
            let broker = Broker::new();
            let topic = topic(&broker, 4, capacity);
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            let threads = Arc::new(Mutex::new(HashSet::new()));
            let seen = threads.clone();
            let mut next = [0; 4];
            let check = move |r: &ringlog::Record<'_, u64>| {
                let current = thread::current();
                seen.lock().unwrap().insert((current.id(), current.name().map(str::to_owned)));
                assert_eq!(**r, next[r.partition() as usize]);
                next[r.partition() as usize] += 1;
            };
            group.member("m").wait(policy).subscribe(check).unwrap();
            publish(&topic, 300);
            broker.drain(LONG).unwrap();
            let stats = group.stats();
            assert_eq!((stats.acked(), stats.dead(), stats.balances()), (1_200, 0, true));
            let threads = threads.lock().unwrap();
            assert_eq!(threads.len(), 1);
            let (id, name) = threads.iter().next().unwrap();
            assert_ne!(*id, thread::current().id(), "never the publisher's");
            assert_eq!(name.as_deref(), Some("g/m"));
        }
    }
    assert_eq!(ringlog::internals::wait::rescues(), 0);
}

// A-53, X32
#[test]
fn with_a_thread_for_each_lane_the_lanes_run_side_by_side() {
    let broker = Broker::new();
    let topic = topic(&broker, 3, 4);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let meeting = Arc::new(Barrier::new(3));
    let names = Arc::new(Mutex::new(HashSet::new()));
    let seen = names.clone();
    let make = |partition| {
        let (meeting, seen) = (meeting.clone(), seen.clone());
        move |r: &ringlog::Record<'_, u64>| {
            assert_eq!(r.partition(), partition);
            meeting.wait(); // comes back only if all three are in their handlers
            seen.lock().unwrap().insert(thread::current().name().unwrap_or_default().to_owned());
        }
    };
    group.member("m").run(Run::ThreadPerLane).subscribe_with(make).unwrap();
    publish(&topic, 5);
    broker.drain(LONG).unwrap();
    let expected = ["g-orders-0", "g-orders-1", "g-orders-2"].map(str::to_owned);
    assert_eq!(*names.lock().unwrap(), HashSet::from(expected));
    let refused = group.member("n").run(Run::ThreadPerLane).subscribe(|_| ()).unwrap_err();
    assert!(matches!(refused, SubscribeError::OneHandler { .. }));
}

// X26, X32, C-30
#[test]
fn a_worker_steps_members_of_several_groups_on_one_thread() {
    let broker = Broker::new();
    let topic = topic(&broker, 4, 64);
    let hooked = Arc::new(AtomicBool::new(false));
    let hook = hooked.clone();
    let config = WorkerConfig::new().name("steady").on_start(move || hook.store(true, Ordering::Relaxed));
    let worker = config.spawn().unwrap();
    let ids = Arc::new(Mutex::new(HashSet::new()));
    let groups = ["a", "b", "c"].map(|name| {
        let group = topic.group(name, GroupConfig::earliest()).unwrap();
        let seen = ids.clone();
        let note = move |_: &ringlog::Record<'_, u64>| {
            seen.lock().unwrap().insert((thread::current().id(), thread::current().name().map(str::to_owned)));
        };
        group.member("m").run(&worker).subscribe(note).unwrap();
        group
    });
    drop(worker); // it goes on for its members
    publish(&topic, 500);
    broker.drain(LONG).unwrap();
    assert!(groups.iter().all(|group| group.stats().acked() == 2_000 && group.stats().balances()));
    assert!(hooked.load(Ordering::Relaxed));
    let ids = ids.lock().unwrap();
    assert_eq!((ids.len(), ids.iter().next().unwrap().1.as_deref()), (1, Some("steady")));
}

#[test]
fn a_worker_can_have_your_own_thread() {
    let broker = Broker::new();
    let topic = topic(&broker, 2, 8);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let worker = Worker::on_your_thread();
    let (tell, told) = mpsc::channel();
    let stopper = worker.clone();
    let finish = move |r: &ringlog::Record<'_, u64>| {
        tell.send((thread::current().id(), **r)).unwrap();
        if **r == 9 {
            stopper.stop();
        }
    };
    group.member("m").run(&worker).subscribe(finish).unwrap();
    let publisher = thread::spawn(move || (0..10).for_each(|n| assert!(topic.publish_to(0, n).is_ok())));
    worker.run();
    publisher.join().unwrap();
    let seen: Vec<_> = told.try_iter().collect();
    assert_eq!(seen, (0..10).map(|n| (thread::current().id(), n)).collect::<Vec<_>>());
    assert!(group.assignment().is_empty(), "its members left");
    worker.run(); // a second time it returns at once
}

#[test]
fn a_worker_whose_hook_panics_takes_no_members() {
    let (tell, told) = mpsc::channel();
    let hook = move || {
        tell.send(()).unwrap();
        std::panic::resume_unwind(Box::new("in the hook"));
    };
    let worker = WorkerConfig::new().on_start(hook).spawn().unwrap();
    told.recv().unwrap();
    let broker = Broker::new();
    let group = topic(&broker, 1, 8).group("g", GroupConfig::earliest()).unwrap();
    // At the worst it takes one that comes before it has ended, and then has it leave.
    while group.member("m").run(&worker).subscribe(|_| ()).is_ok() {
        while !group.assignment().is_empty() {
            thread::yield_now();
        }
    }
    assert!(group.assignment().is_empty());
}

//
#[test]
fn a_handler_whose_destructor_panics_leaves_all_the_same() {
    struct Rude;
    impl Drop for Rude {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("not so quietly"));
        }
    }
    let broker = Broker::new();
    let topic = topic(&broker, 1, 8);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let worker = Worker::spawn().unwrap();
    let rude = Rude;
    let handler = move |_: &ringlog::Record<'_, u64>| {
        let _kept = &rude;
    };
    let member = group.member("rude").run(&worker).subscribe(handler).unwrap();
    topic.publish(0).unwrap();
    broker.drain(LONG).unwrap();
    assert!(member.leave());
    group.member("kind").run(&worker).subscribe(|_| ()).unwrap();
    topic.publish(1).unwrap();
    broker.drain(LONG).unwrap();
    assert_eq!((group.stats().acked(), group.assignment().len()), (2, 1));
}

// A worker that has the last handle of a group drops what the user put into its settings
#[test]
fn settings_whose_destructor_panics_do_not_end_the_worker_that_drops_them() {
    struct Rude;
    impl Drop for Rude {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("not so quietly"));
        }
    }
    let broker = Broker::new();
    let (kept, worker) = (topic(&broker, 1, 8), Worker::spawn().unwrap());
    let group = kept.group("g", GroupConfig::earliest()).unwrap();
    group.member("m").run(&worker).subscribe(|_| ()).unwrap();
    let ((says, said), (goes, waits)) = (mpsc::channel(), mpsc::channel::<()>());
    {
        let going = broker.create_topic("going", TopicConfig::<u64>::new()).unwrap();
        let rude = Rude;
        let config = GroupConfig::earliest().on_gap(move |_| {
            let _kept = &rude;
        });
        let handler = move |_: &ringlog::Record<'_, u64>| {
            says.send(()).unwrap();
            let _over = waits.recv();
        };
        going.group("g", config).unwrap().member("m").run(&worker).subscribe(handler).unwrap();
        going.publish(0).unwrap();
        said.recv().unwrap();
        broker.delete_topic("going").unwrap();
    }
    drop(goes);
    while said.recv().is_ok() {} // its handler is gone
    for n in 0..100 {
        kept.publish(n).unwrap();
        broker.drain(LONG).unwrap();
    }
    let position = ringlog::Position { partition: 0, offset: 99 };
    kept.wait_committed(position, &["g"], LONG).unwrap();
    assert_eq!(group.assignment().len(), 1, "it is still served");
}

#[test]
fn a_worker_serves_one_clock() {
    let worker = Worker::spawn().unwrap();
    let join = |broker: &Broker| {
        let group = topic(broker, 1, 8).group("g", GroupConfig::earliest()).unwrap();
        group.member("m").run(&worker).subscribe(|_| ()).map(drop)
    };
    let manual = || Broker::with(BrokerConfig::new().clock(Arc::new(ManualClock::new())));
    let (one, two) = (manual(), manual());
    join(&one).unwrap();
    let refused = join(&two).unwrap_err().to_string();
    assert!(refused.contains("another clock"), "{refused}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_can_be_pinned_and_an_impossible_wish_is_refused() {
    let allowed = (0..64).find(|processor| WorkerConfig::new().affinity(vec![*processor]).spawn().is_ok());
    assert!(allowed.is_some());
    assert!(WorkerConfig::new().affinity(vec![100_000]).spawn().is_err());
}

// C-23, C-X8
#[test]
fn a_handler_never_waits_for_a_lane_that_its_own_thread_steps() {
    let broker = Broker::new();
    let topic = topic(&broker, 1, 2);
    let worker = Worker::spawn().unwrap();
    let group = |name| topic.group(name, GroupConfig::earliest()).unwrap();
    let (tell, told) = mpsc::channel();
    let again = topic.clone();
    let publish = move |r: &ringlog::Record<'_, u64>| {
        if **r == 0 {
            let mut refused = None;
            while refused.is_none() {
                refused = again.publish(7).err();
            }
            tell.send(matches!(refused, Some(PublishError::WouldDeadlock { .. }))).unwrap();
        }
    };
    // The publishing group is at its first record; the other one may not even have been stepped yet. Both limit.
    group("other").member("m").run(&worker).subscribe(|_| ()).unwrap();
    group("same").member("m").run(&worker).subscribe(publish).unwrap();
    topic.publish(0).unwrap();
    assert!(told.recv_timeout(LONG).unwrap());
    broker.drain(LONG).unwrap();
}

// A-T4, B-13, A-60, A-62, A-72, B-V11, C-T10
#[test]
fn members_that_come_and_go_while_producers_run_lose_nothing_and_never_overlap() {
    for capacity in [1, 3, 64] {
        let broker = Broker::new();
        let topic = topic(&broker, 3, capacity);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let state = Arc::new((0..3).map(|_| (AtomicBool::new(false), AtomicU64::new(0))).collect::<Vec<_>>());
        let handler = || {
            let state = state.clone();
            move |r: &ringlog::Record<'_, u64>| {
                let (busy, next) = &state[r.partition() as usize];
                assert!(!busy.swap(true, Ordering::AcqRel), "two at once");
                assert_eq!(next.fetch_add(1, Ordering::Relaxed), r.offset(), "each once, in order");
                busy.store(false, Ordering::Release);
            }
        };
        group.member("steady").subscribe(handler()).unwrap();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let topic = topic.clone();
                thread::spawn(move || publish(&topic, 2_000))
            })
            .collect();
        let worker = Worker::spawn().unwrap();
        while producers.iter().any(|producer| !producer.is_finished()) {
            let on_worker = group.member("w").run(&worker).subscribe(handler()).unwrap();
            let own = group.member("o").wait(WaitPolicy::Park).subscribe(handler()).unwrap();
            thread::yield_now();
            assert!(on_worker.leave());
            let lanes = group.member("l").run(Run::ThreadPerLane).subscribe_with(|_| handler()).unwrap();
            assert!(own.leave() && lanes.leave());
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        broker.drain(LONG).unwrap();
        let stats = group.stats();
        assert_eq!((stats.acked(), stats.dead(), stats.lag(), stats.balances()), (12_000, 0, 0, true));
    }
}

//
#[test]
fn seeks_and_pauses_from_outside_while_everything_runs_keep_the_books() {
    let broker = Broker::new();
    let topic = topic(&broker, 2, 256);
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    group.member("a").subscribe(|_| ()).unwrap();
    group.member("b").subscribe(|r| if **r % 100 == 99 { Err("now and then") } else { Ok(()) }).unwrap();
    let publisher = thread::spawn({
        let topic = topic.clone();
        move || publish(&topic, 20_000)
    });
    let mut n = 0_u64;
    while !publisher.is_finished() {
        n += 1;
        let back = topic.end(1).unwrap().saturating_sub(n % 300);
        group.seek((n % 2) as u32, ringlog::SeekTo::Offset(back)).unwrap();
        if n % 8 == 0 {
            group.pause();
            group.resume();
        }
        thread::yield_now();
    }
    publisher.join().unwrap();
    broker.drain(LONG).unwrap();
    let stats = group.stats();
    assert!(stats.balances(), "{stats:#?}");
    assert_eq!(stats.lag(), 0);
}
