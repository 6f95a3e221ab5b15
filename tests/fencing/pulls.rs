//! The real thing, in lockstep: a work queue of two consumers that detach every batch, and settle by receipt.

use super::claims::{LONGEST, Op, Twin};
use super::deliveries::Answer;
use super::polls::{LEASE, NAMES, answer};
use super::queue::{check, figures, letters, ruled};
use super::records::{Figures, RECORDS, Rule};
use ringlog::{Broker, BrokerConfig, Consumer, Failure, Group, ManualClock, Order, Receipt, SeekTo, TopicConfig};
use std::sync::Arc;
use std::time::Duration;

struct Real {
    rule: Rule,
    clock: Arc<ManualClock>,
    group: Group<u64>,
    consumers: [Option<Consumer<u64>>; 2],
    receipts: Vec<Option<Receipt>>,
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
        let consumers = NAMES.map(|name| Some(group.consumer(name).unwrap()));
        (0..RECORDS as u64).for_each(|n| _ = topic.publish(n).unwrap());
        Real { rule, clock, group, consumers, receipts: Vec::new(), _broker: broker }
    }

    fn apply(&mut self, op: Op) -> Answer {
        match op {
            Op::Poll(who) => return self.poll(who),
            Op::Ack(nth) => return answer(self.take(nth).ack().map(|()| Answer::Done)),
            Op::Nack(nth) => return answer(self.take(nth).nack(Failure::new("no")).map(|()| Answer::Done)),
            Op::Release(nth) => drop(self.take(nth)),
            Op::Extend(nth) => {
                let extended = self.receipts[nth].as_ref().unwrap().extend(LEASE * LONGEST as u32);
                return answer(extended.map(|lasts| match lasts {
                    Duration::MAX => Answer::Lasts(u64::MAX),
                    _ => {
                        assert_eq!(lasts.as_secs() % LEASE.as_secs(), 0, "{lasts:?}");
                        Answer::Lasts(lasts.as_secs() / LEASE.as_secs())
                    }
                }));
            }
            Op::Expire => {
                self.clock.advance(LEASE);
                if self.rule != Rule::Lease {
                    self.clock.advance(LEASE); // it has looked by then
                }
            }
            Op::Seek(to) => _ = self.group.seek(0, SeekTo::Offset(to)).unwrap(),
            Op::Leave(who) => {
                self.consumers[who] = None;
                self.consumers[who] = Some(self.group.consumer(NAMES[who]).unwrap());
            }
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
        match (said, twin.apply(op)) {
            (Answer::Refused(said), Answer::Refused(fates)) => {
                assert!(
                    said.iter().all(|why| fates.contains(why)),
                    "refused for {said:?}, not {fates:?}\nafter {after:?}"
                );
            }
            (said, expected) => check("the answer", said, expected, after),
        }
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
    let unsettled: Vec<usize> = (0..real.receipts.len()).filter(|nth| real.receipts[*nth].is_some()).collect();
    let lasts = unsettled.into_iter().flat_map(|nth| [Op::Extend(nth), Op::Ack(nth)]);
    for last in lasts.chain([Op::Poll(0), Op::Poll(1)]) {
        step(&mut real, &mut twin, last, &[ops, &[last]].concat());
    }
}
