//! What the twin is made of: plain data, and the little that each piece can say for itself.

use crate::ops::{Act, Rule, To};
use std::collections::{BTreeMap, VecDeque};

/// What the twin says about one publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Stored {
        offset: u64,
        kept: bool,
    },
    /// Refused for want of room. Any of the groups may be named; `None` stands for the topic itself.
    Full {
        limits: Vec<Option<u8>>,
    },
    TooLarge,
    /// More than may ever wait for some group.
    TooMany,
    Closed,
}

/// What a batch came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Partition, first offset, how many, kept.
    pub(crate) shares: Vec<(u32, u64, u64, bool)>,
    pub(crate) rest: Vec<u64>,
    pub(crate) why: Option<Answer>,
}

/// One call of a handler, as the handler saw it and as it was told to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) group: u8,
    pub(crate) member: String,
    pub(crate) partition: u32,
    /// Of the first record, as is the attempt.
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    /// What is missing before the first.
    pub(crate) lost_before: u64,
    /// The records: one, or those of a batch.
    pub(crate) serials: Vec<u64>,
    pub(crate) act: Act,
    /// A letter, handed over again.
    pub(crate) redriven: bool,
    /// What the handler published meanwhile: the event, where it went, and the answer.
    pub(crate) published: Option<(u64, Option<u32>, Answer)>,
    /// The books of its lane that a handler saw that published.
    pub(crate) inside: Option<Books>,
}

/// A loss, as the members heard of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) group: u8,
    pub(crate) partition: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) overwritten: u64,
    pub(crate) expired: u64,
    pub(crate) dropped: u64,
    pub(crate) conflated: u64,
}

/// What members see, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Call(Call),
    Gap(Gap),
}

/// How a record was lost to whoever had not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    Overwritten,
    Expired,
}

/// What remains of a buried record.
#[derive(Clone, Debug, Eq)]
pub(crate) struct Letter {
    /// How many were filed before it; the real one does not show that.
    pub(crate) nth: u64,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) attempts: u32,
    pub(crate) kind: &'static str,
    /// The record it was.
    pub(crate) serial: u64,
}

impl PartialEq for Letter {
    fn eq(&self, other: &Self) -> bool {
        let facts = |letter: &Self| (letter.partition, letter.offset, letter.attempts, letter.kind, letter.serial);
        facts(self) == facts(other)
    }
}

/// A letter that is to be handed over again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) letter: Letter,
    pub(crate) failures: u32,
    pub(crate) due: Option<u64>,
}

/// The books of one lane, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) replayed: u64,
    pub(crate) acked: u64,
    pub(crate) dead: u64,
    pub(crate) skipped: u64,
    pub(crate) expired: u64,
    pub(crate) dropped: u64,
    pub(crate) conflated: u64,
    pub(crate) pending: u64,
    pub(crate) retried: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Every record there ever was, by offset.
    pub(crate) serials: Vec<u64>,
    /// When each was published, and how it was lost.
    pub(crate) created: Vec<u64>,
    pub(crate) gone: Vec<Option<Gone>>,
    pub(crate) earliest: u64,
    /// Everything before this is too old.
    pub(crate) floor: u64,
    /// The earliest when the last step began.
    pub(crate) settled: u64,
    pub(crate) expired: u64,
    /// Publishers may have been promised room up to here.
    pub(crate) promised: u64,
    /// While there is no group on a topic that drops its oldest: what comes from here on nobody has had.
    pub(crate) alone: Option<u64>,
    /// Of each record, whether it was overwritten before every group had it done.
    pub(crate) dropped: Vec<bool>,
    pub(crate) rejected: u64,
    /// What gates while no group does, on a topic that keeps its backlog.
    pub(crate) base: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) cursor: u64,
    pub(crate) paused: bool,
    /// Where the cursor was when the last step began.
    pub(crate) settled: u64,
    pub(crate) start: u64,
    /// What is missing right before the cursor.
    pub(crate) lost: u64,
    /// Up to where records may be in a handler's hand, within a step.
    pub(crate) hand: u64,
    /// Failed calls of the handler with the record at the cursor.
    pub(crate) tried: u32,
    pub(crate) due: Option<u64>,
    /// Up to here a batch handler gets single records, because a batch failed and did not say where.
    pub(crate) singly: u64,
    /// Letters that come before the record at the cursor.
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) books: Books,
    pub(crate) rule: Rule,
    /// Where the newest go: what waits, and what has failed and is tried again.
    pub(crate) mail: VecDeque<u64>,
    pub(crate) held: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) members: Vec<String>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) paused: bool,
    pub(crate) letters: VecDeque<Letter>,
    pub(crate) letters_lost: u64,
    pub(crate) filed: u64,
    pub(crate) script: VecDeque<Act>,
    /// Where the rule may choose: whose each partition is.
    pub(crate) owners: Vec<Option<String>>,
}

impl Log {
    pub(crate) fn end(&self) -> u64 {
        self.serials.len() as u64
    }

    /// The offset where somebody begins who is sent there.
    pub(crate) fn place(&self, to: To) -> u64 {
        let within = |at: u64| at.clamp(self.earliest, self.end());
        match to {
            To::Earliest => self.earliest,
            To::Latest => self.end(),
            To::Offset(at) => within(at),
            To::LastN(n) => within(self.end().saturating_sub(n)),
            To::Time(time) => {
                (self.earliest..self.end()).find(|at| self.created[*at as usize] >= time).unwrap_or(self.end())
            }
        }
    }

    /// The last record, with its offset.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        Some((self.end().checked_sub(1)?, *self.serials.last()?))
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.iter().map(|dropped| u64::from(*dropped)).sum()
    }

    /// How many of the records in between were overwritten, and how many became too old.
    pub(crate) fn missing(&self, from: u64, to: u64) -> (u64, u64) {
        let gone = (from..to).map(|at| self.gone[at as usize]);
        gone.fold((0, 0), |(overwritten, expired), gone| match gone {
            Some(Gone::Overwritten) => (overwritten + 1, expired),
            Some(Gone::Expired) => (overwritten, expired + 1),
            None => (overwritten, expired),
        })
    }
}

impl Lane {
    /// The books of the lane balance.
    pub(crate) fn check(&self, log: &Log) {
        let books = self.books(log);
        let came = log.end() - self.start + books.replayed;
        let lost = books.skipped + books.expired + books.dropped + books.conflated;
        let went = books.acked + books.dead + lost + books.pending;
        assert_eq!(came, went, "the twin's own books are wrong: {self:?}");
    }

    pub(crate) fn pass(&mut self) {
        self.cursor += 1;
        self.lost = 0;
        self.tried = 0;
        self.due = None;
    }
}

impl Group {
    /// The member that partition `p` belongs to: p mod n, in the order of joining, where the rule leaves no choice.
    pub(crate) fn owner(&self, partition: u32) -> Option<&String> {
        if let Some(owner) = self.owners.get(partition as usize) {
            return owner.as_ref();
        }
        let n = self.members.len();
        (n > 0).then(|| &self.members[partition as usize % n])
    }

    /// Who has which partitions, members without one included.
    pub(crate) fn assignment(&self) -> BTreeMap<String, Vec<u32>> {
        let mut all: BTreeMap<_, _> = self.members.iter().map(|member| (member.clone(), Vec::new())).collect();
        for p in 0..self.lanes.len() as u32 {
            if let Some(owner) = self.owner(p) {
                all.entry(owner.clone()).or_default().push(p);
            }
        }
        all
    }

    pub(crate) fn script(&mut self, act: Act, times: u8) {
        self.script.extend(std::iter::repeat_n(act, usize::from(times)));
    }

    /// What the handler does next; the handlers keep their own copy of the same list.
    pub(crate) fn next_act(&mut self) -> Act {
        self.script.pop_front().unwrap_or(Act::Ack)
    }

    /// Keeps a letter; the oldest goes where there is no room, and that is said.
    pub(crate) fn bury(&mut self, letter: Letter, keep: usize) -> bool {
        self.filed += 1;
        let letter = Letter { nth: self.filed, ..letter };
        let full = self.letters.len() == keep;
        if full {
            self.letters.pop_front();
            self.letters_lost += 1;
        }
        self.letters.push_back(letter);
        full
    }
}

/// The polynomial division, bit by bit.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let mut rest = !0_u32;
    for byte in bytes {
        rest ^= u32::from(*byte);
        for _ in 0..8 {
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0xEDB8_8320 } else { rest >> 1 };
        }
    }
    !rest
}
