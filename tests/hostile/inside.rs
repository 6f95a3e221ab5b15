//! Controls used from inside a handler, whoever runs it: each has a defined result, and nobody waits for himself.
#![forbid(unsafe_code)]

use super::{LONG, ends, until};
use ringlog::{
    Broker, BrokerState, CommitError, Delivery, Group, GroupConfig, LeaveError, Manual, Member, Pick, Position, Record,
    Run, SeekTo, Topic, TopicConfig, Worker,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    LeaveOneself,
    LeaveAnother,
    LeaveWhenDone,
    WaitForItself,
    Commit,
    Look,
    Join,
    SeekBack,
    SeekOn,
    ReplayAll,
    Pause,
    PausePartition,
    DeleteGroup,
    DeleteTopic,
    Drain,
    Close,
    DropBroker,
    StopWorker,
}

const ACTS: [Act; 18] = [
    Act::LeaveOneself,
    Act::LeaveAnother,
    Act::LeaveWhenDone,
    Act::WaitForItself,
    Act::Commit,
    Act::Look,
    Act::Join,
    Act::SeekBack,
    Act::SeekOn,
    Act::ReplayAll,
    Act::Pause,
    Act::PausePartition,
    Act::DeleteGroup,
    Act::DeleteTopic,
    Act::Drain,
    Act::Close,
    Act::DropBroker,
    Act::StopWorker,
];

#[derive(Clone, Copy, Debug)]
enum By {
    OwnThread,
    ThreadPerLane,
    Worker,
    Manual,
}

/// What a handler may reach. The broker's only handle is in here.
struct World {
    broker: Mutex<Option<Broker>>,
    topic: Topic<u64>,
    group: Group<u64>,
    members: Mutex<Vec<Member<u64>>>,
    worker: Worker,
    /// Whether the act was begun and done, and how many calls there were.
    begun: AtomicBool,
    done: AtomicBool,
    calls: AtomicU64,
}

/// The record at which it happens, and how many there are.
const AT: u64 = 3;
const ALL: u64 = 8;

impl World {
    fn handle(self: &Arc<Self>, act: Act, record: &Record<'_, u64>) {
        self.calls.fetch_add(1, Relaxed);
        if record.offset() == AT && !self.begun.swap(true, Relaxed) {
            self.do_it(act);
            self.done.store(true, Relaxed);
        }
    }

    fn do_it(self: &Arc<Self>, act: Act) {
        let group = &self.group;
        match act {
            Act::LeaveOneself => assert!(self.members.lock().unwrap()[0].leave()),
            Act::LeaveAnother => assert!(self.members.lock().unwrap()[1].leave()),
            Act::LeaveWhenDone => {
                let left = self.members.lock().unwrap()[0].leave_drained(LONG);
                assert!(matches!(left, Err(LeaveError::WouldDeadlock { .. })), "{left:?}");
            }
            Act::WaitForItself => {
                let own = Position { partition: 0, offset: AT };
                assert!(self.topic.wait_committed(own, &["g"], LONG).is_err(), "it would wait for itself");
            }
            Act::Commit => {
                assert!(matches!(group.commit(0, AT + 1, 5), Err(CommitError::Elsewhere { found: AT, .. })));
                assert_eq!(group.commit(0, AT, 5), Ok(5));
            }
            Act::Look => {
                drop((self.broker().describe(), group.describe(), self.topic.why_full(0), self.topic.why_stalled(0)));
                drop((group.letters(), group.redriving(), group.offsets(), group.save_offsets()));
                assert_eq!((group.redrive(Pick::all()).unwrap().queued, group.call_back()), (0, 0));
                let own = group.delivery(Position { partition: 0, offset: AT }).unwrap();
                assert_eq!(own, Delivery::InHand);
            }
            Act::Join => {
                let member = group.subscribe("third", |_| ()).unwrap();
                self.members.lock().unwrap().push(member);
            }
            Act::SeekBack => assert_eq!(group.seek(0, SeekTo::Offset(1)), Ok(1)),
            Act::SeekOn => assert_eq!(group.seek(0, SeekTo::Offset(5)), Ok(5)),
            Act::ReplayAll => assert_eq!(group.replay(SeekTo::Earliest), Ok(vec![0, 0])),
            Act::Pause => group.pause(),
            Act::PausePartition => group.pause_partition(0).unwrap(),
            Act::DeleteGroup => assert!(group.delete() && !group.delete()),
            Act::DeleteTopic => self.broker().delete_topic("t").unwrap(),
            Act::Drain => assert!(self.broker().drain(LONG).is_err(), "it would wait for itself"),
            Act::Close => assert!(!self.broker().close(None).stopped, "this handler is still at work"),
            Act::DropBroker => drop(self.broker.lock().unwrap().take()),
            Act::StopWorker => self.worker.stop(),
        }
    }

    fn broker(&self) -> Broker {
        self.broker.lock().unwrap().clone().unwrap()
    }
}

/// Runs it, and waits until the act is done and all is done that will be.
fn play(act: Act, by: By) {
    let broker = Broker::new();
    let topic = broker.create_topic("t", TopicConfig::new().partitions(2).capacity(16)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let manual = Manual::new(7);
    let world = Arc::new(World {
        broker: Mutex::new(Some(broker)),
        topic: topic.clone(),
        group: group.clone(),
        members: Mutex::default(),
        worker: Worker::spawn().unwrap(),
        begun: AtomicBool::new(false),
        done: AtomicBool::new(false),
        calls: AtomicU64::new(0),
    });
    for name in ["first", "second"] {
        let one = |world: Arc<World>| move |record: &Record<'_, u64>| world.handle(act, record);
        let member = group.member(name);
        let joined = match by {
            By::OwnThread => member.subscribe(one(world.clone())),
            By::ThreadPerLane => member.run(Run::ThreadPerLane).subscribe_with(|_| one(world.clone())),
            By::Worker => member.run(&world.worker).subscribe(one(world.clone())),
            By::Manual => member.run(&manual).subscribe(one(world.clone())),
        };
        world.members.lock().unwrap().push(joined.unwrap());
    }
    // Partition 0 is the first member's.
    let step = || _ = manual.run(1_000);
    (0..AT).for_each(|n| _ = world.topic.publish_to(0, n).unwrap());
    until(|| {
        step();
        group.lag() == 0
    });
    group.pause_partition(0).unwrap(); // so that all are there when it happens
    (AT..ALL).for_each(|n| _ = world.topic.publish_to(0, n).unwrap());
    group.resume_partition(0).unwrap();
    until(|| {
        step();
        world.done.load(Relaxed)
    });
    check(act, by, &world, &step);
    let broker = world.broker.lock().unwrap().take();
    if let (Some(broker), By::Manual) = (&broker, by) {
        broker.close(Some(std::time::Duration::ZERO)); // nobody steps while it waits
    } else if let Some(broker) = &broker {
        assert!(broker.close(Some(LONG)).stopped || act == Act::Close);
    }
    until(|| world.group.stats().balances());
}

fn check(act: Act, by: By, world: &World, step: &dyn Fn()) {
    let group = &world.group;
    let finally = |so: &dyn Fn() -> bool| {
        until(|| {
            step();
            so()
        });
    };
    let done = |acked: u64| finally(&|| group.stats().acked() == acked && group.lag() == 0);
    // Of the records in hand at most one more is handed over than the one at which it happened.
    let refused = || (1..=2).contains(&group.stats().refused());
    match act {
        // Who leaves finishes the record in hand, which counts; the rest goes to who stays.
        Act::LeaveOneself | Act::LeaveAnother | Act::Join | Act::Drain => done(ALL),
        Act::LeaveWhenDone | Act::WaitForItself | Act::Look => done(ALL),
        Act::StopWorker if matches!(by, By::Worker) => {
            finally(&|| group.assignment().is_empty());
            group.subscribe("after", |_| ()).unwrap();
            done(ALL);
        }
        Act::StopWorker => done(ALL),
        // The record in hand was seeked away from: its acknowledgement is refused.
        Act::SeekBack => {
            done(ALL + 2);
            assert!(group.stats().replayed() == AT - 1 && refused(), "{:?}", group.stats());
        }
        Act::SeekOn | Act::Commit => {
            done(ALL - 2);
            assert!(group.stats().skipped() == 2 && refused(), "{:?}", group.stats());
        }
        Act::ReplayAll => {
            done(ALL + AT);
            assert!(group.stats().replayed() == AT && refused(), "{:?}", group.stats());
        }
        Act::Pause | Act::PausePartition => {
            finally(&|| group.stats().acked() > AT);
            assert!(group.stats().acked() <= AT + 2, "at most one more of what is in hand");
            group.resume();
            group.resume_partition(0).unwrap();
            done(ALL);
        }
        Act::DeleteGroup | Act::DeleteTopic => {
            finally(&|| refused() && group.stats().balances());
            assert_eq!(group.stats().acked(), AT);
            assert!(world.calls.load(Relaxed) <= AT + 2);
            assert_eq!(world.topic.is_closed(), act == Act::DeleteTopic);
            assert_eq!(world.topic.find_group("g").is_err(), act == Act::DeleteGroup);
            assert_eq!(world.broker().topic::<u64>("t").is_err(), act == Act::DeleteTopic);
            assert!(group.subscribe("late", |_| ()).is_err());
        }
        Act::Close => {
            assert_eq!(world.broker().state(), BrokerState::Closed);
            finally(&|| group.assignment().is_empty() && group.stats().balances());
        }
        Act::DropBroker => {
            finally(&|| world.topic.is_closed() && group.stats().balances());
            assert!(world.topic.publish(1).is_err());
        }
    }
    finally(&|| group.stats().balances());
}

// X29
#[test]
fn whatever_a_handler_does_to_its_own_group_has_a_defined_result() {
    for by in [By::OwnThread, By::ThreadPerLane, By::Worker, By::Manual] {
        for act in ACTS {
            eprintln!("{act:?} by {by:?}");
            ends(move || play(act, by));
        }
    }
}
