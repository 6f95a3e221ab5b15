//! A consumer: a member that asks for its records instead of being called with them.
//!
//! | label   | operation     | order   | why this much, and why no more                                                          |
//! |---------|---------------|---------|-----------------------------------------------------------------------------------------|
//! | waits:A | `waits.store` | Relaxed | says whether it hangs; who is wrong about that is put right by the poll that comes next |
//! | waits:B | `waits.load`  | Relaxed | the other half                                                                          |
#![forbid(unsafe_code)]

mod owned;
mod poll;
mod polled;
mod ready;

pub use owned::{OwnedBatch, OwnedRecord};
pub use poll::PollError;
pub use polled::{Polled, PolledIter};
pub use ready::{Pollable, Readiness};

use super::Group;
use super::context::Id;
use super::error::SubscribeError;
use super::executor::Seat;
use super::lane::Lane;
use super::receipt::SettleError;
use super::settling::Who;
use super::shared::Stall;
use super::word::MemberId;
use crate::ring::Reader;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::Time;
use crate::wait::{Bell, Event, Sleeper, Wake};
use std::fmt;

/// A member of a group that asks for records, and says itself when they are done. Drop it to leave.
///
/// It is dealt partitions like every member. What it was handed is *in flight* until it is settled: acknowledged, nacked, or
/// released. Of one partition it may have several batches in flight, and they are acknowledged in order: an ack covers the
/// earlier ones; but not in a [work queue](crate::Order::Shared), where each is settled by itself. Dropped, it leaves: what it has in flight is released, and handed to whoever gets the partition.
///
/// ```
/// use ringlog::{Broker, GroupConfig, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("orders", TopicConfig::<String>::new())?;
/// let group = topic.group("billing", GroupConfig::earliest())?;
/// topic.publish("first".to_string())?;
/// let mut consumer = group.consumer("billing-1")?;
/// let batch = consumer.poll(10, Duration::from_secs(1))?;
/// for order in &batch {
///     println!("{}: {}", order.offset(), *order);
/// }
/// batch.ack()?;
/// assert_eq!(group.stats().acked(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What fails is said with [`nack_from`](Polled::nack_from): what came before is done, what comes behind is not held against anybody.
///
/// ```
/// use ringlog::{Broker, Failure, GroupConfig, TopicConfig};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("orders", TopicConfig::<String>::new())?;
/// let group = topic.group("billing", GroupConfig::earliest())?;
/// topic.publish_batch(["7", "seven", "8"].map(String::from))?;
/// let mut consumer = group.consumer("billing-1")?;
/// let mut sum = 0;
/// while group.lag() > 0 {
///     let mut batch = consumer.poll(10, Duration::MAX)?; // after a nack: when the pause of the group's retry is over
///     let wrong = batch.iter().find_map(|order| match order.parse::<u32>() {
///         Ok(cents) => {
///             sum += cents;
///             None
///         }
///         Err(why) => Some((order.offset(), why)),
///     });
///     match wrong {
///         None => batch.ack()?,
///         Some((offset, why)) => batch.nack_from(offset, Failure::new(why))?,
///     }
/// }
/// assert_eq!((sum, group.stats().acked(), group.stats().dead()), (15, 2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Consumer<T: Send + Sync + 'static> {
    group: Arc<Group<T>>,
    name: Arc<str>,
    id: MemberId,
    left: Arc<AtomicBool>,
    sleeper: Sleeper,
    doorbell: Arc<Doorbell>,
    /// Where a waker is registered: with the partition of that hand, or with the bell; and with which ticket.
    alarms: Vec<(Option<usize>, u64)>,
    hands: Vec<Hand<T>>,
    /// Whose turn it is.
    turn: usize,
}

/// A partition that may be the consumer's.
struct Hand<T> {
    lane: Arc<Lane<T>>,
    reader: Reader<T>,
    /// Where members share it.
    stall: Option<Stall>,
}

impl<T: Send + Sync + 'static> Hand<T> {
    /// Whether the consumer `id` may have something of it now.
    fn is_of(&self, id: MemberId) -> bool {
        self.stall.is_some() || self.lane.word.load().is_of(id)
    }

    /// Whether a poll of the consumer `id` would find something; else when it may.
    fn has_more(&self, group: &Group<T>, id: MemberId) -> Result<(), Option<Time>> {
        let eye = |due| self.stall.as_ref().map_or(Err(due), |stall| stall.eye(group, &self.lane, due));
        group.has_more(&self.lane, id).or_else(eye)
    }
}

/// Wakes a consumer that waits, and who waits for it elsewhere.
#[derive(Debug)]
struct Doorbell {
    id: Id,
    bell: Bell,
    rung: Event,
    /// It sleeps in a poll.
    waits: AtomicBool,
}

impl Doorbell {
    fn sleeps(&self, sleeps: bool) {
        // ORD(waits:A) Relaxed: see the table. Pairs with ORD(waits:B).
        self.waits.store(sleeps, Ordering::Relaxed);
    }
}

impl Seat for Doorbell {
    fn ring(&self) {
        self.bell.ring();
        self.rung.notify();
    }

    fn executor(&self) -> Id {
        self.id
    }

    fn is_waiting(&self) -> bool {
        // ORD(waits:B) Relaxed: see the table. Pairs with ORD(waits:A).
        self.waits.load(Ordering::Relaxed)
    }

    fn polls(&self) -> bool {
        true
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    /// A member that polls; `only` these partitions if there are any.
    pub fn consumer(self: &Arc<Self>, name: Arc<str>, only: &[u32]) -> Result<Consumer<T>, SubscribeError> {
        if let Err(reason) = super::name::check(&name) {
            return Err(SubscribeError::Name { group: self.name.clone(), reason });
        }
        if self.config.overflow.0.as_ref().is_some_and(|own| own.is_for_handlers()) {
            return Err(SubscribeError::Clones { group: self.name.clone(), member: name });
        }
        let sleeper = Sleeper::new(self.clock.clone());
        let (bell, rung) = (sleeper.bell().clone(), Event::new(Wake::All));
        let doorbell = Arc::new(Doorbell { id: Id::fresh(), bell, rung, waits: AtomicBool::new(false) });
        let seat: Arc<dyn Seat> = doorbell.clone();
        let mine = |lane: &&Arc<Lane<T>>| only.is_empty() || only.contains(&lane.partition);
        let hand = |lane: &Arc<Lane<T>>| Hand {
            reader: lane.log.reader(lane.gate.position()).covered_by(lane.gate.clone()),
            lane: lane.clone(),
            stall: None,
        };
        let mut hands: Vec<_> = self.lanes.iter().filter(mine).map(hand).collect();
        let member = self.enrol(&name, [seat].into(), only)?;
        hands.iter_mut().for_each(|hand| hand.stall = self.stand_at(&hand.lane, &member, doorbell.id));
        let (group, id, left) = (self.clone(), member.id, member.left.clone());
        let alarms = Vec::new();
        let consumer = Consumer { group, name, id, left, sleeper, doorbell, alarms, hands, turn: 0 };
        self.welcome();
        Ok(consumer)
    }
}

impl<T: Send + Sync + 'static> Consumer<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything up to `offset` of a partition is done, whichever of this consumer's batches it is in. For who keeps offsets instead of
    /// receipts: [detach](Polled::detach) each batch and [give up](super::Receipt::leave_in_flight) its receipt.
    ///
    /// # Errors
    ///
    /// [`SettleError::NotInFlight`] with what is.
    pub fn ack_through(&mut self, partition: u32, offset: u64) -> Result<(), SettleError> {
        match self.group.lanes.get(partition as usize) {
            Some(lane) if lane.shared.is_some() => {
                let acked = self.group.ack_claims(lane, self.id, offset);
                acked.map_err(|refusal| self.group.refused(lane, Who::All(self.id), Some(offset), refusal))
            }
            Some(lane) => self.group.ack(lane, Who::All(self.id), Some(offset)),
            None => {
                let (topic, group) = (self.group.home.topic.clone(), self.group.name().clone());
                Err(SettleError::NotInFlight { topic, group, partition, offset, in_flight: None })
            }
        }
    }

    /// All that this consumer has in flight of a partition failed: a failed attempt for each record, all of which come again.
    /// Whether there was anything: of a partition that is another's, or does not exist, there is not, and nothing happens.
    pub fn nack(&mut self, partition: u32) -> bool {
        let lane = self.group.lanes.get(partition as usize);
        if let Some(lane) = lane.filter(|lane| lane.shared.is_some()) {
            return self.group.nack_claims(lane, self.id);
        }
        lane.is_some_and(|lane| self.group.nack(lane, Who::All(self.id), None, None, None).unwrap_or(false))
    }
}

impl<T: Send + Sync + 'static> Drop for Consumer<T> {
    /// Leaves: asks assignors and hooks, which are user code and contained.
    fn drop(&mut self) {
        self.call_off();
        let _here = self.group.enter_as(self.doorbell.id);
        self.group.leave(self.id);
        for hand in &mut self.hands {
            hand.reader.release();
            self.group.leave_letters(&hand.lane, self.id);
            match &hand.stall {
                Some(stall) => self.group.leave_stall(&hand.lane, stall),
                None => self.group.release_all(&hand.lane, self.id),
            }
        }
        self.group.forget(self.id);
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("name", &self.name).field("group", &self.group.name()).finish_non_exhaustive()
    }
}
