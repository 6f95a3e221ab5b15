//! Order shared, with handlers that hang: on real threads and a manual clock.
mod lab;

use lab::{Lab, balanced};
use ringlog::{
    Broker, Delivery, Failure, Group, GroupConfig, Order, Position, Record, Retry, Standing, Straggler, Topic,
    TopicConfig,
};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

fn queue() -> GroupConfig<u64> {
    GroupConfig::earliest().order(Order::Shared)
}

/// A member with a thread, which is held up in each record until it is let go.
struct Stuck {
    at: Receiver<(u64, u32)>,
    go: Sender<()>,
}

impl Stuck {
    fn join(group: &Group<u64>, name: &str) -> Self {
        let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel());
        let handler = move |record: &Record<'_, u64>| {
            tell.send((record.offset(), record.attempt())).unwrap();
            let _ = gate.recv();
        };
        group.subscribe(name, handler).map(drop).unwrap();
        Stuck { at, go }
    }

    fn enters(&self) -> (u64, u32) {
        self.at.recv_timeout(LONG).expect("nothing was handed over")
    }
}

/// A member that never waits, and what it sees.
fn free(group: &Group<u64>, name: &str) -> Receiver<(u64, u32)> {
    let (tell, seen) = mpsc::channel();
    let handler = move |record: &Record<'_, u64>| tell.send((record.offset(), record.attempt())).unwrap();
    group.subscribe(name, handler).map(drop).unwrap();
    seen
}

fn take(seen: &Receiver<(u64, u32)>, count: usize) -> Vec<(u64, u32)> {
    (0..count).map(|_| seen.recv_timeout(LONG).expect("nothing was handed over")).collect()
}

fn stuck(config: GroupConfig<u64>) -> (Lab, Topic<u64>, Group<u64>, Stuck) {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 16);
    let group = topic.group("g", config).unwrap();
    let stuck = Stuck::join(&group, "stuck");
    topic.publish(0).unwrap();
    assert_eq!(stuck.enters(), (0, 1));
    (lab, topic, group, stuck)
}

// B-E5
#[test]
fn a_handler_that_hangs_holds_up_only_its_record_and_the_room_behind_it() {
    let (lab, topic, group, stuck) = stuck(queue());
    let seen = free(&group, "free");
    (1..16).for_each(|value| topic.publish(value).map(drop).unwrap());
    assert_eq!(take(&seen, 15), (1..16).map(|offset| (offset, 1)).collect::<Vec<_>>());
    while group.lag() > 1 {
        std::thread::yield_now();
    }
    assert!(topic.publish(16).is_err(), "it pins the ring");
    let stats = balanced(&group);
    assert_eq!((stats.lanes[0].committed, stats.acked(), stats.lanes[0].in_flight), (0, 15, 1));
    assert_eq!(group.standing(0).unwrap(), Standing::AtWork { member: "stuck".into() });
    assert_eq!([0, 3].map(|offset| group.delivery(at(offset)).unwrap()), [Delivery::InHand, Delivery::Acked]);
    stuck.go.send(()).unwrap();
    lab.broker.drain(LONG).unwrap();
    assert_eq!((balanced(&group).acked(), balanced(&group).lanes[0].committed), (16, 16));
}

// B-E5, X9, X36
#[test]
fn a_lease_that_is_over_hands_the_record_to_another_and_the_late_one_is_refused() {
    let (lab, topic, group, stuck) = stuck(queue().lease(ms(100)).retry(Retry::constant(5, ms(7))));
    let seen = free(&group, "free");
    topic.publish(1).unwrap();
    assert_eq!(take(&seen, 1), [(1, 1)]);
    while group.lag() > 1 {
        std::thread::yield_now();
    }
    lab.clock.advance(ms(100) - Duration::from_nanos(1));
    assert_eq!(balanced(&group).lanes[0].leases_expired, 0, "not before its time");
    lab.clock.advance(Duration::from_nanos(1));
    assert_eq!(take(&seen, 1), [(0, 2)]);
    lab.broker.drain(LONG).unwrap();
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.lanes[0].leases_expired, stats.refused()), (2, 1, 0));
    stuck.go.send(()).unwrap();
    while group.stats().refused() == 0 {
        std::thread::yield_now();
    }
    assert_eq!((balanced(&group).acked(), balanced(&group).refused()), (2, 1));
}

#[test]
fn a_renewed_lease_lasts_as_long_as_it_may() {
    let (lab, _topic, group, _stuck) = stuck(queue().lease(ms(100)).lease_renewed_up_to(ms(250)));
    for (advance, expired) in [(100, 0), (100, 0), (49, 0), (1, 1)] {
        lab.clock.advance(ms(advance));
        assert_eq!(balanced(&group).lanes[0].leases_expired, expired);
    }
}

#[test]
fn a_record_whose_lease_is_over_too_often_is_buried() {
    let (lab, _topic, group, _stuck) = stuck(queue().lease(ms(100)).retry(Retry::never()).bury_cloned());
    lab.clock.advance(ms(100));
    let (stats, letters) = (balanced(&group), group.letters());
    assert_eq!(
        (stats.dead(), stats.lag(), letters[0].kind(), letters[0].payload::<u64>()),
        (1, 0, "expired", Some(&0))
    );
}

#[test]
fn a_straggler_is_buried_when_later_ones_are_done_and_it_is_old_enough() {
    let (lab, topic, group, stuck) = stuck(queue().straggler(Straggler::Bury(ms(50))).bury_cloned());
    lab.clock.advance(ms(60));
    assert_eq!(balanced(&group).dead(), 0, "nothing behind it is done");
    let seen = free(&group, "free");
    topic.publish(1).unwrap();
    assert_eq!(take(&seen, 1), [(1, 1)]);
    while group.lag() > 1 {
        std::thread::yield_now();
    }
    lab.clock.advance(ms(50));
    let stats = balanced(&group);
    assert_eq!((stats.dead(), stats.lag(), stats.lanes[0].committed), (1, 0, 2));
    assert_eq!(group.letters()[0].kind(), "straggler");
    stuck.go.send(()).unwrap();
    while group.stats().refused() == 0 {
        std::thread::yield_now();
    }
    assert_eq!(balanced(&group).acked(), 1);
}

#[test]
fn who_has_a_straggler_is_put_out_and_another_gets_it() {
    let (lab, topic, group, stuck) = stuck(queue().straggler(Straggler::Evict(ms(50))));
    let seen = free(&group, "free");
    topic.publish(1).unwrap();
    assert_eq!(take(&seen, 1), [(1, 1)]);
    while group.lag() > 1 {
        std::thread::yield_now();
    }
    lab.clock.advance(ms(50));
    assert_eq!(take(&seen, 1), [(0, 2)]);
    assert_eq!(group.stats().members, ["free".into()]);
    drop(stuck);
    lab.broker.drain(LONG).unwrap();
    balanced(&group);
}

#[test]
fn a_close_that_does_not_wait_leaves_over_what_is_not_done_and_nothing_else() {
    let (lab, topic, group, stuck) = stuck(queue());
    let seen = free(&group, "free");
    topic.publish(1).unwrap();
    topic.publish(2).unwrap();
    take(&seen, 2);
    while group.lag() > 1 {
        std::thread::yield_now();
    }
    let _late = lab.broker.close(Some(Duration::ZERO));
    let mut left = Vec::new();
    group.left_over(|record| left.push(record.offset())).unwrap();
    assert_eq!(left, [0]);
    drop(stuck);
    balanced(&group);
}

#[test]
fn a_handler_that_waits_for_room_that_only_its_own_record_could_give_is_told() {
    let broker = Broker::new();
    let topic = broker.create_topic("loop", TopicConfig::<u64>::new().capacity(1).block(None)).unwrap();
    let group = topic.group("g", queue()).unwrap();
    let (tell, told) = mpsc::channel();
    let again = topic.clone();
    let handler = move |record: &Record<'_, u64>| {
        if **record == 0 {
            tell.send(again.publish(1).is_err()).unwrap();
        }
    };
    group.subscribe("m", handler).map(drop).unwrap();
    topic.publish(0).unwrap();
    assert!(told.recv_timeout(LONG).unwrap());
}

// The one at the cursor is only ever ended by the timer, which is what buries here.
#[test]
fn a_burying_function_of_the_timer_that_waits_for_what_only_the_timer_ends_is_told() {
    let lab = Lab::new(1);
    let topic = lab.broker.create_topic("loop", TopicConfig::<u64>::new().capacity(4).block(None)).unwrap();
    let ((tell, told), again) = (mpsc::channel(), topic.clone());
    let requeue = move |value: &u64, _: &Failure| tell.send(again.publish(*value).is_err()).unwrap();
    let group = topic.group("g", queue().straggler(Straggler::Bury(ms(50))).bury_with(requeue)).unwrap();
    let first = Stuck::join(&group, "first");
    topic.publish(0).unwrap();
    assert_eq!(first.enters(), (0, 1));
    let second = Stuck::join(&group, "second");
    topic.publish(1).unwrap();
    assert_eq!(second.enters(), (1, 1));
    first.go.send(()).unwrap();
    topic.publish(2).unwrap();
    assert_eq!(first.enters(), (2, 1));
    let seen = free(&group, "free");
    topic.publish_batch([3, 4]).unwrap();
    assert_eq!(take(&seen, 2), [(3, 1), (4, 1)]);
    while group.lag() > 2 {
        std::thread::yield_now();
    }
    let clock = lab.clock.clone();
    let timer = std::thread::spawn(move || clock.advance(ms(50)));
    // The first member's, though the second's is the one at the cursor.
    assert_eq!([(); 2].map(|()| told.recv_timeout(LONG)), [Ok(true); 2]);
    drop((first.go, second.go));
    timer.join().unwrap();
}
