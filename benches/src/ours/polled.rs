//! The whole path with a consumer that polls: as [`whole`](super::whole), but the consuming thread asks for batches,
//! looks at each record, and acknowledges each batch.
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringlog::{Broker, Consumer, GroupConfig};

use super::whole::{Lane, Routes, Setup, SharedTx, Watch, config, shares, wait_for};
use crate::event::Event;
use crate::exchange::{Load, per_message, produce};
use crate::machine;

/// How the consumer passes the time while there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// It asks again.
    Asks,
    /// It sleeps until there is something.
    Sleeps,
}

/// Shared producers, one of them active; batches of at most `max`.
pub fn shared(load: &Load, routes: impl Routes, max: usize, between: Between) -> f64 {
    let (setup, broker) = (Setup::default(), Broker::new());
    let topic = broker.create_topic("bench", config(load, setup, routes)).expect("the topic is new");
    let shares = shares(load, setup.partitions, |event| topic.partition_for(event));
    assert!(shares.iter().all(|share| share.0 > 0), "every partition has to be warmed");
    let watch = Arc::new(Watch { lanes: shares.len(), ..Watch::default() });
    let mut lanes: Vec<Lane> = shares.iter().map(|share| Lane::of(*share, &watch)).collect();
    let group = topic.group("group", GroupConfig::earliest()).expect("the group is new");
    let mut consumer = group.consumer("consumer").expect("the consumer is new");
    let mut tx = SharedTx(topic.clone());
    let (start, ()) = machine::pair(
        || {
            produce(&mut tx, load, 0, load.warm());
            wait_for(&watch.warm, watch.lanes);
            let start = Instant::now();
            produce(&mut tx, load, load.warm(), load.total());
            wait_for(&watch.done, watch.lanes);
            start
        },
        || {
            while watch.done.load(Ordering::Acquire) < watch.lanes {
                poll(&mut consumer, &mut lanes, max, between);
            }
        },
    );
    let end = watch.ended.lock().expect("nobody panics").expect("all lanes ended");
    watch.tally.lock().expect("nobody panics").check(load.total(), 1);
    assert_eq!(group.stats().acked(), load.total(), "all of it is acknowledged");
    per_message(start, end, load.messages)
}

#[inline(always)]
fn poll(consumer: &mut Consumer<Event>, lanes: &mut [Lane], max: usize, between: Between) {
    let polled = match between {
        Between::Asks => consumer.try_poll(max),
        Between::Sleeps => consumer.poll(max, Duration::from_millis(100)),
    };
    let batch = polled.expect("the group is there");
    if let Some(partition) = batch.partition() {
        let lane = &mut lanes[partition as usize];
        batch.iter().for_each(|record| lane.take(&record));
        batch.ack().expect("nobody else is about");
    } else if between == Between::Asks {
        machine::make_way();
        std::hint::spin_loop();
    }
}
