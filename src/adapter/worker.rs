//! One thread for any set of lanes, stepped back to back: extra groups over the same partitions are nearly free, and a
//! handler that hangs hurts whatever shares its worker.
#![forbid(unsafe_code)]

use crate::group::{Ends, Executor, Inbox, Reserved, Run, drive};
use crate::sync::{Arc, Mutex, affinity::pin_this_thread, thread};
use std::fmt;

/// A worker was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The system refused a thread.
    #[error("the system refused a thread for worker {name}")]
    NoThread {
        /// The worker.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// None of the processors asked for can be used.
    #[error("worker {name} cannot run on processors {processors:?}")]
    Affinity {
        /// The worker.
        name: String,
        /// What was asked for.
        processors: Vec<usize>,
        /// Why.
        source: std::io::Error,
    },
}

/// How a worker's thread is made.
pub struct WorkerConfig {
    name: String,
    processors: Vec<usize>,
    hook: Option<Box<dyn FnOnce() + Send>>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        WorkerConfig { name: "ringlog-worker".to_owned(), processors: Vec::new(), hook: None }
    }
}

impl WorkerConfig {
    /// A thread named `ringlog-worker`, on any processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// The thread's name. Linux shows its first 15 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into().replace('\0', " ");
        self
    }

    /// The processors it may run on. Linux only: elsewhere the worker is refused.
    pub fn affinity(mut self, processors: impl Into<Vec<usize>>) -> Self {
        self.processors = processors.into();
        self
    }

    /// Runs once on the thread before it steps anything: to set priorities, to register it somewhere.
    pub fn on_start(mut self, hook: impl FnOnce() + Send + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system refuses the thread or the affinity.
    pub fn spawn(self) -> Result<Worker, WorkerError> {
        let WorkerConfig { name, processors, hook } = self;
        let worker = Worker(Arc::new(Handle { inbox: Inbox::new(), ran: Mutex::new(true) }));
        let inbox = worker.0.inbox.clone();
        let (wishes, pinned) = (processors.clone(), Arc::new((Mutex::new(None), crate::sync::Condvar::new())));
        let answer = pinned.clone();
        let body = move || {
            let result = if wishes.is_empty() { Ok(()) } else { pin_this_thread(&wishes) };
            let usable = result.is_ok();
            *answer.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            answer.1.notify_all();
            if usable {
                let closes = ClosesInbox(&inbox); // also when the hook panics: nobody would step what is placed then
                if let Some(hook) = hook {
                    hook();
                }
                drive(&inbox, Ends::WhenAbandoned);
                drop(closes);
            }
        };
        let spawned = thread::Builder::new().name(name.clone()).spawn(body);
        spawned.map_err(|source| WorkerError::NoThread { name: name.clone(), source })?;
        let mut result = pinned.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            match result.take() {
                Some(Ok(())) => return Ok(worker),
                Some(Err(source)) => return Err(WorkerError::Affinity { name, processors, source }),
                None => result = pinned.1.wait(result).unwrap_or_else(|poisoned| poisoned.into_inner()),
            }
        }
    }
}

struct ClosesInbox<'a>(&'a Inbox);

impl Drop for ClosesInbox<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for WorkerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerConfig").field("name", &self.name).field("processors", &self.processors).finish()
    }
}

/// A thread that members share: `.run(&worker)`. Clones are the same worker.
///
/// Dropping the last handle does not stop it: it goes on until its members have left. [`stop`](Worker::stop) ends it at
/// its next step, and its members leave.
///
/// ```
/// use ringlog::{Broker, GroupConfig, TopicConfig, Worker};
/// use std::time::Duration;
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("orders", TopicConfig::<u64>::new())?;
/// let worker = Worker::spawn()?;
/// for name in ["billing", "audit"] {
///     let group = topic.group(name, GroupConfig::earliest())?;
///     group.member("only").run(&worker).subscribe(|_| ())?; // both on the one thread
/// }
/// topic.publish(7)?;
/// broker.drain(Duration::from_secs(2))?;
/// assert_eq!(broker.close(Some(Duration::from_secs(2))).acked(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Worker(Arc<Handle>);

struct Handle {
    inbox: Arc<Inbox>,
    /// Whether a thread has been given to it.
    ran: Mutex<bool>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inbox.abandon();
        if !*self.ran.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            self.inbox.close();
        }
    }
}

impl Worker {
    /// A worker with a thread of its own, default name, no affinity.
    ///
    /// # Errors
    ///
    /// The system refuses the thread.
    pub fn spawn() -> Result<Self, WorkerError> {
        WorkerConfig::new().spawn()
    }

    /// A worker without a thread: give it yours by [`run`](Worker::run). Until somebody runs it, its members handle
    /// nothing, hold back publishers like any slow member, and are waited for by a drain or a close.
    pub fn on_your_thread() -> Self {
        Worker(Arc::new(Handle { inbox: Inbox::new(), ran: Mutex::new(false) }))
    }

    /// Steps its members' lanes on this thread, until somebody stops it. Returns at once if it has, or had, a thread.
    pub fn run(&self) {
        let first = !std::mem::replace(&mut *self.0.ran.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), true);
        if first {
            drive(&self.0.inbox, Ends::WhenAbandoned);
        }
    }

    /// Has it end: who is busy stops behind what it has in hand (a few records at most, those of 50 microseconds), its members
    /// leave, their partitions go to others. Does not wait.
    pub fn stop(&self) {
        self.0.inbox.stop();
    }
}

impl Executor for Worker {
    fn reserve(&self) -> Box<dyn Reserved> {
        Box::new(self.0.inbox.clone())
    }
}

impl From<&Worker> for Run {
    fn from(worker: &Worker) -> Run {
        Run::On(Arc::new(worker.clone()))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({})", self.0.inbox.id().get())
    }
}
