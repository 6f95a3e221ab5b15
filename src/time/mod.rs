//! Time and identifiers, both injected.
#![forbid(unsafe_code)]
