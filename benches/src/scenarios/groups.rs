//! What groups cost beyond a handler for each record: P23 and P24.
use super::Scale;
use crate::exchange::Load;
use crate::judge::Limit::{Nanos, TimesOwn};
use crate::judge::{Bound, Case, foundation, goal};
use crate::ours::claims;
use crate::ours::polled::{self, Between};
use crate::ours::whole::{self, ByCrc32, Setup};
use crate::rounds::{Contender, Who};
use ringlog::Order;

const PUSHED: &str = "ringlog whole path, shared, a handler";
const ASKS: &str = "ringlog whole path, shared, polled, asking again";
const SLEEPS: &str = "ringlog whole path, shared, polled, sleeping";
/// The most that a poll gives.
const MOST: usize = 1_024;

/// Polling in batches, beside the same path with a handler.
pub fn p23(scale: Scale) -> Vec<Case> {
    let case = |size: usize| {
        let load = Load::new(scale.messages, size);
        let polled =
            |name, between| Contender::new(Who::Ours, name, move || polled::shared(&load, ByCrc32, MOST, between));
        let pushed = Contender::new(Who::Ours, PUSHED, move || whole::shared(&load, Setup::default(), ByCrc32));
        let within = |times| TimesOwn(times, PUSHED.to_owned());
        Case {
            title: format!("P23: whole path, shared producers, one active, polled, {size} slots in all"),
            contenders: vec![pushed, polled(ASKS, Between::Asks), polled(SLEEPS, Between::Sleeps)],
            bounds: vec![foundation(ASKS, within(1.2)), goal(ASKS, within(1.0))],
        }
    };
    [65_536, 8_192, 1_024].map(case).into()
}

/// Claiming and acknowledging, by one member and by two at once.
pub fn p24(scale: Scale) -> Vec<Case> {
    const SIZE: u64 = 8_192;
    let name = |members: usize, most: usize| format!("ringlog claims, {members} members, runs of up to {most}");
    let (one, two) = (name(1, 64), name(2, 64));
    let claimed = |members: usize, most: usize| {
        let messages = if most > 1 { scale.messages } else { scale.messages / 8 };
        Contender::new(Who::Ours, name(members, most), move || claims::claimed(messages, SIZE, members, most))
    };
    let bounds: Vec<Bound> = vec![
        foundation(&one, Nanos(60.0)),
        foundation(&two, Nanos(60.0)),
        goal(&one, Nanos(15.0)),
        goal(&two, Nanos(40.0)),
    ];
    let contenders = vec![claimed(1, 64), claimed(2, 64), claimed(1, 16), claimed(2, 16), claimed(1, 1), claimed(2, 1)];
    let claims = Case { title: format!("P24: claim and acknowledge, records ready, {SIZE} slots"), contenders, bounds };
    vec![claims, by_order(scale)]
}

/// The whole path in each order, to a member alone: what a claim for each run costs, and what the keys cost beyond that.
fn by_order(scale: Scale) -> Case {
    const SIZE: usize = 8_192;
    let load = Load::new(scale.messages, SIZE);
    let orders = [("partition", Order::Partition), ("shared", Order::Shared), ("key", Order::Key)];
    let contenders = orders.map(|(name, order)| {
        let setup = Setup { order, ..Setup::default() };
        let name = format!("ringlog whole path, shared, order by {name}");
        Contender::new(Who::Ours, name, move || whole::shared(&load, setup, ByCrc32))
    });
    let title = format!("P24: whole path, shared producers, one active, by the group's order, {SIZE} slots in all");
    Case { title, contenders: contenders.into(), bounds: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::{p23, p24};
    use crate::rounds::Plan;
    use crate::scenarios::Scale;

    /// Both count what they see: here they do so on a small scale, whatever it takes.
    #[test]
    fn every_record_is_seen_once() {
        let plan = Plan { rounds: 1, repeats: 1, calm: f64::INFINITY };
        for case in p23(Scale { messages: 20_000 }).into_iter().chain(p24(Scale { messages: 20_000 })) {
            case.run(plan);
        }
    }
}
