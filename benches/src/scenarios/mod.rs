//! The scenarios, by the ids their targets have.
use crate::judge::Case;

pub mod base;
pub mod groups;
pub mod latency;
pub mod loss;
pub mod pool;
pub mod raw;
pub mod whole;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Messages in one timed exchange.
    pub messages: u64,
}

/// A scenario: its id, what it asks, and its tables.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The id its targets have.
    pub id: &'static str,
    /// What it measures.
    pub title: &'static str,
    /// Its tables at this scale.
    pub cases: fn(Scale) -> Vec<Case>,
}

/// Every scenario, in the order of the ids.
pub fn all() -> Vec<Scenario> {
    let scenario = |id, title, cases| Scenario { id, title, cases };
    vec![
        scenario("base", "the harness itself: what the loops cost with nothing between them", base::cases),
        scenario("P1", "raw ring, exclusive producer, one by one, 65,536", raw::p1),
        scenario("P2", "the same, 8,192 and 1,024", raw::p2),
        scenario("P3", "the same, producer with 5 ns of work", raw::p3),
        scenario("P4", "raw ring, batches of 16 and 64", raw::p4),
        scenario("P5", "raw ring, shared producers, one active", raw::p5),
        scenario("P6", "raw ring, 4 shared producers", raw::p6),
        scenario("P7", "whole path, exclusive producer", whole::p7),
        scenario("P8", "whole path, producer with 5 ns of work", whole::p8),
        scenario("P9", "whole path, shared producers, one active", whole::p9),
        scenario("P10", "whole path, batches of 16 over 4 partitions", whole::p10),
        scenario("P11", "whole path, fan-out to many groups on one worker", whole::p11),
        scenario("P12", "publish to a ring that sheds its oldest records, exclusive", loss::p12),
        scenario("P13", "the same, shared producers, against tokio broadcast", loss::p13),
        scenario("P15", "round trip, spinning", latency::p15),
        scenario("P16", "one way at 1 million a second, spinning", latency::p16),
        scenario("P17", "one way at a pace, parking", latency::p17),
        scenario("P18", "cold wake of a parked consumer", latency::p18),
        scenario("P20", "many topics of one member each, on a pool", pool::p20),
        scenario("P21", "publish to one topic with many members that rest", pool::p21),
        scenario("P23", "whole path, polled in batches", groups::p23),
        scenario("P24", "members that compete: claim and acknowledge, in runs", groups::p24),
        scenario("P26", "strings: dropped on overwrite, reused in place", loss::p26),
        scenario("P27", "one core for everything (run under taskset -c 0)", raw::p27),
    ]
}
