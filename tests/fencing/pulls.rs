//! The real thing, in lockstep: a work queue of two consumers that detach every batch, and settle by receipt.

use super::claims::{LONGEST, Op, Twin};
use super::deliveries::Answer;
use super::hands::{Hands, LEASE, check, check_answer};
use super::queue::{figures, letters, ruled};
use super::records::{Figures, RECORDS, Rule};
use ringlog::{Broker, BrokerConfig, Group, ManualClock, Order, SeekTo, TopicConfig};
use std::sync::Arc;

struct Real {
    rule: Rule,
    clock: Arc<ManualClock>,
    group: Group<u64>,
    hands: Hands,
    _broker: Broker,
}

impl Real {
    fn new(order: Order, rule: Rule) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(RECORDS).key(|_| "one")).unwrap();
        let config = ruled(order, rule);
        let longer = |config: ringlog::GroupConfig<u64>| config.lease_renewed_up_to(LEASE * LONGEST as u32);
        let group = topic.group("g", if rule == Rule::Lease { longer(config) } else { config }).unwrap();
        let hands = Hands::new(&group);
        (0..RECORDS as u64).for_each(|n| _ = topic.publish(n).unwrap());
        Real { rule, clock, group, hands, _broker: broker }
    }

    fn apply(&mut self, op: Op) -> Answer {
        match op {
            Op::Poll(who) => return self.hands.poll(who),
            Op::Ack(nth) => return self.hands.ack(nth),
            Op::Nack(nth) => return self.hands.nack(nth),
            Op::Release(nth) => self.hands.release(nth),
            Op::Extend(nth) => return self.hands.extend(nth, LONGEST),
            Op::Expire => {
                self.clock.advance(LEASE);
                if self.rule != Rule::Lease {
                    self.clock.advance(LEASE); // it has looked by then
                }
            }
            Op::Seek(to) => _ = self.group.seek(0, SeekTo::Offset(to)).unwrap(),
            Op::Leave(who) => self.hands.leave(who),
            Op::Delete => assert!(self.group.delete()),
        }
        Answer::Nothing
    }

    fn figures(&self) -> Figures {
        let in_flight = self.group.stats().lanes[0].in_flight;
        Figures { in_flight, ..figures(&self.group) }
    }
}

fn step(real: &mut Real, twin: &mut Twin, op: Op, after: &[Op]) {
    let said = real.apply(op);
    if let Op::Poll(who) = op {
        let may = twin.may_be_given(who);
        match said {
            Answer::Handed(offset, attempt) => {
                let handed = (offset, attempt);
                assert!(may.contains(&handed), "{handed:?} was handed over, not one of {may:?}\nafter {after:?}");
                twin.given(who, handed);
            }
            _ => assert!(may.is_empty(), "nothing was handed over, but {may:?} is there\nafter {after:?}"),
        }
    } else {
        check_answer(said, twin.apply(op), after);
    }
    check("figures", real.figures(), twin.figures(), after);
    check("letters", letters(&real.group), twin.records.letters.clone(), after);
}

/// Plays `ops` on both, comparing after each; in the end more time is asked for whatever is not settled, and all is, and who polls
/// is handed what is left.
pub(crate) fn play(order: Order, rule: Rule, ops: &[Op]) {
    let (mut real, mut twin) = (Real::new(order, rule), Twin::new(order == Order::Key, rule));
    for (at, op) in ops.iter().enumerate() {
        step(&mut real, &mut twin, *op, &ops[..=at]);
    }
    let lasts = real.hands.unsettled().into_iter().flat_map(|nth| [Op::Extend(nth), Op::Ack(nth)]);
    for last in lasts.chain([Op::Poll(0), Op::Poll(1)]) {
        step(&mut real, &mut twin, last, &[ops, &[last]].concat());
    }
}
