//! A pool of one thread, and topics with one member on a pool.

use ringlog::{Broker, GroupConfig, Pool, PoolConfig, Record, Topic, TopicConfig};

pub(crate) fn one_thread() -> Pool {
    Pool::with(PoolConfig::new().threads(1)).unwrap()
}

/// A topic of `capacity`, with a member on `pool`.
pub(crate) fn mailbox(
    broker: &Broker,
    name: &str,
    pool: &Pool,
    handler: impl FnMut(&Record<'_, u64>) + Send + 'static,
) -> Topic<u64> {
    let topic = broker.create_topic(name, TopicConfig::new().capacity(4)).unwrap();
    let group = topic.group("inbox", GroupConfig::earliest()).unwrap();
    group.member("only").run(pool).subscribe(handler).unwrap();
    topic
}
