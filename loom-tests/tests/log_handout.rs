//! Handing out: every record is shown once and in order, whoever has the baton; who comes misses nothing from its door on.
#![cfg(ringlog_loom)]

mod clock;

use clock::handle;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use loom_tests::{Model, Tally};
use ringlog::internals::log::{Door, Log, LogConfig, Outlet, Retain};
use ringlog::internals::ring::Producers;
use ringlog::internals::seq::{Capacity, Seq};
use ringlog::internals::sync::{no_points, points};
use ringlog::internals::time::ManualClock;

/// Notes what it is shown, and whether it would take it, with no lock: the baton is its lock.
struct Notes {
    door: Door,
    shown: UnsafeCell<Vec<(u64, bool)>>,
}

// SAFETY: `shown` is touched by the holder of the baton alone, and at the end by the model: which is what is tested, by loom's cell.
unsafe impl Sync for Notes {}
// SAFETY: as above.
unsafe impl Send for Notes {}

/// As an outlet: loom's `Arc` becomes a trait object only from a `std` one.
struct Shown(Arc<Notes>);

impl Outlet<u32> for Shown {
    fn offer(&self, at: Seq, _: &u32, _: Option<u64>) {
        let let_in = self.0.door.lets_in(at);
        // SAFETY: the holder of the baton alone is here; loom says if not.
        self.0.shown.with_mut(|shown| unsafe { (*shown).push((at.get(), let_in)) });
    }
}

impl Notes {
    fn new() -> Arc<Self> {
        Arc::new(Notes { door: Door::default(), shown: UnsafeCell::new(Vec::new()) })
    }

    fn all(&self) -> Vec<(u64, bool)> {
        // SAFETY: everybody else has gone.
        self.shown.with(|shown| unsafe { (*shown).clone() })
    }
}

fn outlet(notes: &Arc<Notes>) -> Arc<dyn Outlet<u32>> {
    let outlet: std::sync::Arc<dyn Outlet<u32>> = std::sync::Arc::new(Shown(notes.clone()));
    Arc::from_std(outlet)
}

fn log() -> Arc<Log<u32>> {
    let clock = Arc::new(ManualClock::new());
    let config = LogConfig::new(Capacity::new(4).unwrap(), Producers::Shared, Retain::Recent);
    let log = Log::new(config, handle(&clock)).unwrap();
    log.ring().share();
    log
}

/// As who appends, without the barrier of telling those who sleep, which would order more than the baton does.
fn publish(log: &Log<u32>, value: u32) {
    let at = log.ring().try_push_from(&mut Some(value)).unwrap();
    log.hand_out(at.plus(1), true);
}

fn publisher(log: &Arc<Log<u32>>, values: &'static [u32]) -> thread::JoinHandle<()> {
    let log = log.clone();
    thread::spawn(move || values.iter().for_each(|value| publish(&log, *value)))
}

/// All is shown, unless somebody said that there is more; and then it is by whoever comes.
fn all_is_shown(log: &Log<u32>, notes: &Notes) {
    if log.has_undone() {
        log.hand_out(log.end(), true);
    }
    let shown: Vec<u64> = notes.all().iter().map(|(at, _)| *at).collect();
    assert_eq!(shown, (0..log.end().get()).collect::<Vec<_>>(), "in order, and none is left");
    assert_eq!((log.shown(), log.has_undone()), (log.end(), false));
}

fn say(tally: &Tally, outcomes: &'static [&'static str]) {
    outcomes.iter().filter(|outcome| points().contains(outcome)).for_each(|outcome| tally.saw(outcome));
}

#[test]
fn every_record_is_shown_once_and_in_order() {
    let outcomes = &["left to the holder", "round again", "left undone"];
    Model::new("handing out").preemptions(1).at_least(1_000).run(outcomes, |tally| {
        no_points();
        let (log, notes) = (log(), Notes::new());
        log.show_to(outlet(&notes));
        notes.door.settle(log.end());
        let publishers = [publisher(&log, &[10, 11]), publisher(&log, &[20])];
        publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
        say(tally, outcomes);
        all_is_shown(&log, &notes);
    });
}

// Who left the baton with work undone did not look who had come by meanwhile: whoever comes next sees what those published.
#[test]
fn what_was_left_undone_is_taken_up_by_whoever_comes_next() {
    let outcomes = &["left to the holder", "left undone", "taken up"];
    Model::new("left undone").preemptions(1).at_least(200).run(outcomes, |tally| {
        no_points();
        let (log, notes) = (log(), Notes::new());
        log.show_to(outlet(&notes));
        notes.door.settle(log.end());
        let one = {
            let (log, tally) = (log.clone(), tally.clone());
            thread::spawn(move || {
                publish(&log, 10);
                if log.has_undone() {
                    log.hand_out(log.end(), true);
                    tally.saw("taken up");
                }
            })
        };
        let other = publisher(&log, &[20, 21]);
        one.join().unwrap();
        other.join().unwrap();
        say(tally, &["left to the holder", "left undone"]);
        all_is_shown(&log, &notes);
    });
}

#[test]
fn who_comes_is_shown_everything_from_its_door_on() {
    Model::new("an outlet comes").preemptions(1).at_least(500).cut_at(25_000).run(
        &["from the start", "later", "left to the holder"],
        |tally| {
            no_points();
            let (log, notes) = (log(), Notes::new());
            // Somebody is there already, so that the baton is at work.
            log.show_to(outlet(&Notes::new()));
            let comes = {
                let (log, notes) = (log.clone(), notes.clone());
                thread::spawn(move || {
                    log.show_to(outlet(&notes));
                    notes.door.settle(log.end()).get()
                })
            };
            let appender = |value| {
                let log = log.clone();
                thread::spawn(move || log.try_append(value).map(drop).unwrap())
            };
            let publishers = [appender(10), appender(20)];
            publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
            let from = comes.join().unwrap();
            say(tally, &["left to the holder"]);
            if log.has_undone() {
                log.hand_out(log.end(), true);
            }
            tally.saw(if from == 0 { "from the start" } else { "later" });
            let taken: Vec<u64> = notes.all().into_iter().filter(|(_, let_in)| *let_in).map(|(at, _)| at).collect();
            assert_eq!(taken, (from..2).collect::<Vec<_>>(), "from {from} on");
        },
    );
}
