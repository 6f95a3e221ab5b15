//! Who keeps memory from being used again.
#![forbid(unsafe_code)]

use crate::ring::Body;
use crate::seq::Seq;

/// A page that was set aside, and one of those who keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The first offset that lies on it.
    pub from: Seq,
    /// One past the last.
    pub to: Seq,
    /// Who keeps it.
    pub by: Keeper,
}

/// Who keeps a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// A reader that looks at it, by what its owner called it.
    Reader(Option<u64>),
    /// A publish that has claimed this offset and is not done: the first of the page, if there are several.
    Claim(Seq),
}

impl<T: Send + Sync + 'static> Body<T> {
    /// Which pages are set aside that somebody keeps, and who. A page that waits only for somebody to look whether it is
    /// needed is not among them. Whoever is at work meanwhile may have gone on by the time you read this.
    pub fn why_stalled(&self) -> Vec<Kept> {
        let mut all = Vec::new();
        for page in self.pages.kept_aside(&self.holds) {
            let first = self.geometry.page_start(page.number);
            let (from, to) = (self.tail.seq(first), self.tail.seq(first + self.geometry.slots() as u64));
            let claim = page.unfinished.map(|slot| Keeper::Claim(self.tail.seq(first + slot as u64)));
            all.extend(page.readers.into_iter().map(Keeper::Reader).chain(claim).map(|by| Kept { from, to, by }));
        }
        all.sort_by_key(|kept| self.tail.nth(kept.from));
        all
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Keeper, Kept};
    use crate::ring::{Options, Peek, Producers, Ring};
    use crate::seq::{Capacity, Seq};

    fn ring(producers: Producers) -> Ring<u64> {
        let options = Options { lossy: true, ..Options::new(Capacity::new(2).unwrap(), producers) };
        let ring = Ring::new(options).unwrap();
        ring.share();
        ring
    }

    fn kept(from: u64, by: Keeper) -> Kept {
        Kept { from: Seq::new(from), to: Seq::new(from + 2), by }
    }

    #[test]
    fn a_reader_that_sits_on_a_page_is_named_until_it_goes_on() {
        let ring = ring(Producers::Exclusive);
        let mut pen = ring.exclusive().unwrap();
        (0..2).for_each(|n| _ = pen.try_push(n).unwrap());
        let (mut named, mut nameless) = (ring.reader_of(Seq::ZERO, 7), ring.reader(Seq::new(1)));
        assert!(matches!(named.peek(1), Peek::Ready(_)) && matches!(nameless.peek(1), Peek::Ready(_)));
        assert_eq!(ring.why_stalled(), [], "nothing is set aside");
        (2..20).for_each(|n| _ = pen.try_push(n).unwrap());
        let both = [kept(0, Keeper::Reader(Some(7))), kept(0, Keeper::Reader(None))];
        assert_eq!(ring.why_stalled(), both);
        named.release();
        assert_eq!(ring.why_stalled(), both[1..]);
        drop(nameless);
        assert_eq!(ring.why_stalled(), [], "what is set aside waits for nobody");
    }

    #[test]
    fn a_claim_that_is_not_finished_is_named() {
        let ring = ring(Producers::Shared);
        (0..5).for_each(|n| _ = ring.try_push(n).unwrap());
        // A publish that goes no further: its page is there, as the last record lies on it too or the next finds it.
        assert!(matches!(ring.find(2), Ok(Some(_))));
        assert!(ring.tail.claim(5, 1), "nobody else publishes");
        (6..20).for_each(|n| _ = ring.try_push(n).unwrap());
        assert_eq!(ring.why_stalled(), [kept(4, Keeper::Claim(Seq::new(5)))]);
    }
}
