//! What waits where the newest are dropped: who publishes puts clones there under the baton, and user code that panics there takes
//! nothing away from anybody but its own record.
#![cfg(ringlog_loom)]

mod clock;

use clock::handle;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally, must_fail};
use ringlog::internals::group::clones::{Found, Newest};
use ringlog::internals::log::{Log, LogConfig, Outlet, Retain, Timestamps};
use ringlog::internals::ring::{Gating, Producers, Start};
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::{no_points, passed, points};
use ringlog::internals::time::{ManualClock, Time};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

loom::thread_local! { static ME: Cell<u32> = Cell::new(0); }

/// A value, and who publishes it. The clone of 13 panics.
#[derive(Debug, PartialEq)]
struct Value {
    by: u32,
    n: u32,
}

impl Clone for Value {
    fn clone(&self) -> Self {
        if self.n == 13 {
            passed(if ME.with(Cell::get) == self.by { "panicked in its own hands" } else { "panicked in another's" });
            resume_unwind(Box::new("a clone"));
        }
        Value { ..*self }
    }
}

/// As an outlet: loom's `Arc` becomes a trait object only from a `std` one.
struct Shown<T>(Arc<Newest<T>>);

impl<T: Send + Sync + 'static> Outlet<T> for Shown<T> {
    fn offer(&self, at: Seq, value: &T, time: Option<u64>) {
        self.0.offer(at, value, time);
    }
}

/// Clones where it is told to, and lets what comes of it out.
struct Naked;

impl Outlet<Value> for Naked {
    fn offer(&self, _: Seq, value: &Value, _: Option<u64>) {
        drop(value.clone());
    }
}

fn outlet<T: 'static>(outlet: impl Outlet<T> + 'static) -> Arc<dyn Outlet<T>> {
    let outlet: std::sync::Arc<dyn Outlet<T>> = std::sync::Arc::new(outlet);
    Arc::from_std(outlet)
}

fn log<T: Send + Sync + 'static>(timestamps: Timestamps, clock: &Arc<ManualClock>) -> Arc<Log<T>> {
    let config = LogConfig::new(Capacity::new(4).unwrap(), Producers::Shared, Retain::Recent);
    let log = Log::new(LogConfig { timestamps, ..config }, handle(clock)).unwrap();
    log.ring().share();
    log
}

/// What waits for so many.
fn newest<T: Clone + Send + Sync + 'static>(log: &Arc<Log<T>>, most: usize) -> Arc<Newest<T>> {
    let newest = Arc::new(Newest::of_clones(most, T::clone, log.has_times()));
    log.show_to(outlet(Shown(newest.clone())));
    newest.begin(&log.join(Start::End, 1));
    newest
}

/// As who appends, without the barrier of telling those who sleep, which would order more than the baton does.
fn publisher(log: &Arc<Log<Value>>, by: u32, values: &'static [u32]) -> thread::JoinHandle<()> {
    let log = log.clone();
    thread::spawn(move || {
        ME.with(|me| me.set(by));
        for n in values {
            let at = log.ring().try_push_from(&mut Some(Value { by, n: *n })).unwrap();
            // A panic that is let out is the thread's own affair: what is asked is who has the baton then.
            let _ = catch_unwind(AssertUnwindSafe(|| log.hand_out(at.plus(1), true)));
        }
    })
}

/// All that has been published has been shown, once somebody comes by where work was left.
fn all_shown(log: &Log<Value>, records: u64) {
    if log.has_undone() {
        log.hand_out(log.end(), true);
    }
    assert_eq!((log.shown(), log.end()), (Seq::new(records), Seq::new(records)), "records that nobody was shown");
}

fn take_all<T: std::fmt::Debug + Send + Sync + 'static>(log: &Log<T>, newest: &Newest<T>) -> Vec<(u64, T)> {
    std::iter::from_fn(|| match newest.take(Seq::ZERO, log) {
        Found::One(waiting) => Some((waiting.at.get(), waiting.value)),
        Found::Nothing => None,
        Found::NotYet => panic!("not decided, though everybody has gone"),
    })
    .collect()
}

// C-11, C-13, C-35: the record whose clone panics is missing there, and no other; whoever has the baton goes on, and gives it back.
#[test]
fn a_clone_that_panics_under_the_baton_takes_its_own_record_away_and_no_other() {
    let outcomes =
        &["panicked in its own hands", "panicked in another's", "left to the holder", "round again", "left undone"];
    Model::new("a clone that panics").preemptions(1).at_least(200).run(outcomes, |tally| {
        no_points();
        let log = log(Timestamps::Off, &Arc::new(ManualClock::new()));
        let newest = newest(&log, 3);
        let publishers = [publisher(&log, 1, &[13, 10]), publisher(&log, 2, &[20])];
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        outcomes.iter().filter(|outcome| points().contains(outcome)).for_each(|outcome| tally.saw(outcome));
        all_shown(&log, 3);
        let taken = take_all(&log, &newest);
        let mut values: Vec<u32> = taken.iter().map(|(_, value)| value.n).collect();
        values.sort_unstable();
        assert_eq!((values, newest.put()), (vec![10, 20], 2));
        assert!(taken.is_sorted_by_key(|(at, _)| *at), "in order: {taken:?}");
    });
}

#[test]
fn a_panic_that_is_let_out_keeps_the_baton() {
    must_fail("a_panic_that_is_let_out_keeps_the_baton", 1, "records that nobody was shown", |_| {
        let log = log(Timestamps::Off, &Arc::new(ManualClock::new()));
        log.show_to(outlet(Naked));
        let publishers = [publisher(&log, 1, &[13]), publisher(&log, 2, &[20])];
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        all_shown(&log, 2);
    });
}

/// Publishes 1 and 2 at the times 1 and 2.
fn timed_publisher(log: &Arc<Log<u64>>, clock: &Arc<ManualClock>) -> thread::JoinHandle<()> {
    let (log, clock) = (log.clone(), clock.clone());
    thread::spawn(move || {
        for n in 1..=2 {
            clock.advance(Duration::from_nanos(1));
            log.try_append(n).unwrap();
        }
    })
}

// C-26: since when the oldest waits is said of the one that does, also while it is being put there.
#[test]
fn the_time_of_what_waits_is_that_of_the_record_that_does() {
    fn nothing_or(tally: &Tally, oldest: Option<Time>, names: [&'static str; 3]) {
        let known = [None, Some(Time::from_nanos(1)), Some(Time::from_nanos(2))];
        let which = known.iter().position(|time| *time == oldest);
        tally.saw(which.map_or_else(|| panic!("a time of no record: {oldest:?}"), |which| names[which]));
    }
    let outcomes = &["nothing", "the first", "took the first", "nothing then", "the second"];
    Model::new("the time of what waits").preemptions(2).at_least(200).cut_at(25_000).run(outcomes, |tally| {
        let clock = Arc::new(ManualClock::new());
        let log = log(Timestamps::Exact, &clock);
        let newest = newest(&log, 1);
        let publisher = timed_publisher(&log, &clock);
        let taker = {
            let (log, newest, tally) = (log.clone(), newest.clone(), tally.clone());
            thread::spawn(move || {
                let oldest = newest.oldest();
                assert_ne!(oldest, Some(Time::from_nanos(2)), "there is one before that");
                nothing_or(&tally, oldest, ["nothing", "the first", "the second"]);
                if let Found::One(first) = newest.take(Seq::ZERO, &log) {
                    assert_eq!((first.at, first.value), (Seq::ZERO, 1));
                    tally.saw("took the first");
                    let oldest = newest.oldest();
                    assert_ne!(oldest, Some(Time::from_nanos(1)), "that one does not wait any more");
                    nothing_or(&tally, oldest, ["nothing then", "the first", "the second"]);
                }
            })
        };
        publisher.join().unwrap();
        taker.join().unwrap();
    });
}

// C-13, C-32: the figures, put together as a lane does it: nothing is said to be lost that only went from one number to another.
#[test]
fn nothing_is_said_to_be_lost_while_clones_are_put_taken_and_done_with() {
    let outcomes = &["nothing waits yet", "waits, and is shown", "waits, and is not shown yet", "done with"];
    Model::new("figures of clones").preemptions(1).at_least(100).run(outcomes, |tally| {
        let log = log::<u64>(Timestamps::Off, &Arc::new(ManualClock::new()));
        let newest = Arc::new(Newest::of_clones(2, u64::clone, false));
        log.show_to(outlet(Shown(newest.clone())));
        let gate = log.admit(Start::End, 1, Some(Gating::Follows));
        newest.begin(&gate);
        let publisher = {
            let log = log.clone();
            thread::spawn(move || {
                for n in 0..2 {
                    let at = log.ring().try_push_from(&mut Some(n)).unwrap();
                    log.hand_out(at.plus(1), true);
                }
            })
        };
        let taker = {
            let (log, newest, gate) = (log.clone(), newest.clone(), gate.clone());
            thread::spawn(move || {
                if let Found::One(first) = newest.take(Seq::ZERO, &log) {
                    gate.commit(0, first.at, first.at.plus(1)).unwrap();
                    newest.done_with(first);
                }
            })
        };
        let asker = {
            let (log, newest, tally) = (log.clone(), newest.clone(), tally.clone());
            thread::spawn(move || {
                let done = newest.done();
                let end = log.end();
                let committed = gate.position();
                let end = end.later(committed);
                let shown = log.shown();
                let put = newest.put();
                let kept = put.saturating_sub(done) + end.lag_behind(shown);
                assert!(
                    end.since(committed) <= kept,
                    "lost: {committed}..{end}, {put} put, {done} done, shown {shown}"
                );
                tally.saw(match (done, put, shown.get()) {
                    (0, 0, 0) => "nothing waits yet",
                    (0, put, shown) if put == shown => "waits, and is shown",
                    (0, _, _) => "waits, and is not shown yet",
                    _ => "done with",
                });
            })
        };
        [publisher, taker, asker].into_iter().for_each(|actor| actor.join().unwrap());
    });
}
