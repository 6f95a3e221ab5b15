//! The real thing, in lockstep: two members whose handlers wait to be told what to return, each stepped by a thread of its own.

use super::twin::{ATTEMPTS, CAPACITY, Fence, Figures, Op, Twin};
use ringlog::{
    Assignor, Broker, BrokerConfig, Deal, FencedBy, Group, GroupConfig, Manual, ManualClock, Record, Retry, SeekTo,
    Topic, TopicConfig,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);

/// What happens on a member's thread.
pub(crate) enum Event {
    InHand(u64, u32),
    Extended(Option<FencedBy>),
    /// Whether there was anything to do.
    Stepped(bool),
}

/// What a handler is told.
pub(crate) enum Order {
    Extend,
    Return(bool),
}

/// A thread that steps executors, and the two ends of what the handlers on it hear and say.
pub(crate) struct Runner {
    pub(crate) steps: Sender<Manual>,
    events: Receiver<Event>,
    pub(crate) orders: Sender<Order>,
    tell: Sender<Event>,
    heard: Arc<Mutex<Receiver<Order>>>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    pub(crate) fn new() -> Self {
        let ((steps, to_step), (tell, events), (orders, heard)) = (channel::<Manual>(), channel(), channel());
        let told = tell.clone();
        let thread = thread::spawn(move || {
            for manual in to_step {
                let worked = manual.step().is_some();
                let _ = told.send(Event::Stepped(worked));
            }
        });
        let heard = Arc::new(Mutex::new(heard));
        Runner { steps, events, orders, tell, heard, thread: Some(thread) }
    }

    pub(crate) fn next(&self) -> Event {
        self.events.recv_timeout(LONG).expect("it answers")
    }

    pub(crate) fn handler(&self) -> impl FnMut(&Record<'_, u64>) -> Result<(), &'static str> + Send + 'static {
        let (tell, heard) = (self.tell.clone(), self.heard.clone());
        move |record| {
            let before = **record;
            let _ = tell.send(Event::InHand(record.offset(), record.attempt()));
            let heard = heard.lock().unwrap();
            loop {
                match heard.recv().unwrap_or(Order::Return(true)) {
                    Order::Extend => {
                        let extended = record.extend(Duration::ZERO).err().map(|error| error.by);
                        tell.send(Event::Extended(extended)).expect("who asked waits");
                    }
                    Order::Return(good) => {
                        assert_eq!(**record, before, "its memory is its own");
                        return if good { Ok(()) } else { Err("no") };
                    }
                }
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        (self.steps, self.orders) = (channel().0, channel().0);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

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

const NAMES: [&str; 2] = ["m0", "m1"];

struct Real<'a> {
    runners: &'a [Runner; 2],
    manuals: [Manual; 2],
    clock: Arc<ManualClock>,
    topic: Topic<u64>,
    group: Group<u64>,
    plan: Arc<AtomicUsize>,
    in_hand: [Option<(u64, u32)>; 2],
    _broker: Broker,
}

impl<'a> Real<'a> {
    fn new(runners: &'a [Runner; 2]) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let config = TopicConfig::<u64>::new().capacity(CAPACITY as usize).drop_oldest();
        let topic = broker.create_topic("t", config).unwrap();
        let plan = Arc::new(AtomicUsize::new(0));
        let retry = Retry::constant(ATTEMPTS, Duration::ZERO);
        let config = GroupConfig::earliest().retry(retry).lease(LEASE).assignor(To(plan.clone()));
        let group = topic.group("g", config).unwrap();
        let manuals = [Manual::new(1), Manual::new(2)];
        for member in 0..2 {
            group.member(NAMES[member]).run(&manuals[member]).subscribe(runners[member].handler()).unwrap();
        }
        topic.publish(0).unwrap();
        Real { runners, manuals, clock, topic, group, plan, in_hand: [None; 2], _broker: broker }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Deliver => self.deliver(),
            Op::Expire => self.clock.advance(LEASE),
            Op::Ack(member) => self.back(member, true),
            Op::Nack(member) => self.back(member, false),
            Op::Seek(to) => _ = self.group.seek(0, SeekTo::Offset(to)).unwrap(),
            Op::Move => {
                self.plan.fetch_xor(1, Ordering::Relaxed);
                // Who comes and goes has it dealt anew, and is given nothing.
                let guest = self.group.member("guest").run(&self.manuals[0]).subscribe(|_| ()).unwrap();
                assert!(guest.leave());
            }
            Op::Trim => (0..CAPACITY).for_each(|n| _ = self.topic.publish(100 + n).unwrap()),
            Op::Delete => assert!(self.group.delete()),
        }
    }

    fn deliver(&mut self) {
        let (mut quiet, mut turns) = (0, 0);
        while quiet < 2 {
            let member = turns % 2;
            turns += 1;
            assert!(turns < 200, "it never comes to rest");
            if self.in_hand[member].is_some() {
                quiet += 1;
                continue;
            }
            self.runners[member].steps.send(self.manuals[member].clone()).unwrap();
            match self.runners[member].next() {
                Event::Stepped(false) => quiet += 1,
                Event::Stepped(true) => quiet = 0,
                Event::InHand(offset, attempt) => (self.in_hand[member], quiet) = (Some((offset, attempt)), 0),
                Event::Extended(_) => unreachable!("nobody has asked"),
            }
        }
    }

    fn back(&mut self, member: usize, good: bool) {
        self.in_hand[member] = None;
        // So that it looks up after this record: how many a step may take is the executor's choice.
        self.group.pause();
        self.group.resume();
        self.runners[member].orders.send(Order::Return(good)).unwrap();
        assert!(matches!(self.runners[member].next(), Event::Stepped(true)), "one record at a time");
    }

    fn fence_of(&self, member: usize) -> Option<Fence> {
        self.runners[member].orders.send(Order::Extend).unwrap();
        let Event::Extended(extended) = self.runners[member].next() else { unreachable!("it was asked") };
        match extended {
            None => None,
            Some(FencedBy::Expired) => Some(Fence::Expired),
            Some(FencedBy::Seeked) => Some(Fence::Seeked),
            Some(FencedBy::Deleted) => Some(Fence::Deleted),
            Some(other) => panic!("{other}"),
        }
    }

    fn compare(&self, twin: &Twin) -> Result<(), String> {
        let lane = self.group.stats().lanes.remove(0);
        let figures = Figures {
            committed: lane.committed,
            end: lane.end,
            acked: lane.acked,
            dead: lane.dead,
            retried: lane.retried,
            refused: lane.refused,
            lapsed: lane.leases_expired,
            skipped: lane.skipped,
            replayed: lane.replayed,
        };
        let differs = |what: &str, real: String, twin: String| Err(format!("{what}: {real}, but the twin {twin}"));
        if figures != twin.figures() {
            return differs("figures", format!("{figures:?}"), format!("{:?}", twin.figures()));
        }
        if !lane.balances() {
            return Err(format!("the books do not balance: {lane:?}"));
        }
        let hands = twin.hands.map(|hand| hand.map(|hand| (hand.offset, hand.attempt)));
        if self.in_hand != hands {
            return differs("in hand", format!("{:?}", self.in_hand), format!("{hands:?}"));
        }
        let letters: Vec<u64> = self.group.letters().iter().map(|letter| letter.offset()).collect();
        if letters != twin.letters {
            return differs("letters", format!("{letters:?}"), format!("{:?}", twin.letters));
        }
        for member in (0..2).filter(|member| self.in_hand[*member].is_some()) {
            let (real, expected) = (self.fence_of(member), twin.fence_of(member));
            if real != expected {
                return differs("an extension", format!("{real:?}"), format!("{expected:?}"));
            }
        }
        Ok(())
    }
}

/// Plays `ops` on both, comparing after each.
pub(crate) fn play(runners: &[Runner; 2], ops: &[Op]) {
    let (mut real, mut twin) = (Real::new(runners), Twin::new());
    for (at, op) in ops.iter().enumerate() {
        real.apply(*op);
        twin.apply(*op);
        real.compare(&twin).unwrap_or_else(|said| panic!("{said}\nafter {:?}", &ops[..=at]));
    }
    for member in 0..2 {
        if real.in_hand[member].is_some() {
            real.back(member, true);
        }
    }
}
