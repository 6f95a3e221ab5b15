//! Drain and close: when everything is done, and what to do when it must end.
//!
//! # When is everything done?
//!
//! Each lane that has a member has committed up to the end of its partition. Lanes are looked at one after the other
//! while handlers publish, so one look proves nothing: lane A may be done when we look, then get a record from B's
//! handler, which commits before we look at B. So we look twice, and demand that every end is what it was, and that
//! nothing was sent back meanwhile by a seek or a redrive. Ends only rise, and a lane commits a record only after its
//! handler has returned; hence between the two looks there was a moment at which every lane was at its end and no
//! handler ran. Nobody polls: after a failed look we sleep until a commit, a hand-over or a stop is announced on the
//! broker's one event of progress.
//!
//! # The steps of a close
//!
//! | stage     | who works                        | the others                                                      |
//! |-----------|----------------------------------|-----------------------------------------------------------------|
//! | `Open`    | nobody                           | the first to come takes it to `Running`                         |
//! | `Running` | the first: refuse, drain, seal, drain what slipped in before the seal, stop, save, account | shorten the deadline, then wait; handlers and stores do not wait |
//! | `Done`    | nobody                           | take the account                                                |
//!
//! The lock guards the stage alone; nothing runs and nobody waits under it.
#![forbid(unsafe_code)]

use super::account::{Account, DrainError};
use super::handle::Inner;
use super::life::BrokerState;
use super::registry::AnyTopic;
use crate::sync::{Arc, Mutex, MutexGuard, thread_number};
use crate::time::Deadline;
use crate::wait::{Canceller, Event, Sleeper, Wait};

use std::time::Duration;

/// How far a close has come, and who waits for it.
#[derive(Debug)]
pub(crate) struct Closing {
    stage: Mutex<Stage>,
    progress: Arc<Event>,
}

#[derive(Debug, Clone)]
enum Stage {
    Open,
    /// Until when, and the number of the thread that does the work.
    Running(Deadline, u64),
    Done(Account),
}

/// What a closer finds.
enum Role {
    Works,
    /// It is at work itself, further up: a destructor of a record called it.
    Is,
    Waits,
    Reads(Account),
}

impl Closing {
    pub(crate) fn new(progress: Arc<Event>) -> Self {
        Self { stage: Mutex::new(Stage::Open), progress }
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes part in a close with this deadline.
    fn join(&self, deadline: Deadline) -> Role {
        let role = match &mut *self.lock() {
            stage @ Stage::Open => {
                *stage = Stage::Running(deadline, thread_number());
                return Role::Works;
            }
            Stage::Running(until, works) => {
                *until = until.earlier(deadline);
                if *works == thread_number() { Role::Is } else { Role::Waits }
            }
            Stage::Done(account) => return Role::Reads(account.clone()),
        };
        self.progress.notify();
        role
    }

    /// The deadline of the close under way: the earliest that anybody gave.
    fn deadline(&self) -> Deadline {
        match &*self.lock() {
            Stage::Running(deadline, _) => *deadline,
            Stage::Open | Stage::Done(_) => Deadline::Now,
        }
    }

    fn account(&self) -> Option<Account> {
        match &*self.lock() {
            Stage::Done(account) => Some(account.clone()),
            Stage::Open | Stage::Running(..) => None,
        }
    }

    fn finish(&self, account: &Account) {
        *self.lock() = Stage::Done(account.clone());
        self.progress.notify();
    }
}

impl Inner {
    pub(super) fn drain(&self, limit: Duration, cancel: Option<&Canceller>) -> Result<(), DrainError> {
        if self.waits_for_itself() {
            return Err(DrainError::WouldDeadlock);
        }
        let begun = self.life.clock().now();
        let deadline = self.life.within(Some(limit));
        if self.wait_for(|| deadline, cancel, settled) {
            return Ok(());
        }
        let mut behind = Vec::new();
        self.topics.all().iter().for_each(|topic| topic.behind(&mut behind));
        if cancel.is_some_and(Canceller::is_cancelled) {
            return Err(DrainError::Cancelled { behind });
        }
        Err(DrainError::TimedOut { waited: self.life.clock().now() - begun, behind })
    }

    /// Whether waiting on this thread for the handlers to finish would never end: it runs one of them, or one of another
    /// broker's on an executor that serves both.
    fn waits_for_itself(&self) -> bool {
        self.life.inside() || self.topics.all().iter().any(|topic| topic.served_here())
    }

    pub(super) fn close(&self, limit: Option<Duration>, cancel: Option<&Canceller>) -> Account {
        let inside = self.waits_for_itself();
        let deadline = if inside { Deadline::Now } else { self.life.within(limit) };
        match self.closing.join(deadline) {
            Role::Works => self.shut(inside, cancel),
            Role::Is => self.account(false),
            // Whoever is at work may wait for what this thread saves.
            Role::Waits if inside || self.topics.all().iter().any(|topic| topic.saving_here()) => self.account(false),
            Role::Waits => self.wait_for_account(cancel),
            Role::Reads(account) => account,
        }
    }

    /// The work of a close. `hurried`: wait for nothing.
    fn shut(&self, hurried: bool, cancel: Option<&Canceller>) -> Account {
        let until = || if hurried { Deadline::Now } else { self.closing.deadline() };
        self.life.advance(BrokerState::Draining);
        self.topics.close();
        let drained = self.wait_for(until, cancel, settled);
        self.life.advance(BrokerState::Closed);
        let topics = self.topics.all();
        topics.iter().for_each(|topic| topic.seal());
        // What read `Open` before the close and was stored before the seal is not refused any more, so it is delivered.
        let drained = drained && self.wait_for(until, cancel, settled);
        topics.iter().for_each(|topic| topic.stop());
        if !self.wait_for(until, cancel, |topics| topics.iter().all(|topic| topic.stopped())) {
            topics.iter().for_each(|topic| topic.fence());
        }
        // Lanes have let go since: letters that were queued to be handed over again are letters.
        topics.iter().for_each(|topic| topic.stop());
        topics.iter().for_each(|topic| topic.save());
        self.wait_for(until, cancel, |topics| topics.iter().all(|topic| topic.saved()));
        self.life.timer().stop();
        let account = self.account(drained);
        self.closing.finish(&account);
        account
    }

    /// The account as things stand.
    fn account(&self, drained: bool) -> Account {
        let topics = self.topics.all();
        // Who closes it from inside has not returned, whether he has a record in hand or not.
        let stopped = !self.life.inside() && topics.iter().all(|topic| topic.stopped());
        Account { groups: topics.iter().flat_map(|topic| topic.account()).collect(), drained, stopped }
    }

    fn wait_for_account(&self, mut cancel: Option<&Canceller>) -> Account {
        let mut sleeper = Sleeper::new(self.life.clock().clone());
        let bell = sleeper.bell().clone();
        let _registered = cancel.map(|cancel| cancel.register(&bell));
        loop {
            if let Some(account) = self.closing.account() {
                return account;
            }
            if cancel.take_if(|cancel| cancel.is_cancelled()).is_some() {
                self.closing.join(Deadline::Now); // whoever is at work hurries from now on
            }
            sleeper.wait([&**self.life.progress()], None, || self.closing.account().is_some());
        }
    }

    /// Waits until `done`, at most until `deadline`, which may come nearer meanwhile; says whether it is done.
    fn wait_for(
        &self,
        deadline: impl Fn() -> Deadline,
        cancel: Option<&Canceller>,
        done: impl Fn(&[Arc<dyn AnyTopic>]) -> bool,
    ) -> bool {
        let mut sleeper = Sleeper::new(self.life.clock().clone());
        let bell = sleeper.bell().clone();
        let _registered = cancel.map(|cancel| cancel.register(&bell));
        let deadline = || if cancel.is_some_and(Canceller::is_cancelled) { Deadline::Now } else { deadline() };
        loop {
            let (version, topics) = self.topics.versioned();
            let until = deadline();
            if until == Deadline::Now {
                return done(&topics);
            }
            let mut is_done = false;
            let look = || {
                is_done = done(&topics);
                let moved = self.topics.version() != version || deadline() != until;
                is_done || moved
            };
            let timed_out = sleeper.wait([&**self.life.progress()], until.at(), look) == Wait::TimedOut;
            if is_done || timed_out {
                return is_done;
            }
        }
    }
}

/// Whether everything is done; see the module.
fn settled(topics: &[Arc<dyn AnyTopic>]) -> bool {
    let mut before = None;
    loop {
        let mut ends = Vec::new();
        if !topics.iter().all(|topic| topic.settled(&mut ends)) {
            return false;
        }
        if before.as_ref() == Some(&ends) {
            return true;
        }
        before = Some(ends);
    }
}

impl Drop for Inner {
    /// The last handle is gone: close at once, waiting for nobody.
    fn drop(&mut self) {
        if let Role::Works = self.closing.join(Deadline::Now) {
            self.shut(true, None);
        }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::settled;
    use crate::broker::account::Behind;
    use crate::broker::describe::TopicDescription;
    use crate::broker::registry::AnyTopic;
    use crate::group::{GroupStats, Letter};
    use std::any::Any;
    use std::sync::{Arc, Mutex};

    /// A topic that answers each look by the next line of a script: its end, or that it is not done.
    struct Scripted(Arc<str>, Mutex<Vec<Option<u64>>>);

    impl AnyTopic for Scripted {
        fn name(&self) -> &Arc<str> {
            &self.0
        }
        fn holds(&self) -> &'static str {
            "nothing"
        }
        fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
            self
        }
        fn settled(&self, ends: &mut Vec<u64>) -> bool {
            let line = self.1.lock().unwrap().remove(0);
            ends.extend(line);
            line.is_some()
        }
        fn behind(&self, _: &mut Vec<Behind>) {}
        fn seal(&self) {}
        fn delete(&self) {}
        fn stop(&self) {}
        fn stopped(&self) -> bool {
            true
        }
        fn served_here(&self) -> bool {
            false
        }
        fn fence(&self) {}
        fn account(&self) -> Vec<GroupStats> {
            Vec::new()
        }
        fn describe(&self) -> TopicDescription {
            unreachable!("nobody asks for it here")
        }
        fn letters(&self, _: &mut Vec<Letter>) {}
    }

    fn look(scripts: [&[Option<u64>]; 2]) -> bool {
        let topic = |script: &[Option<u64>]| Arc::new(Scripted("t".into(), Mutex::new(script.to_vec())));
        let topics = scripts.map(topic);
        let all: Vec<Arc<dyn AnyTopic>> = topics.iter().map(|topic| topic.clone() as Arc<dyn AnyTopic>).collect();
        let is_settled = settled(&all);
        assert!(topics.iter().all(|topic| topic.1.lock().unwrap().is_empty()), "every line of the script was asked");
        is_settled
    }

    //
    #[test]
    fn a_record_that_arrives_behind_the_first_look_is_seen_by_the_second() {
        assert!(!look([&[Some(1), None], &[Some(5)]]));
    }

    #[test]
    fn ends_that_moved_between_two_looks_are_looked_at_again() {
        assert!(look([&[Some(1), Some(2), Some(2)], &[Some(5), Some(5), Some(5)]]));
        assert!(look([&[Some(1), Some(1)], &[Some(5), Some(5)]]));
    }
}
