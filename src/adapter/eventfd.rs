//! A consumer's wake-up as a file descriptor, for event loops that wait for descriptors.
#![forbid(unsafe_code)]

use crate::sync::Arc;
use crate::sync::eventfd::Signal;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Wake, Waker};

/// A descriptor (Linux's eventfd) that becomes readable when a consumer may have something, for `poll`, `epoll`, `io_uring` and
/// event loops built on them. With the feature `eventfd`, on Linux.
///
/// Level-triggered: it stays readable until it is [cleared](Self::clear). One descriptor may serve several consumers.
///
/// ```
/// use ringlog::{Broker, EventFd, GroupConfig, Readiness, TopicConfig};
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
/// let mut consumer = topic.group("billing", GroupConfig::latest())?.consumer("billing-1")?;
/// let ready = EventFd::new()?; // give `ready.as_fd()` to your event loop
/// let waker = ready.waker();
///
/// // Before the event loop waits, and whenever it says that the descriptor is readable:
/// ready.clear();
/// let mut seen = 0;
/// while consumer.poll_ready(&waker) == Readiness::Ready {
///     let batch = consumer.try_poll(64)?;
///     seen += batch.len();
///     batch.ack()?;
/// }
/// // Now it may wait. (`Waiting` says for how long at most: a lease may end.)
/// assert_eq!((seen, ready.clear()), (0, false));
///
/// topic.publish(7)?;
/// assert!(ready.clear(), "it was readable");
/// assert_eq!(consumer.try_poll(64)?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EventFd(Arc<Ringer>);

/// What wakes it: a waker is a handle of this.
struct Ringer(Signal);

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.0.signal();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.signal();
    }
}

impl EventFd {
    /// A new one, not readable, that programs started by this one do not inherit.
    ///
    /// # Errors
    ///
    /// The system refuses another descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(EventFd(Arc::new(Ringer(Signal::new()?))))
    }

    /// What makes it readable: for [`Consumer::poll_ready`](crate::Consumer::poll_ready). The descriptor is closed when the last
    /// of these is gone as well.
    pub fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    /// Makes it unreadable until it is woken again; whether it was readable. Never blocks. Ask the consumers after it, not before.
    pub fn clear(&self) -> bool {
        self.0.0.clear()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for EventFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventFd({})", self.as_raw_fd())
    }
}
