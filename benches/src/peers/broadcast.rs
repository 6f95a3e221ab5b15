//! `tokio::sync::broadcast`: everyone gets everything, and who is slow loses. Where it loses, its row says so.
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::event::Event;
use crate::exchange::{Park, Receive, Transmit};

/// Both ends of a broadcast channel.
pub fn open(capacity: usize) -> (Tx, Rx) {
    let (tx, rx) = channel(capacity);
    (Tx(tx), Rx(rx))
}

/// The sending end: it never waits.
#[derive(Clone, Debug)]
pub struct Tx(Sender<Event>);

impl Transmit for Tx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        let _ = self.0.send(event);
    }
}

/// The receiving end: what it lost it makes up as empty messages, so that the count of messages holds.
#[derive(Debug)]
pub struct Rx(Receiver<Event>);

impl Receive for Rx {
    const LOSES: bool = true;

    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
        let mut seen = 0;
        loop {
            match self.0.try_recv() {
                Ok(event) => see(&event),
                Err(TryRecvError::Lagged(lost)) => (0..lost).for_each(|_| see(&Event::default())),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return seen,
            }
            seen += 1;
        }
    }
}

impl Park for Rx {
    fn wait_one(&mut self) -> Event {
        loop {
            match self.0.blocking_recv() {
                Ok(event) => return event,
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => panic!("the sender went away"),
            }
        }
    }
}
