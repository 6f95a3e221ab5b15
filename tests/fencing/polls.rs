//! The real thing, in lockstep: two consumers that detach every batch, and settle by receipt.

use super::deliveries::{ATTEMPTS, Answer, CAPACITY, Fate, Figures, LONGEST, Op, Twin};
use ringlog::{
    Assignor, Broker, BrokerConfig, Consumer, Deal, Failure, FencedBy, Group, GroupConfig, ManualClock, Receipt, Retry,
    SeekTo, SettleError, Topic, TopicConfig,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const LEASE: Duration = Duration::from_secs(30);
pub(crate) const NAMES: [&str; 2] = ["c0", "c1"];

/// Gives everything to one member, by name.
#[derive(Debug)]
struct To(Arc<AtomicUsize>);

impl Assignor for To {
    fn assign(&self, deal: &Deal) -> Vec<usize> {
        let name = NAMES[self.0.load(Ordering::Relaxed)];
        let to = deal.members().iter().position(|member| &**member == name).unwrap_or(0);
        vec![to; deal.partitions()]
    }
}

struct Real {
    clock: Arc<ManualClock>,
    topic: Topic<u64>,
    group: Group<u64>,
    plan: Arc<AtomicUsize>,
    consumers: [Option<Consumer<u64>>; 2],
    receipts: Vec<Option<Receipt>>,
    _broker: Broker,
}

fn fate(by: FencedBy) -> Fate {
    match by {
        FencedBy::Expired => Fate::Expired,
        FencedBy::Moved => Fate::Moved,
        FencedBy::Seeked => Fate::Seeked,
        FencedBy::Deleted => Fate::Deleted,
        FencedBy::Rewound => Fate::Rewound,
        FencedBy::Buried => Fate::Buried,
        FencedBy::AlreadyAcked => Fate::Acked,
        other => panic!("{other}"),
    }
}

pub(crate) fn answer(settled: Result<Answer, SettleError>) -> Answer {
    match settled {
        Ok(answer) => answer,
        Err(SettleError::Fenced { reason, .. }) => Answer::Refused(vec![fate(reason)]),
        Err(other) => panic!("{other}"),
    }
}

impl Real {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::<u64>::new().capacity(CAPACITY as usize).drop_oldest();
        let topic = broker.create_topic("t", config).unwrap();
        let plan = Arc::new(AtomicUsize::new(0));
        let config = GroupConfig::earliest()
            .retry(Retry::constant(ATTEMPTS, Duration::ZERO))
            .lease(LEASE)
            .lease_renewed_up_to(LEASE * LONGEST as u32)
            .assignor(To(plan.clone()));
        let group = topic.group("g", config).unwrap();
        let consumers = NAMES.map(|name| Some(group.consumer(name).unwrap()));
        topic.publish(0).unwrap();
        Real { clock, topic, group, plan, consumers, receipts: Vec::new(), _broker: broker }
    }

    fn apply(&mut self, op: Op) -> Answer {
        match op {
            Op::Poll(who) => return self.poll(who),
            Op::Ack(nth) => return answer(self.take(nth).ack().map(|()| Answer::Done)),
            Op::Nack(nth) => return answer(self.take(nth).nack(Failure::new("no")).map(|()| Answer::Done)),
            Op::Release(nth) => drop(self.take(nth)),
            Op::Extend(nth) => {
                let extended = self.receipts[nth].as_ref().unwrap().extend(LEASE * LONGEST as u32);
                return answer(extended.map(|lasts| {
                    assert_eq!(lasts.as_secs() % LEASE.as_secs(), 0, "{lasts:?}");
                    Answer::Lasts(lasts.as_secs() / LEASE.as_secs())
                }));
            }
            Op::Expire => self.clock.advance(LEASE),
            Op::Seek(to) => _ = self.group.seek(0, SeekTo::Offset(to)).unwrap(),
            Op::Move => {
                self.plan.fetch_xor(1, Ordering::Relaxed);
                // Who comes and goes has it dealt anew, and is given nothing.
                drop(self.group.consumer("guest").unwrap());
            }
            Op::Leave(who) => {
                self.consumers[who] = None;
                self.consumers[who] = Some(self.group.consumer(NAMES[who]).unwrap());
            }
            Op::Trim => (0..CAPACITY).for_each(|n| _ = self.topic.publish(100 + n).unwrap()),
            Op::Delete => assert!(self.group.delete()),
        }
        Answer::Nothing
    }

    fn take(&mut self, nth: usize) -> Receipt {
        self.receipts[nth].take().expect("it is used once")
    }

    fn poll(&mut self, who: usize) -> Answer {
        let Ok(batch) = self.consumers[who].as_mut().unwrap().try_poll(1) else { return Answer::Nothing };
        let Some(record) = batch.get(0) else { return Answer::Nothing };
        let handed = Answer::Handed(record.offset(), record.attempt());
        self.receipts.push(Some(batch.detach()));
        handed
    }

    fn figures(&self) -> Figures {
        let lane = self.group.stats().lanes.remove(0);
        assert!(lane.balances(), "the books: {lane:?}");
        let earliest = lane.end.saturating_sub(CAPACITY);
        let gap = if lane.in_flight == 0 { earliest } else { 0 };
        Figures {
            committed: lane.committed.max(gap),
            end: lane.end,
            in_flight: lane.in_flight,
            acked: lane.acked,
            dead: lane.dead,
            retried: lane.retried,
            refused: lane.refused,
            lapsed: lane.leases_expired,
            skipped: lane.skipped,
            replayed: lane.replayed,
        }
    }
}

fn check<V: PartialEq + std::fmt::Debug>(what: &str, real: V, twin: V, after: &[Op]) {
    assert!(real == twin, "{what}: {real:?}, but the twin {twin:?}\nafter {after:?}");
}

fn step(real: &mut Real, twin: &mut Twin, op: Op, after: &[Op]) {
    match (real.apply(op), twin.apply(op)) {
        (Answer::Refused(said), Answer::Refused(fates)) => {
            assert!(said.iter().all(|why| fates.contains(why)), "refused for {said:?}, not {fates:?}\nafter {after:?}");
        }
        (said, expected) => check("the answer", said, expected, after),
    }
    check("figures", real.figures(), twin.figures(), after);
    let letters: Vec<u64> = real.group.letters().iter().map(|letter| letter.offset()).collect();
    check("letters", letters, twin.letters.clone(), after);
}

/// Plays `ops` on both, comparing after each; and in the end who is handed what.
pub(crate) fn play(ops: &[Op]) {
    let (mut real, mut twin) = (Real::new(), Twin::new());
    for (at, op) in ops.iter().enumerate() {
        step(&mut real, &mut twin, *op, &ops[..=at]);
    }
    for who in 0..2 {
        step(&mut real, &mut twin, Op::Poll(who), &[ops, &[Op::Poll(who)]].concat());
    }
}
