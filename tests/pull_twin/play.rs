//! Each operation on both, and a look at everything after it.

use crate::twin::{Census, Figures, Settled, Setup, Ticket, Twin};
use ringlog::{
    Broker, BrokerConfig, Consumer, Failure, Group, GroupConfig, ManualClock, Receipt, Retain, Retry, SeekTo,
    SettleError, Topic, TopicConfig,
};
use std::sync::Arc;
use std::time::Duration;

/// Receipts that are kept at once, and consumers.
const RECEIPTS: usize = 6;
const CONSUMERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Publish {
        partition: u32,
    },
    Poll {
        consumer: usize,
        most: u64,
    },
    Ack {
        receipt: usize,
    },
    AckThrough {
        receipt: usize,
        nth: u64,
    },
    Nack {
        receipt: usize,
    },
    NackFrom {
        receipt: usize,
        nth: u64,
    },
    Release {
        receipt: usize,
    },
    Forget {
        receipt: usize,
    },
    Extend {
        receipt: usize,
        by: u64,
    },
    /// Of a consumer, by partition and offset.
    AckOffset {
        consumer: usize,
        partition: u32,
        off: u64,
    },
    NackAll {
        consumer: usize,
        partition: u32,
    },
    Join,
    Leave {
        consumer: usize,
    },
    Seek {
        partition: u32,
        off: u64,
    },
    Advance {
        by: u64,
    },
    Pause(bool),
}

impl Op {
    /// Every three bytes are an operation; the bounds are the weights, out of 256.
    fn decode([kind, a, b]: [u8; 3], setup: &Setup) -> Self {
        let (partition, consumer) = (u32::from(a) % setup.partitions, usize::from(b) % CONSUMERS);
        let (receipt, nth) = (usize::from(a) % RECEIPTS, u64::from(b) % 5);
        match kind {
            0..70 => Op::Publish { partition },
            70..125 => Op::Poll { consumer, most: 1 + u64::from(a) % 5 },
            125..143 => Op::Ack { receipt },
            143..153 => Op::AckThrough { receipt, nth },
            153..165 => Op::Nack { receipt },
            165..175 => Op::NackFrom { receipt, nth },
            175..187 => Op::Release { receipt },
            187..191 => Op::Forget { receipt },
            191..197 => Op::Extend { receipt, by: u64::from(b) % 30 },
            197..205 => Op::AckOffset { consumer, partition, off: u64::from(a / 8) % 6 },
            205..210 => Op::NackAll { consumer, partition },
            210..222 => Op::Join,
            222..228 => Op::Leave { consumer },
            228..238 => Op::Seek { partition, off: u64::from(b) % 8 },
            238..252 => Op::Advance { by: u64::from(a) % 13 },
            252.. => Op::Pause(a % 3 == 0),
        }
    }
}

struct Case {
    clock: Arc<ManualClock>,
    _broker: Broker,
    topic: Topic<u64>,
    group: Group<u64>,
    consumers: Vec<Consumer<u64>>,
    receipts: Vec<(Receipt, Ticket)>,
    joined: u32,
    twin: Twin,
}

type Checked = Result<(), String>;

fn same<V: PartialEq + std::fmt::Debug>(real: &V, twin: &V, what: &str) -> Checked {
    if real == twin { Ok(()) } else { Err(format!("{what}: real {real:?}, twin {twin:?}")) }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What the broker said, in the twin's words.
fn said(settled: Result<(), SettleError>) -> Settled {
    match settled {
        Ok(()) => Settled::Done,
        Err(SettleError::NotInFlight { in_flight, .. }) => {
            Settled::NotInFlight(in_flight.map(|range| (range.start, range.end)))
        }
        Err(SettleError::Fenced { reason, .. }) => {
            let known = ["Expired", "Moved", "Seeked", "Deleted", "Trimmed", "Rewound", "Buried", "AlreadyAcked"];
            let name = format!("{reason:?}");
            Settled::Fenced(known.into_iter().find(|known| *known == name).expect("a reason that is known"))
        }
        Err(other) => panic!("refused for a reason that cannot be: {other}"),
    }
}

/// Runs one case from raw bytes and says what happened; panics with the operations when the two disagree.
pub(crate) fn run(setup: [u8; 4], raw: &[[u8; 3]]) -> Census {
    let setup = Setup::decode(setup);
    // Somebody is there to begin with.
    let ops: Vec<Op> = [Op::Join].into_iter().chain(raw.iter().map(|raw| Op::decode(*raw, &setup))).collect();
    let mut case = Case::new(&setup);
    for (i, op) in ops.iter().enumerate() {
        case.apply(*op).and_then(|()| case.compare()).unwrap_or_else(|said| {
            panic!("after operation {i}, {op:?}, of {setup:?}\n{:#?}\n{said}", &ops[..=i]);
        });
    }
    case.twin.census
}

impl Case {
    fn new(setup: &Setup) -> Self {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let retain = if setup.unacked { Retain::Unacked } else { Retain::Recent };
        let config = TopicConfig::new().partitions(setup.partitions).capacity(setup.capacity as usize).retain(retain);
        let topic = broker.create_topic("t", config.block(Some(Duration::ZERO))).unwrap();
        let retry = Retry::constant(setup.attempts.unwrap_or(1), millis(setup.pause));
        let retry = if setup.attempts.is_none() { retry.unlimited() } else { retry };
        let config = GroupConfig::earliest().retry(retry).letters(10_000);
        let config = match setup.lease {
            Some(lease) => config.lease(millis(lease)).lease_renewed_up_to(millis(setup.longest)),
            None => config,
        };
        let group = topic.group("g", config).unwrap();
        let (consumers, receipts, twin) = (Vec::new(), Vec::new(), Twin::new(setup.clone()));
        Case { clock, _broker: broker, topic, group, consumers, receipts, joined: 0, twin }
    }

    fn apply(&mut self, op: Op) -> Checked {
        match op {
            Op::Publish { partition } => {
                let stored = self.topic.publish_to(partition, self.twin.end(partition)).is_ok();
                same(&stored, &self.twin.publish(partition), "whether it was stored")
            }
            Op::Poll { consumer, most } => self.poll(consumer, most),
            Op::Ack { .. }
            | Op::AckThrough { .. }
            | Op::Nack { .. }
            | Op::NackFrom { .. }
            | Op::Release { .. }
            | Op::Forget { .. }
            | Op::Extend { .. } => self.settle(op),
            Op::AckOffset { consumer, partition, off } if consumer < self.consumers.len() => {
                let offset = self.twin.committed(partition) + off;
                let (consumer, twin) = (&mut self.consumers[consumer], &mut self.twin);
                let real = said(consumer.ack_through(partition, offset));
                same(&real, &twin.ack_through(consumer.name(), partition, offset), "an ack by offset")
            }
            Op::NackAll { consumer, partition } if consumer < self.consumers.len() => {
                self.consumers[consumer].nack(partition);
                self.twin.nack_all(self.consumers[consumer].name(), partition);
                Ok(())
            }
            Op::Join if self.consumers.len() < CONSUMERS => {
                self.joined += 1;
                let name = format!("c{}", self.joined);
                self.consumers.push(self.group.consumer(&name).unwrap());
                self.twin.members.push(name);
                Ok(())
            }
            Op::Leave { consumer } if consumer < self.consumers.len() => {
                let gone = self.consumers.remove(consumer);
                self.twin.leave(gone.name());
                drop(gone);
                Ok(())
            }
            Op::Seek { partition, off } => self.seek(partition, off),
            Op::Advance { by } => {
                self.clock.advance(millis(by));
                self.twin.advance(by);
                Ok(())
            }
            Op::Pause(pause) => {
                if pause {
                    self.group.pause()
                } else {
                    self.group.resume()
                }
                self.twin.paused = pause;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn poll(&mut self, consumer: usize, most: u64) -> Checked {
        if self.receipts.len() == RECEIPTS {
            let (receipt, ticket) = self.receipts.remove(0);
            drop(receipt);
            self.twin.release(ticket);
        }
        let Some(consumer) = self.consumers.get_mut(consumer) else { return Ok(()) };
        let name = consumer.name().to_owned();
        let batch = consumer.try_poll(most as usize).map_err(|error| error.to_string())?;
        let seen = batch.partition().map(|partition| {
            assert!(batch.iter().all(|record| *record == record.offset()), "another record than was published there");
            (partition, batch.offsets().start, batch.iter().map(|record| record.attempt()).collect())
        });
        let ticket = self.twin.polled(&name, most, seen)?;
        self.receipts.extend(ticket.map(|ticket| (batch.detach(), ticket)));
        Ok(())
    }

    /// What is done with one receipt.
    fn settle(&mut self, op: Op) -> Checked {
        let (Op::Ack { receipt: at }
        | Op::AckThrough { receipt: at, .. }
        | Op::Nack { receipt: at }
        | Op::NackFrom { receipt: at, .. }
        | Op::Release { receipt: at }
        | Op::Forget { receipt: at }
        | Op::Extend { receipt: at, .. }) = op
        else {
            return Ok(());
        };
        if at >= self.receipts.len() {
            return Ok(());
        }
        let (mut receipt, ticket) = self.receipts.remove(at);
        let twin = &mut self.twin;
        let checked = match op {
            Op::Ack { .. } => return same(&said(receipt.ack()), &twin.ack(ticket, None), "an ack"),
            Op::Nack { .. } => {
                return same(&said(receipt.nack(Failure::new("no"))), &twin.nack(ticket, None), "a nack");
            }
            Op::Release { .. } => {
                drop(receipt);
                twin.release(ticket);
                return Ok(());
            }
            Op::Forget { .. } => {
                std::mem::forget(receipt);
                return Ok(());
            }
            Op::AckThrough { nth, .. } => {
                let offset = ticket.from + nth;
                same(&said(receipt.ack_through(offset)), &twin.ack(ticket, Some(offset)), "an ack of a part")
            }
            Op::NackFrom { nth, .. } => {
                let offset = ticket.from + nth;
                let (real, want) =
                    (said(receipt.nack_from(offset, Failure::new("no"))), twin.nack(ticket, Some(offset)));
                if want == Settled::Done {
                    return same(&real, &want, "a nack of a part");
                }
                same(&real, &want, "a nack of a part")
            }
            Op::Extend { by, .. } => {
                let real = receipt.extend(millis(by));
                match twin.extend(ticket, by) {
                    Ok(until) => {
                        same(&real.ok(), &Some(until.map_or(Duration::MAX, millis)), "how long the lease is extended")
                    }
                    Err(refused) => same(&said(real.map(drop)), &refused, "an extension"),
                }
            }
            _ => Ok(()),
        };
        self.receipts.insert(at, (receipt, ticket));
        checked
    }

    fn seek(&mut self, partition: u32, off: u64) -> Checked {
        let (committed, end) = (self.twin.committed(partition), self.twin.end(partition));
        let to = (committed.saturating_sub(4) + off).min(end);
        let landed = self.group.seek(partition, SeekTo::Offset(to)).map_err(|error| error.to_string())?;
        // How far back it goes is the log's to say.
        if landed != to && !(to..=committed).contains(&landed) {
            return Err(format!("a seek from {committed} to {to} landed at {landed}"));
        }
        self.twin.seek(partition, landed);
        Ok(())
    }

    fn compare(&self) -> Checked {
        let stats = self.group.stats();
        for lane in &stats.lanes {
            let real = Figures {
                committed: lane.committed,
                in_flight: lane.in_flight,
                pending: lane.pending,
                acked: lane.acked,
                dead: lane.dead,
                retried: lane.retried,
                refused: lane.refused,
                replayed: lane.replayed,
                skipped: lane.skipped,
                expired_leases: lane.leases_expired,
            };
            same(&real, &self.twin.figures(lane.partition), &format!("the figures of partition {}", lane.partition))?;
            same(&lane.balances(), &true, "whether the books balance")?;
        }
        let letters = self.group.letters();
        let real: Vec<_> = letters.iter().map(|it| (it.partition(), it.offset(), it.attempts(), it.kind())).collect();
        same(&real, &self.twin.letters, "the letters")
    }
}
