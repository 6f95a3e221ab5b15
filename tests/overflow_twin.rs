//! Mailboxes against a model of a few lines: what is handed over, in which order, and how many of what were lost.
use proptest::prelude::*;
use ringlog::{Broker, Group, GroupConfig, Manual, Overflow, Record, Retain, TopicConfig};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    Block,
    Oldest,
    Newest,
    Latest,
    LatestBy,
}

const KEYS: u64 = 4;

/// A mailbox as anybody would write it.
struct Twin {
    rule: Rule,
    most: usize,
    waiting: VecDeque<u64>,
    dropped: u64,
    conflated: u64,
}

impl Twin {
    /// Whether there was room.
    fn publish(&mut self, value: u64) -> bool {
        match self.rule {
            Rule::Block if self.waiting.len() == self.most => return false,
            Rule::Newest if self.waiting.len() == self.most => self.dropped += 1,
            Rule::Block | Rule::Newest | Rule::LatestBy => self.waiting.push_back(value),
            Rule::Oldest | Rule::Latest => {
                self.waiting.push_back(value);
                while self.waiting.len() > self.most {
                    self.waiting.pop_front();
                    *(if self.rule == Rule::Oldest { &mut self.dropped } else { &mut self.conflated }) += 1;
                }
            }
        }
        true
    }

    fn take(&mut self) -> Option<u64> {
        if self.rule == Rule::LatestBy {
            let all = std::mem::take(&mut self.waiting);
            let is_last = |at: usize| all.iter().skip(at + 1).all(|later| later % KEYS != all[at] % KEYS);
            self.waiting = (0..all.len()).filter(|at| is_last(*at)).map(|at| all[at]).collect();
            self.conflated += (all.len() - self.waiting.len()) as u64;
            while self.waiting.len() > self.most {
                self.waiting.pop_front();
                self.dropped += 1;
            }
        }
        self.waiting.pop_front()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Publish(u8),
    Batch(u8),
    Take,
    TakeAll,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1..6_u8).prop_map(Op::Publish),
        (1..4_u8).prop_map(Op::Batch),
        Just(Op::Take),
        Just(Op::Take),
        Just(Op::TakeAll)
    ]
}

struct Real {
    group: Group<u64>,
    manual: Manual,
    seen: Arc<Mutex<Vec<u64>>>,
}

impl Real {
    /// The next one: its handler pauses the group.
    fn take(&self) -> Option<u64> {
        self.group.resume();
        self.manual.run(1_000);
        self.seen.lock().unwrap().pop()
    }
}

impl Real {
    /// As [`take`](Self::take), where others are to be left alone: when nothing came of it, the group pauses all the same.
    fn take_one(&self) -> Option<u64> {
        let taken = self.take();
        self.group.pause();
        taken
    }
}

/// The books, at a quiet point.
fn balance(real: &Real, twin: &Twin) -> Result<(), TestCaseError> {
    let stats = real.group.stats();
    prop_assert!(stats.balances(), "{:?}", stats);
    if twin.rule != Rule::LatestBy {
        prop_assert_eq!(
            (stats.waiting(), stats.dropped()),
            (twin.waiting.len() as u64, twin.dropped),
            "{:?}",
            twin.rule
        );
        prop_assert_eq!(stats.conflated(), twin.conflated);
    }
    Ok(())
}

fn overflow(rule: Rule, most: usize) -> Overflow<u64> {
    match rule {
        Rule::Block => Overflow::block(most),
        Rule::Oldest => Overflow::drop_oldest(most),
        Rule::Newest => Overflow::drop_newest(most),
        Rule::Latest => Overflow::latest(),
        Rule::LatestBy => Overflow::latest_by(most, |value| value % KEYS),
    }
}

fn check(rule: Rule, most: usize, retain: Retain, ops: &[Op]) -> Result<(), TestCaseError> {
    let most = if rule == Rule::Latest { 1 } else { most };
    let (broker, manual, seen) = (Broker::new(), Manual::new(1), Arc::new(Mutex::new(Vec::new())));
    // What waits for `latest_by` is in the topic until it is looked at.
    let capacity = if rule == Rule::LatestBy { 1_024 } else { 8 };
    let config = TopicConfig::new().capacity(capacity).retain(retain).block(Some(Duration::ZERO));
    let topic = broker.create_topic("t", config).unwrap();
    let group = topic.group("g", GroupConfig::latest().overflow(overflow(rule, most))).unwrap();
    let (kept, own) = (seen.clone(), group.clone());
    let keep = move |record: &Record<'_, u64>| {
        own.pause();
        kept.lock().unwrap().push(**record);
    };
    group.member("m").run(&manual).subscribe(keep).unwrap();
    let real = Real { group, manual, seen };
    let mut twin = Twin { rule, most, waiting: VecDeque::new(), dropped: 0, conflated: 0 };
    let (mut next, mut wanted) = (0, 0);
    for op in ops {
        match op {
            Op::Publish(count) => {
                for _ in 0..*count {
                    prop_assert_eq!(topic.publish(next).is_ok(), twin.publish(next));
                    next += 1;
                }
            }
            Op::Batch(count) => {
                let count = usize::from(*count).min(if rule == Rule::Block { most - twin.waiting.len() } else { 3 });
                let batch = next..next + count as u64;
                prop_assert!(topic.publish_batch(batch.clone()).is_ok());
                batch.clone().for_each(|value| assert!(twin.publish(value)));
                next = batch.end;
            }
            Op::Take => prop_assert_eq!(real.take(), twin.take()),
            Op::TakeAll => loop {
                let (got, want) = (real.take(), twin.take());
                prop_assert_eq!(got, want);
                if got.is_none() {
                    break;
                }
            },
        }
        wanted = wanted.max(next);
        let stats = real.group.stats();
        prop_assert!(stats.balances(), "{:?}", stats);
        if rule != Rule::LatestBy {
            prop_assert_eq!((stats.lag(), stats.dropped()), (twin.waiting.len() as u64, twin.dropped));
            prop_assert_eq!(stats.conflated(), twin.conflated);
        }
    }
    while let Some(want) = twin.take() {
        prop_assert_eq!(real.take(), Some(want));
    }
    prop_assert_eq!(real.take(), None);
    let stats = real.group.stats();
    prop_assert_eq!((stats.lag(), stats.dropped(), stats.conflated()), (0, twin.dropped, twin.conflated));
    Ok(())
}

/// Every rule on one topic, twice over where that makes a difference: who is taken from, and what was published, are chosen at random.
fn check_all(most: usize, retain: Retain, ops: &[(u8, Op)]) -> Result<(), TestCaseError> {
    let (broker, manual) = (Broker::new(), Manual::new(1));
    let config = TopicConfig::new().capacity(1_024).retain(retain).block(Some(Duration::ZERO));
    let topic = broker.create_topic("t", config).unwrap();
    let rules = [Rule::Block, Rule::Oldest, Rule::Newest, Rule::Latest, Rule::LatestBy, Rule::Oldest, Rule::Newest];
    let sizes = [most, most, most, 1, most, 5 - most, 5 - most];
    let pairs = (0..).zip(rules).zip(sizes).map(|((nth, rule), most)| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let config = GroupConfig::latest().overflow(overflow(rule, most));
        let group = topic.group(&format!("{nth}"), config).unwrap();
        let (kept, own) = (seen.clone(), group.clone());
        let keep = move |record: &Record<'_, u64>| {
            own.pause();
            kept.lock().unwrap().push(**record);
        };
        group.pause();
        group.member("m").run(&manual).subscribe(keep).unwrap();
        let real = Real { group, manual: manual.clone(), seen };
        (real, Twin { rule, most, waiting: VecDeque::new(), dropped: 0, conflated: 0 })
    });
    let mut pairs: Vec<(Real, Twin)> = pairs.collect();
    let mut next = 0;
    for (who, op) in ops {
        let who = usize::from(*who) % pairs.len();
        let room = most - pairs[0].1.waiting.len(); // the one that blocks
        match op {
            Op::Publish(count) => {
                for nth in 0..usize::from(*count) {
                    prop_assert_eq!(topic.publish(next).is_ok(), nth < room);
                    if nth < room {
                        pairs.iter_mut().for_each(|(_, twin)| assert!(twin.publish(next)));
                        next += 1;
                    }
                }
            }
            Op::Batch(count) => {
                let batch = next..next + usize::from(*count).min(room) as u64;
                prop_assert!(topic.publish_batch(batch.clone()).is_ok());
                for value in batch.clone() {
                    pairs.iter_mut().for_each(|(_, twin)| assert!(twin.publish(value)));
                }
                next = batch.end;
            }
            Op::Take => {
                let (real, twin) = &mut pairs[who];
                prop_assert_eq!(real.take_one(), twin.take());
            }
            Op::TakeAll => {
                for who in [0, who] {
                    let (real, twin) = &mut pairs[who];
                    loop {
                        let (got, want) = (real.take_one(), twin.take());
                        prop_assert_eq!(got, want);
                        if got.is_none() {
                            break;
                        }
                    }
                }
            }
        }
        for (real, twin) in &pairs {
            balance(real, twin)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // C-11, C-12, C-13, C-32: whatever comes and is taken, in whatever order.
    #[test]
    fn a_mailbox_does_what_its_model_does(
        rule in prop_oneof![
            Just(Rule::Block), Just(Rule::Oldest), Just(Rule::Newest), Just(Rule::Latest), Just(Rule::LatestBy)
        ],
        most in 1..=4_usize,
        retain in prop_oneof![Just(Retain::Recent), Just(Retain::Unacked)],
        ops in prop::collection::vec(op(), 1..60),
    ) {
        check(rule, most, retain, &ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    // C-11, C-12, C-13, C-32, X23: all rules on one topic, each with its own books, which balance at every quiet point.
    #[test]
    fn mailboxes_of_every_rule_on_one_topic_do_what_their_models_do(
        most in 1..=4_usize,
        retain in prop_oneof![Just(Retain::Recent), Just(Retain::Unacked)],
        ops in prop::collection::vec((any::<u8>(), op()), 1..80),
    ) {
        check_all(most, retain, &ops)?;
    }
}
