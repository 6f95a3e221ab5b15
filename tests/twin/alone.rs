//! The twin on its own: it has to keep the promises before it may judge anybody.

use crate::model::Twin;
use crate::ops::{Act, From, Keep, Rule, Setup, To};
use crate::parts::{Answer, Call, Gap, Group};

fn plain(partitions: u32, capacity: u64, keep: Keep) -> Setup {
    let (drops, age, exclusive, timed) = (false, None, false, false);
    let (clones, sticky) = (true, false);
    Setup {
        partitions,
        capacity,
        keep,
        drops,
        age,
        exclusive,
        timed,
        attempts: 3,
        backoff: 1,
        letters: 2,
        clones,
        sticky,
        seed: 0,
    }
}

fn twin(partitions: u32, capacity: u64, keep: Keep) -> Twin {
    Twin::new(plain(partitions, capacity, keep))
}

fn call(twin: &Twin, offset: u64, attempt: u32, act: Act) -> Call {
    let serials = vec![twin.logs[0].serials[offset as usize]];
    Call {
        group: 0,
        member: "m".into(),
        partition: 0,
        offset,
        attempt,
        lost_before: 0,
        serials,
        act,
        redriven: false,
        published: None,
        inside: None,
    }
}

// B-V13
#[test]
fn the_twin_routes_by_its_own_crc32_and_by_turns() {
    let mut twin = twin(1 << 16, 1, Keep::Recent);
    assert_eq!(twin.route(Some(b'a')), 0xE8B7_BE43 & 0xFFFF);
    assert_eq!([twin.route(None), twin.route(None), twin.route(None)], [0, 1, 2]);
}

// A-T3, B-9, B-15, X2
#[test]
fn the_twin_keeps_a_backlog_or_nothing() {
    let mut backlog = twin(1, 2, Keep::Backlog);
    assert_eq!(backlog.publish(0, &[7, 8]), Answer::Stored { offset: 0, kept: true });
    assert_eq!(backlog.publish(0, &[9]), Answer::Full { limits: vec![None] });
    backlog.add_group(0, From::Earliest, Rule::Topic);
    assert_eq!(backlog.publish(0, &[9]), Answer::Full { limits: vec![Some(0)] });
    assert_eq!(backlog.books(0).pending, 2);
    let mut unacked = twin(1, 2, Keep::Unacked);
    assert_eq!(unacked.publish(0, &[7, 8]), Answer::Stored { offset: 0, kept: false });
    assert_eq!(unacked.publish(0, &[9]), Answer::Stored { offset: 2, kept: false });
    assert_eq!(unacked.publish(0, &[1, 2, 3]), Answer::TooLarge);
}

// A-T2, A-56, A-57
#[test]
fn the_twin_retries_then_buries_and_moves_on() {
    let mut twin = twin(1, 4, Keep::Recent);
    twin.add_group(0, From::Earliest, Rule::Topic);
    twin.publish(0, &[7, 8]);
    twin.groups.get_mut(&0).unwrap().members.push("m".into());
    twin.groups.get_mut(&0).unwrap().script(Act::Fail, 3);
    for attempt in 1..=3 {
        let failed = call(&twin, 0, attempt, Act::Fail);
        assert_eq!(twin.called(&failed), Ok(()));
        assert_eq!(twin.runnable().is_empty(), attempt < 3);
        assert!(attempt == 3 || twin.called(&call(&twin, 0, attempt + 1, Act::Fail)).is_err(), "too early");
        twin.advance(2);
    }
    assert_eq!(twin.groups[&0].letters[0].attempts, 3);
    let again = call(&twin, 0, 1, Act::Ack);
    assert!(twin.called(&again).is_err(), "a buried record came again");
}

// X33, A-17, A-67
#[test]
fn the_twin_clamps_seeks_and_books_them() {
    let mut twin = twin(1, 64, Keep::Recent);
    twin.add_group(0, From::Earliest, Rule::Topic);
    twin.publish(0, &[7, 8, 9]);
    assert_eq!(twin.seek(0, 0, To::Offset(u64::MAX)), 3);
    assert_eq!(twin.seek(0, 0, To::Offset(1)), 1);
    let books = twin.groups[&0].lanes[0].books(&twin.logs[0]);
    assert_eq!((books.skipped, books.replayed, books.pending), (3, 2, 2));
    assert_eq!(twin.observe_earliest(0, 1), Err("earliest of partition 0 is 1, promised is 0 to 0".into()));
}

//
#[test]
fn the_twin_deals_partitions_in_join_order() {
    let mut group = Group::default();
    assert_eq!(group.owner(0), None);
    group.members.extend(["a".to_owned(), "b".to_owned()]);
    assert_eq!([0, 1, 2].map(|p| group.owner(p).unwrap().as_str()), ["a", "b", "a"]);
}

fn lossy(capacity: u64, age: Option<u64>) -> Twin {
    Twin::new(Setup { drops: true, age, ..plain(1, capacity, Keep::Recent) })
}

// A-46, A-T14, X27
#[test]
fn the_twin_sheds_one_record_for_each_that_is_too_many() {
    let mut twin = lossy(2, None);
    twin.publish(0, &[7, 8]);
    assert_eq!(twin.publish(0, &[9]), Answer::Stored { offset: 2, kept: true });
    assert_eq!((twin.logs[0].earliest, twin.logs[0].dropped()), (1, 1), "no group: dropped");
    twin.add_group(0, From::Earliest, Rule::Topic);
    twin.group(0).members.push("m".into());
    assert_eq!(twin.called(&call(&twin, 1, 1, Act::Ack)), Ok(()));
    twin.publish(0, &[1, 2, 3].map(|n| n + 20)[..2]);
    assert_eq!((twin.logs[0].earliest, twin.logs[0].dropped()), (3, 2), "what was done is not dropped");
    let books = twin.books(0);
    assert_eq!((books.acked, books.skipped, books.pending), (1, 1, 2), "lost, though nobody has noticed");
    let gap = Gap { group: 0, partition: 0, from: 2, to: 3, overwritten: 1, expired: 0, dropped: 0, conflated: 0 };
    assert!(twin.lost(&Gap { to: 4, ..gap.clone() }).is_err());
    assert_eq!(twin.lost(&gap), Ok(()));
    assert!(twin.called(&call(&twin, 3, 1, Act::Ack)).is_err(), "it did not say what is missing before it");
    assert_eq!(twin.called(&Call { lost_before: 1, ..call(&twin, 3, 1, Act::Ack) }), Ok(()));
}

// A-51, A-T15
#[test]
fn the_twin_lets_go_of_what_is_strictly_too_old() {
    let mut twin = lossy(4, Some(10));
    twin.add_group(0, From::Earliest, Rule::Topic);
    twin.publish(0, &[7]);
    twin.advance(1);
    twin.publish(0, &[8, 9]);
    twin.advance(9);
    assert_eq!(twin.logs[0].earliest, 0, "exactly as old as allowed");
    twin.advance(1);
    assert_eq!((twin.logs[0].earliest, twin.logs[0].expired, twin.logs[0].dropped()), (1, 1, 0));
    twin.advance(100);
    assert_eq!((twin.books(0).expired, twin.books(0).pending), (3, 0));
}
