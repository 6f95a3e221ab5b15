//! `tokio::sync::mpsc`, and a task that reads it, many times.
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Sender, channel};

use crate::event::Event;
use crate::many::{SLOTS, Seen, bursts};

/// Channels with a task each.
#[derive(Debug)]
pub struct Tasks {
    _runtime: Runtime,
    channels: Vec<Sender<Event>>,
    seen: Arc<Seen>,
}

impl Tasks {
    /// So many, on `threads` threads.
    pub fn new(count: usize, threads: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(threads).build().expect("the system has threads");
        let seen = Arc::new(Seen::default());
        let task = |_| {
            let (tx, mut rx) = channel::<Event>(SLOTS);
            let seen = seen.clone();
            runtime.spawn(async move {
                while let Some(event) = rx.recv().await {
                    seen.take(&event);
                }
            });
            tx
        };
        let channels = (0..count).map(task).collect();
        Tasks { channels, _runtime: runtime, seen }
    }

    /// `burst` messages to one channel after the other; nanoseconds each, until all are handled.
    pub fn run(&self, messages: u64, burst: u64) -> f64 {
        bursts(messages, burst, &self.channels, &self.seen, |channel, event| {
            channel.blocking_send(event).expect("somebody reads");
        })
    }
}
