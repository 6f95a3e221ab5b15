//! Latencies: round trips, one way at a pace, and the wake of a sleeper.
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use quanta::Clock;

use crate::event::Event;
use crate::exchange::{Park, Receive, Transmit};
use crate::machine;
use crate::rounds::Sample;

/// A histogram for nanoseconds up to a minute.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are sound")
}

impl From<&Histogram<u64>> for Sample {
    fn from(all: &Histogram<u64>) -> Self {
        let at = |q| all.value_at_quantile(q) as f64;
        Sample { figure: at(0.5), tail: Some((at(0.9), at(0.99))) }
    }
}

/// Round trips between two spinning threads.
pub fn round_trip<T, R, T2, R2>(trips: u64, (mut there, mut echo_in): (T, R), (mut echo, mut back): (T2, R2)) -> Sample
where
    T: Transmit,
    R: Receive,
    T2: Transmit,
    R2: Receive,
{
    let clock = Clock::new();
    let mut all = histogram();
    let warm = trips / 10;
    let ask = || {
        for trip in 0..trips + warm {
            let start = clock.raw();
            there.send(Event::new(trip));
            while back.drain(|event| assert_eq!(event.id, trip)) == 0 {}
            if trip >= warm {
                all.saturating_record(clock.delta_as_nanos(start, clock.raw()));
            }
        }
    };
    let answer = || {
        let mut left = trips + warm;
        while left > 0 {
            left -= echo_in.drain(|event| echo.send(*event)) as u64;
        }
    };
    machine::pair(ask, answer);
    Sample::from(&all)
}

/// Messages at a fixed pace to a spinning consumer: from the moment before the send until the consumer has it.
pub fn paced<T: Transmit, R: Receive>(messages: u64, gap: Duration, (mut tx, mut rx): (T, R)) -> Sample {
    let clock = Clock::new();
    let mut all = histogram();
    let ready = Barrier::new(2);
    let sender = || {
        ready.wait();
        send_at_pace(&clock, messages, gap, |event| tx.send(event));
    };
    let receiver = || {
        ready.wait();
        let mut left = messages;
        while left > 0 {
            left -= rx.drain(|event| note(&mut all, &clock, messages, event)) as u64;
        }
    };
    machine::pair(sender, receiver);
    Sample::from(&all)
}

/// The same to a consumer that sleeps when nothing is there.
pub fn paced_parking<T: Transmit, R: Park>(messages: u64, gap: Duration, (mut tx, mut rx): (T, R)) -> Sample {
    let clock = Clock::new();
    let mut all = histogram();
    let ready = Barrier::new(2);
    let sender = || {
        ready.wait();
        send_at_pace(&clock, messages, gap, |event| tx.send(event));
    };
    let receiver = || {
        ready.wait();
        for _ in 0..messages {
            let event = rx.wait_one();
            note(&mut all, &clock, messages, &event);
        }
    };
    machine::pair(sender, receiver);
    Sample::from(&all)
}

/// Sends `messages` at a pace, each stamped with the moment before its send.
pub fn send_at_pace(clock: &Clock, messages: u64, gap: Duration, mut send: impl FnMut(Event)) {
    let start = clock.raw();
    for id in 0..messages {
        let due = u128::from(id) * gap.as_nanos();
        while u128::from(clock.delta_as_nanos(start, clock.raw())) < due {
            machine::spin(1);
        }
        send(Event { sent: clock.raw(), ..Event::new(id) });
    }
}

/// Notes how long a message took, leaving out the first tenth.
#[inline]
pub fn note(all: &mut Histogram<u64>, clock: &Clock, messages: u64, event: &Event) {
    let now = clock.raw();
    if event.id >= messages / 10 {
        all.saturating_record(clock.delta_as_nanos(event.sent, now));
    }
}

/// Wakes of a consumer that has slept for a while. What it gives: the wake, or what the send costs the sender.
pub fn cold_wake<T: Transmit, R: Park>(wakes: u64, (mut tx, mut rx): (T, R), what: Wake) -> Sample {
    let clock = Clock::new();
    let mut asleep = histogram();
    let mut sends = histogram();
    let got = AtomicBool::new(false);
    let sender = || {
        for id in 0..wakes {
            thread::sleep(Duration::from_millis(5));
            let sent = clock.raw();
            tx.send(Event { sent, ..Event::new(id) });
            sends.saturating_record(clock.delta_as_nanos(sent, clock.raw()));
            while !got.swap(false, Ordering::Acquire) {
                thread::yield_now();
            }
        }
    };
    let receiver = || {
        for _ in 0..wakes {
            let event = rx.wait_one();
            asleep.saturating_record(clock.delta_as_nanos(event.sent, clock.raw()));
            got.store(true, Ordering::Release);
        }
    };
    machine::pair(sender, receiver);
    Sample::from(match what {
        Wake::Latency => &asleep,
        Wake::Cost => &sends,
    })
}

/// What [`cold_wake`] reports.
#[derive(Clone, Copy, Debug)]
pub enum Wake {
    /// From the send until the sleeper has the message.
    Latency,
    /// What the send took its thread.
    Cost,
}
