//! One run on real threads: producers, groups, and somebody who joins, leaves, seeks and pauses meanwhile.

use crate::checker::{self, Books, Handled, Lane, Published};
use crate::dice::Dice;
use crate::payload::{Count, Notes, PATIENCE, Payload, await_that};
use ringlog::{
    Broker, Group, GroupConfig, Member, Producer, PublishError, Record, Retain, Retry, Run, SeekTo, Topic, TopicConfig,
    Worker,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How the members of the groups are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    OwnThread,
    ThreadPerLane,
    SharedWorker,
}

/// When the broker is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    Drained,
    /// As soon as so many publishes were accepted.
    After(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) producers: u32,
    pub(crate) exclusive: bool,
    pub(crate) partitions: u32,
    pub(crate) capacity: usize,
    pub(crate) retain: Retain,
    pub(crate) groups: u8,
    pub(crate) how: How,
    /// Joins, leaves and pauses while the run lasts.
    pub(crate) churn: u32,
    pub(crate) seeks: bool,
    pub(crate) records: u64,
    pub(crate) close: Close,
    pub(crate) seed: u64,
}

/// Calls of a handler per record.
const ATTEMPTS: u32 = 3;

/// One group under test, and what is known about it so far.
struct Watched {
    group: Group<Payload>,
    calls: Arc<Mutex<Vec<Handled>>>,
    landings: Mutex<Vec<(u32, u64)>>,
    members: Mutex<Vec<Member<Payload>>>,
    number: u8,
}

/// Everything that the threads of a run share.
struct Stage {
    plan: Plan,
    broker: Broker,
    topic: Topic<Payload>,
    groups: Vec<Watched>,
    worker: Worker,
    open: Arc<()>,
    joined: AtomicU64,
    accepted: AtomicU64,
    publishing: AtomicBool,
}

/// Runs the plan, within the patience, and judges what happened.
pub(crate) fn run(plan: &Plan) {
    let (done, outcome) = mpsc::channel();
    let given = plan.clone();
    let runner = thread::spawn(move || done.send(play(&given)));
    match outcome.recv_timeout(PATIENCE) {
        Ok(Ok(())) => drop(runner.join()),
        Ok(Err(said)) => panic!("{said}\n{plan:?}"),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs: {plan:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the run panicked: {plan:?}"),
    }
}

fn play(plan: &Plan) -> checker::Verdict {
    let count = Arc::new(Count::default());
    let (published, lanes) = {
        let (stage, producer) = Stage::new(plan);
        let published = stage.produce(producer, &count);
        (published, stage.finish())
    };
    for p in 0..plan.partitions {
        let part: Vec<Published> = published.iter().filter(|record| record.partition == p).copied().collect();
        let ends: Vec<u64> = lanes.iter().filter(|lane| lane.1 == p).map(|lane| lane.2).collect();
        let log = checker::check_log(&part, ends[0]).map_err(|said| format!("partition {p}: {said}"))?;
        for (group, _, _, lane) in lanes.iter().filter(|lane| lane.1 == p) {
            checker::check_lane(lane, &log, ATTEMPTS)
                .map_err(|said| format!("group {group}, partition {p}: {said}"))?;
        }
    }
    count.settle()
}

impl Stage {
    fn new(plan: &Plan) -> (Self, Option<Producer<Payload>>) {
        let broker = Broker::new();
        let config =
            TopicConfig::new().partitions(plan.partitions).capacity(plan.capacity).retain(plan.retain).block(None);
        let (topic, producer) = if plan.exclusive {
            let (topic, producer) = broker.create_exclusive("t", config).expect("good settings");
            (topic, Some(producer))
        } else {
            (broker.create_topic("t", config).expect("good settings"), None)
        };
        let watch = |number| {
            let retry = Retry::exponential(ATTEMPTS).first(Duration::from_micros(3));
            let config = GroupConfig::earliest().retry(retry);
            let group = topic.group(&format!("g{number}"), config).expect("good settings");
            Watched { group, number, calls: Arc::default(), landings: Mutex::default(), members: Mutex::default() }
        };
        let groups = (0..plan.groups).map(watch).collect();
        let (joined, accepted) = (AtomicU64::new(0), AtomicU64::new(0));
        let (plan, worker, publishing) = (plan.clone(), Worker::spawn().expect("a thread"), AtomicBool::new(true));
        let open = Arc::new(());
        let stage = Self { plan, broker, topic, groups, worker, open, joined, accepted, publishing };
        stage.groups.iter().for_each(|watched| stage.join(watched));
        (stage, producer)
    }

    fn join(&self, watched: &Watched) {
        let number = self.joined.fetch_add(1, Ordering::Relaxed);
        let run = match self.plan.how {
            How::OwnThread => Run::OwnThread,
            How::ThreadPerLane => Run::ThreadPerLane,
            How::SharedWorker => Run::from(&self.worker),
        };
        let notes = || Notes {
            calls: Vec::new(),
            into: watched.calls.clone(),
            dice: Dice::new(self.plan.seed ^ (number << 20) ^ u64::from(watched.number)),
            _open: self.open.clone(),
        };
        let name = format!("m{number}");
        let member = watched.group.member(&name).run(run);
        let joined = if self.plan.how == How::OwnThread {
            let mut notes = notes();
            member.subscribe(move |record: &Record<'_, Payload>| notes.handle(record))
        } else {
            member.subscribe_with(|_| {
                let mut notes = notes();
                move |record: &Record<'_, Payload>| notes.handle(record)
            })
        };
        match joined {
            Ok(member) => watched.members.lock().expect("no panic holds it").push(member),
            Err(refused) => assert!(self.broker_is_closing(), "{refused}"),
        }
    }

    /// Publishes from all producers, with the churn and the close beside them.
    fn produce(&self, producer: Option<Producer<Payload>>, count: &Arc<Count>) -> Vec<Published> {
        thread::scope(|scope| {
            let producers: Vec<_> = match producer {
                Some(mut producer) => {
                    vec![scope.spawn(move || self.publish_all(0, count, |payload| producer.publish(payload)))]
                }
                None => (0..self.plan.producers)
                    .map(|who| scope.spawn(move || self.publish_all(who, count, |payload| self.topic.publish(payload))))
                    .collect(),
            };
            let churn = scope.spawn(|| self.churn());
            let closer = scope.spawn(|| self.close_early());
            let published = producers.into_iter().flat_map(|producer| producer.join().expect("a producer")).collect();
            self.publishing.store(false, Ordering::Release);
            churn.join().expect("the churn");
            closer.join().expect("the closer");
            published
        })
    }

    fn publish_all(
        &self,
        who: u32,
        count: &Arc<Count>,
        mut publish: impl FnMut(Payload) -> Result<ringlog::Published, PublishError<Payload>>,
    ) -> Vec<Published> {
        let mut published = Vec::new();
        for n in 0..self.plan.records {
            let (payload, called) = (Payload::new(who, n, count), Instant::now());
            match publish(payload) {
                Ok(stored) => {
                    let returned = Instant::now();
                    let (partition, offset) = (stored.partition(), stored.offset());
                    published.push(Published { producer: who, n, partition, offset, called, returned });
                    self.accepted.fetch_add(1, Ordering::Relaxed);
                }
                Err(PublishError::Closed { value, .. }) => {
                    assert_eq!((value.producer, value.n), (who, n), "another payload came back");
                    assert!(self.plan.close != Close::Drained, "closed, but nobody closed it");
                    break;
                }
                Err(other) => panic!("refused for a reason that cannot be: {other}"),
            }
        }
        published
    }

    fn close_early(&self) {
        let Close::After(records) = self.plan.close else { return };
        while self.publishing.load(Ordering::Acquire) && self.accepted.load(Ordering::Relaxed) < records {
            thread::yield_now();
        }
        self.broker.close(Some(Duration::ZERO));
    }

    /// Joins, leaves, pauses, resumes and seeks; at the end every group has a member and none is paused.
    fn churn(&self) {
        let mut dice = Dice::new(self.plan.seed ^ 0xC0FFEE);
        for _ in 0..self.plan.churn {
            if !self.publishing.load(Ordering::Acquire) || self.broker_is_closing() {
                break;
            }
            self.let_some_through(dice.roll(30));
            let watched = &self.groups[dice.roll(self.groups.len() as u64) as usize];
            match dice.roll(6) {
                0 | 1 => self.join(watched),
                2 => leave_one(watched, &mut dice),
                3 => watched.group.pause(),
                4 => watched.group.resume(),
                _ if self.plan.seeks => self.seek(watched, &mut dice),
                _ => thread::yield_now(),
            }
        }
        for watched in &self.groups {
            watched.group.resume();
            if watched.members.lock().expect("no panic holds it").is_empty() && !self.broker_is_closing() {
                self.join(watched);
            }
        }
    }

    /// Spreads the churn over the run; nobody publishes while all groups are paused, so patience is short.
    fn let_some_through(&self, records: u64) {
        let until = self.accepted.load(Ordering::Relaxed) + records;
        for _ in 0..200 {
            if self.accepted.load(Ordering::Relaxed) >= until {
                break;
            }
            thread::yield_now();
        }
    }

    fn seek(&self, watched: &Watched, dice: &mut Dice) {
        let partition = dice.roll(u64::from(self.plan.partitions)) as u32;
        let to = match dice.roll(4) {
            0 => SeekTo::Earliest,
            1 => SeekTo::Latest,
            _ => {
                let (earliest, end) = (self.topic.earliest(partition), self.topic.end(partition));
                SeekTo::Offset(earliest.unwrap_or(0) + dice.roll(1 + end.unwrap_or(0) - earliest.unwrap_or(0)))
            }
        };
        match watched.group.seek(partition, to) {
            Ok(landed) => watched.landings.lock().expect("no panic holds it").push((partition, landed)),
            Err(refused) => assert!(self.broker_is_closing(), "{refused}"),
        }
    }

    fn broker_is_closing(&self) -> bool {
        self.broker.state() != ringlog::BrokerState::Open
    }

    /// Closes, drops what runs the handlers, and collects what is known: group, partition, end, lane.
    fn finish(self) -> Vec<(u8, u32, u64, Lane)> {
        if self.plan.close == Close::Drained {
            self.broker.drain(PATIENCE).expect("every group has a member");
        }
        let account = self.broker.close(Some(PATIENCE));
        assert!(account.stopped || self.plan.close != Close::Drained, "handlers run on after a close that waited");
        self.worker.stop();
        assert!(await_that(|| Arc::strong_count(&self.open) == 1), "handlers outlive a close");
        // Acks of what was in hand when a seek or a close came are refused: as much as may be uncommitted at a time.
        let in_hand = (self.plan.capacity as u64 / 8).max(1);
        let mut lanes = Vec::new();
        for watched in &self.groups {
            let stats = watched.group.stats();
            let landings = watched.landings.lock().expect("no panic holds it");
            let calls = watched.calls.lock().expect("no panic holds it");
            for seen in &stats.lanes {
                let p = seen.partition;
                let calls = calls.iter().filter(|call| call.partition == p).copied().collect();
                let landings = landings.iter().filter(|(at, _)| *at == p).map(|(_, to)| *to).collect();
                let (acked, dead, replayed, skipped) = (seen.acked, seen.dead, seen.replayed, seen.skipped);
                let books = Books { acked, dead, replayed, skipped };
                // Who was refused may have stopped before the account was taken: the books say how much that was.
                let fenced = if account.stopped { seen.refused.min(in_hand) } else { in_hand };
                let (start, committed) = (seen.start, seen.committed);
                let lane = Lane { start, committed, calls, landings, books, in_hand, fenced };
                lanes.push((watched.number, p, seen.end, lane));
            }
        }
        lanes
    }
}

fn leave_one(watched: &Watched, dice: &mut Dice) {
    let mut members = watched.members.lock().expect("no panic holds it");
    if !members.is_empty() {
        let at = dice.roll(members.len() as u64) as usize;
        members.swap_remove(at).leave();
    }
}
