//! The twin on its own: it has to keep the promises before it may judge anybody.

use crate::model::Twin;
use crate::ops::{Act, From, Keep, Setup, To};
use crate::parts::{Answer, Call, Group};

fn twin(partitions: u32, capacity: u64, keep: Keep) -> Twin {
    Twin::new(Setup { partitions, capacity, keep, exclusive: false, attempts: 3, backoff: 1, letters: 2, seed: 0 })
}

fn call(twin: &Twin, offset: u64, attempt: u32, act: Act) -> Call {
    let serials = vec![twin.logs[0].serials[offset as usize]];
    Call { group: 0, member: "m".into(), partition: 0, offset, attempt, serials, act, published: None }
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
    backlog.add_group(0, From::Earliest);
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
    twin.add_group(0, From::Earliest);
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
    twin.add_group(0, From::Earliest);
    twin.publish(0, &[7, 8, 9]);
    assert_eq!(twin.seek(0, 0, To::Offset(u64::MAX)), 3);
    assert_eq!(twin.seek(0, 0, To::Offset(1)), 1);
    let books = twin.groups[&0].lanes[0].books(3);
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
