//! Order shared, seen and waited for from outside: stragglers, leases that can be asked, seeks beside destructors, and waits that would
//! never end, or would.
mod lab;

use lab::{Lab, balanced};
use ringlog::{
    FencedBy, Group, GroupConfig, Manual, Order, Outcome, Record, Retain, Retry, SeekTo, Standing, Straggler, Topic,
    TopicConfig, Worker,
};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn queue() -> GroupConfig<u64> {
    GroupConfig::earliest().order(Order::Shared)
}

/// A member with a thread, which hangs in each record until it is let go.
struct Stuck {
    at: Receiver<u64>,
    go: Sender<()>,
}

impl Stuck {
    fn join(group: &Group<u64>, name: &str) -> Self {
        let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel());
        let handler = move |record: &Record<'_, u64>| {
            let _ = tell.send(record.offset());
            let _ = gate.recv();
        };
        group.subscribe(name, handler).map(drop).unwrap();
        Stuck { at, go }
    }

    fn enters(&self) -> u64 {
        self.at.recv_timeout(LONG).expect("nothing was handed over")
    }
}

/// Somebody has record 0 in hand and hangs; another has done those up to `until`.
fn behind_a_hang(config: GroupConfig<u64>, until: u64) -> (Lab, Topic<u64>, Group<u64>, Stuck) {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 16);
    let group = topic.group("g", config).unwrap();
    let stuck = Stuck::join(&group, "stuck");
    topic.publish(0).unwrap();
    assert_eq!(stuck.enters(), 0);
    group.member("free").run(&lab.manual).subscribe(|_: &Record<'_, u64>| ()).unwrap();
    (1..until).for_each(|value| topic.publish(value).map(drop).unwrap());
    // Whatever its other thread takes of them it is let go of.
    while group.lag() > 1 {
        lab.manual.run(10);
    }
    (lab, topic, group, stuck)
}

// ---- stragglers ------------------------------------------------------------------------------------------------------

// B-E5: "visible: number of stragglers, who holds them"
#[test]
fn stragglers_are_counted_and_named() {
    let (_lab, _topic, group, stuck) = behind_a_hang(queue(), 4);
    let stats = balanced(&group).lanes[0].clone();
    assert_eq!((stats.stragglers, stats.stragglers_ended, stats.committed), (1, 0, 0));
    assert_eq!(group.standing(0).unwrap(), Standing::AtWork { member: "stuck".into() });
    stuck.go.send(()).unwrap();
    while group.lag() > 0 {
        thread::yield_now();
    }
    assert_eq!(balanced(&group).lanes[0].stragglers, 0);
}

#[test]
fn a_straggler_whose_member_is_put_out_is_no_lease_and_is_buried_only_if_it_may_not_fail() {
    for (retry, dead) in [(Retry::never(), 1), (Retry::constant(2, ms(1)), 0)] {
        let config = queue().straggler(Straggler::Evict(ms(80))).retry(retry);
        let (lab, _topic, group, _stuck) = behind_a_hang(config, 4);
        lab.clock.advance(ms(80));
        lab.manual.run(100);
        let (stats, letters) = (balanced(&group), group.letters());
        let figures =
            (stats.dead(), stats.acked(), stats.leases_expired(), stats.lanes[0].stragglers_ended, stats.lag());
        assert_eq!(figures, (dead, 4 - dead, 0, 1, 0));
        assert!(letters.iter().all(|letter| letter.kind() == "straggler" && letter.offset() == 0));
        assert_eq!(stats.members, ["free".into()]);
    }
}

// Nothing behind it is done when it is old enough; then it is looked at again soon, not a whole age later.
#[test]
fn a_straggler_is_found_soon_after_it_becomes_one() {
    let (lab, topic, group, _stuck) = behind_a_hang(queue().straggler(Straggler::Bury(ms(80))), 1);
    lab.clock.advance(ms(80));
    topic.publish(1).unwrap();
    while group.lag() > 1 {
        lab.manual.run(10);
    }
    assert_eq!(balanced(&group).dead(), 0);
    lab.clock.advance(ms(10));
    assert_eq!((balanced(&group).dead(), group.lag()), (1, 0));
}

// ---- leases ----------------------------------------------------------------------------------------------------------

// X9, X36
#[test]
fn a_record_in_hand_knows_how_long_it_is_its_handler_s() {
    let (lab, said) = (Lab::new(1), Arc::new(Mutex::new(Vec::new())));
    let topic = lab.topic(1, 16);
    let group = topic.group("g", queue().lease(ms(100)).lease_renewed_up_to(ms(250))).unwrap();
    let (says, clock, seeks) = (said.clone(), lab.clock.clone(), group.clone());
    let handler = move |record: &Record<'_, u64>| {
        let say = |what| says.lock().unwrap().push(what);
        match (record.offset(), record.attempt()) {
            (0, 1) => {
                say(record.extend(ms(150)).map_err(|error| error.by));
                clock.advance(ms(150) - Duration::from_nanos(1));
                say(record.extend(Duration::MAX).map_err(|error| error.by));
                clock.advance(ms(100) + Duration::from_nanos(1));
                say(record.extend(ms(1)).map_err(|error| error.by));
            }
            (1, 1) => {
                seeks.seek(0, SeekTo::Offset(2)).unwrap();
                say(record.extend(ms(1)).map_err(|error| error.by));
            }
            (2, 1) => {
                seeks.delete();
                say(record.extend(ms(1)).map_err(|error| error.by));
            }
            _ => {}
        }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    for value in 0..3 {
        topic.publish(value).unwrap();
        lab.manual.run(100);
    }
    let left = ms(100) + Duration::from_nanos(1);
    let refused = [FencedBy::Expired, FencedBy::Seeked, FencedBy::Deleted].map(Err);
    assert_eq!(*said.lock().unwrap(), [vec![Ok(ms(150)), Ok(left)], refused.to_vec()].concat());
    let plain = topic.group("plain", queue()).unwrap();
    let forever = |record: &Record<'_, u64>| assert_eq!(record.extend(ms(1)), Ok(Duration::MAX));
    plain.member("m").run(&lab.manual).subscribe(forever).unwrap();
    lab.manual.run(100);
    assert_eq!((balanced(&plain).acked(), balanced(&plain).retried()), (3, 0));
}

#[test]
fn who_has_had_a_record_for_too_long_is_told_of() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tells = told.clone();
    let config = queue().lease(ms(100)).on_expired(move |expired| tells.lock().unwrap().push(expired.to_string()));
    let (lab, _topic, group, stuck) = behind_a_hang(config, 1);
    lab.clock.advance(ms(100));
    assert_eq!(
        *told.lock().unwrap(),
        ["orders/0@0: 'stuck' of g has had a record for 100ms, it is for whoever is free"]
    );
    drop(stuck);
    drop(group);
}

// ---- seeks -----------------------------------------------------------------------------------------------------------

/// Waits in its destructor, if it is to.
struct Slow(u64, Option<Arc<Mutex<Receiver<()>>>>);

impl Drop for Slow {
    fn drop(&mut self) {
        if let Some(gate) = &self.1 {
            let _ = gate.lock().unwrap().recv();
        }
    }
}

// C-40: "a destructor holds up the thread it runs on and nobody else"
#[test]
fn a_seek_wakes_members_before_it_runs_destructors() {
    let lab = Lab::new(1);
    let config = TopicConfig::new().capacity(8).retain(Retain::Unacked);
    let topic = lab.broker.create_topic("prompt", config).unwrap();
    let config = GroupConfig::earliest().order(Order::Shared).retry(Retry::constant(9, LONG));
    let group = topic.group("g", config).unwrap();
    let (tell, told) = mpsc::channel();
    let handler = move |record: &Record<'_, Slow>| {
        tell.send(record.0).unwrap();
        Outcome::retry("not yet")
    };
    group.subscribe("m", handler).map(drop).unwrap();
    let (go, gate) = mpsc::channel();
    topic.publish(Slow(0, Some(Arc::new(Mutex::new(gate))))).map(drop).unwrap();
    topic.publish(Slow(1, None)).map(drop).unwrap();
    let mut first = [0, 1].map(|_| told.recv_timeout(LONG).unwrap());
    first.sort_unstable();
    while group.stats().retried() < 2 {
        thread::yield_now();
    }
    assert_eq!(first, [0, 1]);
    let seeks = group.clone();
    let seek = thread::spawn(move || seeks.seek(0, SeekTo::Offset(1)).unwrap());
    assert_eq!(told.recv_timeout(LONG), Ok(1), "while the destructor of 0 runs");
    go.send(()).unwrap();
    assert_eq!(seek.join().unwrap(), 1);
    assert!(group.stats().balances());
}

// ---- waits -----------------------------------------------------------------------------------------------------------

fn full(lab: &Lab, capacity: u64) -> (Topic<u64>, Group<u64>) {
    let config = TopicConfig::<u64>::new().capacity(capacity as usize).block(None);
    let topic = lab.broker.create_topic("full", config).unwrap();
    let group = topic.group("g", queue()).unwrap();
    (topic, group)
}

/// A group whose handler publishes to `topic`, run by `worker`; what came of it.
fn publishes_to(lab: &Lab, topic: &Topic<u64>, worker: &Worker) -> Receiver<bool> {
    let other = lab.broker.create_topic("other", TopicConfig::<u64>::new()).unwrap();
    let ((tell, told), topic) = (mpsc::channel(), topic.clone());
    let handler = move |_: &Record<'_, u64>| {
        tell.send(true).unwrap();
        tell.send(topic.publish(9).is_ok()).unwrap();
    };
    other.group("o", GroupConfig::earliest()).unwrap().member("m").run(worker).subscribe(handler).unwrap();
    other.publish(0).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(true));
    told
}

fn waits(topic: &Topic<u64>) {
    while topic.stats()[0].blocked == 0 {
        thread::yield_now();
    }
}

#[test]
fn a_handler_waits_for_a_queue_that_nobody_serves_yet() {
    let lab = Lab::new(1);
    let (topic, group) = full(&lab, 1);
    topic.publish(0).unwrap();
    let worker = Worker::spawn().unwrap();
    let told = publishes_to(&lab, &topic, &worker);
    waits(&topic);
    group.subscribe("late", |_: &Record<'_, u64>| ()).map(drop).unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(true));
}

// Of two that do so each would take the other for one that goes on.
#[test]
fn handlers_that_publish_to_their_own_full_topic_do_not_wait_for_each_other() {
    let lab = Lab::new(1);
    let topic = lab.broker.create_topic("full", TopicConfig::<u64>::new().capacity(3).block(None)).unwrap();
    let pause = Retry::constant(9, Duration::from_secs(1));
    let group = topic.group("g", queue().retry(pause)).unwrap();
    let (tell, told) = mpsc::channel();
    let gate = Arc::new(Barrier::new(2));
    for name in ["one", "two"] {
        let (tell, again, gate) = (tell.clone(), topic.clone(), gate.clone());
        let handler = move |record: &Record<'_, u64>| {
            if **record == 0 {
                return if record.attempt() == 1 { Outcome::retry("not now") } else { Outcome::Ack };
            }
            gate.wait();
            tell.send(again.publish(9).is_ok()).unwrap();
            Outcome::Ack
        };
        group.subscribe(name, handler).map(drop).unwrap();
    }
    topic.publish(0).unwrap();
    while group.stats().retried() == 0 {
        thread::yield_now();
    }
    topic.publish_batch([1, 2]).unwrap();
    assert_eq!([(); 2].map(|()| told.recv_timeout(LONG)), [Ok(false); 2], "the cursor waits for 0");
}

#[test]
fn who_waits_hears_of_it_when_the_last_other_one_leaves() {
    let lab = Lab::new(1);
    let (topic, group) = full(&lab, 1);
    let worker = Worker::spawn().unwrap();
    group.member("x").run(&worker).subscribe(|_: &Record<'_, u64>| ()).unwrap();
    let manual = Manual::new(1);
    let other = group.member("y").run(&manual).subscribe(|_: &Record<'_, u64>| ()).unwrap();
    group.pause();
    topic.publish(0).unwrap();
    let told = publishes_to(&lab, &topic, &worker);
    waits(&topic);
    other.leave();
    assert_eq!(told.recv_timeout(LONG), Ok(false), "nobody is left but itself");
}
