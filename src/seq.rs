//! Arithmetic of positions: offsets, capacities, the geometry of pages, and offsets packed with a stamp.
//!
//! Every operation is total: nothing here panics, whatever the numbers. Offsets are counted modulo 2^64 (584 years at
//! a record a nanosecond), packed offsets modulo 2^40; a packed one is widened against a position known to be near.
#![forbid(unsafe_code)]

use std::fmt;

/// The position of a record in its partition, which is its offset, for ever.
///
/// `Ord` is the order of the plain numbers; [`Seq::precedes`] is the order along the log, which goes on through the
/// wrap at 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(u64);

impl Seq {
    /// The first offset of a log.
    pub const ZERO: Self = Self(0);

    /// The position with this offset.
    #[inline(always)]
    pub const fn new(offset: u64) -> Self {
        Self(offset)
    }

    /// The offset.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `n` records later.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// `n` records earlier.
    #[inline(always)]
    #[must_use]
    pub const fn minus(self, n: u64) -> Self {
        Self(self.0.wrapping_sub(n))
    }

    /// How many records lie in `earlier..self`, when `earlier` is not later than `self`.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }

    /// How many records lie in `earlier..self`; nothing when `earlier` is the later one.
    #[inline(always)]
    pub const fn lag_behind(self, earlier: Self) -> u64 {
        if earlier.precedes(self) { self.since(earlier) } else { 0 }
    }

    /// True when `self` comes before `other` on the log (the shorter way round).
    #[inline(always)]
    pub const fn precedes(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i64) < 0
    }

    /// The later of two along the log.
    #[inline(always)]
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.precedes(other) { other } else { self }
    }

    /// The earlier of two along the log.
    #[inline(always)]
    #[must_use]
    pub const fn earlier(self, other: Self) -> Self {
        if self.precedes(other) { self } else { other }
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many records a partition holds: 1 to 2^30, exactly as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capacity(u32);

impl Capacity {
    /// The largest capacity.
    pub const MAX: Self = Self(1 << 30);

    /// A capacity of `records`, or nothing when it is 0 or more than 2^30.
    pub const fn new(records: usize) -> Option<Self> {
        if records == 0 || records > Self::MAX.0 as usize { None } else { Some(Self(records as u32)) }
    }

    /// The number of records.
    #[inline(always)]
    pub const fn get(self) -> u64 {
        self.0 as u64
    }

    /// How far past the tail producers may be promised room: an eighth of the capacity, at least one record.
    #[inline(always)]
    pub const fn eighth(self) -> u64 {
        let eighth = self.get() / 8;
        if eighth == 0 { 1 } else { eighth }
    }
}

/// How a capacity is laid out in pages: storage is slack, so that capacity can be exact.
///
/// S slots a page, S a power of two; N pages mapped at a time, with (N - 1) * S >= capacity, so that whatever the
/// capacity rule still protects lies on a page that is still mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    capacity: Capacity,
    shift: u32,
    pages: u32,
    /// One less than the slots of a page.
    mask: u64,
}

impl Geometry {
    /// The layout of `capacity`.
    pub const fn new(capacity: Capacity) -> Self {
        let records = capacity.get();
        let floor = if records < 128 { records } else { 128 };
        let wanted = if records / 8 > floor { records / 8 } else { floor };
        let slots = wanted.next_power_of_two();
        Self { capacity, shift: slots.trailing_zeros(), mask: slots - 1, pages: records.div_ceil(slots) as u32 + 1 }
    }

    /// The capacity.
    #[inline(always)]
    pub const fn capacity(self) -> Capacity {
        self.capacity
    }

    /// S: slots on a page.
    #[inline(always)]
    pub const fn slots(self) -> usize {
        1 << self.shift
    }

    /// N: pages mapped at a time.
    #[inline(always)]
    pub const fn pages(self) -> usize {
        self.pages as usize
    }

    /// The number of the page that holds the `nth` record of the log.
    #[inline(always)]
    pub const fn page(self, nth: u64) -> u64 {
        nth >> self.shift
    }

    /// The first record that lies on a page that is still mapped once page `page` is.
    pub const fn first_mapped(self, page: u64) -> u64 {
        (page + 1).saturating_sub(self.pages as u64) << self.shift
    }

    /// The first position on page `page`.
    #[inline(always)]
    pub const fn page_start(self, page: u64) -> u64 {
        page << self.shift
    }

    /// One past the last position on the page of the `nth` record.
    #[inline(always)]
    pub const fn page_end(self, nth: u64) -> u64 {
        (nth | self.mask).wrapping_add(1)
    }

    /// The slot of the `nth` record on its page.
    #[inline(always)]
    pub const fn slot(self, nth: u64) -> usize {
        (nth & self.mask) as usize
    }

    /// The pieces of `count` records from the `nth` on, cut at page borders: page number, first slot, length.
    pub fn parts(self, nth: u64, count: u64) -> impl Iterator<Item = (u64, usize, usize)> {
        let (mut at, mut left) = (nth, count);
        std::iter::from_fn(move || {
            let (page, slot) = (self.page(at), self.slot(at));
            let len = left.min((self.slots() - slot) as u64);
            (at, left) = (at.wrapping_add(len), left - len);
            (len > 0).then_some((page, slot, len as usize))
        })
    }
}

/// A position modulo 2^40 with a 24-bit stamp, in one word, so that one compare-and-swap covers both.
///
/// ```text
///   63        40 39                          0
///   ┌───────────┬─────────────────────────────┐
///   │   stamp   │      offset mod 2^40        │
///   └───────────┴─────────────────────────────┘
/// ```
///
/// The stamp lies on top, so that adding [`Stamped::ONE_STAMP`] to the word wraps off the end and never touches the
/// offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped(u64);

impl Stamped {
    const BITS: u32 = 40;
    const MASK: u64 = (1 << Self::BITS) - 1;
    /// What to add to the word to add one to the stamp.
    pub const ONE_STAMP: u64 = 1 << Self::BITS;
    /// How many stamps there are before they come round.
    pub const STAMPS: u32 = 1 << (64 - Self::BITS);

    /// `position` with `stamp` (modulo 2^24).
    #[inline(always)]
    pub const fn new(position: Seq, stamp: u32) -> Self {
        Self((position.get() & Self::MASK) | ((stamp as u64) << Self::BITS))
    }

    /// The word as it is stored.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The value of a stored word.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The stamp.
    #[inline(always)]
    pub const fn stamp(self) -> u32 {
        (self.0 >> Self::BITS) as u32
    }

    /// The same stamp at another position.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, position: Seq) -> Self {
        Self((position.get() & Self::MASK) | (self.0 & !Self::MASK))
    }

    /// The next stamp at the same position.
    #[inline(always)]
    #[must_use]
    pub const fn bumped(self) -> Self {
        Self(self.0.wrapping_add(Self::ONE_STAMP))
    }

    /// The position, which must lie within 2^39 of `near`.
    #[inline(always)]
    pub const fn widen(self, near: Seq) -> Seq {
        let apart = self.0.wrapping_sub(near.get()) << (64 - Self::BITS);
        near.plus(((apart as i64) >> (64 - Self::BITS)) as u64)
    }

    /// How far the position lies ahead of `from`, modulo 2^40. What lies behind comes out huge.
    #[inline(always)]
    pub const fn ahead_of(self, from: Seq) -> u64 {
        self.0.wrapping_sub(from.get()) & Self::MASK
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Capacity, Geometry, Seq, Stamped};

    #[test]
    fn order_along_the_log_goes_on_through_the_wrap() {
        let last = Seq::new(u64::MAX);
        assert!(last.precedes(last.plus(1)) && !last.plus(1).precedes(last));
        assert_eq!(last.plus(3).since(last), 3);
        assert_eq!(last.lag_behind(last.plus(3)), 0);
        assert_eq!(last.plus(3).lag_behind(last), 3);
        assert_eq!(last.later(last.plus(1)), Seq::ZERO);
        assert_eq!(last.earlier(last.plus(1)), last);
        assert_eq!(Seq::ZERO.minus(1), last);
        assert!(!last.precedes(last));
    }

    #[test]
    fn capacities_outside_1_to_2_pow_30_are_refused() {
        assert!(
            Capacity::new(0).is_none() && Capacity::new((1 << 30) + 1).is_none() && Capacity::new(usize::MAX).is_none()
        );
        assert_eq!(Capacity::new(1 << 30), Some(Capacity::MAX));
    }

    #[test]
    fn every_small_capacity_is_covered_by_one_page_less_than_mapped() {
        let large = [1usize << 14, 65_535, 65_536, 65_537, (1 << 30) - 1, 1 << 30];
        for records in (1..if cfg!(miri) { 200 } else { 5_000 }).chain(large) {
            let geometry = Geometry::new(Capacity::new(records).unwrap());
            let (slots, pages) = (geometry.slots(), geometry.pages());
            assert!(slots.is_power_of_two() && (pages - 1) * slots >= records, "{records}: {pages} x {slots}");
            assert!((2..=10).contains(&pages), "{records}: {pages}");
            assert!((pages - 2) * slots < records, "{records}: a page too many");
            assert_eq!(geometry.capacity().eighth(), (records as u64 / 8).max(1));
        }
    }

    #[test]
    fn page_and_slot_name_every_record_once() {
        let geometry = Geometry::new(Capacity::new(300).unwrap());
        for nth in 0..if cfg!(miri) { 600 } else { 5_000 } {
            let back = geometry.page(nth) * geometry.slots() as u64 + geometry.slot(nth) as u64;
            assert_eq!(back, nth);
        }
        assert_eq!(geometry.slot(u64::MAX), geometry.slots() - 1);
    }

    #[test]
    fn a_range_is_cut_at_page_borders_and_nowhere_else() {
        for records in (1..40).step_by(if cfg!(miri) { 19 } else { 1 }) {
            let geometry = Geometry::new(Capacity::new(records).unwrap());
            for (nth, count) in
                (0..if cfg!(miri) { 9 } else { 50 }).flat_map(|nth| (0..=records as u64).map(move |count| (nth, count)))
            {
                let mut at = nth;
                for (page, slot, len) in geometry.parts(nth, count) {
                    assert_eq!((page, slot), (geometry.page(at), geometry.slot(at)));
                    assert!(slot + len <= geometry.slots() && len > 0);
                    at += len as u64;
                }
                assert_eq!(at, nth + count);
                assert!(geometry.parts(nth, count).count() <= geometry.pages());
            }
        }
    }

    #[test]
    fn a_stamped_position_widens_exactly_within_half_its_range() {
        let nears = [0, 1, 7, (1 << 39) - 1, 1 << 39, (1 << 40) - 3, 1 << 40, (1 << 41) + 5, u64::MAX - 2, u64::MAX];
        let apart = [0i64, 1, -1, 5, -5, (1 << 39) - 1, -(1 << 39)];
        for near in nears.map(Seq::new) {
            for d in apart {
                let position = Seq::new(near.get().wrapping_add(d as u64));
                for stamp in [0, 1, 0xff_ffff] {
                    let packed = Stamped::new(position, stamp);
                    assert_eq!(packed.widen(near), position, "{near} {d}");
                    assert_eq!(packed.stamp(), stamp);
                    assert_eq!(Stamped::from_word(packed.word()), packed);
                }
            }
        }
    }

    #[test]
    fn the_stamp_wraps_without_touching_the_offset() {
        let packed = Stamped::new(Seq::new((1 << 40) - 1), Stamped::STAMPS - 1);
        assert_eq!(packed.bumped(), Stamped::new(Seq::new((1 << 40) - 1), 0));
        assert_eq!(packed.word().wrapping_add(Stamped::ONE_STAMP), packed.bumped().word());
        assert_eq!(packed.at(Seq::new(1 << 40)), Stamped::new(Seq::ZERO, Stamped::STAMPS - 1));
        assert_eq!(Stamped::new(Seq::ZERO, Stamped::STAMPS).stamp(), 0);
    }

    #[test]
    fn what_lies_behind_comes_out_huge() {
        let packed = Stamped::new(Seq::new(10), 3);
        assert_eq!(packed.ahead_of(Seq::new(4)), 6);
        assert_eq!(packed.ahead_of(Seq::new(11)), (1 << 40) - 1);
        assert_eq!(Stamped::new(Seq::new(1), 0).ahead_of(Seq::new(u64::MAX)), 2);
    }
}
