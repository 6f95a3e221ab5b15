//! A subscription: a group of one member, made in one call, which goes when that one leaves.
#![forbid(unsafe_code)]

use super::group::Group;
use super::leave::{LeaveError, Member};
use super::topic::Topic;
use crate::group::{GroupConfig, GroupError, IntoOutcome, Record, Run, SubscribeError};
use crate::sync::Arc;
use crate::wait::Canceller;
use std::fmt;
use std::time::Duration;

/// Somebody who listens to a topic by itself: a [group](Group) of its own with one [member](Member), both under an id of the
/// broker's [source](crate::BrokerConfig::ids). Made by [`Topic::subscribe`].
///
/// It belongs to the broker: dropping this handle changes nothing. [`unsubscribe`](Self::unsubscribe) ends it, and with it its group.
pub struct Subscription<T> {
    group: Group<T>,
    member: Member<T>,
}

/// Nobody was subscribed, and nothing is left of the attempt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriptionError {
    /// The topic cannot have such a group: an impossible setting, an id that is no name, a topic that is closed.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// There is nobody to run the handler, or the topic was closed just then.
    #[error(transparent)]
    Member(#[from] SubscribeError),
    /// The broker's [source of ids](crate::BrokerConfig::ids) gave only ids that groups of the topic have. It is to give each
    /// but once; or leave those subscriptions first, or make a [`group`](Topic::group) under a name of your own.
    #[error(
        "nobody was subscribed to topic '{topic}': of {tries} ids that BrokerConfig::ids gave, its groups have each, the last one \
         '{id}'; give it a source that never gives one twice, or make a group under a name of your own"
    )]
    NoFreeId {
        /// The topic.
        topic: Arc<str>,
        /// The last id.
        id: Arc<str>,
        /// How many ids were asked for.
        tries: usize,
    },
}

/// How many ids that are taken already a source may give in a row.
const TAKEN_MOST: usize = 64;

impl<T: Send + Sync + 'static> Topic<T> {
    /// Calls `handler`, on a thread of its own, for each record from where `config` says: a mailbox of its own with
    /// [`GroupConfig::mailbox`]. In one call what else is a [`group`](Self::group) and a member, under the next id of the broker's
    /// [source](crate::BrokerConfig::ids) that no group of the topic has.
    ///
    /// A subscriber that starts at the latest gets what is stored from now on. A publish that is waiting for room has no place in the
    /// topic's order yet: it gets one when it finds room, and so its record is one of those.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Overflow, TopicConfig};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let prices = broker.create_topic("prices", TopicConfig::<u64>::mailbox())?;
    /// let (tell, heard) = mpsc::channel();
    /// let chart = prices.subscribe(GroupConfig::mailbox(Overflow::drop_oldest(100)), move |price| tell.send(**price))?;
    /// prices.publish(7)?;
    /// chart.unsubscribe(Duration::from_secs(5))?; // what waits is handed over first
    /// prices.publish(8)?;
    /// assert_eq!(heard.iter().collect::<Vec<_>>(), [7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Impossible setting, topic deleted or broker closed, no thread for it, no id that is free; see [`SubscriptionError`].
    pub fn subscribe<F, O>(&self, config: GroupConfig<T>, handler: F) -> Result<Subscription<T>, SubscriptionError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        self.subscribe_on(Run::OwnThread, config, handler)
    }

    /// As [`Topic::subscribe`], run by whom `run` says.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Overflow, TopicConfig, Worker};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let prices = broker.create_topic("prices", TopicConfig::<u64>::mailbox())?;
    /// let worker = Worker::spawn()?; // one thread for all of them
    /// let listen = || prices.subscribe_on(&worker, GroupConfig::mailbox(Overflow::latest()), |_price| ());
    /// let screens = [listen()?, listen()?];
    /// assert_eq!(screens.each_ref().map(|screen| screen.id()), ["m1", "m2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Topic::subscribe`].
    pub fn subscribe_on<F, O>(
        &self,
        run: impl Into<Run>,
        config: GroupConfig<T>,
        handler: F,
    ) -> Result<Subscription<T>, SubscriptionError>
    where
        F: FnMut(&Record<'_, T>) -> O + Send + 'static,
        O: IntoOutcome + 'static,
    {
        let group = self.group_of_its_own(config.ephemeral())?;
        match group.member(group.name()).run(run).subscribe(handler) {
            Ok(member) => Ok(Subscription { member, group }),
            Err(refused) => {
                group.delete();
                Err(refused.into())
            }
        }
    }

    /// A new group, under the next id that none has.
    fn group_of_its_own(&self, config: GroupConfig<T>) -> Result<Group<T>, SubscriptionError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (id, mut taken) = (self.0.life.next_id(), false);
            let group = self.group_unless(&id, config.clone(), |_| {
                taken = true;
                let (topic, group) = (self.0.name.clone(), Arc::from(&*id));
                Err(GroupError::Differs { topic, group, field: "owner" }) // nobody sees it
            });
            match group {
                Err(_) if taken && tries < TAKEN_MOST => {}
                Err(_) if taken => {
                    return Err(SubscriptionError::NoFreeId { topic: self.0.name.clone(), id: id.into(), tries });
                }
                group => return Ok(group?),
            }
        }
    }
}

impl<T: Send + Sync + 'static> Subscription<T> {
    /// Its id, which is the name of its group, and of the member.
    pub fn id(&self) -> &str {
        self.member.name()
    }

    /// Its group: for figures, letters, a pause.
    pub fn group(&self) -> &Group<T> {
        &self.group
    }

    /// Ends it: what lies there now is still handed over, then nothing any more, and its group goes. Returns when the handler has
    /// returned for the last time, or `limit` is over by the broker's clock; then the subscription is over all the same, and what
    /// it had not done is given up.
    ///
    /// Publishers that wait for it go on as it makes room, and when it is over, also where its handler hangs; this does not wait
    /// for them. Beside a publish that is under way it may be handed that record, or not.
    ///
    /// # Errors
    ///
    /// Not done in time, stopped before that (topic deleted, broker closed), or asked by a handler that it would have to wait for,
    /// where nothing has happened: use [`leave`](Self::leave) there; see [`LeaveError`].
    pub fn unsubscribe(&self, limit: Duration) -> Result<(), LeaveError> {
        self.ended(self.member.leave_drained(limit))
    }

    /// As [`unsubscribe`](Self::unsubscribe); a `cancel` ends the wait as if the time were up.
    ///
    /// # Errors
    ///
    /// As [`unsubscribe`](Self::unsubscribe), and [`LeaveError::Cancelled`].
    pub fn unsubscribe_or_cancel(&self, limit: Duration, cancel: &Canceller) -> Result<(), LeaveError> {
        self.ended(self.member.leave_drained_or_cancel(limit, cancel))
    }

    /// Its group goes at once, also while a handler is at work: publishers wait for nobody who has gone.
    fn ended(&self, left: Result<(), LeaveError>) -> Result<(), LeaveError> {
        if !matches!(left, Err(LeaveError::WouldDeadlock { .. })) {
            self.group.delete();
        }
        left
    }

    /// Ends it at once: a handler that is at work finishes its record, which counts nowhere any more, and what waits is given up.
    /// Waits for nothing, so a handler may end its own subscription. False if it was over already.
    pub fn leave(&self) -> bool {
        let left = self.member.leave();
        self.group.delete();
        left
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.member).finish()
    }
}
