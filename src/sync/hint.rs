//! Processor hints: prefetching, and the asymmetric barrier pair.
