//! Applies each operation to the broker and to the twin, and compares all that can be seen.

use crate::model::{Census, Twin};
use crate::ops::{Act, Op, Setup, To};
use crate::parts::{Answer, Seen, Stored};
use crate::real::Real;
use ringlog::{Manual, Pick};

/// Steps after which a broker that is still busy is said to run in circles.
const SETTLED: usize = 100_000;

pub(crate) struct Case {
    real: Real,
    twin: Twin,
}

type Checked = Result<(), String>;

macro_rules! same {
    ($real:expr, $twin:expr, $($what:tt)+) => {
        match ($real, $twin) {
            (real, twin) if real == twin => {}
            (real, twin) => return Err(format!("{}: real {real:?}, twin {twin:?}", format!($($what)+))),
        }
    };
}

/// Runs one case from raw bytes; panics with the operations when the two disagree.
pub(crate) fn run(setup: [u8; 8], ops: &[[u8; 4]]) {
    let (setup, ops) = decode(setup, ops);
    if let Err(said) = play(&setup, &ops, |_| ()) {
        panic!("{said}");
    }
}

pub(crate) fn decode(setup: [u8; 8], ops: &[[u8; 4]]) -> (Setup, Vec<Op>) {
    let (crew, setup) = (Op::crew(setup[3] / 3, setup[7]), Setup::decode(setup));
    let ops = crew.into_iter().chain(ops.iter().map(|raw| Op::decode(*raw, &setup))).collect();
    (setup, ops)
}

/// Runs one case and returns the executor's trace and what happened; the error names the operation after which the two disagreed.
pub(crate) fn play(setup: &Setup, ops: &[Op], prepare: impl FnOnce(&Manual)) -> Result<(String, Census), String> {
    let mut case = Case { real: Real::new(setup), twin: Twin::new(setup.clone()) };
    prepare(&case.real.manual);
    for (i, op) in ops.iter().chain(&[Op::Settle, Op::Close]).enumerate() {
        let told = |said| {
            let past = &ops[..(i + 1).min(ops.len())];
            format!("after operation {i}, {op:?}, of {setup:?}\n{past:#?}\n{said}")
        };
        case.apply(op).and_then(|()| case.compare()).map_err(told)?;
    }
    let (trace, census) = (case.real.manual.trace(), case.twin.census);
    match case.real.drop() {
        0 => Ok((trace, census)),
        alive => Err(format!("{alive} events outlived the broker, {setup:?}\n{ops:#?}")),
    }
}

impl Case {
    fn apply(&mut self, op: &Op) -> Checked {
        match op {
            Op::Publish { key } => self.publish(*key),
            Op::PublishTo { partition } => self.publish_to(*partition),
            Op::InPlace { partition } => {
                let serial = self.real.next();
                let real = self.real.publish_in_place(serial, *partition);
                self.published(real, *partition, serial)
            }
            Op::Batch { keys } => self.batch(keys),
            Op::Close => self.close(),
            _ if self.twin.closed => Ok(()),
            Op::Advance { millis } => self.advance(*millis),
            Op::Step { steps } => self.steps(usize::from(*steps)).map(|_| ()),
            Op::Settle => self.settle(),
            Op::Drain => self.drain(),
            Op::AddGroup { group, .. } | Op::DeleteGroup { group } | Op::Join { group, .. } => self.make(*group, op),
            Op::Redrive { group, .. } | Op::CallBack { group } | Op::TakeLetters { group, .. } => {
                self.letters(*group, op)
            }
            Op::Leave { group, .. }
            | Op::LeaveDrained { group, .. }
            | Op::Kill { group, .. }
            | Op::Seek { group, .. }
            | Op::Commit { group, .. }
            | Op::Pause { group }
            | Op::Resume { group }
            | Op::PauseLane { group, .. }
            | Op::ResumeLane { group, .. }
            | Op::Script { group, .. } => self.control(*group, op),
        }
    }

    fn publish(&mut self, key: Option<u8>) -> Checked {
        let serial = self.real.next();
        let partition = self.twin.route(key);
        let real = self.real.publish(serial, key);
        self.published(real, partition, serial)
    }

    fn publish_to(&mut self, partition: u32) -> Checked {
        let serial = self.real.next();
        let real = self.real.publish_to(serial, partition);
        self.published(real, partition, serial)
    }

    fn published(&mut self, (at, real): (Option<u32>, Answer), partition: u32, serial: u64) -> Checked {
        self.twin.stored_in = if matches!(real, Answer::Stored { .. }) { vec![partition] } else { Vec::new() };
        let twin = self.twin.publish(partition, &[serial]);
        same!(at.unwrap_or(partition), partition, "the partition");
        agree(&real, &twin)
    }

    fn batch(&mut self, keys: &[Option<u8>]) -> Checked {
        let events: Vec<_> = keys.iter().map(|key| (self.real.next(), *key)).collect();
        let real = self.real.publish_batch(&events);
        self.twin.stored_in = real.shares.iter().map(|share| share.0).collect();
        let twin = self.twin.publish_batch(&events);
        same!(&real.shares, &twin.shares, "what was stored of the batch {events:?}");
        let sorted = |stored: &Stored| {
            let mut rest = stored.rest.clone();
            rest.sort_unstable();
            rest
        };
        same!(sorted(&real), sorted(&twin), "what came back of the batch {events:?}");
        match (&real.why, &twin.why) {
            (None, None) => Ok(()),
            (Some(real), Some(twin)) => agree(real, twin),
            (real, twin) => Err(format!("the batch {events:?}: real {real:?}, twin {twin:?}")),
        }
    }

    fn advance(&mut self, millis: u64) -> Checked {
        self.real.clock.advance(std::time::Duration::from_millis(millis));
        self.twin.advance(millis);
        Ok(())
    }

    /// So many steps of the executor, or fewer if it runs out of work: true then.
    fn steps(&mut self, most: usize) -> Result<bool, String> {
        for _ in 0..most {
            self.twin.settle();
            let worked = self.real.step();
            for seen in self.real.seen() {
                match seen {
                    Seen::Call(call) => self.twin.called(&call)?,
                    Seen::Gap(gap) => self.twin.lost(&gap)?,
                }
            }
            if !worked {
                return self.idle().map(|()| true);
            }
        }
        Ok(false)
    }

    /// The executor says that nothing can be done: then there is nothing to do.
    fn idle(&self) -> Checked {
        match self.twin.runnable().first() {
            None => Ok(()),
            Some((group, p)) => Err(format!("idle, though partition {p} of group {group} has work: a lost wake-up")),
        }
    }

    fn settle(&mut self) -> Checked {
        match self.steps(SETTLED)? {
            true => Ok(()),
            false => Err(format!("still busy after {SETTLED} steps")),
        }
    }

    fn drain(&mut self) -> Checked {
        let drained = self.real.broker.drain(std::time::Duration::ZERO).is_ok();
        same!(drained, self.twin.drained(), "whether it is drained");
        Ok(())
    }

    fn make(&mut self, group: u8, op: &Op) -> Checked {
        let exists = self.twin.groups.contains_key(&group);
        match op {
            Op::AddGroup { from, rule, .. } if !exists => {
                let (real, twin) = (self.real.add_group(group, *from, *rule), self.twin.setup.takes(*rule, *from));
                same!(real, twin, "whether a group {rule:?} was made to start at {from:?}");
                self.twin.knows(*from);
                match twin {
                    Ok(()) => self.twin.add_group(group, *from, *rule),
                    Err(why) => self.twin.note(why),
                }
            }
            Op::DeleteGroup { .. } if exists => {
                self.real.delete_group(group);
                self.twin.delete_group(group);
            }
            Op::Join { batches, .. } if exists => {
                let name = self.real.join(group, *batches)?;
                self.twin.group(group).members.push(name);
                return self.dealt(group);
            }
            _ => {}
        }
        Ok(())
    }

    fn control(&mut self, group: u8, op: &Op) -> Checked {
        if !self.twin.groups.contains_key(&group) {
            return Ok(());
        }
        let (real, twin) = (&mut self.real, &mut self.twin);
        match op {
            Op::Leave { member, .. } if *member < twin.group(group).members.len() => {
                let name = twin.group(group).members.remove(*member);
                real.leave(group, &name);
                return self.dealt(group);
            }
            Op::LeaveDrained { member, .. } if *member < twin.group(group).members.len() => {
                let name = twin.group(group).members[*member].clone();
                let left = twin.left_of(group, &name);
                twin.group(group).members.remove(*member);
                same!(real.leave_drained(group, &name), left, "what {name} left undone");
                return self.dealt(group);
            }
            Op::Kill { member, .. } if *member < twin.group(group).members.len() => {
                let name = twin.group(group).members.remove(*member);
                real.kill(group, &name);
                return self.dealt(group);
            }
            Op::Seek { partition, to, .. } => return self.seek(group, *partition, *to),
            Op::Commit { partition, off, by, .. } => return self.commit(group, *partition, *off, *by),
            Op::Pause { .. } => {
                real.groups[&group].group.pause();
                twin.group(group).paused = true;
            }
            Op::Resume { .. } => {
                real.groups[&group].group.resume();
                twin.group(group).paused = false;
            }
            Op::PauseLane { partition, .. } => {
                real.groups[&group].group.pause_partition(*partition).map_err(|error| error.to_string())?;
                twin.group(group).lanes[*partition as usize].paused = true;
            }
            Op::ResumeLane { partition, .. } => {
                real.groups[&group].group.resume_partition(*partition).map_err(|error| error.to_string())?;
                twin.group(group).lanes[*partition as usize].paused = false;
            }
            // An exclusive topic has one producer, and a handler is not it.
            Op::Script { act: Act::Publish { .. }, .. } if twin.setup.exclusive => {}
            Op::Script { act, times, .. } => {
                real.script(group, *act, *times);
                twin.group(group).script(*act, *times);
            }
            _ => {}
        }
        Ok(())
    }

    fn commit(&mut self, group: u8, partition: u32, off: u64, by: u64) -> Checked {
        let at = self.twin.group(group).lanes[partition as usize].cursor;
        match (off, self.real.commit(group, partition, at + off, at + by)) {
            (0, Ok(landed)) => {
                same!(landed, self.twin.seek(group, partition, To::Offset(at + by)), "where a commit landed");
                self.twin.note("committed from outside");
            }
            (0, Err(found)) => return Err(format!("a commit from {at} was refused: the cursor is at {found}")),
            (_, refused) => same!(refused, Err(at), "a commit from where the cursor is not"),
        }
        Ok(())
    }

    fn dealt(&mut self, group: u8) -> Checked {
        self.twin.dealt(group, &self.real.assignment(group))
    }

    fn letters(&mut self, group: u8, op: &Op) -> Checked {
        if !self.twin.groups.contains_key(&group) {
            return Ok(());
        }
        match op {
            Op::Redrive { most, .. } => {
                same!(self.real.redrive(group, *most), self.twin.redrive(group, *most), "what was redriven");
            }
            Op::CallBack { .. } => return self.call_back(group),
            Op::TakeLetters { most, .. } => {
                let real = self.real.groups[&group].group.drain_letters(Pick::first(*most));
                same!(Real::plain(&real), self.twin.take_letters(group, *most), "the letters taken out");
            }
            _ => {}
        }
        Ok(())
    }

    fn call_back(&mut self, group: u8) -> Checked {
        let real = self.real.groups[&group].group.call_back();
        same!(real, self.twin.call_back(group), "how many letters were called back");
        Ok(())
    }

    fn seek(&mut self, group: u8, partition: u32, to: To) -> Checked {
        let real = self.real.seek(group, partition, to);
        let twin = self.twin.knows(to).then(|| self.twin.seek(group, partition, to));
        same!(real, twin, "where a seek to {to:?} landed");
        Ok(())
    }

    fn close(&mut self) -> Checked {
        let account = self.real.broker.close(Some(std::time::Duration::ZERO));
        // Whoever holds a lane, what it had queued is letters again.
        for group in self.twin.groups.keys().copied().collect::<Vec<_>>() {
            self.twin.call_back(group);
        }
        self.twin.closed = true;
        for (name, group) in &self.twin.groups {
            let Some(left) = account.group("t", &format!("g{name}")) else {
                return Err(format!("the account has no group {name}"));
            };
            let books = self.twin.books(*name);
            same!((left.acked(), left.dead(), left.lag()), (books.acked, books.dead, books.pending), "the account");
            same!((left.skipped(), left.expired()), (books.skipped, books.expired), "losses in the account");
            let own = (left.dropped(), left.conflated());
            same!(own, (books.dropped, books.conflated), "what its own rule cost, in the account");
            same!(left.letters, group.letters.len(), "letters in the account");
        }
        same!(account.groups.len(), self.twin.groups.len(), "groups in the account");
        Ok(())
    }

    /// Everything that can be seen from outside.
    fn compare(&mut self) -> Checked {
        for p in 0..self.twin.setup.partitions {
            let seen = self.real.topic.partition_stats(p).ok_or("a partition is missing")?;
            same!(seen.end, self.twin.logs[p as usize].end(), "the end of partition {p}");
            if let Some(last) = self.real.last(p) {
                same!(last, self.twin.logs[p as usize].last(), "the last value of partition {p}");
            }
            // A close that cuts handlers short takes their groups' gates away.
            if !self.twin.closed {
                self.twin.observe_earliest(p, seen.earliest)?;
            }
            self.twin.settle();
            self.twin.drop_what_is_lost(p);
            let log = &self.twin.logs[p as usize];
            // What waits in a clone counts as dropped when it is overwritten, and no more once it is handled. At a close it depends
            // on the members what becomes of what was in hand.
            let free = self.twin.clones_waited || (self.twin.closed && self.twin.is_in_hand(p));
            let dropped = if free { seen.dropped } else { log.dropped() };
            same!((seen.dropped, seen.expired), (dropped, log.expired), "dropped and expired of partition {p}");
            same!((seen.blocked, seen.rejected), (0, log.rejected), "blocked and rejected of partition {p}");
        }
        for name in self.twin.groups.keys() {
            self.compare_group(*name)?;
        }
        Ok(())
    }

    fn compare_group(&self, name: u8) -> Checked {
        let (real, twin) = (&self.real.groups[&name].group, &self.twin.groups[&name]);
        let stats = real.stats();
        for (p, lane) in twin.lanes.iter().enumerate() {
            let (seen, books) = (&stats.lanes[p], lane.books(&self.twin.logs[p]));
            let real = crate::real::books(seen);
            same!(seen.committed, lane.cursor, "committed of group {name}, partition {p}");
            same!(real, books, "the books of group {name}, partition {p}");
            same!(seen.refused, 0, "refused commits of group {name}, partition {p}");
        }
        same!(real.lag(), self.twin.books(name).pending, "the lag of group {name}");
        same!(Real::plain(&real.letters()), Vec::from(twin.letters.clone()), "the letters of group {name}");
        same!(Real::plain(&real.redriving()), self.twin.redriving(name), "the letters queued in group {name}");
        same!(stats.letters_lost, twin.letters_lost, "lost letters of group {name}");
        if !self.twin.closed {
            same!(self.real.assignment(name), twin.assignment(), "the assignment of group {name}");
        }
        Ok(())
    }
}

/// The same answer, except that the broker names one group where several limit alike.
fn agree(real: &Answer, twin: &Answer) -> Checked {
    if let (Answer::Full { limits: one }, Answer::Full { limits: all }) = (real, twin) {
        if all.contains(&one[0]) {
            return Ok(());
        }
    }
    same!(real, twin, "the answer to a publish");
    Ok(())
}
