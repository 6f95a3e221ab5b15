//! What ringlog's benchmarks share.
