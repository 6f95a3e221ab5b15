//! What a handler says as it was told to, and what the real broker's answers are in the twin's words.

use crate::ops::Act;
use crate::parts::Answer;
use crate::real::Event;
use ringlog::{BatchOutcome, Failure, IntoBatchOutcome, Outcome, PublishError};
use std::time::Duration;

pub(crate) fn outcome(act: Act) -> Outcome {
    match act {
        Act::Ack | Act::Publish { .. } => Outcome::Ack,
        Act::Fail | Act::FailAt(_) => Outcome::Retry(Failure::of_kind("error", "as planned")),
        Act::Panic => std::panic::resume_unwind(Box::new("as planned")),
        Act::Reject => Outcome::Reject(Failure::of_kind("reject", "as planned")),
        Act::RetryAfter(millis) => {
            Outcome::RetryAfter(Duration::from_millis(millis), Failure::of_kind("error", "as planned"))
        }
    }
}

/// Of a batch, a plain failure and a panic name no record.
pub(crate) fn batch_outcome(act: Act, len: usize) -> BatchOutcome {
    match act {
        Act::Ack | Act::Publish { .. } => ().into_batch_outcome(),
        Act::Fail => Err::<(), _>("as planned").into_batch_outcome(),
        Act::FailAt(n) => BatchOutcome::after(n as usize % len, outcome(act)),
        Act::Panic | Act::Reject | Act::RetryAfter(_) => BatchOutcome::after(0, outcome(act)),
    }
}

pub(crate) fn answer(serial: u64, published: Result<ringlog::Published, PublishError<Event>>) -> (Option<u32>, Answer) {
    match published {
        Ok(stored) => (Some(stored.partition()), Answer::Stored { offset: stored.offset(), kept: stored.kept }),
        Err(error) => {
            let (event, why) = error.split();
            assert_eq!(event.serial, serial, "another event came back");
            let partition = why.full().map(|full| full.partition);
            (partition, refusal(&why))
        }
    }
}

pub(crate) fn refusal(why: &PublishError<()>) -> Answer {
    match why {
        PublishError::Full { full, .. } => {
            let group = full.limiting.as_ref().map(|limiting| limiting.group[1..].parse().expect("a name we gave"));
            Answer::Full { limits: vec![group] }
        }
        PublishError::TooMany { .. } => Answer::TooMany,
        PublishError::Closed { .. } => Answer::Closed,
        other => panic!("refused for a reason that cannot be: {other}"),
    }
}
