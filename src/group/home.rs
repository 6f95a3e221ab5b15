//! What all records that a group hands over have in common.
//!
//! | label     | operation       | order   | why this much, and why no more                                                      |
//! |-----------|-----------------|---------|-------------------------------------------------------------------------------------|
//! | closing:A | `closing.store` | Relaxed | says that it is time to finish; nothing is read through it, the seals order a close |
//! | closing:B | `closing.load`  | Relaxed | the other half                                                                      |
#![forbid(unsafe_code)]

use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether a broker is closing. Clones are of the same one.
#[derive(Clone, Debug, Default)]
pub struct Closing(Arc<AtomicBool>);

impl Closing {
    /// It is, from now on.
    pub fn begin(&self) {
        // ORD(closing:A) Relaxed: see the table. Pairs with ORD(closing:B).
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn has_begun(&self) -> bool {
        // ORD(closing:B) Relaxed: see the table. Pairs with ORD(closing:A).
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) topic: Arc<str>,
    pub(super) closing: Closing,
}
