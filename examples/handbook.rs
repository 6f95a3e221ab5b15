//! One topic, three groups, six events: `cargo run --example handbook`
//!
//! Orders come in over two partitions, an account's always through the same one. `billing` and `audit` each get all of
//! them. `shipping` fails once for each event, so that each is tried again, and always for a cancelled order, which ends
//! as a dead letter while the others go on. At last `billing` reads everything once more, from offset 0.
use ringlog::{Broker, BrokerState, Group, GroupConfig, Letter, Record, Run, SeekTo, Topic, TopicConfig};
use std::collections::HashSet;
use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Event = &'static str;

const EVENTS: [Event; 6] =
    ["alice:created", "bob:created", "alice:paid", "bob:cancelled", "alice:shipped", "carol:created"];
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
#[error("cannot process {0}")]
struct ConsumerError(Event);

/// The events that a handler was called with, in order.
type Calls = Arc<Mutex<Vec<Event>>>;

fn main() -> Result<(), Box<dyn Error>> {
    tell(&mut io::stdout().lock())
}

/// The whole story, told to `out`.
pub(crate) fn tell(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let broker = Broker::new();
    let orders = broker.create_topic("orders", TopicConfig::handbook().partitions(2).key(account))?;
    let (billing, billed) = recording(&orders, "billing")?;
    let (_audit, audited) = recording(&orders, "audit")?;
    let (shipping, tried) = flaky(&orders, "shipping")?;

    for event in EVENTS {
        let at = orders.publish(event)?.position;
        writeln!(out, "published {event} to p{}@{}", at.partition, at.offset)?;
    }
    broker.drain(PATIENCE)?; // a barrier: every group has done all of it

    writeln!(
        out,
        "billing {} of {}, audit {} of {}",
        seen(&billed).len(),
        EVENTS.len(),
        seen(&audited).len(),
        EVENTS.len()
    )?;
    writeln!(out, "alice's order {:?}", of("alice", &billed))?;
    tell_of_shipping(out, &shipping, &tried)?;

    writeln!(out, "lag before replay billing={}", billing.lag())?;
    billing.replay(SeekTo::Offset(0))?;
    broker.drain(PATIENCE)?;
    writeln!(out, "billing after replay from 0: {} records", seen(&billed).len())?;

    let account = broker.close(Some(Broker::CLOSE_LIMIT));
    let state = if broker.state() == BrokerState::Closed { "stopped" } else { "running" };
    writeln!(out, "broker state={state}, dead letters={}, left={}", account.dead(), account.left())?;
    Ok(())
}

fn tell_of_shipping(out: &mut impl Write, shipping: &Group<Event>, tried: &Calls) -> io::Result<()> {
    let stats = shipping.stats();
    let (delivered, retried, dead, skipped) = (stats.acked(), stats.retried(), stats.dead(), stats.skipped());
    writeln!(out, "shipping delivered={delivered}, retried={retried}, dead_lettered={dead}, skipped={skipped}")?;
    let times = seen(tried).iter().filter(|event| **event == "alice:paid").count();
    writeln!(out, "shipping saw alice:paid {times} times")?;
    for letter in shipping.letters() {
        writeln!(out, "dead letter after {} attempts: {}", letter.attempts(), text_of(&letter))?;
    }
    Ok(())
}

/// What routes an event: all of an account's go to one partition and stay in order.
fn account(event: &Event) -> &str {
    event.split(':').next().unwrap_or(event)
}

/// A group that notes what it gets.
fn recording(topic: &Topic<Event>, name: &str) -> Result<(Group<Event>, Calls), Box<dyn Error>> {
    let (group, calls) = (topic.group(name, GroupConfig::handbook())?, Calls::default());
    let handler = |_partition| {
        let noted = calls.clone();
        move |event: &Record<'_, Event>| noted.lock().unwrap().push(**event)
    };
    group.member(&format!("{name}-1")).run(Run::ThreadPerLane).subscribe_with(handler)?;
    Ok((group, calls))
}

/// A group that fails once for each event, and always for a cancelled order.
fn flaky(topic: &Topic<Event>, name: &str) -> Result<(Group<Event>, Calls), Box<dyn Error>> {
    let (group, calls) = (topic.group(name, GroupConfig::handbook())?, Calls::default());
    let handler = |_partition| {
        let (noted, mut known) = (calls.clone(), HashSet::new());
        move |event: &Record<'_, Event>| {
            noted.lock().unwrap().push(**event);
            let first = known.insert(**event);
            if first || event.ends_with(":cancelled") { Err(ConsumerError(**event)) } else { Ok(()) }
        }
    };
    group.member(&format!("{name}-1")).run(Run::ThreadPerLane).subscribe_with(handler)?;
    Ok((group, calls))
}

fn seen(calls: &Calls) -> Vec<Event> {
    calls.lock().unwrap().clone()
}

fn of(name: &str, calls: &Calls) -> Vec<Event> {
    seen(calls).into_iter().filter(|event| account(event) == name).collect()
}

/// The record that was given up, and why: `bob:cancelled (ConsumerError: cannot process bob:cancelled)`.
fn text_of(letter: &Letter) -> String {
    let event = letter.payload::<Event>().map_or("a record", |event| event);
    let kind = letter.kind().rsplit("::").next().unwrap_or_default();
    format!("{event} ({kind}: {})", letter.message())
}
