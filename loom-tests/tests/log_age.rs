//! Ages: whoever asks finds the line where the clock has it, no record escapes it, and what is in hand stays.
#![cfg(ringlog_loom)]

mod clock;

use std::time::Duration;

use clock::handle;
use loom::{sync::Arc, thread};
use loom_tests::Model;
use ringlog::internals::{
    log::{Log, LogConfig, LogProducer, Read, Retain},
    ring::{Producers, Start},
    seq::{Capacity, Seq},
    sync::{explore, no_points, points},
    time::{ManualClock, Time},
};

const AGE: u64 = 10;

struct Aged {
    log: Arc<Log<u64>>,
    pen: LogProducer<u64>,
    clock: Arc<ManualClock>,
}

/// A partition with one record of time 100, and the clock where that is too old.
fn aged(capacity: usize) -> Aged {
    no_points();
    let (clock, capacity) = (Arc::new(ManualClock::new()), Capacity::new(capacity).unwrap());
    let config = LogConfig::new(capacity, Producers::Exclusive, Retain::Recent);
    let config = LogConfig { max_age: Some(Duration::from_nanos(AGE)), ..config };
    let log = Log::new(config, handle(&clock)).unwrap();
    let mut pen = LogProducer::new(&log).unwrap();
    clock.set(Time::from_nanos(100));
    pen.try_append(0).unwrap();
    Aged { log, pen, clock }
}

fn expire(log: &Arc<Log<u64>>) -> thread::JoinHandle<()> {
    let log = log.clone();
    thread::spawn(move || log.expire())
}

#[test]
fn who_finds_nothing_due_finds_the_line_where_it_belongs() {
    Model::new("line against look").run(&["looked itself", "nothing due"], |tally| {
        let Aged { log, clock, .. } = aged(1);
        clock.set(Time::from_nanos(100 + AGE + 1));
        let line = expire(&log);
        let asking = {
            let (log, tally) = (log.clone(), tally.clone());
            thread::spawn(move || {
                assert_eq!(log.earliest(), Seq::new(1), "a record that is too old");
                tally.saw(if points().contains(&"due") { "looked itself" } else { "nothing due" });
            })
        };
        line.join().unwrap();
        asking.join().unwrap();
        assert_eq!(log.counts().expired, 1);
    });
}

/// The last look finds nothing that could become too old, while a record comes.
#[test]
fn no_record_comes_unnoticed_while_the_partition_empties() {
    Model::new("line against append").run(&["lowered", "came meanwhile", "seen at once"], |tally| {
        let Aged { log, mut pen, clock } = aged(2);
        clock.set(Time::from_nanos(100 + AGE + 1));
        no_points();
        let line = expire(&log);
        // The clock of its call: what came in before is stored late.
        let append = thread::spawn(move || {
            pen.try_append(1).unwrap();
        });
        line.join().unwrap();
        append.join().unwrap();
        let way = |point| points().contains(&point);
        tally.saw(match () {
            () if way("came meanwhile") => "came meanwhile",
            () if way("lowered") => "lowered",
            () => "seen at once",
        });
        assert_eq!(log.next_expiry(), Some(Time::from_nanos(100 + 2 * AGE + 2)), "nobody will look for it");
        assert_eq!((log.earliest(), log.counts().expired), (Seq::new(1), 1));
    });
}

/// A group has never moved; its record becomes too old and its place is written again while it takes it.
#[test]
fn what_a_group_took_in_time_stays_while_its_place_is_written_again() {
    Model::new("line against take").at_least(100).run(&["in hand", "gap"], |tally| {
        let Aged { log, mut pen, clock } = aged(1);
        let gate = log.join(Start::At(Seq::ZERO), 1);
        let producer = {
            let clock = clock.clone();
            thread::spawn(move || {
                clock.set(Time::from_nanos(100 + AGE + 1));
                pen.try_append(1).expect("a record that is too old holds nobody back");
            })
        };
        let group = {
            let (log, gate, tally) = (log.clone(), gate.clone(), tally.clone());
            thread::spawn(move || {
                let mut reader = log.reader(Seq::ZERO);
                match log.read(&mut reader, 1) {
                    Read::Ready(run) => {
                        explore();
                        assert_eq!((*run.get(0), run.time(0)), (0, 100), "overwritten in hand");
                        tally.saw("in hand");
                    }
                    Read::Gap(gap) => {
                        assert_eq!((gap.from, gap.to, gap.expired), (Seq::ZERO, Seq::new(1), 1));
                        log.pass(&gate, 0, &gap).unwrap();
                        tally.saw("gap");
                    }
                    Read::Pending => panic!("it was there before anybody began"),
                }
            })
        };
        producer.join().unwrap();
        group.join().unwrap();
        assert_eq!((log.earliest(), log.end()), (Seq::new(1), Seq::new(2)));
        assert_eq!(log.counts().expired, 1);
    });
}
