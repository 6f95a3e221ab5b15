//! On one thread: a handler returns too late, or in time because it asked for more.
#![forbid(unsafe_code)]

use super::{LEASE, SECOND, Setting, lease, setting};
use ringlog::{Batch, FencedBy, Group, GroupConfig, Manual, Record, SeekTo};
use std::sync::{Arc, Mutex};
use std::time::Duration;

// B-8, X9: at `now >= deadline`, and not before.
#[test]
fn a_record_that_is_kept_until_the_deadline_is_somebody_else_s() {
    for (steps, taken) in [(vec![LEASE - Duration::from_nanos(1)], false), (vec![LEASE], true), (vec![LEASE * 5], true)]
    {
        let setting = setting(1, lease());
        let (slow, first) = setting.takes("slow", steps);
        let (other, second) = setting.takes("other", vec![]);
        setting.topic.publish(7).unwrap();
        slow.run(1);
        if !taken {
            assert_eq!((setting.told(), setting.counts()), (vec![], (1, 0, 0, 0, 0)));
            continue;
        }
        assert_eq!(setting.told(), ["orders/0@0: 'slow' of g has had a record for 30s, 'other' takes over"]);
        assert_eq!(setting.counts(), (0, 0, 1, 1, 1), "the late ack is refused");
        // It has returned, and has its share again: nobody has begun on it meanwhile.
        assert_eq!(setting.group.assignment()[0].partitions, [0]);
        other.run(9);
        assert_eq!((first.lock().unwrap().clone(), second.lock().unwrap().clone()), (vec![(0, 1)], vec![]));
    }
}

// X9: with one member it is reported.
#[test]
fn who_is_alone_gets_it_again_when_it_returns_and_it_is_given_up_in_the_end() {
    let setting = setting(1, lease());
    let (slow, seen) = setting.takes("slow", vec![LEASE]);
    setting.topic.publish_batch([1, 2]).unwrap();
    slow.run(2);
    assert_eq!(setting.told(), vec!["orders/0@0: 'slow' of g has had a record for 30s, nobody takes over"; 2]);
    assert_eq!(setting.counts(), (0, 0, 2, 2, 2));
    slow.run(1);
    assert_eq!((setting.told().len(), setting.counts()), (1, (0, 0, 3, 3, 2)), "there is no fourth attempt");
    slow.run(1);
    let letters = setting.group.letters();
    assert_eq!(
        letters[0].to_string(),
        "orders/0@0 given up by g after 3 attempts: expired: its lease expired before it was acknowledged"
    );
    slow.run(1);
    assert_eq!(*seen.lock().unwrap(), [(0, 1), (0, 2), (0, 3), (1, 1)]);
    assert_eq!(setting.counts(), (0, 1, 4, 4, 3));
}

// X9: renewed while the handler runs, with a limit.
#[test]
fn a_lease_is_renewed_while_the_handler_runs_up_to_its_limit() {
    let longest = LEASE * 2 + SECOND;
    for (times, taken) in [(60, false), (61, true)] {
        let setting = setting(1, lease().lease_renewed_up_to(longest));
        let (slow, _) = setting.takes("slow", vec![SECOND; times]);
        setting.takes("other", vec![]);
        setting.topic.publish(7).unwrap();
        slow.run(1);
        assert_eq!(setting.counts(), if taken { (0, 0, 1, 1, 1) } else { (1, 0, 0, 0, 0) });
        assert_eq!(setting.told().len(), usize::from(taken));
    }
}

// X36
#[test]
fn an_extension_says_until_when_and_is_refused_with_the_reason() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let run = |config: GroupConfig<u64>, act: fn(&Setting, &Group<u64>)| {
        let setting = Arc::new(setting(1, config));
        let (inner, group, noted) = (Arc::downgrade(&setting), setting.group.clone(), told.clone());
        let manual = Manual::new(1);
        let handler = move |record: &Record<'_, u64>| {
            act(&inner.upgrade().unwrap(), &group);
            let mut noted = noted.lock().unwrap();
            noted.push(record.extend(SECOND * 20).map_err(|error| error.by));
        };
        setting.group.member("m").run(&manual).subscribe(handler).unwrap();
        setting.topic.publish(1).unwrap();
        manual.run(1);
        told.lock().unwrap().pop().unwrap()
    };
    let renewed = || lease().lease_renewed_up_to(LEASE + SECOND * 5);
    assert_eq!(run(renewed(), |_, _| ()), Ok(LEASE), "never shorter");
    assert_eq!(run(renewed(), |setting, _| setting.clock.advance(SECOND * 12)), Ok(SECOND * 20));
    assert_eq!(run(renewed(), |setting, _| setting.clock.advance(SECOND * 20)), Ok(SECOND * 15), "the limit");
    assert_eq!(run(lease(), |setting, _| setting.clock.advance(SECOND * 20)), Ok(SECOND * 10), "without renewal");
    let fenced = Err::<Duration, _>;
    assert_eq!(run(lease(), |setting, _| setting.clock.advance(LEASE)), fenced(FencedBy::Expired));
    assert_eq!(run(lease(), |_, group| drop(group.seek(0, SeekTo::Earliest))), fenced(FencedBy::Seeked));
    assert_eq!(run(lease(), |_, group| assert!(group.delete())), fenced(FencedBy::Deleted));
    assert_eq!(run(GroupConfig::earliest(), |_, _| ()), Ok(Duration::MAX));
}

// Of a batch nobody knows which record it was.
#[test]
fn a_batch_that_is_kept_too_long_comes_again_one_by_one() {
    let setting = setting(1, lease());
    let (slow, clock) = (Manual::new(1), setting.clock.clone());
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let noted = sizes.clone();
    let handler = move |batch: &Batch<'_, u64>| {
        noted.lock().unwrap().push((batch.offset(), batch.len()));
        if batch.iter().any(|record| *record == 1) {
            clock.advance(LEASE);
        }
    };
    setting.group.member("slow").run(&slow).subscribe_batch(handler).unwrap();
    setting.topic.publish_batch(0..2).unwrap();
    for _ in 0..9 {
        slow.run(1);
    }
    assert_eq!(*sizes.lock().unwrap(), [(0, 2), (0, 1), (1, 1), (1, 1), (1, 1)]);
    assert_eq!(setting.counts(), (1, 1, 5, 5, 3), "two of the batch, and three times one");
}
