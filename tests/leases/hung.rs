//! A handler does not return, and others go on meanwhile: with its record, its partitions, its place.
#![forbid(unsafe_code)]

use super::{LEASE, LONG, SECOND, Seen, lease, setting, with};
use ringlog::{Group, Manual, Outcome, Record, Retain, Retry, Run, SeekTo, TopicConfig};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// A member with threads of its own, whose handler waits to be let go.
fn hangs(group: &Group<u64>, name: &str) -> (mpsc::Receiver<(u64, u32)>, mpsc::Sender<()>) {
    let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel());
    let gate = Mutex::new(gate);
    let handler = move |record: &Record<'_, u64>| {
        let before = **record;
        let _ = tell.send((record.offset(), record.attempt()));
        let _ = gate.lock().unwrap().recv();
        assert_eq!(**record, before, "its memory is its own as long as it looks");
    };
    group.subscribe(name, handler).unwrap();
    (at, go)
}

fn go_on(gate: &Mutex<mpsc::Receiver<()>>) -> Option<()> {
    gate.lock().unwrap().recv().ok()
}

// B-29, X36: the old holder's memory stays valid, whatever the ring does meanwhile.
#[test]
fn a_handler_that_hangs_is_left_behind_and_what_it_makes_of_its_record_is_refused() {
    for retain in [Retain::Recent, Retain::Unacked, Retain::Backlog] {
        let setting = with(TopicConfig::new().capacity(2).retain(retain), lease());
        let (at, go) = hangs(&setting.group, "slow");
        setting.topic.publish(7).unwrap();
        assert_eq!(at.recv_timeout(LONG), Ok((0, 1)));
        let (other, seen) = setting.takes("other", vec![]);
        other.run(9);
        assert_eq!(*seen.lock().unwrap(), [], "it is slow's as long as its lease is good");
        setting.clock.advance(LEASE - SECOND);
        other.run(9);
        assert_eq!((setting.told(), seen.lock().unwrap().len()), (vec![], 0));
        setting.clock.advance(SECOND);
        assert_eq!(setting.told(), ["orders/0@0: 'slow' of g has had a record for 30s, 'other' takes over"]);
        for n in 8..200 {
            other.run(9);
            setting.topic.publish(n).unwrap();
        }
        other.run(9);
        let expected: Vec<_> = std::iter::once((0, 2)).chain((1..193).map(|offset| (offset, 1))).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
        assert_eq!(setting.counts(), (193, 0, 0, 1, 1));
        assert!(!setting.group.assignment()[0].member.is_empty());
        go.send(()).unwrap();
        // Its share is its own again, at once: it was the only partition.
        while setting.group.assignment()[0].partitions != [0] {
            std::thread::yield_now();
        }
        assert_eq!(setting.counts(), (193, 0, 1, 1, 1));
        other.run(9);
        setting.topic.publish(1).unwrap();
        assert_eq!(at.recv_timeout(LONG), Ok((193, 1)), "it works on");
        go.send(()).unwrap();
        setting.broker.drain(LONG).unwrap();
        assert_eq!(setting.counts(), (194, 0, 1, 1, 1));
    }
}

#[test]
fn a_record_whose_attempts_are_used_up_by_one_that_hangs_is_given_up_by_the_next() {
    let setting = setting(1, lease().retry(Retry::never()));
    let (at, _go) = hangs(&setting.group, "slow");
    setting.topic.publish_batch([1, 2]).unwrap();
    assert_eq!(at.recv_timeout(LONG), Ok((0, 1)));
    let (other, seen) = setting.takes("other", vec![]);
    setting.clock.advance(LEASE);
    other.run(9);
    assert_eq!((setting.counts(), seen.lock().unwrap().clone()), ((1, 1, 0, 1, 0), vec![(1, 1)]));
    assert_eq!(setting.group.letters()[0].attempts(), 1);
}

// One thread steps all partitions of a member: when it hangs in one, the others go over as well, and come back.
#[test]
fn all_that_a_hung_thread_has_goes_over_and_comes_back() {
    let setting = setting(4, lease());
    let (slow, clock, group) = (Manual::new(1), setting.clock.clone(), setting.group.clone());
    let during = Arc::new(Mutex::new(Vec::new()));
    let noted = during.clone();
    let handler = move |record: &Record<'_, u64>| {
        if record.partition() == 0 {
            clock.advance(LEASE);
            let deal = group.assignment().into_iter().map(|of| (of.member.to_string(), of.partitions, of.coming));
            noted.lock().unwrap().extend(deal);
        }
    };
    setting.group.member("slow").run(&slow).subscribe(handler).unwrap();
    slow.run(9); // it has all four in hand
    let (other, seen) = setting.takes("other", vec![]);
    slow.run(9);
    other.run(9);
    (0..4).for_each(|partition| _ = setting.topic.publish_to(partition, 1).unwrap());
    while during.lock().unwrap().is_empty() {
        slow.run(1);
    }
    let named = |name: &str, partitions: &[u32]| (name.to_owned(), partitions.to_vec(), vec![]);
    assert_eq!(*during.lock().unwrap(), [named("slow", &[]), named("other", &[0, 1, 2, 3])]);
    let deal: Vec<_> = setting.group.assignment().into_iter().map(|of| of.partitions).collect();
    assert_eq!(deal, [vec![0, 2], vec![1, 3]], "and back, as it has returned");
    other.run(9);
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert_eq!(setting.group.stats().refused(), 1);
    assert!(setting.group.stats().balances());
}

#[test]
fn a_failure_of_a_lane_that_was_seized_idle_counts_on() {
    let setting = setting(2, lease());
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (tell, in_zero) = mpsc::channel();
    // Fails in partition 1, then hangs in 0.
    let handler = move |record: &Record<'_, u64>| {
        tell.send(record.partition()).unwrap();
        if record.partition() == 0 {
            let _ = go_on(&gate);
            return Outcome::Ack;
        }
        Outcome::retry_after(LEASE * 9, "later")
    };
    setting.group.subscribe("slow", handler).unwrap();
    setting.topic.publish_to(1, 1).unwrap();
    assert_eq!(in_zero.recv_timeout(LONG), Ok(1));
    setting.topic.publish_to(0, 1).unwrap();
    assert_eq!(in_zero.recv_timeout(LONG), Ok(0));
    // Partition 1 would be the other's in any case, but is still in slow's hands: it cannot let go.
    let (other, seen) = setting.takes("other", vec![]);
    other.run(9);
    assert_eq!(*seen.lock().unwrap(), []);
    setting.clock.advance(LEASE);
    other.run(9);
    assert_eq!(*seen.lock().unwrap(), [(0, 2)], "of 0; that of 1 still waits");
    setting.clock.advance(LEASE * 8);
    other.run(9);
    assert_eq!(*seen.lock().unwrap(), [(0, 2), (0, 2)]);
    drop(go);
    setting.broker.drain(LONG).unwrap();
    assert!(setting.group.stats().balances());
}

#[test]
fn who_joins_later_takes_over_at_once_what_is_over_already() {
    let setting = setting(1, lease());
    let (at, go) = hangs(&setting.group, "slow");
    setting.topic.publish(7).unwrap();
    assert_eq!(at.recv_timeout(LONG), Ok((0, 1)));
    setting.clock.advance(LEASE);
    assert_eq!(setting.told(), ["orders/0@0: 'slow' of g has had a record for 30s, nobody takes over"]);
    let (other, seen) = setting.takes("other", vec![]);
    other.run(9);
    assert_eq!(*seen.lock().unwrap(), [(0, 2)]);
    drop(go);
    setting.broker.drain(LONG).unwrap();
    assert_eq!(setting.group.stats().acked(), 1);
}

// X29: a member that hangs and is told to leave is waited for, not its lane.
#[test]
fn a_member_that_hangs_and_leaves_loses_its_lane_and_is_waited_for() {
    let setting = setting(1, lease());
    let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(gate);
    let handler = move |record: &Record<'_, u64>| {
        tell.send(record.offset()).unwrap();
        let _ = go_on(&gate);
    };
    let member = setting.group.subscribe("slow", handler).unwrap();
    setting.topic.publish(7).unwrap();
    assert_eq!(at.recv_timeout(LONG), Ok(0));
    let (other, seen) = setting.takes("other", vec![]);
    setting.clock.advance(LEASE);
    other.run(9);
    assert_eq!(*seen.lock().unwrap(), [(0, 2)]);
    let text = member.leave_drained(Duration::ZERO).unwrap_err().to_string();
    assert_eq!(text, "member 'slow' of group 'g' left after 0ns with 0 records to do, its handler still at work");
    drop(go);
    member.leave_drained(LONG).unwrap();
    assert_eq!(setting.counts(), (1, 0, 1, 1, 1));
    setting.topic.publish(8).unwrap();
    other.run(9);
    assert_eq!(setting.counts(), (2, 0, 1, 1, 1));
}

// X36: the cursor was moved while the handler hung: nothing of it counts, and the lane is taken over all the same.
#[test]
fn a_seek_under_one_that_hangs_is_obeyed_by_the_next() {
    let setting = setting(1, lease());
    let (at, go) = hangs(&setting.group, "slow");
    setting.topic.publish_batch(0..4).unwrap();
    assert_eq!(at.recv_timeout(LONG), Ok((0, 1)));
    let (other, seen) = setting.takes("other", vec![]);
    setting.group.seek(0, SeekTo::Offset(2)).unwrap();
    setting.clock.advance(LEASE);
    other.run(9);
    assert_eq!(*seen.lock().unwrap(), [(2, 1), (3, 1)], "no failure of 0's is counted for 2");
    assert_eq!((setting.counts(), setting.told().len()), ((2, 0, 0, 0, 0), 0));
    drop(go);
    setting.broker.drain(LONG).unwrap();
}

#[test]
fn lanes_of_one_member_on_threads_of_their_own_hang_by_themselves() {
    let setting = setting(2, lease());
    let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Arc::new(Mutex::new(gate));
    let make = |_| {
        let (tell, gate) = (tell.clone(), gate.clone());
        move |record: &Record<'_, u64>| {
            tell.send((record.partition(), record.offset())).unwrap();
            if record.partition() == 0 {
                let _ = gate.lock().unwrap().recv();
            }
        }
    };
    setting.group.member("two").run(Run::ThreadPerLane).subscribe_with(make).unwrap();
    setting.topic.publish_to(0, 0).unwrap();
    assert_eq!(at.recv_timeout(LONG), Ok((0, 0)));
    setting.clock.advance(LEASE);
    assert_eq!(setting.told().len(), 1);
    setting.topic.publish_to(1, 0).unwrap();
    assert_eq!(at.recv_timeout(LONG), Ok((1, 0)), "its other lane goes on");
    drop(go);
    setting.broker.drain(LONG).unwrap();
    assert_eq!((setting.group.stats().acked(), setting.group.stats().refused()), (2, 1));
}

// The second one that wants just this partition waits for the first one to hang.
#[test]
fn a_standby_takes_over_from_a_handler_that_hangs() {
    let setting = setting(1, lease());
    let ((tell, at), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(gate);
    let waits = move |record: &Record<'_, u64>| {
        let _ = tell.send(record.offset());
        let _ = gate.lock().unwrap().recv();
    };
    setting.group.member("active").partition(0).subscribe(waits).unwrap();
    let (manual, seen) = (Manual::new(1), Seen::default());
    let noted = seen.clone();
    let handler = move |record: &Record<'_, u64>| noted.lock().unwrap().push((record.offset(), record.attempt()));
    setting.group.member("standby").partition(0).run(&manual).subscribe(handler).unwrap();
    setting.topic.publish(1).unwrap();
    at.recv().unwrap();
    setting.clock.advance(LEASE);
    assert_eq!(setting.told(), ["orders/0@0: 'active' of g has had a record for 30s, 'standby' takes over"]);
    manual.run(9);
    assert_eq!(seen.lock().unwrap().clone(), [(0, 2)]);
    drop(go);
}
