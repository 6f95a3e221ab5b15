//! The whole path against raw queues that do none of it: P7 to P11.
use super::Scale;
use super::raw::{D, peers, work};
use crate::exchange::Load;
use crate::judge::Limit::{Nanos, Times, TimesOwn};
use crate::judge::{Bound, Case, foundation, goal};
use crate::ours::whole::{self, ByCrc32, ByMultiply, Setup};
use crate::peers::disruptor;
use crate::rounds::{Contender, Who};

const CRC: &str = "ringlog whole path, exclusive, crc32";
const FAST: &str = "ringlog whole path, exclusive, multiplied";
const SHARED: &str = "ringlog whole path, shared, crc32";

fn exclusive(load: Load) -> Vec<Contender> {
    vec![
        Contender::new(Who::Ours, CRC, move || whole::exclusive(&load, Setup::default(), ByCrc32)),
        Contender::new(Who::Ours, FAST, move || whole::exclusive(&load, Setup::default(), ByMultiply)),
    ]
}

fn against_peers(title: &str, load: Load, mut contenders: Vec<Contender>, bounds: Vec<Bound>) -> Case {
    contenders.extend(peers(load));
    Case { title: title.to_owned(), contenders, bounds }
}

/// Exclusive, flat out.
pub fn p7(scale: Scale) -> Vec<Case> {
    let case = |(size, times): (usize, f64)| {
        let load = Load::new(scale.messages, size);
        let bounds = vec![
            foundation(CRC, Nanos(14.0)),
            goal(CRC, Times(times, D)),
            goal(CRC, Nanos(8.0)),
            goal(FAST, Nanos(6.0)),
        ];
        let title = format!("P7: whole path, exclusive producer, 4 partitions, {size} slots in all");
        against_peers(&title, load, exclusive(load), bounds)
    };
    [(65_536, 1.5), (8_192, 1.5), (1_024, 1.0)].map(case).into()
}

/// Exclusive, with work between messages.
pub fn p8(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load { work: work(), ..Load::new(scale.messages, size) };
        let bounds = vec![foundation(CRC, Times(0.5, D)), goal(CRC, Times(0.25, D))];
        let title = format!("P8: whole path, 5 ns of work before each message, {size} slots in all");
        against_peers(&title, load, exclusive(load), bounds)
    };
    [65_536, 8_192, 1_024].map(case).into()
}

/// Shared producers, one of them active.
pub fn p9(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load::new(scale.messages, size);
        let ours = Contender::new(Who::Ours, SHARED, move || whole::shared(&load, Setup::default(), ByCrc32));
        let bounds = vec![foundation(SHARED, Nanos(30.0)), goal(SHARED, Nanos(12.0))];
        let title = format!("P9: whole path, shared producers, one active, {size} slots in all");
        against_peers(&title, load, vec![ours], bounds)
    };
    [65_536, 8_192, 1_024].map(case).into()
}

/// Batches over 4 partitions.
pub fn p10(scale: Scale) -> Vec<Case> {
    let load = Load::new(scale.messages, 65_536).batches(16);
    let ours = vec![
        Contender::new(Who::Ours, CRC, move || whole::exclusive(&load, Setup::default(), ByCrc32)),
        Contender::new(Who::Ours, SHARED, move || whole::shared(&load, Setup::default(), ByCrc32)),
    ];
    let bounds = [CRC, SHARED].iter().flat_map(|name| [foundation(name, Nanos(20.0)), goal(name, Nanos(6.0))]);
    vec![against_peers(
        "P10: whole path, batches of 16 over 4 partitions, 65536 slots in all",
        load,
        ours,
        bounds.collect(),
    )]
}

/// Everyone gets everything.
pub fn p11(scale: Scale) -> Vec<Case> {
    let load = Load::new(scale.messages, 65_536);
    let to = |groups: usize, partitions: u32| {
        let load = Load::new((scale.messages / groups.div_ceil(8) as u64).max(20_000), 65_536);
        let setup = Setup { groups, partitions, ..Setup::default() };
        let name = format!("ringlog whole path, {groups} groups, {partitions} partitions");
        Contender::new(Who::Ours, name, move || whole::exclusive(&load, setup, ByCrc32))
    };
    let shed = "ringlog whole path, 3 groups, 1 partitions, drops oldest";
    let dropping = Contender::new(Who::Ours, shed, move || {
        whole::exclusive(&load, Setup { groups: 3, partitions: 1, lossy: true, ..Setup::default() }, ByCrc32)
    });
    let three = "ringlog whole path, 3 groups, 1 partitions";
    let one = "ringlog whole path, 1 groups, 1 partitions".to_owned();
    let pollers = Contender::new(Who::DisruptorSingle, "disruptor single, 3 pollers on one thread", move || {
        crate::exchange::fan_out(&load, disruptor::three(load.capacity))
    });
    let contenders = vec![to(3, 1), dropping, to(3, 4), to(1, 1), to(16, 1), to(256, 1), pollers];
    let bounds = vec![
        foundation(three, Times(1.5, D)),
        foundation(shed, TimesOwn(1.2, three.to_owned())),
        goal(three, Times(0.75, D)),
        goal("ringlog whole path, 16 groups, 1 partitions", TimesOwn(16.0, one)),
    ];
    vec![Case { title: "P11: fan-out, every group on one worker, ns per message published".into(), contenders, bounds }]
}
