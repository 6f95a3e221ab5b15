//! The states, one by one.
#![forbid(unsafe_code)]

use super::past::ENDS;
use super::{Cause, Cursor, FencedBy, Flight, Refusal, Ticket};
use crate::group::{Failure, MemberId, Retry};
use crate::seq::Seq;
use crate::time::Time;
use std::time::Duration;

fn at(committed: u64, epoch: u32) -> Cursor {
    Cursor { committed: Seq::new(committed), epoch }
}

fn seq(offset: u64) -> Seq {
    Seq::new(offset)
}

/// Two batches out: 0..2 and 2..5.
fn two() -> (Flight, Ticket, Ticket) {
    let mut flight = Flight::default();
    flight.open(MemberId::new(1).unwrap(), at(0, 7), 0, None, 0, &Retry::never());
    let one = flight.hand_out(seq(2), at(0, 7), None);
    let two = flight.hand_out(seq(5), at(0, 7), None);
    (flight, one, two)
}

// B-3, B-16
#[test]
fn only_what_is_in_flight_is_acknowledged() {
    let (mut flight, one, two) = two();
    assert_eq!(flight.in_flight(seq(0)), Some(0..5));
    assert_eq!(flight.may_ack(seq(6), at(0, 7)), Err(Refusal::NotInFlight(Some(0..5))), "never handed out");
    flight.may_ack(seq(2), at(0, 7)).unwrap();
    drop(flight.acked(seq(2)));
    assert_eq!(flight.may_ack(seq(2), at(2, 7)), Err(Refusal::NotInFlight(Some(2..5))), "done already");
    assert_eq!(flight.is_current(one, at(2, 7)), Err(FencedBy::AlreadyAcked));
    assert_eq!(flight.is_current(two, at(2, 7)), Ok(()));
    drop(flight.acked(seq(5)));
    assert_eq!(flight.may_ack(seq(8), at(5, 7)), Err(Refusal::NotInFlight(None)));
    assert!(flight.is_idle(at(5, 7)));
}

#[test]
fn the_last_batch_goes_back_in_its_epoch_and_an_earlier_one_ends_it() {
    let (mut flight, one, two) = two();
    flight.rewind(seq(2), at(0, 7), FencedBy::Rewound, || panic!("no need for a new epoch"));
    assert_eq!((flight.next(), flight.epoch()), (seq(2), 7));
    let again = flight.hand_out(seq(5), at(0, 7), None);
    assert_eq!(again, two);
    flight.hand_out(seq(6), at(0, 7), None);
    flight.rewind(seq(2), at(0, 7), FencedBy::Rewound, || 8);
    assert_eq!((flight.next(), flight.epoch()), (seq(0), 8), "nobody can settle the first one any more");
    assert_eq!(flight.is_current(two, at(0, 8)), Err(FencedBy::Rewound));
    assert_eq!(flight.is_current(one, at(0, 8)), Err(FencedBy::Rewound));
}

// B-8
#[test]
fn a_lease_is_over_from_its_deadline_on_and_all_of_it_comes_again() {
    let (mut flight, _, _) = two();
    let deadline = Time::ZERO.after(Duration::from_secs(30));
    let three = flight.hand_out(seq(6), at(0, 7), Some((Time::ZERO, Duration::from_secs(30))));
    assert!(!flight.is_over(at(0, 7), Time::ZERO.after(Duration::from_secs(29))));
    assert!(flight.is_over(at(0, 7), deadline));
    assert_eq!(flight.rewind_all(at(1, 7), FencedBy::Expired, || 8), 1..6);
    assert!(!flight.is_over(at(1, 8), deadline), "once");
    assert_eq!(flight.is_current(three, at(1, 8)), Err(FencedBy::Expired));
}

// B-E2
#[test]
fn a_record_on_its_last_attempt_is_alone_and_then_it_is_spent() {
    let (mut flight, _, _) = two();
    let retry = Retry::constant(2, Duration::ZERO);
    assert_eq!(flight.limit(9, &Retry::never(), Time::ZERO), 1);
    assert_eq!(flight.fail(3..4, Cause::Nacked, &retry, |_| None).0, 1);
    flight.rewind(seq(2), at(2, 7), FencedBy::Rewound, || unreachable!());
    assert_eq!(flight.limit(9, &retry, Time::ZERO), 1, "2, which comes before it");
    flight.hand_out(seq(3), at(0, 7), None);
    assert_eq!((flight.limit(9, &retry, Time::ZERO), flight.limit(9, &Retry::never().unlimited(), Time::ZERO)), (1, 9));
    flight.hand_out(seq(4), at(0, 7), None);
    assert_eq!(flight.fail(3..4, Cause::Failed(Failure::new("no")), &retry, |_| None).0, 0);
    flight.rewind(seq(3), at(2, 7), FencedBy::Rewound, || unreachable!());
    assert!(flight.next_is_spent());
    assert!(flight.take_spent(at(2, 7)).is_none(), "what is before it comes first");
    drop(flight.acked(seq(3)));
    let (cause, times) = flight.take_spent(at(3, 7)).unwrap();
    assert_eq!((cause.into_failure().message().as_str(), times), ("no", 2));
    assert!(flight.busy && !flight.is_idle(at(3, 7)));
}

#[test]
fn of_an_ack_that_comes_too_late_those_records_count_that_were_not_done_in_time() {
    let refused = |flight: &mut Flight, ticket: Ticket, to: u64| {
        let before = flight.refused;
        flight.refuse(ticket, seq(to));
        flight.refused - before
    };
    let (mut flight, one, two) = two();
    drop(flight.acked(seq(3)));
    assert_eq!((refused(&mut flight, one, 2), refused(&mut flight, one, 1)), (0, 0), "acknowledged with the other");
    flight.rewind_all(at(3, 7), FencedBy::Expired, || 8);
    assert_eq!((refused(&mut flight, two, 5), refused(&mut flight, two, 4), refused(&mut flight, two, 3)), (2, 1, 0));
    let again = flight.hand_out(seq(5), at(3, 8), None);
    drop(flight.acked(seq(4)));
    drop(flight.moved(8, at(0, 9), FencedBy::Seeked));
    assert_eq!((refused(&mut flight, again, 5), refused(&mut flight, two, 5), refused(&mut flight, one, 2)), (1, 2, 0));
    // All is done when a lane is let go, whatever becomes of it in other hands.
    let last = flight.hand_out(seq(2), at(0, 9), None);
    drop(flight.acked(seq(2)));
    flight.close();
    drop(flight.moved(30, at(0, 31), FencedBy::Seeked));
    assert_eq!(refused(&mut flight, last, 2), 0);
}

#[test]
fn what_was_given_up_is_known_as_such() {
    let (mut flight, _, two) = two();
    flight.rewind_all(at(4, 7), FencedBy::Rewound, || 8);
    drop(flight.buried(seq(5)));
    assert_eq!(flight.is_current(two, at(5, 8)), Err(FencedBy::Buried));
}

#[test]
fn who_moves_the_cursor_makes_everything_void() {
    let (mut flight, one, _) = two();
    flight.fail(0..5, Cause::Expired, &Retry::never(), |_| None);
    assert!(flight.follow(at(0, 7), FencedBy::Seeked).is_empty());
    assert_eq!(flight.follow(at(9, 8), FencedBy::Seeked).len(), 5);
    assert_eq!((flight.next(), flight.failures_of(seq(3)), flight.in_flight(seq(9))), (seq(9), 0, None));
    assert_eq!(flight.is_current(one, at(9, 8)), Err(FencedBy::Seeked));
}

#[test]
fn why_epochs_ended_is_kept_for_the_last_ones() {
    let (mut flight, one, _) = two();
    for epoch in 8..8 + ENDS as u32 {
        flight.rewind_all(at(0, epoch), FencedBy::Expired, || epoch);
    }
    assert_eq!(flight.is_current(one, at(0, 8 + ENDS as u32 - 1)), Err(FencedBy::Expired));
    flight.rewind_all(at(0, 99), FencedBy::Expired, || 99);
    assert_eq!(flight.past.ends(), ENDS);
}
