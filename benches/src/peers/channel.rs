//! `crossbeam-channel`, bounded: the channel most Rust programs use.
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use crate::event::Event;
use crate::exchange::{Park, Receive, Transmit};
use crate::machine;

/// Both ends of a bounded channel.
pub fn open(capacity: usize) -> (Tx, Rx) {
    let (tx, rx) = bounded(capacity);
    (Tx(tx), Rx(rx))
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Tx(Sender<Event>);

impl Transmit for Tx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        let mut event = event;
        while let Err(TrySendError::Full(back)) = self.0.try_send(event) {
            event = back;
            machine::stuck();
        }
    }
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Rx(Receiver<Event>);

impl Receive for Rx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
        let mut seen = 0;
        while let Ok(event) = self.0.try_recv() {
            see(&event);
            seen += 1;
        }
        seen
    }
}

impl Park for Rx {
    fn wait_one(&mut self) -> Event {
        self.0.recv().expect("the sender went away")
    }
}
