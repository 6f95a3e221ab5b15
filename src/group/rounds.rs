//! A round of the broker's timer, as a group sees it: first the leases that are over end, and who waits for that is told; what
//! of that is the user's (hooks, destructors, burials) comes when this is done for every group of the broker. Only assignors
//! are asked in between, where somebody takes over.
#![forbid(unsafe_code)]

use super::Group;
use super::context::{Entered, Id};
use super::hung::Lapse;
use super::lane::Lane;
use super::pull::News;
use super::shared::Ending;
use crate::sync::{Arc, lock};
use crate::time::Time;
use std::fmt;

/// Leases that have ended; what is left of that to do is the user's.
pub struct Ended<T: 'static> {
    consumers: Vec<(Arc<Lane<T>>, News)>,
    handlers: Vec<(u32, Lapse)>,
    shared: Vec<(Arc<Lane<T>>, Ending)>,
}

impl<T: Send + Sync + 'static> Group<T> {
    /// Ends the leases that are over and tells who waits for that. `None`: there were none.
    pub fn end_leases(&self, now: Time) -> Option<Ended<T>> {
        self.lease().filter(|_| !self.is_over())?;
        let _here = self.enter_timer();
        let end = |lane: &Arc<Lane<T>>| {
            let is_over = lock(&lane.flight).is_over(lane.cursor(), now);
            let news = is_over.then(|| self.fly_untold(lane, None, |_, _, _| ()).1)?;
            self.pass_on(lane, &news);
            Some((lane.clone(), news))
        };
        let consumers: Vec<_> = self.lanes.iter().filter_map(end).collect();
        let handlers = self.expire_untold(now).map_or_else(Vec::new, |(_, lapsed)| lapsed);
        let shared = self.end_claims(now);
        let any = !consumers.is_empty() || !handlers.is_empty() || !shared.is_empty();
        any.then_some(Ended { consumers, handlers, shared })
    }

    /// The rest of that. User code.
    pub fn follow_ended(&self, Ended { consumers, handlers, shared }: Ended<T>) {
        let _here = self.enter_timer();
        handlers.iter().for_each(|(partition, lapse)| self.tell_expired(*partition, lapse));
        consumers.into_iter().for_each(|(lane, news)| self.follow_up(&lane, news, None));
        shared.into_iter().for_each(|(lane, ending)| self.follow_claims(&lane, ending));
    }

    /// What the timer calls of the user's is inside, as a handler is: it never waits for what only the timer can end.
    pub fn enter_timer(&self) -> Entered {
        self.enter_as(Id::fresh())
    }
}

impl<T> fmt::Debug for Ended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [consumers, handlers, shared] = [self.consumers.len(), self.handlers.len(), self.shared.len()];
        write!(f, "Ended({consumers} of consumers, {handlers} of handlers, {shared} of work queues)")
    }
}
