//! A message in the classic shape, for who has no record type of his own: id, payload, key, headers, time.
#![forbid(unsafe_code)]

use super::config::TopicConfig;
use super::handle::Broker;
use crate::group::Letter;
use crate::sync::Arc;
use crate::time::Time;
use std::fmt;
use std::ops::Deref;

/// The header that says where a redriven message comes from: `topic/partition@offset group`.
pub const ORIGIN_HEADER: &str = "ringlog-origin";

/// Bytes that are shared and never change. Shown as text where they are UTF-8.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(Arc<[u8]>);

impl<B: Into<Vec<u8>>> From<B> for Bytes {
    fn from(bytes: B) -> Self {
        Self(bytes.into().into())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

type Headers = Arc<[(Arc<str>, Arc<str>)]>;

/// A message: an id, a payload, perhaps a key and headers, and when it was made. It never changes, and a clone is the same one:
/// two counters.
///
/// A record of any type is as good, and cheaper; this is for programs that want the shape of other brokers. A topic of
/// messages is made by [`TopicConfig::messages`], which routes by their keys. A [`Record`](crate::Record) of a message derefs to
/// it, and shows itself as `topic/partition@offset payload`.
///
/// ```
/// use ringlog::{Broker, Message, Position, TopicConfig};
///
/// let broker = Broker::new();
/// let orders = broker.create_topic("orders", TopicConfig::messages().partitions(2))?;
/// let message: Message = broker.message("paid").key("alice").header("source", "web").build();
/// assert_eq!((message.id(), message.key(), message.header("source")), ("m1", Some("alice"), Some("web")));
/// let at = orders.publish(message)?;
/// assert_eq!(at.position, Position { partition: 1, offset: 0 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Message<P = Bytes> {
    body: Arc<Body<P>>,
    /// In the order in which they were named; `None` is none.
    headers: Option<Headers>,
}

#[derive(Debug, PartialEq)]
struct Body<P> {
    id: Arc<str>,
    key: Option<Arc<str>>,
    created: Time,
    payload: P,
}

impl<P> Message<P> {
    /// A message that is made by hand: nothing is filled in but what is said here. Made by
    /// [`Broker::message`], it has its id and its time from the broker.
    pub fn with_id(id: impl Into<Arc<str>>, payload: impl Into<P>) -> NewMessage<P> {
        let body = Body { id: id.into(), key: None, created: Time::ZERO, payload: payload.into() };
        NewMessage { body, headers: Vec::new() }
    }

    /// The id.
    pub fn id(&self) -> &str {
        &self.body.id
    }

    /// The payload.
    pub fn payload(&self) -> &P {
        &self.body.payload
    }

    /// The key, if it has one.
    pub fn key(&self) -> Option<&str> {
        self.body.key.as_deref()
    }

    /// When it was made, on the broker's clock; [`Clock::wall`](crate::Clock::wall) says which time of day that was.
    pub fn created(&self) -> Time {
        self.body.created
    }

    /// The header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(there, _)| *there == name).map(|(_, value)| value)
    }

    /// All headers, in the order in which they were named first.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().flat_map(|all| all.iter()).map(|(name, value)| (&**name, &**value))
    }

    /// The same message with one more header, or another value for one.
    #[must_use]
    pub fn with_header(&self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        let mut headers = self.headers.as_deref().unwrap_or_default().to_vec();
        put(&mut headers, name.into(), value.into());
        Self { body: self.body.clone(), headers: Some(headers.into()) }
    }

    /// The message that a letter keeps ([`GroupConfig::bury_cloned`](crate::GroupConfig::bury_cloned)), with
    /// [`ORIGIN_HEADER`] saying where it was given up and by whom: for [`Topic::redrive_with`](crate::Topic::redrive_with). One
    /// that has the header already keeps it, so it names the first place.
    ///
    /// ```
    /// use ringlog::{Broker, GroupConfig, Manual, Message, ORIGIN_HEADER, Outcome, Pick, Record, TopicConfig};
    /// use std::time::Duration;
    ///
    /// let broker = Broker::new();
    /// let orders = broker.create_topic("orders", TopicConfig::messages())?;
    /// let (group, manual) = (orders.group("billing", GroupConfig::latest().bury_cloned())?, Manual::new(1));
    /// let refuse = |message: &Record<'_, Message>| match message.header(ORIGIN_HEADER) {
    ///     None => Outcome::reject("not now"),
    ///     Some(origin) => {
    ///         assert_eq!(origin, "orders/0@0 billing");
    ///         Outcome::Ack
    ///     }
    /// };
    /// group.member("billing-1").run(&manual).subscribe(refuse)?;
    /// orders.publish(broker.message("paid").build())?;
    /// manual.run(100);
    /// orders.redrive_with(&group, Pick::all(), Duration::ZERO, Message::redriven)?;
    /// manual.run(100);
    /// assert_eq!((group.stats().acked(), group.stats().dead(), group.letters().len()), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redriven(letter: &Letter) -> Option<Self>
    where
        P: 'static,
    {
        let message = letter.payload::<Self>()?;
        if message.header(ORIGIN_HEADER).is_some() {
            return Some(message.clone());
        }
        let (topic, partition, offset, group) = (letter.topic(), letter.partition(), letter.offset(), letter.group());
        Some(message.with_header(ORIGIN_HEADER, format!("{topic}/{partition}@{offset} {group}")))
    }
}

fn put(headers: &mut Vec<(Arc<str>, Arc<str>)>, name: Arc<str>, value: Arc<str>) {
    match headers.iter_mut().find(|(there, _)| *there == name) {
        Some((_, there)) => *there = value,
        None => headers.push((name, value)),
    }
}

impl<P> Clone for Message<P> {
    fn clone(&self) -> Self {
        Self { body: self.body.clone(), headers: self.headers.clone() }
    }
}

impl<P: PartialEq> PartialEq for Message<P> {
    fn eq(&self, other: &Self) -> bool {
        self.body == other.body && self.headers().eq(other.headers())
    }
}

impl<P: fmt::Display> fmt::Display for Message<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.payload.fmt(f)
    }
}

impl<P: fmt::Debug> fmt::Debug for Message<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Body { id, key, created, payload } = &*self.body;
        f.debug_struct("Message")
            .field("id", id)
            .field("key", key)
            .field("created", created)
            .field("headers", &self.headers.as_deref().unwrap_or_default())
            .field("payload", payload)
            .finish()
    }
}

/// A message that is being made; [`build`](Self::build) makes it.
#[must_use]
#[derive(Debug)]
pub struct NewMessage<P> {
    body: Body<P>,
    headers: Vec<(Arc<str>, Arc<str>)>,
}

impl<P> NewMessage<P> {
    /// Another id.
    pub fn id(mut self, id: impl Into<Arc<str>>) -> Self {
        self.body.id = id.into();
        self
    }

    /// The key: messages with the same key stay in order.
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.body.key = Some(key.into());
        self
    }

    /// A header; a second one of the same name replaces the first.
    pub fn header(mut self, name: impl Into<Arc<str>>, value: impl Into<Arc<str>>) -> Self {
        put(&mut self.headers, name.into(), value.into());
        self
    }

    /// Another time at which it was made.
    pub fn created(mut self, at: Time) -> Self {
        self.body.created = at;
        self
    }

    /// The message.
    pub fn build(self) -> Message<P> {
        let Self { body, headers } = self;
        Message { body: Arc::new(body), headers: (!headers.is_empty()).then(|| headers.into()) }
    }
}

impl Broker {
    /// Begins a message with this payload, the next of the broker's ids ([`BrokerConfig::ids`](crate::BrokerConfig::ids)) and the
    /// time by its clock. It can be published to any broker's topics.
    pub fn message<P>(&self, payload: impl Into<P>) -> NewMessage<P> {
        Message::with_id(self.next_id(), payload).created(self.clock().now())
    }
}

impl<P: Send + Sync + 'static> TopicConfig<Message<P>> {
    /// A topic of messages: routed by their keys, and in turn where they have none. The rest as [`TopicConfig::new`].
    #[must_use]
    pub fn messages() -> Self {
        Self::new().optional_key(Message::key)
    }
}
