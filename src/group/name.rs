//! Names of topics, groups and members: what may be one.
#![forbid(unsafe_code)]

use crate::sync::Arc;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty. Give at least one character.
    #[error("name must be non-empty")]
    Empty,
    /// The text is longer than [`NAME_BYTES_MAX`].
    #[error("name has {bytes} bytes, must have at most {NAME_BYTES_MAX}")]
    TooLong {
        /// The length found.
        bytes: usize,
    },
    /// The text holds a control character, which would spoil reports and logs.
    #[error("name {name:?} holds a control character at byte {at}")]
    Control {
        /// The text.
        name: String,
        /// Where the first one stands, in bytes.
        at: usize,
    },
}

/// `text` as a shared name.
pub(crate) fn check(text: &str) -> Result<Arc<str>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(NameError::Control { name: text.to_owned(), at }),
        None => Ok(text.into()),
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{NAME_BYTES_MAX, NameError, check};

    #[test]
    fn names_are_short_and_printable() {
        assert_eq!(check(""), Err(NameError::Empty));
        assert_eq!(check(&"x".repeat(NAME_BYTES_MAX + 1)), Err(NameError::TooLong { bytes: 256 }));
        assert!(matches!(check("a\nb"), Err(NameError::Control { at: 1, .. })));
        assert_eq!(check(&"x".repeat(NAME_BYTES_MAX)).as_deref(), Ok("x".repeat(NAME_BYTES_MAX).as_str()));
        assert_eq!(check("Bestellungen/é.1").as_deref(), Ok("Bestellungen/é.1"));
    }
}
