//! The real thing, in lockstep: two consumers that detach every batch, and settle by receipt.

use super::deliveries::{ATTEMPTS, Answer, CAPACITY, Figures, LONGEST, Op, Twin};
use super::hands::{Hands, LEASE, NAMES, check, check_answer};
use ringlog::{
    Assignor, Broker, BrokerConfig, Deal, Group, GroupConfig, ManualClock, Retry, SeekTo, Topic, TopicConfig,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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
    hands: Hands,
    _broker: Broker,
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
        let hands = Hands::new(&group);
        topic.publish(0).unwrap();
        Real { clock, topic, group, plan, hands, _broker: broker }
    }

    fn apply(&mut self, op: Op) -> Answer {
        match op {
            Op::Poll(who) => return self.hands.poll(who),
            Op::Ack(nth) => return self.hands.ack(nth),
            Op::Nack(nth) => return self.hands.nack(nth),
            Op::Release(nth) => self.hands.release(nth),
            Op::Extend(nth) => return self.hands.extend(nth, LONGEST),
            Op::Expire => self.clock.advance(LEASE),
            Op::Seek(to) => _ = self.group.seek(0, SeekTo::Offset(to)).unwrap(),
            Op::Move => {
                self.plan.fetch_xor(1, Ordering::Relaxed);
                // Who comes and goes has it dealt anew, and is given nothing.
                drop(self.group.consumer("guest").unwrap());
            }
            Op::Leave(who) => self.hands.leave(who),
            Op::Trim => (0..CAPACITY).for_each(|n| _ = self.topic.publish(100 + n).unwrap()),
            Op::Delete => assert!(self.group.delete()),
        }
        Answer::Nothing
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

fn step(real: &mut Real, twin: &mut Twin, op: Op, after: &[Op]) {
    check_answer(real.apply(op), twin.apply(op), after);
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
