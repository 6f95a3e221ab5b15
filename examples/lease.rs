//! Two groups poll one topic under a lease, and a third is called: `cargo run --example lease`
//!
//! What each call gives, and how the partition stands afterwards: a consumer that acknowledges too late and is refused, a
//! full partition that waits for the slowest group, a handler that fails once. Time is moved by hand, so that half a minute
//! takes none.
use ringlog::{Broker, BrokerConfig, Consumer, Group, GroupConfig, ManualClock, Receipt, Record, Run, SettleError};
use ringlog::{Topic, TopicConfig};
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
    writeln!(out, "-- orders: 2 partitions of 3 records; billing and email poll partition 1, under a lease of 30 s")?;
    writeln!(out, "   (committed: done up to there; next: handed out up to there; what lies between is in flight)")?;
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
        Err(refused) => writeln!(out, "publish o-5, wait 0 ms -> refused: {refused}")?,
    }
    stands(out, &orders, 1)?;

    let mut early = polled(out, "billing", &mut bill, 2)?;
    writeln!(out, "billing acks through 0 -> {}", said(early.ack_through(0)))?;
    stands(out, &orders, 1)?;

    let mails = polled(out, "email", &mut mail, 10)?;
    writeln!(out, "email acks all of it -> {}", said(mails.ack()))?;
    stands(out, &orders, 1)?;

    writeln!(out, "publish o-5 -> offset {}", publish("user-a", "o-5")?.position.offset)?;
    stands(out, &orders, 1)?;

    clock.advance(Duration::from_secs(31));
    writeln!(out, "31 s pass: billing's lease on o-2 is over")?;
    writeln!(out, "billing acks o-2, too late -> {}", said(early.ack()))?;
    let mut again = polled(out, "billing", &mut bill, 10)?;
    stands(out, &orders, 1)?;

    writeln!(out, "billing acks through 3 -> {}", said(again.ack_through(3)))?;
    stands(out, &orders, 1)?;

    writeln!(out, "billing acks through 7 -> {}", said(bill.ack_through(1, 7)))?;
    stands(out, &orders, 1)?;
    writeln!(out, "(o-4 lies in partition 0, which nobody here asked for)")?;
    Ok(())
}

/// One partition, and a group that is called for each record and fails once.
fn pushed(out: &mut impl Write, broker: &Broker) -> Result<(), Box<dyn Error>> {
    writeln!(out, "\n-- payments: 1 partition of 10 records; ledger is called for each, and fails once")?;
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
        let end = if fails { "fails, nacked" } else { "ok, acked" };
        let mut calls = calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        calls.push(format!("handle {}:{} -> {end}", order.offset(), order.name));
        if fails { Err(format!("{} is not booked", order.name)) } else { Ok(()) }
    }
}

/// Polls, says what comes, and leaves it in flight: it is acknowledged by its receipt.
fn polled(
    out: &mut impl Write,
    who: &str,
    consumer: &mut Consumer<Order>,
    max: usize,
) -> Result<Receipt, Box<dyn Error>> {
    let batch = consumer.try_poll(max)?;
    let got: Vec<String> = batch.iter().map(|order| named(&order)).collect();
    writeln!(out, "{who} polls {max} -> got {}", got.join(", "))?;
    Ok(batch.detach())
}

fn named(order: &Record<'_, Order>) -> String {
    let attempt = if order.attempt() > 1 { format!(" (attempt {})", order.attempt()) } else { String::new() };
    format!("{}:{}{attempt}", order.offset(), order.name)
}

fn said(settled: Result<(), SettleError>) -> String {
    settled.map_or_else(|refused| format!("refused: {refused}"), |()| "done".to_owned())
}

/// How a partition stands, and each group in it.
fn stands(out: &mut impl Write, topic: &Topic<Order>, partition: usize) -> Result<(), Box<dyn Error>> {
    let description = topic.describe();
    let log = &description.partitions[partition];
    write!(out, "    p{partition}: ")?;
    match log.retained() {
        0 => write!(out, "log empty, next offset {}", log.end)?,
        1 => write!(out, "log has offset {}", log.earliest)?,
        _ => write!(out, "log has offsets {} to {}", log.earliest, log.end - 1)?,
    }
    write!(out, ", backlog {}/{}", log.retained(), description.capacity)?;
    for group in topic.groups().iter().map(Group::stats) {
        let lane = &group.lanes[partition];
        write!(out, ", {} committed {} next {}", group.group, lane.committed, lane.committed + lane.in_flight)?;
    }
    writeln!(out)?;
    Ok(())
}
