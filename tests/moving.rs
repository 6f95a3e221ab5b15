//! Partitions move between members that go on working: one by one, at a record's end, and with nobody's work lost.

use ringlog::{Broker, Group, GroupConfig, Member, Record, Run, SeekTo, Topic, TopicConfig};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A member with a thread for each partition, each of which is held up before it returns from a record.
struct Held {
    member: Member<u64>,
    /// Partition and offset of what a handler has just been given.
    at: Receiver<(u32, u64)>,
    /// Lets the handler of a partition return.
    go: Vec<Sender<()>>,
}

impl Held {
    fn join(group: &Group<u64>, name: &str, partitions: u32) -> Self {
        let (tell, at) = mpsc::channel();
        let (go, mut gates): (Vec<_>, Vec<_>) =
            (0..partitions).map(|_| mpsc::channel()).map(|(go, gate)| (go, Some(gate))).unzip();
        let make = |partition: u32| {
            let (tell, gate): (_, Receiver<()>) = (tell.clone(), gates[partition as usize].take().unwrap());
            move |record: &Record<'_, u64>| {
                tell.send((record.partition(), record.offset())).unwrap();
                let _ = gate.recv();
            }
        };
        let member = group.member(name).run(Run::ThreadPerLane).subscribe_with(make).unwrap();
        Held { member, at, go }
    }

    fn enters(&self) -> (u32, u64) {
        self.at.recv_timeout(LONG).expect("nothing was handed over")
    }

    fn finish(&self, partition: u32) {
        self.go[partition as usize].send(()).unwrap();
    }
}

/// A member that never waits, and what it saw.
fn free(group: &Group<u64>, name: &str) -> Receiver<(u32, u64)> {
    let (tell, seen) = mpsc::channel();
    group.subscribe(name, move |record| tell.send((record.partition(), record.offset())).unwrap()).unwrap();
    seen
}

fn setting(partitions: u32, capacity: usize) -> (Broker, Topic<u64>, Group<u64>) {
    let broker = Broker::new();
    let config = TopicConfig::new().partitions(partitions).capacity(capacity).block(None);
    let topic = broker.create_topic("orders", config).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    (broker, topic, group)
}

fn deal(group: &Group<u64>) -> Vec<(String, Vec<u32>)> {
    group.assignment().into_iter().map(|of| (of.member.to_string(), of.partitions)).collect()
}

fn named(name: &str, lanes: &[u32]) -> (String, Vec<u32>) {
    (name.to_owned(), lanes.to_vec())
}

// X11, X36, B-E4
#[test]
fn a_member_that_joins_gets_idle_partitions_at_once_and_one_in_hand_at_its_record_s_end() {
    for capacity in [2, 3, 4, 64] {
        let (broker, topic, group) = setting(4, capacity);
        let old = Held::join(&group, "old", 4);
        for partition in [0, 1] {
            topic.publish_to(partition, 0).unwrap();
            assert_eq!(old.enters(), (partition, 0));
        }
        let new = free(&group, "new");
        assert_eq!(deal(&group), [named("old", &[0, 2]), named("new", &[1, 3])]);
        // 3 moves although 0 and 1 are in hand; 2 stays and goes on.
        topic.publish_to(3, 0).unwrap();
        assert_eq!(new.recv_timeout(LONG).unwrap(), (3, 0));
        topic.publish_to(2, 0).unwrap();
        assert_eq!(old.enters(), (2, 0));
        old.finish(2);
        // 1 is the new member's, who waits for the record in hand, and does not get it again.
        topic.publish_to(1, 1).unwrap();
        topic.publish_to(3, 1).unwrap();
        assert_eq!(new.recv_timeout(LONG).unwrap(), (3, 1), "1 is still in the old one's hand");
        old.finish(1);
        assert_eq!(new.recv_timeout(LONG).unwrap(), (1, 1));
        old.finish(0);
        broker.drain(LONG).unwrap();
        let stats = group.stats();
        assert!(stats.balances());
        assert_eq!((stats.acked(), stats.refused(), stats.replayed()), (6, 0, 0), "no ack was lost, none came twice");
    }
}

// X11, B-E4
#[test]
fn what_a_member_leaves_goes_to_the_others_from_where_it_committed() {
    for capacity in [2, 3, 4, 64] {
        let (broker, topic, group) = setting(3, capacity);
        let old = Held::join(&group, "old", 3);
        topic.publish_to(0, 0).unwrap();
        assert_eq!(old.enters(), (0, 0));
        topic.publish_to(1, 0).unwrap();
        assert_eq!(old.enters(), (1, 0));
        old.finish(1);
        let new = free(&group, "new");
        assert!(old.member.leave());
        assert_eq!(deal(&group), [named("new", &[0, 1, 2])]);
        topic.publish_to(0, 1).unwrap();
        topic.publish_to(2, 0).unwrap();
        topic.publish_to(1, 1).unwrap();
        let mut first = [new.recv_timeout(LONG).unwrap(), new.recv_timeout(LONG).unwrap()];
        first.sort_unstable();
        assert_eq!(first, [(1, 1), (2, 0)], "0 is still in the hand of who left");
        old.finish(0);
        assert_eq!(new.recv_timeout(LONG).unwrap(), (0, 1));
        broker.drain(LONG).unwrap();
        assert_eq!((group.stats().acked(), group.stats().refused()), (5, 0));
    }
}

// X36, B-E4
#[test]
fn a_moved_cursor_refuses_the_ack_in_hand_of_its_own_partition_and_no_other() {
    for capacity in [2, 3, 4, 64] {
        let (broker, topic, group) = setting(2, capacity);
        let held = Held::join(&group, "m", 2);
        for partition in [0, 1] {
            topic.publish_to(partition, 0).unwrap();
            assert_eq!(held.enters(), (partition, 0));
        }
        assert_eq!(group.seek(0, SeekTo::Earliest), Ok(0), "where it stands already: still another epoch");
        held.finish(1);
        held.finish(0);
        assert_eq!(held.enters(), (0, 0), "again");
        held.finish(0);
        broker.drain(LONG).unwrap();
        let [zero, one] = [0, 1].map(|partition| group.stats_of(partition).unwrap());
        assert_eq!((zero.refused, zero.acked, zero.committed), (1, 1, 1));
        assert_eq!((one.refused, one.acked, one.committed), (0, 1, 1));
    }
}

// B-E4
#[test]
fn who_is_in_a_group_that_is_over_acknowledges_nothing_of_the_next_one_of_its_name() {
    let (broker, topic, group) = setting(1, 4);
    let old = Held::join(&group, "m", 1);
    topic.publish(0).unwrap();
    assert_eq!(old.enters(), (0, 0));
    assert!(group.delete());
    let again = topic.group("g", GroupConfig::earliest()).unwrap();
    let all = Arc::new(Mutex::new(Vec::new()));
    let seen = all.clone();
    old.finish(0);
    again.subscribe("m", move |record| seen.lock().unwrap().push(record.offset())).unwrap();
    topic.publish(1).unwrap();
    broker.drain(LONG).unwrap();
    assert_eq!(*all.lock().unwrap(), [0, 1], "not done by who was in the old group");
    assert_eq!((group.stats().acked(), again.stats().acked()), (0, 2));
}
