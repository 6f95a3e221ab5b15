//! Many values at once: gathered and routed first, then one claim for each partition's share.
//!
//! Gathering runs the user's code (the source, the extractor, the partitioner) and claims nothing; a panic there stores
//! nothing. It stops at the first share that no partition could ever hold, so an endless source is no endless buffer.
#![forbid(unsafe_code)]

use super::error::{BatchError, PublishError, Share};
use crate::ring::push_from;

/// A batch by partition, each share in the order of the source.
pub(crate) type Shares<T> = Vec<Vec<T>>;

/// Why gathering gave up; `shares` holds what was taken from the source until then, the culprit included.
pub(crate) enum Spoilt<T> {
    /// One share is larger than a partition.
    TooLarge {
        /// Everything taken.
        rest: Vec<T>,
        /// Whose share it is.
        partition: u32,
        /// Its length.
        len: usize,
    },
    /// A partitioner named a partition that does not exist.
    NoSuchPartition {
        /// Everything taken.
        rest: Vec<T>,
        /// What it named.
        partition: u32,
    },
}

/// The longest source that is read to its end for giving it back: values of no size need no memory, and would be counted for
/// ever.
const READ_ON_MOST: usize = u32::MAX as usize;

/// No shares yet.
pub(crate) fn shares<T>(partitions: u32) -> Shares<T> {
    let mut shares = Vec::new();
    shares.resize_with(partitions as usize, Vec::new);
    shares
}

/// Takes all of `source` apart by partition, behind what is in `shares`.
pub(crate) fn gather<T>(
    mut source: impl Iterator<Item = T>,
    mut shares: Shares<T>,
    capacity: usize,
    mut route: impl FnMut(&T) -> u32,
) -> Result<Shares<T>, Spoilt<T>> {
    let partitions = shares.len();
    // An even spread and some; a share that gets more grows, one that gets nothing allocates nothing.
    let known = source.size_hint().0;
    let likely = if partitions == 1 { known } else { known / partitions * 2 }.clamp(4, capacity.max(4));
    let mut next = source.next();
    while let Some(value) = &next {
        let partition = route(value);
        let Some(share) = shares.get_mut(partition as usize) else {
            let rest = everything(shares, next, source);
            return Err(Spoilt::NoSuchPartition { rest, partition });
        };
        if share.is_empty() {
            share.reserve(likely);
        }
        push_from(share, &mut next);
        let len = share.len();
        if len > capacity {
            let rest = everything(shares, None, source);
            return Err(Spoilt::TooLarge { rest, partition, len });
        }
        next = source.next();
    }
    Ok(shares)
}

/// What was gathered, and what a source of known size still holds; of one without a bound, or with one that no memory has
/// room for, no more is taken.
fn everything<T>(shares: Shares<T>, last: Option<T>, source: impl Iterator<Item = T>) -> Vec<T> {
    let mut rest: Vec<T> = shares.into_iter().flatten().chain(last).collect();
    if let (_, Some(most)) = source.size_hint() {
        if most <= READ_ON_MOST && rest.try_reserve(most).is_ok() {
            rest.extend(source.take(most));
        }
    }
    rest
}

/// What became of one share: where it stands, or all its values and why.
pub(crate) type Stored<T> = Result<Share, (Vec<T>, PublishError<()>)>;

/// Stores share after share, behind what is stored already; the first refusal ends it, and everything not stored comes
/// back.
pub(crate) fn store<T>(
    mut stored: Vec<Share>,
    shares: Shares<T>,
    mut append: impl FnMut(u32, Vec<T>) -> Stored<T>,
) -> Result<Vec<Share>, BatchError<T>> {
    let mut shares = (0..).zip(shares).filter(|(_, share)| !share.is_empty());
    while let Some((partition, share)) = shares.next() {
        match append(partition, share) {
            Ok(run) => stored.push(run),
            Err((mut rest, why)) => {
                rest.extend(shares.flat_map(|(_, share)| share));
                return Err(BatchError::Stopped { stored, rest, why });
            }
        }
    }
    Ok(stored)
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Spoilt, gather, shares, store};
    use crate::broker::error::{BatchError, PublishError, Share};

    #[test]
    fn shares_keep_the_order_of_the_source() {
        let gathered = gather(0..7, shares(3), 8, |n| n % 3).unwrap_or_else(|_| panic!("no limit is met"));
        assert_eq!(gathered, [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
    }

    #[test]
    fn an_endless_source_is_given_up_at_the_first_share_too_large() {
        match gather(0_u32.., shares(2), 3, |n| n % 2) {
            Err(Spoilt::TooLarge { rest, partition: 0, len: 4 }) => assert_eq!(rest.len(), 7),
            _ => panic!("three records are the bound"),
        }
    }

    #[test]
    fn a_source_of_known_size_comes_back_whole() {
        match gather([1; 10].into_iter(), shares(1), 3, |_| 0) {
            Err(Spoilt::TooLarge { rest, .. }) => assert_eq!(rest.len(), 10),
            _ => panic!("three records are the bound"),
        }
        match gather([1; 10].into_iter(), shares(1), 30, |_| 5) {
            Err(Spoilt::NoSuchPartition { rest, partition: 5 }) => assert_eq!(rest.len(), 10),
            _ => panic!("there is no partition 5"),
        }
    }

    #[test]
    fn the_first_refusal_keeps_what_is_stored_and_returns_the_rest() {
        let refused = store(Vec::new(), vec![vec![1, 2], vec![], vec![3], vec![4]], |partition, share| {
            if partition == 2 {
                return Err((share, PublishError::Closed { value: (), topic: "t".into() }));
            }
            Ok(Share { partition, offsets: 0..share.len() as u64, kept: true })
        });
        match refused {
            Err(BatchError::Stopped { stored, rest, .. }) => {
                assert_eq!(stored, [Share { partition: 0, offsets: 0..2, kept: true }]);
                assert_eq!(rest, [3, 4]);
            }
            other => panic!("{other:?}"),
        }
    }
}
