//! Giving up, in a consumer's hands: records whose attempts are used up.
#![forbid(unsafe_code)]

use super::Group;
use super::flight::Cursor;
use super::lane::Lane;
use super::letters::{Letter, Origin};
use super::outcome::Failure;
use super::pull::News;
use super::record::{Batch, Lent};
use crate::log::Read;
use crate::ring::Fenced;
use crate::seq::Seq;
use crate::sync::lock;

impl<T: Send + Sync + 'static> Group<T> {
    /// Gives up the records at the cursor whose attempts are used up, one after the other: the letter is written under no
    /// lock, and filed in one step with the commit.
    #[cold]
    pub(super) fn bury_spent(&self, lane: &Lane<T>, in_hand: Option<&Batch<'_, T>>) {
        let _here = self.enter_for(lane);
        loop {
            let (taken, at) = {
                let mut flight = lock(&lane.flight);
                let at = lane.cursor();
                (if flight.epoch() == at.epoch { flight.take_spent(at) } else { None }, at)
            };
            let Some((cause, attempts)) = taken else { break };
            let letter = self.write_letter(lane, at.committed, attempts, cause.into_failure(), in_hand);
            let (out, news) = self.file_spent(lane, at, letter);
            let more = news.spent;
            self.pass_on(lane, &news);
            self.follow_up(lane, News { spent: false, ..news }, None);
            self.tell_of(lane, &(at.committed..at.committed.plus(1)));
            self.lose(out);
            if !more {
                break;
            }
        }
    }

    /// `None`: it cannot be read any more; who reads on finds out why.
    fn write_letter(
        &self,
        lane: &Lane<T>,
        at: Seq,
        attempts: u32,
        failure: Failure,
        in_hand: Option<&Batch<'_, T>>,
    ) -> Option<Letter> {
        let origin = |published_at| Origin {
            topic: self.topic.clone(),
            group: self.name.clone(),
            partition: lane.partition,
            offset: at.get(),
            attempts,
            failed_at: self.clock.now(),
            published_at,
        };
        let index = |batch: &&Batch<'_, T>| at.get().checked_sub(batch.offset()).map(|index| index as usize);
        if let Some((batch, index)) = in_hand.and_then(|batch| Some((batch, index(&batch)?))) {
            if index < batch.len() {
                let origin = origin(batch.get(index).published_at());
                return Some(Letter::write(origin, batch.value(index), failure, &self.config.bury));
            }
        }
        let mut reader = lane.log.reader(at).covered_by(lane.gate.clone());
        let Read::Ready(run) = lane.log.read(&mut reader, 1) else { return None };
        let batch = Batch { lent: Lent::Run(run), home: &self.home, partition: lane.partition, attempt: 1, lost: 0 };
        Some(Letter::write(origin(batch.get(0).published_at()), batch.value(0), failure, &self.config.bury))
    }

    /// Files the letter with the commit, if nobody has moved the cursor meanwhile; says what went for want of room.
    fn file_spent(&self, lane: &Lane<T>, at: Cursor, letter: Option<Letter>) -> (Option<Letter>, News) {
        let (mut news, to) = (News { again: true, ..News::default() }, at.committed.plus(1));
        let _outlives_the_lock = letter.clone();
        let mut flight = lock(&lane.flight);
        flight.busy = false;
        let mut out = None;
        if let Some(letter) = letter {
            lane.counters.dead.add(1);
            match self.letters.file(letter, || lane.gate.commit(at.epoch, at.committed, to)) {
                Ok(lost) => {
                    out = lost;
                    news.room = true;
                    news.unused = flight.buried(to);
                }
                Err(Fenced { .. }) => lane.counters.dead.take_back(1),
            }
        } else if lane.cursor() == at {
            flight.forget(at.committed);
        }
        lane.tidy(&mut flight, &mut news);
        (out, news)
    }
}
