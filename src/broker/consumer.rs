//! Consumers: joining a group to poll it.
#![forbid(unsafe_code)]

use super::group::Group;
use crate::group::{Consumer, SubscribeError};

impl<T: Send + Sync + 'static> Group<T> {
    /// Adds a member that polls: see [`Consumer`]. It leaves when it is dropped.
    ///
    /// # Errors
    ///
    /// Name bad or taken, group or broker closed; see [`SubscribeError`].
    pub fn consumer(&self, name: &str) -> Result<Consumer<T>, SubscribeError> {
        self.member(name).consumer()
    }
}
