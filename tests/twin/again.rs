//! Letters that come back, and partitions that are dealt by a rule that may choose: what the twin makes of them.

use crate::model::Twin;
use crate::ops::{Act, BACKOFF_CAP};
use crate::parts::{Answer, Books, Call, Letter, Queued};
use std::collections::BTreeMap;

/// What a redrive does: letters queued, those without a record, those without room.
pub(crate) type Moved = (usize, usize, usize);

impl Twin {
    /// The oldest `most` letters go back to their lanes, as far as there is room.
    pub(crate) fn redrive(&mut self, name: u8, most: usize) -> Moved {
        let (clones, bound) = (self.setup.clones, self.setup.letters);
        let group = self.group(name);
        let picked: Vec<Letter> = group.letters.iter().take(most).cloned().collect();
        let mut moved = (0, 0, 0);
        for letter in picked {
            let lane = &mut group.lanes[letter.partition as usize];
            if !clones {
                moved.1 += 1;
            } else if lane.queue.len() == bound {
                moved.2 += 1;
            } else {
                let at = group.letters.iter().position(|kept| *kept == letter).expect("it was picked from there");
                let letter = group.letters.remove(at).expect("it is there");
                lane.books.replayed += 1;
                lane.queue.push_back(Queued { letter, failures: 0, due: None });
                moved.0 += 1;
            }
        }
        self.note_many("redriven", moved.0 as u64);
        self.note_many("no room to redrive", moved.2 as u64);
        moved
    }

    /// What is queued becomes letters again, each where it was; where there is no room the oldest of all goes.
    pub(crate) fn call_back(&mut self, name: u8) -> usize {
        let bound = self.setup.letters;
        let group = self.group(name);
        let mut count = 0;
        for lane in &mut group.lanes {
            let back: Vec<Letter> = lane.queue.drain(..).map(|queued| queued.letter).collect();
            count += back.len();
            lane.books.skipped += back.len() as u64;
            for letter in back {
                let at = group.letters.iter().take_while(|other| other.nth < letter.nth).count();
                group.letters.insert(at, letter);
            }
            while group.letters.len() > bound {
                group.letters.pop_front();
                group.letters_lost += 1;
            }
        }
        self.note_many("called back", count as u64);
        count
    }

    /// The oldest letters are taken out.
    pub(crate) fn take_letters(&mut self, name: u8, most: usize) -> Vec<Letter> {
        let letters = &mut self.group(name).letters;
        let most = most.min(letters.len());
        letters.drain(..most).collect()
    }

    /// What is queued, partition by partition.
    pub(crate) fn redriving(&self, name: u8) -> Vec<Letter> {
        let lanes = self.groups[&name].lanes.iter();
        lanes.flat_map(|lane| lane.queue.iter().map(|queued| queued.letter.clone())).collect()
    }

    /// A handler was given the letter at the head of its lane's queue: nothing else was due.
    pub(crate) fn called_again(&mut self, call: &Call) -> Result<(), String> {
        let (name, p) = (call.group, call.partition);
        let group = self.group(name);
        let head = group.lanes[p as usize].queue.front().expect("looked at by the caller").clone();
        let want = Call {
            member: group.owner(p).expect("looked at by the caller").clone(),
            offset: head.letter.offset,
            attempt: head.failures + 1,
            lost_before: 0,
            serials: vec![head.letter.serial],
            act: group.next_act(),
            redriven: true,
            ..call.clone()
        };
        if want != *call {
            return Err(format!("a handler saw {call:?}\n  but had to see the letter {want:?}"));
        }
        if let Some((serial, at, real)) = &call.published {
            let Act::Publish { key } = call.act else { return Err(format!("nobody told it to publish: {call:?}")) };
            let partition = self.route(key);
            let twin = self.publish(partition, &[*serial]);
            let both_full = matches!((real, &twin), (Answer::Full { .. }, Answer::Full { .. }));
            if at.unwrap_or(partition) != partition || *real != twin && !both_full {
                return Err(format!("a handler of a letter published: real {real:?}, twin {twin:?}"));
            }
            let books = self.groups[&name].lanes[p as usize].books(&self.logs[p as usize]);
            if call.inside != Some(books) {
                return Err(format!("the handler of a letter saw {:?}, the twin has {books:?}", call.inside));
            }
        }
        self.note("a letter handed over again");
        self.book_again(call, head)
    }

    fn book_again(&mut self, call: &Call, head: Queued) -> Result<(), String> {
        let (attempts, letters, backoff, now) = (self.setup.attempts, self.setup.letters, self.setup.backoff, self.now);
        let group = self.group(call.group);
        let lane = &mut group.lanes[call.partition as usize];
        let failures = head.failures + 1;
        let kind = match call.act {
            Act::Ack | Act::Publish { .. } => {
                lane.books.acked += 1;
                lane.queue.pop_front();
                return Ok(());
            }
            Act::Reject => "reject",
            Act::Panic => "panic",
            Act::Fail | Act::FailAt(_) | Act::RetryAfter(_) => "error",
        };
        if failures == attempts || call.act == Act::Reject {
            lane.books.dead += 1;
            lane.queue.pop_front();
            let new = Letter { attempts: failures, kind, ..head.letter };
            if group.bury(new, letters) {
                self.note("a letter lost");
            }
            self.note("buried again");
            return Ok(());
        }
        lane.books.retried += 1;
        let wait = match call.act {
            Act::RetryAfter(millis) => millis,
            _ => (backoff << (failures - 1)).min(BACKOFF_CAP),
        };
        let head = lane.queue.front_mut().expect("it stays the head");
        (head.failures, head.due) = (failures, Some(now + wait));
        Ok(())
    }

    /// Members changed, and the broker dealt: as few partitions as possible may have moved, and nobody has two more than
    /// another.
    pub(crate) fn dealt(&mut self, name: u8, now: &BTreeMap<String, Vec<u32>>) -> Result<(), String> {
        if !self.setup.sticky {
            return Ok(());
        }
        let partitions = self.setup.partitions;
        let group = self.group(name);
        let known = |member: &&String| group.members.contains(*member);
        let before: Vec<Option<String>> =
            group.owners.iter().map(|owner| owner.as_ref().filter(known).cloned()).collect();
        let owner = |p: u32| now.iter().find(|(_, own)| own.contains(&p)).map(|(member, _)| member.clone());
        group.owners = (0..partitions).map(owner).collect();
        let n = group.members.len();
        if n == 0 {
            return Ok(());
        }
        let counts: Vec<usize> = now.values().map(Vec::len).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        let all: usize = counts.iter().sum();
        if counts.len() != n
            || all != partitions as usize
            || most.zip(least).is_some_and(|(most, least)| most - least > 1)
        {
            return Err(format!("not dealt evenly: {now:?}"));
        }
        let moved = before.iter().zip(&group.owners).filter(|(before, after)| before != after).count();
        let fewest = fewest_moves(&before, &group.members);
        if moved != fewest {
            return Err(format!("{moved} partitions moved, and {fewest} had to: from {before:?} to {now:?}"));
        }
        self.note("dealt by the sticky rule");
        Ok(())
    }

    /// Of a leaving member: how many records its lanes have still to do.
    pub(crate) fn left_of(&self, name: u8, member: &str) -> u64 {
        let group = &self.groups[&name];
        let own = (0..self.setup.partitions).filter(|p| group.owner(*p).is_some_and(|owner| owner == member));
        own.map(|p| group.lanes[p as usize].books(&self.logs[p as usize])).map(|Books { pending, .. }| pending).sum()
    }
}

/// What is nobody's has to move, and what somebody has beyond an even share. What does not divide evenly stays, if it can,
/// with who has it.
fn fewest_moves(before: &[Option<String>], members: &[String]) -> usize {
    let (all, n) = (before.len(), members.len());
    let has = |member: &String| before.iter().flatten().filter(|owner| *owner == member).count();
    let beyond = members.iter().map(has).map(|has| has.saturating_sub(all / n));
    let stay = beyond.clone().filter(|beyond| *beyond > 0).count().min(all % n);
    before.iter().filter(|owner| owner.is_none()).count() + beyond.sum::<usize>() - stay
}
