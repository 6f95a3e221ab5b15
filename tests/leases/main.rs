//! Handlers under a lease: what one keeps too long comes again, elsewhere if there is somebody, and what it makes of it then is
//! refused.
#![forbid(unsafe_code)]

mod hung;
mod late;

use ringlog::{Broker, BrokerConfig, Group, GroupConfig, Manual, ManualClock, Record, Retry, Topic, TopicConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
const LONG: Duration = Duration::from_secs(60);

struct Setting {
    clock: Arc<ManualClock>,
    broker: Broker,
    topic: Topic<u64>,
    group: Group<u64>,
    told: Arc<Mutex<Vec<String>>>,
}

fn lease() -> GroupConfig<u64> {
    GroupConfig::earliest().lease(LEASE).retry(Retry::constant(3, Duration::ZERO))
}

fn setting(partitions: u32, config: GroupConfig<u64>) -> Setting {
    with(TopicConfig::new().partitions(partitions).capacity(16), config)
}

fn with(topic: TopicConfig<u64>, config: GroupConfig<u64>) -> Setting {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    let topic = broker.create_topic("orders", topic).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = told.clone();
    let group = topic.group("g", config.on_expired(move |expired| noted.lock().unwrap().push(expired.to_string())));
    Setting { clock, broker, topic, group: group.unwrap(), told }
}

/// What a member was handed: offset and attempt.
type Seen = Arc<Mutex<Vec<(u64, u32)>>>;

impl Setting {
    /// A member that takes `steps` of the clock for each record, on an executor of its own.
    fn takes(&self, name: &str, steps: Vec<Duration>) -> (Manual, Seen) {
        let (manual, seen) = (Manual::new(1), Seen::default());
        let (clock, noted) = (self.clock.clone(), seen.clone());
        let handler = move |record: &Record<'_, u64>| {
            noted.lock().unwrap().push((record.offset(), record.attempt()));
            steps.iter().for_each(|step| clock.advance(*step));
        };
        self.group.member(name).run(&manual).subscribe(handler).unwrap();
        (manual, seen)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// acked, dead, refused, lapsed, retried
    fn counts(&self) -> (u64, u64, u64, u64, u64) {
        let stats = self.group.stats();
        assert!(stats.balances(), "{stats:?}");
        (stats.acked(), stats.dead(), stats.refused(), stats.leases_expired(), stats.retried())
    }
}
