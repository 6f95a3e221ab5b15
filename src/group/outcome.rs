//! What a handler says about a record, and what is known about a failure.
#![forbid(unsafe_code)]

use super::contain::{contain, drop_contained};
use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The kind of a failure that was a panic.
pub const PANIC: &str = "panic";

/// Why one delivery failed: a kind, and either the error itself or a text.
///
/// The message is formatted only when somebody asks, outside every lock; an error whose `Display` or `Drop` panics is
/// contained.
pub struct Failure {
    kind: &'static str,
    error: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure of the kind `E`: its name without the path; `"error"` for a text, and where the type is forgotten, in a box.
    pub fn new<E: Into<Box<dyn Error + Send + Sync>>>(error: E) -> Self {
        Failure { kind: short(std::any::type_name::<E>()), error: Some(error.into()) }
    }

    /// A failure with a kind of your own.
    pub fn of_kind<E: Into<Box<dyn Error + Send + Sync>>>(kind: &'static str, error: E) -> Self {
        Failure { kind, error: Some(error.into()) }
    }

    pub(super) fn panic(message: String) -> Self {
        Failure { kind: PANIC, error: Some(message.into()) }
    }

    /// The error's name without the path (`"error"` if it is a text, or came in a box), the kind given, or `"panic"`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The error's text; if formatting it panics, that panic's.
    pub fn message(&self) -> String {
        let Some(error) = &self.error else { return String::new() };
        contain(|| error.to_string()).unwrap_or_else(|panic| format!("formatting the error panicked: {panic}"))
    }

    /// The error object.
    pub fn error(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.error.as_deref()
    }
}

/// The name of a type without its path and its parameters; a text, and one in a box, is an error and no more.
fn short(name: &'static str) -> &'static str {
    let plain = name.split_once('<').map_or(name, |(plain, _)| plain);
    match plain.rsplit("::").next() {
        Some("Box" | "&str" | "String" | "Cow") => "error",
        Some(last) => last,
        None => name,
    }
}

impl Drop for Failure {
    fn drop(&mut self) {
        if let Some(error) = self.error.take() {
            drop_contained(error);
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failure({})", self.kind)
    }
}

/// What becomes of a record after its handler returned.
#[derive(Debug)]
pub enum Outcome {
    /// Done; the offset moves on.
    Ack,
    /// Failed: again after the group's backoff, until the attempts are used up, then it is buried.
    Retry(Failure),
    /// Failed: again after this time instead of the backoff; it counts as an attempt all the same.
    RetryAfter(Duration, Failure),
    /// Failed for good: buried at once.
    Reject(Failure),
}

impl Outcome {
    /// [`Outcome::Retry`] with an error.
    pub fn retry<E: Into<Box<dyn Error + Send + Sync>>>(error: E) -> Self {
        Outcome::Retry(Failure::new(error))
    }

    /// [`Outcome::RetryAfter`] with an error.
    pub fn retry_after<E: Into<Box<dyn Error + Send + Sync>>>(wait: Duration, error: E) -> Self {
        Outcome::RetryAfter(wait, Failure::new(error))
    }

    /// [`Outcome::Reject`] with an error.
    pub fn reject<E: Into<Box<dyn Error + Send + Sync>>>(error: E) -> Self {
        Outcome::Reject(Failure::new(error))
    }
}

/// What a record handler may return: `()`, `Result<(), E>` or an [`Outcome`].
#[diagnostic::on_unimplemented(
    message = "a handler of records returns `{Self}`, which says nothing about the record",
    label = "this is returned by a handler",
    note = "return `()`, `Result<(), E>` (with `E: Into<Box<dyn Error + Send + Sync>>`) or an `Outcome`",
    note = "of a `Result` with something else in `Ok`, use `.map(drop)`"
)]
pub trait IntoOutcome {
    /// The outcome it stands for.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    #[inline(always)]
    fn into_outcome(self) -> Outcome {
        Outcome::Ack
    }
}

impl IntoOutcome for Outcome {
    #[inline(always)]
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> IntoOutcome for Result<(), E> {
    #[inline]
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(()) => Outcome::Ack,
            Err(error) => Outcome::retry(error),
        }
    }
}

/// What became of a batch: how many of its records are done, and what happened to the one behind them.
#[derive(Debug)]
pub struct BatchOutcome {
    pub(super) done: Option<usize>,
    pub(super) then: Outcome,
}

impl BatchOutcome {
    /// The first `done` records are done (more than there are: all are), and `then` is about the next one. With
    /// [`Outcome::Ack`] the rest is simply handed out again.
    pub fn after(done: usize, then: Outcome) -> Self {
        BatchOutcome { done: Some(done), then }
    }
}

/// What a batch handler may return: `()`, `Result<(), E>` or a [`BatchOutcome`].
///
/// An `Err`, and a panic, do not say which record is at fault. Nothing is acked then, and the same records are handed
/// out again one by one, each with its own attempts, so that the poison record is found and its neighbours are not
/// buried for it.
#[diagnostic::on_unimplemented(
    message = "a handler of batches returns `{Self}`, which says nothing about the batch",
    label = "this is returned by a handler",
    note = "return `()`, `Result<(), E>` (with `E: Into<Box<dyn Error + Send + Sync>>`) or a `BatchOutcome`",
    note = "of a `Result` with something else in `Ok`, use `.map(drop)`"
)]
pub trait IntoBatchOutcome {
    /// The outcome it stands for.
    fn into_batch_outcome(self) -> BatchOutcome;
}

impl IntoBatchOutcome for () {
    fn into_batch_outcome(self) -> BatchOutcome {
        BatchOutcome { done: None, then: Outcome::Ack }
    }
}

impl IntoBatchOutcome for BatchOutcome {
    fn into_batch_outcome(self) -> BatchOutcome {
        self
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> IntoBatchOutcome for Result<(), E> {
    fn into_batch_outcome(self) -> BatchOutcome {
        BatchOutcome { done: None, then: self.into_outcome() }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Failure, IntoOutcome, Outcome, PANIC};
    use std::fmt;

    #[derive(Debug)]
    struct Rude;
    impl fmt::Display for Rude {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("no text for you")
        }
    }
    impl std::error::Error for Rude {}
    impl Drop for Rude {
        fn drop(&mut self) {
            panic!("nor a quiet end")
        }
    }

    //
    #[test]
    fn a_failure_keeps_the_error_with_its_kind_and_its_message() {
        let Outcome::Retry(failure) = Err::<(), _>("cannot process".to_owned()).into_outcome() else { panic!() };
        assert_eq!((failure.kind(), failure.message().as_str()), ("error", "cannot process"));
        assert!(failure.error().is_some());
        let boxed: Box<dyn std::error::Error + Send + Sync> = "cannot process".into();
        assert_eq!((Failure::new(boxed).kind(), Failure::new("x").kind()), ("error", "error"));
        assert_eq!((Failure::new(Rude).kind(), Failure::new(std::fmt::Error).kind()), ("Rude", "Error"));
        assert_eq!(Failure::panic("x".into()).kind(), PANIC);
    }

    //
    #[test]
    fn an_error_that_panics_while_formatted_or_dropped_is_contained() {
        let failure = Failure::new(Rude);
        assert_eq!(failure.message(), "formatting the error panicked: no text for you");
        drop(failure);
    }
}
