//! What one thread alone can say: hashing and routing, and the checks on the hot path.
use std::hint::black_box;

use criterion::Criterion;
use ringlog::{Broker, TopicConfig};
use ringlog_benches::event::Event;

fn base(c: &mut Criterion) {
    c.bench_function("base: build a message", |b| {
        let mut id = 0;
        b.iter(|| {
            id += 1;
            black_box(Event::new(id));
        });
    });
}

fn hash(c: &mut Criterion) {
    for len in [4, 8, 12, 32] {
        c.bench_function(&format!("crc32fast of a key of {len} bytes"), |b| {
            let key = [7_u8; 32];
            b.iter(|| crc32fast::hash(black_box(&key[..len])));
        });
    }
}

fn wake(c: &mut Criterion) {
    let event = ringlog::internals::wait::Event::new(ringlog::internals::wait::Wake::All);
    let mut data = [0_u64; 64];
    let mut id = 0;
    let mut store = |data: &mut [u64; 64]| {
        id += 1;
        black_box(data)[id % 64] = id as u64;
    };
    c.bench_function("a store", |b| b.iter(|| store(&mut data)));
    c.bench_function("a store and the wake check, nobody parked", |b| {
        b.iter(|| {
            store(&mut data);
            event.notify();
        });
    });
}

fn route(c: &mut Criterion) {
    let broker = Broker::new();
    for partitions in [1, 4, 6] {
        let config = TopicConfig::new().partitions(partitions).key(|event: &Event| &event.key);
        let topic = broker.create_topic(&format!("{partitions}"), config).expect("a new topic");
        c.bench_function(&format!("route over {partitions} partitions: extract, crc32, reduce"), |b| {
            let mut id = 0;
            b.iter(|| {
                id += 1;
                topic.partition_for(black_box(&Event::new(id)))
            });
        });
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    base(&mut criterion);
    hash(&mut criterion);
    route(&mut criterion);
    wake(&mut criterion);
    criterion.final_summary();
}
