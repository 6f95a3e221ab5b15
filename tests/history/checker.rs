//! Judges the history of a run on real threads: cheap, exact, one sort and one pass for each question.
//!
//! Producers note every publish with the moments of its call and its return; handlers note every call. Moments come
//! from the monotonic clock and not from a shared counter, which would order the threads and so hide races.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

/// A publish that was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) producer: u32,
    pub(crate) n: u64,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) called: Instant,
    pub(crate) returned: Instant,
}

/// How a call of a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Acked,
    Failed,
    Rejected,
}

/// One call of a handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handled {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    pub(crate) producer: u32,
    pub(crate) n: u64,
    pub(crate) ended: Ended,
    pub(crate) begun: Instant,
    pub(crate) done: Instant,
}

/// All that is known about one lane (a group's reading of one partition) when everything has stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) start: u64,
    /// Where it stood at the end.
    pub(crate) committed: u64,
    pub(crate) calls: Vec<Handled>,
    /// Where each seek landed.
    pub(crate) landings: Vec<u64>,
    pub(crate) books: Books,
    /// The most records that may have been handled and not committed when a seek came.
    pub(crate) in_hand: u64,
    /// As many when a close did not wait for handlers, otherwise none.
    pub(crate) fenced: u64,
}

/// What the library says it did on one lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) acked: u64,
    pub(crate) dead: u64,
    pub(crate) replayed: u64,
    pub(crate) skipped: u64,
}

/// The first thing that is wrong with a history.
pub(crate) type Verdict = Result<(), String>;

macro_rules! hold {
    ($condition:expr, $($said:tt)+) => {
        if !$condition { return Err(format!($($said)+)); }
    };
}

/// Offsets are dense from zero to `end`; one producer's records keep its order; a publish that began after another had
/// returned has the higher offset. Returns who wrote what, by offset.
pub(crate) fn check_log(published: &[Published], end: u64) -> Result<Vec<(u32, u64)>, String> {
    let mut log: Vec<&Published> = published.iter().collect();
    log.sort_by_key(|record| record.offset);
    let mut last_of = HashMap::new();
    let mut latest_call: Option<&Published> = None;
    for (at, record) in log.iter().enumerate() {
        hold!(record.offset == at as u64, "offset {at} is missing or given twice: {record:?}");
        if let Some(before) = last_of.insert(record.producer, record.n) {
            hold!(before < record.n, "the records of producer {} swapped: {before} before {record:?}", record.producer);
        }
        if let Some(call) = latest_call {
            hold!(record.returned >= call.called, "{record:?} had returned before {call:?} was called");
        }
        if latest_call.is_none_or(|call| call.called < record.called) {
            latest_call = Some(record);
        }
    }
    hold!(log.len() as u64 == end, "the log ends at {end}, but {} publishes were accepted", log.len());
    Ok(log.iter().map(|record| (record.producer, record.n)).collect())
}

/// A lane was never run twice at once; it read in order, each record until it was acked, buried or out of attempts,
/// and jumped only to where a seek had landed; its books tell the same story.
pub(crate) fn check_lane(lane: &Lane, log: &[(u32, u64)], attempts: u32) -> Verdict {
    let mut calls: Vec<&Handled> = lane.calls.iter().collect();
    calls.sort_by_key(|call| call.begun);
    let mut landings: BTreeMap<u64, u32> = BTreeMap::new();
    lane.landings.iter().for_each(|at| *landings.entry(*at).or_default() += 1);
    let mut next = (lane.start, 1);
    let mut jumps = 0;
    for (i, call) in calls.iter().enumerate() {
        let wrote = log.get(call.offset as usize);
        hold!(wrote == Some(&(call.producer, call.n)), "{call:?}, but {wrote:?} was published there");
        hold!(i == 0 || calls[i - 1].done <= call.begun, "two calls at once: {:?} and {call:?}", calls[i - 1]);
        if (call.offset, call.attempt) != next {
            let landed = call.attempt == 1 && landings.contains_key(&call.offset);
            hold!(landed, "{call:?} came where {next:?} was due, and no seek landed there: {:?}", lane.landings);
            jumps += 1;
        }
        let given_up = call.ended == Ended::Failed && call.attempt < attempts;
        next = if given_up { (call.offset, call.attempt + 1) } else { (call.offset + 1, 1) };
    }
    hold!(jumps <= lane.landings.len(), "{jumps} jumps, but only {} seeks", lane.landings.len());
    if lane.landings.is_empty() {
        check_once(lane, &calls, attempts)?;
    }
    check_books(lane, &calls, log.len() as u64, attempts)
}

/// Without a seek: each record between start and committed was acked once or buried once.
fn check_once(lane: &Lane, calls: &[&Handled], attempts: u32) -> Verdict {
    let settled = calls.iter().filter(|call| call.ended != Ended::Failed || call.attempt == attempts);
    let mut seen = BTreeSet::new();
    for call in settled {
        hold!(seen.insert(call.offset), "settled twice: {call:?}");
    }
    let all = lane.committed - lane.start;
    let settled = seen.len() as u64;
    hold!(all <= settled && settled <= all + lane.fenced, "{settled} records settled, but the cursor moved over {all}");
    Ok(())
}

/// `(end - start) + replayed = acked + dead + skipped + pending`, and no more was booked than happened.
fn check_books(lane: &Lane, calls: &[&Handled], end: u64, attempts: u32) -> Verdict {
    let books = lane.books;
    hold!(lane.committed <= end, "committed {} of {end}", lane.committed);
    let came = end - lane.start + books.replayed;
    let went = books.acked + books.dead + books.skipped + (end - lane.committed);
    hold!(came == went, "{came} came and {went} went: {books:?}, start {}, at {}", lane.start, lane.committed);
    let acked = calls.iter().filter(|call| call.ended == Ended::Acked).count() as u64;
    let spent = |call: &&&Handled| call.ended == Ended::Failed && call.attempt == attempts;
    let buried = calls.iter().filter(|call| spent(call) || call.ended == Ended::Rejected).count() as u64;
    // A seek or a close may refuse the acks of what was in hand; nothing else may.
    let refused = lane.landings.len() as u64 * lane.in_hand + lane.fenced;
    hold!(books.acked <= acked && acked <= books.acked + refused, "{acked} acks, {books:?}, {refused} refused at most");
    hold!(
        books.dead <= buried && buried <= books.dead + refused,
        "{buried} buried, {books:?}, {refused} refused at most"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Books, Ended, Handled, Lane, Published, check_lane, check_log};
    use std::time::{Duration, Instant};

    fn moment(n: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_millis(n)
    }

    fn published(producer: u32, n: u64, offset: u64, called: u64, returned: u64) -> Published {
        Published { producer, n, partition: 0, offset, called: moment(called), returned: moment(returned) }
    }

    fn handled(offset: u64, attempt: u32, at: u64, ended: Ended) -> Handled {
        let (begun, done) = (moment(at), moment(at + 1));
        Handled { partition: 0, offset, attempt, producer: 0, n: offset, ended, begun, done }
    }

    /// Three records: acked, failed once and then acked, rejected.
    fn good() -> Lane {
        let calls = vec![
            handled(0, 1, 0, Ended::Acked),
            handled(1, 1, 2, Ended::Failed),
            handled(1, 2, 4, Ended::Acked),
            handled(2, 1, 6, Ended::Rejected),
        ];
        let books = Books { acked: 2, dead: 1, ..Books::default() };
        Lane { start: 0, committed: 3, calls, landings: Vec::new(), books, in_hand: 1, fenced: 0 }
    }

    const LOG: [(u32, u64); 3] = [(0, 0), (0, 1), (0, 2)];

    #[test]
    fn a_good_history_passes() {
        assert_eq!(check_lane(&good(), &LOG, 3), Ok(()));
        let log = [published(0, 0, 0, 0, 2), published(1, 0, 1, 1, 3), published(0, 1, 2, 4, 5)];
        assert!(check_log(&log, 3).is_ok());
    }

    #[test]
    fn broken_logs_are_told() {
        let first = published(0, 0, 0, 0, 1);
        let cases = [
            ("missing", vec![first, published(0, 1, 2, 2, 3)]),
            ("twice", vec![first, published(0, 1, 0, 2, 3)]),
            ("swapped", vec![published(0, 1, 0, 0, 5), published(0, 0, 1, 0, 5)]),
            ("before", vec![published(0, 0, 0, 4, 5), published(1, 0, 1, 0, 1)]),
        ];
        for (word, log) in cases {
            let said = check_log(&log, log.len() as u64).expect_err(word);
            assert!(said.contains(word), "{said}");
        }
        assert!(check_log(&[first], 2).is_err(), "a record that nobody published");
    }

    #[test]
    fn broken_lanes_are_told() {
        type Break = fn(&mut Lane);
        let breaks: [(&str, Break); 9] = [
            ("a record left out", |lane| lane.calls.truncate(3)),
            ("a record twice", |lane| lane.calls.push(handled(2, 1, 8, Ended::Acked))),
            ("the attempt forgotten", |lane| lane.calls[2].attempt = 1),
            ("two calls at once", |lane| lane.calls[1].done = moment(5)),
            ("another payload", |lane| lane.calls[0].n = 7),
            ("an ack not booked", |lane| lane.books.acked = 1),
            ("a letter not booked", |lane| lane.books.dead = 0),
            ("committed too little", |lane| lane.committed = 2),
            ("a replay made up", |lane| lane.books.replayed = 1),
        ];
        for (what, break_it) in breaks {
            let mut lane = good();
            break_it(&mut lane);
            assert!(check_lane(&lane, &LOG, 3).is_err(), "{what} went unseen");
        }
    }

    #[test]
    fn a_seek_explains_a_jump() {
        let mut lane = good();
        lane.calls.push(handled(1, 1, 8, Ended::Acked));
        lane.calls.push(handled(2, 1, 10, Ended::Acked));
        lane.books = Books { acked: 4, dead: 1, replayed: 2, skipped: 0 };
        assert!(check_lane(&lane, &LOG, 3).is_err());
        lane.landings.push(1);
        assert_eq!(check_lane(&lane, &LOG, 3), Ok(()));
    }
}
