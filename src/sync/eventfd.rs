//! A descriptor of the kernel's that is readable once it was signalled, until it is cleared. Linux only.
#![forbid(unsafe_code)]

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// See the module.
#[derive(Debug)]
pub struct Signal(OwnedFd);

impl Signal {
    /// One that was not signalled yet; closed in programs that this one becomes.
    pub fn new() -> io::Result<Self> {
        Ok(Signal(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Makes it readable. All that the caller did before is seen by who clears it.
    pub fn signal(&self) {
        // It fails only when it was signalled 2^64 - 1 times and never cleared: then it is readable already.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Makes it unreadable; whether it was readable.
    pub fn clear(&self) -> bool {
        read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
