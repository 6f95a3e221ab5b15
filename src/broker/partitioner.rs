//! From a key, or from a turn, to a partition: the rules that come with the crate and the trait for one's own.
#![forbid(unsafe_code)]

use std::fmt;
use std::num::NonZeroU32;

/// A rule that picks the partition of a record.
///
/// It is called in the thread that publishes, before anything is claimed, so it may panic: the panic goes to the
/// caller of the publish, nothing is stored, and the topic stays usable. A partition that the topic does not have is
/// refused with [`PublishError::NoSuchPartition`](crate::PublishError::NoSuchPartition).
///
/// ```
/// use ringlog::{Broker, Partitioner, TopicConfig};
/// use std::num::NonZeroU32;
///
/// /// Keys that begin with `!` go to partition 0, the others to the rest.
/// #[derive(Debug)]
/// struct Urgent;
/// impl Partitioner for Urgent {
///     fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32 {
///         if key.first() == Some(&b'!') { 0 } else { 1 % partitions }
///     }
/// }
///
/// let broker = Broker::new();
/// let config = TopicConfig::new().partitions(2).key(|text: &String| text).partitioner(Urgent);
/// let topic = broker.create_topic("notes", config)?;
/// assert_eq!(topic.partition_for(&"!now".to_string()), 0);
/// assert_eq!(topic.partition_for(&"later".to_string()), 1);
/// # Ok::<(), ringlog::CreateError>(())
/// ```
pub trait Partitioner: fmt::Debug + Send + Sync + 'static {
    /// The partition of a record with this key: below `partitions`, and always the same for the same two arguments.
    fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32;

    /// The partition of the `turn`-th record without a key (counted from 0 over the whole topic). By default they go
    /// round robin, the first one to partition 0.
    fn keyless(&self, turn: u64, partitions: NonZeroU32) -> u32 {
        round_robin(turn, partitions)
    }
}

/// `turn % partitions`.
fn round_robin(turn: u64, partitions: NonZeroU32) -> u32 {
    Remainder::new(partitions).of_turn(turn)
}

/// CRC-32 (IEEE, as in zlib) of the key, modulo the number of partitions. The default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crc32;

impl Partitioner for Crc32 {
    #[inline]
    fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32 {
        below(crc32fast::hash(key), partitions)
    }
}

/// `hash % partitions`.
fn below(hash: u32, partitions: NonZeroU32) -> u32 {
    Remainder::new(partitions).of(hash)
}

/// Remainders by one divisor: a division costs as much as the hash, and most topics have a power of two of partitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remainder {
    by: NonZeroU32,
    /// One less than a power of two; all ones for other divisors.
    mask: u32,
}

impl Remainder {
    #[inline]
    pub(crate) const fn new(by: NonZeroU32) -> Self {
        Self { by, mask: if by.is_power_of_two() { by.get() - 1 } else { u32::MAX } }
    }

    #[inline]
    pub(crate) const fn of(self, hash: u32) -> u32 {
        if self.mask != u32::MAX { hash & self.mask } else { hash % self.by.get() }
    }

    #[inline]
    pub(crate) const fn of_turn(self, turn: u64) -> u32 {
        // The remainder is below a u32, so the casts keep it.
        if self.mask != u32::MAX { turn as u32 & self.mask } else { (turn % self.by.get() as u64) as u32 }
    }
}

/// Java's `String.hashCode` of the key, modulo the number of partitions and never negative (`Math.floorMod`).
///
/// The hash runs over UTF-16 units. What is not UTF-8 in the key counts as U+FFFD, as Java decodes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JavaString;

impl JavaString {
    /// Java's `String.hashCode` of these bytes, read as UTF-8.
    fn hash(key: &[u8]) -> i32 {
        key.utf8_chunks().fold(0, |hash, chunk| {
            let hash = chunk.valid().encode_utf16().fold(hash, Self::add);
            if chunk.invalid().is_empty() { hash } else { Self::add(hash, 0xfffd) }
        })
    }

    fn add(hash: i32, unit: u16) -> i32 {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    }
}

impl Partitioner for JavaString {
    fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32 {
        // A positive modulus below 2^32 leaves a remainder that a u32 holds.
        i64::from(Self::hash(key)).rem_euclid(i64::from(partitions.get())) as u32
    }
}

/// CRC-32 for records with a key; those without fill one partition for `run` records, then go to the next.
///
/// Longer runs make fuller batches for consumers at the price of a less even spread over short times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sticky {
    run: u64,
}

impl Sticky {
    /// Runs of `run` keyless records for each partition (16 by [`Default`]); 0 counts as 1.
    pub const fn new(run: u32) -> Self {
        Self { run: if run == 0 { 1 } else { run as u64 } }
    }
}

impl Default for Sticky {
    fn default() -> Self {
        Self::new(16)
    }
}

impl Partitioner for Sticky {
    fn keyed(&self, key: &[u8], partitions: NonZeroU32) -> u32 {
        Crc32.keyed(key, partitions)
    }

    fn keyless(&self, turn: u64, partitions: NonZeroU32) -> u32 {
        round_robin(turn / self.run, partitions)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Crc32, JavaString, Partitioner, Sticky};
    use std::num::NonZeroU32;

    fn n(partitions: u32) -> NonZeroU32 {
        NonZeroU32::new(partitions).expect("at least one partition")
    }

    // A-39, A-42
    #[test]
    fn crc32_gives_the_published_values() {
        for (key, hash) in [("alice", 663_665_735), ("bob", 4_123_767_104), ("carol", 1_782_484_163_u32)] {
            assert_eq!(crc32fast::hash(key.as_bytes()), hash);
            assert_eq!(Crc32.keyed(key.as_bytes(), n(2)), hash % 2);
            assert_eq!(Crc32.keyed(key.as_bytes(), n(4)), hash % 4);
        }
        let of = |key: &str, partitions| Crc32.keyed(key.as_bytes(), n(partitions));
        assert_eq!(["alice", "bob", "carol"].map(|key| of(key, 2)), [1, 0, 1]);
        assert_eq!(["alice", "bob", "carol"].map(|key| of(key, 4)), [3, 0, 3]);
    }

    // B-1, B-V13
    #[test]
    fn java_hashes_are_java_s_and_never_negative() {
        assert_eq!(JavaString::hash(b"user-a"), -836_031_777);
        assert_eq!(JavaString::hash(b"user-b"), -836_031_776);
        assert_eq!(JavaString::hash("\u{1F600}".as_bytes()), 1_772_899);
        assert_eq!(JavaString::hash(b""), 0);
        let of = |key: &str| JavaString.keyed(key.as_bytes(), n(2));
        assert_eq!(["user-a", "user-b", "alice", "bob", "carol"].map(of), [1, 0, 0, 1, 1]);
        assert_eq!(JavaString.keyed(b"user-a", n(1)), 0);
        assert!(JavaString.keyed(b"user-a", n(u32::MAX)) < u32::MAX);
    }

    #[test]
    fn bytes_that_are_no_text_are_hashed_as_replacement_characters() {
        assert_eq!(JavaString::hash(&[b'a', 0xff]), JavaString::hash("a\u{fffd}".as_bytes()));
    }

    // A-41
    #[test]
    fn sticky_runs_fill_one_partition_then_the_next() {
        let sticky = Sticky::default();
        let seen: Vec<u32> = (0..49).map(|turn| sticky.keyless(turn, n(3))).collect();
        assert!(seen[..16].iter().all(|&p| p == 0));
        assert!(seen[16..32].iter().all(|&p| p == 1));
        assert!(seen[32..48].iter().all(|&p| p == 2));
        assert_eq!(seen[48], 0);
        assert_eq!(Sticky::new(0).keyless(1, n(3)), 1);
    }

    // A-40
    #[test]
    fn round_robin_starts_at_partition_zero_and_survives_the_wrap() {
        assert_eq!((0..4).map(|turn| Crc32.keyless(turn, n(3))).collect::<Vec<_>>(), [0, 1, 2, 0]);
        assert!(Crc32.keyless(u64::MAX, n(3)) < 3);
    }
}
