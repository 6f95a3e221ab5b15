//! Work queues: whoever settles or leaves after what it had in hand was given to another, or the group is over, changes nothing and
//! is told why.
#![forbid(unsafe_code)]

mod lab;

use lab::{Lab, balanced};
use ringlog::{
    Consumer, Failure, FencedBy, Group, GroupConfig, Manual, Member, Order, Outcome, Receipt, Record, Retry, SeekTo,
    SettleError, Straggler, Topic, TopicConfig,
};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);
/// Nothing gets so old here: it has handlers take every record alone.
const OLD: Duration = Duration::from_secs(100_000);
const RECORDS: u64 = 4;
const ORDERS: [Order; 2] = [Order::Shared, Order::Key];

/// What comes between a record being handed over and what its holder makes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    /// Its lease is over, and another has it in hand.
    InOtherHands,
    /// The same, and that one is done with it.
    DoneByAnother,
    Seeked,
    Closed,
    Deleted,
    TopicDeleted,
}

const ALL: [Between; 6] = [
    Between::InOtherHands,
    Between::DoneByAnother,
    Between::Seeked,
    Between::Closed,
    Between::Deleted,
    Between::TopicDeleted,
];

impl Between {
    fn reason(self) -> FencedBy {
        match self {
            Between::InOtherHands | Between::DoneByAnother => FencedBy::Expired,
            Between::Seeked => FencedBy::Seeked,
            Between::Closed | Between::Deleted | Between::TopicDeleted => FencedBy::Deleted,
        }
    }

    fn is_the_end(self) -> bool {
        self.reason() == FencedBy::Deleted
    }
}

/// A queue of records of one key.
struct Queue {
    lab: Lab,
    topic: Topic<u64>,
    group: Group<u64>,
}

impl Queue {
    fn new(order: Order, alone: bool) -> Self {
        let lab = Lab::new(1);
        let config = TopicConfig::new().capacity(16).key(|_: &u64| "one");
        let topic = lab.broker.create_topic("jobs", config).unwrap();
        let again = Retry::constant(1, Duration::ZERO).unlimited();
        let config = GroupConfig::earliest().order(order).retry(again).lease(LEASE);
        let config = if alone { config.straggler(Straggler::Bury(OLD)) } else { config };
        let group = topic.group("g", config).unwrap();
        (0..RECORDS).for_each(|n| _ = topic.publish(n).unwrap());
        Queue { lab, topic, group }
    }

    /// It happens; what another has in hand then.
    fn happens(&self, between: Between, other: &mut Consumer<u64>) -> Vec<Receipt> {
        match between {
            Between::InOtherHands | Between::DoneByAnother => {
                self.lab.clock.advance(LEASE);
                let taken = take(other);
                if between == Between::InOtherHands {
                    return taken;
                }
                taken.into_iter().for_each(|receipt| receipt.ack().unwrap());
            }
            Between::Seeked => _ = self.group.seek(0, SeekTo::Offset(1)).unwrap(),
            Between::Closed => _ = self.lab.broker.close(Some(Duration::ZERO)),
            Between::Deleted => assert!(self.group.delete()),
            Between::TopicDeleted => self.lab.broker.delete_topic(self.topic.name()).unwrap(),
        }
        Vec::new()
    }

    /// What must not change, what is in flight, and how many were refused.
    fn books(&self) -> (String, u64, u64) {
        let stats = balanced(&self.group);
        let lane = &stats.lanes[0];
        let figures = [lane.committed, lane.end, lane.acked, lane.dead, lane.retried, lane.replayed, lane.skipped];
        let more = [lane.pending, lane.leases_expired, lane.stragglers, lane.stragglers_ended];
        (format!("{figures:?} {more:?} {:?}", self.group.letters()), lane.in_flight, stats.refused())
    }

    /// Whatever was late, all is done in the end, by the other one.
    fn is_done_by(&self, between: Between, other: &mut Consumer<u64>, has: Vec<Receipt>) {
        has.into_iter().for_each(|receipt| receipt.ack().unwrap());
        if !between.is_the_end() {
            loop {
                let taken = take(other); // of one key as much as may be in hand at once
                if taken.is_empty() {
                    break;
                }
                taken.into_iter().for_each(|receipt| receipt.ack().unwrap());
            }
            let stats = balanced(&self.group);
            let skipped = u64::from(between == Between::Seeked);
            assert_eq!((stats.acked(), stats.skipped(), stats.lag()), (RECORDS - skipped, skipped, 0), "{between:?}");
        }
    }
}

/// All that a consumer is given.
fn take(consumer: &mut Consumer<u64>) -> Vec<Receipt> {
    let mut all = Vec::new();
    loop {
        let batch = consumer.try_poll(9).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.push(batch.detach());
    }
}

fn failure() -> Failure {
    Failure::new("late")
}

/// A consumer, and what it has had in hand for too long: two records.
struct Late {
    consumer: Consumer<u64>,
    receipt: Receipt,
}

/// What it does, and how many records that would have acknowledged.
type Act = (&'static str, fn(Late) -> Option<Result<(), SettleError>>, u64);

const ACTS: [Act; 8] = [
    ("ack", |late| Some(late.receipt.ack()), 2),
    ("ack one", |mut late| Some(late.receipt.ack_through(0)), 1),
    ("nack", |late| Some(late.receipt.nack(failure())), 0),
    ("nack the second", |mut late| Some(late.receipt.nack_from(1, failure())), 0),
    ("extend", |late| Some(late.receipt.extend(LEASE).map(drop)), 0),
    (
        "release",
        |late| {
            drop(late.receipt);
            None
        },
        0,
    ),
    (
        "leave and ack",
        |late| {
            drop(late.consumer);
            Some(late.receipt.ack())
        },
        2,
    ),
    (
        "by partition",
        |mut late| {
            let acked = late.consumer.ack_through(0, 1);
            assert!(matches!(acked, Err(SettleError::NotInFlight { in_flight: None, .. })), "{acked:?}");
            assert!(!late.consumer.nack(0), "nothing of it is in flight");
            late.receipt.leave_in_flight();
            None
        },
        0,
    ),
];

// B-E5, X9, X36, B-7
#[test]
fn a_consumer_that_settles_or_leaves_late_changes_nothing_and_is_told_why() {
    for order in ORDERS {
        for between in ALL {
            for (what, act, records) in ACTS {
                let name = format!("{order:?}, {between:?}: {what}");
                let queue = Queue::new(order, false);
                let (mut late, mut other) =
                    (queue.group.consumer("late").unwrap(), queue.group.consumer("other").unwrap());
                let receipt = late.try_poll(2).unwrap().detach();
                assert_eq!(receipt.offsets(), 0..2, "{name}");
                let has = queue.happens(between, &mut other);
                let (before, in_flight, refused) = queue.books();
                match act(Late { consumer: late, receipt }) {
                    Some(Err(SettleError::Fenced { reason, .. })) => assert_eq!(reason, between.reason(), "{name}"),
                    Some(settled) => panic!("{name}: {settled:?}"),
                    None => {}
                }
                assert_eq!(queue.books(), (before, in_flight, refused + records), "{name}");
                queue.is_done_by(between, &mut other, has);
            }
        }
    }
}

/// A handler that hangs in its first record until it is told what to return.
struct Hangs {
    member: Member<u64>,
    go: Sender<Option<Outcome>>,
    thread: JoinHandle<()>,
}

fn hangs(group: &Group<u64>) -> Hangs {
    let ((tell, inside), (go, gate)) = (mpsc::channel(), mpsc::channel());
    let (gate, manual): (Receiver<Option<Outcome>>, _) = (gate, Manual::new(1));
    let handler = move |_: &Record<'_, u64>| {
        tell.send(()).unwrap();
        gate.recv().unwrap().unwrap_or_else(|| std::panic::resume_unwind(Box::new("as planned")))
    };
    let member = group.member("late").run(&manual).subscribe(handler).unwrap();
    let thread = thread::spawn(move || _ = manual.run(100));
    inside.recv_timeout(LONG).unwrap();
    Hangs { member, go, thread }
}

// B-E5, X9, X36, X20
#[test]
fn a_handler_that_returns_or_leaves_late_changes_nothing_and_is_counted_as_refused() {
    let outcomes: [fn() -> Option<Outcome>; 4] =
        [|| Some(Outcome::Ack), || Some(Outcome::retry("late")), || Some(Outcome::reject("late")), || None];
    for order in ORDERS {
        for between in ALL {
            for (nth, outcome) in outcomes.iter().enumerate() {
                for leaves in [false, true] {
                    let name = format!("{order:?}, {between:?}: {nth}, leaves: {leaves}");
                    let queue = Queue::new(order, true);
                    let hangs = hangs(&queue.group);
                    let mut other = queue.group.consumer("other").unwrap();
                    let has = queue.happens(between, &mut other);
                    if leaves {
                        hangs.member.leave();
                    }
                    queue.group.pause(); // so that it takes nothing more
                    let (before, _, refused) = queue.books();
                    hangs.go.send(outcome()).unwrap();
                    hangs.thread.join().unwrap();
                    let (after, _, now_refused) = queue.books();
                    assert_eq!((after, now_refused), (before, refused + 1), "{name}");
                    hangs.member.leave();
                    queue.group.resume();
                    queue.is_done_by(between, &mut other, has);
                }
            }
        }
    }
}
