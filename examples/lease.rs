//! Two groups poll one topic under a lease, and a third is called: `cargo run --example lease`
//!
//! The table of a lease broker, from live calls: what each call gives, and how the partition stands afterwards. Time is
//! moved by hand, so that half a minute takes none.
use ringlog::{Broker, BrokerConfig, Consumer, Group, GroupConfig, ManualClock, Record, Run, Topic, TopicConfig};
use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// What a user ordered, paid, or was sent.
#[derive(Clone, Debug)]
struct Order {
    user: &'static str,
    name: &'static str,
}

fn user(order: &Order) -> &str {
    order.user
}

fn main() -> Result<(), Box<dyn Error>> {
    tell(&mut io::stdout().lock())
}

/// The whole story, told to `out`.
pub(crate) fn tell(out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(ManualClock::new());
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    pulled(out, &broker, &clock)?;
    pushed(out, &broker)
}

/// Two partitions of three records, and two groups that poll the second.
fn pulled(out: &mut impl Write, broker: &Broker, clock: &ManualClock) -> Result<(), Box<dyn Error>> {
    let orders = broker.create_topic("orders", TopicConfig::leased(2, 3).key(user))?;
    let [billing, email] = ["billing", "email"].map(|name| orders.group(name, GroupConfig::leased()));
    let (billing, email) = (billing?, email?);
    let mut bill = billing.member("billing-1").partition(1).consumer()?;
    let mut mail = email.member("email-1").partition(1).consumer()?;
    let publish = |user, name| orders.publish_within(Order { user, name }, Duration::ZERO);

    for (user, name) in [("user-a", "o-1"), ("user-a", "o-2"), ("user-a", "o-3"), ("user-b", "o-4")] {
        let at = publish(user, name)?.position;
        writeln!(out, "publish {name} ({user}) -> p{} offset {}", at.partition, at.offset)?;
    }
    stands(out, &orders, 1)?;

    match publish("user-a", "o-5") {
        Ok(at) => writeln!(out, "publish o-5 -> offset {}", at.position.offset)?,
        Err(_) => writeln!(out, "publish o-5, wait 0 ms -> partition full")?,
    }
    stands(out, &orders, 1)?;

    writeln!(out, "billing polls 2 -> {}", polled(&mut bill, 2)?)?;
    writeln!(out, "billing acks 0 -> {}", acked(&mut bill, 0))?;
    stands(out, &orders, 1)?;

    writeln!(out, "email polls 10 -> {}", polled(&mut mail, 10)?)?;
    writeln!(out, "email acks 2 -> {}", acked(&mut mail, 2))?;
    stands(out, &orders, 1)?;

    writeln!(out, "publish o-5 -> offset {}", publish("user-a", "o-5")?.position.offset)?;
    stands(out, &orders, 1)?;

    clock.advance(Duration::from_secs(31));
    writeln!(out, "31 s pass; billing polls 10 -> {}", polled(&mut bill, 10)?)?;
    stands(out, &orders, 1)?;

    writeln!(out, "billing acks 3 -> {}", acked(&mut bill, 3))?;
    stands(out, &orders, 1)?;

    writeln!(out, "billing acks 7 -> {}", acked(&mut bill, 7))?;
    stands(out, &orders, 1)
}

/// One partition, and a group that is called for each record and fails once.
fn pushed(out: &mut impl Write, broker: &Broker) -> Result<(), Box<dyn Error>> {
    let payments = broker.create_topic("payments", TopicConfig::leased(1, 10).key(user))?;
    let ledger = payments.group("ledger", GroupConfig::leased())?;
    for name in ["pay-1", "pay-2", "pay-3"] {
        payments.publish(Order { user: "user-a", name })?;
    }
    let calls = Arc::new(Mutex::new(Vec::new()));
    ledger.member("ledger-1").run(Run::ThreadPerLane).subscribe_with(|_partition| book(calls.clone()))?;
    broker.drain(PATIENCE)?;
    let calls = calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    calls.iter().try_for_each(|call| writeln!(out, "{call}"))?;
    stands(out, &payments, 0)
}

/// Books a payment, apart from the first try of pay-2.
fn book(calls: Arc<Mutex<Vec<String>>>) -> impl FnMut(&Record<'_, Order>) -> Result<(), String> {
    move |order| {
        let fails = order.name == "pay-2" && order.attempt() == 1;
        let end = if fails { "throws, nacked" } else { "ok, acked" };
        let mut calls = calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        calls.push(format!("handle {}:{} -> {end}", order.offset(), order.name));
        if fails { Err(format!("{} is not booked", order.name)) } else { Ok(()) }
    }
}

/// Polls and leaves in flight what comes: it is acknowledged by its offset.
fn polled(consumer: &mut Consumer<Order>, max: usize) -> Result<String, Box<dyn Error>> {
    let batch = consumer.try_poll(max)?;
    let got: Vec<String> = batch.iter().map(|order| format!("{}:{}", order.offset(), order.name)).collect();
    std::mem::forget(batch.detach());
    Ok(format!("got {}", got.join(", ")))
}

fn acked(consumer: &mut Consumer<Order>, offset: u64) -> String {
    consumer.ack_through(1, offset).map_or_else(|refused| format!("rejected: {refused}"), |()| "done".to_owned())
}

/// How a partition stands, and each group in it.
fn stands(out: &mut impl Write, topic: &Topic<Order>, partition: usize) -> Result<(), Box<dyn Error>> {
    let description = topic.describe();
    let log = &description.partitions[partition];
    write!(out, "    p{partition}: ")?;
    match log.retained() {
        0 => write!(out, "log empty, next offset {}", log.end)?,
        _ => write!(out, "log {}..{}", log.earliest, log.end - 1)?,
    }
    write!(out, ", backlog {}/{}", log.retained(), description.capacity)?;
    for group in topic.groups().iter().map(Group::stats) {
        let lane = &group.lanes[partition];
        write!(out, ", {} committed {} next {}", group.group, lane.committed, lane.committed + lane.in_flight)?;
    }
    writeln!(out)?;
    Ok(())
}
