//! What scenarios of many readers share: whom to send to next, and the account of what was seen.
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::event::Event;
use crate::exchange::per_message;
use crate::machine;

/// Slots of each mailbox.
pub const SLOTS: usize = 16;

/// What members have seen.
#[derive(Debug, Default)]
pub struct Seen {
    count: CachePadded<AtomicU64>,
    sum: AtomicU64,
}

impl Seen {
    /// Takes one message into the account.
    #[inline(always)]
    pub fn take(&self, event: &Event) {
        self.sum.fetch_add(event.id, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Waits for `count` of them, and checks that they are `0..total`, each `count / total` times.
    pub fn check(&self, total: u64, count: u64) {
        while self.count.load(Ordering::Acquire) < count {
            machine::make_way();
            std::hint::spin_loop();
        }
        let sum = (u128::from(total) * u128::from(total - 1) / 2 * u128::from(count / total)) as u64;
        assert_eq!((self.count.swap(0, Ordering::Relaxed), self.sum.swap(0, Ordering::Relaxed)), (count, sum));
    }
}

/// `messages` in bursts of `burst`, each to one of `to` in turn, sent by a thread of its own; nanoseconds each, until all of them
/// were seen.
pub fn bursts<S: Sync>(messages: u64, burst: u64, to: &[S], seen: &Seen, send: impl Fn(&S, Event) + Sync) -> f64 {
    let messages = messages / burst * burst;
    let start = thread::scope(|scope| {
        let producer = scope.spawn(|| {
            machine::pin(machine::PRODUCER);
            let start = Instant::now();
            for visit in 0..messages / burst {
                let to = &to[visited(visit, to.len())];
                for id in visit * burst..(visit + 1) * burst {
                    send(to, Event::new(id));
                }
            }
            start
        });
        producer.join().expect("the producer does not panic")
    });
    seen.check(messages, messages);
    per_message(start, Instant::now(), messages)
}

/// The topic of the `visit`-th visit: all of them in turn, far from one another.
#[inline(always)]
fn visited(visit: u64, len: usize) -> usize {
    (visit.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % len
}
