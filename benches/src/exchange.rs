//! One producer (or several), one consumer: the timed exchange behind every throughput row.
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::event::{Event, Tally};
use crate::machine;

/// The sending end of a contender. It waits while there is no room, in the contender's own best way.
pub trait Transmit: Send {
    /// Sends one message.
    fn send(&mut self, event: Event);

    /// Sends the messages `first..first + n` as one batch, where the contender has batches.
    fn send_batch(&mut self, first: u64, n: u64) {
        (first..first + n).for_each(|id| self.send(Event::new(id)));
    }
}

/// The receiving end of a contender.
pub trait Receive: Send {
    /// Whether a slow receiver loses messages, so that only their count can be checked.
    const LOSES: bool = false;

    /// Shows every message that is there now to `see`, and gives the room back. Zero: nothing was there.
    fn drain(&mut self, see: impl FnMut(&Event)) -> usize;

    /// Sits on some messages, once it has told `ready`, until all are `sent`; then shows them. Only for those who lend.
    fn sit(&mut self, see: impl FnMut(&Event), ready: &Barrier, sent: &AtomicBool) {
        let _ = (see, sent);
        ready.wait();
    }
}

/// A receiving end that can sleep until something comes, in the contender's own way.
pub trait Park: Receive {
    /// Waits for one message, asleep if need be.
    fn wait_one(&mut self) -> Event;
}

/// The size and shape of one timed exchange.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Messages in the timed part.
    pub messages: u64,
    /// Slots of the ring or channel.
    pub capacity: usize,
    /// Messages in a batch; 1 sends one by one.
    pub batch: u64,
    /// Steps of the producer's own work before each message.
    pub work: u32,
    /// `spin_loop` calls of the consumer after it found nothing.
    pub pause: u32,
}

impl Load {
    /// One by one, flat out.
    pub fn new(messages: u64, capacity: usize) -> Self {
        Load { messages: messages / 64 * 64, capacity, batch: 1, work: 0, pause: 0 }
    }

    /// The same in batches.
    pub fn batches(self, batch: u64) -> Self {
        Load { batch, messages: self.messages.next_multiple_of(64 * batch), ..self }
    }

    /// The messages of the untimed lap that touches every slot first.
    pub fn warm(&self) -> u64 {
        (2 * self.capacity as u64).next_multiple_of(64 * self.batch)
    }

    /// All messages, the untimed ones included.
    pub fn total(&self) -> u64 {
        self.warm() + self.messages
    }
}

/// Times one exchange: nanoseconds for each message, from before the first send until the last was seen.
pub fn exchange<T: Transmit, R: Receive>(load: &Load, (mut tx, mut rx): (T, R)) -> f64 {
    let gate = Barrier::new(2);
    let producer = || {
        produce(&mut tx, load, 0, load.warm());
        gate.wait();
        let start = Instant::now();
        produce(&mut tx, load, load.warm(), load.total());
        start
    };
    let consumer = || {
        let mut tally = Tally::default();
        consume(&mut rx, &mut tally, load.warm(), load.pause);
        gate.wait();
        consume(&mut rx, &mut tally, load.total(), load.pause);
        (Instant::now(), tally)
    };
    let (start, (end, tally)) = machine::pair(producer, consumer);
    tally.check_of::<R>(load.total());
    per_message(start, end, load.messages)
}

/// What a receiver does while messages are sent that nobody waits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meanwhile {
    /// It reads.
    Reads,
    /// It sits on the first records it finds until all are sent.
    Sits,
}

/// Times the sending alone, past a receiver that nobody waits for: nanoseconds for each message. In the end every message
/// was seen or is known to be lost.
pub fn sending<T: Transmit, R: Receive>(load: &Load, meanwhile: Meanwhile, (mut tx, mut rx): (T, R)) -> f64 {
    let (gate, sent) = (Barrier::new(2), AtomicBool::new(false));
    let producer = || {
        produce(&mut tx, load, 0, load.warm());
        gate.wait();
        gate.wait();
        let start = Instant::now();
        produce(&mut tx, load, load.warm(), load.total());
        let end = Instant::now();
        sent.store(true, Ordering::Release);
        (start, end)
    };
    let consumer = || {
        let mut tally = Tally::default();
        gate.wait();
        if meanwhile == Meanwhile::Sits {
            rx.sit(|event| tally.take(event), &gate, &sent);
        } else {
            consume(&mut rx, &mut tally, load.warm(), load.pause);
            gate.wait();
        }
        consume(&mut rx, &mut tally, load.total(), load.pause);
        tally
    };
    let ((start, end), tally) = machine::pair(producer, consumer);
    tally.check_of::<R>(load.total());
    per_message(start, end, load.messages)
}

/// The same to nobody at all.
pub fn sending_alone<T: Transmit>(load: &Load, mut tx: T) -> f64 {
    let producer = || {
        produce(&mut tx, load, 0, load.warm());
        let start = Instant::now();
        produce(&mut tx, load, load.warm(), load.total());
        (start, Instant::now())
    };
    let ((start, end), ()) = machine::pair(producer, || ());
    per_message(start, end, load.messages)
}

/// The same with several producers; which message comes from whom is dealt out in stripes.
pub fn exchange_shared<T: Transmit + Clone, R: Receive>(load: &Load, producers: u64, (tx, mut rx): (T, R)) -> f64 {
    let gate = Barrier::new(producers as usize + 1);
    let share = load.messages / producers / load.batch * load.batch;
    thread::scope(|scope| {
        for number in 0..producers {
            let (mut tx, gate) = (tx.clone(), &gate);
            scope.spawn(move || {
                gate.wait();
                produce(&mut tx, load, number * share, (number + 1) * share);
            });
        }
        let mut tally = Tally::default();
        gate.wait();
        let start = Instant::now();
        consume(&mut rx, &mut tally, share * producers, load.pause);
        let end = Instant::now();
        tally.check_of::<R>(share * producers);
        per_message(start, end, share * producers)
    })
}

impl Tally {
    fn check_of<R: Receive>(&self, total: u64) {
        if !R::LOSES {
            self.check(total, 1);
        }
    }
}

/// Sends the messages `from..to` as the load says.
#[inline(always)]
pub fn produce<T: Transmit>(tx: &mut T, load: &Load, from: u64, to: u64) {
    if load.batch > 1 {
        let mut next = from;
        while next < to {
            tx.send_batch(next, load.batch);
            next += load.batch;
        }
    } else if load.work > 0 {
        let mut value = from;
        for id in from..to {
            value = machine::work(value, load.work);
            tx.send(Event::with_value(id, value));
        }
    } else {
        (from..to).for_each(|id| tx.send(Event::new(id)));
    }
}

#[inline(always)]
fn consume<R: Receive>(rx: &mut R, tally: &mut Tally, until: u64, pause: u32) {
    while tally.count < until {
        if rx.drain(|event| tally.take(event)) == 0 {
            idle(pause);
        }
    }
}

#[inline(always)]
fn idle(pause: u32) {
    machine::make_way();
    machine::spin(pause);
}

/// Nanoseconds for each of `messages`.
pub fn per_message(start: Instant, end: Instant, messages: u64) -> f64 {
    end.duration_since(start).as_nanos() as f64 / messages as f64
}

/// One producer, and one thread that reads for several consumers in turn, each of which gets everything.
pub fn fan_out<T: Transmit, R: Receive, const N: usize>(load: &Load, (mut tx, mut all): (T, [R; N])) -> f64 {
    let gate = Barrier::new(2);
    let producer = || {
        produce(&mut tx, load, 0, load.warm());
        gate.wait();
        let start = Instant::now();
        produce(&mut tx, load, load.warm(), load.total());
        start
    };
    let consumer = || {
        let mut tallies = [Tally::default(); N];
        consume_all(&mut all, &mut tallies, load.warm(), load.pause);
        gate.wait();
        consume_all(&mut all, &mut tallies, load.total(), load.pause);
        (Instant::now(), tallies)
    };
    let (start, (end, tallies)) = machine::pair(producer, consumer);
    tallies.iter().for_each(|tally| tally.check_of::<R>(load.total()));
    per_message(start, end, load.messages)
}

fn consume_all<R: Receive, const N: usize>(all: &mut [R; N], tallies: &mut [Tally; N], until: u64, pause: u32) {
    while tallies.iter().any(|tally| tally.count < until) {
        let mut seen = 0;
        for (rx, tally) in all.iter_mut().zip(tallies.iter_mut()) {
            seen += rx.drain(|event| tally.take(event));
        }
        if seen == 0 {
            idle(pause);
        }
    }
}
