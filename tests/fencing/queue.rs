//! The real thing, in lockstep: a work queue of two members whose handlers wait to be told what to return.

use super::jobs::{ATTEMPTS, Figures, Hand, Op, RECORDS, Twin};
use super::push::{Event, Order as Told, Runner};
use ringlog::{
    Broker, BrokerConfig, Group, GroupConfig, Manual, ManualClock, Member, Order, Retry, SeekTo, Straggler, TopicConfig,
};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
/// Nothing gets so old here: it has every record taken alone.
const OLD: Duration = Duration::from_secs(100_000);

struct Real<'a> {
    runners: &'a [Runner; 2],
    manuals: [Manual; 2],
    members: Vec<Option<Member<u64>>>,
    clock: Arc<ManualClock>,
    group: Group<u64>,
    in_hand: [Option<Hand>; 2],
    _broker: Broker,
}

impl<'a> Real<'a> {
    fn new(runners: &'a [Runner; 2], order: Order) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(RECORDS).key(|_| "one")).unwrap();
        let retry = Retry::constant(ATTEMPTS, Duration::ZERO);
        let config = GroupConfig::earliest().retry(retry).lease(LEASE).order(order);
        let group = topic.group("g", config.straggler(Straggler::Bury(OLD))).unwrap();
        let manuals = [Manual::new(1), Manual::new(2)];
        let member = |who: usize| {
            let named = group.member(["m0", "m1"][who]).run(&manuals[who]);
            Some(named.subscribe(runners[who].handler()).unwrap())
        };
        let members = [0, 1].map(member).into();
        (0..RECORDS as u64).for_each(|n| _ = topic.publish(n).unwrap());
        Real { runners, manuals, members, clock, group, in_hand: [None; 2], _broker: broker }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver(who) => self.deliver(who),
            Op::Expire => self.clock.advance(LEASE),
            Op::Ack(who) | Op::Nack(who) => self.back(who, matches!(op, Op::Ack(_))),
            Op::Seek(to) => _ = self.group.seek(0, SeekTo::Offset(to)).unwrap(),
            Op::Leave(who) => assert!(self.members[who].take().expect("it leaves once").leave()),
            Op::Delete => assert!(self.group.delete()),
        }
    }

    fn deliver(&mut self, who: usize) {
        for _turn in 0..100 {
            self.runners[who].steps.send(self.manuals[who].clone()).unwrap();
            match self.runners[who].next() {
                Event::Stepped(false) => return,
                Event::Stepped(true) => {}
                Event::InHand(offset, attempt) => return self.in_hand[who] = Some(Hand { offset, attempt }),
                Event::Extended(_) => unreachable!("nobody has asked"),
            }
        }
        panic!("it never comes to rest");
    }

    fn back(&mut self, who: usize, good: bool) {
        if self.in_hand[who].take().is_none() {
            return;
        }
        // So that it looks up after this record: how many a step may take is the executor's choice.
        self.group.pause();
        self.group.resume();
        self.runners[who].orders.send(Told::Return(good)).unwrap();
        assert!(matches!(self.runners[who].next(), Event::Stepped(true)), "one record at a time");
    }

    fn figures(&self) -> Figures {
        let lane = self.group.stats().lanes.remove(0);
        assert!(lane.balances(), "the books: {lane:?}");
        Figures {
            committed: lane.committed,
            pending: lane.pending,
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

fn step(real: &mut Real<'_>, twin: &mut Twin, op: Op, after: &[Op]) {
    real.apply(op);
    match op {
        Op::Deliver(who) if twin.hands[who].is_none() => {
            let may = twin.may_be_given(who);
            match real.in_hand[who] {
                None => assert!(may.is_empty(), "nothing was handed over, but {may:?} is there\nafter {after:?}"),
                Some(hand) => {
                    assert!(may.contains(&hand), "{hand:?} was handed over, not one of {may:?}\nafter {after:?}");
                    twin.given(who, hand);
                }
            }
        }
        _ => twin.apply(op),
    }
    check("in hand", real.in_hand, twin.hands, after);
    check("figures", real.figures(), twin.figures(), after);
    let mut letters: Vec<u64> = real.group.letters().iter().map(|letter| letter.offset()).collect();
    letters.sort_unstable();
    check("letters", letters, twin.letters.clone(), after);
}

/// Plays `ops` on both, comparing after each; in the end all comes back, and what is left is handed out.
pub(crate) fn play(runners: &[Runner; 2], order: Order, ops: &[Op]) {
    let (mut real, mut twin) = (Real::new(runners, order), Twin::new(order == Order::Key));
    for (at, op) in ops.iter().enumerate() {
        step(&mut real, &mut twin, *op, &ops[..=at]);
    }
    for last in [Op::Ack(0), Op::Ack(1), Op::Deliver(0), Op::Deliver(1), Op::Ack(0), Op::Ack(1)] {
        step(&mut real, &mut twin, last, &[ops, &[last]].concat());
    }
}
