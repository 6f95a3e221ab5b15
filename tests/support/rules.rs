//! Every rule for a mailbox that is full; the first one loses nothing.

use ringlog::Overflow;

pub(crate) fn rules(most: usize) -> [Overflow<u64>; 5] {
    [
        Overflow::block(most),
        Overflow::drop_oldest(most),
        Overflow::drop_newest(most),
        Overflow::latest(),
        Overflow::latest_by(most, |value| value % 3),
    ]
}
