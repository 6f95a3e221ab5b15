//! The broker at work: one topic, five groups, one publisher, and an eye on all of them.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ringlog::{Account, Broker, Group, GroupConfig, Outcome, PublishError, Record, Retry, Topic, TopicConfig};

use crate::args::Args;
use crate::flights::{Departure, Flights};
use crate::input::{Source, Trouble};
use crate::jobs::{Audit, Delays, Job, Notices, Order, Routes, Verdict};
use crate::progress::{Glance, Progress, REFRESH};
use crate::station::Station;
use crate::summary::{AuditEnd, Blocked, Books, GroupEnd, OrderEnd, Summary};
use crate::text::thousands;

/// The one topic.
const TOPIC: &str = "departures";
/// How long a departure waits for its second attempt; twice that for its third, and so on.
const BACKOFF: Duration = Duration::from_micros(100);
/// How long the close may take, when everything has been handled already.
const CLOSE: Duration = Duration::from_secs(10);

/// Publishes every departure, waits until all groups are done, and says what came of it.
///
/// A file that cannot be read to its end is reported for as far as it goes; the trouble comes back beside the report.
pub(crate) fn run<R: BufRead>(
    args: &Args,
    source: &Source,
    flights: &mut Flights<R>,
) -> Result<(Summary, Option<Trouble>), Trouble> {
    let start = Instant::now();
    let broker = Broker::new();
    let topic = broker.create_topic(TOPIC, topic_config(args)).map_err(refused)?;
    let crews = Crews::hire(&topic, args)?;
    let (published, blocked, trouble) = watched(args, source, &crews, |read| {
        let mut press = Press { topic: &topic, published: 0, blocked: Blocked::default() };
        let end = press.feed(source, flights, read);
        broker.drain(Duration::MAX).map_err(refused)?;
        Ok((press.published, press.blocked, end.err()))
    })?;
    let elapsed = start.elapsed();
    let groups = crews.ends(published, &broker.close(Some(CLOSE)));
    let order = crews.order.station.work();
    let order = OrderEnd {
        checked: order.job.checked,
        keys: order.job.keys(),
        keyless: order.job.keyless,
        broken: order.job.broken,
    };
    let audit = crews.audit.station.work();
    let audit = AuditEnd { rows: audit.job.rows, twice: audit.job.twice };
    let summary = Summary {
        source: source.name.clone(),
        key: args.key.clone(),
        partitions: args.partitions,
        capacity: args.capacity,
        tally: flights.tally.clone(),
        published,
        elapsed,
        blocked,
        groups,
        delays: crews.delays.station.work().job.ranked(),
        routes: crews.routes.station.work().job.ranked(),
        notices: crews.notices.station.work().job.sent().collect(),
        order,
        audit,
    };
    Ok((summary, trouble))
}

/// Keyed by what the key column says; rows without a key go round. A publish waits for room as long as it takes.
fn topic_config(args: &Args) -> TopicConfig<Departure> {
    TopicConfig::new()
        .partitions(args.partitions)
        .capacity(args.capacity as usize)
        .optional_key(|departure: &Departure| departure.key.as_deref())
        .block(None)
}

fn refused(why: impl Display) -> Trouble {
    Trouble::Broker(why.to_string())
}

/// A group, and the station where its one member works.
struct Crew<J> {
    station: Station<J>,
    group: Group<Departure>,
}

impl<J: Job> Crew<J> {
    fn hire(topic: &Topic<Departure>, args: &Args, name: &'static str, job: J) -> Result<Self, Trouble> {
        let retry = Retry::linear(args.attempts, BACKOFF);
        let config = GroupConfig::earliest().retry(retry).bury_with(|departure: &Departure, _| departure.line);
        let group = topic.group(name, config).map_err(refused)?;
        let station = Station::new(name, job);
        let desk = station.clone();
        let handler = move |departure: &Record<'_, Departure>| match desk.handle(departure, departure.attempt()) {
            Verdict::Done => Outcome::Ack,
            Verdict::Again(why) => Outcome::retry(why),
            Verdict::Poison(why) => Outcome::reject(why),
        };
        group.subscribe(name, handler).map_err(refused)?;
        Ok(Self { station, group })
    }
}

/// What can be asked of a crew whatever its job is.
trait AnyCrew: Sync {
    fn name(&self) -> &'static str;
    fn glance(&self) -> Glance;
    fn end(&self, published: u64, account: &Account) -> GroupEnd;
}

impl<J: Job> AnyCrew for Crew<J> {
    fn name(&self) -> &'static str {
        self.station.name
    }

    fn glance(&self) -> Glance {
        Glance { handled: self.station.meter.seen(), lag: self.group.lag() }
    }

    fn end(&self, published: u64, account: &Account) -> GroupEnd {
        let books = account.group(TOPIC, self.name()).map_or_else(Books::default, |stats| Books {
            published,
            acked: stats.acked(),
            dead: stats.dead(),
            skipped: stats.skipped(),
            left: stats.lag(),
        });
        GroupEnd {
            name: self.name(),
            done: self.station.meter.done(),
            retried: self.station.meter.retried(),
            reason: self.group.letters().last().map(|letter| {
                let line = letter.payload::<u64>().copied().unwrap_or_default();
                format!("line {}, {}", thousands(line), letter.message())
            }),
            books,
            latency: self.station.work().latency.clone(),
        }
    }
}

/// The five groups.
struct Crews {
    delays: Crew<Delays>,
    routes: Crew<Routes>,
    notices: Crew<Notices>,
    order: Crew<Order>,
    audit: Crew<Audit>,
}

impl Crews {
    fn hire(topic: &Topic<Departure>, args: &Args) -> Result<Self, Trouble> {
        let notices = Notices::failing(args.fail_every);
        let audit = Audit::pausing(Duration::from_micros(args.slow_audit));
        Ok(Self {
            delays: Crew::hire(topic, args, "delays", Delays::default())?,
            routes: Crew::hire(topic, args, "routes", Routes::default())?,
            notices: Crew::hire(topic, args, "notices", notices)?,
            order: Crew::hire(topic, args, "order", Order::default())?,
            audit: Crew::hire(topic, args, "audit", audit)?,
        })
    }

    fn all(&self) -> [&dyn AnyCrew; 5] {
        [&self.delays, &self.routes, &self.notices, &self.order, &self.audit]
    }

    fn ends(&self, published: u64, account: &Account) -> Vec<GroupEnd> {
        self.all().iter().map(|crew| crew.end(published, account)).collect()
    }
}

/// The publisher's side.
struct Press<'a> {
    topic: &'a Topic<Departure>,
    published: u64,
    blocked: Blocked,
}

impl Press<'_> {
    /// Publishes the file, row by row.
    fn feed<R: BufRead>(&mut self, source: &Source, flights: &mut Flights<R>, read: &Read) -> Result<(), Trouble> {
        loop {
            match flights.next() {
                Ok(Some(departure)) => self.publish(departure)?,
                Ok(None) => break,
                Err(why) => {
                    return Err(Trouble::Broken { name: source.name.clone(), line: flights.line(), why });
                }
            }
            read.note(flights.bytes(), flights.tally.rows);
        }
        read.note(flights.bytes(), flights.tally.rows);
        Ok(())
    }

    /// Publishes one departure. If there is no room, notes which group held it back, and waits.
    fn publish(&mut self, departure: Departure) -> Result<(), Trouble> {
        match self.topic.try_publish(departure) {
            Ok(_) => {}
            Err(PublishError::Full { value, full }) => {
                self.blocked.publishes += 1;
                if let Some(limiting) = &full.limiting {
                    *self.blocked.by_group.entry(limiting.group.to_string()).or_default() += 1;
                }
                let start = Instant::now();
                self.topic.publish(value).map_err(refused)?;
                self.blocked.time += start.elapsed();
            }
            Err(other) => return Err(refused(other)),
        }
        self.published += 1;
        Ok(())
    }
}

/// How far the file is read, for the display.
#[derive(Debug, Default)]
struct Read {
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl Read {
    fn note(&self, bytes: u64, rows: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.rows.store(rows, Ordering::Relaxed);
    }
}

/// Runs `work` while the progress is shown, if it is to be.
fn watched<T>(args: &Args, source: &Source, crews: &Crews, work: impl FnOnce(&Read) -> T) -> T {
    let read = Read::default();
    if args.quiet || args.no_progress {
        return work(&read);
    }
    let names = crews.all().map(AnyCrew::name);
    let room = u64::from(args.partitions) * u64::from(args.capacity);
    let mut progress = Progress::new(source.bytes, room, &names);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let display = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let (bytes, rows) = (read.bytes.load(Ordering::Relaxed), read.rows.load(Ordering::Relaxed));
                progress.show(bytes, rows, crews.all().iter().map(|crew| crew.glance()));
                thread::park_timeout(REFRESH);
            }
            progress.clear();
        });
        let _over = Over { over: &over, display: display.thread() };
        work(&read)
    })
}

/// Ends the display when dropped, so that a panic in the work ends it too.
struct Over<'a> {
    over: &'a AtomicBool,
    display: &'a Thread,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.display.unpark();
    }
}
