//! Rings and topics that lose by rule, and payloads that own memory: P12, P13 and P26.
use super::Scale;
use super::raw::{BROADCAST, R, pause};
use crate::exchange::{Load, Meanwhile, sending, sending_alone};
use crate::judge::Limit::{Nanos, Times};
use crate::judge::{Case, foundation, goal};
use crate::ours::ring;
use crate::ours::text::{self, Strings};
use crate::peers::broadcast;
use crate::rounds::{Contender, Who};

const ALONE: &str = "ringlog ring, exclusive, alone";
const READ: &str = "ringlog ring, exclusive, with a reader";
const STALLED: &str = "ringlog ring, exclusive, past a stalled reader";
const SHARED: &str = "ringlog ring, shared, one active";
const CROWD: &str = "ringlog ring, shared, claimed by exchange";
const DROPPED: &str = "ringlog ring, strings dropped on overwrite";
const REUSED: &str = "ringlog ring, strings reused in place";

/// Publishing to a ring that sheds, exclusive: what it costs the producer.
pub fn p12(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load::new(scale.messages, size);
        let to = |name, meanwhile| {
            Contender::new(Who::Ours, name, move || sending(&load, meanwhile, ring::lossy_exclusive(size)))
        };
        let contenders = vec![
            Contender::new(Who::Ours, ALONE, move || sending_alone(&load, ring::lossy_exclusive(size).0)),
            to(READ, Meanwhile::Reads),
            to(STALLED, Meanwhile::Sits),
        ];
        let mut bounds: Vec<_> = [ALONE, READ, STALLED].map(|name| foundation(name, Nanos(10.0))).into();
        bounds.extend([(ALONE, 3.0), (READ, 4.0), (STALLED, 3.5)].map(|(name, ns)| goal(name, Nanos(ns))));
        Case { title: format!("P12: lossy publish, exclusive, {size} slots, the producer's side"), contenders, bounds }
    };
    [8_192, 1_024].map(case).into()
}

/// Publishing to a ring that sheds, shared, with a reader.
pub fn p13(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load::new(scale.messages, size);
        let paused = Load { pause: pause(), ..load };
        let ours = |name, crowd| {
            Contender::new(Who::Ours, name, move || sending(&load, Meanwhile::Reads, ring::lossy_shared(size, crowd)))
        };
        let theirs = |name, load: Load| {
            Contender::new(Who::Broadcast, name, move || sending(&load, Meanwhile::Reads, broadcast::open(size)))
        };
        let contenders = vec![
            ours(SHARED, false),
            ours(CROWD, true),
            theirs("tokio broadcast", load),
            theirs("tokio broadcast, pausing", paused),
        ];
        let mut bounds: Vec<_> = [SHARED, CROWD].map(|name| foundation(name, Times(0.5, BROADCAST))).into();
        bounds.extend([SHARED, CROWD].map(|name| goal(name, Times(0.15, BROADCAST))));
        Case { title: format!("P13: lossy publish, shared, {size} slots, the producer's side"), contenders, bounds }
    };
    [8_192, 1_024].map(case).into()
}

/// Strings.
pub fn p26(scale: Scale) -> Vec<Case> {
    let load = Load::new(scale.messages, 8_192);
    let paused = Load { pause: pause(), ..load };
    let contenders = vec![
        Contender::new(Who::Ours, DROPPED, move || text::ours(&load, Strings::Dropped)),
        Contender::new(Who::Ours, REUSED, move || text::ours(&load, Strings::Reused)),
        Contender::new(Who::Rtrb, "rtrb in chunks", move || text::rtrb(&load)),
        Contender::new(Who::Rtrb, "rtrb in chunks, pausing", move || text::rtrb(&paused)),
    ];
    let bounds = vec![
        foundation(DROPPED, Times(0.6, R)),
        foundation(REUSED, Times(0.6, R)),
        goal(DROPPED, Times(0.45, R)),
        goal(REUSED, Times(0.15, R)),
    ];
    vec![Case { title: "P26: a string of 59 bytes each, 8,192 slots".into(), contenders, bounds }]
}
