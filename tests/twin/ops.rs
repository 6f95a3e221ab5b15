//! What may happen to a broker: a setup and a list of operations, both read from raw bytes.
//!
//! The property test and the fuzz target share this one decoding, so a case that one of them found is a case for the
//! other. All zeroes is the plainest case there is (one partition of capacity one, one keyless publish), which is what
//! shrinking aims at.

/// Where a new group starts.
pub(crate) type From = To;

/// Where a seek aims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Earliest,
    Latest,
    Offset(u64),
    LastN(u64),
    /// In milliseconds.
    Time(u64),
}

/// What a handler does with the next record it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Ack,
    Fail,
    Panic,
    Reject,
    RetryAfter(u64),
    /// A batch handler names the record that failed; a handler of single records just fails.
    FailAt(u64),
    /// The handler publishes to its own topic, never waiting, and then acks.
    Publish {
        key: Option<u8>,
    },
}

/// What becomes of what waits for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    #[default]
    Topic,
    Block(u64),
    Oldest(u64),
    Newest(u64),
    Latest,
    LatestBy(u64),
}

/// How long a topic keeps what it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Backlog,
    Recent,
    Unacked,
}

/// One topic and the settings of all its groups.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) partitions: u32,
    pub(crate) capacity: u64,
    pub(crate) keep: Keep,
    /// When a partition is full its oldest record goes, instead of the publish waiting.
    pub(crate) drops: bool,
    /// How many milliseconds a record is kept at most.
    pub(crate) age: Option<u64>,
    pub(crate) exclusive: bool,
    /// Records have times, without an age too.
    pub(crate) timed: bool,
    /// Calls of the handler per record before it is buried.
    pub(crate) attempts: u32,
    /// Milliseconds before the first retry; doubled each time, up to `BACKOFF_CAP`.
    pub(crate) backoff: u64,
    /// How many letters a group keeps.
    pub(crate) letters: usize,
    /// Letters keep a clone of their record.
    pub(crate) clones: bool,
    /// Partitions are dealt by the sticky rule.
    pub(crate) sticky: bool,
    pub(crate) seed: u64,
}

/// The longest backoff in milliseconds.
pub(crate) const BACKOFF_CAP: u64 = 50;
/// Group names in use, and members that one group may have had.
pub(crate) const GROUPS: u8 = 3;
pub(crate) const MEMBERS: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Publish {
        key: Option<u8>,
    },
    PublishTo {
        partition: u32,
    },
    /// Into the buffer that lies in the slot, where the producer is the only one.
    InPlace {
        partition: u32,
    },
    Batch {
        keys: Vec<Option<u8>>,
    },
    AddGroup {
        group: u8,
        from: From,
        rule: Rule,
    },
    DeleteGroup {
        group: u8,
    },
    Join {
        group: u8,
        batches: bool,
    },
    Leave {
        group: u8,
        member: usize,
    },
    /// As far as that goes without waiting: when it is done.
    LeaveDrained {
        group: u8,
        member: usize,
    },
    /// The oldest letters are handed over again.
    Redrive {
        group: u8,
        most: usize,
    },
    CallBack {
        group: u8,
    },
    TakeLetters {
        group: u8,
        most: usize,
    },
    /// The member's executor ends without notice.
    Kill {
        group: u8,
        member: usize,
    },
    Seek {
        group: u8,
        partition: u32,
        to: To,
    },
    /// Moves a cursor from where it is, or is not, by so many.
    Commit {
        group: u8,
        partition: u32,
        off: u64,
        by: u64,
    },
    Pause {
        group: u8,
    },
    Resume {
        group: u8,
    },
    PauseLane {
        group: u8,
        partition: u32,
    },
    ResumeLane {
        group: u8,
        partition: u32,
    },
    Script {
        group: u8,
        act: Act,
        times: u8,
    },
    Advance {
        millis: u64,
    },
    Step {
        steps: u8,
    },
    Settle,
    Drain,
    Close,
}

impl Setup {
    /// Every eight bytes are a setup.
    pub(crate) fn decode(raw: [u8; 8]) -> Self {
        Self {
            partitions: 1 + u32::from(raw[0] % 3),
            capacity: [1, 2, 3, 4, 9, 64][usize::from(raw[1] % 6)],
            keep: [Keep::Recent, Keep::Backlog, Keep::Unacked][usize::from(raw[2] % 3)],
            drops: raw[2] / 3 % 2 == 1,
            age: [None, None, Some(9), Some(60)][usize::from(raw[0] / 3 % 4)],
            exclusive: raw[3] % 3 == 1,
            timed: raw[3] / 3 % 2 == 1,
            attempts: 1 + u32::from(raw[4] % 3),
            backoff: u64::from(raw[5] % 4),
            letters: [2, 1, 3, 64][usize::from(raw[6] % 4)],
            clones: raw[6] / 4 % 4 > 0,
            sticky: raw[6] / 16 % 2 == 1,
            seed: u64::from(raw[7]),
        }
    }
}

impl Op {
    /// What a case begins with: up to three groups, each with as many members, so that what follows finds somebody.
    pub(crate) fn crew(raw: u8, rules: u8) -> Vec<Self> {
        let (groups, members, batches) = (raw % 4, raw / 4 % 3, raw / 12 % 2 == 1);
        let joins = move |group| (0..members).map(move |_| Self::Join { group, batches });
        let add = |group: u8| {
            let rule = rule(rules.wrapping_mul(2 * group + 1));
            Self::AddGroup { group, from: start(rule, From::Earliest), rule }
        };
        (0..groups).flat_map(|group| [add(group)].into_iter().chain(joins(group))).collect()
    }

    /// Every four bytes are an operation. The bounds of the table are the weights, out of 256.
    pub(crate) fn decode(raw: [u8; 4], setup: &Setup) -> Self {
        let [kind, a, b, c] = raw;
        let group = a % GROUPS;
        let partition = u32::from(b) % setup.partitions;
        match kind {
            0..40 => Self::Publish { key: key(b) },
            40..47 => Self::Redrive { group, most: [1, 2, 99][usize::from(b) % 3] },
            47..49 => Self::CallBack { group },
            49 => Self::TakeLetters { group, most: usize::from(b) % 3 },
            50..58 => Self::PublishTo { partition },
            58..62 => Self::InPlace { partition },
            62..84 => Self::Batch { keys: batch(a, b, setup) },
            84..90 => {
                let rule = rule(a / GROUPS);
                Self::AddGroup { group, from: if c % 8 == 7 { from(b, c) } else { start(rule, from(b, c)) }, rule }
            }
            90..92 => Self::DeleteGroup { group },
            92..104 => Self::Join { group, batches: b % 2 == 1 },
            104..107 => Self::Leave { group, member: usize::from(b) % MEMBERS },
            107..109 => Self::LeaveDrained { group, member: usize::from(b) % MEMBERS },
            109..111 => Self::Kill { group, member: usize::from(b) % MEMBERS },
            111..122 => Self::Seek { group, partition, to: to(c) },
            122..125 => Self::Commit { group, partition, off: u64::from(c % 4 / 3), by: u64::from(c / 4) % 4 },
            125..128 => Self::Pause { group },
            128..138 => Self::Resume { group },
            138..141 => Self::PauseLane { group, partition },
            141..151 => Self::ResumeLane { group, partition },
            151..179 => Self::Script { group, act: act(b, c), times: 1 + c % 3 },
            179..191 => Self::Advance { millis: u64::from(b) % 60 },
            191..228 => Self::Step { steps: 1 + a % 4 },
            228..249 => Self::Settle,
            249..255 => Self::Drain,
            255 => Self::Close,
        }
    }
}

/// Half of all groups have a rule of their own.
fn rule(raw: u8) -> Rule {
    let most = [1, 2, 3, 4, 8, 40][usize::from(raw / 16) % 6];
    match raw % 16 {
        0..6 | 14 | 15 => Rule::Topic,
        6 | 7 => Rule::Block(most),
        8 | 9 => Rule::Oldest(most),
        10 | 11 => Rule::Newest(most),
        12 => Rule::Latest,
        _ => Rule::LatestBy(most),
    }
}

/// Where the newest go, a group has to begin at the end.
fn start(rule: Rule, from: From) -> From {
    if matches!(rule, Rule::Newest(_)) { From::Latest } else { from }
}

fn key(b: u8) -> Option<u8> {
    (b % 3 != 0).then_some(b % 7)
}

/// One to twelve records, so that small topics see batches that can never fit, too.
fn batch(a: u8, b: u8, setup: &Setup) -> Vec<Option<u8>> {
    let most = (setup.capacity.min(5) + 2) * u64::from(setup.partitions);
    let len = u64::from(a) % (most + 1);
    (0..len as u8).map(|n| key(b.wrapping_mul(n.wrapping_add(1)))).collect()
}

fn from(b: u8, c: u8) -> From {
    match b % 8 {
        0..4 => From::Earliest,
        4 => From::Latest,
        5 => From::Offset(u64::from(c) % 24),
        6 => From::LastN(u64::from(c) % 8),
        _ => From::Time(u64::from(c)),
    }
}

fn to(c: u8) -> To {
    match c % 8 {
        0 | 1 => To::Earliest,
        2 => To::LastN(u64::from(c) / 8),
        3 => To::Time(u64::from(c) * 2),
        4 => To::Latest,
        5 => To::Offset(u64::MAX - u64::from(c)),
        _ => To::Offset(u64::from(c) / 8),
    }
}

fn act(b: u8, c: u8) -> Act {
    match b % 8 {
        0 | 1 => Act::Fail,
        2 => Act::Panic,
        3 => Act::Reject,
        4 => Act::RetryAfter(u64::from(c) % 9),
        5 => Act::FailAt(u64::from(c) / 3),
        6 => Act::Publish { key: key(c) },
        _ => Act::Ack,
    }
}
