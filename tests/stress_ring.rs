//! The ring under threads: every scenario writes a history and checks it. Built for ThreadSanitizer and
//! AddressSanitizer, so it is a plain `main` (libtest's own threads would need suppressions) and takes the payload
//! through the heap.
//!
//! `RINGLOG_STRESS=n` records per producer (1,000 unless said), `RINGLOG_STRESS_ONLY=text` the scenarios whose name has it,
//! `RINGLOG_SOAK_SECONDS` how long random rings shed (2), `RINGLOG_SOAK_SEED` where their dice begin.
//! `RINGLOG_STRESS_TWIN=1` runs a broken hand-over instead, which ThreadSanitizer must report.
#[path = "support/dice.rs"]
mod dice;
mod stress;
mod support;

use stress::{Scenario, Shape, Starts};

fn main() {
    if std::env::var_os("RINGLOG_STRESS_TWIN").is_some() {
        return stress::twin::relaxed_publish();
    }
    let records = number("RINGLOG_STRESS").unwrap_or(1_000);
    let _watch = stress::watchdog(600 + soak_seconds());
    // The collector of old lists of gates is made by the first who needs it, under a lock of the prebuilt standard library,
    // which ThreadSanitizer cannot see into: so by this thread, before there are others.
    stress::run(&Scenario { records: 1, ..Scenario::default() });
    let only = std::env::var("RINGLOG_STRESS_ONLY").unwrap_or_default();
    let wanted = |name: &str| name.contains(&only);
    for (name, scenario) in scenarios(records).into_iter().filter(|(name, _)| wanted(name)) {
        let (started, name) = (std::time::Instant::now(), format!("{name}, capacity {}", scenario.capacity));
        let (published, delivered, missed) = stress::run(&scenario);
        println!(
            "stress {name}: {published} published, {delivered} delivered, {missed} missed, {:.1?}",
            started.elapsed()
        );
    }
    if wanted("hand-overs") {
        hand_overs(records);
    }
    if wanted("soak") {
        soak(records);
    }
    histories_that_are_no_logs_are_refused();
    println!("test result: ok. every history was a log");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn soak_seconds() -> u64 {
    number("RINGLOG_SOAK_SECONDS").unwrap_or(2)
}

/// B-18, C-2: dense offsets, order per producer, joining while others publish, one order for all.
fn scenarios(records: u64) -> Vec<(&'static str, Scenario)> {
    let base = Scenario { records, ..Scenario::default() };
    let mut all = Vec::new();
    for capacity in [1, 2, 3, 4, 7, 64, 1_000] {
        let base = Scenario { capacity, ..base };
        let shed = Scenario { lossy: true, groups: 0, lapped: 1, holders: 1, leavers: 1, ..base };
        all.extend([
            ("exclusive, one group", Scenario { shape: Shape::Exclusive, groups: 1, ..base }),
            ("exclusive, batches, two groups", Scenario { shape: Shape::Exclusive, batch: 3, groups: 2, ..base }),
            ("exclusive in place, one group", Scenario { shape: Shape::InPlace, groups: 1, ..base }),
            ("three producers, two groups", Scenario { producers: 3, groups: 2, ..base }),
            ("two producers in batches, one group", Scenario { producers: 2, batch: 2, groups: 1, ..base }),
            ("joiners and leavers", Scenario { producers: 2, groups: 1, churn: 1, ..base }),
            ("a reader that is lapped", Scenario { producers: 2, groups: 0, lapped: 2, ..base }),
            ("lapped by an exclusive producer", Scenario { shape: Shape::Exclusive, groups: 0, lapped: 1, ..base }),
            ("shed by two producers", Scenario { producers: 2, ..shed }),
            ("shed by an exclusive producer, batches", Scenario { shape: Shape::Exclusive, batch: 3, ..shed }),
            ("moved by another thread", Scenario { producers: 1, groups: 1, movers: 1, ..base }),
        ]);
    }
    let wrap = Scenario { first: u64::MAX - 100, capacity: 8, producers: 2, groups: 2, ..base };
    all.push(("across the end of u64", wrap));
    all.push(("across the 40th bit", Scenario { first: (1 << 40) - 100, ..wrap }));
    let sealed = Scenario { producers: 3, groups: 2, capacity: 5, seal_early: true, starts: Starts::Earliest, ..base };
    all.push(("sealed while producers run", sealed));
    all.push(("exclusive, sealed while it runs", Scenario { shape: Shape::Exclusive, producers: 1, ..sealed }));
    all
}

/// A shared ring is handed from thread to thread a few times in its life, and early: so many short lives of rings whose
/// producers begin together, two and three of them, to their end or sealed before it.
fn hand_overs(records: u64) {
    let (lives, started) = (records / 10, std::time::Instant::now());
    let base = Scenario { records: 20, groups: 1, lapped: 1, starts: Starts::Earliest, ..Scenario::default() };
    let (mut published, mut delivered) = (0, 0);
    for life in 0..lives {
        let (producers, capacity) = (2 + (life % 2) as u32, if life % 4 < 2 { 2 } else { 64 });
        let scenario = Scenario { producers, capacity, seal_early: life % 8 < 4, ..base };
        let (more, read, _) = stress::run(&scenario);
        (published, delivered) = (published + more, delivered + read);
    }
    println!(
        "stress hand-overs, {lives} rings: {published} published, {delivered} delivered, {:.1?}",
        started.elapsed()
    );
}

/// X27, A-46, B-15: rings that shed, in random shapes. Each reader accounts for every record, no producer is refused, and
/// memory keeps to its bound and settles.
fn soak(records: u64) {
    let seed = number("RINGLOG_SOAK_SEED").unwrap_or(1);
    println!("stress soak begins with RINGLOG_SOAK_SEED={seed}");
    let (time, started) = (std::time::Duration::from_secs(soak_seconds()), std::time::Instant::now());
    let (runs, published, delivered, missed) = stress::soak::run(seed, time, records.min(2_000));
    println!(
        "stress soak, {runs} rings: {published} published, {delivered} delivered, {missed} missed, {:.1?}",
        started.elapsed()
    );
}

/// The checker itself has to refuse what is no log.
fn histories_that_are_no_logs_are_refused() {
    use support::history::{Delivered, Published, Reading, check_log, check_reading, refuses};
    std::panic::set_hook(Box::new(|_| {}));
    let record = |producer, number, offset, called, returned| Published { producer, number, offset, called, returned };
    let good = vec![record(1, 0, 0, 0, 3), record(2, 0, 1, 1, 2), record(1, 1, 2, 4, 5)];
    let log = check_log(0, good.clone());
    refuses(|| check_log(0, vec![record(1, 0, 0, 0, 1), record(1, 1, 2, 2, 3)]));
    refuses(|| check_log(0, vec![record(1, 0, 0, 0, 1), record(2, 0, 0, 2, 3)]));
    refuses(|| check_log(0, vec![record(1, 1, 0, 0, 1), record(1, 0, 1, 2, 3)]));
    refuses(|| check_log(0, vec![record(1, 0, 0, 4, 5), record(2, 0, 1, 0, 1)]));
    let delivered = |offset, producer, number| Delivered { offset, producer, number };
    let all = vec![delivered(0, 1, 0), delivered(1, 2, 0), delivered(2, 1, 1)];
    let reading = |records: &[Delivered], gaps: &[(u64, u64)]| {
        let (records, gaps) = (records.to_vec(), gaps.to_vec());
        Reading { name: "test".into(), start: 0, end: 3, records, gaps }
    };
    check_reading(0, &log, &reading(&all, &[]));
    check_reading(0, &log, &reading(&all[2..], &[(0, 2)]));
    refuses(|| check_reading(0, &log, &reading(&all[1..], &[])));
    refuses(|| check_reading(0, &log, &reading(&all[..2], &[])));
    refuses(|| check_reading(0, &log, &reading(&[all[0], all[0], all[1], all[2]], &[])));
    refuses(|| check_reading(0, &log, &reading(&[all[0], delivered(1, 2, 7), all[2]], &[])));
    drop(std::panic::take_hook());
}
