//! `disruptor`: the Disruptor in Rust, in both producer modes, read through its poller on our own pinned thread.
use disruptor::{
    BusySpin, EventPoller, MultiProducer, MultiProducerBarrier, Producer, SingleConsumerBarrier, SingleProducer,
    SingleProducerBarrier, build_multi_producer, build_single_producer,
};
use disruptor::{MultiConsumerBarrier, Polling};

use crate::event::Event;
use crate::exchange::{Receive, Transmit};
use crate::machine;

/// A single producer and one poller.
pub fn single(capacity: usize) -> (Tx<SingleProducer<Event, SingleConsumerBarrier>>, SingleRx) {
    let (poller, builder) = build_single_producer(capacity, Event::default, BusySpin).new_event_poller();
    (Tx(builder.build()), SingleRx(poller))
}

/// Many producers (clone the first) and one poller.
pub fn multi(capacity: usize) -> (Tx<MultiProducer<Event, SingleConsumerBarrier>>, MultiRx) {
    let (poller, builder) = build_multi_producer(capacity, Event::default, BusySpin).new_event_poller();
    (Tx(builder.build()), MultiRx(poller))
}

/// A single producer and three pollers that all see everything, to be read in turn by one thread.
pub fn three(capacity: usize) -> (Tx<SingleProducer<Event, MultiConsumerBarrier>>, [SingleRx; 3]) {
    let (a, builder) = build_single_producer(capacity, Event::default, BusySpin).new_event_poller();
    let (b, builder) = builder.new_event_poller();
    let (c, builder) = builder.new_event_poller();
    (Tx(builder.build()), [SingleRx(a), SingleRx(b), SingleRx(c)])
}

/// The sending end.
#[derive(Clone)]
pub struct Tx<P>(P);

impl<P> std::fmt::Debug for Tx<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tx")
    }
}

impl<P: Producer<Event> + Send> Transmit for Tx<P> {
    #[inline(always)]
    fn send(&mut self, event: Event) {
        while self.0.try_publish(|slot| *slot = event).is_err() {
            machine::stuck();
        }
    }

    #[inline(always)]
    fn send_batch(&mut self, first: u64, n: u64) {
        loop {
            let sent = self.0.try_batch_publish(n as usize, |slots| {
                slots.zip(first..).for_each(|(slot, id)| *slot = Event::new(id));
            });
            if sent.is_ok() {
                return;
            }
            machine::stuck();
        }
    }
}

/// The receiving end behind a single producer.
pub struct SingleRx(EventPoller<Event, SingleProducerBarrier>);

/// The receiving end behind many producers.
pub struct MultiRx(EventPoller<Event, MultiProducerBarrier>);

macro_rules! receive {
    ($rx:ty) => {
        impl std::fmt::Debug for $rx {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($rx))
            }
        }

        impl Receive for $rx {
            #[inline(always)]
            fn drain(&mut self, mut see: impl FnMut(&Event)) -> usize {
                match self.0.poll() {
                    Ok(mut events) => {
                        let there = (&mut events).len();
                        (&mut events).for_each(|event| see(event));
                        there
                    }
                    Err(Polling::NoEvents | Polling::Shutdown) => 0,
                }
            }
        }
    };
}

receive!(SingleRx);
receive!(MultiRx);
