//! One broker for the whole process.
#![forbid(unsafe_code)]

use super::handle::Broker;
use crate::sync::{Mutex, lock};

static GLOBAL: Mutex<Option<Broker>> = Mutex::new(None);

impl Broker {
    /// A handle to the process's own broker, which is made, with default settings, when it is first asked for. All who ask get
    /// the same one; others can be made beside it. Costs a lock: keep the handle.
    ///
    /// It is closed when somebody closes it, and not by itself: not when handles drop, for the process keeps one, and not when
    /// the process ends, which gives handlers no time (see the page on delivery). Once closed it stays so, and whoever asks
    /// for it gets the closed one, which refuses everything, until [`Broker::reset_global`].
    ///
    /// ```
    /// use ringlog::{Broker, TopicConfig};
    ///
    /// Broker::global().create_topic("orders", TopicConfig::<u64>::new())?;
    /// assert!(Broker::global().topic::<u64>("orders").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn global() -> Broker {
        lock(&GLOBAL).get_or_insert_with(Broker::new).clone()
    }

    /// Forgets the process's own broker, so that the next who asks for it gets a new one, and returns it, if there was one.
    /// Handles to it stay good; it closes as any other does, with its last handle or when it is told to. For tests, and for
    /// programs that start again within one process.
    pub fn reset_global() -> Option<Broker> {
        lock(&GLOBAL).take()
    }
}
