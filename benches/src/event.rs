//! The message every contender carries, and the account its consumer keeps of it.

/// A message of 32 bytes: enough for a trade or a tick, and the same for every contender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// The place in the sequence of messages; the check sum is taken over it.
    pub id: u64,
    /// The key by which whole-path scenarios route; one of 1,024.
    pub key: [u8; 8],
    /// What the producer's own work gave (zero without work).
    pub value: u64,
    /// When it was sent, in the measuring clock's raw ticks (zero outside latency scenarios).
    pub sent: u64,
}

const KEYS: u64 = 1024;

impl Event {
    /// The message with this place in the sequence.
    #[inline(always)]
    pub fn new(id: u64) -> Self {
        Self::with_value(id, 0)
    }

    /// The message with this place, carrying the outcome of the producer's work.
    #[inline(always)]
    pub fn with_value(id: u64, value: u64) -> Self {
        let key = (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % KEYS;
        Event { id, key: key.to_le_bytes(), value, sent: 0 }
    }
}

/// What a consumer has seen: count and check sum, to be compared before a timing is believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many messages.
    pub count: u64,
    /// The sum of their places.
    pub sum: u64,
    /// Everything else they carried, folded, so that a consumer has to read whole messages.
    pub rest: u64,
}

impl Tally {
    /// Takes one message into the account.
    #[inline(always)]
    pub fn take(&mut self, event: &Event) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(event.id);
        self.rest ^= u64::from_le_bytes(event.key) ^ event.value ^ event.sent;
    }

    /// Panics unless exactly the messages `0..total` were taken, each `copies` times.
    pub fn check(&self, total: u64, copies: u64) {
        let sum = (u128::from(total) * u128::from(total.saturating_sub(1)) / 2 * u128::from(copies)) as u64;
        assert_eq!((self.count, self.sum), (total * copies, sum), "messages were lost, doubled or changed");
    }
}
