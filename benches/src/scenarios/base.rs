//! What the harness measures when nothing is measured: the loops, the message, the account.
use std::sync::mpsc;
use std::time::Instant;

use super::Scale;
use crate::event::{Event, Tally};
use crate::exchange::{Load, Receive, Transmit, per_message};
use crate::judge::Case;
use crate::machine;
use crate::rounds::{Contender, Who};

/// The producer's loop into nothing, the consumer's out of nothing.
pub fn cases(scale: Scale) -> Vec<Case> {
    let n = scale.messages;
    let contenders = vec![
        Contender::new(Who::Aside, "build a message and account for it, one thread", move || one_thread(n, 0)),
        Contender::new(Who::Aside, "the same with 5 ns of work", move || {
            one_thread(n, machine::steps_for(std::time::Duration::from_nanos(5)))
        }),
        Contender::new(Who::Aside, "std sync_channel, spinning (for scale)", move || {
            crate::exchange::exchange(&Load::new(n, 65_536), std_channel(65_536))
        }),
    ];
    vec![Case { title: "base: the harness itself".into(), contenders, bounds: Vec::new() }]
}

fn one_thread(messages: u64, steps: u32) -> f64 {
    let mut tally = Tally::default();
    let mut value = 1;
    let start = Instant::now();
    for id in 0..messages {
        value = machine::work(value, steps);
        tally.take(std::hint::black_box(&Event::with_value(id, value)));
    }
    let end = Instant::now();
    tally.check(messages, 1);
    per_message(start, end, messages)
}

fn std_channel(capacity: usize) -> (StdTx, StdRx) {
    let (tx, rx) = mpsc::sync_channel(capacity);
    (StdTx(tx), StdRx(rx))
}

struct StdTx(mpsc::SyncSender<Event>);
struct StdRx(mpsc::Receiver<Event>);

impl Transmit for StdTx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        while self.0.try_send(event).is_err() {
            machine::stuck();
        }
    }
}

impl Receive for StdRx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
        self.0.try_iter().map(|event| see(&event)).count()
    }
}
