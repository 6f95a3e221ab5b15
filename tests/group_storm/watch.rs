//! What is published, and what the handlers of a group saw of it.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// It knows whether it is whole, and is counted while it lives.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) id: u64,
    check: u64,
    alive: Arc<AtomicU64>,
}

impl Payload {
    pub(crate) fn new(id: u64, alive: &Arc<AtomicU64>) -> Self {
        alive.fetch_add(1, Relaxed);
        Self { id, check: !id, alive: alive.clone() }
    }

    pub(crate) fn assert_whole(&self) {
        assert_eq!(self.check, !self.id, "a record changed in a handler's hand");
    }
}

impl Clone for Payload {
    fn clone(&self) -> Self {
        Self::new(self.id, &self.alive)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        assert!(self.alive.fetch_sub(1, Relaxed) > 0, "dropped twice");
        self.check = self.id;
    }
}

/// One partition, as the handlers of a group see it.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) busy: AtomicBool,
    /// Acknowledgements that handlers returned.
    pub(crate) acks: AtomicU64,
    /// Records that handlers gave up, or knew to be given up after this failure.
    pub(crate) given_up: AtomicU64,
    pub(crate) seen: Mutex<Sight>,
}

#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// What must come next, where nobody seeks.
    pub(crate) next: u64,
    /// The payload that was handed over at each offset.
    pub(crate) ids: HashMap<u64, u64>,
}

/// Gives way until it is so.
#[track_caller]
pub(crate) fn until(what: &str, so: impl Fn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !so() {
        assert!(Instant::now() < patience, "waited a minute in vain: {what}");
        thread::yield_now();
    }
}
