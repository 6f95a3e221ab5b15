//! The real thing, in lockstep: a work queue of two members whose handlers wait to be told what to return.

use super::hands::check;
use super::jobs::{Fence, Op, Twin};
use super::push::{Event, Order as Told, Runner};
use super::records::{ATTEMPTS, Figures, RECORDS, Rule};
use ringlog::{
    Broker, BrokerConfig, FencedBy, Group, GroupConfig, Manual, ManualClock, Member, Order, Retry, SeekTo, Straggler,
    TopicConfig,
};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
/// Nothing gets so old here: it has every record taken alone.
const OLD: Duration = Duration::from_secs(100_000);

/// A queue in that order, of which that is over when its time has passed.
pub(crate) fn ruled(order: Order, rule: Rule) -> GroupConfig<u64> {
    let config = GroupConfig::earliest().retry(Retry::constant(ATTEMPTS, Duration::ZERO)).order(order);
    match rule {
        Rule::Lease => config.lease(LEASE).straggler(Straggler::Bury(OLD)),
        Rule::Bury => config.straggler(Straggler::Bury(LEASE)),
        Rule::Evict => config.straggler(Straggler::Evict(LEASE)),
    }
}

/// But for what is in flight.
pub(crate) fn figures(group: &Group<u64>) -> Figures {
    let lane = group.stats().lanes.remove(0);
    assert!(lane.balances(), "the books: {lane:?}");
    Figures {
        committed: lane.committed,
        pending: lane.pending,
        in_flight: 0,
        acked: lane.acked,
        dead: lane.dead,
        retried: lane.retried,
        refused: lane.refused,
        over: lane.leases_expired + lane.stragglers_ended,
        skipped: lane.skipped,
        replayed: lane.replayed,
    }
}

pub(crate) fn letters(group: &Group<u64>) -> Vec<u64> {
    let mut letters: Vec<u64> = group.letters().iter().map(|letter| letter.offset()).collect();
    letters.sort_unstable();
    letters
}

struct Real<'a> {
    rule: Rule,
    runners: &'a [Runner; 2],
    manuals: [Manual; 2],
    members: Vec<Option<Member<u64>>>,
    clock: Arc<ManualClock>,
    group: Group<u64>,
    in_hand: [Option<(u64, u32)>; 2],
    _broker: Broker,
}

impl<'a> Real<'a> {
    fn new(runners: &'a [Runner; 2], order: Order, rule: Rule) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let topic = broker.create_topic("t", TopicConfig::<u64>::new().capacity(RECORDS).key(|_| "one")).unwrap();
        let group = topic.group("g", ruled(order, rule)).unwrap();
        let manuals = [Manual::new(1), Manual::new(2)];
        let member = |who: usize| {
            let named = group.member(["m0", "m1"][who]).run(&manuals[who]);
            Some(named.subscribe(runners[who].handler()).unwrap())
        };
        let members = [0, 1].map(member).into();
        (0..RECORDS as u64).for_each(|n| _ = topic.publish(n).unwrap());
        Real { rule, runners, manuals, members, clock, group, in_hand: [None; 2], _broker: broker }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver(who) => self.deliver(who),
            Op::Expire => {
                self.clock.advance(LEASE);
                if self.rule != Rule::Lease {
                    self.clock.advance(LEASE); // it has looked by then
                }
            }
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
                Event::InHand(offset, attempt) => return self.in_hand[who] = Some((offset, attempt)),
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

    /// What the handler hears when it asks for more time.
    fn fence_of(&self, who: usize) -> Option<Fence> {
        self.runners[who].orders.send(Told::Extend).unwrap();
        let Event::Extended(extended) = self.runners[who].next() else { unreachable!("it was asked") };
        extended.map(|by| match by {
            FencedBy::Expired => Fence::Expired,
            FencedBy::Seeked => Fence::Seeked,
            FencedBy::Deleted => Fence::Deleted,
            other => panic!("{other}"),
        })
    }
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
    check("in hand", real.in_hand, twin.hands.map(|hand| hand.map(|hand| (hand.offset, hand.attempt))), after);
    check("figures", figures(&real.group), twin.figures(), after);
    check("letters", letters(&real.group), twin.records.letters.clone(), after);
    for who in (0..2).filter(|who| real.rule == Rule::Lease && real.in_hand[*who].is_some()) {
        check("an extension", real.fence_of(who), twin.hands[who].and_then(|hand| hand.fenced), after);
    }
}

/// Plays `ops` on both, comparing after each; in the end all comes back, and what is left is handed out.
pub(crate) fn play(runners: &[Runner; 2], order: Order, rule: Rule, ops: &[Op]) {
    let (mut real, mut twin) = (Real::new(runners, order, rule), Twin::new(order == Order::Key, rule));
    for (at, op) in ops.iter().enumerate() {
        step(&mut real, &mut twin, *op, &ops[..=at]);
    }
    for last in [Op::Ack(0), Op::Ack(1), Op::Deliver(0), Op::Deliver(1), Op::Ack(0), Op::Ack(1)] {
        step(&mut real, &mut twin, last, &[ops, &[last]].concat());
    }
}
