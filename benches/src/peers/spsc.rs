//! `rtrb`: one producer, one consumer, nothing else. The leanest peer.
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::event::Event;
use crate::exchange::{Receive, Transmit};
use crate::machine;

/// Both ends over a ring of this capacity.
pub fn open(capacity: usize) -> (Tx, Rx) {
    let (tx, rx) = RingBuffer::new(capacity);
    (Tx(tx), Rx(rx))
}

/// The same, reading in chunks: what is there is taken with one look and given back with one store.
pub fn open_chunks(capacity: usize) -> (Tx, ChunkRx) {
    let (tx, rx) = RingBuffer::new(capacity);
    (Tx(tx), ChunkRx(rx))
}

/// The sending end.
#[derive(Debug)]
pub struct Tx(Producer<Event>);

impl Transmit for Tx {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        let mut event = event;
        while let Err(PushError::Full(back)) = self.0.push(event) {
            event = back;
            machine::stuck();
        }
    }

    #[inline(always)]
    fn send_batch(&mut self, first: u64, n: u64) {
        loop {
            if let Ok(chunk) = self.0.write_chunk_uninit(n as usize) {
                chunk.fill_from_iter((first..first + n).map(Event::new));
                return;
            }
            machine::stuck();
        }
    }
}

/// The receiving end, one by one.
#[derive(Debug)]
pub struct Rx(Consumer<Event>);

impl Receive for Rx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
        let mut seen = 0;
        while let Ok(event) = self.0.pop() {
            see(&event);
            seen += 1;
        }
        seen
    }
}

/// The receiving end, in chunks.
#[derive(Debug)]
pub struct ChunkRx(Consumer<Event>);

impl Receive for ChunkRx {
    #[inline(always)]
    fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
        let there = self.0.slots();
        if let Ok(chunk) = self.0.read_chunk(there) {
            chunk.into_iter().for_each(|event| see(&event));
        }
        there
    }
}
