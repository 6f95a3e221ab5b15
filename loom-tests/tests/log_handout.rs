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

fn publisher(log: &Arc<Log<u32>>, values: &'static [u32], tally: &Tally) -> thread::JoinHandle<()> {
    let (log, tally) = (log.clone(), tally.clone());
    thread::spawn(move || {
        for value in values {
            no_points();
            log.try_append(*value).unwrap();
            if points().contains(&"left to the holder") {
                tally.saw("left to the holder");
            }
            if points().contains(&"round again") && values.len() > 1 {
                tally.saw("round again");
            }
        }
    })
}

#[test]
fn every_record_is_shown_once_and_in_order() {
    Model::new("handing out").preemptions(2).at_least(1_000).cut_at(25_000).run(
        &["left to the holder", "round again"],
        |tally| {
            let (log, notes) = (log(), Notes::new());
            log.show_to(outlet(&notes));
            notes.door.settle(log.end());
            let publishers = [publisher(&log, &[10, 11], tally), publisher(&log, &[20], tally)];
            publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
            let shown = notes.all();
            assert_eq!(shown.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1, 2], "in order, and none is left");
            assert_eq!(log.shown(), Seq::new(3));
        },
    );
}

#[test]
fn who_comes_is_shown_everything_from_its_door_on() {
    Model::new("an outlet comes").preemptions(1).at_least(500).cut_at(25_000).run(
        &["from the start", "later", "left to the holder"],
        |tally| {
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
            let publishers = [publisher(&log, &[10], tally), publisher(&log, &[20], tally)];
            publishers.into_iter().for_each(|publisher| publisher.join().unwrap());
            let from = comes.join().unwrap();
            tally.saw(if from == 0 { "from the start" } else { "later" });
            let taken: Vec<u64> = notes.all().into_iter().filter(|(_, let_in)| *let_in).map(|(at, _)| at).collect();
            assert_eq!(taken, (from..2).collect::<Vec<_>>(), "from {from} on");
        },
    );
}
