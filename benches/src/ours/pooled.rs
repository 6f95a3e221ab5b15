//! Many members on a pool: one of each of many topics, or many of one topic.
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringlog::{Broker, GroupConfig, Overflow, Pool, PoolConfig, Topic, TopicConfig};

use crate::event::Event;
use crate::machine;
use crate::many::{SLOTS, Seen, bursts};

/// A broker with a member of each of many topics, to be used again and again.
#[derive(Debug)]
pub struct Mailboxes {
    _broker: Broker,
    _pool: Pool,
    topics: Vec<Topic<Event>>,
    seen: Arc<Seen>,
}

impl Mailboxes {
    /// Of `count` topics, on `threads` threads.
    pub fn new(count: usize, threads: usize) -> Self {
        let (broker, seen) = (Broker::new(), Arc::new(Seen::default()));
        let pool = Pool::with(PoolConfig::new().threads(threads)).expect("the size is right");
        let topic = |n: usize| {
            let topic =
                broker.create_topic(&format!("box-{n}"), TopicConfig::new().capacity(SLOTS)).expect("it is new");
            let group = topic.group("inbox", GroupConfig::earliest()).expect("it is new");
            let seen = seen.clone();
            group.member("only").run(&pool).subscribe(move |event| seen.take(event)).expect("it is new");
            topic
        };
        let topics = (0..count).map(topic).collect();
        Mailboxes { topics, _pool: pool, _broker: broker, seen }
    }

    /// `burst` messages to one topic after the other; nanoseconds each, until all are handled.
    pub fn run(&self, messages: u64, burst: u64) -> f64 {
        bursts(messages, burst, &self.topics, &self.seen, |topic, event| {
            topic.publish(event).expect("somebody reads");
        })
    }
}

/// One topic, and many members that have nothing to do until something comes.
#[derive(Debug)]
pub struct Audience {
    _broker: Broker,
    _pool: Pool,
    topic: Topic<Event>,
    members: u64,
    seen: Arc<Seen>,
}

impl Audience {
    /// Of `members` groups of one member each, which keep the latest record only, so that nobody waits for them. The pool's
    /// threads begin beside the consumer's core: on the publisher's they would run in the middle of a publish.
    pub fn new(members: usize, threads: usize) -> Self {
        thread::scope(|scope| {
            let made = scope.spawn(|| {
                machine::pin(machine::CONSUMER);
                Self::made(members, threads)
            });
            made.join().expect("it can be made")
        })
    }

    fn made(members: usize, threads: usize) -> Self {
        let (broker, seen) = (Broker::new(), Arc::new(Seen::default()));
        let pool = Pool::with(PoolConfig::new().threads(threads)).expect("the size is right");
        let topic = broker.create_topic("all", TopicConfig::<Event>::new().capacity(1_024)).expect("it is new");
        for n in 0..members {
            let config = GroupConfig::earliest().overflow(Overflow::drop_oldest(SLOTS));
            let group = topic.group(&format!("g{n}"), config).expect("it is new");
            let seen = seen.clone();
            group.member("only").run(&pool).subscribe(move |event| seen.take(event)).expect("it is new");
        }
        Audience { topic, members: members as u64, _pool: pool, _broker: broker, seen }
    }

    /// Publishes `messages`, each once all members have handled the one before and rest again; what a publish takes.
    pub fn run(&self, messages: u64) -> f64 {
        let took = thread::scope(|scope| {
            let publisher = scope.spawn(|| {
                machine::pin(machine::PRODUCER);
                let publish = |_| {
                    let start = Instant::now();
                    self.topic.publish(Event::new(0)).expect("somebody reads");
                    let took = start.elapsed();
                    self.seen.check(1, self.members);
                    thread::sleep(Duration::from_millis(2));
                    took
                };
                (0..messages).map(publish).sum::<Duration>()
            });
            publisher.join().expect("the publisher does not panic")
        });
        took.as_nanos() as f64 / messages as f64
    }
}
