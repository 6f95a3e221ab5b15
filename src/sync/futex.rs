//! A 32-bit word to sleep on, with a deadline.
