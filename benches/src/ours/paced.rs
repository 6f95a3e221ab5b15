//! Latencies of the whole path: from the moment before a publish until the handler has the record.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use quanta::Clock;
use ringlog::{Broker, GroupConfig, Producer, Record, TopicConfig, WaitPolicy, Worker};

use super::whole::PARTITIONS;
use crate::event::Event;
use crate::latency::{Wake, histogram, note, send_at_pace};
use crate::machine;
use crate::rounds::Sample;

/// Everything that outlives one measurement.
struct Rig {
    clock: Clock,
    worker: Worker,
    producer: Producer<Event>,
    handled: Arc<AtomicU64>,
    all: Arc<Mutex<Histogram<u64>>>,
    _broker: Broker,
}

impl Rig {
    /// A topic of 4 partitions, one group on one worker that waits by this policy.
    fn new(messages: u64, wait: WaitPolicy) -> Self {
        let (broker, clock, worker) = (Broker::new(), Clock::new(), Worker::on_your_thread());
        let config = TopicConfig::new().partitions(PARTITIONS).capacity(1_024).key(|event: &Event| &event.key);
        let (topic, producer) = broker.create_exclusive("paced", config.prefault(true)).expect("the topic is new");
        let (handled, all) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(histogram())));
        let (counter, clock_there, mut own, out) = (handled.clone(), clock.clone(), Some(histogram()), all.clone());
        let handler = move |record: &Record<'_, Event>| {
            if let Some(own) = &mut own {
                note(own, &clock_there, messages, record);
            }
            let before = counter.load(Ordering::Relaxed);
            if before + 1 == messages {
                *out.lock().expect("no handler panics") = own.take().expect("taken once");
            }
            counter.store(before + 1, Ordering::Release);
        };
        let group = topic.group("only", GroupConfig::earliest()).expect("the group is new");
        group.member("only").run(&worker).wait(wait).subscribe(handler).expect("the member is new");
        Rig { clock, worker, producer, handled, all, _broker: broker }
    }

    fn measure(&mut self, work: impl FnOnce(&mut Producer<Event>, &Clock, &AtomicU64) + Send) -> Histogram<u64> {
        let (clock, handled, worker, producer) = (&self.clock, &*self.handled, &self.worker, &mut self.producer);
        let produce = move || {
            work(producer, clock, handled);
            worker.stop();
        };
        machine::pair(produce, || worker.run());
        self.all.lock().expect("no handler panics").clone()
    }
}

fn wait_for(handled: &AtomicU64, count: u64) {
    while handled.load(Ordering::Acquire) < count {
        thread::yield_now();
    }
}

/// Messages at a fixed pace.
pub fn paced(messages: u64, gap: Duration, wait: WaitPolicy) -> Sample {
    let all = Rig::new(messages, wait).measure(|producer, clock, handled| {
        send_at_pace(clock, messages, gap, |event| {
            producer.publish(event).expect("the topic is open");
        });
        wait_for(handled, messages);
    });
    Sample::from(&all)
}

/// Wakes of a worker that has slept for a while.
pub fn cold_wake(wakes: u64, what: Wake) -> Sample {
    let mut sends = histogram();
    let asleep = Rig::new(wakes, WaitPolicy::Balanced).measure(|producer, clock, handled| {
        for id in 0..wakes {
            thread::sleep(Duration::from_millis(5));
            let sent = clock.raw();
            producer.publish(Event { sent, ..Event::new(id) }).expect("the topic is open");
            sends.saturating_record(clock.delta_as_nanos(sent, clock.raw()));
            wait_for(handled, id + 1);
        }
    });
    Sample::from(match what {
        Wake::Latency => &asleep,
        Wake::Cost => &sends,
    })
}
