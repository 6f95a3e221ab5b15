//! Dead letters: what a group could not process, with the reason, in a bounded store.
#![forbid(unsafe_code)]

use super::contain::{contain, drop_contained};
use super::outcome::Failure;
use crate::sync::{Arc, Mutex, lock};
use crate::time::Time;
use std::any::Any;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::OnceLock;

/// What a letter keeps of its record.
pub(super) type MakePayload<T> = Arc<dyn Fn(&T, &Failure) -> Option<Arc<dyn Any + Send + Sync>> + Send + Sync>;

/// How a group buries.
pub(super) enum Bury<T> {
    /// Where it was and why it failed.
    Facts,
    /// And a clone of the record.
    Cloned(MakePayload<T>),
    /// And what a function makes of it.
    With(MakePayload<T>),
}

impl<T> Bury<T> {
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Bury::Facts, Bury::Facts) | (Bury::Cloned(_), Bury::Cloned(_)) => true,
            (Bury::With(one), Bury::With(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    fn payload(&self, value: &T, failure: &Failure) -> Option<Arc<dyn Any + Send + Sync>> {
        match self {
            Bury::Facts => None,
            Bury::Cloned(make) | Bury::With(make) => contain(|| make(value, failure)).ok().flatten(),
        }
    }
}

impl<T> Clone for Bury<T> {
    fn clone(&self) -> Self {
        match self {
            Bury::Facts => Bury::Facts,
            Bury::Cloned(make) => Bury::Cloned(make.clone()),
            Bury::With(make) => Bury::With(make.clone()),
        }
    }
}

impl<T> fmt::Debug for Bury<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bury::Facts => "facts",
            Bury::Cloned(_) => "cloned",
            Bury::With(_) => "with a function",
        })
    }
}

/// A record that was given up. Cheap to clone.
#[derive(Clone)]
pub struct Letter(Arc<Facts>);

struct Facts {
    /// Where it stands among all that its store was ever given; unset until it is filed.
    nth: OnceLock<u64>,
    topic: Arc<str>,
    group: Arc<str>,
    partition: u32,
    offset: u64,
    attempts: u32,
    failure: Failure,
    message: String,
    failed_at: Time,
    published_at: Option<Time>,
    payload: Option<Arc<dyn Any + Send + Sync>>,
}

impl Drop for Facts {
    fn drop(&mut self) {
        if let Some(payload) = self.payload.take() {
            drop_contained(payload);
        }
    }
}

/// Where a record lies and how often it was tried, for a letter about it.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) topic: Arc<str>,
    pub(super) group: Arc<str>,
    pub(super) partition: u32,
    pub(super) offset: u64,
    pub(super) attempts: u32,
    pub(super) failed_at: Time,
    pub(super) published_at: Option<Time>,
}

impl Letter {
    /// Writes the letter: runs the burying function and formats the error, both contained. Under no lock.
    pub(super) fn write<T>(origin: Origin, value: &T, failure: Failure, bury: &Bury<T>) -> Self {
        let payload = bury.payload(value, &failure);
        let message = failure.message();
        let Origin { topic, group, partition, offset, attempts, failed_at, published_at } = origin;
        let facts = Facts {
            nth: OnceLock::new(),
            topic,
            group,
            partition,
            offset,
            attempts,
            failure,
            message,
            failed_at,
            published_at,
            payload,
        };
        Letter(Arc::new(facts))
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.0.topic
    }

    /// The group that gave up.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// The partition.
    pub fn partition(&self) -> u32 {
        self.0.partition
    }

    /// The record's offset.
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// How often it was delivered.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// The last failure, with the error object.
    pub fn failure(&self) -> &Failure {
        &self.0.failure
    }

    /// The kind of the last failure: its error's name, the kind that the handler gave, or `"panic"`.
    pub fn kind(&self) -> &str {
        self.0.failure.kind()
    }

    /// The text of the last failure.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// When it was given up, on the broker's clock.
    pub fn failed_at(&self) -> Time {
        self.0.failed_at
    }

    /// When the record was published, on topics that [keep that](crate::TopicConfig::timestamps).
    pub fn published_at(&self) -> Option<Time> {
        self.0.published_at
    }

    /// The record, if the letter keeps it as a `D`, to be shared.
    pub(super) fn record<D: Send + Sync + 'static>(&self) -> Option<Arc<D>> {
        self.0.payload.clone()?.downcast().ok()
    }

    pub(super) fn is(&self, other: &Letter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The clone of the record (`bury_cloned`), or what the burying function made of it, if it is a `D`.
    pub fn payload<D: 'static>(&self) -> Option<&D> {
        self.0.payload.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { topic, group, partition, offset, attempts, message, .. } = &*self.0;
        let kind = self.kind();
        let times = if *attempts == 1 { "attempt" } else { "attempts" };
        write!(f, "{topic}/{partition}@{offset} given up by {group} after {attempts} {times}: {kind}: {message}")
    }
}

/// The bounded store of one group. The lock covers a push or a copy of pointers, never user code.
#[derive(Debug)]
pub(super) struct Letters {
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// In the order in which they were filed.
    letters: VecDeque<Letter>,
    filed: u64,
    lost: u64,
}

impl Kept {
    fn push(&mut self, letter: Letter, capacity: usize) -> Option<Letter> {
        self.filed += 1;
        letter.0.nth.get_or_init(|| self.filed);
        self.letters.push_back(letter);
        let full = self.letters.len() > capacity;
        self.lost += u64::from(full);
        if full { self.letters.pop_front() } else { None }
    }
}

impl Letters {
    pub(super) fn new(capacity: usize) -> Self {
        Letters { capacity, kept: Mutex::new(Kept::default()) }
    }

    /// Adds a letter. The oldest goes when there is no room: it is counted, and returned to be told of and dropped where no
    /// lock is held, for its payload is user code's.
    #[must_use = "to be told of, under no lock"]
    pub(super) fn add(&self, letter: Letter) -> Option<Letter> {
        lock(&self.kept).push(letter, self.capacity)
    }

    /// Adds a letter if `commit` is stored, which is tried under the lock: who sees the commit finds the letter, and nobody
    /// finds one without it.
    pub(super) fn file<E>(&self, letter: Letter, commit: impl FnOnce() -> Result<(), E>) -> Result<Option<Letter>, E> {
        let mut unfiled = Some(letter); // dropped after the lock
        let mut kept = lock(&self.kept);
        commit()?;
        Ok(unfiled.take().and_then(|letter| kept.push(letter, self.capacity)))
    }

    /// Takes out the first `most` of those `picked` that are still here; and says how many of them stay for that.
    pub(super) fn take(&self, picked: &[Letter], most: usize) -> (Vec<Letter>, usize) {
        let wanted: HashSet<*const Facts> = picked.iter().map(|letter| Arc::as_ptr(&letter.0)).collect();
        let (mut taken, mut more) = (Vec::with_capacity(most.min(picked.len())), 0);
        let mut kept = lock(&self.kept);
        kept.letters.retain(|letter| {
            let is_wanted = wanted.contains(&Arc::as_ptr(&letter.0));
            let goes = is_wanted && taken.len() < most;
            more += usize::from(is_wanted && !goes);
            if goes {
                taken.push(letter.clone()); // which is why nothing is dropped under the lock
            }
            !goes
        });
        (taken, more)
    }

    /// Takes one letter out; false if it is not here.
    pub(super) fn take_one(&self, letter: &Letter) -> bool {
        let mut kept = lock(&self.kept);
        let at = kept.letters.iter().position(|there| there.is(letter));
        at.and_then(|at| kept.letters.remove(at)).is_some()
    }

    /// Puts letters back that were taken out, each where it was, so that it is the same whoever comes first. The oldest of all
    /// go, as in [`add`](Self::add), when there is no room.
    #[must_use = "to be told of, under no lock"]
    pub(super) fn restore(&self, letters: Vec<Letter>) -> Vec<Letter> {
        let mut kept = lock(&self.kept);
        let mut all: Vec<Letter> = letters.into_iter().chain(kept.letters.drain(..)).collect();
        all.sort_by_key(|letter| letter.0.nth.get().copied());
        let stay = all.split_off(all.len().saturating_sub(self.capacity));
        kept.letters = stay.into();
        kept.lost += all.len() as u64;
        all
    }

    /// Copies of all letters, oldest first.
    pub(super) fn all(&self) -> Vec<Letter> {
        lock(&self.kept).letters.iter().cloned().collect()
    }

    /// How many letters there are.
    pub(super) fn len(&self) -> usize {
        lock(&self.kept).letters.len()
    }

    /// How many letters went because there was no room.
    pub(super) fn lost(&self) -> u64 {
        lock(&self.kept).lost
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Bury, Letter, Letters, Origin};
    use crate::group::{Failure, GroupConfig};
    use crate::time::Time;

    fn origin(offset: u64) -> Origin {
        let (topic, group, failed_at) = ("orders".into(), "ledger".into(), Time::default());
        Origin { topic, group, partition: 2, offset, attempts: 3, failed_at, published_at: None }
    }

    fn letter(offset: u64) -> Letter {
        Letter::write(origin(offset), &(), Failure::of_kind("Bad", "cannot"), &Bury::Facts)
    }

    //
    #[test]
    fn a_letter_says_where_who_how_often_and_why() {
        let text = letter(7).to_string();
        assert_eq!(text, "orders/2@7 given up by ledger after 3 attempts: Bad: cannot");
    }

    // C-18
    #[test]
    fn the_store_is_bounded_and_the_oldest_letter_goes_and_is_counted() {
        let letters = Letters::new(2);
        (0..5).for_each(|offset| drop(letters.add(letter(offset))));
        assert_eq!(letters.all().iter().map(Letter::offset).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(letters.lost(), 3);
        let none = Letters::new(0);
        assert_eq!(none.add(letter(0)).map(|out| out.offset()), Some(0));
        assert_eq!((none.all().len(), none.lost()), (0, 1));
    }

    fn offsets(letters: &Letters) -> Vec<u64> {
        letters.all().iter().map(Letter::offset).collect()
    }

    #[test]
    fn a_letter_whose_commit_is_refused_is_not_filed_and_costs_no_other() {
        let letters = Letters::new(1);
        assert!(letters.file::<()>(letter(0), || Ok(())).unwrap().is_none());
        assert!(letters.file(letter(1), || Err("refused")).is_err());
        assert_eq!((offsets(&letters), letters.lost()), (vec![0], 0));
        assert_eq!(letters.file::<()>(letter(2), || Ok(())).unwrap().unwrap().offset(), 0);
    }

    #[test]
    fn what_is_taken_out_comes_back_where_it_was_and_the_oldest_go_when_there_is_no_room() {
        let letters = Letters::new(4);
        (0..4).for_each(|offset| drop(letters.add(letter(offset))));
        let picked: Vec<Letter> = letters.all().into_iter().filter(|letter| letter.offset() != 1).collect();
        let (taken, more) = letters.take(&picked, 2);
        assert_eq!((taken.iter().map(Letter::offset).collect::<Vec<_>>(), more), (vec![0, 2], 1));
        assert_eq!(offsets(&letters), [1, 3]);
        drop(letters.add(letter(4)));
        let [zero, two] = <[Letter; 2]>::try_from(taken).unwrap();
        assert!(letters.restore(vec![two]).is_empty());
        assert_eq!(offsets(&letters), [1, 2, 3, 4]);
        let out = letters.restore(vec![zero]);
        assert_eq!((out[0].offset(), out.len(), letters.lost()), (0, 1, 1));
        assert_eq!(offsets(&letters), [1, 2, 3, 4]);
    }

    struct Rude;
    impl Clone for Rude {
        fn clone(&self) -> Self {
            panic!("not to be copied")
        }
    }
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor")
        }
    }

    #[test]
    fn panics_of_the_burying_function_and_of_the_payload_are_contained() {
        let cloned = Letter::write(origin(0), &Rude, Failure::new("x"), &GroupConfig::earliest().bury_cloned().bury);
        assert!(cloned.payload::<Rude>().is_none());
        let with = GroupConfig::<u8>::earliest().bury_with(|_, _| Bomb);
        let letters = Letters::new(1);
        assert!(letters.add(Letter::write(origin(0), &1, Failure::new("x"), &with.bury)).is_none());
        assert!(letters.all()[0].payload::<Bomb>().is_some());
        drop(letters.add(letter(1)));
        assert_eq!(letters.lost(), 1);
    }
}
