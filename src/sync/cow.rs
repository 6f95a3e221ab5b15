//! A read-mostly value that is copied on change (`ArcSwap`; a mutex stands in under loom, which cannot see into it).
#![forbid(unsafe_code)]
