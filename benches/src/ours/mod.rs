//! ringlog's own ends: the ring alone, and the whole path through the public API.
pub mod claims;
pub mod paced;
pub mod polled;
pub mod pooled;
pub mod ring;
pub mod text;
pub mod whole;
