//! Latencies: P15 to P18.
use std::time::Duration;

use ringlog::WaitPolicy;

use super::Scale;
use super::raw::{BEST, D, R};
use crate::judge::Limit::Times;
use crate::judge::{Case, foundation, goal};
use crate::latency::{Wake, cold_wake, paced, paced_parking, round_trip};
use crate::ours::{paced as whole, ring};
use crate::peers::{broadcast, channel, disruptor, spsc};
use crate::rounds::{Contender, Who};

const RING: &str = "ringlog ring, exclusive";
const WHOLE: &str = "ringlog whole path, balanced";
const SIZE: usize = 1_024;

/// Round trips.
pub fn p15(scale: Scale) -> Vec<Case> {
    let trips = scale.messages / 5;
    let eager = || {
        let (tx, rx) = ring::exclusive(SIZE);
        (tx, rx.eager())
    };
    let contenders = vec![
        Contender::new(Who::Ours, RING, move || round_trip(trips, eager(), eager())),
        Contender::new(Who::DisruptorSingle, "disruptor single", move || {
            round_trip(trips, disruptor::single(SIZE), disruptor::single(SIZE))
        }),
        Contender::new(Who::Rtrb, "rtrb", move || round_trip(trips, spsc::open(SIZE), spsc::open(SIZE))),
        Contender::new(Who::Crossbeam, "crossbeam-channel", move || {
            round_trip(trips, channel::open(SIZE), channel::open(SIZE))
        }),
        Contender::new(Who::Broadcast, "tokio broadcast", move || {
            round_trip(trips, broadcast::open(SIZE), broadcast::open(SIZE))
        }),
    ];
    let bounds = vec![foundation(RING, Times(1.3, D)), goal(RING, Times(1.0, BEST))];
    vec![Case { title: "P15: round trip, spinning, p50".into(), contenders, bounds }]
}

/// One way at a million a second.
pub fn p16(scale: Scale) -> Vec<Case> {
    let (n, gap) = (scale.messages / 5, Duration::from_micros(1));
    let contenders = vec![
        Contender::new(Who::Ours, RING, move || {
            let (tx, rx) = ring::exclusive(SIZE);
            paced(n, gap, (tx, rx.eager()))
        }),
        Contender::new(Who::Ours, WHOLE, move || whole::paced(n, gap, WaitPolicy::Balanced)),
        Contender::new(Who::DisruptorSingle, "disruptor single", move || paced(n, gap, disruptor::single(SIZE))),
        Contender::new(Who::Rtrb, "rtrb", move || paced(n, gap, spsc::open(SIZE))),
        Contender::new(Who::Crossbeam, "crossbeam-channel", move || paced(n, gap, channel::open(SIZE))),
        Contender::new(Who::Broadcast, "tokio broadcast", move || paced(n, gap, broadcast::open(SIZE))),
    ];
    let bounds = vec![
        foundation(RING, Times(2.0, R)),
        foundation(WHOLE, Times(2.0, R)),
        goal(RING, Times(1.0, R)),
        goal(WHOLE, Times(1.3, R)),
    ];
    vec![Case { title: "P16: one way at 1 million a second, spinning, p50".into(), contenders, bounds }]
}

/// One way at a pace, to a consumer that sleeps when nothing is there.
pub fn p17(scale: Scale) -> Vec<Case> {
    let case = |(micros, share): (u64, u64)| {
        let (n, gap) = (scale.messages / share, Duration::from_micros(micros));
        let contenders = vec![
            Contender::new(Who::Ours, WHOLE, move || whole::paced(n, gap, WaitPolicy::Balanced)),
            Contender::new(Who::Aside, "ringlog whole path, park", move || whole::paced(n, gap, WaitPolicy::Park)),
            Contender::new(Who::Crossbeam, "crossbeam-channel", move || paced_parking(n, gap, channel::open(SIZE))),
            Contender::new(Who::Broadcast, "tokio broadcast", move || paced_parking(n, gap, broadcast::open(SIZE))),
        ];
        let bounds = vec![foundation(WHOLE, Times(1.0, BEST)), goal(WHOLE, Times(1.0, BEST))];
        Case { title: format!("P17: one way every {micros} us, parking, p50"), contenders, bounds }
    };
    [(1, 10), (50, 250)].map(case).into()
}

/// The wake of a sleeper.
pub fn p18(_: Scale) -> Vec<Case> {
    let case = |(title, what): (&str, Wake)| {
        let contenders = vec![
            Contender::new(Who::Ours, WHOLE, move || whole::cold_wake(40, what)),
            Contender::new(Who::Crossbeam, "crossbeam-channel", move || cold_wake(40, channel::open(SIZE), what)),
            Contender::new(Who::Broadcast, "tokio broadcast", move || cold_wake(40, broadcast::open(SIZE), what)),
        ];
        let bounds = vec![foundation(WHOLE, Times(1.1, BEST)), goal(WHOLE, Times(1.0, BEST))];
        Case { title: title.to_owned(), contenders, bounds }
    };
    [
        ("P18: cold wake, p50 from send to handler", Wake::Latency),
        ("P18: cold wake, p50 of what the send costs", Wake::Cost),
    ]
    .map(case)
    .into()
}
