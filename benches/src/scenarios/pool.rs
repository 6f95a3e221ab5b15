//! Many members on few threads: P20 and P21.
use std::sync::OnceLock;

use super::Scale;
use crate::judge::Limit::{Times, TimesOwn};
use crate::judge::{Case, foundation, goal};
use crate::ours::pooled::{Audience, Mailboxes};
use crate::peers::tasks::Tasks;
use crate::rounds::{Contender, Who};

const ONE: &str = "ringlog pool, 1 thread";
const TWO: &str = "ringlog pool, 2 threads";
/// Publishes to an audience in one run.
const PUBLISHES: u64 = 20;

/// Many topics with a member each, one message or sixteen to one after the other.
pub fn p20(scale: Scale) -> Vec<Case> {
    let sizes = [(10, 1), (1_000, 1), (10_000, 1), (100_000, 1), (10, 16), (1_000, 16), (10_000, 16), (100_000, 16)];
    let case = |(topics, burst): (usize, u64)| {
        let ours = |name, threads| {
            let mailboxes = OnceLock::new();
            Contender::new(Who::Ours, name, move || {
                mailboxes.get_or_init(|| Mailboxes::new(topics, threads)).run(scale.messages, burst)
            })
        };
        let tasks = |name, threads| {
            let tasks = OnceLock::new();
            Contender::new(Who::Tasks, name, move || {
                tasks.get_or_init(|| Tasks::new(topics, threads)).run(scale.messages, burst)
            })
        };
        let times = if burst == 1 { (1.0, 0.4) } else { (0.3, 0.1) };
        let bounds = match topics {
            10_000 => vec![foundation(ONE, Times(times.0, &[Who::Tasks])), goal(ONE, Times(times.1, &[Who::Tasks]))],
            _ => Vec::new(),
        };
        Case {
            title: format!("P20: {topics} topics of one member, {burst} at a time"),
            contenders: vec![
                ours(ONE, 1),
                ours(TWO, 2),
                tasks("tokio mpsc and task, 1 thread", 1),
                tasks("tokio mpsc and task, 2 threads", 2),
            ],
            bounds,
        }
    };
    sizes.map(case).into()
}

/// What a publish pays for members that rest.
pub fn p21(_: Scale) -> Vec<Case> {
    let name = |members: usize| format!("ringlog publish to {members} members that rest");
    let contender = |members: usize| {
        let audience = OnceLock::new();
        Contender::new(Who::Ours, name(members), move || {
            audience.get_or_init(|| Audience::new(members, 1)).run(PUBLISHES)
        })
    };
    let bound = |members| goal(&name(members), TimesOwn(1.1, name(1)));
    vec![Case {
        title: "P21: publish to members that rest".to_owned(),
        contenders: [1, 1_000, 100_000].map(contender).into(),
        bounds: vec![bound(1_000), bound(100_000)],
    }]
}

#[cfg(test)]
mod tests {
    use super::{Audience, Mailboxes, Tasks};

    /// All count what they see: here they do so on a small scale, whatever it takes.
    #[test]
    fn every_message_is_seen_once() {
        Mailboxes::new(10, 2).run(4_000, 16);
        Tasks::new(10, 2).run(4_000, 16);
        Audience::new(10, 1).run(10);
    }
}
